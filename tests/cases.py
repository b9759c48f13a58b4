"""Decorators and arguments of parametrized tests."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cases(names: str, *rows: Any, **options: Any) -> pytest.MarkDecorator:
  """Runs a test once for each row, with the values of the row as its arguments `names`."""
  return pytest.mark.parametrize(names, rows, **options)


def marked(
  names: Iterable[str], quick: Collection[str], mark: pytest.MarkDecorator = pytest.mark.slow
) -> list[Any]:
  """Returns names for `parametrize`; names that are not in `quick` get a mark, by default slow."""
  return [name if name in quick else pytest.param(name, marks=mark) for name in names]
