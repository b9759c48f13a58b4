"""Effective robustness relative to the accuracies in several reference tasks."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from robustness.comparison.compare import CLEAN, EFFECTIVE
from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.estimates.comparison import effective_robustness
from robustness.estimates.means import Estimate, estimate_row, table_of_rows
from robustness.estimates.quantity import ACCURACY
from robustness.estimates.table import assemble, facets_of
from robustness.evaluation.views import ALL_VIEWS
from robustness.results import Results


def with_references(tasks: Mapping[str, Results], references: Sequence[str]) -> dict[str, Results]:
  """Adds effective robustness relative to reference studies to the results of several studies.

  Effective robustness is a classifier's accuracy minus the accuracy that is expected from its
  accuracies in the reference studies. The expectation is a plane (a line for one reference) through
  the other classifiers. There is an estimate for each set of perturbations of the other studies,
  without interval.

  The accuracy of a reference study is the accuracy on clean images. If there is none, it is the
  mean accuracy over all perturbations, and else the accuracy on its only set of perturbations.

  Args:
    tasks: {name of the study in the battery: comparison}.
    references: names of the reference studies.

  Raises:
    InputError: a reference is unknown or has none of these accuracies, all studies are references,
      a study lacks a classifier, or there are too few classifiers.
  """
  for name in references:
    choice('--reference', name, tasks)
  if set(tasks) == set(references):
    raise InputError('every task is a --reference, and none is left to judge classifiers on.')
  labels = tasks[references[0]].labels
  accuracies = {task: _accuracies_by_group(task, results) for task, results in tasks.items()}
  reference_accuracies = [_reference_accuracies(name, accuracies[name]) for name in references]
  # [classifiers, references]
  predictors = np.stack([reference.accuracies_of(labels) for reference in reference_accuracies], 1)
  num_reference_images = min(reference.num_images for reference in reference_accuracies)
  tasks_with_references = {}
  for task, results in tasks.items():
    rows = []
    judged_groups = [] if task in references else accuracies[task]
    for group in judged_groups:
      n = min(group.num_images, num_reference_images)
      facets = {**group.facets, 'reference': ' and '.join(references)}
      values = effective_robustness(predictors, group.accuracies_of(labels), n)
      confidence = results.settings['confidence']
      for label, value in zip(labels, values, strict=True):
        estimate = Estimate.without_interval(float(value), n)
        rows.append(estimate_row(label, '', EFFECTIVE, facets, estimate, confidence))
    table = assemble([results.table, table_of_rows(rows)])
    tasks_with_references[task] = dataclasses.replace(results, table=table)
  return tasks_with_references


class GroupAccuracies(NamedTuple):
  """The accuracies of all classifiers on one set of perturbations.

  Attributes:
    task: name of the study in the battery.
    facets: description of the set, such as {'corruption': 'fog'}.
    values: {label of a classifier: accuracy}.
    num_images: smallest number of images behind an accuracy.
  """

  task: str
  facets: dict[str, object]
  values: dict[str, float]
  num_images: int

  def accuracies_of(self, labels: Sequence[str]) -> np.ndarray:
    """Returns the accuracies of the classifiers with these labels, in this order.

    Raises InputError if one is missing.
    """
    lacking = [label for label in labels if label not in self.values]
    if lacking:
      raise InputError(f'the task {self.task} has no accuracy of {", ".join(lacking)}.')
    return np.array([self.values[label] for label in labels])


def _accuracies_by_group(task: str, results: Results) -> list[GroupAccuracies]:
  """Returns the accuracies of a study on each set of perturbations.

  A set is described by columns of results, such as {'corruption': 'fog'}. Accuracies of single
  classes are left out.

  Args:
    task: name of the study in the battery (a run of several studies).
    results: results of the study.
  """
  is_value = results.table.versus == ''  # not a difference
  table = results.table[(results.table.quantity == ACCURACY.name) & is_value]
  by = [name for name in facets_of(table) if name != 'class' and table[name].notna().any()]
  table = table[table['class'].isna()] if 'class' in table else table
  accuracies = []
  # Without a facet there is one group of all rows; pandas does not group by no name.
  groups = table.groupby(by, dropna=False, sort=False) if by else [((), table)]
  for facet_values, rows in groups:
    facets = {k: v for k, v in zip(by, facet_values, strict=True) if not pd.isna(v)}
    values = dict(zip(rows.classifier, rows.value, strict=True))
    accuracies.append(GroupAccuracies(task, facets, values, int(rows.n.min())))
  return accuracies


def _reference_accuracies(task: str, groups: Sequence[GroupAccuracies]) -> GroupAccuracies:
  """Returns the accuracies that represent a reference study.

  They are the accuracies on clean images, else over all perturbations, else on the only set of
  perturbations.

  Args:
    task: name of the study in the battery (a run of several studies), for messages.
    groups: accuracies of the study on all sets of perturbations.

  Raises:
    InputError: the study has none of these.
  """
  # {} has no facet: an accuracy over all images
  for facets in ({'view': CLEAN}, {'view': ALL_VIEWS}, {}):
    for group in groups:
      if group.facets == facets:
        return group
  if len(groups) != 1:
    names = ', '.join(' '.join(map(str, group.facets.values())) for group in groups)
    raise InputError(
      f'--reference={task}: it has no accuracy on clean images or over all views, but of {names}. '
      'Give a task of one set of images.'
    )
  return groups[0]
