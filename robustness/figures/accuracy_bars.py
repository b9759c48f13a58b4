"""Accuracy with intervals as bars, in groups: by classifier, or by what classifiers are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.figures import style
from robustness.figures.panels import name_axes
from robustness.results import Number

_SPELT, _PLAIN, _GROUP = 0.24, 0.13, 0.2  # inches: a bar with its value, one without, a group
_ENDS = 0.95  # inches: legend, axis and its name
_COLUMNS = 3
_LETTERS = 24  # of a line of a group's name


@style.styled
def accuracy_bars(
  accuracies: Mapping[str, Mapping[str, Number]],
  label: str = 'accuracy (%)',
  width: float = style.COLUMN_WIDTH,
  spelt: bool = True,
  clean: Mapping[str, Number] | None = None,
) -> Figure:
  """Draws accuracies as horizontal bars with their intervals, from 0 to where all of them end.

  Args:
    accuracies: by group, such as a classifier, by measure, such as 'top-1', fractions in [0, 1].
    label: of the axis.
    width: of the figure, inches.
    spelt: whether the values are written beside the bars, where a page has room for that.
    clean: by measure, a dashed line in the colour of its bars.

  Returns:
    A figure of that width, or of a page's where the bars need several columns; no higher than a
    page, but for its legend.
  """
  measures = list(dict.fromkeys(m for numbers in accuracies.values() for m in numbers))
  if not measures:
    raise InputError('no accuracies to draw: give at least one classifier with one number.')
  bars = sum(len(numbers) for numbers in accuracies.values())
  spelt = spelt and _ENDS + _SPELT * bars <= style.PAGE_HEIGHT
  each = _SPELT * bars / len(accuracies) if spelt else max(_GROUP, _PLAIN * len(measures))
  needed = _ENDS + each * len(accuracies)
  columns = min(_COLUMNS, math.ceil(needed / style.PAGE_HEIGHT))
  lines = math.ceil(len(accuracies) / columns)
  figure = Figure(
    figsize=(
      width if columns == 1 else style.PAGE_WIDTH,
      min(style.PAGE_HEIGHT, _ENDS + each * lines),
    ),
    layout='constrained',
  )
  groups = list(accuracies.items())
  for column, axes in enumerate(figure.subplots(1, columns, squeeze=False)[0]):
    own = dict(groups[column * lines : (column + 1) * lines])
    _draw_column(axes, own, measures, spelt, clean or {})
    axes.set_ylim(lines - 0.5, -0.5)
    axes.set_xlim(
      0, style.percent_end(*_ends(accuracies), [n.value for n in (clean or {}).values()])
    )
    axes.spines[['top', 'right']].set_visible(False)
  name_axes(figure, label)
  style.legend_above(figure, [style.dashed('clean images')] if clean else [])
  return figure


def _ends(accuracies: Mapping[str, Mapping[str, Number]]) -> list[list[float]]:
  return [[number.value, number.high] for of in accuracies.values() for number in of.values()]


def _draw_column(
  axes: Axes,
  accuracies: Mapping[str, Mapping[str, Number]],
  measures: Sequence[str],
  spelt: bool,
  clean: Mapping[str, Number],
) -> None:
  step = 0.8 / len(measures)
  for index, measure in enumerate(measures):
    offset = (index - (len(measures) - 1) / 2) * step
    _draw_measure(axes, accuracies, measure, index, offset, 0.85 * step, spelt)
    if measure in clean:
      axes.axvline(
        100 * clean[measure].value, color=style.colour(index), linestyle='--', linewidth=0.8
      )
  names = [style.wrapped(name, _LETTERS) for name in accuracies]
  axes.set_yticks(range(len(accuracies)), names)


def _draw_measure(
  axes: Axes,
  accuracies: Mapping[str, Mapping[str, Number]],
  measure: str,
  index: int,
  offset: float,
  height: float,
  spelt: bool,
) -> None:
  places = [place for place, of in enumerate(accuracies.values()) if measure in of]
  numbers = [of[measure] for of in accuracies.values() if measure in of]
  value, low, high = (
    100 * np.array([getattr(number, end) for number in numbers]) for end in ('value', 'low', 'high')
  )
  y = np.array(places) + offset
  errors = np.stack([value - low, high - value])
  axes.barh(
    y,
    value,
    height,
    color=style.colour(index),
    alpha=0.75,
    label=measure,
    xerr=errors,
    error_kw={'linewidth': 0.9, 'capsize': 2} if spelt else {'linewidth': 0.7},
  )
  for place, number in zip(y, numbers if spelt else [], strict=spelt):
    axes.annotate(
      style.percent_with_interval(number),
      (1, place),
      textcoords='offset points',
      xycoords=('axes fraction', 'data'),
      xytext=(4, 0),
      va='center',
      fontsize=7,
    )
