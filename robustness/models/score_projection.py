"""Saved scores onto a coarser label space, in NumPy: any merge rule without a model.

`robustness.models.projection` does the same on the device.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 3.1.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from robustness.core.errors import InputError, nearest
from robustness.models.label_space import MERGES, LabelSpace

LOGITS, PROBABILITIES = 'logits', 'probabilities'
SCORES = (LOGITS, PROBABILITIES)


def project_scores(
  scores: np.ndarray, space: LabelSpace, merge: str = 'max', kind: str = LOGITS
) -> np.ndarray:
  """Returns scores of the coarse classes; a class without members has −∞.

  Over the members M_c of class c: max z_m, log Σ exp z_m or log (Σ exp z_m / |M_c|) of logits, and
  max p_m, Σ p_m or Σ p_m / |M_c| of probabilities. The largest coarse score is the same class for
  logits and for their softmax.

  Args:
    scores: [N, classes of the fine space].
    space: coarse classes with their members.
    merge: 'max', 'sum' or 'mean'.
    kind: 'logits' or 'probabilities'.

  Returns:
    [N, coarse classes], of the dtype of `scores`.

  Raises:
    InputError: another merge or kind, a space without members, too few scores, or negative
      probabilities.
  """
  for name, value, valid in (('merge', merge, MERGES), ('scores', kind, SCORES)):
    if value not in valid:
      raise InputError(f'{name} is {value!r}; {nearest(value, valid)}.')
  needed = max((max(m) for m in space.members if m), default=-1) + 1
  if not needed or scores.shape[-1] < needed:
    raise InputError(
      f'{scores.shape[-1]} scores a frame cannot be projected onto {space.name!r}: '
      f'it is made of {needed} classes of {space.source or "no other space"!r}.'
    )
  if kind == PROBABILITIES and scores.size and scores.min() < 0:
    raise InputError(f"probabilities are {scores.min():g} at least: set scores to 'logits'.")
  projected = np.full((len(scores), len(space.members)), -np.inf, scores.dtype)
  for column, members in enumerate(space.members):
    if members:
      projected[:, column] = _merged(scores[:, list(members)], merge, kind)
  return projected


def _merged(values: np.ndarray, merge: str, kind: str) -> np.ndarray:
  if merge == 'max':
    return values.max(1)
  if kind == PROBABILITIES:
    return values.sum(1) / (values.shape[1] if merge == 'mean' else 1)
  total = special.logsumexp(values, axis=1)
  return total - np.log(values.shape[1]) if merge == 'mean' else total
