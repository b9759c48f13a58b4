"""Reliability diagrams: accuracy by confidence, in the first view and over all other views.

The first view is usually the clean images, and the others are corrupted.
"""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.table import facets_of
from robustness.present import style
from robustness.present.style import panels
from robustness.results import Results

_MAX_ROWS = 3  # most classifiers that have a row each
_DIAGRAMS_PER_ROW = 4  # if there are more classifiers
_MIN_COUNT = 5  # fewest predictions in a bin with a drawn accuracy


@style.styled
def draw(results: Results) -> tuple[Figure, str]:
  """Returns a figure and its caption: a diagram per classifier for the first view.

  If there are more views, each classifier has a second diagram with all of them together. The
  results need the quantities `bin_size`, `bin_confidence` and `bin_accuracy` by view and `bin`,
  with the bin of the highest confidence first.
  """
  rows, confidence = results.table[results.table.bin.notna()], results.settings['confidence']
  labels = list(dict.fromkeys(rows.classifier))
  num_diagrams = 1 + (rows.bin.value_counts().iloc[0] > 3 * len(labels))
  count = len(labels) * num_diagrams
  in_row = min(count, num_diagrams if 1 < len(labels) <= _MAX_ROWS else _DIAGRAMS_PER_ROW)
  width = min(style.PAGE_WIDTH, 1.9 * in_row + 0.5)
  height = min(style.PAGE_HEIGHT, 0.5 + width / in_row * math.ceil(count / in_row))
  figure, grid = panels(count, in_row, (width, height))
  for index, axes in enumerate(grid):
    label = labels[index // num_diagrams]
    is_first = index % num_diagrams == 0
    colour = style.colour(results.labels.index(label))
    title = _diagram(axes, rows[rows.classifier == label], is_first, confidence, colour)
    title = f'{label}: {title}' if len(labels) > 1 else title
    axes.set_title(style.wrapped(title, int(width / in_row / style.LETTER)))
  figure.supxlabel('confidence (%)')
  figure.supylabel('accuracy (%)')
  return figure, (
    f'Accuracy by confidence in {rows.bin.max()} bins of equal width, on {rows.n.iloc[0]} images, '
    f'with {100 * confidence:g} % Clopper–Pearson intervals of bins with at least {_MIN_COUNT} '
    'predictions (over several views they count predictions, not images); bars: the share of '
    'predictions in each bin. Below the diagonal a classifier is overconfident.'
  )


def _diagram(axes: Axes, rows: pd.DataFrame, is_first: bool, confidence: float, colour: str) -> str:
  """Draws the accuracy in each bin of confidence, and returns the name of the views.

  Args:
    axes: the plot.
    rows: rows of a classifier.
    is_first: whether the first view is drawn, and not all others together.
    confidence: confidence of the intervals, in (0, 1).
    colour: colour of the classifier.
  """
  names = facets_of(rows.drop(columns='bin').dropna(axis=1, how='all'))
  view = rows[names].iloc[0]
  size, mean, accuracy = (
    rows[rows.quantity == f'bin_{name}'].value.to_numpy().reshape(-1, rows.bin.max())
    for name in ('size', 'confidence', 'accuracy')
  )
  views = slice(0, 1) if is_first else slice(1, None)
  total, right = size[views].sum(0), (size * accuracy)[views].sum(0)
  width = 100 / len(total)
  edges = width * np.arange(len(total))[::-1]
  axes.bar(edges, 100 * total / total.sum(), width, align='edge', color='0.85', linewidth=0)
  axes.plot([0, 100], [0, 100], color='0.3', linewidth=0.8, linestyle=':')
  mask = total >= _MIN_COUNT
  value = 100 * right[mask] / total[mask]
  low, high = (100 * end for end in clopper_pearson(np.round(right[mask]), total[mask], confidence))
  axes.errorbar(
    100 * (size * mean)[views].sum(0)[mask] / total[mask],
    value,
    np.abs(np.stack([value - low, high - value])),
    color=colour,
    marker='o',
    markersize=3,
    linewidth=1,
    elinewidth=0.8,
  )
  axes.set_xlim(0, 100)
  axes.set_ylim(0, 100)
  axes.set_aspect('equal')
  return ', '.join(str(value) for value in view.dropna()) if is_first else 'all other views'
