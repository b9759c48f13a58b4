"""Accuracy on anchors against pm-10: published models, the line through them, and one's own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.figures import style
from robustness.metrics import video_testbed as testbed
from robustness.metrics.neighbor_analysis import linear_fit
from robustness.results import Number, Results

AUTO = 'auto'


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws `testbed` where published models were measured on as many anchors (figure 3).

  With `settings['testbed']` another name than 'auto' that testbed is taken; '' draws none.
  """
  prefixes = results.prefixes
  numbers, k = results.numbers, effective_k(results)
  n = numbers[f'{next(iter(prefixes.values()))}accuracy_anchor'].n
  name = results.settings['testbed']
  if name == AUTO:
    name = next((key for key, count in testbed.ANCHORS.items() if count == n and k == 10), '')
  if not name:
    return {}
  own = {
    label: (numbers[f'{prefix}accuracy_anchor'], numbers[f'{prefix}accuracy_pm_{k}'])
    for label, prefix in prefixes.items()
  }
  models = len(testbed.entries(name))
  return {
    'testbed': (
      testbed_fit(name, own),
      (
        f'Accuracy on anchors and at pm-{k}: {models} published models on {name}, the line through '
        'them with its 95 % band (Student), and, in black, the classifiers of this run.'
      ),
    )
  }


def effective_k(results: Results) -> int:
  """Returns the k of `accuracy_pm_<k>`, which the sets may have cut."""
  return int(results.arrays['k'][-1])


@style.styled
def testbed_fit(name: str, own: Mapping[str, tuple[Number, Number]]) -> Figure:
  """Draws the published models by training, their linear fit, and other models in black.

  Args:
    name: 'imagenet_vid_robust' or 'ytbb_robust'.
    own: accuracies on anchors and at pm-10 by label.
  """
  figure = Figure(figsize=(style.COLUMN_WIDTH, 3.6), layout='constrained')
  axes = figure.subplots()
  entries = testbed.entries(name)
  for index, kind in enumerate(testbed.KINDS):
    members = [entry for entry in entries if testbed.kind(entry) == kind]
    for place, entry in enumerate(members):
      point(
        axes,
        _number(entry.anchor, entry.anchor_low, entry.anchor_high),
        _number(entry.worst, entry.worst_low, entry.worst_high),
        style.COLOURS[index],
        style.MARKERS[index],
        kind if place == 0 else None,
        faint=True,
      )
  x = np.array([entry.anchor for entry in entries])
  given = [anchor.value for anchor, _ in own.values()]
  grid = np.linspace(min(x.min(), *given, 1) - 0.02, max(x.max(), *given, 0) + 0.02, 50)
  fit = linear_fit(x, [entry.worst for entry in entries], grid)
  axes.plot(
    100 * grid, 100 * fit.y, color='0.3', linewidth=0.9, label=f'fit, slope {fit.slope.value:.2f}'
  )
  axes.fill_between(100 * grid, 100 * fit.low, 100 * fit.high, color='0.3', alpha=0.2, linewidth=0)
  for index, (label, (anchor, worst)) in enumerate(own.items()):
    point(axes, anchor, worst, 'black', style.MARKERS[::-1][index % len(style.MARKERS)], label)
  axes.set_xlabel('accuracy on anchors (%)')
  axes.set_ylabel('accuracy at pm-10 (%)')
  axes.spines[['top', 'right']].set_visible(False)
  diagonal(axes)
  style.legend_above(figure)
  return figure


def _number(value: float, low: float, high: float) -> Number:
  return Number(value, low, high, 0, 'published')


def point(
  axes: Axes, x: Number, y: Number, colour: str, marker: str, label: str | None, faint: bool = False
) -> None:
  """Draws two numbers, in percent, as a point with the intervals of both."""
  ends = [
    [[100 * (number.value - number.low)], [100 * (number.high - number.value)]] for number in (x, y)
  ]
  axes.errorbar(
    100 * x.value,
    100 * y.value,
    xerr=ends[0],
    yerr=ends[1],
    fmt=marker,
    color=colour,
    markersize=3 if faint else 5,
    elinewidth=0.4 if faint else 0.9,
    label=label,
    alpha=0.7 if faint else 1,
  )


def diagonal(axes: Axes) -> None:
  """Draws the line of no drop within the limits that the points have set."""
  low = max(axes.get_xlim()[0], axes.get_ylim()[0])
  high = min(axes.get_xlim()[1], axes.get_ylim()[1])
  if low < high:
    axes.plot([low, high], [low, high], ':', color='0.5', linewidth=0.8, label='no drop')
