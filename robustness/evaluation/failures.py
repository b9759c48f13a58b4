"""The classes and images that suffer most in the views of a study, computed from its records.

An image is damaged by the views in which the classifier is wrong. If one of the views shows images
unchanged (the clean view), only images that are classified correctly in the clean view count. A
damaged image is pictured in the view of its most confident mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from robustness.estimates.means import Row, estimate_row, share_in_clusters, table_of_rows
from robustness.estimates.outcomes import Sums
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY
from robustness.estimates.table import assemble, select_by
from robustness.evaluation.records import CONFIDENCE, RecordsReader, Shard
from robustness.evaluation.study import Evaluation, Findings, Study
from robustness.evaluation.views import ViewTable
from robustness.models.imagenet_names import in_words
from robustness.results import DAMAGED_IMAGES, Table

MOST_IMAGES = 6
"""Largest number of damaged images of each classifier that are listed and pictured."""
MOST_CLASSES = 50
"""Largest number of classes in the table of the most affected classes."""
AFFECTED_CLASSES = 'most affected classes'
"""The title of the table of the most affected classes."""
IMAGE_COLUMNS = (
  *('classifier', 'image', 'class', 'views wrong', 'of', 'probability of its class'),
  *('shown in', 'taken for', 'confidence', 'taken for when clean', 'confidence when clean'),
)


def findings(
  study: Study, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
) -> tuple[Findings, dict[str, np.ndarray]]:
  """Finds the classes that lose most accuracy and the images that are most often wrong.

  Args:
    study: the study that the records are of.
    evaluations: the records of each classifier.
    image_shape: height, width and channels of the stored images.

  Returns:
    The findings, and {classifier: int [F, 2], row and view of each of F damaged images}. The
    findings have the accuracy of every class as estimates, and the tables `AFFECTED_CLASSES` and
    `DAMAGED_IMAGES`. Stored versions of an image, such as its corruptions, count as one image in
    the accuracies, and as several in the second table.
  """
  class_lines: list[dict[str, object]] = []
  image_lines: list[list[object]] = []
  accuracies: list[Row] = []
  rows_and_views = {}
  for evaluation in evaluations:
    label, records = evaluation.label, evaluation.records
    names = in_words(records.identity.get('classes', ()))
    # Each version of an image is a row of the records; `by_image` joins them to one image.
    row_views = study.by_row(records, image_shape)
    row_tally = Tally(records.shards(), records.column('label'), row_views)
    by_image, image_views = study.by_image(records, image_shape)
    image_tally = row_tally
    if by_image is not records:  # several rows are versions of one image
      image_tally = Tally(by_image.shards(), by_image.column('label'), image_views)
    accuracies += class_accuracies(label, image_tally, names, study.confidence, image_views.units)
    class_lines += most_affected(label, image_tally, names, image_views.names)
    damaged = most_damaged(row_tally)
    lines = _image_lines(records, row_views, row_tally, damaged, names)
    image_lines += [[label, *line] for line in lines]
    rows_and_views[label] = np.stack([damaged, row_tally.view[damaged]], 1).astype(np.int32)
  tables = {
    AFFECTED_CLASSES: Table.from_lines(class_lines),
    DAMAGED_IMAGES: Table(IMAGE_COLUMNS, image_lines),
  }
  return Findings(tables=tables, estimates=[table_of_rows(accuracies)]), rows_and_views


def with_classes(table: pd.DataFrame, by_class: Sequence[pd.DataFrame]) -> pd.DataFrame:
  """Appends accuracies of single classes to a table of results.

  Args:
    table: table of results. If it has a quantity for single classes already, such as 'accuracy', no
      rows of this quantity are appended.
    by_class: tables with the accuracies of classes.
  """
  accuracies = assemble(by_class)
  quantities = set(accuracies.quantity)
  # the quantities that `table` has by class
  present = {name for name in quantities if len(select_by(table, name, ['class'], versus=None))}
  return assemble([table, accuracies[~accuracies.quantity.isin(present)]])


def most_damaged(tally: Tally) -> np.ndarray:
  """Returns the images that are wrong in the largest share of views, int [F].

  Images with the same share are ordered by the mean probability of the true class, the lowest
  first. If there is a clean view, only images that are right in it count. There are at most
  `MOST_IMAGES`.

  Returns:
    The positions of the images in the records.
  """
  is_damaged = tally.view >= 0  # −1 without a mistake
  if tally.clean is not None:
    is_damaged &= tally.clean
  rows = np.flatnonzero(is_damaged)
  share = tally.num_wrong[rows] / tally.num_views[rows]
  probability = tally.probability[rows] / tally.num_views[rows]
  order = np.lexsort((probability, -share))  # by share, the last key, then by probability
  return rows[order][:MOST_IMAGES]


def _image_lines(
  records: RecordsReader, table: ViewTable, tally: Tally, images: np.ndarray, names: Sequence[str]
) -> list[list[object]]:
  """Returns the lines of the table of damaged images, one for each of F images.

  The columns are `IMAGE_COLUMNS` without the first, the classifier.

  Args:
    records: the records of the classifier.
    table: the views (ways of perturbing images) of the records.
    tally: sums of the records over the views.
    images: positions of the images in the records, int [F].
    names: names of the classes.
  """
  example_ids = records.column('example_id')
  when_clean: list[tuple[object, object]] = [(None, None)] * len(images)  # class and confidence
  if tally.clean is not None:
    assert table.clean is not None  # the number of the clean view
    predictions = records.column('prediction', table.clean)[images].tolist()
    confidences = records.column(CONFIDENCE, table.clean)[images].tolist()
    predicted_names = [class_name(prediction, names) for prediction in predictions]
    when_clean = list(zip(predicted_names, confidences, strict=True))
  lines = []
  for row, class_and_confidence in zip(images, when_clean, strict=True):
    classes = [class_name(int(label), names) for label in tally.labels[row] if label >= 0]
    mean_probability = tally.probability[row] / tally.num_views[row]
    view_of_mistake = table.names[tally.view[row]]
    line = [
      int(example_ids[row]),
      ', '.join(classes),
      int(tally.num_wrong[row]),
      int(tally.num_views[row]),
      float(mean_probability),
      view_of_mistake if table.rows is None else table.rows[row],  # what the stored image shows
      class_name(int(tally.prediction[row]), names),
      float(tally.confidence[row]),
      *class_and_confidence,
    ]
    lines.append(line)
  return lines


def class_accuracies(
  label: str, tally: Tally, names: Sequence[str], confidence: float, units: np.ndarray | None
) -> Iterator[Row]:
  """Yields a row of the table of results for the accuracy of each class.

  `accuracy` averages, over the images of the class, the share of views in which the image is right.
  The clean view is not among these. `clean_accuracy` is the accuracy in the clean view, if there is
  one. The interval is Clopper and Pearson's for a single view. For several views of an image, or
  images of one unit, it is Korn and Graubard's, which allows for their dependence.

  Args:
    label: label of the classifier.
    tally: sums of its records over the views.
    names: names of the classes; a class without a name is called by its number.
    confidence: confidence of the intervals, in (0, 1).
    units: int [N], equal for images that depend on one another, such as frames of a video; None if
      all are independent.
  """
  for number, images in _images_by_class(tally):
    facets, num_views = {'class': class_name(number, names)}, tally.num_views[images]
    right_shares = 1 - tally.num_wrong[images] / num_views  # share of views, by image
    # (quantity, share of views in which each image is right, number of views of each image)
    accuracies = [(ACCURACY, right_shares, num_views)]
    if tally.clean is not None:
      is_right = tally.clean[images].astype(float)  # in one view, so that a share is 0 or 1
      accuracies.append((CLEAN_ACCURACY, is_right, np.ones(len(images))))
    # index of the unit of each image, 0, 1, ...
    _, unit = np.unique(images if units is None else units[images], return_inverse=True)
    images_per_unit = np.bincount(unit).astype(float)
    for quantity, shares, num_trials in accuracies:
      total_per_unit = np.bincount(unit, shares)
      sums = Sums(total_per_unit, images_per_unit, len(images), trials=float(num_trials.sum()))
      mean_share = share_in_clusters(sums, confidence)
      yield estimate_row(label, '', quantity, facets, mean_share, confidence)


def most_affected(
  label: str, tally: Tally, names: Sequence[str], views: Sequence[str]
) -> list[dict[str, object]]:
  """Returns the table of the classes that lose most accuracy, a line {column: value} per class.

  The loss is relative to the clean view. Without a clean view, the least accurate classes are
  returned. There are at most `MOST_CLASSES` lines. If there are several other views, a line names
  the view in which the class has the lowest accuracy.

  Args:
    label: label of the classifier.
    tally: sums of its records over the perturbed views: `num_wrong` and `num_views`, [images],
      leave out the clean view, and `clean` is whether an image is right in it, None without one.
    names: names of the classes.
    views: names of all views, with the clean one.
  """
  lines, sort_keys = [], []  # the classes with the smallest keys come first
  num_perturbed_views = len(views) if tally.clean is None else len(views) - 1
  for number, images in _images_by_class(tally):
    num_wrong, num_views = tally.num_wrong[images], tally.num_views[images]
    accuracy, name = float((1 - num_wrong / num_views).mean()), class_name(number, names)
    line: dict[str, object] = {'classifier': label, 'class': name, 'images': len(images)}
    if tally.clean is None:
      line['accuracy'] = accuracy
      sort_keys.append(accuracy)
    else:
      clean = float(tally.clean[images].mean())
      lost = round(clean - accuracy, 9) + 0.0  # without rounding errors; + 0.0 makes 0.0 of −0.0
      line |= {'accuracy when clean': clean, 'accuracy lost': lost}
      sort_keys.append(-lost)
    line |= {'views wrong': int(num_wrong.sum()), 'of': int(num_views.sum())}
    if num_perturbed_views > 1:
      line['least accurate in'] = _least_accurate_view(tally, number, views)
    line['most often taken for'], line['times'] = 'none', 0
    mistakes = tally.mistakes[tally.mistakes[:, 0] == number]  # label, prediction, times
    if len(mistakes):
      most_frequent = mistakes[:, 2].argmax()
      _, prediction, times = mistakes[most_frequent].tolist()
      line['most often taken for'], line['times'] = class_name(prediction, names), times
    lines.append(line)
  return [lines[index] for index in np.argsort(sort_keys, kind='stable')[:MOST_CLASSES]]


def _least_accurate_view(tally: Tally, number: int, views: Sequence[str]) -> str:
  """Returns the name of the view in which a class has the lowest accuracy.

  If several views (ways of perturbing images) have it, the result is a phrase such as '3 views
  alike'.

  Args:
    tally: sums of the records over the views.
    number: number of the class.
    views: names of the views.
  """
  num_images = tally.class_shown[number]  # images of the class, for each view
  accuracies = tally.class_right[number] / np.maximum(num_images, 1)
  accuracies[num_images == 0] = np.inf  # views without images of the class are never the lowest
  worst = np.flatnonzero(accuracies == accuracies.min())
  return views[worst[0]] if len(worst) == 1 else f'{len(worst)} views alike'


def _images_by_class(tally: Tally) -> Iterator[tuple[int, np.ndarray]]:
  """Yields (number of the class, positions of its images, int [n]) for each class with images.

  Images that the study excludes in every view (`ViewTable.counted_in`) are left out.
  """
  counted = tally.num_views > 0
  for number in np.unique(tally.labels[counted]):
    if number >= 0:
      yield int(number), np.flatnonzero(counted & (tally.labels == number).any(1))


def class_name(label: int, names: Sequence[str]) -> str:
  """Returns the name of a class, or its number if it has no name."""
  return str(names[label]) if 0 <= label < len(names) else str(label)


class Tally:
  """Counts of mistakes of a classifier on N images of C classes in V views.

  An image counts in a view unless the study excludes it there (`ViewTable.counted_in`).

  Attributes:
    labels: int [N, L], the labels of each image, padded with -1.
    clean: bool [N], whether an image is right in the clean view; None without a clean view.
    num_wrong: int [N], number of views in which an image is wrong.
    num_views: int [N], number of views in which an image counts.
    probability: [N], the probability of the true class, summed over the views.
    view: int [N], view of the most confident mistake; -1 without a mistake.
    prediction: int [N], the class predicted in the most confident mistake.
    confidence: [N], confidence of the most confident mistake.
    mistakes: int [P, 3], label, wrong prediction and how often the pair occurred.
    class_right: int [C, V], number of images of a class that are right in a view.
    class_shown: int [C, V], number of images of a class that count in a view.
  """

  def __init__(self, shards: Iterable[Shard], labels: np.ndarray, table: ViewTable):
    """Counts the mistakes of a classifier on N images in V views, by image, by view and by class.

    Records are read once, shard by shard. A shard is a file with some images and views (ways of
    perturbing images). The counts begin at 0 here, `_add` adds those of a shard, and the docstring
    of `Tally` defines each. Without a mistake, `view`, `prediction` and `confidence` of an image
    are −1.

    Args:
      shards: the shards.
      labels: the labels of the images, int [N], or int [N, L] padded with -1.
      table: the views of the records.
    """
    num_images, num_views = len(labels), len(table.names)
    shape_by_class = int(labels.max()) + 1, num_views  # [C, V]
    has_clean = table.clean is not None and num_views > 1
    self.labels = labels.reshape(num_images, -1)
    self.clean = np.zeros(num_images, bool) if has_clean else None
    self.num_wrong = np.zeros(num_images, int)
    self.num_views = np.zeros(num_images, int)
    self.probability = np.zeros(num_images)
    self.view = np.full(num_images, -1)
    self.prediction = np.full(num_images, -1)
    self.confidence = np.full(num_images, -1.0)
    self.mistakes = np.zeros((0, 3), int)
    self.class_right = np.zeros(shape_by_class, int)
    self.class_shown = np.zeros(shape_by_class, int)
    for shard in shards:
      self._add(shard, table.counted_in(shard))
      if self.clean is not None:
        is_clean = np.arange(num_views)[shard.views] == table.clean  # for each view of the shard
        self.clean[shard.rows] |= ((shard['rank'] == 0) & is_clean).any(1)

  def _add(self, shard: Shard, counted: np.ndarray) -> None:
    """Adds a shard of n images in v views to the counts, and updates the most confident mistakes.

    For each image, `view`, `prediction` and `confidence` describe its most confident mistake so
    far.

    Args:
      shard: part of the records.
      counted: bool [n, v], whether an image counts in a view (a way of perturbing images).
    """
    wrong = (shard['rank'] > 0) & counted
    rows = shard.rows
    self.num_wrong[rows] += wrong.sum(1)
    self.num_views[rows] += counted.sum(1)
    if 'probability' in shard.arrays:
      self.probability[rows] += (shard['probability'] * counted).sum(1, dtype=float)
    confidence = shard.arrays.get(CONFIDENCE, np.zeros(wrong.shape))
    mistake_confidence = np.where(wrong, confidence, -1.0)
    highest = mistake_confidence.max(1)  # for each image in the shard
    # the images with a more confident mistake than in earlier shards, and the view of the mistake,
    # as positions in the shard
    improved = np.flatnonzero(highest > self.confidence[rows])
    view = mistake_confidence[improved].argmax(1)
    improved_rows = rows.start + improved  # positions among all images
    self.confidence[improved_rows] = highest[improved]
    self.view[improved_rows] = shard.views.start + view
    self.prediction[improved_rows] = shard['prediction'][improved, view]
    self._add_by_class(shard, counted, wrong)

  def _add_by_class(self, shard: Shard, counted: np.ndarray, wrong: np.ndarray) -> None:
    """Adds a shard of n images in v views (ways of perturbing images) to the sums of each class.

    An image with several labels is added to each of its classes.

    Args:
      shard: part of the records.
      counted: bool [n, v], whether an image counts in a view.
      wrong: bool [n, v], whether the image counts and is wrong.
    """
    for labels in self.labels[shard.rows].T:  # the first label of each image, then the second, ...
      has_label = labels >= 0
      counts_in, missed, label = counted[has_label], wrong[has_label], labels[has_label]
      # adds the values [v] of each image to the line of its class, also if a class occurs twice
      np.add.at(self.class_right[:, shard.views], label, counts_in & ~missed)
      np.add.at(self.class_shown[:, shard.views], label, counts_in)
      # true class, predicted class and the number 1 for every mistake, which is an image in a view
      true = np.broadcast_to(label[:, None], missed.shape)[missed]
      predicted = shard['prediction'][has_label][missed]
      added = np.stack([true, predicted, np.ones_like(true)], 1)
      # [3, 5, 1] and [3, 5, 2] become [3, 5, 3]: class 3 was taken for class 5 three times
      mistakes = pd.DataFrame(np.concatenate([self.mistakes, added]))
      self.mistakes = mistakes.groupby([0, 1], as_index=False).sum().to_numpy()
