"""The study `attack_error`: counts and spectra against plain NumPy on attacks made by hand."""

from __future__ import annotations

import dataclasses
import pathlib

import jax
import numpy as np
import pytest

from robustness.attacks import fgsm, pgd
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.estimates.table import assemble, select
from robustness.evaluation.runner import Evaluator
from robustness.models.classifier import Classifier
from robustness.parallel.mesh import MeshParallel
from robustness.results import Results
from robustness.studies.attack_error import Study
from tests.end_to_end import runs
from tests.networks import CLASSES, SHAPE
from tests.studies.conftest import COUNT, Evaluate, classifier, rows
from tests.table_rows import assert_same, assert_same_arrays, estimate

SMALL = Study(attacks=('pgd', 'fgsm'), epsilon=0.02, epsilons=(0.01,), step_size=0.008, steps=4)


def attacked_by_hand(study: Study, seed: int) -> np.ndarray:
  """Images of every view [V, N, H, W, C], by the attacks as functions of whole batches."""
  network, data = classifier('', seed), rows()
  views = study.views(SHAPE)
  stream = random_keys.stream(0, study.name)

  def logits(images):
    return network.forward(network.variables, images, ())[0]

  shown = [data.images]
  for index in range(1, len(views)):
    epsilon = float(views.parameters['epsilon'][index])
    keys = jax.vmap(lambda e, i=index: random_keys.for_example(stream, e, views.ids[i]))(
      np.arange(COUNT)
    )
    if views.parameters['attack'][index] == 0:
      size = study.step_size * epsilon / study.epsilon
      settings = pgd.Settings('linf', epsilon, study.steps, size)
      shown.append(pgd.attack(keys, logits, data.images, data.labels, settings))
    else:
      settings = fgsm.Settings('linf', epsilon)
      shown.append(fgsm.attack(keys, logits, data.images, data.labels, settings))
  return np.stack([np.asarray(images) for images in shown])


def test_errors_and_spectra_are_those_of_the_attacks_by_hand(evaluate: Evaluate) -> None:
  evaluations = evaluate(SMALL)
  findings = SMALL.reduce(evaluations, SHAPE)
  labels, worst = rows().labels, {}
  for seed, label in enumerate(('first', 'second')):
    shown = attacked_by_hand(SMALL, seed)
    network = classifier('', seed)
    wrong = np.stack([network.predict(images).argmax(1) != labels for images in shown])
    table = wrong[1:].reshape(2, 2, COUNT)
    worst[label] = table.any(1)
    np.testing.assert_allclose(findings.arrays[f'{label}/error'], table.mean(2))
    assert findings.numbers[f'{label}/clean_error'].value == wrong[0].mean()
    assert findings.numbers[f'{label}/attack_error'].value == worst[label][1].mean()
    assert findings.numbers[f'{label}/attack_error/fgsm'].value == table[1, 1].mean()
    change = (shown[1:] - shown[0]).reshape(2, 2, *shown.shape[1:])
    spectra = np.fft.fftshift(np.abs(np.fft.fft2(change, axes=(3, 4), norm='ortho')), axes=(3, 4))
    for e, a in np.ndindex(2, 2):
      successful = spectra[e, a][table[e, a]]
      assert 0 < len(successful) < COUNT, 'the case leaves images right and wrong'
      np.testing.assert_allclose(
        findings.arrays[f'{label}/spectrum'][e, a], successful.mean((0, -1)), atol=2e-5
      )
    energy = (change[1, 0] ** 2).sum((1, 2, 3))[table[1, 0]]
    number = findings.numbers[f'{label}/change_norm/pgd']
    assert (number.n, number.value) == (
      len(energy),
      pytest.approx(np.sqrt(energy).mean(), rel=1e-4),
    )
    largest = findings.arrays[f'{label}/largest_change']
    assert (largest <= np.array([[0.01], [0.02]]) * (1 + 1e-5)).all()
  difference = worst['second'].mean(1) - worst['first'].mean(1)
  np.testing.assert_allclose(findings.arrays['second/difference'], difference, atol=1e-12)
  assert [row[2] for row in findings.tables['comparison'].rows] == [
    'clean',
    'epsilon 0.01',
    'epsilon 0.02',
  ]


def test_a_view_is_the_same_whatever_else_a_run_holds() -> None:
  views = SMALL.views(SHAPE)
  alone = dataclasses.replace(SMALL, attacks=('fgsm',), epsilons=()).views(SHAPE)
  assert alone.ids[1] == views.ids[-1] and len(set(views.ids.tolist())) == len(views) == 5
  other = dataclasses.replace(SMALL, losses=('dlr',)).views(SHAPE)
  assert not set(views.ids[1:].tolist()) & set(other.ids[1:].tolist())


def test_losses_multiply_attacks_and_restarts_never_help_the_network(evaluate: Evaluate) -> None:
  several = Study(attacks=('auto_pgd',), losses=('cross_entropy', 'dlr'), epsilon=0.03, steps=3)
  assert list(several.runs) == ['auto_pgd_cross_entropy', 'auto_pgd_dlr']
  once = Study(epsilon=0.03, steps=2, step_size=0.005)
  twice = dataclasses.replace(once, restarts=4)
  wrong = [
    evaluate(study, ('first',), name)[0].records.table('rank')[:, 1] > 0
    for name, study in (('once', once), ('twice', twice))
  ]
  assert (wrong[1] >= wrong[0]).all()


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'epsilon': 0.0}, r'config\.study\.epsilon is 0\.0'),
    ({'epsilon': 8.0}, r'config\.study\.epsilon is 8\.0.*pixels are in \[0, 1\]'),
    ({'epsilons': (0.1, -0.1)}, r'config\.study\.epsilon is -0\.1'),
    ({'epsilons': (8 / 255,)}, r'config\.study\.epsilons is .*distinct'),
    ({'steps': 0}, r'config\.study\.steps is 0'),
    ({'restarts': 0}, r'config\.study\.restarts is 0'),
    ({'step_size': 0.0}, r'config\.study\.step_size is 0\.0'),
    ({'norm': 'l1'}, r"config\.study\.norm is 'l1'"),
    ({'attacks': ('pdg',)}, r"did you mean 'pgd'"),
    ({'attacks': ()}, r'config\.study\.attacks is \(\)'),
    ({'losses': ('dlrr',)}, r"did you mean 'dlr'"),
  ],
)
def test_bad_settings_are_refused(change: dict, message: str) -> None:
  with pytest.raises(InputError, match=message):
    Study(**change)


def test_radii_below_bfloat16s_resolution_are_not_for_networks_in_it() -> None:
  assert not Study(epsilon=1 / 255).lost_in_bfloat16((32, 32, 3))
  lost = Study(epsilon=0.0039, epsilons=(0.03,)).lost_in_bfloat16()
  assert 'at least 0.003906 (2**-8 a value), not 0.0039' in lost
  small = Study(norm='l2', epsilon=0.2)
  assert not small.lost_in_bfloat16(), 'the images decide it'
  assert not small.lost_in_bfloat16((28, 28, 1))
  assert 'at least 0.216506 (2**-8 a value), not 0.2' in small.lost_in_bfloat16((32, 32, 3))


@pytest.mark.parametrize('trained', [False, True])
def test_a_small_l2_ball_is_refused_with_bfloat16_before_anything_is_trained(
  tmp_path: pathlib.Path, trained: bool
) -> None:
  config = runs.shrunk('attack_error', 'digits', {'precision': 'bfloat16'})
  config.study.norm, config.study.epsilon, config.study.epsilons = 'l2', 1.0 if trained else 0.1, ()
  config.classifiers.adversarial.attack.pgd.norm = 'l2'
  config.classifiers.adversarial.attack.pgd.epsilon = 0.1
  names = 'config.classifier.attack.pgd.epsilon' if trained else 'config.study.epsilon'
  with pytest.raises(InputError, match=f'{names} .*at least 0.109375'):
    runs.run(config, tmp_path)


def test_an_even_bandwidth_is_refused_before_anything_runs() -> None:
  with pytest.raises(InputError, match='takes an odd number'):
    Study(bandwidth=26).views((32, 32, 3))


def test_a_callable_is_refused() -> None:
  function = Classifier.from_callable(lambda x: np.zeros((len(x), 4), np.float32), SHAPE, CLASSES)
  runner = Evaluator(
    function, SMALL.views(SHAPE), random_keys.stream(0, SMALL.name), MeshParallel(jax.devices()[:1])
  )
  with pytest.raises(InputError, match='is a callable, which has no gradient'):
    next(runner.shards(rows(), runner.layout(COUNT)))


def test_rows_with_several_labels_are_refused() -> None:
  data = rows()
  several = ArrayRows(data.images, np.stack([data.labels, -1 + 0 * data.labels], 1), CLASSES)
  with pytest.raises(InputError, match='several labels each'):
    SMALL.check_rows(several)
  SMALL.check_rows(data)


@pytest.mark.slow
def test_the_config_of_digits_runs_end_to_end(tmp_path: pathlib.Path) -> None:
  config = runs.shrunk('attack_error', 'digits', {'study.steps': 2})
  results = runs.run(config, tmp_path / 'run')
  for name in ('attack_error', 'error_by_epsilon', 'spectra', 'radial'):
    assert (tmp_path / 'run/figures' / f'{name}.png').stat().st_size > 0
  assert Results.read(tmp_path / 'run').numbers == results.numbers
  assert results.arrays['adversarial/spectrum'].shape == (2, 2, 28, 28)
  for label in ('natural', 'adversarial'):
    worst = results.arrays[f'{label}/worst_error']
    assert (worst >= results.arrays[f'{label}/error'].max(1)).all()
    assert results.numbers[f'{label}/attack_error'].n == 24
  times = runs.shard_times(tmp_path / 'run')
  runs.run(config, tmp_path / 'run')
  assert runs.shard_times(tmp_path / 'run') == times


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
def test_the_config_of_cifar10_runs_end_to_end(
  cifar10_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  file = runs.save_weights(tmp_path / 'weights.safetensors', 'resnet20')
  changes = {'classifier.weights': file, 'data.data_dir': str(cifar10_dir), 'study.steps': 1}
  results = runs.run(runs.shrunk('attack_error', 'cifar10', changes), tmp_path / 'run')
  number = results.numbers['attack_error']
  assert number.n == 24 and number.value >= results.numbers['clean_error'].value
  assert results.arrays['largest_change'].max() <= 8 / 255 * (1 + 1e-5)


def test_the_table_has_every_number_and_array(evaluate: Evaluate) -> None:
  study = dataclasses.replace(SMALL, attacks=('pgd', 'fgsm'))
  findings = study.reduce(evaluate(study), SHAPE)
  results = assemble(findings.estimates)
  ends = ('', '_low', '_high')
  for label in ('first', 'second'):
    for quantity, name, facets in (
      ('error', 'error', {'attack': ...}),
      ('attack_error', 'worst_error', {}),
      ('radial_amplitude', 'radial', {'attack': ..., 'radius': ...}),
    ):
      rows = select(results, quantity, epsilon=..., **facets)
      rows = rows[rows.classifier == label]
      if 'radius' in facets:
        place = {name: k for k, name in enumerate(study.runs)}
        rows = rows.assign(place=rows.attack.map(place))
        rows = rows.sort_values(['epsilon', 'place', 'radius'])
      assert_same_arrays(rows, *(findings.arrays[f'{label}/{name}{end}'] for end in ends))
    assert_same(estimate(results, label, 'clean_error'), findings.numbers[f'{label}/clean_error'])
    clean = estimate(results, label, 'clean_high_frequency')
    assert_same(clean, findings.numbers[f'{label}/high_frequency/clean'])
    rings = select(results, 'clean_radial_amplitude', radius=...)
    of_clean = (findings.arrays[f'{label}/clean_radial{end}'] for end in ends)
    assert_same_arrays(rings[rings.classifier == label].sort_values('radius'), *of_clean)
    for name in study.runs:
      for quantity in ('high_frequency', 'change_norm'):
        row = estimate(results, label, quantity, attack=name, epsilon=study.epsilon)
        number = findings.numbers[f'{label}/{quantity}/{name}']
        assert_same(row, dataclasses.replace(number, note=''))
  pairs = select(results, 'attack_error', 'first', epsilon=...)
  assert_same_arrays(pairs, *(findings.arrays[f'second/difference{e}'] for e in (*ends, '_p')))
