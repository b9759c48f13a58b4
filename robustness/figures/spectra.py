"""Mean spectra |F| as maps side by side on one logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.figures import style
from robustness.figures.frequency_axes import checked_map, show_map

DECADES = 4  # of |F| that maps show, from the largest value down
_LETTER = 0.054  # inches: of a title
SMALLEST = 1e-12  # stands for zero on a logarithmic scale


@style.styled
def spectrum_panels(
  titles: Sequence[str],
  maps: Sequence[ArrayLike],
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  columns: int = 4,
  decades: float = DECADES,
  quantity: str = 'mean |F|',
) -> Figure:
  """Draws spectra, a panel each, zero frequency in the centre.

  Args:
    titles: of the panels.
    maps: [H, W] each, magnitudes ≥ 0, fftshifted; NaN cells are drawn grey.
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.
    columns: panels in a row, at most.
    decades: how far the scale goes below the largest value of all maps; 0 goes to the smallest.
    quantity: name of the scale.

  Returns:
    A figure of page width.
  """
  if not len(maps):
    raise InputError('no spectra to draw: give at least one map.')
  shape = np.size(frequencies_y), np.size(frequencies_x)
  columns = min(columns, len(maps))
  rows = -(-len(maps) // columns)
  cell = min(0.75 * style.PAGE_WIDTH / columns, 1.9)
  width = style.PAGE_WIDTH if columns > 2 else style.COLUMN_WIDTH * columns
  above = [style.wrapped(title, int(cell / _LETTER)) for title in titles]
  lines = max(title.count('\n') for title in above)
  height = 0.8 + rows * (cell * shape[0] / shape[1] + 0.25 + 0.1 * lines)
  figure = Figure(figsize=(width, min(style.PAGE_HEIGHT, height)), layout='compressed')
  grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
  checked = [
    checked_map(m, frequencies_y, frequencies_x, t) for m, t in zip(maps, titles, strict=True)
  ]
  logarithms = [np.log10(np.maximum(values, SMALLEST)) for values in checked]
  lowest, bottom, top = _limits(logarithms, decades)
  for place, axes in enumerate(grid.flat):
    if place >= len(maps):
      axes.set_axis_off()
      continue
    image = show_map(
      axes, logarithms[place], frequencies_y, frequencies_x, style.MAGNITUDE, (bottom, top)
    )
    axes.set_title(above[place], fontsize=6.5)
  figure.colorbar(
    image,
    ax=grid,
    shrink=min(1.0, 1.6 / rows),
    label=quantity,
    extend='min' if bottom > lowest else 'neither',
    ticks=MaxNLocator(5, integer=top - bottom > 2),
    format=FuncFormatter(_power),
  )
  figure.supxlabel('horizontal frequency (cycles per image)')
  figure.supylabel('vertical frequency')
  return figure


def _limits(logarithms: Sequence[np.ndarray], decades: float) -> tuple[float, float, float]:
  """Returns the smallest value of all maps, and the ends of the scale; NaN is no value."""
  known = [values[~np.isnan(values)] for values in logarithms]
  top = max((float(values.max()) for values in known if values.size), default=0.0)
  lowest = min((float(values.min()) for values in known if values.size), default=-1.0)
  return lowest, (top - decades if decades else max(lowest, top - DECADES)), top


def _power(exponent: float, position: int | None = None) -> str:
  del position
  if abs(exponent - round(exponent)) < 1e-6:
    return style.power_of_ten(round(exponent))
  return f'{10**exponent:.2g}'
