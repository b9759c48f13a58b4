"""Forms of pictures with one value along an axis: points in lines, curves, scatters.

Each takes rows of the table of results with the column `marked`, which is true of a significant
difference: it has a black dot. A classifier has one colour, line style and marker in all pictures.
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
from robustness.present.notation import Notation, axis_name
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
  reference: Mapping[str, float] = {},
) -> Figure:
  """Draws points with intervals in horizontal lines, one line a name, one column a notation.

  Args:
    names: from top to bottom.
    columns: own values, and differences where there are some.
    labels: of all classifiers, each of which has one colour in all pictures.
    name: the column whose values are the names.
    reference: by classifier, the value of a dashed line in the first column.
  """
  shown = [label for label in labels if any(label in set(rows.classifier) for _, rows in columns)]
  written = [style.wrapped(text.replace('_', ' '), 30) for text in names]
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
      value, low, high = _ends(own, notation)
      _points(axes, value, y, labels.index(label), label, x=(value - low, high - value))
      axes.plot(value[marks[chosen]], y[marks[chosen]], 'k.', markersize=2.5, zorder=4)
      if label in reference and not notation.difference:
        at = notation.scale * reference[label]
        axes.axvline(at, color=style.colour(labels.index(label)), linestyle='--', linewidth=0.7)
    if notation.difference:
      axes.axvline(0, color='0.3', linewidth=0.6)
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
  x_value: np.ndarray,
  y_value: np.ndarray,
  index: int,
  label: str,
  x: tuple[np.ndarray, np.ndarray] | None = None,
  y: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
  """Draws points of one classifier with their intervals along either axis; NaN has none."""
  axes.errorbar(
    x_value,
    y_value,
    xerr=None if x is None else np.maximum(np.nan_to_num(np.stack(x)), 0),
    yerr=None if y is None else np.maximum(np.nan_to_num(np.stack(y)), 0),
    fmt=style.marker(index),
    color=style.colour(index),
    markersize=3.5,
    linewidth=0.9,
    label=label,
  )


def _ends(rows: pd.DataFrame, notation: Notation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  value, low, high = (
    notation.scale * rows[end].to_numpy(float) for end in ('value', 'low', 'high')
  )
  return value, low, high


@style.styled
def curves(
  titled: Sequence[tuple[str, pd.DataFrame]],
  notations: Sequence[Notation],
  labels: Sequence[str],
  x: str,
  reference: Mapping[str, float] = {},
) -> Figure:
  """Draws curves with bands of intervals over the facet `x`, a panel a title; notations are one for
  all panels, or one each, and references dashed lines by classifier."""
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
        if label in reference and not notation.difference:
          at = notation.scale * reference[label]
          axes.axhline(at, color=style.colour(index), linestyle=':', linewidth=0.8)
    if notation.difference:
      marks = rows.marked.to_numpy()
      value = _ends(rows, notation)[0]
      axes.plot(rows[x].to_numpy(float)[marks], value[marks], 'k.', markersize=2.5, zorder=4)
      axes.axhline(0, color='0.3', linewidth=0.6)
    elif _spans_decades(rows):
      style.log_scale(axes)
    if several or count == 1:
      axes.set_ylabel(style.wrapped(notation.head, int(0.8 * size[1] / style.LETTER)))
    axes.set_title(titles[place], fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  if all(pd.api.types.is_integer_dtype(rows[x].dtype) for _, rows in titled):
    grid[0].xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
  figure.supxlabel(axis_name(x))
  if not several and count > 1:
    figure.supylabel(style.wrapped(notations[0].head, int(0.8 * size[1] / style.LETTER)))
  style.legend_above(figure)
  return figure


def _curve(
  axes: Axes, own: pd.DataFrame, notation: Notation, x: str, index: int, label: str
) -> None:
  places, (value, low, high) = own[x].to_numpy(float), _ends(own, notation)
  look: dict[str, Any] = {'color': style.colour(index), 'linestyle': style.dashes(index)}
  marker = style.marker(index) if len(own) <= 40 else ''
  axes.plot(places, value, marker=marker, markersize=2.5, label=label, **look)
  if len(own) == 1:
    axes.vlines(places, low, high, color=look['color'], linewidth=0.9)
  axes.fill_between(places, low, high, color=look['color'], alpha=0.2, linewidth=0)


def _spans_decades(rows: pd.DataFrame) -> bool:
  values = rows.value.to_numpy(float)
  values = values[np.isfinite(values)]
  return len(values) > 0 and 0 < values.min() * 10**_DECADES < values.max()


@style.styled
def scatter(
  across: pd.DataFrame,
  up: pd.DataFrame,
  notations: tuple[Notation, Notation],
  labels: Sequence[str],
  by: str,
  diagonal: bool = True,
) -> Figure:
  """Draws one estimate against another, a point with both intervals for each classifier and value
  of the facet `by`, whose values are panels."""
  names = [str(value) for value in dict.fromkeys(up[by])] if by else ['']
  columns = min(4, len(names))
  lines = math.ceil(len(names) / columns)
  size = (style.COLUMN_WIDTH, 3.0) if len(names) == 1 else (style.PAGE_WIDTH, 0.6 + 1.8 * lines)
  figure, grid = panels(len(names), columns, size)
  for axes, name in zip(grid, names, strict=True):
    for index, label in enumerate(labels):
      own = [_of(rows, label, by, name) for rows in (across, up)]
      if not all(map(len, own)):
        continue
      ends = [_ends(rows, notation) for rows, notation in zip(own, notations, strict=True)]
      (x, x_low, x_high), (y, y_low, y_high) = ends
      _points(axes, x, y, index, label, (x - x_low, x_high - x), (y - y_low, y_high - y))
    axes.set_title(style.wrapped(name.replace('_', ' '), 24), fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  if diagonal:
    for axes in grid:
      style.diagonal(axes)
  heads = [
    style.wrapped(notation.head, int(0.8 * side / style.LETTER))
    for notation, side in zip(notations, size, strict=True)
  ]
  figure.supxlabel(heads[0])
  figure.supylabel(heads[1])
  style.legend_above(figure)
  return figure


def _of(rows: pd.DataFrame, label: str, by: str, name: str) -> pd.DataFrame:
  own = rows[rows.classifier == label]
  return own[own[by].astype(str) == name] if by and own[by].notna().any() else own


class NamedPoints(NamedTuple):
  """What one panel shows, rows of the table of results by name; fractions.

  Attributes:
    titles: lines above it.
    x, y: `value` on each axis, with `low` and `high`; names that either lacks are left out.
    line: the same by x, drawn as a line with its band where it has rows; None draws the line on
      which both are equal.
  """

  titles: Sequence[str]
  x: pd.DataFrame
  y: pd.DataFrame
  line: pd.DataFrame | None = None


@style.styled
def named_points(shown: Sequence[NamedPoints], x: str, y: str) -> Figure:
  """Draws the panels in percent, with one legend of all names and common axes named `x` and `y`."""
  columns = min(3, len(shown))
  lines = math.ceil(len(shown) / columns)
  width = style.COLUMN_WIDTH + 0.6 if columns == 1 else style.PAGE_WIDTH
  height = min(style.PAGE_HEIGHT, 0.5 + 2.5 * lines)
  figure, grid = panels(len(shown), columns, (width, height))
  names = list(dict.fromkeys(name for panel in shown for name in panel.y.index))
  for axes, panel in zip(grid, shown, strict=True):
    axes.axhline(0, color='0.6', linewidth=0.6)
    for place, name in enumerate(names):
      if name in panel.x.index and name in panel.y.index:
        _named_point(axes, panel, name, place)
    _fitted_line(axes, panel.line)
    letters = int(width / columns / 0.055)
    axes.set_title('\n'.join(style.wrapped(t, letters) for t in panel.titles), fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  figure.supxlabel(x)
  figure.supylabel(style.wrapped(y, int(0.8 * height / style.LETTER)))
  style.legend_above(figure)
  return figure


def _named_point(axes: Axes, panel: NamedPoints, name: str, place: int) -> None:
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


def _fitted_line(axes: Axes, line: pd.DataFrame | None) -> None:
  if line is None:
    style.diagonal(axes, 'equal')
    return
  if len(line):
    x = 100 * line.index.to_numpy(float)
    value, low, high = (100 * line[end].to_numpy() for end in ('value', 'low', 'high'))
    axes.fill_between(x, low, high, color='0.85', linewidth=0, zorder=0)
    axes.plot(x, value, color='0.2', linewidth=1.0, label='fitted line')
