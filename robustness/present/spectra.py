"""Mean spectra |F| as maps side by side on one logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.estimates.quantity import FACETS
from robustness.present import style

DECADES = 4  # of |F| that maps show, from the largest value down
MANY = 16  # maps, from which rows have more columns
_LETTER = 0.054  # inches: of a title
_SMALLEST = 1e-12  # stands for zero on a logarithmic scale


@style.styled
def spectrum_panels(
  titles: Sequence[str],
  maps: Sequence[ArrayLike],
  frequencies_y: ArrayLike,
  frequencies_x: ArrayLike,
  decades: float = DECADES,
  quantity: str = 'mean |F|',
) -> Figure:
  """Draws spectra, a panel each, zero frequency in the centre.

  Args:
    titles: of the panels.
    maps: [H, W] each, magnitudes ≥ 0, fftshifted; NaN cells are drawn grey.
    frequencies_y: [H] vertical frequencies in cycles per image.
    frequencies_x: [W] horizontal frequencies.
    decades: how far the scale goes below the largest value of all maps; 0 goes to the smallest.
    quantity: name of the scale.

  Returns:
    A figure of page width.

  Raises:
    InputError: there is no map, or one has another shape than its frequencies.
  """
  y, x = np.asarray(frequencies_y), np.asarray(frequencies_x)
  logarithms = [np.log10(np.maximum(np.asarray(values, float), _SMALLEST)) for values in maps]
  if not logarithms or any(values.shape != (y.size, x.size) for values in logarithms):
    raise InputError(f'give at least one spectrum, and {y.size} × {x.size} values of each.')
  columns = min(5 if len(maps) > MANY else 4, len(maps))
  rows = -(-len(maps) // columns)
  cell = min(0.75 * style.PAGE_WIDTH / columns, 1.9)
  width = style.PAGE_WIDTH if columns > 2 else style.COLUMN_WIDTH * columns
  above = [style.wrapped(title, int(cell / _LETTER)) for title in titles]
  lines = max(title.count('\n') for title in above)
  height = 0.8 + rows * (cell * y.size / x.size + 0.25 + 0.1 * lines)
  figure = Figure(figsize=(width, min(style.PAGE_HEIGHT, height)), layout='compressed')
  grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
  lowest = float(np.nanmin(logarithms))
  top = float(np.nanmax(logarithms))
  bottom = top - decades if decades else max(lowest, top - DECADES)
  for axes in grid.flat[len(maps) :]:
    axes.set_axis_off()
  for axes, title, values in zip(grid.flat, above, logarithms, strict=False):
    image = axes.imshow(
      values,
      cmap=colormaps[style.MAGNITUDE].with_extremes(bad=style.MISSING),
      vmin=bottom,
      vmax=top,
      extent=(x[0] - 0.5, x[-1] + 0.5, y[-1] + 0.5, y[0] - 0.5),
      interpolation='nearest',
    )
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.set_title(title, fontsize=6.5)
  figure.colorbar(
    image,
    ax=grid,
    shrink=min(1.0, 1.6 / rows),
    label=quantity,
    extend='min' if bottom > lowest else 'neither',
    ticks=MaxNLocator(5, integer=top - bottom > 2),
    format=FuncFormatter(_power),
  )
  figure.supxlabel('{0.words} ({0.unit})'.format(FACETS['frequency_x']))
  figure.supylabel(FACETS['frequency_y'].words)
  return figure


def _power(exponent: float, position: int | None = None) -> str:
  del position
  if abs(exponent - round(exponent)) < 1e-6:
    return style.power_of_ten(round(exponent))
  return f'{10**exponent:.2g}'
