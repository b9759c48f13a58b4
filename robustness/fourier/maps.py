"""Maps over frequencies: the band of a frequency, and the whole map of estimates; NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError

BANDS = ('low', 'mid', 'high')


def bands(frequency_y: ArrayLike, frequency_x: ArrayLike, image_size: Sequence[int]) -> np.ndarray:
  """Returns which of `BANDS` each frequency is in, text of the broadcast shape.

  With f_N = min(height, width)/2, the Nyquist frequency of the shorter side: low is |f| < f_N/4,
  mid is f_N/4 ≤ |f| < f_N/2 (one octave), high is |f| ≥ f_N/2, corners included. A 28 × 28 image:
  below 3.5, below 7, and from 7 cycles per image on.

  Args:
    frequency_y: vertical, in cycles per image.
    frequency_x: horizontal.
    image_size: height and width of the images in pixels (not of a window).
  """
  distance, nyquist = np.hypot(frequency_y, frequency_x), min(image_size) / 2
  return np.select([distance < nyquist / 4, distance >= nyquist / 2], ['low', 'high'], 'mid')


def centred_map(
  rows: pd.DataFrame, image_size: Sequence[int], window: int = 0, column: str = 'value'
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the whole map of estimates by frequency, zero frequency in the centre (`fftshift`).

  The table of results has a frequency and its mirror (−f_y, −f_x) once; the map has both.

  Args:
    rows: of one classifier, one quantity and all frequencies, such as
      `select(table, 'error', frequency_y=..., frequency_x=...)` of a run with one classifier.
    image_size: height and width of the images in pixels: `results.data['image_shape'][:2]`.
    window: side of the centred square that the run shows, `results.settings['window']`; 0: all.
    column: of the table: 'value', 'low', 'high', 'n' or 'p'.

  Returns:
    (frequencies of the rows [H], ascending, of the columns [W], the map [H, W]); growing downwards
    as the rows of an image do. NaN where there is no estimate.

  Raises:
    InputError: a frequency has several rows.
  """
  height, width = image_size
  own = rows['frequency_y'].to_numpy(int), rows['frequency_x'].to_numpy(int)
  if len(set(zip(*own, strict=True))) < len(rows):
    raise InputError(
      f'{len(rows)} rows have several estimates of a frequency: choose one classifier, one of '
      '`versus` and one quantity.'
    )
  values = np.full((height, width), np.nan)
  for sign in (-1, 1):
    values[sign * own[0] % height, sign * own[1] % width] = rows[column].to_numpy(float)
  axes = [np.arange(window or side) - (window or side) // 2 for side in (height, width)]
  return *axes, values[np.ix_(axes[0] % height, axes[1] % width)]
