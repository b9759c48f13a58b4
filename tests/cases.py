"""A test's table of cases."""

from typing import Any

import pytest


def cases(names: str, *rows: Any, **options: Any) -> pytest.MarkDecorator:
  """Runs a test once for each row, whose values its arguments `names` take in order."""
  return pytest.mark.parametrize(names, rows, **options)
