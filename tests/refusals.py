"""What a function refuses, and in what words."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from robustness.core.errors import InputError


def refused(
  message: str | re.Pattern[str], function: Callable[..., Any], /, *args, **kwargs
) -> str:
  """Checks that a call raises an InputError that the pattern is found in; returns its text."""
  with pytest.raises(InputError, match=message) as raised:
    function(*args, **kwargs)
  return str(raised.value)


def in_one_line_or_not_at_all(function: Callable[..., Any], *args: Any) -> None:
  try:
    function(*args)
  except InputError as error:
    assert '\n' not in str(error), error
