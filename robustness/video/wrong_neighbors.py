"""Neighbor sets in which a classifier gets the anchor right and neighbors wrong: table, images and
figures.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from robustness.core.rows import Rows
from robustness.evaluation.failures import class_name
from robustness.present.failures import gallery, prediction_title
from robustness.present.notation import number
from robustness.results import FAILURE_IMAGES, Results, Table
from robustness.video.metadata import first_of_each_set
from robustness.video.neighbor_estimates import SetOutcomes
from robustness.video.predictions import FramePredictions

NAME = 'failures'
"""Name of the table, and first part of the names of its figures."""


def table(
  predictions: Mapping[str, FramePredictions], outcomes: SetOutcomes, k: int, max_sets: int
) -> Table:
  """Lists neighbor sets in which a classifier is right on the anchor but wrong on neighbors.

  For each classifier, sets with the largest fraction of wrong neighbors come first. A row shows the
  wrong neighbor that is nearest to the anchor (labelled frame).

  Args:
    predictions: {label of a classifier: its predictions on all frames}.
    outcomes: correctness of the predictions of these classifiers, with P pairs in A sets.
    k: largest distance, in frames, of neighbors that count.
    max_sets: most rows for each classifier.
  """
  rows = []
  is_near = np.abs(outcomes.offset) <= k  # [P]
  for (label, predicted), is_mistake in zip(predictions.items(), outcomes.mistakes, strict=True):
    pairs, num_sets = predicted.sets.pairs, len(predicted.sets.anchors)
    is_wrong = is_mistake & is_near  # [P]: the neighbor is wrong and the anchor of its set right
    num_wrong = np.bincount(pairs.group[is_wrong], minlength=num_sets)  # [A], neighbors of each set
    num_near = np.bincount(pairs.group[is_near], minlength=num_sets)  # [A]
    # a pair for each set with a wrong neighbor, as an index in `pairs`
    wrong = np.flatnonzero(is_wrong)
    group, distance = pairs.group[wrong], np.abs(pairs.offset[wrong])
    nearest_wrong = wrong[first_of_each_set(group, distance)]
    sets_with_wrong = pairs.group[nearest_wrong]
    wrong_share = num_wrong[sets_with_wrong] / num_near[sets_with_wrong]
    largest_share_first = np.argsort(-wrong_share, kind='stable')
    for pair in nearest_wrong[largest_share_first][:max_sets]:
      set_index = int(pairs.group[pair])
      counts = {'neighbors wrong': int(num_wrong[set_index]), 'of': int(num_near[set_index])}
      rows.append({'classifier': label, **_failure(predicted, pair), **counts})
  return Table.from_lines(rows, if_empty=('classifier',))


def images(rows: Rows, table: Table) -> dict[str, np.ndarray]:
  """Returns the images of the anchors (labelled frames) and neighbors that `table` lists.

  Args:
    rows: data source with the frames.
    table: table from the function `table`, with E rows.

  Returns:
    `{'failure_images': array [E, 2, H, W, C]}`, the anchor and the neighbor of each row; {} if the
    table has no rows.
  """
  if not table.rows:
    return {}
  sets = pd.DataFrame(table.rows, columns=table.columns)
  pairs = sets[['anchor row', 'neighbor row']].to_numpy()  # int [E, 2]
  # Each distinct frame is read once, and then repeated for the pairs that have it.
  frames, index = np.unique(pairs, return_inverse=True)
  pictures = [next(rows.batches(1, [frame]))['image'][0] for frame in frames.tolist()]
  return {FAILURE_IMAGES: np.stack(pictures)[index.reshape(pairs.shape)]}


def _failure(predicted: FramePredictions, pair: int) -> dict[str, object]:
  """Returns a pair's row in the table of wrong neighbors: frames, labels and predictions.

  Args:
    predicted: predictions of a classifier.
    pair: index of the pair in `predicted.sets.pairs`.
  """
  sets, pairs = predicted.sets, predicted.sets.pairs
  anchor, neighbor = int(sets.anchors[pairs.group[pair]]), int(pairs.frame[pair])
  labels = [label for label in sets.labels[anchor].tolist() if label >= 0]  # padded with −1
  values: dict[str, object] = {
    'anchor': sets.frames[anchor],
    'neighbor': sets.frames[neighbor],
    'offset': int(pairs.offset[pair]),
    'labels': ', '.join(class_name(label, sets.class_names) for label in labels),
  }
  for name, frame in (('anchor', anchor), ('neighbor', neighbor)):
    prediction = int(predicted.prediction[frame])
    # −1 is no prediction
    predicted_class = class_name(prediction, sets.class_names) if prediction >= 0 else 'nothing'
    values[f'{name} predicted'] = predicted_class
    values[f'{name} probability'] = float(predicted.confidence[frame])
    values[f'{name} row'] = frame
  return values


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws the wrong neighbors of each classifier, as `{figure name: (figure, caption)}`.

  The result is {} if `results` has no table 'failures' or no images for its rows.
  """
  table, pictures = results.tables.get(NAME), results.arrays.get(FAILURE_IMAGES)
  if table is None or pictures is None or len(pictures) != len(table.rows):
    return {}
  all_failures = pd.DataFrame(table.rows, columns=table.columns)
  figures = {}
  for label, failures_of_classifier in all_failures.groupby('classifier', sort=False):
    titles = []  # [title of the anchor, title of the neighbor] for each failure
    for failure in failures_of_classifier.to_dict('records'):
      anchor_title = prediction_title(failure['anchor predicted'], failure['anchor probability'])
      neighbor_title = prediction_title(
        failure['neighbor predicted'], failure['neighbor probability']
      )
      titles.append([anchor_title, f'{neighbor_title} ({number(failure["offset"])})'])
    caption = (
      f'Of the sets whose anchor {label} gets right, those with the largest share of wrong '
      'neighbors: the anchor above the nearest one that is wrong, with prediction, probability and '
      'distance in frames.'
    )
    rows = failures_of_classifier.index  # of the table, and so of `pictures`
    figures[f'{NAME}_{label}'] = gallery(pictures[rows], titles), caption
  return figures
