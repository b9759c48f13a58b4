"""Reliability diagrams: accuracy by confidence, in the first view and in all others together."""

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

_BELOW, _IN_ROW = 3, 4  # classifiers below each other; with more, diagrams side by side
_FEWEST = 5  # predictions in a bin whose accuracy is drawn


@style.styled
def draw(results: Results) -> tuple[Figure, str]:
  """Returns a diagram a classifier, of several views a second one of all but the first; a caption.

  Results have `bin_size`, `bin_confidence` and `bin_accuracy` by view and `bin`, the surest first.
  """
  rows, confidence = results.table[results.table.bin.notna()], results.settings['confidence']
  labels = list(dict.fromkeys(rows.classifier))
  several = rows.bin.value_counts().iloc[0] > 3 * len(labels)
  count = len(labels) * (1 + several)
  in_row = min(count, 1 + several if 1 < len(labels) <= _BELOW else _IN_ROW)
  width = min(style.PAGE_WIDTH, 1.9 * in_row + 0.5)
  height = min(style.PAGE_HEIGHT, 0.5 + width / in_row * math.ceil(count / in_row))
  figure, grid = panels(count, in_row, (width, height))
  for index, axes in enumerate(grid):
    label = labels[index // (1 + several)]
    first = not several or index % 2 == 0
    colour = style.colour(results.labels.index(label))
    title = _diagram(axes, rows[rows.classifier == label], first, confidence, colour)
    title = f'{label}: {title}' if len(labels) > 1 else title
    axes.set_title(style.wrapped(title, int(width / in_row / style.LETTER)))
  figure.supxlabel('confidence (%)')
  figure.supylabel('accuracy (%)')
  return figure, (
    f'Accuracy by confidence in {rows.bin.max()} bins of equal width, on {rows.n.iloc[0]} images, '
    f'with {100 * confidence:g} % Clopper–Pearson intervals of bins with at least {_FEWEST} '
    'predictions (over several views they count predictions, not images); bars: the share of '
    'predictions in each bin. Below the diagonal a classifier is overconfident.'
  )


def _diagram(axes: Axes, rows: pd.DataFrame, first: bool, confidence: float, colour: str) -> str:
  """Draws what is in the bins of the first view or of all others; returns what is shown."""
  names = facets_of(rows.drop(columns='bin').dropna(axis=1, how='all'))
  view = rows[names].iloc[0]
  size, mean, accuracy = (
    rows[rows.quantity == f'bin_{name}'].value.to_numpy().reshape(-1, rows.bin.max())
    for name in ('size', 'confidence', 'accuracy')
  )
  shown = slice(0, 1) if first else slice(1, None)
  total, right = size[shown].sum(0), (size * accuracy)[shown].sum(0)
  width = 100 / len(total)
  edges = width * np.arange(len(total))[::-1]
  axes.bar(edges, 100 * total / total.sum(), width, align='edge', color='0.85', linewidth=0)
  axes.plot([0, 100], [0, 100], color='0.3', linewidth=0.8, linestyle=':')
  some = total >= _FEWEST
  value = 100 * right[some] / total[some]
  low, high = (100 * end for end in clopper_pearson(np.round(right[some]), total[some], confidence))
  axes.errorbar(
    100 * (size * mean)[shown].sum(0)[some] / total[some],
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
  return ', '.join(str(value) for value in view.dropna()) if first else 'all other views'
