"""Small print under a study's first figure: which numbers these are."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from robustness.figures import style
from robustness.results import WHICH_NUMBERS, Results, Table

Figures = Mapping[str, tuple[Figure, str]]


def boxed(figures: Figures, results: Results) -> Figures:
  """Returns the figures, the first with what the table `WHICH_NUMBERS` says, if there is one."""
  if WHICH_NUMBERS in results.tables and figures:
    first = next(iter(figures.values()))[0]
    style.add_box(first, in_words(results.tables[WHICH_NUMBERS]))
  return figures


def in_words(stated: Table) -> str:
  """Returns the table as one line."""
  return '; '.join(f'{what}: {value}' for what, value in stated.rows)
