"""Tests the study `accuracy`: counts, intervals, paired differences, and when top-5 is left out."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from robustness.estimates.table import assemble
from robustness.evaluation import failures as listing
from robustness.evaluation.measurements import FINITE, summarise
from robustness.evaluation.outcomes import Recorded
from robustness.studies.accuracy import Accuracy
from robustness.studies.corruption_error import CorruptionError
from tests.made_records import made
from tests.networks import SHAPE
from tests.studies.conftest import COUNT, measured, table_of
from tests.table_rows import estimate


def test_top_k_accuracy_is_the_share_of_ranks_below_k():
  study = Accuracy(top_k=2, confidence=0.9)
  results, evaluation = measured(study, ('first',))
  table = results.table[results.table['class'].isna()]
  assert list(table.quantity) == ['top1_accuracy', 'top2_accuracy']
  for k, row in zip((1, 2), table.itertuples(), strict=True):
    right = int((evaluation.records.column('rank') < k).sum())
    exact = stats.binomtest(right, COUNT).proportion_ci(0.9, 'exact')
    assert (row.value, row.n, row.confidence) == (right / COUNT, COUNT, 0.9)
    assert (row.low, row.high) == pytest.approx((exact.low, exact.high))
  assert list(table_of(Accuracy(top_k=1), [evaluation]).quantity) == ['top1_accuracy']


def test_two_classifiers_are_compared_in_pairs():
  results, first, second = measured(Accuracy(top_k=2))
  assert results.table['class'].isna().sum() == 6, 'three of each top-k'
  right = [e.records.column('rank') == 0 for e in (first, second)]
  lost, gained = int((right[0] & ~right[1]).sum()), int((~right[0] & right[1]).sum())
  row = estimate(results.table, 'second', 'top1_accuracy', 'first')
  assert row.value == pytest.approx(right[1].mean() - right[0].mean()) == (gained - lost) / COUNT
  assert row.low <= row.value <= row.high
  assert row.p == pytest.approx(stats.binomtest(lost, lost + gained).pvalue)


def test_top_k_of_no_more_than_k_classes_is_left_out(tmp_path):
  """Top-5 of two classes would be 1.0 whatever the classifier."""
  rank, labels = np.array([[0], [1], [0], [1], [0], [0]], np.int32), np.array([0, 0, 1, 1, 1, 1])
  prediction = np.where(rank == 0, labels[:, None], 1 - labels[:, None])
  columns = {'label': labels, 'example_id': np.arange(6)}
  arrays = {'rank': rank, 'prediction': prediction, **columns}
  two_classes = made(tmp_path / 'only', arrays, classes=['left', 'right'])
  assert list(table_of(Accuracy(), [two_classes]).quantity) == ['top1_accuracy']
  findings, _ = listing.findings(Accuracy(), [two_classes], SHAPE)
  by_class = assemble(findings.estimates)
  assert by_class[['class', 'n', 'value']].values.tolist() == [['left', 2, 0.5], ['right', 4, 0.75]]
  assert Recorded([two_classes]).top_k(1) == Recorded([two_classes]).top_k(2) == [1]
  three_classes = made(tmp_path / 'three', arrays, classes=['left', 'right', 'up'])
  assert Recorded([three_classes]).top_k(2) == [1, 2]
  assert Recorded([three_classes, two_classes]).top_k(2) == [1]


@pytest.mark.parametrize(
  'study', [Accuracy(top_k=5), pytest.param(CorruptionError(top_k=5), marks=pytest.mark.slow)]
)
def test_top_k_is_left_out_with_a_warning_where_equal_scores_decide_it(tmp_path, caplog, study):
  """Nine classes of a one-hot answer have the score 0: their order is arbitrary.

  Of 200 answers 80, which is 40 %, are wrong, so that the order decides whether top-5 is right.
  """
  labels = np.arange(200) % 10
  predictions = np.where(np.arange(200) < 120, labels, (labels + 3) % 10)
  scores = {
    'one_hot': np.eye(10)[predictions],
    'impossible': np.where(np.eye(10)[predictions] > 0, 0, -np.inf),
    'distinct': np.eye(10)[predictions] * 9 + np.arange(10) / 10,
    'few_ties': np.eye(10)[predictions] * 9 + np.arange(10) / 10 * (np.arange(200) != 150)[:, None],
  }
  views = len(study.views(SHAPE))
  evaluations = {}
  for name, logits in scores.items():
    answers = summarise(jnp.asarray(logits, jnp.float32), jnp.asarray(labels))
    fields = {k: np.repeat(v, views).reshape(200, views) for k, v in answers.items() if k != FINITE}
    columns = {'label': labels, 'example_id': np.arange(200), 'image_digest': np.zeros(200)}
    classes = [str(i) for i in range(10)]
    evaluations[name] = made(tmp_path / name, {**fields, **columns}, classes=classes)
  for name in ('distinct', 'few_ties'):
    assert any('top5' in q for q in table_of(study, [evaluations[name]]).quantity), name
    assert 'equal scores' not in dict(study.which_numbers([evaluations[name]], SHAPE).rows)
  assert not caplog.messages
  for name in ('one_hot', 'impossible'):
    compared = [evaluations['distinct'], evaluations[name]]
    assert not any('top5' in quantity for quantity in table_of(study, compared).quantity)
    assert f'{name} (40%)' in caplog.text and 'config.study.top_k=1' in caplog.text
    assert f'{name} (40%)' in dict(study.which_numbers(compared, SHAPE).rows)['equal scores']


def test_records_of_earlier_versions_without_places_of_ties_have_a_top_k(tmp_path):
  old = {'rank': np.arange(10)[:, None], 'label': np.arange(10), 'example_id': np.arange(10)}
  evaluation = made(tmp_path / 'old', old, classes=[str(i) for i in range(10)])
  assert Recorded([evaluation]).top_k(5) == [1, 5]
