"""Whether the scores of a predictions file are logits or probabilities.

The two project differently onto coarser classes: `sum` and `mean` add exp z of logits and p of
probabilities, so that probabilities taken for logits make every class nearly equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustness.core.errors import InputError
from robustness.models.label_space import LOGITS, PROBABILITIES, SCORES

AUTO = 'auto'
KINDS = (AUTO, *SCORES)
SUM_TOLERANCE = 0.01
"""How far from 1 a row of probabilities may sum to: files are often rounded to a few digits."""


def score_kind(scores: np.ndarray, frames: Sequence[str], stated: str, title: str) -> str:
  """Returns 'logits' or 'probabilities'.

  Scores are probabilities if every one lies in [0, 1] and every row sums to 1, and logits if one
  lies outside of [0, 1].

  Args:
    scores: float [F, C], without NaN.
    frames: their F paths, for messages.
    stated: 'auto', or what the user states.
    title: the file, for messages.

  Raises:
    InputError: 'auto' for scores in [0, 1] whose rows do not sum to 1, or for percentages;
      'logits' for what are probabilities; 'probabilities' for a score outside of [0, 1].
  """
  outside = (scores < 0) | (scores > 1 + 1e-6)
  if stated == PROBABILITIES:
    if outside.any():
      row, column = (int(place) for place in np.argwhere(outside)[0])
      raise InputError(
        f'{title}: config.scores is {PROBABILITIES!r}, but {int(outside.any(1).sum())} of '
        f'{len(frames)} frames have scores outside of [0, 1], first {frames[row]!r}, class '
        f'{column}: {scores[row, column]:g}. Set config.scores to {LOGITS!r}, or correct the file.'
      )
    return PROBABILITIES
  sums = scores.sum(1)
  if outside.any():
    _refuse_percentages(scores, sums, title)
    return LOGITS
  uneven = np.abs(sums - 1) > SUM_TOLERANCE
  if not uneven.any():
    if stated == LOGITS:
      raise InputError(
        f'{title}: config.scores is {LOGITS!r}, but every score lies in [0, 1] and every frame '
        f"sums to 1: these are probabilities. Set config.scores to {PROBABILITIES!r} or '{AUTO}'."
      )
    return PROBABILITIES
  if stated == AUTO:
    row = int(np.argmax(uneven))
    raise InputError(
      f'{title}: every score lies in [0, 1], but {int(uneven.sum())} of {len(frames)} frames do '
      f'not sum to 1, first {frames[row]!r} with {sums[row]:.4g}: set config.scores to '
      f'{PROBABILITIES!r} or {LOGITS!r}.'
    )
  return LOGITS


def _refuse_percentages(scores: np.ndarray, sums: np.ndarray, title: str) -> None:
  if (scores >= 0).all() and (np.abs(sums / 100 - 1) <= SUM_TOLERANCE).all():
    raise InputError(
      f'{title}: no score is negative and every frame sums to 100: these are percentages. Divide '
      'them by 100.'
    )
