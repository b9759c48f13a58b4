"""Summaries of spectra measured image by image: energy fractions, and means with intervals."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.intervals import student_interval
from robustness.results import Number


@dataclasses.dataclass(frozen=True)
class Averages:
  """Means over images with Student's intervals, each of one shape.

  Attributes:
    value: the means.
    low, high: ends of the intervals.
    n: how many images each rests on.
    interval: how the intervals were made.
  """

  value: np.ndarray
  low: np.ndarray
  high: np.ndarray
  n: np.ndarray
  interval: str

  def number(self, *index: int) -> Number:
    """One of them as a `Number`."""
    value, low, high, n = (x[index] for x in (self.value, self.low, self.high, self.n))
    return Number(float(value), float(low), float(high), int(n), self.interval)

  def arrays(self, name: str) -> dict[str, np.ndarray]:
    """Returns {name: value, name_low: low, name_high: high}."""
    return {name: self.value, f'{name}_low': self.low, f'{name}_high': self.high}


def averages(
  values: ArrayLike, confidence: float = 0.95, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Averages:
  """Means over the first axis with Student's intervals; NaN stands for an image without a value.

  Args:
    values: [N, ...], any unit, N ≥ 1.
    confidence: of the intervals, in (0, 1).
    bounds: the least and the largest possible value, where intervals are cut.

  Returns:
    Arrays of the shape [...]; NaN where no image has a value.
  """
  sample = np.asarray(values, float)
  if not sample.ndim or not len(sample):
    raise InputError(f'values have shape {sample.shape}: give at least one image, as [N, ...].')
  known = ~np.isnan(sample)
  n = known.sum(0)
  mean = np.where(known, sample, 0).sum(0) / np.where(n > 0, n, np.nan)
  squares = np.where(known, sample - mean, 0) ** 2
  std = np.sqrt(squares.sum(0) / np.where(n > 1, n - 1, np.nan))
  low, high = student_interval(mean, std, n, confidence)
  ends = np.maximum(low, bounds[0]), np.minimum(high, bounds[1])
  return Averages(mean, *ends, n, f'student {confidence:g}')


def energy_fraction(part: ArrayLike, whole: ArrayLike) -> np.ndarray:
  """The fraction part/whole of energies ≥ 0, in [0, 1]; NaN where there is no energy at all.

  Reference:
    Yin et al. (2019), section 4.2, with part ‖H(C(x) - x)‖² and whole ‖C(x) - x‖².
  """
  numerator, energy = np.asarray(part, float), np.asarray(whole, float)
  return np.minimum(numerator / np.where(energy > 0, energy, np.nan), 1.0)


def known_mean(values: ArrayLike) -> np.ndarray:
  """Returns means over the last axis that leave NaN out; NaN where nothing is known."""
  array = np.asarray(values, float)
  known = ~np.isnan(array)
  count = known.sum(-1)
  return np.where(known, array, 0).sum(-1) / np.where(count > 0, count, np.nan)
