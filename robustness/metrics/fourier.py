"""Summaries of Fourier heat maps: error by radius and by frequency band."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.metrics.shares import independent_trials, mean_share
from robustness.results import Number


@dataclasses.dataclass(frozen=True)
class RadialCurve:
  """Error by distance from zero frequency.

  Attributes:
    radii: [R] whole numbers of cycles per image.
    mean: [R] mean error, a fraction.
    low: [R] lower end of the interval.
    high: [R] upper end.
  """

  radii: np.ndarray
  mean: np.ndarray
  low: np.ndarray
  high: np.ndarray


def radius(frequencies_y: ArrayLike, frequencies_x: ArrayLike) -> np.ndarray:
  """|f| = √(f_y² + f_x²) for every cell of a map.

  Args:
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.

  Returns:
    [H, W], in cycles per image.
  """
  return np.hypot(
    np.asarray(frequencies_y, float)[:, None], np.asarray(frequencies_x, float)[None, :]
  )


def bands(
  frequencies_y: ArrayLike, frequencies_x: ArrayLike, image_size: tuple[int, int]
) -> dict[str, np.ndarray]:
  """Splits a map into low, mid and high frequencies.

  With f_N = min(height, width)/2, the Nyquist frequency of the shorter side: low is
  |f| < f_N/4, mid is f_N/4 ≤ |f| < f_N/2 (one octave), high is |f| ≥ f_N/2, corners
  included. A 28×28 image: below 3.5, below 7, and from 7 cycles per image on.

  Args:
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.
    image_size: height and width of the images in pixels (not of the map's window).

  Returns:
    Boolean masks [H, W] named 'low', 'mid', 'high'; every cell is in exactly one.
  """
  distance = radius(frequencies_y, frequencies_x)
  nyquist = min(image_size) / 2
  low, high = distance < nyquist / 4, distance >= nyquist / 2
  return {'low': low, 'mid': ~low & ~high, 'high': high}


def band_cells(
  frequencies_y: ArrayLike, frequencies_x: ArrayLike, image_size: tuple[int, int]
) -> dict[str, tuple[int, int]]:
  """Returns, for 'all' and each of `bands`, its cells in a window and in the whole map.

  Args:
    frequencies_y: vertical axis of the window, in cycles per image.
    frequencies_x: horizontal axis.
    image_size: height and width of the images in pixels.
  """
  height, width = image_size
  whole = bands(np.arange(height) - height // 2, np.arange(width) - width // 2, image_size)
  shown = bands(frequencies_y, frequencies_x, image_size)
  cells = {name: (int(shown[name].sum()), int(mask.sum())) for name, mask in whole.items()}
  return {'all': (shown['low'].size, height * width), **cells}


def radial_mean(
  values: ArrayLike, frequencies_y: ArrayLike, frequencies_x: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Mean of a map over rings of width 1: the cells whose |f| rounds to the same number.

  Args:
    values: [H, W] a map, such as the error.
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.

  Returns:
    (radii [R] in cycles per image, mean [R], number of cells [R]); only rings with a cell.
  """
  array, rings = np.asarray(values, float), _ring(radius(frequencies_y, frequencies_x))
  if array.shape != rings.shape:
    raise InputError(f'the map is {array.shape} but its frequencies span {rings.shape}.')
  radii, index, cells = np.unique(rings, return_inverse=True, return_counts=True)
  total = np.bincount(index.ravel(), weights=array.ravel())
  return radii, total / cells, cells


def radial_curve(
  wrong: ArrayLike, distance: ArrayLike, weight: ArrayLike, confidence: float = 0.95
) -> RadialCurve:
  """Error over rings of width 1 with intervals that respect that images repeat.

  Args:
    wrong: [N, V] booleans, whether the classifier erred on image n under view v.
    distance: [V] |f| of each distinct frequency, in cycles per image.
    weight: [V] how many cells of the map the frequency fills (2 with its mirror, else 1).
    confidence: of the intervals (`clustered_proportion`), in (0, 1).
  """
  table, rings = np.asarray(wrong, bool), _ring(np.asarray(distance, float))
  weights = np.asarray(weight, float)
  if table.ndim != 2 or table.shape[1:] != rings.shape or rings.shape != weights.shape:
    raise InputError(
      f'wrong is {table.shape}, distance {rings.shape}, weight {weights.shape}: '
      'give [N, V], [V] and [V].'
    )
  radii = np.unique(rings)
  numbers = [
    clustered_proportion(table[:, rings == r], weights[rings == r], confidence) for r in radii
  ]
  mean, low, high = (
    np.array([getattr(number, end) for number in numbers]) for end in ('value', 'low', 'high')
  )
  return RadialCurve(radii, mean, low, high)


def clustered_proportion(wrong: ArrayLike, weight: ArrayLike, confidence: float = 0.95) -> Number:
  """Weighted mean error over several views; its interval takes the image as the unit.

  Every image gives its own weighted share of wrong views; the views of an image are not
  independent, so the interval is Korn and Graubard's, from the spread between images.

  Args:
    wrong: [N, V] booleans; N = 0 or V = 0 give NaN.
    weight: [V] positive weights of the views.
    confidence: of the interval, in (0, 1).

  Returns:
    A `Number` whose n is the number of images N.
  """
  table, weights = np.asarray(wrong, bool), np.asarray(weight, float)
  if not weights.size:
    return Number(np.nan, np.nan, np.nan, len(table), f'korn-graubard {confidence:g}')
  share = (table @ weights) / weights.sum()
  return mean_share(share, independent_trials(weights), confidence)


def ring_masks(
  frequencies_y: ArrayLike, frequencies_x: ArrayLike
) -> tuple[np.ndarray, list[np.ndarray]]:
  """Splits a map into rings of width 1: the cells whose |f| rounds to the same number.

  Args:
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.

  Returns:
    (radii [R] in cycles per image, R boolean masks [H, W]); only rings with a cell.
  """
  rings = _ring(radius(frequencies_y, frequencies_x))
  radii = np.unique(rings)
  return radii, [rings == r for r in radii]


def _ring(distance: np.ndarray) -> np.ndarray:
  return np.floor(distance + 0.5).astype(int)
