"""Points with names, such as corruptions, against two values: a panel a classifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.present import style
from robustness.present.style import panels

_COLUMNS = 3


class Panel(NamedTuple):
  """What one panel shows, rows of the table of results by name; fractions.

  Attributes:
    titles: lines above it.
    x: `value` on the horizontal axis, with `low` and `high`, by name.
    y: the same on the vertical axis; names that either lacks are left out.
    line: the same by x, drawn as a line with its band where it has rows; None draws the line on
      which both are equal.
  """

  titles: Sequence[str]
  x: pd.DataFrame
  y: pd.DataFrame
  line: pd.DataFrame | None = None


@style.styled
def named_points(shown: Sequence[Panel], x: str, y: str) -> Figure:
  """Draws the panels in percent, with one legend of all names and common axes.

  Args:
    shown: at least one.
    x, y: names of the axes.
  """
  columns = min(_COLUMNS, len(shown))
  lines = math.ceil(len(shown) / columns)
  width = style.COLUMN_WIDTH + 0.6 if columns == 1 else style.PAGE_WIDTH
  height = min(style.PAGE_HEIGHT, 0.5 + 2.5 * lines)
  figure, grid = panels(len(shown), columns, (width, height))
  names = list(dict.fromkeys(name for panel in shown for name in panel.y.index))
  for axes, panel in zip(grid, shown, strict=True):
    axes.axhline(0, color='0.6', linewidth=0.6)
    for place, name in enumerate(names):
      if name in panel.x.index and name in panel.y.index:
        _point(axes, panel, name, place)
    _line(axes, panel.line)
    letters = int(width / columns / 0.055)
    axes.set_title('\n'.join(style.wrapped(t, letters) for t in panel.titles), fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  figure.supxlabel(x)
  figure.supylabel(style.wrapped(y, int(0.8 * height / style.LETTER)))
  style.legend_above(figure)
  return figure


def _point(axes: Axes, panel: Panel, name: str, place: int) -> None:
  """Draws one name with both intervals, in the look of its place among the names."""
  (x, xerr), (y, yerr) = (
    (100 * row.value, 100 * np.nan_to_num([[row.value - row.low], [row.high - row.value]]))
    for row in (panel.x.loc[name], panel.y.loc[name])
  )
  axes.errorbar(
    x,
    y,
    yerr,
    xerr,
    fmt=style.marker(place),
    color=style.colour(place),
    markersize=3.5,
    elinewidth=0.6,
    label=name.replace('_', ' '),
  )


def _line(axes: Axes, line: pd.DataFrame | None) -> None:
  if line is None:
    style.diagonal(axes, 'equal')
    return
  if len(line):
    x = 100 * line.index.to_numpy(float)
    value, low, high = (100 * line[end].to_numpy() for end in ('value', 'low', 'high'))
    axes.fill_between(x, low, high, color='0.85', linewidth=0, zorder=0)
    axes.plot(x, value, color='0.2', linewidth=1.0, label='fitted line')
