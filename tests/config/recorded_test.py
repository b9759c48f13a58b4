"""config.json of a run has the sections of the parts that the config chooses, and no others."""

import json

import pytest
from flax import traverse_util

from robustness import launch
from robustness.cli import command_line
from robustness.config import experiment, packaged
from robustness.config.defaults import default_battery, default_config
from robustness.config.recorded import recorded
from tests.cases import cases
from tests.end_to_end import runs

VARIANTS = (
  'fourier_heatmap:cifar10',
  'fourier_table:imagenet',
  'systematic_rotation:cifar10+methods',
)


def flat(config):
  """Returns the recorded settings by dotted key."""
  return traverse_util.flatten_dict(recorded(config.to_dict()), sep='.')


def meaning(config):
  """Returns the parts of the experiment, without trainings of classifiers that load weights.

  `training`, the defaults of trainings, is left out, because `classifiers` have the values.
  """
  checked = experiment.from_config(config)
  classifiers = {
    label: vars(classifier)
    if classifier.is_trained_here or classifier.probe
    else {k: classifier.__dict__[k] for k in ('name', 'weights', 'input_filter', 'adaptation')}
    for label, classifier in checked.classifiers.items()
  }
  return {**vars(checked), 'classifiers': classifiers, 'training': None}


@pytest.mark.parametrize('name', [*packaged.files(), *VARIANTS])
def test_the_recorded_config_is_the_same_experiment(name, tmp_path):
  config = command_line.load_config(name).to_dict()
  file = tmp_path / 'config.json'
  file.write_text(json.dumps(recorded(config)))
  loaded = command_line.load_config(str(file)).to_dict()
  assert recorded(recorded(config)) == recorded(config) == recorded(loaded)
  assert recorded(json.loads(file.read_text())) == json.loads(file.read_text())
  if 'predictions' not in config:
    assert meaning(config) == meaning(recorded(config)) == meaning(loaded)


def test_the_default_run_records_fewer_than_sixty_settings():
  settings = flat(command_line.load_config('fourier_heatmap'))
  assert len(settings) < 60
  assert settings['classifiers.gaussian.augment.gaussian.sigma'] == 0.4
  assert settings['study.window'] == 0 and settings['training.momentum'] == 0.9


def test_no_settings_of_a_training_are_recorded_if_weights_are_loaded():
  config = default_config('accuracy')
  config.classifier.weights = 'somewhere'
  config.classifier.train = True
  config.classifier.augment.policy = ('flip',)
  config.classifier.attack.name = 'pgd'
  config.classifier.input_filter.name = 'low_pass'
  sections = {key.rpartition('.')[0] for key in flat(config)}
  filters = {'classifier.input_filter', 'classifier.input_filter.low_pass'}
  assert sections == {'', 'study', 'data', 'classifier', *filters}


@cases(
  'changes, names, absent',
  ({'schedule': 'step', 'step_epochs': (2.0,)}, {'step_factor'}, {'triangle'}),
  ({'schedule': 'triangular'}, {'triangle'}, {'step_factor'}),
  ({'optimizer': 'lamb'}, {'epsilon'}, {'momentum'}),
  ({'momentum': 0.0, 'nesterov': False}, {'momentum', 'nesterov'}, {'epsilon'}),
  ({'validation': 0.1}, {'validation', 'keep'}, {'clip_norm'}),
  ({'step_factor': 0.5}, {'step_factor'}, {'step_epochs'}),
)
def test_settings_without_an_effect_are_not_recorded(changes, names, absent):
  config = default_config('accuracy')
  config.classifier.train = True
  config.training.update(changes)
  settings = {key.removeprefix('training.') for key in flat(config)}
  assert names <= settings and not absent & settings


def test_tasks_that_do_not_run_are_not_recorded():
  config = default_battery({'plain': 'accuracy', 'maps': 'fourier_heatmap'})
  config.battery.tasks = ('maps',)
  config.data.num_images = 30
  config.battery.maps.data.num_images = 0
  settings = flat(config)
  assert settings['battery.maps.data.num_images'] == 0, 'it differs from config.data'
  assert not any(key.startswith('battery.plain') for key in settings)


def test_the_settings_of_the_chosen_source_alone_are_recorded():
  config = default_config('accuracy', ('a', 'b'))
  config.data.source, config.data.tfds.dataset = 'tfds', 'mnist'
  for classifier in config.classifiers.values():
    classifier.train = True
  config.classifiers.a.data.source = 'npz'
  config.classifiers.a.data.npz.path = 'x.npz'
  settings = flat(config)
  assert settings['data.tfds.dataset'] == 'mnist' and settings['data.tfds.data_dir'] == ''
  assert settings['classifiers.a.data.npz.path'] == 'x.npz'
  sections = {key.rpartition('.')[0] for key in settings if '.data.' in f'.{key}'}
  assert sections == {
    'data',
    'data.tfds',
    'data.npz',
    'classifiers.a.data',
    'classifiers.a.data.npz',
  }


def test_values_in_place_of_sections_are_kept_for_the_check_to_refuse():
  damaged = {'classifier': 5, 'battery': 'x', 'data': [], 'training': 1}
  assert recorded(damaged) == {k: v for k, v in damaged.items() if k != 'training'}
  damaged = {'classifiers': {'a': 5, 'b': {'augment': 'flip', 'probe': 1}}, 'battery': {'tasks': 3}}
  assert recorded(damaged)['classifiers'] == {'a': 5, 'b': {}}


@pytest.mark.usefixtures('undrawn')
def test_a_config_with_all_sections_describes_the_same_workdir(tmp_path):
  """A workdir takes a config with all sections, as written before, and its recorded config."""
  config = runs.shrunk('accuracy', 'own', {'classifier.weights': 'random'})
  results = launch.run(config.to_dict(), tmp_path)
  file = tmp_path / 'config.json'
  content = file.read_text()
  assert len(traverse_util.flatten_dict(json.loads(content))) < 30
  loaded = command_line.load_config(str(file))
  file.write_text(json.dumps(config.to_dict()))
  times = runs.shard_times(tmp_path)
  again = launch.run(loaded.to_dict(), tmp_path)
  assert file.read_text() == content and runs.shard_times(tmp_path) == times
  assert again.table.equals(results.table)


def test_a_key_of_a_part_that_is_not_chosen_is_taken_with_a_note(capsys):
  network = '--config.classifier'
  arguments = ['--config=accuracy', f'{network}.attack.pgd.steps=3', f'{network}.seed=2']
  config, _ = command_line.read(arguments)
  assert config.classifier.attack.pgd.steps == 3
  note = 'note: config.classifier.attack.pgd.steps has no effect: the config does not choose it\n'
  assert capsys.readouterr().err == note
