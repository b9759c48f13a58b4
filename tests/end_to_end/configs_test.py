"""Every config of configs/, made small, runs; its files, a repeated run and other batches agree."""

import dataclasses
import logging
import pathlib
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from configs import fine_tuning
from configs.fourier_table import get_config
from robustness.augment.cutout_and_noise import Cutout
from robustness.augment.flip_and_crop import Crop
from robustness.config import experiment
from robustness.estimates.table import facets_of, select
from robustness.models import catalog, efficientnet
from robustness.present import headlines
from robustness.results import Results
from robustness.training import loop
from robustness.training.checkpoint import load_variables
from tests.cases import marked
from tests.end_to_end import runs
from tests.refusals import refused
from tests.table_rows import estimate

FILES = 'config.json environment.json log.jsonl results.json results.npz results.csv report.html'


def check_workdir(workdir: pathlib.Path, results: Results, trained: bool) -> None:
  """Checks the files of a run on 24 images, whose report refers to nothing outside of it."""
  assert all((workdir / name).stat().st_size > 0 for name in FILES.split())
  assert ('train/loss' in (workdir / 'log.jsonl').read_text()) == trained
  assert runs.shard_times(workdir)
  pictures = sorted((workdir / 'figures').glob('*.png'))
  assert pictures and all(p.read_bytes().startswith(b'\x89PNG') for p in pictures)
  page = (workdir / 'report.html').read_text()
  assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//|@import|url\(\s*["\']?http', page)
  assert page.count('data:image/png;base64,') == len(pictures)
  pd.testing.assert_frame_equal(Results.read(workdir).table, results.table)
  overall = results.table[results.table[facets_of(results.table)].isna().all(axis=1)]
  assert len(overall) and set(overall.n) == {24} and (overall.method != '').all()
  assert (overall.low.le(overall.value) & overall.value.le(overall.high)).all()


def check_maps(results: Results, _: pathlib.Path) -> None:
  """Checks errors of every classifier at the 13 distinct frequencies of a 5 × 5 window.

  A frequency and its negative have the same error, so 25 cells have (25 + 1) / 2 values.
  """
  errors = select(results.table, 'error', frequency_y=..., frequency_x=...)
  assert len(errors) == 13 * len(results.prefixes) and set(errors.n) == {24}
  assert (errors.low.between(0, errors.value) & errors.high.between(errors.value, 1)).all()


def check_pair(results: Results, workdir: pathlib.Path) -> None:
  check_maps(results, workdir)
  errors = select(results.table, 'error', None, frequency_y=..., frequency_x=...)
  first, second, difference = np.split(errors.value.to_numpy(), 3)
  np.testing.assert_allclose(difference, second - first, atol=1e-12)


def check_digits(results: Results, workdir: pathlib.Path) -> None:
  """Checks that the trained networks give the same findings when they are loaded again."""
  check_maps(results, workdir)
  assert list(results.prefixes) == ['natural', 'gaussian']
  differences = select(results.table, 'error', 'natural', frequency_y=..., frequency_x=...)
  assert set(differences.classifier) == {'gaussian'} and differences.p.notna().all()
  changes = select(results.table, 'layer_change', layer=..., frequency_y=..., frequency_x=...)
  assert len(changes[changes.layer == 'stage1']) == 2 * 13
  weights = runs.trained(workdir, results.prefixes)
  config = runs.shrunk('fourier_heatmap', 'digits', {'study.layers': ('stages',), **weights})
  runs.run(config, workdir.with_name('loaded'), drawn=False, devices=8)
  runs.assert_same_findings(workdir, workdir.with_name('loaded'))


def check_accuracies(results: Results, workdir: pathlib.Path) -> None:
  runs.assert_pictures('accuracy', workdir)
  top1, top5 = (estimate(results.table, *results.labels, f'top{k}_accuracy').value for k in (1, 5))
  assert 0 <= top1 <= top5 <= 1


def check_learned(results: Results, workdir: pathlib.Path) -> None:
  check_accuracies(results, workdir)
  accuracy = estimate(results.table, *results.labels, 'top1_accuracy').value
  assert accuracy > 0.4, '60 steps on digits; chance is 0.1'


def check_repeats(config, workdir, other, monkeypatch):
  """Checks that a second run in the workdir computes nothing, and a run in other batches agrees."""
  names = ('results.json', 'results.csv', 'results.npz')
  files = {name: (workdir / name).read_bytes() for name in names}
  times = runs.shard_times(workdir)

  with monkeypatch.context() as patched:
    patched.setattr(loop, '_Run', None)  # no training step can be made
    runs.run(config, workdir, drawn=False)
  assert runs.shard_times(workdir) == times
  assert files == {name: (workdir / name).read_bytes() for name in files}
  config.update_from_flattened_dict({'batch_size': 16, 'views_per_step': 3})
  runs.run(config, other, drawn=False)
  runs.assert_same_findings(workdir, other)
  assert len(runs.shard_times(other)) != len(times)


LONGER = {'steps': 60, 'batch_size': 64, 'log_every_steps': 20, 'checkpoint_every_steps': 20}
FEW = {'classifier.data.split': 'train[:500]', 'training.batch_size': 8}
CONFIGS: dict[str, tuple[dict[str, Any], bool, Any]] = {
  'fourier_heatmap:digits': ({'study.layers': ('stages',)}, True, check_digits),
  'fourier_heatmap:cifar10': ({'study.window': 5}, True, check_maps),
  'fourier_heatmap:cifar10_pair': ({}, False, check_pair),
  'accuracy:own': ({}, True, check_accuracies),
  'train:digits': ({'training': LONGER}, True, check_learned),
  'train:cifar10': ({**FEW, 'training.steps': 2}, False, check_accuracies),
}
"""The changes of a config and variant, whether its run is repeated, and a check of its results."""


@pytest.mark.usefixtures('shallow_resnet')
@pytest.mark.parametrize('name', marked(CONFIGS, ['accuracy:own']))
def test_a_run_of_the_config(name, tmp_path, monkeypatch, request):
  changes, repeated, check = CONFIGS[name]
  file, _, variant = name.partition(':')
  trained = file == 'train' or variant == 'digits'
  network = 'resnet20' if 'cifar10' in variant else 'small_cnn'
  settings = dict(changes)
  if 'cifar10' in variant:
    settings['data.tfds.data_dir'] = str(request.getfixturevalue('cifar10_dir'))
  if variant == 'cifar10_pair':
    settings |= runs.save_networks(tmp_path, ('first', 'second'), network)
  elif not trained:
    settings['classifier.weights'] = runs.save_weights(tmp_path / 'one.safetensors', network)
  config = runs.shrunk(file, variant, settings)
  results = runs.run(config, tmp_path / 'first')
  check_workdir(tmp_path / 'first', results, trained)
  check(results, tmp_path / 'first')
  assert results.settings.get('norm', 4.0) == (8.0 if name == 'fourier_heatmap:digits' else 4.0)
  if repeated:
    check_repeats(config, tmp_path / 'first', tmp_path / 'second', monkeypatch)


@pytest.mark.slow
def test_calibration_of_a_run_and_of_the_records_of_that_run(tmp_path):
  small = {'corruptions': ('fog', 'contrast'), 'severities': (5,), 'resamples': 50}
  changes = {**runs.save_networks(tmp_path), 'study': small}
  results = runs.run(runs.shrunk('calibration', 'digits', changes), tmp_path / 'run')
  runs.assert_pictures('calibration', tmp_path / 'run')
  stems = {path.stem for path in (tmp_path / 'run' / 'figures').iterdir()}
  assert 'ece_corruption' in stems and any(stem.startswith('selective_error') for stem in stems)
  again = runs.shrunk('calibration', 'workdir', {'predictions': str(tmp_path / 'run')})
  again.study.resamples = 50
  from_records = runs.run(again, tmp_path / 'again', drawn=False)
  assert from_records.settings['of']['name'] == 'calibration'
  scored = results.table[results.table['class'].isna()].drop(columns='class')
  pd.testing.assert_frame_equal(from_records.table, scored)
  assert estimate(results.table, 'natural', 'ece', view='clean').n == 24
  (tmp_path / 'run' / 'results.json').unlink()
  refused('not finished', runs.run, again, tmp_path / 'third')


TASKS = ('clean', 'corruptions', 'calibration')
FOG = {'corruptions': ('fog',), 'severities': (5,)}
FOG_BATTERY = {
  'battery': {
    'tasks': TASKS,
    'corruptions.study': FOG,
    'calibration.study': {**FOG, 'resamples': 20},
    'attack.study.attack.pgd.steps': 1,
  }
}


def recordings(workdir: pathlib.Path) -> set[str]:
  """Returns the folders of records, one for each set of views that tasks share."""
  return {path.parent.parent.name for path in workdir.glob('records/*/*/header.json')}


@pytest.mark.slow
def test_a_battery_of_a_network_and_a_callable(tmp_path):
  """Tasks share a recording, and the run is resumed with one more task."""
  config = runs.shrunk('battery', 'digits', FOG_BATTERY)
  runs.wrap_second(config, tmp_path)
  workdir = tmp_path / 'run'
  results = runs.run(config, workdir)
  rows = {row[0]: row[1:] for row in headlines.table(results.by_task).rows}
  assert {name.partition(':')[0] for name in rows} == set(TASKS)
  first, second, difference, *_ = rows['clean: top-1 accuracy (%)']
  assert first == second, 'the same network'
  assert difference.startswith('0 (')
  assert len(recordings(workdir)) == 2, 'calibration is of the records of the corruptions'
  runs.assert_pictures('battery', workdir)
  single = {name: Results.read(workdir / 'tasks' / name).table for name in TASKS}
  assert results.table.task.value_counts().to_dict() == {n: len(t) for n, t in single.items()}

  before = runs.shard_times(workdir)
  config.battery.tasks = (*TASKS, 'attack')
  extended = runs.run(config, workdir)
  assert before.items() <= runs.shard_times(workdir).items()
  rows = headlines.table(extended.by_task).rows
  attacked = [row for row in rows if row[0].startswith('attack: ')]
  assert attacked and all(row[1] and not row[2] for row in attacked)
  assert extended.tables['left out'].rows[0][:2] == ['attack', 'gaussian']


@pytest.mark.parametrize(
  'variant', ['digits', 'cifar10', 'imagenet', 'cifar10_paper', 'imagenet_paper']
)
def test_every_battery_is_valid(variant):
  checked = experiment.from_config(runs.shrunk('battery', variant).to_dict())
  assert list(checked.measurements)[:2] == ['clean', 'corruptions']
  if variant.endswith('_paper'):
    corruptions, attack = (checked.studies[name] for name in ('corruptions', 'attack'))
    assert corruptions.published and corruptions.protocol == 'as_released'
    assert attack.attacks == ('auto_attack',) and attack.epsilon in (8 / 255, 4 / 255)


def test_a_mistake_in_the_data_of_a_task_names_its_section(tmp_path):
  config = runs.shrunk('battery', 'digits', {'battery.tasks': ('clean', 'neighbors')})
  runs.wrap_second(config, tmp_path)
  config.battery.neighbors.data.num_images = 100_000
  message = r'config\.battery\.neighbors\.data\.num_images is 100000; it must be at most'
  refused(message, runs.run, config, tmp_path / 'run')


CORRUPTIONS = ('shot_noise', 'contrast', 'brightness')


@pytest.mark.slow
def test_the_fourier_table_of_digits(tmp_path, monkeypatch, caplog):
  few = {'errors.study.corruptions': CORRUPTIONS, 'tradeoff.study.corruptions': CORRUPTIONS}
  changes = {'battery': {**few, 'heat_maps': {'study.window': 3, 'data.num_images': 8}}}
  config = runs.shrunk('fourier_table', changes=changes)
  for label in ('adversarial', 'low_pass', 'high_pass'):
    del config.classifiers[label]
  workdir = tmp_path / 'run'
  with caplog.at_level(logging.INFO):
    results = runs.run(config, workdir)
  assert any(line.startswith('top-1 error on clean images (%) ') for line in caplog.messages)

  tasks = {name: Results.read(workdir / 'tasks' / name) for name in config.battery.tasks}
  assert list(tasks) == ['errors', 'tradeoff', 'heat_maps']
  assert estimate(tasks['heat_maps'].table, 'natural', 'clean_error').n == 8
  for name, task_results in tasks.items():
    of_task = results.table[results.table.task == name]
    np.testing.assert_array_equal(of_task.value, task_results.table.value)
    assert (workdir / 'tasks' / name / 'report.html').stat().st_size > 0
  assert len(Results.read(workdir).tables['table 3'].rows) == 1 + len(CORRUPTIONS)
  printed = results.table[results.table['source'] == 'published']
  assert printed.task.isna().all() and set(printed.classifier) >= {'natural', 'gaussian'}
  page = (workdir / 'report.html').read_text()
  pictures = len(list(workdir.glob('**/figures/*.png')))
  assert page.count('data:image/png;base64,') == pictures, 'one report has all figures'

  assert len(recordings(workdir)) == 2, 'errors and trade-off are of the same records'
  accuracy_change, error_change = (
    estimate(tasks[task].table, 'gaussian', quantity, 'natural', corruption='contrast').value
    for task, quantity in (('tradeoff', 'accuracy'), ('errors', 'error'))
  )
  assert accuracy_change == pytest.approx(-error_change)
  before = runs.shard_times(workdir)
  monkeypatch.setattr(loop, '_Run', None)  # no training step can be made
  config.battery.tasks = ('tradeoff',)
  alone = runs.run(config, workdir, drawn=False)
  assert runs.shard_times(workdir) == before
  np.testing.assert_array_equal(alone.table.value, tasks['tradeoff'].table.value)


def test_every_fourier_table_is_valid():
  for variant in ('digits', 'cifar10', 'cifar10_half', 'cifar10_c', 'full', 'imagenet'):
    checked = experiment.from_config(runs.shrunk('fourier_table', variant).to_dict())
    assert list(checked.classifiers)[:2] == ['natural', 'gaussian']
    first, second = [*checked.studies.values()][:2]
    assert first.recording == second.recording and first.stream == second.stream


def test_networks_trained_in_bfloat16_have_their_layers_mapped_in_float32():
  for variant in ('full', 'imagenet'):
    checked = experiment.from_config(get_config(variant).to_dict())
    assert checked.measurements['heat_maps'].study.layers == ('stages',)
    assert checked.execution.precision == 'float32'
    recipes = checked.classifiers.values()
    assert {recipe.training.precision for recipe in recipes} == {'bfloat16'}


def test_auto_augment_is_applied_in_the_order_of_the_released_code():
  """For CIFAR-10, padding and covered pixels are 0 after normalisation."""
  order = {'full': ('auto_augment', 'crop', 'flip', 'cutout'), 'imagenet': ('flip', 'auto_augment')}
  parts = {}
  for variant in order:
    recipe = experiment.from_config(get_config(variant).to_dict()).classifiers['auto_augment']
    parts[variant] = {part.name: part for part in recipe.augment.augmentations}
  assert {variant: tuple(by_name) for variant, by_name in parts.items()} == order
  assert parts['full']['crop'] == Crop(4, 'mean_colour')
  assert parts['full']['cutout'] == Cutout(16)


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
def test_networks_that_adapt_are_compared_with_the_source(cifar10_dir, tmp_path):
  labels = ('source', 'statistics', 'tent')
  changes = {'data.tfds.data_dir': str(cifar10_dir), 'batch_size': 0, 'views_per_step': 0}
  changes |= {'study.corruptions': ('fog',), **runs.save_networks(tmp_path, labels, 'resnet20')}
  config = runs.shrunk('corruption_error', 'adapted', changes)
  config.classifiers.tent.adaptation.tent.batch_size = 8
  results = runs.run(config, tmp_path / 'run', drawn=False)
  adapted = [c.get('adaptation', {}).get('batch_size') for c in results.classifiers]
  assert adapted == [None, 200, 8]
  errors = select(results.table, 'error', 'source', corruption='fog', severity=5)
  assert set(errors.classifier) == {'statistics', 'tent'} and errors.p.notna().all()


@pytest.mark.slow
def test_trainings_in_the_fourier_domain(cifar10_dir, tmp_path):
  corruptions = {
    'corruptions.study': FOG,
    'heat_map.study.window': 3,
    'bands.study': {'bandwidths': (3,)},
  }
  changes = {'data.tfds.data_dir': str(cifar10_dir), 'battery': corruptions}
  config = runs.shrunk('robust_training', 'fourier', changes)
  for label in ('natural', 'gaussian', 'augmix'):
    del config.classifiers[label]
  config.classifiers.prime.augment.prime.update({'modes': 10, 'colour_waves': 10})
  for classifier in config.classifiers.values():
    classifier.data.split, classifier.data.num_images = 'train[:500]', 0
  config.battery.heat_map.data.num_images = config.battery.bands.data.num_images = 8
  results = runs.run(config, tmp_path / 'run', drawn=False)
  for task, count in (('corruptions', 24), ('heat_map', 8), ('bands', 8)):
    clean = select(results.table, 'clean_error', None, task=task)
    assert set(clean.classifier) == {'afa', 'apr_p', 'apr_s', 'prime'} and set(clean.n) == {count}


def test_every_fine_tuning_begins_with_known_weights():
  for name, (weights, drop_path) in fine_tuning.STARTS.items():
    config = fine_tuning.get_config(name)
    checked = experiment.from_config(config.to_dict())
    ((_, recipe),) = checked.classifiers.items()
    assert catalog.WEIGHTS[weights].architecture == recipe.name == name
    assert recipe.training.drop_path == drop_path


V2 = (efficientnet.StageSize(2, 3, 2, 2, 8, 'fused'), efficientnet.StageSize(2, 3, 2, 4, 8))
FINE_TUNED: dict[str, tuple[dict[str, Any], float]] = {
  'convnext_tiny': ({'width': 8, 'depths': (1, 2, 1, 1)}, 5e-5),
  'swin_tiny': ({'width': 8, 'depths': (1, 2, 1, 1), 'num_heads': 1, 'window': 2}, 2e-5),
  'deit3_s16': ({'width': 8, 'depth': 3, 'num_heads': 1}, 1e-5),
  'efficientnetv2_s': ({'sizes': V2, 'stem_features': 8, 'top_features': 8}, 1e-3),
}
"""Sizes of a thin network and the learning rate for a batch of 512, by variant."""


@pytest.mark.slow
@pytest.mark.parametrize('name', FINE_TUNED)
def test_networks_are_fine_tuned_on_a_folder(name, tmp_path, monkeypatch):
  thin, rate = FINE_TUNED[name]
  entry = catalog.get(name)
  entry = dataclasses.replace(entry, network=entry.network.clone(**thin), input_shape=(32, 32, 3))
  monkeypatch.setattr(catalog, 'ARCHITECTURES', {**catalog.ARCHITECTURES, name: entry})
  generator = np.random.default_rng(0)
  for number in range(48):
    path = tmp_path / f'{("train", "test")[number % 2]}/{"abc"[number % 3]}/{number}.png'
    runs.save_image(path, generator.integers(256, size=(40, 36, 3), dtype=np.uint8))
  changes = {
    'data': {'folder.path': str(tmp_path), 'resize': 36, 'crop': 32},
    'classifier.initial_weights': runs.save_weights(tmp_path / 'five.safetensors', name, 0, 5),
    'training.warmup_epochs': 0.5,
  }
  config = runs.shrunk('fine_tuning', name, changes)
  assert config.training.learning_rate == pytest.approx(rate * 16 / 512)
  assert name != 'efficientnetv2_s' or config.classifier.augment.cutout.size == 16
  results = runs.run(config, tmp_path / 'run', drawn=False)
  assert estimate(results.table, *results.labels, 'top1_accuracy').n == 24
  variables, facts = load_variables(tmp_path / 'run/checkpoints' / results.labels[0])
  assert variables['params']['head']['dense']['bias'].shape == (3,)
  assert facts['training']['optimizer'] == config.training.optimizer


@pytest.mark.slow
def test_frequencies_that_suffice_by_class(tmp_path):
  changes = {'study.sets': 5, 'data.num_images': 100, **runs.save_networks(tmp_path)}
  results = runs.run(runs.shrunk('frequency_shortcuts', 'digits', changes), tmp_path / 'run')
  runs.assert_pictures('frequency_shortcuts', tmp_path / 'run')
  through = select(results.table, 'accuracy_through_set', 'natural', **{'class': ...})
  assert set(through.classifier) == {'gaussian'} and len(through) == 10
  assert through.n.sum() < 55, 'of 100 images, half choose the frequencies'
