"""Files are written whole or not at all."""

from __future__ import annotations

import os

import pytest

from robustness.core.atomic_files import write_atomically


def test_writes_and_replaces_and_makes_directories(tmp_path):
  path = tmp_path / 'new' / 'file.bin'
  write_atomically(path, b'one')
  write_atomically(path, b'two')
  assert path.read_bytes() == b'two'
  assert os.listdir(path.parent) == ['file.bin']


def test_a_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path, monkeypatch):
  path = tmp_path / 'file.bin'
  write_atomically(path, b'old')

  def full(descriptor):
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(os, 'fsync', full)
  with pytest.raises(OSError, match='No space left'):
    write_atomically(path, b'new')
  assert path.read_bytes() == b'old'
  assert os.listdir(tmp_path) == ['file.bin']
