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
