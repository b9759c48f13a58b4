"""Tests advice on faults of a disk, and that missing space is an error before writing."""

import errno

import pytest

from robustness.core import disk
from robustness.core.atomic_files import write_atomically
from tests.cases import cases


def caused(error, cause):
  """Returns an error with a cause."""
  error.__cause__ = cause
  return error


@cases(
  'error, message',
  (OSError(errno.ENOSPC, 'No space left on device', 'a.npz'), 'no space left on disk (a.npz)'),
  (OSError(errno.EDQUOT, 'Disk quota exceeded'), 'no space left on disk (work)'),
  (ValueError("RESOURCE_EXHAUSTED: No space left on device [os_error_code='28']"), 'no space'),
  (caused(RuntimeError('cannot save'), OSError(errno.ENOSPC, 'No space')), 'no space left'),
  (OSError(errno.EFBIG, 'File too large', 'd'), 'd: file too large. What was computed is kept'),
  (ValueError('RESOURCE_EXHAUSTED: File too large [OS error 27]'), 'work: file too large'),
  (OSError(errno.EROFS, 'Read-only file system', 'b'), 'b: read-only file system. Give'),
  (PermissionError(errno.EACCES, 'Permission denied', 'c'), 'c: permission denied. Give'),
  (ValueError('UNKNOWN: Read-only file system'), 'work: read-only file system'),
  (ValueError('out of memory'), None),
  (FileNotFoundError(errno.ENOENT, 'No such file', 'x'), None),
  (RuntimeError('cudaErrorNotPermitted: operation not permitted'), None),
)
def test_only_faults_of_a_disk_have_advice(error, message):
  advice = disk.advice(error, 'work')
  assert advice is None if message is None else message in (advice or '')


def test_advice_to_a_command_without_workdir_names_a_folder():
  assert disk.advice(OSError(errno.ENOSPC, 'No space'), '').startswith('no space left on disk. ')
  advice = disk.advice(PermissionError(errno.EACCES, 'Permission denied', 'c'), '')
  assert advice.startswith('c: permission denied. Give a folder that can be written to')


def test_files_in_the_way_of_a_workdir_are_named(tmp_path):
  (tmp_path / 'records').write_text('')
  (tmp_path / 'results.json').mkdir()
  for name, at_fault in (('records/net/header.json', 'records'), ('results.json', 'results.json')):
    with pytest.raises(OSError) as raised:
      write_atomically(tmp_path / name, b'')
    advice = disk.advice(raised.value, tmp_path)
    assert advice is not None and advice.startswith(f'{tmp_path / at_fault} is in the way')
    assert disk.advice(raised.value, tmp_path / 'elsewhere') is None


def test_missing_space_is_an_error_before_writing(tmp_path):
  disk.require_space(tmp_path, 0)
  with pytest.raises(OSError, match='No space left') as raised:
    disk.require_space(tmp_path, 2**62)
  assert raised.value.errno == errno.ENOSPC
