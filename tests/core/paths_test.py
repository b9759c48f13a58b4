"""Tests paths that users write: home folders, invalid names, and ignored folders."""

import errno
import os
import pathlib
import sys
from collections import Counter

import pytest

from robustness.core.paths import HIDDEN, HIDDEN_FOLDERS, NOT_REGULAR, SYSTEM, expanded, files_in
from tests.refusals import refused


def test_home_folders_are_expanded_and_unknown_users_named(monkeypatch):
  monkeypatch.setenv('HOME', '/home/someone')
  assert expanded('~/data') == pathlib.Path('/home/someone/data')
  assert expanded('data/~') == pathlib.Path('data/~')
  refused('~nosuchuser/x begins with the home folder of an unknown', expanded, '~nosuchuser/x')


@pytest.mark.parametrize('path', ['a\0b', 'caf\udce9', 'x' * 256, 'a/' * 2048])
def test_invalid_file_names_are_one_line(path):
  raised = refused('is no path', expanded, path)
  assert path not in raised and raised.isascii()


@pytest.mark.parametrize('path', [3, b'run', None])
def test_what_is_no_text_and_no_path_is_refused(path):
  refused(f'{path!r} is no path: give a text', expanded, path)


def test_a_locale_without_unicode_is_named_with_the_variable_to_set(monkeypatch):
  monkeypatch.setattr(sys, 'getfilesystemencoding', lambda: 'ascii')
  refused('is no path.* ascii .*PYTHONUTF8=1', expanded, 'caf\udcc3\udca9')


def test_system_folders_and_pipes_are_ignored_and_counted(tmp_path):
  for name in ('a.png', 'x/b.png', 'x/@eaDir/b.png', '.git/c.png', '$RECYCLE.BIN/d.png', 'x/.e'):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
  os.mkfifo(tmp_path / 'x/pipe')
  left_out = Counter()
  files = files_in(tmp_path, left_out=left_out)
  assert [file.name for file in files] == ['a.png', 'b.png']
  assert left_out == {HIDDEN: 1, HIDDEN_FOLDERS: 1, SYSTEM: 2, NOT_REGULAR: 1}
  assert files_in(tmp_path, deep=False) == [tmp_path / 'a.png']


def test_a_folder_that_cannot_be_listed_is_refused_and_not_left_out(tmp_path, monkeypatch):
  listed = os.scandir
  (tmp_path / 'private').mkdir()

  def scandir(path):
    """Lists a folder unless it is private; the superuser, who may run tests, can list all."""
    if str(path).endswith('private'):
      raise PermissionError(errno.EACCES, 'Permission denied', str(path))
    return listed(path)

  monkeypatch.setattr(os, 'scandir', scandir)
  refused('cannot list the folder .*/private: Permission denied', files_in, tmp_path)
