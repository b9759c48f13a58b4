"""How far an augmentation is from a corruption: the minimal sample distance of their features.

Reference:
  Mintun, Kirillov & Xie (2021), On Interaction Between Augmentations and Corruptions in Natural
  Corruption Robustness, section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError


def minimal_sample_distance(augmentation: ArrayLike, corruption: ArrayLike) -> float:
  """Returns min_a ‖f(a) − mean_c f(c)‖₂, 0 where one sample of the augmentation is the corruption.

  f(t) is the mean over a fixed set of images (the paper takes 100 of the training images) of what
  the last layer but one of a trained classifier gives for an image under the transform t, all of
  whose draws are fixed. An augmentation with one sample near the corruption scores low, however
  rare that sample is. It is not symmetric, never grows with more samples, and has the scale of the
  features: values compare under one classifier only.

  Args:
    augmentation: f of each of A samples of the augmentation, [A, D] (paper: 100 000 samples).
    corruption: f of each of C draws of the corruption at one severity, [C, D] (paper: 100 draws).

  Raises:
    InputError: no samples, or features of another size.
  """
  samples, mean = _features(augmentation, corruption)
  return float(np.sqrt(((samples - mean) ** 2).sum(1).min()))


def mean_distance(augmentation: ArrayLike, corruption: ArrayLike) -> float:
  """Returns ‖mean_a f(a) − mean_c f(c)‖₂, which a broad augmentation makes large.

  Args, Raises: as in `minimal_sample_distance`.
  """
  samples, mean = _features(augmentation, corruption)
  return float(np.sqrt(((samples.mean(0) - mean) ** 2).sum()))


def _features(augmentation: ArrayLike, corruption: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
  """Returns the samples [A, D] and the corruption's mean feature [D], checked."""
  samples, draws = np.asarray(augmentation, float), np.asarray(corruption, float)
  for name, values in (('augmentation', samples), ('corruption', draws)):
    if values.ndim != 2 or not values.size:
      raise InputError(
        f'{name} has the shape {values.shape}; give the features of one sample or more, [samples, '
        'features].'
      )
  if samples.shape[1] != draws.shape[1]:
    raise InputError(
      f'augmentation has {samples.shape[1]} features and corruption {draws.shape[1]}: both must be '
      'of one classifier.'
    )
  return samples, draws.mean(0)
