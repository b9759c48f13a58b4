r"""Effective robustness: accuracy on shifted images above what clean accuracy lets expect.

A line through other models, shifted = β(clean), is fitted after each accuracy is put on the logit
scale, where such points lie on lines (Taori et al. 2020, section 2 and appendix); the effective
robustness of a model is ρ = shifted - β(clean), in points of accuracy.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from robustness.core.errors import InputError

FEWEST = 3
"""Models that a line is fitted to, none of which is the one that is judged."""


def expected_accuracy(clean: ArrayLike, shifted: ArrayLike, at: ArrayLike, n: int) -> np.ndarray:
  """Returns β(at) of the line through the logits of accuracies [..., M] of M ≥ 3 models, [...].

  Accuracies of 0 and 1 have no logit: they count as those of half of the n images more or less. It
  is NaN where all models have one clean accuracy.

  Raises:
    InputError: fewer than `FEWEST` models.
  """
  models = np.asarray(clean).shape[-1]
  if models < FEWEST:
    raise InputError(f'a line needs at least {FEWEST} models, not {models}.')
  x, y, new = (special.logit(np.clip(a, 0.5 / n, 1 - 0.5 / n)) for a in (clean, shifted, at))
  centre, level = x.mean(-1, keepdims=True), y.mean(-1, keepdims=True)
  spread = ((x - centre) ** 2).sum(-1)
  covariance = ((x - centre) * (y - level)).sum(-1)
  slope = np.divide(covariance, spread, out=np.full(spread.shape, np.nan), where=spread > 1e-12)
  return np.asarray(special.expit(level[..., 0] + slope * (new - centre[..., 0])))


def effective_robustness(clean: ArrayLike, shifted: ArrayLike, n: int) -> np.ndarray:
  """Returns ρ of each model against the line through all others, [..., M]; see the module."""
  x, y = np.asarray(clean, float), np.asarray(shifted, float)
  others = [np.delete(np.arange(x.shape[-1]), model) for model in range(x.shape[-1])]
  lines = [
    expected_accuracy(x[..., rest], y[..., rest], x[..., model], n)
    for model, rest in enumerate(others)
  ]
  return np.asarray(y - np.stack(lines, -1))
