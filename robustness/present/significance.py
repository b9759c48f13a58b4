"""Which paired differences are marked: one rule for all figures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from robustness.estimates.comparison import benjamini_hochberg

RATE = 0.05
"""The false-discovery rate where a study has no setting of that name."""


def significant(rows: pd.DataFrame, rate: float = RATE) -> np.ndarray:
  """Returns which differences are shown to be other than 0, bool [n].

  Where all have p-values, these are tested together for each classifier at a false-discovery rate
  (`robustness.estimates.comparison.benjamini_hochberg`); else a difference is significant whose own
  interval leaves out 0.

  Args:
    rows: paired differences of the table of results, of one picture.
    rate: in (0, 1).
  """
  marked = ((rows['low'] > 0) | (rows['high'] < 0)).to_numpy(copy=True)
  if not _tested(rows):
    return marked
  p, labels = rows['p'].to_numpy(), rows['classifier'].to_numpy()
  for label in dict.fromkeys(labels):
    own = labels == label
    marked[own] = benjamini_hochberg(p[own], rate).significant
  return marked


def explained(rows: pd.DataFrame, rate: float = RATE) -> str:
  """Returns what a mark means, for a caption: 'significant (paired test, …)'."""
  if not _tested(rows):
    return 'significant (its own interval leaves out 0)'
  most = int(rows.groupby('classifier', sort=False).size().max())
  tests = f' over the {most:,} of each classifier' if most > 1 else ''
  return f'significant (paired test, false-discovery rate {100 * rate:g} %{tests})'


def _tested(rows: pd.DataFrame) -> bool:
  return bool(len(rows)) and bool(rows['p'].notna().all())
