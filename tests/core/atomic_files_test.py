"""Tests that a file is written completely or not at all."""

import os
from unittest import mock

import pytest

from robustness.core.atomic_files import write_atomically


def test_a_file_is_replaced_or_unchanged_and_no_other_file_stays(tmp_path, monkeypatch):
  path = tmp_path / 'new' / 'file.bin'
  write_atomically(path, b'one')
  write_atomically(path, b'old')
  assert path.read_bytes() == b'old'
  assert os.listdir(path.parent) == ['file.bin']
  monkeypatch.setattr(os, 'fsync', mock.Mock(side_effect=OSError(28, 'No space left on device')))
  with pytest.raises(OSError, match='No space left') as raised:
    write_atomically(path, b'new')
  assert raised.value.filename == str(path)
  assert path.read_bytes() == b'old'
  assert os.listdir(path.parent) == ['file.bin']


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path):
  with pytest.raises(IsADirectoryError) as raised:
    write_atomically(tmp_path, b'')  # renamed to the name of a folder
  assert raised.value.filename == str(tmp_path)
