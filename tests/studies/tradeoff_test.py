"""Tests the study `tradeoff`: its numbers against NumPy, shared records, and its config."""

import functools

import jax
import numpy as np
import pytest

from robustness.config import experiment
from robustness.core.rows import ArrayRows
from robustness.estimates.table import select
from robustness.evaluation.study import Evaluation, Study
from robustness.models.classifier import Classifier
from robustness.parallel.mesh import MeshParallel
from robustness.studies import corruption_error, corruption_spectrum
from robustness.studies.tradeoff import Tradeoff
from tests.corruptions.pictures import natural
from tests.end_to_end import runs
from tests.refusals import refused
from tests.studies.conftest import recorded, table_of
from tests.table_rows import estimate

SHAPE, COUNT = (32, 32, 3), 12
SETTINGS = {
  'corruptions': ('gaussian_noise', 'contrast', 'brightness', 'shot_noise'),
  'severities': (2, 5),
}
SMALL = Tradeoff(**SETTINGS)


def logits_of(images: np.ndarray, threshold: float) -> np.ndarray:
  """Returns logits that are right (class 0) while neighbouring pixels differ little."""
  rough = np.abs(np.diff(images, axis=1)).mean((1, 2, 3))
  return np.stack([threshold - rough, rough - threshold], 1).astype(np.float32)


@pytest.fixture(name='records', scope='module')
def made_records(tmp_path_factory):
  """Returns evaluations by study: two classifiers for `tradeoff`, images alone for `spectrum`."""
  images = np.stack([natural(32, 32, seed=seed) for seed in range(COUNT)])
  rows = ArrayRows(images, np.zeros(COUNT, int), ('smooth', 'rough'))
  folder, parallel = tmp_path_factory.mktemp('records'), MeshParallel(jax.devices()[:1])

  def evaluation(study: Study, network: Classifier | None, label: str) -> Evaluation:
    return Evaluation(label, recorded(folder / label, study, network, rows, parallel, ()))

  spectrum = corruption_spectrum.CorruptionSpectrum(**SETTINGS)
  evaluations = []
  for label, threshold in (('strict', 0.04), ('tolerant', 0.09)):
    predict = functools.partial(logits_of, threshold=threshold)
    network = Classifier.from_callable(predict, SHAPE, rows.class_names, name=label)
    evaluations.append(evaluation(SMALL, network, label))
  return {'tradeoff': evaluations, 'spectrum': [evaluation(spectrum, None, 'images')]}


@pytest.mark.slow
def test_energies_equal_those_of_the_study_of_spectra(records):
  (spectrum,), evaluations = records['spectrum'], records['tradeoff']
  for name in ('measure/energy', 'measure/high_energy'):
    expected = spectrum.records.table(name)
    for evaluation in evaluations:
      np.testing.assert_allclose(evaluation.records.table(name), expected, rtol=1e-5, err_msg=name)


@pytest.mark.slow
def test_changes_shares_and_lines_agree_with_numpy(records):
  evaluations = records['tradeoff']
  results = table_of(SMALL, evaluations)
  first, second = evaluations[0].records, evaluations[1].records
  right = [(r.table('rank') == 0)[:, 1:].reshape(COUNT, 4, 2) for r in (first, second)]
  change = (right[1].mean(2) - right[0].mean(2)).mean(0)
  energy, high = (first.table(f'measure/{n}')[:, 1:] for n in ('energy', 'high_energy'))
  share = (high / energy).reshape(COUNT, 4, 2).mean((0, 2))
  for values, expected in (
    (select(results, 'accuracy', 'strict', corruption=...), change),
    (select(results, 'high_frequency_fraction', corruption=...), share),
  ):
    by_name = values.set_index('corruption').value[list(SMALL.names)]
    np.testing.assert_allclose(by_name, expected, rtol=1e-5, atol=1e-12)
  clean = estimate(results, 'tolerant', 'clean_accuracy', 'strict').value
  assert clean == np.subtract(*((r.table('rank')[:, 0] == 0).mean() for r in (second, first)))
  slope, intercept = np.polyfit(share, change, 1)
  assert estimate(results, 'tolerant', 'slope', 'strict').value == pytest.approx(slope, rel=1e-4)
  estimated = estimate(results, 'tolerant', 'intercept', 'strict').value
  assert estimated == pytest.approx(intercept, rel=1e-4)
  assert abs(slope) > 0.1, 'the classifiers differ by frequency'


def test_records_are_shared_with_corruption_error_of_the_same_settings_only():
  errors = corruption_error.CorruptionError(**SETTINGS)
  assert errors.recording == SMALL.recording and errors.stream == SMALL.stream
  for change in ({'quantize': 'floor'}, {'source': 'stored'}):
    assert errors.recording != corruption_error.CorruptionError(**SETTINGS, **change).recording
  assert errors.recording != corruption_spectrum.CorruptionSpectrum(**SETTINGS).recording


def test_a_config_of_a_single_classifier_is_refused():
  for sections in ({'classifier': {}}, {'classifiers': {'one': {}}}):
    config = {'study': {'name': 'tradeoff'}, **sections}
    refused('tradeoff compares .* at least 2, not 1', experiment.from_config, config)


@pytest.mark.slow
def test_the_config_of_digits_runs_end_to_end_and_that_of_cifar10_is_valid(tmp_path):
  weights = runs.save_networks(tmp_path)
  changes = {'study.corruptions': SMALL.corruptions, 'study.severities': (5,), **weights}
  config = runs.shrunk('tradeoff', changes=changes)
  results = runs.run(config, tmp_path / 'run')
  runs.assert_pictures('tradeoff', tmp_path / 'run')
  assert estimate(results.table, 'gaussian', 'slope', 'natural').n == 24
  checked = experiment.from_config(runs.shrunk('tradeoff', 'cifar10').to_dict())
  assert list(checked.classifiers) == ['first', 'second']
