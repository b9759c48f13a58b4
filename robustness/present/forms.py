"""Figures of points, curves and scatter plots.

Each function takes rows of the table of results with a boolean column `marked`, which is true for
significant differences. A classifier has the same colour, line style and marker in all figures.
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
from robustness.present.maps import Panel
from robustness.present.notation import Notation, are_degenerate, label_of
from robustness.present.style import panels

References = Mapping[tuple[str, str], float]
"""Values to compare estimates with, such as the clean error: {(classifier, name): value}. The name
is a value of a column, such as 'fog', or '' for a value over all conditions."""
_NO_REFERENCES: References = {}
MAX_COLUMNS = 5
"""Most plots of curves side by side."""
_LINE, _GROUP = 0.13, 0.2
"""Heights in inches: of a point with its interval, and least height of the points of one name."""
_DECADES = 2.5
"""Powers of ten that values span at least if their axis is logarithmic."""


@style.in_style
def rows_of_points(
  names: Sequence[str],
  plots: Sequence[Panel],
  labels: Sequence[str],
  column: str,
  reference: References = _NO_REFERENCES,
) -> Figure:
  """Draws points with intervals, such as the errors of classifiers under each corruption.

  Names are below one another, with a point of each classifier at each name.

  Args:
    names: names at the vertical axis, such as corruptions, from top to bottom.
    plots: the plots side by side: values, then differences. Their titles are not drawn.
    labels: all classifiers, in the order that decides their colours.
    column: the column of the rows with the names.
    reference: values to compare with. A value for a name is a bar next to the point, a value over
      all conditions a broken line through all names. Plots of differences show neither.
  """
  in_plots = {label for plot in plots for label in plot.rows.classifier}
  drawn = [label for label in labels if label in in_plots]
  facet = plots[0].notation.quantity.facet(column)
  ticks = [style.wrapped(label_of(facet, name), 30) for name in names]
  # Widths and heights in inches.
  width = style.COLUMN_WIDTH if len(plots) == 1 else style.PAGE_WIDTH
  margin = style.LETTER * style.longest_line(ticks)
  letters_per_head = max(15, int((width - margin) / len(plots) / style.LETTER))
  heads = [style.wrapped(plot.notation.head, letters_per_head) for plot in plots]
  height_of_heads = 0.75 + _LINE * max(head.count('\n') for head in heads)
  # A name needs room for its text and for a point of each classifier.
  lines_per_name = max(len(drawn), *(text.count('\n') + 1 for text in ticks))
  height = height_of_heads + len(names) * max(_GROUP, _LINE * lines_per_name)
  height = min(height, style.PAGE_HEIGHT)
  height_of_name = (height - height_of_heads) / len(names)
  figure = Figure(figsize=(width, height), layout='constrained')
  [grid] = figure.subplots(1, len(plots), squeeze=False, sharey=True)
  # Names are at 0, 1, … on the vertical axis. The points of the classifiers are spread over 0.75
  # around each.
  offsets = (np.arange(len(drawn)) - (len(drawn) - 1) / 2) * 0.75 / len(drawn)
  for axes, head, (_, rows, notation) in zip(grid, heads, plots, strict=True):
    for label, offset in zip(drawn, offsets, strict=True):
      group = rows[rows.classifier == label]
      if group.empty:
        continue
      y = np.array([names.index(str(name)) for name in group[column]]) + offset
      x, low, high = _values_and_ends(group, notation.scale)
      marked, index = group.marked.to_numpy(), labels.index(label)
      _draw_points(axes, [x, low, high], [y], index, label)
      style.mark_significant(axes, x[marked], y[marked])
      _draw_hollow_markers(axes, x, y, are_degenerate(group), index)
      if not notation.difference:
        colour, scale = style.colour(index), notation.scale
        if (label, '') in reference:
          axes.axvline(scale * reference[label, ''], color=colour, linestyle='--', linewidth=0.7)
        # NaN, which is not drawn, for a name without a reference
        bars = [scale * reference.get((label, str(name)), math.nan) for name in group[column]]
        axes.plot(bars, y, '|', color=colour, markersize=6)
    if notation.difference:
      axes.axvline(0, color='0.3', linewidth=0.6)
    if limits := _limits(notation, rows):
      axes.set_xlim(limits)
    axes.set_xlabel(head)
    axes.spines[['top', 'right']].set_visible(False)
    axes.grid(axis='y', color='0.92', linewidth=0.5)
    axes.set_axisbelow(True)
  grid[0].set_yticks(range(len(names)), ticks, fontsize=style.tick_size(ticks, height_of_name))
  grid[0].set_ylim(len(names) - 0.4, -0.6)  # downwards
  style.legend_above(figure)
  return figure


def _draw_points(
  axes: Axes,
  x: Sequence[np.ndarray],
  y: Sequence[np.ndarray],
  index: int,
  label: str,
  linewidth: float = 0.9,
) -> None:
  """Draws one classifier's points, with error bars where intervals are known.

  Args:
    axes: the plot.
    x: [values], or [values, lower ends, upper ends], along the horizontal axis; arrays [n].
    y: likewise for the vertical axis.
    index: index of the classifier's colour and marker.
    label: its name in the legend.
    linewidth: width of the error bars in points.
  """

  def lengths(axis: Sequence[np.ndarray]) -> np.ndarray | None:
    """Converts intervals to the lengths of error bars below and above each point, [2, n].

    Args:
      axis: [values], or [values, lower ends, upper ends], arrays [n]. Without ends, there are no
        error bars, and the result is None.
    """
    if len(axis) == 1:
      return None
    value, low, high = axis
    return np.maximum(np.nan_to_num([value - low, high - value]), 0)  # 0 for an unknown end

  look: dict[str, Any] = {'fmt': style.marker(index), 'color': style.colour(index), 'label': label}
  axes.errorbar(x[0], y[0], lengths(y), lengths(x), markersize=3.5, linewidth=linewidth, **look)


def _draw_hollow_markers(
  axes: Axes, x: np.ndarray, y: np.ndarray, mask: np.ndarray, index: int
) -> None:
  """Draws white markers over one classifier's degenerate estimates.

  Args:
    axes: the plot.
    x: horizontal positions of the estimates, [n].
    y: vertical positions, [n].
    mask: whether an estimate is degenerate, [n].
    index: index of the classifier's colour and marker.
  """
  look: dict[str, Any] = {'color': style.colour(index), 'markerfacecolor': 'white', 'zorder': 4}
  if mask.any():
    axes.plot(x[mask], y[mask], style.marker(index), markersize=3.5, **look)


def _values_and_ends(rows: pd.DataFrame, scale: float) -> list[np.ndarray]:
  """Returns the values and the ends of the intervals of n estimates, multiplied by `scale`.

  Ends are NaN without an interval. They are also NaN for degenerate estimates, such as a ratio with
  a denominator near 0.

  Returns:
    [values, lower ends, upper ends], three arrays [n].
  """
  value, *ends = (scale * rows[name].to_numpy(float) for name in ('value', 'low', 'high'))
  is_degenerate = are_degenerate(rows)
  return [value, *(np.where(is_degenerate, np.nan, end) for end in ends)]


@style.in_style
def curves(
  parts: Sequence[Panel], labels: Sequence[str], x: str, reference: References = _NO_REFERENCES
) -> Figure:
  """Draws curves over an ordered column, such as severity, with bands of their intervals.

  Args:
    parts: the plots. They share a vertical axis if all have the same quantity and unit, and all
      are values or all are differences.
    labels: all classifiers, in the order that decides their colours.
    x: the column on the horizontal axis.
    reference: values over all conditions to compare curves with, drawn as dotted lines.
  """
  count, first_notation = len(parts), parts[0].notation
  has_shared_axis = all(panel.notation == first_notation for panel in parts)
  columns = min(MAX_COLUMNS, count)
  titles = [style.wrapped(panel.title, 20) for panel in parts]
  # Widths and heights in inches; one or two plots are larger than the plots of a grid.
  above = _LINE * max(title.count('\n') for title in titles)
  width = style.COLUMN_WIDTH if count == 1 else style.PAGE_WIDTH
  height = 2.5 + above
  if count > 2:
    height = min(0.6 + (1.35 + above) * math.ceil(count / columns), style.PAGE_HEIGHT)
  figure, grid = panels(count, columns, (width, height), sharey=has_shared_axis)
  for axes, title, panel in zip(grid, titles, parts, strict=True):
    _draw_curves(axes, panel, labels, x, reference)
    panels_on_axis = parts if has_shared_axis else [panel]
    if limits := _limits(panel.notation, *(part.rows for part in panels_on_axis)):
      axes.set_ylim(limits)
    if not has_shared_axis or count == 1:
      axes.set_ylabel(style.wrapped(panel.notation.head, int(0.7 * height / style.LETTER)))
    axes.set_title(title, fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  if all(pd.api.types.is_integer_dtype(panel.rows[x].dtype) for panel in parts):
    grid[0].xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
  figure.supxlabel(first_notation.quantity.facet(x).axis)
  style.legend_above(figure)
  if has_shared_axis and count > 1:
    head = style.wrapped(first_notation.head, int(0.7 * height / style.LETTER))
    figure.supylabel(head, y=height / 2 / figure.get_figheight())  # next to the plots
  return figure


def _draw_curves(
  axes: Axes, panel: Panel, labels: Sequence[str], x: str, reference: References
) -> None:
  """Draws the curves of all classifiers with bands of intervals, and marks significant differences.

  Args:
    axes: the plot.
    panel: rows of the table of results, and their notation.
    labels: labels of the classifiers, in the order of their colours.
    x: the column on the horizontal axis.
    reference: values over all conditions to compare curves with; not drawn with differences.
  """
  rows, notation = panel.rows, panel.notation
  for index, label in enumerate(labels):
    group = rows[rows.classifier == label].sort_values(x)
    if group.empty:
      continue
    colour = style.colour(index)
    positions = group[x].to_numpy(float)
    value, low, high = _values_and_ends(group, notation.scale)
    look: dict[str, Any] = {'color': colour, 'linestyle': style.dashes(index), 'label': label}
    marker = style.marker(index) if len(group) <= 40 else ''
    axes.plot(positions, value, marker=marker, markersize=2.5, **look)
    if len(group) == 1:  # a single point has no band
      axes.vlines(positions, low, high, color=colour, linewidth=0.9)
    axes.fill_between(positions, low, high, color=colour, alpha=0.2, linewidth=0)
    _draw_hollow_markers(axes, positions, value, are_degenerate(group), index)
    if (label, '') in reference and not notation.difference:
      level = notation.scale * reference[label, '']
      axes.axhline(level, color=colour, linestyle=':', linewidth=0.8)
  if notation.difference:
    marked = rows[rows.marked]
    values = notation.scale * marked.value.to_numpy(float)
    style.mark_significant(axes, marked[x].to_numpy(float), values)
    axes.axhline(0, color='0.3', linewidth=0.6)
  elif _spans_decades(rows):
    style.log_scale(axes)


def _limits(notation: Notation, *parts: pd.DataFrame) -> tuple[float, float] | None:
  """Returns limits for an axis on which all values are equal.

  They are the range of the quantity with margins. The result is None, and Matplotlib chooses the
  limits, if the values differ or the range is infinite.

  Args:
    notation: the quantity, and whether its differences are shown.
    *parts: rows with the values on the axis.
  """
  quantity = notation.quantity
  low, high = quantity.difference_range if notation.difference else quantity.range
  numbers = np.concatenate([array for rows in parts for array in _values_and_ends(rows, scale=1)])
  numbers = numbers[np.isfinite(numbers)]
  if not math.isfinite(high - low) or not len(numbers) or np.ptp(numbers) > 1e-12:
    return None
  margin = 0.05 * (high - low)
  return notation.scale * (low - margin), notation.scale * (high + margin)


def _spans_decades(rows: pd.DataFrame) -> bool:
  """Returns whether an axis should be logarithmic.

  All values must be positive and span more than `_DECADES` powers of ten.
  """
  values = rows.value.to_numpy(float)
  values = values[np.isfinite(values)]
  return len(values) > 0 and 0 < values.min() * 10**_DECADES < values.max()


class NamedPoints(NamedTuple):
  """A scatter plot of fractions, with a named point for each row of two tables.

  Attributes:
    titles: lines above the plot.
    x, y: tables with the columns `value`, `low` and `high`, indexed by name. Names must be in both
      tables to be drawn.
    line: a fitted line with a band. It is a table of `value`, `low` and `high`, indexed by the
      position on the horizontal axis. None draws the diagonal instead.
  """

  titles: Sequence[str]
  x: pd.DataFrame
  y: pd.DataFrame
  line: pd.DataFrame | None = None


@style.in_style
def named_points(
  points: Sequence[NamedPoints], x: str, y: str, labels: Sequence[str] = ()
) -> Figure:
  """Draws scatter plots in percent side by side, with one legend and common axes.

  Plots of differences have a line at 0.

  Args:
    points: the plots.
    x: what the horizontal axis shows, in words.
    y: what the vertical axis shows, in words.
    labels: names of the points, in the order that decides their colours; () for the names in the
      plots, with spaces for underscores.
  """
  lines = math.ceil(len(points) / 3)  # at most 3 plots in a line
  columns = math.ceil(len(points) / lines)
  width = style.COLUMN_WIDTH + 0.6 if columns == 1 else style.PAGE_WIDTH
  height = min(style.PAGE_HEIGHT, 0.5 + 2.5 * lines)
  figure, grid = panels(len(points), columns, (width, height))
  names = labels or list(dict.fromkeys(name for panel in points for name in panel.y.index))
  for axes, panel in zip(grid, points, strict=True):
    if (panel.y.versus != '').any():
      axes.axhline(0, color='0.6', linewidth=0.6)
    for index, name in enumerate(names):
      if name in panel.x.index and name in panel.y.index:
        point_x = _values_and_ends(panel.x.loc[[name]], scale=100)
        point_y = _values_and_ends(panel.y.loc[[name]], scale=100)
        label = name if labels else name.replace('_', ' ')
        _draw_points(axes, point_x, point_y, index, label, linewidth=0.6)
    if panel.line is not None and len(panel.line):
      line_x = 100 * panel.line.index.to_numpy(float)
      value, low, high = _values_and_ends(panel.line, 100)
      axes.fill_between(line_x, low, high, color='0.85', linewidth=0, zorder=0)
      axes.plot(line_x, value, color='0.2', linewidth=1.0, label='fitted line')
    letters = int(width / columns / 0.055)  # inches per letter of these small titles
    axes.set_title('\n'.join(style.wrapped(t, letters) for t in panel.titles), fontsize=7)
    axes.spines[['top', 'right']].set_visible(False)
  for axes, panel in zip(grid, points, strict=True):
    if panel.line is None:
      # Last, because the diagonal fixes the limits of the axes, which the plots share.
      style.diagonal(axes, 'equal')
  figure.supxlabel(style.wrapped(x, int(0.8 * width / style.LETTER)))
  style.legend_above(figure)
  head = style.wrapped(y, int(0.8 * height / style.LETTER))
  figure.supylabel(head, y=height / 2 / figure.get_figheight())  # next to the plots
  return figure


@style.in_style
def scatter_page(
  pairs: Sequence[tuple[str, str]], values: Mapping[str, pd.DataFrame], labels: Sequence[str]
) -> Figure:
  """Draws a scatter plot for each pair of quantities, with one legend.

  Args:
    pairs: names of the quantities on the horizontal and the vertical axis of each plot.
    values: {quantity: rows of the table of results, indexed by name}. Values are multiplied by the
      column `scale`, such as 100 for percent.
    labels: all names, in the order that decides their colours.
  """
  lines = math.ceil(len(pairs) / 3)  # at most 3 plots in a line
  columns = math.ceil(len(pairs) / lines)
  width, height = style.PAGE_WIDTH, min(style.PAGE_HEIGHT, 0.5 + 2.5 * lines)
  figure, grid = panels(len(pairs), columns, (width, height), sharex=False, sharey=False)
  heads = {}  # what an axis shows, by quantity
  for quantity, rows in values.items():
    heads[quantity] = f'{quantity} (%)' if (rows['scale'] == 100).all() else quantity
  for axes, (across, up) in zip(grid, pairs, strict=True):
    for index, name in enumerate(labels):
      if name in values[across].index and name in values[up].index:
        x_row, y_row = values[across].loc[[name]], values[up].loc[[name]]
        x = _values_and_ends(x_row, float(x_row['scale'].iloc[0]))
        y = _values_and_ends(y_row, float(y_row['scale'].iloc[0]))
        _draw_points(axes, x, y, index, name, linewidth=0.6)
    # 0.07 and 0.08 inches per letter of these small names, with margins
    axes.set_xlabel(style.wrapped(heads[across], int(width / columns / 0.07)), fontsize=6)
    axes.set_ylabel(style.wrapped(heads[up], int(height / lines / 0.08)), fontsize=6)
    axes.spines[['top', 'right']].set_visible(False)
  style.legend_above(figure)
  return figure
