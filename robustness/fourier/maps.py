"""Maps over frequencies: the band of a frequency, and the whole map of estimates; NumPy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.table import select
from robustness.results import Results

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
  results: Results,
  quantity: str,
  classifier: str,
  versus: str = '',
  column: str = 'value',
  **facets: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns a whole map of a run, zero frequency in the centre (`fftshift`).

  The table of results has a frequency and its mirror (−f_y, −f_x) once; the map has both.

  Args:
    results: of a study whose table has the facets `frequency_y` and `frequency_x`.
    quantity: such as 'error'.
    classifier: whose.
    versus: the classifier that it is the paired difference from; '' for its own values.
    column: of the table: 'value', 'low', 'high', 'n' or 'p'.
    **facets: further ones that the rows have, such as `layer='stage1'`.

  Returns:
    (frequencies [H] of the rows, ascending, in cycles per image, [W] of the columns, the map [H, W]
    of the run's window); NaN where there is no estimate.

  Raises:
    InputError: there is no such map.
  """
  found = select(results.table, quantity, versus, frequency_y=..., frequency_x=..., **facets)
  rows = found[found.classifier == classifier]
  if rows.empty:
    known = list(dict.fromkeys(results.table['classifier']))
    raise InputError(
      f'the table of results has no {quantity} by frequency of {classifier!r} with versus = '
      f'{versus!r} and {facets}; its classifiers are {known}.'
    )
  height, width = results.data['image_shape'][:2]
  values = np.full((height, width), np.nan)
  fy, fx = (rows[name].to_numpy(int) for name in ('frequency_y', 'frequency_x'))
  for sign in (-1, 1):
    values[sign * fy % height, sign * fx % width] = rows[column].to_numpy(float)
  window = results.settings.get('window', 0)
  axes = [np.arange(window or side) - (window or side) // 2 for side in (height, width)]
  return *axes, values[np.ix_(axes[0] % height, axes[1] % width)]
