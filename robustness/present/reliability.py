"""Reliability diagrams: accuracy by confidence, in the first view and over all other views.

The first view is usually the clean images, and the others are corrupted.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.table import facets_of
from robustness.present import style
from robustness.present.style import panels
from robustness.results import Results

_MAX_ROWS = 3
"""Most classifiers that have a row of diagrams each. With more, rows have `_DIAGRAMS_PER_ROW`."""
_DIAGRAMS_PER_ROW = 4
_MIN_COUNT = 5
"""Fewest predictions in a bin with a drawn accuracy."""
_QUANTITIES = ('bin_size', 'bin_confidence', 'bin_accuracy')
"""The share of predictions in a bin, their mean confidence and their accuracy."""


@style.in_style
def draw(results: Results) -> tuple[Figure, str]:
  """Draws reliability diagrams: each classifier's accuracy by its confidence.

  Each classifier has a diagram for the first view (usually the clean images). If there are more
  views, such as corruptions, a second diagram is for all of them together.

  Args:
    results: results with the quantities `bin_size`, `bin_confidence` and `bin_accuracy` for each
      view and bin, view by view, from the bin of the highest confidence on.

  Returns:
    (figure, caption).
  """
  rows, confidence = results.table[results.table.bin.notna()], results.settings['confidence']
  labels = list(dict.fromkeys(rows.classifier))
  # A bin has a row for each quantity of each classifier in each view.
  num_views = rows.bin.value_counts().max() / (len(_QUANTITIES) * len(labels))
  diagrams_per_label = 2 if num_views > 1 else 1
  count = len(labels) * diagrams_per_label
  # Diagrams side by side: all of one classifier, or the number that fits.
  has_row_per_label = 1 < len(labels) <= _MAX_ROWS
  columns = diagrams_per_label if has_row_per_label else min(count, _DIAGRAMS_PER_ROW)
  width = min(style.PAGE_WIDTH, 1.9 * columns + 0.5)  # inches
  height = min(style.PAGE_HEIGHT, 0.5 + width / columns * math.ceil(count / columns))
  figure, grid = panels(count, columns, (width, height))
  for index, axes in enumerate(grid):
    label = labels[index // diagrams_per_label]
    is_first_view = index % diagrams_per_label == 0
    colour = style.colour(results.labels.index(label))
    views = _diagram(axes, rows[rows.classifier == label], is_first_view, confidence, colour)
    title = f'{label}: {views}' if len(labels) > 1 else views
    axes.set_title(style.wrapped(title, int(width / columns / style.LETTER)))
  figure.supxlabel('confidence (%)')
  figure.supylabel('accuracy (%)')
  return figure, (
    f'Accuracy by confidence in {rows.bin.max()} bins of equal width, on {rows.n.iloc[0]:,} '
    f'images, with {100 * confidence:g} % Clopper–Pearson intervals of bins with at least '
    f'{_MIN_COUNT} predictions (over several views they count predictions, not images); bars: the '
    'share of predictions in each bin. Below the diagonal a classifier is overconfident.'
  )


def _diagram(
  axes: Axes, rows: pd.DataFrame, is_first_view: bool, confidence: float, colour: str
) -> str:
  """Draws a classifier's accuracy in each bin of confidence.

  Args:
    axes: the plot.
    rows: rows of a classifier, view by view, from the bin of the highest confidence on.
    is_first_view: whether to draw the first view (usually the clean images) or all others together.
    confidence: confidence of the intervals, in (0, 1).
    colour: colour of the classifier.

  Returns:
    A title that names what is drawn, such as 'all other views'.
  """
  num_bins = rows.bin.max()  # bins are numbered from 1
  values = {  # [views, bins]
    name: rows[rows.quantity == name].value.to_numpy().reshape(-1, num_bins) for name in _QUANTITIES
  }
  count, accuracy = values['bin_size'], values['bin_accuracy']
  views = slice(0, 1) if is_first_view else slice(1, None)
  # For each bin: the number of predictions, of right ones, and the sum of their confidences.
  total, right = count[views].sum(0), (count * accuracy)[views].sum(0)
  sum_of_confidences = (count * values['bin_confidence'])[views].sum(0)
  width = 100 / num_bins
  # The first bin has the highest confidence, so left edges descend: 90, 80, …, 0.
  edges = width * np.arange(num_bins)[::-1]
  axes.bar(edges, 100 * total / total.sum(), width, align='edge', color='0.85', linewidth=0)
  axes.plot([0, 100], [0, 100], color='0.3', linewidth=0.8, linestyle=':')  # calibrated
  is_drawn = total >= _MIN_COUNT
  total, right = total[is_drawn], right[is_drawn]
  percent_confidence = 100 * sum_of_confidences[is_drawn] / total
  percent_right = 100 * right / total
  low, high = (100 * end for end in clopper_pearson(np.round(right), total, confidence))
  # rounding can make a length negative
  lengths = np.abs(np.stack([percent_right - low, high - percent_right]))
  look: dict[str, Any] = {'color': colour, 'marker': 'o', 'markersize': 3, 'linewidth': 1}
  axes.errorbar(percent_confidence, percent_right, lengths, elinewidth=0.8, **look)
  axes.set(xlim=(0, 100), ylim=(0, 100), aspect='equal')
  if not is_first_view:
    return 'all other views'
  facets = facets_of(rows.drop(columns='bin').dropna(axis=1, how='all'))
  return ', '.join(str(value) for value in rows[facets].iloc[0].dropna())
