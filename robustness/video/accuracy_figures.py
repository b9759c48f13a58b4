"""Figures 6 and 7 of Shankar et al. (2021), drawn from the table of results of `video_pm_k`.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, appendices C and D.
"""

from typing import Any

import pandas as pd

from robustness.estimates.quantity import Quantity
from robustness.estimates.table import select
from robustness.present import charts, forms, maps
from robustness.present.notation import Notation
from robustness.results import Results

ACCURACY = Quantity('accuracy', 'accuracy', better='higher')
"""Quantity of the axes."""
MAX_CLASSES = 40
"""Most classes in one figure; of more classes those with the largest drops are drawn."""


def draw(results: Results) -> dict[str, charts.Picture]:
  """Draws figures 6 and 7 of the pm-k paper: {name: (figure, caption)}.

  `accuracy_static_against_accuracy_anchor` compares classifiers (figure 6).
  `accuracies_class_<label>` compares classes for one classifier (figure 7). Figures without data
  are left out.
  """
  table, figures = results.table, {}
  by_k = select(table, 'accuracy_pm_k', k=...)  # `...` selects every k
  if by_k.empty:
    return {}
  k = int(by_k.k.max())
  anchor = select(table, 'accuracy_anchor').set_index('classifier')
  # the table has the accuracy for the largest k a second time, in rows without the facet k
  pm_k = select(table, 'accuracy_pm_k').set_index('classifier')
  static = select(table, 'accuracy_static').set_index('classifier')
  if not static.empty:
    panels = [
      forms.NamedPoints(('one static set',), anchor, static),
      forms.NamedPoints((f'pm-{k}',), anchor, pm_k),
    ]
    figure = forms.named_points(panels, 'accuracy on anchors (%)', 'accuracy (%)', results.labels)
    caption = (
      'Accuracy on one static set, the frame of each neighbor set on which most classifiers err, '
      f'and accuracy at pm-{k}, on the worst frame for each classifier, against accuracy on '
      f'anchors{charts.sample_in_words(static)}.'
    )
    figures['accuracy_static_against_accuracy_anchor'] = figure, caption
  for label in results.labels:
    if picture := _by_class(results, label, k):
      figures[f'accuracies_class_{label}'] = picture
  return figures


def _by_class(results: Results, label: str, k: int) -> charts.Picture | None:
  """Draws a classifier's accuracies by class: on anchors (labelled frames) and pm-k.

  Accuracy pm-k is on the worst frame within k frames of the anchor. Classes are sorted by accuracy
  on anchors, in descending order.

  Args:
    results: the results of the study.
    label: name of the classifier.
    k: largest distance from the anchor in frames.

  Returns:
    (figure, caption), or None for fewer than two classes.
  """
  table = results.table[results.table.classifier == label]
  # the value `...` selects the rows of all classes; `class` cannot be the name of an argument
  by_class: dict[str, Any] = {'class': ...}
  anchor = select(table, 'accuracy_anchor', **by_class).dropna(subset=['value'])
  worst = select(table, 'accuracy_pm_k', **by_class, k=k).dropna(subset=['value'])
  accuracy = anchor.set_index('class').value
  if len(accuracy) < 2:
    return None
  # the drop of each class, ascending
  drop = (accuracy - worst.set_index('class').value).sort_values(kind='stable')
  # the classes with the largest drops, in the order of falling accuracy on anchors
  with_largest_drops = drop.index[-MAX_CLASSES:]
  drawn = accuracy[with_largest_drops].sort_values(ascending=False, kind='stable').index
  all_rows = pd.concat([anchor, worst])
  rows = all_rows[all_rows['class'].isin(drawn)]
  # `rows_of_points` draws each classifier in a colour; here each of the two quantities has one
  legend = {'accuracy_anchor': 'on anchors', 'accuracy_pm_k': f'pm-{k}'}
  rows = rows.assign(classifier=rows['quantity'].map(legend), marked=False)
  points = [maps.Panel('', rows, Notation(ACCURACY))]
  figure = forms.rows_of_points(list(drawn), points, list(legend.values()), 'class')
  overall = select(table, 'drop_pm_k', k=k).value.iloc[0]
  largest = f' The {MAX_CLASSES} classes with the largest drops.' if len(drop) > len(drawn) else ''
  caption = (
    f'{label}: accuracy on anchors and on the worst frame within {k} frames by '
    f'class{charts.sample_in_words(rows)}. Drop in points: {100 * overall:.1f} over all sets and '
    f'{100 * drop.median():.1f} the median class.{largest}'
  )
  return figure, caption
