"""Compares the classifiers of finished workdirs, image by image, with the first classifier.

Images are paired between runs, so that differences of accuracy in the same view are paired.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from robustness.comparison.entries import Entry
from robustness.comparison.pairing import Answers, ComparedClassifier, Pairing, pair, select_records
from robustness.core.errors import InputError
from robustness.core.typing import Facts
from robustness.estimates.comparison import effective_robustness, fewest_models
from robustness.estimates.intervals import NEWCOMBE
from robustness.estimates.means import Estimate, Row, estimate_row, table_of_rows
from robustness.estimates.of_means import bootstrap, units_of_classifier
from robustness.estimates.quantity import ACCURACY, AMOUNT, Quantity
from robustness.estimates.table import SUBJECT, assemble, facets_of
from robustness.evaluation.study import Evaluation
from robustness.evaluation.views import ViewTable
from robustness.present.phrases import data_words
from robustness.results import Results, Table

CLEAN = 'clean'
EFFECTIVE = Quantity(
  'effective_robustness', 'accuracy above the line through the classifiers', better='higher', low=-1
)
CONSISTENCY = Quantity(
  'error_consistency', 'error consistency with the first (κ)', AMOUNT, low=-1, high=1
)
WHY_NOT = 'not compared by the study itself'
"""Name of the table with the reason why the study could not compute its estimates from all
records.
"""
PRINTED_FACETS = 'foremost'
"""Name of the setting that lists the accuracies that the command prints, as conditions such as
{'view': 'clean'}.
"""


def compare(entries: Sequence[Entry], common: bool, baseline: str) -> Results:
  """Compares the classifiers of a study with the first of them, image by image.

  A classifier that shares no image with the first is compared without pairing, on all its images.

  Args:
    entries: the classifiers with their predictions, at least one.
    common: if true, classifiers with different images are compared on the images that all share. If
      false, such classifiers raise an error.
    baseline: label of the classifier that is subtracted in all studies of a battery. If this study
      could not measure it, the first of `entries` is subtracted, and named in notes.

  Returns:
    The accuracy of each classifier on each set of perturbations, and its difference from the first.
    The study's estimates on the shared images are added, as if one run had measured all
    classifiers. If they cannot be computed, the table `WHY_NOT` has the reason.

  Raises:
    InputError: `common` is false and classifiers share only a part of their images.
  """
  first = entries[0]
  records = first.evaluation.records
  pairings = [pair(records, e.evaluation.records, (first.label, e.label), common) for e in entries]
  if common:
    entries, pairings = _restrict_to_shared_images(entries, pairings)
    first = entries[0]  # with the records of only the shared images
  note = '' if first.label == baseline else f'minus {first.label}: {baseline} is not in this task'
  first_answers = Answers.from_records(first, first.evaluation.records)
  compared = [
    ComparedClassifier.from_pairing(first, first_answers, entry, pairing, note)
    for entry, pairing in zip(entries, pairings, strict=True)
  ]
  groups = _common_groups(entries, compared)
  printed = _printed_facets(groups, first_answers.table)
  results = Results(
    first.finished.study.name,
    classifiers=list(map(_classifier_facts, entries, pairings)),
    data=first.finished.results.data,
    settings={**first.finished.results.settings, PRINTED_FACETS: printed},
    table=assemble([table_of_rows(_estimates(groups, compared))]),
    quantities=(ACCURACY, EFFECTIVE, CONSISTENCY),
  )
  try:
    return _with_estimates_of_study(results, entries, pairings)
  except InputError as error:
    return dataclasses.replace(results, tables={WHY_NOT: Table(('why',), [[str(error)]])})


def _restrict_to_shared_images(
  entries: Sequence[Entry], pairings: Sequence[Pairing]
) -> tuple[list[Entry], list[Pairing]]:
  """Restricts classifiers to the images that all of them share.

  A classifier that shares no image with the first is returned unchanged, and does not restrict the
  others.

  Args:
    entries: the classifiers of a study, the baseline first.
    pairings: for each classifier, the images that it shares with the first.

  Returns:
    (restricted entries, restricted pairings).

  Raises:
    InputError: the other classifiers have no image that is in all of them.
  """
  # The rows of the first entry with images that all others have too.
  rows_in_all = functools.reduce(np.intersect1d, [p.first_rows for p in pairings if p.has_images])
  if not len(rows_in_all):
    labels = [e.label for e, p in zip(entries, pairings, strict=True) if p.has_images]
    raise InputError(f'no image is in all of {", ".join(labels)}: compare them two by two.')
  # Restricted records have the same images in the same order: row i is paired with row i.
  all_rows = np.arange(len(rows_in_all))
  reduced_entries, reduced_pairings = list(entries), list(pairings)
  for index, (entry, pairing) in enumerate(zip(entries, pairings, strict=True)):
    if pairing.has_images:
      is_in_all = np.isin(pairing.first_rows, rows_in_all)
      evaluation = Evaluation(entry.label, select_records(entry, pairing.second_rows[is_in_all]))
      reduced_entries[index] = dataclasses.replace(entry, evaluation=evaluation)
      reduced_pairings[index] = Pairing(all_rows, all_rows, pairing.note)
  return reduced_entries, reduced_pairings


def _estimates(groups: Sequence[str], classifiers: Sequence[ComparedClassifier]) -> list[Row]:
  """Returns the estimates of a comparison as rows of results, for each set of perturbations.

  These are the accuracy of each classifier, and its difference from the first. Effective robustness
  relative to clean accuracy is added if there are clean images and enough classifiers to fit a
  line. Error consistency with the first classifier is added for classifiers with shared images.

  Args:
    groups: names of the sets of perturbations, such as 'fog'.
    classifiers: the answers of all classifiers, the baseline first.
  """
  rows, first = [], classifiers[0]
  confidence = first.answers.confidence
  # a line through the other classifiers needs clean images, the only reference set
  has_line = CLEAN in groups and len(classifiers) >= fewest_models(references=1)
  facets_by_group = {group: first.answers.table.facets_of(group) for group in groups}
  for group, facets in facets_by_group.items():
    for compared in classifiers:
      label, accuracy = compared.label, compared.answers.accuracy(group)
      rows.append(estimate_row(label, '', ACCURACY, facets, accuracy, confidence))
      if compared is not first:
        difference = _difference(first, compared, group)
        rows.append(estimate_row(label, first.label, ACCURACY, facets, difference, confidence))
    if has_line and group != CLEAN:
      robustness = _effective_robustness(classifiers, group)
      for compared, estimate in zip(classifiers, robustness, strict=True):
        if not np.isnan(estimate.value):
          rows.append(estimate_row(compared.label, '', EFFECTIVE, facets, estimate, confidence))
  for compared in classifiers[1:]:
    if compared.pair:
      kappas = compared.pair.second.consistency(compared.pair.first, groups)
      for facets, kappa in zip(facets_by_group.values(), kappas, strict=True):
        estimate = kappa.with_notes(compared.note)
        rows.append(estimate_row(compared.label, '', CONSISTENCY, facets, estimate, confidence))
  return rows


def _difference(first: ComparedClassifier, compared: ComparedClassifier, group: str) -> Estimate:
  """Returns a classifier's accuracy minus the first classifier's, on a set of perturbations.

  If both have answers to the same images (`compared.pair`), the difference is paired by image.
  Otherwise each accuracy is on its classifier's images, and the two are independent.

  Args:
    first: the first classifier.
    compared: the classifier.
    group: name of the set of perturbations, such as 'fog'.
  """
  if compared.pair:
    difference = compared.pair.second.minus(compared.pair.first, group)
  else:
    accuracies = [classifier.answers.accuracy(group) for classifier in (first, compared)]
    difference = independent_difference(*accuracies)
  return dataclasses.replace(difference, note=compared.note)


def _common_groups(
  entries: Sequence[Entry], classifiers: Sequence[ComparedClassifier]
) -> list[str]:
  """Returns the names of the sets of perturbations that can be compared between classifiers.

  Such a set has the same perturbations in all runs, and also on the shared images alone. On those
  a set may be missing, because data sets of stored corrupted images may lack versions of some
  images.

  Args:
    entries: the classifiers of a study, for the message.
    classifiers: the answers of these classifiers.

  Raises:
    InputError: there is no such set.
  """
  all_answers = [compared.answers for compared in classifiers]
  for compared in classifiers:
    if compared.pair:
      all_answers += compared.pair  # the answers of both on the shared images
  # {set of perturbations: names of its perturbations} of all answers
  first, *later = [answers.named_groups for answers in all_answers]
  groups = [name for name in first if all(sets.get(name) == first[name] for sets in later)]
  if not groups:
    folders = ', '.join(dict.fromkeys(str(entry.finished.folder) for entry in entries))
    raise InputError(
      f'{folders} have no group of views in common: their images are stored in other versions. Run '
      'them on the same ones.'
    )
  return groups


def _printed_facets(groups: Sequence[str], table: ViewTable) -> list[Facts]:
  """Returns the conditions of the accuracies that the command prints, such as {'view': 'clean'}.

  They are clean images, and the first set of all other perturbations. Either may be missing.

  Args:
    groups: names of the sets of perturbations.
    table: the perturbations of the study, and the sets.
  """
  views_not_clean = set(range(len(table.names))) - {table.clean}
  over_all = [name for name in groups if views_not_clean <= set(table.groups[name])]
  names = [name for name in groups if name in (CLEAN, *over_all[:1])]
  return [dict(table.facets_of(name)) for name in names]


def independent_difference(first: Estimate, second: Estimate) -> Estimate:
  """Returns second − first, with an interval, for proportions of different images.

  The interval is by method 10 of Newcombe (Statistics in Medicine 17, 1998). Its lower part has the
  length √(l² + u²). l is the length of the lower part of the interval of `second`, and u the length
  of the upper part of the interval of `first`. For the upper part, upper and lower are exchanged.
  """
  value = second.value - first.value
  low = value - float(np.hypot(second.value - second.low, first.high - first.value))
  high = value + float(np.hypot(second.high - second.value, first.value - first.low))
  return Estimate(value, low, high, second.n, second.clusters, NEWCOMBE)


def _effective_robustness(classifiers: Sequence[ComparedClassifier], group: str) -> list[Estimate]:
  """Returns the effective robustness of each classifier on a set of perturbations.

  Effective robustness is the accuracy minus the accuracy that is expected from the clean accuracy.
  The expectation is a line through the other classifiers (`effective_robustness`). If all
  classifiers have the same images, there is a bootstrap interval over images, or over clusters of
  images.

  Args:
    classifiers: the answers of all classifiers, the baseline first.
    group: name of the set of perturbations, such as 'fog'.
  """
  all_answers = [compared.answers for compared in classifiers]
  fewest_images = min(len(answers.ids) for answers in all_answers)
  # The answers on the images that a classifier shares with the first, which shares all with itself.
  shared_answers = [compared.pair.second for compared in classifiers if compared.pair]
  has_all_pairs = len(shared_answers) == len(classifiers)
  # If all pairs have equal numbers of images, these are all images of the first.
  if has_all_pairs and all(len(answers.ids) == fewest_images for answers in shared_answers):
    return _robustness_on_shared_images(shared_answers, group)
  clean = np.array([answers.accuracy(CLEAN).value for answers in all_answers])
  shifted = np.array([answers.accuracy(group).value for answers in all_answers])
  values = effective_robustness(clean[:, None], shifted, fewest_images)
  pairs = zip(values, all_answers, strict=True)
  return [Estimate.without_interval(float(value), len(a.ids)) for value, a in pairs]


def _robustness_on_shared_images(classifiers: Sequence[Answers], group: str) -> list[Estimate]:
  """Returns the effective robustness of M classifiers on the same images, with intervals.

  Effective robustness is the accuracy minus the accuracy that is expected from the clean accuracy.
  The expectation is a line through the other classifiers. Intervals are from a bootstrap over
  images.

  Args:
    classifiers: the answers of all classifiers, the baseline first.
    group: name of the set of perturbations, such as 'fog'.
  """
  first = classifiers[0]
  both_groups = [first.group(CLEAN), first.group(group)]
  # The classifiers are called '0', '1', … here, in the order of the estimates.
  outcomes = first.outcomes({str(k): answers.right for k, answers in enumerate(classifiers)})
  all_units = [units_of_classifier(outcomes, label, both_groups) for label in outcomes.labels]

  def robustness_of_resample(weights: np.ndarray) -> np.ndarray:
    """Returns the effective robustness for B bootstrap samples, [B, M].

    Args:
      weights: how often each sample contains each of K images or clusters, [B, K].
    """
    means = np.stack([units.means(weights) for units in all_units], -2)  # [B, M, 2 groups]
    clean, shifted = means[..., :1], means[..., 1]  # [B, M, 1 reference set] and [B, M]
    return effective_robustness(clean, shifted, len(first.ids))

  return bootstrap(robustness_of_resample, all_units[0], first.confidence)


def _with_estimates_of_study(
  results: Results, entries: Sequence[Entry], pairings: Sequence[Pairing]
) -> Results:
  """Adds the estimates, tables and arrays of the study to a comparison.

  The study computes them from the predictions on the images that all classifiers share. Estimates
  and quantities that the comparison already has are kept, and its tables are replaced.

  Args:
    results: the comparison.
    entries: the classifiers, the baseline first.
    pairings: for each classifier, the images that it shares with the first.

  Raises:
    InputError: the study cannot compute estimates from these predictions together. The message is
      only the reason, such as 'a single classifier'.
  """
  first = entries[0].finished
  if len(entries) < 2:
    raise InputError('a single classifier')
  if not all(pairing.has_images for pairing in pairings):
    raise InputError('not all classifiers were shown the same images')
  evaluations = [
    Evaluation(entry.label, select_records(entry, pairing.second_rows))
    for entry, pairing in zip(entries, pairings, strict=True)
  ]
  findings = first.study.reduce(evaluations, first.image_shape)
  # Without the arrays of single classifiers: their names begin with the prefix of a classifier.
  prefixes = tuple(prefix for prefix in first.results.prefixes.values() if prefix)
  arrays_of_study = {k: v for k, v in first.results.arrays.items() if not k.startswith(prefixes)}
  # as objects, because columns of missing values have no type to join; `assemble` sets the types
  table = pd.concat([rows.astype(object) for rows in (results.table, *findings.estimates)])
  # The comparison's estimates come first. Rows of the study that repeat one of them are dropped.
  is_repeated = table.duplicated([*SUBJECT, *facets_of(table)])
  compared_names = {quantity.name for quantity in results.quantities}
  of_study = [q for q in first.study.described_quantities if q.name not in compared_names]
  return dataclasses.replace(
    results,
    data={**first.results.data, 'num_examples': len(pairings[0].first_rows)},
    tables=findings.tables,
    arrays={**arrays_of_study, **findings.arrays},
    table=assemble([table[~is_repeated]]),
    quantities=(*of_study, *results.quantities),
  )


def _classifier_facts(entry: Entry, pairing: Pairing) -> Facts:
  """Returns the description of a classifier for `Results.classifiers`.

  It is the description in the classifier's workdir, with the label in the comparison and the path
  of the workdir. The data are described too if they are not those of the first classifier.

  Args:
    entry: the classifier.
    pairing: the images that it shares with the first classifier.
  """
  finished = entry.finished
  facts = next(c for c in finished.results.classifiers if c['label'] == entry.recorded_label)
  facts = {**facts, 'label': entry.label, 'workdir': str(finished.folder)}
  return (
    facts if pairing.has_images else {**facts, 'note': f'on {data_words(finished.results.data)}'}
  )
