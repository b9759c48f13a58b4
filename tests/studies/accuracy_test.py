"""Accuracy from raw records: counts, intervals and the paired comparison."""

import numpy as np
import pytest
from scipy import stats

from robustness.estimates.table import assemble
from robustness.evaluation import failures as listing
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation
from robustness.studies.accuracy import Accuracy
from tests.made_records import made
from tests.networks import SHAPE
from tests.studies.conftest import COUNT, table_of
from tests.table_rows import estimate


def test_top_k_accuracy_is_the_share_of_ranks_below_k(evaluate):
  study = Accuracy(top_k=2, confidence=0.9)
  (only,) = evaluate(study, ('first',))
  results = table_of(study, [only])
  assert list(results.quantity) == ['top1_accuracy', 'top2_accuracy']
  for k, row in zip((1, 2), results.itertuples(), strict=True):
    right = int((only.records.column('rank') < k).sum())
    exact = stats.binomtest(right, COUNT).proportion_ci(0.9, 'exact')
    assert (row.value, row.n, row.confidence) == (right / COUNT, COUNT, 0.9)
    assert (row.low, row.high) == pytest.approx((exact.low, exact.high))
  assert list(table_of(Accuracy(top_k=1), [only]).quantity) == ['top1_accuracy'], 'given once'


def test_two_classifiers_are_compared_in_pairs(evaluate):
  first, second = evaluate(Accuracy())
  results = table_of(Accuracy(), [first, second])
  assert len(results) == 6, 'two accuracies of each, and their differences'
  right = [e.records.column('rank') == 0 for e in (first, second)]
  b, c = int((right[0] & ~right[1]).sum()), int((~right[0] & right[1]).sum())
  row = estimate(results, 'second', 'top1_accuracy', 'first')
  assert row.value == pytest.approx(right[1].mean() - right[0].mean()) == (c - b) / COUNT
  assert row.low <= row.value <= row.high
  assert row.p == pytest.approx(stats.binomtest(b, b + c).pvalue)


def test_stored_versions_of_an_image_are_one_unit(tmp_path):
  base = np.arange(40).repeat(15)
  arrays = {'rank': np.where(base[:, None] % 3, 0, 1), 'example_id': np.arange(600)}
  labels = {'label': np.zeros(600, int), 'base_id': base}
  one = made(tmp_path / 'net', {**arrays, **labels}, classes=['a', 'b'])
  own = estimate(table_of(Accuracy(), [one]), 'net', 'top1_accuracy')
  assert (own.n, own.clusters) == (600, 40)
  assert own.high - own.low > 0.25, 'as of 40 images, all versions of which are alike'
  np.testing.assert_array_equal(Accuracy().by_row(one.records, SHAPE).units, base)


def test_the_only_view_is_the_image_as_stored():
  views, image = Accuracy().views(SHAPE), np.ones(SHAPE)
  assert len(views) == 1
  assert views.show(None, {'image': image}, {}) is image


def test_top_k_of_no_more_than_k_classes_is_left_out(tmp_path):
  """Top-5 of two classes would be 1.0 whatever the classifier."""
  rank, labels = np.array([[0], [1], [0], [1], [0], [0]], np.int32), np.array([0, 0, 1, 1, 1, 1])
  prediction = np.where(rank == 0, labels[:, None], 1 - labels[:, None])
  columns = {'label': labels, 'example_id': np.arange(6)}
  arrays = {'rank': rank, 'prediction': prediction, **columns}
  only = made(tmp_path / 'only', arrays, classes=['left', 'right'])
  assert list(table_of(Accuracy(), [only]).quantity) == ['top1_accuracy']
  findings, _ = listing.findings(Accuracy(), [only], SHAPE)
  of_class = assemble(findings.estimates)
  assert of_class[['class', 'n', 'value']].values.tolist() == [['left', 2, 0.5], ['right', 4, 0.75]]
  assert Recorded([only]).top_k(1) == Recorded([only]).top_k(2) == [1]
  three = Records(tmp_path / 'three', Layout(6, 1, 6, 1), {'classes': ['left', 'right', 'up']})
  more = Evaluation('three', three)
  assert Recorded([more]).top_k(2) == [1, 2] and Recorded([more, only]).top_k(2) == [1]
