"""Panels in rows that a page holds."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.present import style

_ENDS = 0.5  # inches: names of the axes, and a legend of one line


def panels(
  count: int, height: float, most: int, width: float = 0.0, share: bool = True, spare: float = 0.0
) -> tuple[Figure, list[Axes]]:
  """Returns a figure of panels, as many in a row as fit; no higher than a page.

  Args:
    count: of the panels.
    height: of a panel with its title, inches; less where a page does not hold all.
    most: in a row.
    width: of the figure, inches; 0 for a page, or for a column where panels stand below each other.
    share: whether all have the axes of the first.
    spare: height of what else the figure holds, inches.
  """
  columns = min(count, most)
  rows = math.ceil(count / columns)
  size = width or (style.COLUMN_WIDTH if columns == 1 else style.PAGE_WIDTH)
  tall = min(style.PAGE_HEIGHT, _ENDS + spare + height * rows)
  figure = Figure(figsize=(size, tall), layout='constrained')
  grid = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
  axes = list(grid.flat)
  for empty in axes[count:]:
    empty.set_axis_off()
  for lowest in axes[max(0, count - columns) : count]:
    lowest.tick_params(labelbottom=True)
  return figure, axes[:count]


def name_axes(figure: Figure, x: str, y: str = '') -> None:
  """Names the axes that panels share, the vertical one in lines as long as the panels are tall.

  Args:
    figure: of a grid of axes, without its legend.
    x: name of the horizontal axis.
    y: of the vertical one, '' for none.
  """
  place = figure.axes[0].get_subplotspec()
  assert place is not None
  rows, columns = place.get_geometry()[:2]
  above = style.wrapped(y, int(0.8 * figure.get_figheight() / style.LETTER))
  if columns == 1:
    figure.axes[rows - 1].set_xlabel(x)
  else:
    figure.supxlabel(x)
  if rows == 1:
    figure.axes[0].set_ylabel(above)
  elif y:
    figure.supylabel(above)
