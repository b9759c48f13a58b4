"""Tests that devices, pipes, links and files above a limit are refused before they are read."""

import os

import pytest

from robustness.core import json_files
from robustness.core.bounded_files import open_regular, read_bounded, refuse_special
from tests.refusals import refused


def test_endless_files_are_refused(tmp_path):
  (tmp_path / 'zero').symlink_to('/dev/zero')
  os.mkfifo(tmp_path / 'pipe')
  for name in ('zero', 'pipe'):
    refused(f'{name} is a device, a pipe or a socket', read_bounded, tmp_path / name, 10)
    refused('Write it anew', json_files.read, tmp_path / name, advice='Write it anew.')


def test_a_file_is_read_through_links_up_to_the_limit(tmp_path):
  (tmp_path / 'file').write_bytes(b'x' * 10)
  (tmp_path / 'link').symlink_to(tmp_path / 'file')
  assert read_bounded(tmp_path / 'link', 10) == b'x' * 10
  refused('link is larger than', read_bounded, tmp_path / 'link', 9)
  with pytest.raises(FileNotFoundError):
    read_bounded(tmp_path / 'none', 9)
  with pytest.raises(IsADirectoryError):
    open_regular(tmp_path)


def test_a_sparse_file_of_any_size_is_not_read(tmp_path):
  with open(tmp_path / 'sparse', 'wb') as file:
    file.truncate(2**40)
  refused('sparse is larger than', read_bounded, tmp_path / 'sparse', 1000)


@pytest.mark.parametrize('make', [lambda p: p.symlink_to('/etc/passwd'), os.mkfifo])
def test_a_folder_with_a_link_or_a_pipe_at_any_depth_is_named(tmp_path, make):
  (tmp_path / 'entry/records/a').mkdir(parents=True)
  (tmp_path / 'entry/records/a/file').touch()
  refuse_special(tmp_path / 'entry')
  make(tmp_path / 'entry/records/a/special')
  refused(r'entry/records/a/special is a ', refuse_special, tmp_path / 'entry')
  (tmp_path / 'other').symlink_to(tmp_path / 'entry')
  refused('other is a link', refuse_special, tmp_path / 'other')
