"""The severity at which a classifier fails: its accuracy falls below a share of clean accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustness.core.errors import InputError
from robustness.estimates.intervals import percentile_interval
from robustness.results import Number

_DRAWS = 256  # bootstrap samples held at once
BEFORE, NEVER = 'at or before the lowest severity', 'not reached'


def failure_severity(
  accuracy: np.ndarray, clean: np.ndarray | float, severities: Sequence[float], share: float
) -> np.ndarray:
  """Returns the first severity at which accuracy is below `share` × clean accuracy.

  Between the severities accuracy is taken as linear. What is below at the lowest severity gives
  that one: nothing is known of weaker corruptions.

  Args:
    accuracy: at each severity, fractions [..., S].
    clean: accuracy without corruption, [...].
    severities: ascending, [S].
    share: in (0, 1).

  Returns:
    float64 [...]; infinite where accuracy stays above.

  Raises:
    InputError: severities that do not ascend, or are no more than accuracies.
  """
  table, levels = np.asarray(accuracy, float), np.asarray(severities, float)
  if levels.ndim != 1 or (np.diff(levels) <= 0).any() or table.shape[-1] != len(levels):
    raise InputError(
      f'severities are {levels.tolist()} for {table.shape[-1]} accuracies; give one for each, '
      'ascending.'
    )
  threshold = share * np.asarray(clean, float)
  below = table < threshold[..., None]
  first = below.argmax(-1)
  before = np.maximum(first - 1, 0)
  high, low = (np.take_along_axis(table, k[..., None], -1)[..., 0] for k in (before, first))
  drop = high - low
  part = np.divide(high - threshold, drop, out=np.zeros_like(drop), where=(drop > 0) & (first > 0))
  found = levels[before] + part * (levels[first] - levels[before])
  return np.where(below.any(-1), found, np.inf)


def failure_point(
  right: np.ndarray,
  clean: np.ndarray,
  severities: Sequence[float],
  share: float,
  confidence: float = 0.95,
  samples: int = 1000,
  seed: int = 0,
) -> Number:
  """Returns the failure severity with a bootstrap interval over images.

  Args:
    right: whether each image is right at each severity, bool [N, S].
    clean: whether it is right without corruption, bool [N].
    severities: ascending, [S].
    share: of clean accuracy, in (0, 1).
    confidence: of the interval.
    samples: of the bootstrap.
    seed: of the bootstrap.

  Returns:
    NaN where accuracy stays above, with a note. An interval that reaches beyond the highest
    severity ends there and says so.
  """
  table = np.column_stack([clean, right]).astype(float)
  whole = table.mean(0)
  value = float(failure_severity(whole[1:], whole[0], severities, share))
  name = f'bootstrap over images {confidence:g}'
  drawn = _resampled(table, severities, share, samples, seed)
  reached = np.isfinite(drawn).mean()
  if not np.isfinite(value):
    note = f'{NEVER} by severity {severities[-1]:g}'
    note += f'; reached in {100 * reached:.0f} % of bootstrap samples' if reached else ''
    return Number(np.nan, np.nan, np.nan, len(table), name, note)
  drawn = np.minimum(drawn, severities[-1])
  low, high = (float(end) for end in percentile_interval(drawn, len(table), confidence))
  notes = [BEFORE] if value == severities[0] else []
  if reached < 1:
    notes.append(
      f'{NEVER} by {severities[-1]:g} in {100 * (1 - reached):.1f} % of bootstrap samples'
    )
  return Number(value, min(low, value), max(high, value), len(table), name, '; '.join(notes))


def _resampled(
  table: np.ndarray, severities: Sequence[float], share: float, samples: int, seed: int
) -> np.ndarray:
  """Returns the failure severity of resampled images, [samples]."""
  rng, count = np.random.default_rng(seed), len(table)
  parts = []
  for begin in range(0, samples, _DRAWS):
    size = min(_DRAWS, samples - begin)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size) @ table / count
    parts.append(failure_severity(drawn[:, 1:], drawn[:, 0], severities, share))
  return np.concatenate(parts)
