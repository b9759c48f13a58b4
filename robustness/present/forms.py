"""Forms of pictures with one value along an axis: points in lines, curves, scatters.

Each takes rows of the table of results with the column `marked`, which is true of a significant
difference (`style.mark_significant`). A classifier has one colour, line style and marker
in all pictures.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from robustness.present import style
from robustness.present.notation import Notation, says_nothing, value_text
from robustness.present.style import panels

MOST_IN_A_ROW = 5
"""Panels of curves."""
_LINE, _GROUP = 0.13, 0.2  # inches: a point with its interval, the points of one name
_DECADES = 2.5  # of values from which an axis is logarithmic


@style.styled
def rows_of_points(
  names: Sequence[str],
  columns: Sequence[tuple[Notation, pd.DataFrame]],
  labels: Sequence[str],
  name: str,
  reference: Mapping[tuple[str, str], float] = {},
) -> Figure:
  """Draws points with intervals in horizontal lines, one line a name, one column a notation.

  Names, values of the column `name`, go from top to bottom. A classifier has a colour by its place
  among all `labels`, and in the column of own values a bar at its `reference` at each name, or a
  dashed line for all names at that at ''.
  """
  shown = [label for label in labels if any(label in set(rows.classifier) for _, rows in columns)]
  facet = columns[0][0].quantity.facet(name)
  written = [style.wrapped(value_text(facet, text), 30) for text in names]
  lines = max(text.count('\n') + 1 for text in written)
  width = style.COLUMN_WIDTH if len(columns) == 1 else style.PAGE_WIDTH
  beside = style.LETTER * max(len(line) for text in written for line in text.split('\n'))
  letters = max(15, int((width - beside) / len(columns) / style.LETTER))
  heads = [style.wrapped(notation.head, letters) for notation, _ in columns]
  height = 0.75 + _LINE * max(head.count('\n') for head in heads)
  height += len(names) * max(_GROUP, _LINE * len(shown), _LINE * lines)
  figure = Figure(figsize=(width, min(height, style.PAGE_HEIGHT)), layout='constrained')
  line = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
  offsets = (np.arange(len(shown)) - (len(shown) - 1) / 2) * 0.75 / len(shown)
  for axes, head, (notation, rows) in zip(line, heads, columns, strict=True):
    marks = rows.marked.to_numpy()
    for label, offset in zip(shown, offsets, strict=True):
      chosen = (rows.classifier == label).to_numpy()
      if not chosen.any():
        continue
      own = rows[chosen]
      y = np.array([names.index(str(value)) for value in own[name]]) + offset
      x = _ends(own, notation.scale)
      _points(axes, x, [y], labels.index(label), label)
      style.mark_significant(axes, x[0][marks[chosen]], y[marks[chosen]])
      _hollow(axes, x[0], y, says_nothing(own), labels.index(label))
      if not notation.difference:
        colour, scale = style.colour(labels.index(label)), notation.scale
        if (label, '') in reference:
          axes.axvline(scale * reference[label, ''], color=colour, linestyle='--', linewidth=0.7)
        at = [scale * reference.get((label, str(value)), math.nan) for value in own[name]]
        axes.plot(at, y, '|', color=colour, markersize=6)
    if notation.difference:
      axes.axvline(0, color='0.3', linewidth=0.6)
    if limits := _limits(notation, rows):
      axes.set_xlim(limits)
    axes.set_xlabel(head)
    axes.spines[['top', 'right']].set_visible(False)
    axes.grid(axis='y', color='0.92', linewidth=0.5)
    axes.set_axisbelow(True)
  line[0].set_yticks(range(len(names)), written)
  line[0].set_ylim(len(names) - 0.4, -0.6)
  style.legend_above(figure)
  return figure


def _points(
  axes: Axes,
  x: Sequence[np.ndarray],
  y: Sequence[np.ndarray],
  index: int,
  label: str,
  linewidth: float = 0.9,
) -> None:
  """Draws points of one classifier: on each axis values, or values, lows and highs."""
  xerr, yerr = (
    np.maximum(np.nan_to_num(np.stack([ends[0] - ends[1], ends[2] - ends[0]])), 0)
    if len(ends) > 1
    else None
    for ends in (x, y)
  )
  look: dict[str, Any] = {'fmt': style.marker(index), 'color': style.colour(index)}
  axes.errorbar(x[0], y[0], yerr, xerr, markersize=3.5, linewidth=linewidth, label=label, **look)


def _hollow(axes: Axes, x: np.ndarray, y: np.ndarray, chosen: np.ndarray, index: int) -> None:
  """Empties points that are noted as degenerate."""
  look: dict[str, Any] = {'color': style.colour(index), 'markerfacecolor': 'white', 'zorder': 4}
  if chosen.any():
    axes.plot(x[chosen], y[chosen], style.marker(index), markersize=3.5, **look)


def _ends(rows: pd.DataFrame, scale: float) -> list[np.ndarray]:
  """Returns values, lows and highs; those that are degenerate have a value alone."""
  known = ~says_nothing(rows)
  ends = [scale * rows[end].to_numpy(float) for end in ('value', 'low', 'high')]
  return [ends[0], *(np.where(known, end, np.nan) for end in ends[1:])]


@style.styled
def curves(
  titled: Sequence[tuple[str, pd.DataFrame]],
  notations: Sequence[Notation],
  labels: Sequence[str],
  x: str,
  reference: Mapping[tuple[str, str], float] = {},
) -> Figure:
  """Draws curves with bands of intervals over the facet `x`, a panel a title; notations are one for
  all panels, or one each, and references at (classifier, '') dotted lines."""
  count, several = len(titled), len(notations) > 1
  columns = min(MOST_IN_A_ROW, count)
  lines = math.ceil(count / columns)
  titles = [style.wrapped(title, 20) for title, _ in titled]
  above = _LINE * max(title.count('\n') for title in titles)
  if count <= 2:
    size = (style.COLUMN_WIDTH if count == 1 else style.PAGE_WIDTH, 2.5 + above)
  else:
    size = (style.PAGE_WIDTH, min(0.6 + (1.35 + above) * lines, style.PAGE_HEIGHT))
  figure, grid = panels(count, columns, size, sharey=not several)
  for place, (axes, (_, rows)) in enumerate(zip(grid, titled, strict=True)):
    notation = notations[place if several else 0]
    for index, label in enumerate(labels):
      own = rows[rows.classifier == label].sort_values(x)
      if len(own):
        _curve(axes, own, notation, x, index, label)
        if (label, '') in reference and not notation.difference:
          at = notation.scale * reference[label, '']
          axes.axhline(at, color=style.colour(index), linestyle=':', linewidth=0.8)
    if notation.difference:
      marks = rows.marked.to_numpy()
      value = _ends(rows, notation.scale)[0]
      style.mark_significant(axes, rows[x].to_numpy(float)[marks], value[marks])
      axes.axhline(0, color='0.3', linewidth=0.6)
    elif _spans_decades(rows):
      style.log_scale(axes)
    if limits := _limits(notation, *([rows] if several else [panel for _, panel in titled])):
      axes.set_ylim(limits)
    if several or count == 1:
      axes.set_ylabel(style.wrapped(notation.head, int(0.8 * size[1] / style.LETTER)))
    axes.set_title(titles[place], fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  if all(pd.api.types.is_integer_dtype(rows[x].dtype) for _, rows in titled):
    grid[0].xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
  figure.supxlabel(notations[0].quantity.facet(x).axis)
  if not several and count > 1:
    figure.supylabel(style.wrapped(notations[0].head, int(0.8 * size[1] / style.LETTER)))
  style.legend_above(figure)
  return figure


def _curve(
  axes: Axes, own: pd.DataFrame, notation: Notation, x: str, index: int, label: str
) -> None:
  places, (value, low, high) = own[x].to_numpy(float), _ends(own, notation.scale)
  look: dict[str, Any] = {'color': style.colour(index), 'linestyle': style.dashes(index)}
  marker = style.marker(index) if len(own) <= 40 else ''
  axes.plot(places, value, marker=marker, markersize=2.5, label=label, **look)
  if len(own) == 1:
    axes.vlines(places, low, high, color=look['color'], linewidth=0.9)
  axes.fill_between(places, low, high, color=look['color'], alpha=0.2, linewidth=0)
  _hollow(axes, places, value, says_nothing(own), index)


def _limits(notation: Notation, *parts: pd.DataFrame) -> tuple[float, float] | None:
  """Returns what an axis of values that are all equal shows: the range of the quantity, if it has
  one; None chooses by the values."""
  quantity = notation.quantity
  low, high = quantity.difference_range if notation.difference else quantity.range
  ends = np.concatenate([end for rows in parts for end in _ends(rows, 1)])
  ends = ends[np.isfinite(ends)]
  if not math.isfinite(high - low) or not len(ends) or np.ptp(ends) > 1e-12:
    return None
  margin = 0.05 * (high - low)
  return notation.scale * (low - margin), notation.scale * (high + margin)


def _spans_decades(rows: pd.DataFrame) -> bool:
  values = rows.value.to_numpy(float)
  values = values[np.isfinite(values)]
  return len(values) > 0 and 0 < values.min() * 10**_DECADES < values.max()


class NamedPoints(NamedTuple):
  """What one panel shows, rows of the table of results by name; fractions.

  Attributes:
    titles: lines above it.
    x, y: `value` on each axis, with `low` and `high`; names that either lacks are left out.
    line: the same by x, drawn with its band; None draws the line on which both are equal.
  """

  titles: Sequence[str]
  x: pd.DataFrame
  y: pd.DataFrame
  line: pd.DataFrame | None = None


@style.styled
def named_points(
  shown: Sequence[NamedPoints], x: str, y: str, labels: Sequence[str] = ()
) -> Figure:
  """Draws the panels in percent, with one legend of all names and common axes named `x` and `y`.

  Names that are classifiers have the colours of their places among all `labels`. Differences have a
  line at 0.
  """
  lines = math.ceil(len(shown) / 3)
  columns = math.ceil(len(shown) / lines)
  width = style.COLUMN_WIDTH + 0.6 if columns == 1 else style.PAGE_WIDTH
  height = min(style.PAGE_HEIGHT, 0.5 + 2.5 * lines)
  figure, grid = panels(len(shown), columns, (width, height))
  names = labels or list(dict.fromkeys(name for panel in shown for name in panel.y.index))
  for axes, panel in zip(grid, shown, strict=True):
    if (panel.y.versus != '').any():
      axes.axhline(0, color='0.6', linewidth=0.6)
    for place, name in enumerate(names):
      if name in panel.x.index and name in panel.y.index:
        across, up = (_ends(rows.loc[[name]], 100) for rows in (panel.x, panel.y))
        _points(axes, across, up, place, name if labels else name.replace('_', ' '), linewidth=0.6)
    if panel.line is not None and len(panel.line):
      at, (value, low, high) = 100 * panel.line.index.to_numpy(float), _ends(panel.line, 100)
      axes.fill_between(at, low, high, color='0.85', linewidth=0, zorder=0)
      axes.plot(at, value, color='0.2', linewidth=1.0, label='fitted line')
    letters = int(width / columns / 0.055)
    axes.set_title('\n'.join(style.wrapped(t, letters) for t in panel.titles), fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  for axes, panel in zip(grid, shown, strict=True):
    if panel.line is None:
      style.diagonal(axes, 'equal')  # which fixes the limits that the panels share
  figure.supxlabel(style.wrapped(x, int(0.8 * width / style.LETTER)))
  figure.supylabel(style.wrapped(y, int(0.8 * height / style.LETTER)))
  style.legend_above(figure)
  return figure
