"""The study `tradeoff`: the same images for energies and accuracies, and its config end to end."""

from __future__ import annotations

import pathlib

import jax
import numpy as np
import pytest

from robustness.config import experiment
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.estimates.table import assemble, select
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Evaluation
from robustness.models.classifier import Classifier
from robustness.parallel.mesh import MeshParallel
from robustness.studies import corruption_error, corruption_spectrum
from robustness.studies.tradeoff import Tradeoff
from tests.corruptions.pictures import natural
from tests.end_to_end import runs
from tests.table_rows import estimate

SHAPE, COUNT = (32, 32, 3), 12
SMALL = Tradeoff(
  corruptions=('gaussian_noise', 'contrast', 'brightness', 'shot_noise'), severities=(2, 5)
)


def sees(images: np.ndarray, threshold: float) -> np.ndarray:
  """Logits of a function that is right (class 0) while neighbouring pixels differ little."""
  rough = np.abs(np.diff(images, axis=1)).mean((1, 2, 3))
  return np.stack([threshold - rough, rough - threshold], 1).astype(np.float32)


@pytest.fixture(scope='module')
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Evaluation]]:
  """Two classifiers and no classifier on the same rows, each by the study that records it."""
  images = np.stack([natural(32, 32, seed=seed) for seed in range(COUNT)])
  rows = ArrayRows(images, np.zeros(COUNT, int), ('smooth', 'rough'))
  folder, parallel = tmp_path_factory.mktemp('records'), MeshParallel(jax.devices()[:1])

  def evaluation(study, classifier: Classifier | None) -> Evaluation:
    key = random_keys.stream(0, study.stream)
    evaluator = Evaluator(classifier, study.views(SHAPE), key, parallel)
    records = Records(folder / study.name / evaluator.name, evaluator.layout(COUNT), {})
    evaluator.evaluate(rows, records)
    return Evaluation(evaluator.name, records)

  settings = {'corruptions': SMALL.corruptions, 'severities': SMALL.severities}
  spectrum = corruption_spectrum.CorruptionSpectrum(**settings)
  classifiers = [
    Classifier.from_callable(
      lambda x, threshold=threshold: sees(x, threshold), SHAPE, rows.class_names, name=label
    )
    for label, threshold in (('strict', 0.04), ('tolerant', 0.09))
  ]
  return {
    'tradeoff': [evaluation(SMALL, classifier) for classifier in classifiers],
    'spectrum': [evaluation(spectrum, None)],
  }


def test_energies_are_those_of_the_images_that_the_spectrum_measures(
  recorded: dict[str, list[Evaluation]],
) -> None:
  (alone,), beside = recorded['spectrum'], recorded['tradeoff']
  for name in ('measure/energy', 'measure/high_energy'):
    expected = alone.records.table(name)
    for evaluation in beside:
      np.testing.assert_allclose(evaluation.records.table(name), expected, rtol=1e-5, err_msg=name)


def test_changes_shares_and_lines_against_plain_numpy(
  recorded: dict[str, list[Evaluation]],
) -> None:
  evaluations = recorded['tradeoff']
  results = assemble(SMALL.reduce(evaluations, SHAPE).estimates)
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
  found = estimate(results, 'tolerant', 'intercept', 'strict').value
  assert found == pytest.approx(intercept, rel=1e-4)
  assert abs(slope) > 0.1, 'the classifiers differ by frequency'


def test_it_shares_the_records_of_the_corruption_error_and_of_no_other() -> None:
  settings = {'corruptions': SMALL.corruptions, 'severities': SMALL.severities}
  errors = corruption_error.CorruptionError(**settings)
  assert errors.recording == SMALL.recording and errors.stream == SMALL.stream
  assert (
    errors.recording != corruption_error.CorruptionError(**settings, quantize='floor').recording
  )
  assert errors.recording != corruption_error.CorruptionError(**settings, source='stored').recording
  assert errors.recording != corruption_spectrum.CorruptionSpectrum(**settings).recording


@pytest.mark.parametrize('sections', [{'classifier': {}}, {'classifiers': {'one': {}}}])
def test_a_single_classifier_is_refused_before_anything_runs(sections: dict) -> None:
  with pytest.raises(InputError, match='tradeoff compares .* at least 2, not 1'):
    experiment.from_config({'study': {'name': 'tradeoff'}, **sections})


def test_the_config_of_digits_runs_end_to_end(tmp_path: pathlib.Path) -> None:
  weights = runs.save_networks(tmp_path)
  changes = {'study.corruptions': SMALL.corruptions, 'study.severities': (5,), **weights}
  config = runs.shrunk('tradeoff', changes=changes)
  results = runs.run(config, tmp_path / 'run')
  assert (tmp_path / 'run/figures/tradeoff.png').stat().st_size > 0
  assert estimate(results.table, 'gaussian', 'slope', 'natural').n == 24


def test_the_config_of_cifar10_is_valid() -> None:
  checked = experiment.from_config(runs.shrunk('tradeoff', 'cifar10').to_dict())
  assert list(checked.classifiers) == ['first', 'second']
