"""The profile of the classifiers in a battery: one figure of their robustness in three ways.

A row per classifier has the heatmap of Fourier frequencies, the errors by corruption and severity,
and the accuracy under attack by its radius ε.
"""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.estimates.facets import EPSILON
from robustness.estimates.quantity import SHARE, Quantity
from robustness.estimates.table import select, select_by
from robustness.present import charts, maps, style
from robustness.present.notation import FREQUENCIES, Notation, value_text
from robustness.present.selection import Selection
from robustness.results import Results, labels_of

MAX_CLASSIFIERS = 3
"""Most classifiers in a profile, which then fits on a page."""
_HEIGHT = 2.4
"""Height in inches of a row."""
_LETTERS = 30
"""Most letters in a line of a title or of the name of a corruption."""
_TICK_SIZE = 6.0
"""Largest font size of numbers and names at axes, in points."""
_DISTANCE = 0.2
"""Least distance of two radii that both get a number at the axis, as a share of the largest."""


class _Column(NamedTuple):
  """One column of plots in the profile figure, which has a row per classifier.

  Attributes:
    caption: what the plots show.
    quantity: the quantity of all rows.
    rows: rows of the table of results, of all classifiers.
    draw: function of (axes, rows of one classifier, quantity) that draws a plot.
  """

  caption: str
  quantity: Quantity
  rows: pd.DataFrame
  draw: Callable[[Axes, pd.DataFrame, Quantity], None]


@style.in_style
def draw(tasks: Mapping[str, Results]) -> dict[str, charts.Picture]:
  """Draws the profile: one figure with a row of plots for each classifier.

  The columns of plots are a heatmap of Fourier frequencies, a heatmap of corruption and severity,
  and accuracy by the radius of an attack. Columns that no task measured are left out. Only the
  first `MAX_CLASSIFIERS` classifiers are drawn.

  Args:
    tasks: {task: its results}.

  Returns:
    {'profile': (figure, caption)}, or {} without any column.
  """
  candidates = (
    _map_column(tasks, 'frequency', *FREQUENCIES),
    _map_column(tasks, 'corruption and severity', 'corruption', 'severity'),
    _attack_column(tasks),
  )
  columns = [column for column in candidates if column is not None]
  if not columns:
    return {}
  measured = {label for column in columns for label in column.rows.classifier}
  labels = [label for label in labels_of(tasks) if label in measured][:MAX_CLASSIFIERS]
  size = style.PAGE_WIDTH * max(len(columns), 2) / 3, _HEIGHT * len(labels) + 0.2
  figure = Figure(figsize=size, layout='constrained')
  grid = figure.subplots(len(labels), len(columns), squeeze=False)
  for axes_of_column, column in zip(grid.T, columns, strict=True):
    for axes, label in zip(axes_of_column, labels, strict=True):
      rows = column.rows[column.rows.classifier == label]
      if rows.empty:  # a task may leave out a classifier
        axes.set_axis_off()
        continue
      axes.tick_params(labelsize=_TICK_SIZE)
      column.draw(axes, rows, column.quantity)
      if len(labels) > 1:
        axes.set_title(style.wrapped(label, _LETTERS), fontsize=7)
  captions = [f'{column.caption}{charts.sample_in_words(column.rows)}' for column in columns]
  excerpt = f' The first {len(labels)} classifiers.' if len(measured) > len(labels) else ''
  return {'profile': (figure, f'Profile: {"; ".join(captions)}.{excerpt}')}


def _map_column(tasks: Mapping[str, Results], words: str, y: str, x: str) -> _Column | None:
  """Returns a column of heatmaps of the same quantity for each classifier.

  The quantity is the first fraction, such as an error, that figures of a task show and that has at
  least two values by the columns `y` and `x`. The result is None if there is no such quantity.

  Args:
    tasks: {task: its results}.
    words: name of both columns in the caption, such as 'corruption and severity'.
    y: column of the table of results on the vertical axis, such as 'corruption'.
    x: column on the horizontal axis, such as 'severity'.
  """
  for results in tasks.values():
    for quantity in results.drawn:
      rows = select_by(results.table, quantity.name, (y, x)).dropna(subset=['value'])
      if len(rows) > 1 and quantity.kind == SHARE:
        limits = maps.limits_of([maps.Panel('', rows, Notation(quantity))])
        draw = functools.partial(_draw_map, y, x, limits)
        return _Column(f'{quantity.words} by {words}', quantity, rows, draw)
  return None


def _draw_map(
  y: str, x: str, limits: tuple[float, float], axes: Axes, rows: pd.DataFrame, quantity: Quantity
) -> None:
  """Draws a classifier's values as coloured cells.

  Args:
    y: column of the table of results on the vertical axis, of names or of frequencies.
    x: column on the horizontal axis.
    limits: ends of the colour scale, which all classifiers share.
    axes: the plot.
    rows: the rows of the classifier.
    quantity: their quantity.
  """
  if (y, x) == FREQUENCIES:
    names, positions = [], rows[y]
  else:  # names are at 0, 1, … of the axis
    names = list(dict.fromkeys(rows[y]))
    positions = rows[y].map(names.index)
  table = maps.cells_of(rows.assign(**{y: positions}), y, x)
  image = maps.cell_image(axes, table, Notation(quantity), limits)
  if names:
    texts = [style.wrapped(value_text(quantity.facet(y), name), _LETTERS) for name in names]
    font_size = min(_TICK_SIZE, style.tick_size(texts, 0.7 * _HEIGHT / len(names)))
    axes.set_yticks(range(len(names)), texts, fontsize=font_size)
    axes.set_xticks(list(table.columns))
    _name_axes(axes, quantity.facet(x).axis, '')
  else:
    _name_axes(axes, 'horizontal frequency', 'vertical frequency')
  bar = axes.figure.colorbar(image, ax=axes, shrink=0.9, aspect=18)
  bar.ax.tick_params(labelsize=6)
  name = quantity.words.partition(' under ')[0]  # 'top-1 error' of 'top-1 error under …'
  bar.set_label(f'{name} ({Notation(quantity).unit})', fontsize=7)


def _attack_column(tasks: Mapping[str, Results]) -> _Column | None:
  """Returns a column of curves of accuracy by the radius ε of an attack.

  The accuracy at radius 0 is without an attack. The result is None if no task measured attacks.

  Args:
    tasks: {task: its results}.
  """
  for results in tasks.values():
    attacked = select(results.table, 'attack_error', '', epsilon=...)  # `...`: at every ε
    if len(attacked):
      clean = select(results.table, 'clean_error', '').assign(epsilon=0.0)
      quantity = next(q for q in results.quantities if q.name == 'attack_error')
      errors = Selection(quantity, pd.concat([clean, attacked]).dropna(subset=['value']))
      accuracies = errors.as_accuracy
      caption = f'{accuracies.quantity.words} by ε'
      return _Column(caption, accuracies.quantity, accuracies.rows, _draw_curve)
  return None


def _draw_curve(axes: Axes, rows: pd.DataFrame, quantity: Quantity) -> None:
  """Draws a classifier's accuracy, with intervals, over the radius ε of the attack.

  Args:
    axes: the plot.
    rows: the estimates of the classifier, one for each ε.
    quantity: their quantity.
  """
  rows, scale = rows.sort_values('epsilon'), quantity.scale
  errors = [scale * (rows.value - rows.low), scale * (rows.high - rows.value)]
  axes.errorbar(
    rows.epsilon, scale * rows.value, errors, fmt='o-', color=style.colour(0), markersize=3
  )
  radii = rows.epsilon.tolist()  # ascending
  numbered = [radii[-1]]  # from the largest radius down, those at a distance from the one before
  for radius in reversed(radii):
    if numbered[-1] - radius >= _DISTANCE * radii[-1]:
      numbered.append(radius)
  texts = [value_text(EPSILON, radius) if radius in numbered else '' for radius in radii]
  axes.set_xticks(radii, texts)
  axes.set_ylim(-3, 103)
  axes.spines[['top', 'right']].set_visible(False)
  _name_axes(axes, 'radius ε', 'accuracy under attack (%)')


def _name_axes(axes: Axes, x: str, y: str) -> None:
  """Writes the names `x` and `y` at the axes."""
  axes.set_xlabel(x, fontsize=7)
  axes.set_ylabel(y, fontsize=7)
