"""Accuracy on anchors against pm-10: published models, the line through them, and one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.estimates.table import select
from robustness.present import style
from robustness.results import Results
from robustness.video import testbed


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws `testbed` where published models were measured on as many anchors (figure 3).

  With `settings['testbed']` another name than 'auto' that testbed is taken; '' draws none.
  """
  anchor = select(results.table, 'accuracy_anchor').set_index('classifier')
  worst = select(results.table, 'accuracy_pm_k', k=...)
  if anchor.empty or worst.empty:
    return {}
  k = int(worst.k.max())
  worst = worst[worst.k == k].set_index('classifier')
  name, n = results.settings.get('testbed', ''), set(anchor.n)
  if name == 'auto':
    name = next((key for key, count in testbed.ANCHORS.items() if n == {count} and k == 10), '')
  if not name:
    return {}
  own = {label: (anchor.loc[label], worst.loc[label]) for label in anchor.index}
  models = len(testbed.entries(name))
  caption = (
    f'Accuracy on anchors and at pm-{k}: {models} published models on {name}, the line through '
    'them with its 95 % band (Student), and, in black, the classifiers of this run.'
  )
  return {'testbed': (testbed_fit(name, own), caption)}


@style.styled
def testbed_fit(name: str, own: Mapping[str, tuple[Any, Any]]) -> Figure:
  """Draws the published models by training, their linear fit, and other models in black.

  Args:
    name: 'imagenet_vid_robust' or 'ytbb_robust'.
    own: by label, accuracies on anchors and at pm-10, with `value`, `low` and `high` as rows of the
      table of results have them.
  """
  figure = Figure(figsize=(style.COLUMN_WIDTH, 3.6), layout='constrained')
  axes = figure.subplots()
  entries = testbed.entries(name)
  for index, kind in enumerate(testbed.KINDS):
    members = [entry for entry in entries if testbed.kind(entry) == kind]
    for place, entry in enumerate(members):
      label = kind if place == 0 else None
      look = {'color': style.COLOURS[index], 'fmt': style.MARKERS[index], 'label': label}
      _point(axes, entry[1:4], entry[4:7], markersize=3, elinewidth=0.4, alpha=0.7, **look)
  x = np.array([entry.anchor for entry in entries])
  given = [anchor.value for anchor, _ in own.values()]
  grid = np.linspace(min(x.min(), *given, 1) - 0.02, max(x.max(), *given, 0) + 0.02, 50)
  fit = testbed.linear_fit(x, [entry.worst for entry in entries], grid)
  label = f'fit, slope {fit.slope.value:.2f}'
  axes.plot(100 * grid, 100 * fit.y, color='0.3', linewidth=0.9, label=label)
  axes.fill_between(100 * grid, 100 * fit.low, 100 * fit.high, color='0.3', alpha=0.2, linewidth=0)
  for index, (label, pair) in enumerate(own.items()):
    ends = ((row.value, row.low, row.high) for row in pair)
    marker = style.MARKERS[::-1][index % len(style.MARKERS)]
    _point(axes, *ends, color='black', fmt=marker, markersize=5, elinewidth=0.9, label=label)
  axes.set_xlabel('accuracy on anchors (%)')
  axes.set_ylabel('accuracy at pm-10 (%)')
  axes.spines[['top', 'right']].set_visible(False)
  low = max(axes.get_xlim()[0], axes.get_ylim()[0])
  high = min(axes.get_xlim()[1], axes.get_ylim()[1])
  if low < high:
    axes.plot([low, high], [low, high], ':', color='0.5', linewidth=0.8, label='no drop')
  style.legend_above(figure)
  return figure


def _point(axes: Axes, x: tuple[float, ...], y: tuple[float, ...], **look: Any) -> None:
  """Draws two shares, each a value and the ends of its interval, in percent."""
  (a, a_low, a_high), (b, b_low, b_high) = (100 * np.array(ends) for ends in (x, y))
  bars: dict[str, Any] = {'xerr': [[a - a_low], [a_high - a]], 'yerr': [[b - b_low], [b_high - b]]}
  axes.errorbar(a, b, **bars, **look)
