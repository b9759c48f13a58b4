"""Tests the study `calibration`: estimates by view, means over views, and records of workdirs."""

import dataclasses
import pathlib

import numpy as np
import pandas as pd
import pytest

from robustness.estimates import calibration
from robustness.estimates.table import assemble, facets_of, select
from robustness.evaluation.study import Evaluation, scores_of
from robustness.evaluation.views import ViewTable
from robustness.studies.calibration import Calibration
from tests import finished_runs
from tests.made_records import made as written
from tests.refusals import bad_setting, refused
from tests.studies.conftest import table_of
from tests.table_rows import estimate

CORRUPTIONS = ('fog', 'contrast')
ROWS, VIEWS, SHAPE = 90, 5, (28, 28, 1)
STUDY = Calibration(corruptions=CORRUPTIONS, severities=(1, 5), resamples=100)


def made(directory: pathlib.Path, label: str, seed: int, **fields: np.ndarray) -> Evaluation:
  """Writes records of a classifier that is calibrated in the clean view and more overconfident in
  each next one; `fields` replace its answers, and empty ones are left out."""
  generator = np.random.default_rng(seed)
  confidence = generator.random((ROWS, VIEWS)).astype(np.float32)
  right = generator.random((ROWS, VIEWS)) < confidence ** (1 + np.arange(VIEWS))
  probability = np.where(right, confidence, 1 - confidence)
  arrays = {'rank': ~right, 'probability': probability, 'confidence': confidence, **fields}
  return written(directory / label, {name: value for name, value in arrays.items() if len(value)})


def reduced(*evaluations: Evaluation, study: Calibration = STUDY) -> pd.DataFrame:
  return table_of(study, evaluations)


def test_estimates_of_a_group_are_means_over_its_views(tmp_path):
  results = reduced(made(tmp_path, 'only', 0))
  names = *calibration.QUANTITIES, 'overconfidence', 'accuracy', 'mean_confidence'
  for name in names:
    rows = select(results, name, corruption=..., severity=...)
    by_view = rows.set_index(['corruption', 'severity'])
    assert list(by_view.index) == [(name, s) for name in CORRUPTIONS for s in (1, 5)]
    views = by_view.value
    for expected, facets in (
      (views['fog'], {'corruption': 'fog'}),
      (views.xs(5, level='severity'), {'severity': 5}),
      (views, {'corruption_set': 'shown'}),
    ):
      row = estimate(results, 'only', name, **facets)
      assert (row.value, row.n) == (pytest.approx(expected.mean()), ROWS)
      assert name in names[-2:] or row.low <= row.value <= row.high
  assert estimate(results, 'only', 'ece', view='clean').low == 0, 'it is calibrated'
  assert estimate(results, 'only', 'ece', severity=5).low > 0.1
  views = {'view': 'clean'}, {'severity': 5}
  low = [estimate(results, 'only', 'overconfidence', **facets).low for facets in views]
  assert low[0] < 0 < low[1]


def test_every_estimate_has_the_confidence_of_the_study(tmp_path):
  study = dataclasses.replace(STUDY, confidence=0.9)
  table = reduced(made(tmp_path, 'one', 0), made(tmp_path, 'other', 1), study=study)
  assert {'selective_error', 'bin_size'} < {*table['quantity']}
  assert {*table.confidence} == {0.9}


def test_estimates_of_a_view_follow_its_predictions(tmp_path):
  evaluation = made(tmp_path, 'only', 0)
  results = reduced(evaluation)
  confidence, right = evaluation.records.table('confidence'), evaluation.records.table('rank') == 0
  views = [{'corruption': name, 'severity': s} for name in CORRUPTIONS for s in (1, 5)]
  views.insert(0, {'view': 'clean'})
  for view, facets in enumerate(views):
    p, y = confidence[:, view].astype(float), right[:, view]
    expected = {'accuracy': y.mean(), 'mean_confidence': p.mean(), 'brier': ((p - y) ** 2).mean()}
    expected['overconfidence'] = p.mean() - y.mean()
    for name, value in expected.items():
      assert estimate(results, 'only', name, **facets).value == pytest.approx(value)
    names = ('bin_size', 'bin_confidence', 'bin_accuracy')
    size, mean, accuracy = (
      select(results, name, bin=..., **facets).value.to_numpy() for name in names
    )
    bin_of_row = np.ceil(p * 15).clip(1, 15)
    np.testing.assert_array_equal(size, [(bin_of_row == b).sum() for b in range(15, 0, -1)])
    np.testing.assert_allclose(size @ accuracy, y.sum())
    biased = estimate(results, 'only', 'ece_biased', **facets).value
    assert biased == pytest.approx(size @ np.abs(accuracy - mean) / ROWS)
    risks = select(results, 'selective_error', coverage=..., **facets).value
    assert risks.iloc[-1] == pytest.approx(1 - y.mean())
    order = np.argsort(-p, kind='stable')
    assert risks.iloc[9] == pytest.approx(1 - y[order[: ROWS // 2]].mean()), '10 of 20 coverages'
  mean_risk = select(results, 'selective_error', coverage=1.0, corruption_set='shown').value.item()
  assert mean_risk == pytest.approx(1 - right[:, 1:].mean())
  assert set(results.quantity) == {quantity.name for quantity in STUDY.quantities}


def test_differences_are_paired(tmp_path):
  seeds = {'a': 0, 'b': 0, 'c': 1}
  results = reduced(*(made(tmp_path, label, seed) for label, seed in seeds.items()))
  unchanged, difference = (estimate(results, label, 'brier', 'a', view='clean') for label in 'bc')
  assert (unchanged.value, unchanged.low, unchanged.high) == (0, 0, 0)
  first, last = (estimate(results, label, 'brier', view='clean').value for label in 'ac')
  assert difference.value == pytest.approx(last - first)
  assert difference.low < difference.value < difference.high


def test_a_mean_over_views_of_calibrated_classifiers_shows_no_difference(tmp_path):
  """Debiasing leaves a part of the bias, which is the same in all views and stays in their mean."""
  study = dataclasses.replace(STUDY, severities=(1, 2, 3, 4, 5))
  generator = np.random.default_rng(0)
  evaluations = []
  for label, (a, b) in {'sure': (19, 1), 'unsure': (5.7, 4.3)}.items():
    confidence = generator.beta(a, b, (200, 11)).astype(np.float32)
    right = generator.random((200, 11)) < confidence
    evaluations.append(written(tmp_path / label, {'rank': ~right, 'confidence': confidence}))
  results = reduced(*evaluations, study=study)
  for name in calibration.BIASED:
    difference = estimate(results, 'unsure', name, 'sure', corruption_set='shown')
    assert difference.low <= 0 < difference.value < difference.high


def test_workdirs_of_stored_images_and_of_other_studies_are_scored(tmp_path):
  def scored(folder, seed=0):
    section = {'predictions': str(folder), 'task': '', 'seed': seed}
    return assemble(scores_of(STUDY, section)(tmp_path).findings.estimates)

  right = np.random.default_rng(0).random((30, 5)) > 0.4
  tables = []
  for is_stored in (True, False):
    folder = finished_runs.write_versions(tmp_path / str(is_stored), {'net': right}, is_stored)
    tables.append(scored(folder))
  pd.testing.assert_frame_equal(*tables)
  assert estimate(tables[0], 'net', 'ece', corruption='fog').n == 30
  right = np.random.default_rng(0).random(40) > 0.4
  results = scored(finished_runs.write(tmp_path / 'run', {'net': right.tolist()}))
  assert facets_of(results) == ['view', 'coverage', 'bin']
  row = estimate(results, 'net', 'ece', view='as stored')
  assert row.low <= row.value <= row.high and row.method == 'bootstrap'
  reseeded = estimate(scored(tmp_path / 'run', seed=1), 'net', 'ece', view='as stored')
  assert reseeded.value == row.value and reseeded.low != row.low, 'the seed is for the bootstrap'


def test_scenes_and_records_without_confidence_are_refused(tmp_path):
  old = made(tmp_path, 'old', 0, confidence=np.zeros(0))
  refused("no field 'confidence'", STUDY.reduce, [old], SHAPE)
  message = 'these are scenes, images of one object or versions of'
  for field in ({'units': np.zeros(3)}, {'counted': np.eye(3, 1) > 0}):
    refused(message, STUDY.estimate_views, [], ViewTable(('shown',), **field))
  config = {'predictions': '', 'task': '', 'seed': 0}
  refused(bad_setting('config.predictions', ''), scores_of, Calibration(), config)
