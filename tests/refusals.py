"""Asserts that a function refuses a key and value of the config, or raises an error message."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from robustness.core.errors import InputError, SettingError

ANY_VALUE = object()


@dataclasses.dataclass(frozen=True)
class Setting:
  """A key of the config that is refused; see `bad_setting`."""

  key: str
  value: object
  words: str

  def check(self, error: InputError) -> None:
    """Raises AssertionError unless the error is about this key and value."""
    assert isinstance(error, SettingError), error
    assert error.key == self.key, error
    assert self.value is ANY_VALUE or (type(self.value), self.value) == (
      type(error.value),
      error.value,
    ), error
    assert re.search(self.words, str(error)), error


def bad_setting(key: str, value: object = ANY_VALUE, words: str = '') -> Setting:
  """Returns an expectation for `refused`: the error names this key, this value and these words.

  Without a value any value is accepted, such as the path of a temporary file.
  """
  return Setting(key, value, words)


def refused(
  expected: str | re.Pattern[str] | Setting, function: Callable[..., Any], /, *args, **kwargs
) -> str:
  """Checks that a call raises an InputError about a setting, or with a pattern in its text.

  Returns:
    The text of the error.
  """
  with pytest.raises(InputError) as raised:
    function(*args, **kwargs)
  text = str(raised.value)
  if isinstance(expected, Setting):
    expected.check(raised.value)
  else:
    assert re.search(expected, text), f'{expected!r} is not in: {text}'
  return text


def in_one_line_or_not_at_all(function: Callable[..., Any], *args: Any) -> None:
  """Checks that a call succeeds or raises an InputError of one line."""
  try:
    function(*args)
  except InputError as error:
    assert '\n' not in str(error), error
