"""Summaries of spectra that are measured image by image."""

import numpy as np
from numpy.typing import ArrayLike


def energy_fraction(part: ArrayLike, whole: ArrayLike) -> np.ndarray:
  """The fraction part/whole of energies ≥ 0, in [0, 1]; NaN where there is no energy at all (Yin et
  al. 2019, section 4.2, with part ‖H(C(x) - x)‖² and whole ‖C(x) - x‖²)."""
  numerator, energy = np.asarray(part, float), np.asarray(whole, float)
  return np.minimum(numerator / np.where(energy > 0, energy, np.nan), 1.0)


def known_mean(values: ArrayLike) -> np.ndarray:
  """Returns means over the last axis that leave NaN out; NaN where nothing is known."""
  array = np.asarray(values, float)
  known = ~np.isnan(array)
  count = known.sum(-1)
  return np.asarray(np.where(known, array, 0).sum(-1) / np.where(count > 0, count, np.nan))
