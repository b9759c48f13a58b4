"""Paths as a user writes them."""

from __future__ import annotations

import pathlib

import pytest

from robustness.core.errors import InputError
from robustness.core.paths import expanded


def test_the_home_folder_is_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setenv('HOME', '/home/someone')
  assert expanded('~/data') == pathlib.Path('/home/someone/data')
  assert expanded('data/~') == pathlib.Path('data/~')


def test_an_unknown_user_is_one_line() -> None:
  with pytest.raises(InputError, match='~nosuchuser/x begins with the home folder of an unknown'):
    expanded('~nosuchuser/x')


@pytest.mark.parametrize('path', ['a\0b', 'caf\udce9', 'x' * 256])
def test_what_no_file_can_be_called_is_one_line(path: str) -> None:
  with pytest.raises(InputError, match='is no path') as raised:
    expanded(path)
  assert path not in str(raised.value) and str(raised.value).isascii()
