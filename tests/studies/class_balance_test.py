"""Tests the study `class_balance`: values from the records, and refusals."""

import dataclasses

import numpy as np

from robustness.core.rows import ArrayRows
from robustness.estimates.class_spread import class_spread
from robustness.studies.class_balance import ClassBalance
from tests.refusals import refused
from tests.studies.conftest import measured, rows
from tests.table_rows import estimate


def test_spread_and_accuracy_are_of_the_recorded_answers():
  results, *evaluations = measured(ClassBalance())
  for evaluation in evaluations:
    right = evaluation.records.table('rank')[:, 0] == 0
    spread = class_spread(right, rows().labels)
    row = estimate(results.table, evaluation.label, 'class_spread')
    assert (row.value, row.low, row.high) == (spread.value, spread.low, spread.high)
    assert estimate(results.table, evaluation.label, 'overall_accuracy').value == right.mean()


def test_rows_of_one_class_and_of_several_labels_are_refused():
  images, names = rows().images, rows().class_names
  single_class = ArrayRows(images, np.zeros(len(images), int), names)
  refused('of two classes', ClassBalance().check, single_class, {})
  double_labels = dataclasses.replace(rows(), labels=rows().labels[:, None])
  refused('one label each', ClassBalance().check, double_labels, {})
