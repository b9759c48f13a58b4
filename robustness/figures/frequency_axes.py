"""Axes whose cells are frequencies: zero in the centre, vertical frequency down as in an image."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.figures import style

HORIZONTAL = 'horizontal frequency (cycles per image)'
VERTICAL = 'vertical frequency (cycles per image)'
_HATCH_CELLS = 64  # on maps with more cells a side, only every k-th diagonal is drawn


def checked_map(
  values: ArrayLike, frequencies_y: ArrayLike, frequencies_x: ArrayLike, name: str
) -> np.ndarray:
  """The map as floats, once its shape is known to be that of its frequencies.

  Args:
    values: [H, W] centred map.
    frequencies_y: [H] frequencies of the rows, ascending in steps of 1 cycle per image.
    frequencies_x: [W] frequencies of the columns.
    name: what to call the map in an error.

  Raises:
    InputError: shapes differ, or the frequencies do not ascend by 1.
  """
  array = np.asarray(values, float)
  rows, columns = np.asarray(frequencies_y), np.asarray(frequencies_x)
  if array.shape != (rows.size, columns.size):
    raise InputError(
      f'map {name!r} has shape {array.shape} but its frequencies span '
      f'({rows.size}, {columns.size}): give one frequency a row and a column.'
    )
  if np.any(np.diff(rows) != 1) or np.any(np.diff(columns) != 1):
    raise InputError(
      f'frequencies of map {name!r} do not ascend in steps of 1: give the centred order '
      '(fftshift), for example -2, -1, 0, 1.'
    )
  return array


def checked_fractions(
  values: ArrayLike,
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  name: str,
  lowest: float = 0.0,
) -> np.ndarray:
  """`checked_map` for fractions in [lowest, 1]; NaN marks a missing cell."""
  array = checked_map(values, frequencies_y, frequencies_x, name)
  bad = (array < lowest) | (array > 1)
  if np.any(bad):
    raise InputError(
      f'map {name!r} holds {array[bad][0]:g}: give fractions in [{lowest:g}, 1], not percent.'
    )
  return array


def show_map(
  axes: Axes,
  values: np.ndarray,
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  colours: str,
  limits: tuple[float, float],
) -> AxesImage:
  """Draws a map as square cells, one a frequency; missing (NaN) cells are grey."""
  rows, columns = np.asarray(frequencies_y), np.asarray(frequencies_x)
  image = axes.imshow(
    values,
    cmap=colormaps[colours].with_extremes(bad=style.MISSING),
    vmin=limits[0],
    vmax=limits[1],
    extent=(columns[0] - 0.5, columns[-1] + 0.5, rows[-1] + 0.5, rows[0] - 0.5),
    interpolation='nearest',
    aspect='equal',
  )
  for axis in (axes.xaxis, axes.yaxis):
    axis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10], integer=True))
  return image


def hatch_cells(
  axes: Axes, cells: np.ndarray, frequencies_y: ArrayLike, frequencies_x: ArrayLike
) -> None:
  """Draws diagonal lines over the cells that are True, continuous from cell to cell.

  Args:
    axes: where a map was drawn.
    cells: [H, W] booleans.
    frequencies_y: [H] frequencies of the rows.
    frequencies_x: [W] frequencies of the columns.
  """
  y, x = np.nonzero(cells)
  step = -(-max(cells.shape) // _HATCH_CELLS)
  on_a_line = (y + x) % step == 0
  fy = np.asarray(frequencies_y)[y[on_a_line]]
  fx = np.asarray(frequencies_x)[x[on_a_line]]
  starts = np.stack([fx - 0.5, fy + 0.5], axis=-1)
  segments = np.stack([starts, starts + np.array([[1.0, -1.0]])], axis=1)
  thickness = 0.5 if max(cells.shape) <= 40 else 0.35
  lines = LineCollection(list(segments), colors='0.35', linewidths=thickness)
  axes.add_collection(lines, autolim=False)
