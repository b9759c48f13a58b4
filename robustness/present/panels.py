"""Panels in rows, of which the last may have empty places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def panels(
  count: int, columns: int, size: Sequence[float], layout: Any = 'constrained', **share: Any
) -> tuple[Figure, list[Axes]]:
  """Returns a figure and the axes of its panels; the lowest of each column have tick labels.

  Args:
    count: of the panels.
    columns: places in a row.
    size: width and height of the figure, inches.
    layout: of Matplotlib.
    **share: `sharex` and `sharey`; panels share both unless it is said.
  """
  figure = Figure(figsize=(size[0], size[1]), layout=layout)
  shared = {'sharex': True, 'sharey': True, **share}
  grid = figure.subplots(math.ceil(count / columns), columns, squeeze=False, **shared)
  axes = list(grid.flat)
  for empty in axes[count:]:
    empty.set_axis_off()
  for lowest in axes[max(0, count - columns) : count]:
    lowest.tick_params(labelbottom=True)
  return figure, axes[:count]
