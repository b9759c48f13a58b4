"""Accuracy with intervals, one group of bars a classifier."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.figures import style
from robustness.results import Number


@style.styled
def accuracy_bars(
  accuracies: Mapping[str, Mapping[str, Number]],
  label: str = 'accuracy (%)',
  width: float = style.COLUMN_WIDTH,
) -> Figure:
  """Draws accuracies as horizontal bars with their intervals and values.

  Args:
    accuracies: by classifier, by measure such as 'top-1', a fraction in [0, 1].
    label: of the axis.
    width: of the figure, inches.

  Returns:
    A figure of that width.
  """
  measures = list(dict.fromkeys(m for numbers in accuracies.values() for m in numbers))
  if not measures:
    raise InputError('no accuracies to draw: give at least one classifier with one number.')
  bars = sum(len(numbers) for numbers in accuracies.values())
  figure = Figure(figsize=(width, 0.95 + 0.24 * bars), layout='constrained')
  axes = figure.subplots()
  step = 0.8 / len(measures)
  for index, measure in enumerate(measures):
    offset = (index - (len(measures) - 1) / 2) * step
    _draw_measure(axes, accuracies, measure, index, offset, 0.85 * step)
  axes.set_yticks(range(len(accuracies)), list(accuracies))
  axes.invert_yaxis()
  axes.set_xlim(0, 100)
  axes.set_xlabel(label)
  axes.spines[['top', 'right']].set_visible(False)
  style.legend_above(figure)
  return figure


def _draw_measure(
  axes: Axes,
  accuracies: Mapping[str, Mapping[str, Number]],
  measure: str,
  index: int,
  offset: float,
  height: float,
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
    error_kw={'linewidth': 0.9, 'capsize': 2},
  )
  for place, number in zip(y, numbers, strict=True):
    axes.annotate(
      style.percent_with_interval(number),
      (1, place),
      textcoords='offset points',
      xycoords=('axes fraction', 'data'),
      xytext=(4, 0),
      va='center',
      fontsize=7,
    )
