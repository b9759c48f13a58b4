"""Paths as users write them are those of files, or are refused in one line."""

import pathlib

import pytest

from robustness.core.paths import expanded
from tests.refusals import refused


def test_the_home_folder_is_put_in_and_unknown_users_named(monkeypatch):
  monkeypatch.setenv('HOME', '/home/someone')
  assert expanded('~/data') == pathlib.Path('/home/someone/data')
  assert expanded('data/~') == pathlib.Path('data/~')
  refused('~nosuchuser/x begins with the home folder of an unknown', expanded, '~nosuchuser/x')


@pytest.mark.parametrize('path', ['a\0b', 'caf\udce9', 'x' * 256])
def test_what_no_file_can_be_called_is_one_line(path):
  raised = refused('is no path', expanded, path)
  assert path not in raised and raised.isascii()
