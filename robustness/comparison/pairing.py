"""Pairs the images of two runs and the answers of their classifiers, image by image."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from robustness.comparison.entries import Entry
from robustness.core.errors import InputError, for_caller
from robustness.core.settings import differing_keys
from robustness.estimates import consistency
from robustness.estimates.fixed_width import FixedWidth
from robustness.estimates.means import Estimate, join_notes, mean, share_difference
from robustness.estimates.of_means import units_of_classifier
from robustness.estimates.outcomes import Group, Outcomes
from robustness.estimates.quantity import ACCURACY
from robustness.evaluation.provenance import IMAGE_DIGEST
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.views import DRAWS, ViewTable

SELECTION_KEYS = frozenset({'subset_seed', 'num_examples'})
"""Keys in the description of data that select images and do not change any."""
PREPARATION_KEYS = SELECTION_KEYS.union(
  ('prepared_for', 'crop_margin', 'image_shape', 'resize', 'crop', 'interpolation', 'resized_by')
)
"""Keys in the description of data that say how stored images are selected and prepared."""


@dataclasses.dataclass(frozen=True)
class Pairing:
  """The images that two runs share.

  Attributes:
    first_rows, second_rows: indices of the shared images in each run, [n]; empty if images are not
      paired.
    note: why images are not paired, or how the runs differ nevertheless.
  """

  first_rows: np.ndarray
  second_rows: np.ndarray
  note: str = ''

  @property
  def has_images(self) -> bool:
    """Whether any image is paired."""
    return len(self.first_rows) > 0


def pair(
  first: RecordsReader, second: RecordsReader, names: tuple[str, str], common: bool
) -> Pairing:
  """Finds the images that two runs share.

  Images are the same if their example ids and the digests of their pixels are equal. Digests also
  differ if classifiers need different image sizes. Images with the same id are then the same if
  both runs describe their data equally, apart from selection and resizing.

  Args:
    first: predictions of a classifier of the first run.
    second: predictions of a classifier of the second run.
    names: names of the runs, for messages.
    common: whether the runs may share only a part of their images.

  Returns:
    The indices of the shared images, or a note why there are none.

  Raises:
    InputError: the runs describe the same data but have different images under the same ids. Also
      if `common` is false and the runs share only a part of their images.
  """
  first_ids, second_ids = first.column('example_id'), second.column('example_id')
  shared, in_first, in_second = np.intersect1d(first_ids, second_ids, return_indices=True)
  num_shared = len(shared)

  def is_equal(column: str) -> bool:
    """Returns whether a column is equal in both runs for the shared images."""
    return np.array_equal(first.column(column)[in_first], second.column(column)[in_second])

  no_rows = np.zeros(0, int)
  if not num_shared:
    return Pairing(no_rows, no_rows, 'other images')
  notes = []
  if not is_equal(IMAGE_DIGEST):
    data, other = first.identity['data'], second.identity['data']  # descriptions of the data
    differing = {key for key in {*data, *other} if differing_keys(data.get(key), other.get(key))}
    if not differing <= PREPARATION_KEYS:
      return Pairing(no_rows, no_rows, 'other images')
    if differing <= SELECTION_KEYS:  # no key explains why the pixels differ
      raise InputError(
        f'{names[0]} and {names[1]} say the same of their data and have {num_shared} example ids '
        'in common, but not the same images: files were changed between the runs, or arrays are '
        'others or in another order. Run one again on the same images in the same order.'
      )
    notes.append('the same stored images, prepared otherwise')
  has_unshared = num_shared < max(len(first_ids), len(second_ids))
  if has_unshared and not common:
    on_shared = for_caller('give --common', 'set common=True')
    raise InputError(
      f'{names[0]} and {names[1]} share {num_shared} of {len(first_ids)} and {len(second_ids)} '
      f'images: run both on the same images, or {on_shared} to compare them on those alone.'
    )
  # Random numbers that are drawn to show an image may depend on the other images of its run.
  has_draws = DRAWS in first.read(block=0, chunk=0).arrays  # as in every file of records
  if has_draws and not is_equal(DRAWS):
    return Pairing(no_rows, no_rows, f'other images, and {num_shared} of the same shown otherwise')
  classes = first.identity.get('classes')
  if classes and classes == second.identity.get('classes') and not is_equal('label'):
    notes.append('some images have other labels')
  if first.identity.get('seed') != second.identity.get('seed'):
    notes.append('other seeds: what is drawn differs')
  order = np.argsort(in_first)  # the order of the first run's rows
  return Pairing(in_first[order], in_second[order], '; '.join(notes))


@dataclasses.dataclass(frozen=True)
class Answers:
  """The answers of a classifier on N images under V perturbations, right or wrong.

  Attributes:
    right: whether each answer is right, bool [N, V].
    ids: example ids of the images, [N].
    table: the perturbations and sets of perturbations, and which images count under each.
    confidence: confidence of intervals.
    design: design of a study that may stop early; None if all images are measured.
  """

  right: np.ndarray
  ids: np.ndarray
  table: ViewTable
  confidence: float
  design: FixedWidth | None = None

  @classmethod
  def from_records(cls, entry: Entry, records: RecordsReader) -> Self:
    """Computes which answers of a classifier are right from its saved predictions.

    The result has a row for each image and a column for each view (perturbation), also for stored
    corrupted images, of which each is a row of the records.

    Args:
      entry: the classifier, with its study.
      records: the predictions of the classifier, for all images or some.
    """
    study = entry.finished.study
    # Records with one row per image, also for a stored set of corrupted versions of images.
    by_image, table = study.by_image(records, entry.finished.image_shape)
    is_right = by_image.table('rank') == 0  # no class has a higher score than the true one
    ids = by_image.column('example_id')
    return cls(is_right, ids, table, entry.confidence, study.sequential_design)

  def of_rows(self, entry: Entry, rows: np.ndarray) -> Self:
    """Returns the answers on a part of the images.

    Args:
      entry: the classifier that gave these answers.
      rows: indices of the images in its saved predictions, int [n].
    """
    records = select_records(entry, rows)
    return self if records is entry.evaluation.records else self.from_records(entry, records)

  @property
  def named_groups(self) -> dict[str, list[str]]:
    """The names of the views (perturbations) in each set, as {set: names}.

    A set is, for instance, 'fog' with all its severities. Sets in which no image counts are left
    out.
    """
    return {
      group: [self.table.names[view] for view in members]
      for group, members in self.table.groups.items()
      if self.table.counted is None or self.table.counted[:, list(members)].any()
    }

  def group(self, name: str) -> Group:
    """Returns the perturbations in a set, with weights for the mean.

    A perturbation that the set lists twice has double weight, such as a frequency that stands for
    its mirror image too.

    Args:
      name: name of the set, such as 'fog'.
    """
    views, counts = np.unique(list(self.table.groups[name]), return_counts=True)
    # The smallest whole numbers in proportion: 1 if every view is listed equally often.
    weights = counts / np.gcd.reduce(counts)
    return Group(dict(self.table.facets_of(name)), views, weights)

  def outcomes(self, right: Mapping[str, np.ndarray]) -> Outcomes:
    """Returns outcomes, from which means and intervals are computed, of N images in V views.

    Which images count in which views (ways of perturbing images), and which images are resampled
    together, is as in the study of `self`.

    Args:
      right: {name: bool [N, V]}, whether each answer is right.
    """
    views = pd.DataFrame(index=range(len(self.table.names)))
    counted = self.table.counted
    masks = None if counted is None else dict.fromkeys(right, counted)
    return Outcomes(right, views, masks, self.table.units, design=self.design)

  def accuracy(self, group: str) -> Estimate:
    """Returns the accuracy on a set of perturbations, such as 'fog'.

    The interval is over images, or over clusters of images.
    """
    outcomes = self.outcomes({'right': self.right})
    return mean(ACCURACY, outcomes, 'right', self.group(group), self.confidence)

  def minus(self, first: Self, group: str) -> Estimate:
    """Returns the difference of accuracies from another classifier on the same images.

    It is the mean over a set of views (perturbations). Its interval and test depend on the answers
    that only one of the classifiers has right.

    Args:
      first: answers of the classifier that is subtracted.
      group: name of the set of perturbations, such as 'fog'.
    """
    pairs = self.outcomes({'first': first.right, 'second': self.right}).pair('first', 'second')
    views = self.group(group)
    gained, lost = pairs.sums('gained', views), pairs.sums('lost', views)
    return share_difference(gained, lost, self.confidence, test=True)

  def consistency(self, other: Self, groups: Sequence[str]) -> list[Estimate]:
    """Returns the error consistency κ with another classifier, for each set of perturbations.

    `self` has the answers of one classifier to N images in V views (perturbations). κ is the
    agreement of both classifiers' right and wrong answers beyond chance. Intervals are over images,
    or over clusters of images, called units.

    Args:
      other: answers of the other classifier on the same images.
      groups: names of the sets of perturbations, such as 'fog' for all its severities.

    Returns:
      An estimate for each name in `groups`.
    """
    first, second = other.right, self.right
    # The four possible outcomes of a pair of answers, bool [N, V].
    pair_outcomes = {
      'both right': first & second,
      'only first': first & ~second,
      'only second': second & ~first,
      'neither': ~(first | second),
    }
    outcomes = self.outcomes(pair_outcomes)
    views = [Group.of_view(view) for view in range(first.shape[1])]
    # Numbers of images with each outcome, by unit (an image, or a cluster) and view, [units, V].
    counts = [units_of_classifier(outcomes, name, views).total for name in pair_outcomes]
    weighted_groups = [self.group(name) for name in groups]
    group_weights = np.zeros((len(groups), len(views)))  # of each view in the mean over a set
    for weights, group in zip(group_weights, weighted_groups, strict=True):
      weights[group.views] = group.weight
    # The same images count for each outcome: any outcome has their number.
    n = [outcomes.observations('both right', group.views) for group in weighted_groups]
    return consistency.estimates(np.stack(counts), group_weights, n, self.confidence)


def select_records(entry: Entry, rows: np.ndarray) -> RecordsReader:
  """Returns a classifier's saved predictions for some images.

  Args:
    entry: the classifier.
    rows: indices of the images.
  """
  records = entry.evaluation.records
  is_complete = np.array_equal(rows, np.arange(records.layout.num_rows))
  return records if is_complete else SelectedRows(records, rows)


class AnswerPair(NamedTuple):
  """The answers of two classifiers on the images that both have answered.

  Attributes:
    first: answers of the first classifier of the comparison.
    second: answers of the classifier that is compared with the first.
  """

  first: Answers
  second: Answers


@dataclasses.dataclass(frozen=True)
class ComparedClassifier:
  """The answers of a classifier, also paired with the answers of the first classifier.

  Attributes:
    label: label of the classifier in the comparison.
    answers: the answers on all images that the classifier has seen.
    pair: the answers of both classifiers on the images that they share; None if there are none.
    note: note of estimates that compare the two classifiers, for instance how their images differ;
      '' for none.
  """

  label: str
  answers: Answers
  pair: AnswerPair | None
  note: str

  @classmethod
  def from_pairing(
    cls, first: Entry, first_answers: Answers, entry: Entry, pairing: Pairing, note: str
  ) -> Self:
    """Pairs the answers of a classifier with the answers of the first classifier.

    Args:
      first: the first classifier.
      first_answers: the answers of the first classifier on all its images.
      entry: the classifier to compare; may be the first itself.
      pairing: the images that both share.
      note: A remark to add to the note of the pairing; '' for none.

    Raises:
      InputError: a stored version of an image belongs to another image in the other run.
    """
    records = entry.evaluation.records
    answers = first_answers if entry is first else Answers.from_records(entry, records)
    joined_note = join_notes(pairing.note, note)
    if not pairing.has_images:
      return cls(entry.label, answers, None, joined_note)
    of_first = first_answers.of_rows(first, pairing.first_rows)
    of_second = answers.of_rows(entry, pairing.second_rows)
    if not np.array_equal(of_first.ids, of_second.ids):
      raise InputError(
        f'{first.label} and {entry.label} share stored images, but not which are versions of one '
        'image: run both on the same data set.'
      )
    return cls(entry.label, answers, AnswerPair(of_first, of_second), joined_note)
