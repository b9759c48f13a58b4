"""Faults of a disk are told from other errors, whatever library reports them."""

from __future__ import annotations

import errno
import pathlib

import pytest

from robustness.core import disk


def caused(error: Exception, cause: Exception) -> Exception:
  error.__cause__ = cause
  return error


@pytest.mark.parametrize(
  ('error', 'message'),
  [
    (
      OSError(errno.ENOSPC, 'No space left on device', 'a.npz'),
      r'no space left on disk \(a\.npz\)',
    ),
    (OSError(errno.EDQUOT, 'Disk quota exceeded'), r'no space left on disk \(work\)'),
    (ValueError("RESOURCE_EXHAUSTED: No space left on device [os_error_code='28']"), r'no space'),
    (caused(RuntimeError('cannot save'), OSError(errno.ENOSPC, 'No space')), r'no space left'),
    (OSError(errno.EROFS, 'Read-only file system', 'b'), r'b: read-only file system\. Give'),
    (PermissionError(errno.EACCES, 'Permission denied', 'c'), r'c: permission denied\. Give'),
    (ValueError('UNKNOWN: Read-only file system'), r'work: read-only file system'),
  ],
)
def test_faults_of_a_disk_have_advice(error: Exception, message: str) -> None:
  advice = disk.advice(error, 'work')
  assert advice is not None
  with pytest.raises(OSError, match=message):
    raise OSError(advice)


@pytest.mark.parametrize(
  'error',
  [
    ValueError('out of memory'),
    FileNotFoundError(errno.ENOENT, 'No such file', 'x'),
    RuntimeError('cudaErrorNotPermitted: operation not permitted'),
  ],
)
def test_other_errors_have_none(error: Exception) -> None:
  assert disk.advice(error, 'work') is None


def test_room_that_is_not_there_is_told_before_writing(tmp_path: pathlib.Path) -> None:
  disk.require_space(tmp_path, 0)
  with pytest.raises(OSError, match='No space left') as raised:
    disk.require_space(tmp_path, 2**62)
  assert raised.value.errno == errno.ENOSPC
