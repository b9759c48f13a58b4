"""Effective robustness relative to the accuracies in several reference tasks."""

from __future__ import annotations

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
  """Returns the results of all tasks, with effective robustness added to all but the references.

  Effective robustness is a classifier's accuracy minus the accuracy that a line through the other
  classifiers, or a plane for several references, predicts from the accuracies in the reference
  tasks. There is one estimate for each group of views, with the facet `reference` and without an
  interval. A reference task is represented by its accuracy on clean images, else by its mean
  accuracy over all views, else by the accuracy in its only group of views.

  Args:
    tasks: the comparison of each task, by name.
    references: names of tasks.

  Raises:
    InputError: a reference is no task or has none of these accuracies, all tasks are references, a
      task lacks a classifier, or there are too few classifiers.
  """
  for name in references:
    choice('--reference', name, tasks)
  if set(tasks) == set(references):
    raise InputError('every task is a --reference, and none is left to judge classifiers on.')
  labels = tasks[references[0]].labels
  accuracies = {task: _accuracies_by_group(task, results) for task, results in tasks.items()}
  reference_accuracies = [_reference_accuracies(name, accuracies[name]) for name in references]
  # [classifiers, references]
  predictors = np.stack([reference.in_order(labels) for reference in reference_accuracies], 1)
  tasks_with_references = {}
  for task, results in tasks.items():
    rows = []
    for group in accuracies[task] if task not in references else ():
      n = min(group.num_images, *(reference.num_images for reference in reference_accuracies))
      facets = {**group.facets, 'reference': ' and '.join(references)}
      values = effective_robustness(predictors, group.in_order(labels), n)
      confidence = results.settings['confidence']
      for label, value in zip(labels, values, strict=True):
        estimate = Estimate.without_interval(float(value), n)
        rows.append(estimate_row(label, '', EFFECTIVE, facets, estimate, confidence))
    table = assemble([results.table, table_of_rows(rows)])
    tasks_with_references[task] = dataclasses.replace(results, table=table)
  return tasks_with_references


class GroupAccuracies(NamedTuple):
  """The accuracies of all classifiers in one group of views of a task.

  Attributes:
    task: name of the task.
    facets: {facet: value} of the group.
    values: accuracies by label.
    num_images: smallest number of images that an accuracy is measured on.
  """

  task: str
  facets: dict[str, object]
  values: dict[str, float]
  num_images: int

  def in_order(self, labels: Sequence[str]) -> np.ndarray:
    """Returns the accuracies in the order of `labels`; raises InputError if one is missing."""
    lacking = [label for label in labels if label not in self.values]
    if lacking:
      raise InputError(f'the task {self.task} has no accuracy of {", ".join(lacking)}.')
    return np.array([self.values[label] for label in labels])


def _accuracies_by_group(task: str, results: Results) -> list[GroupAccuracies]:
  """Returns the accuracies of a task in each group of views, without accuracies of single classes.

  A group of views is a combination of facet values, such as {'corruption': 'fog'}.
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
  """Returns the accuracies that represent a reference task.

  These are the accuracies on clean images; in a task without clean images, the accuracies over all
  views; in a task without either, the accuracies in its only group of views.

  Args:
    task: name of the task, for messages.
    groups: the accuracies of the task in all groups of views.

  Raises:
    InputError: the task has no accuracies on clean images or over all views, and several groups.
  """
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
