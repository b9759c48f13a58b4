"""A workdir with records, results or checkpoints accepts only the config that made them."""

import errno
import json
import os
import subprocess
import sys

import jax
import pytest

from robustness.workdirs import workdir
from tests.cases import cases
from tests.refusals import refused

CONFIG = {'seed': 0, 'study': {'name': 'accuracy', 'layers': ('a', 'b')}}


def prepare(directory, config):
  """Creates or resumes a workdir as a run does, writes the config, and returns the path."""
  path = workdir.open_or_create(directory, config)
  workdir.write_config(path, config)
  return path


def test_config_is_written_and_accepted_again(tmp_path):
  path = prepare(tmp_path / 'new/deep', CONFIG)
  assert json.loads((path / 'config.json').read_text())['study']['layers'] == ['a', 'b']
  (path / 'records').mkdir()
  assert prepare(tmp_path / 'new/deep', CONFIG) == path


WORK = (
  'records/net/rows000000-views000000.npz',
  'seed1/records/noise-1234/net/round000/rows000000-views000000.npz',
  'results.json',
)


@pytest.mark.parametrize('work', WORK)
def test_another_config_is_refused_by_key(tmp_path, work):
  prepare(tmp_path, CONFIG)
  (tmp_path / work).parent.mkdir(parents=True, exist_ok=True)
  (tmp_path / work).touch()
  content = (tmp_path / 'config.json').read_bytes()
  other = {'seed': 1, 'study': {'name': 'accuracy', 'layers': ('a',), 'norm': 4.0}}
  layers = r"config\.study\.layers: \['a', 'b'\] → \['a'\]"
  for line in (r'config\.seed: 0 → 1', layers, r'config\.study\.norm: None → 4\.0'):
    refused(line, prepare, tmp_path, other)
  assert (tmp_path / 'config.json').read_bytes() == content


def test_settings_of_a_source_that_were_keys_of_data_are_compared_under_their_new_names(tmp_path):
  keys = {'name': 'cifar10', 'data_dir': '', 'path': '', 'test_share': 0.25}
  prepare(tmp_path, {**CONFIG, 'data': {'source': 'tfds', **keys}})
  (tmp_path / 'results.json').touch()

  def config(name):
    return {**CONFIG, 'data': {'source': 'tfds', 'tfds': {'dataset': name, 'data_dir': ''}}}

  changed = r"data\.tfds\.dataset: 'cifar10' → 'cifar100'\nUse another --workdir"
  refused(changed, prepare, tmp_path, config('cifar100'))
  prepare(tmp_path, config('cifar10'))


WITHOUT_EFFECT_ON_RECORDS = (
  ('fourier_heatmap', {'confidence': 0.9, 'false_discovery_rate': 0.1, 'top_k': 2}),
  ('fourier_heatmap', {'classes': ('all',)}),
  ('calibration', {'bins': 10, 'resamples': 50}),
  ('recalibration', {'alpha': 0.2, 'scalings': ('temperature',)}),
  ('video_pm_k', {'k': 5}),
)


@pytest.mark.parametrize('name, changed', WITHOUT_EFFECT_ON_RECORDS)
@pytest.mark.parametrize('in_battery', [False, True])
def test_settings_that_change_no_record_may_change(tmp_path, name, changed, in_battery):
  def config(**study):
    section = {'study': {'name': name, **study}}
    return {'battery': {'tasks': ('one',), 'one': section}} if in_battery else section

  prepare(tmp_path, config())
  (tmp_path / 'results.json').touch()
  prepare(tmp_path, config(**changed))
  prepare(tmp_path, config())
  refused('layers: ', prepare, tmp_path, config(**changed, layers=('stages',)))


def test_a_run_in_rounds_keeps_its_confidence_which_decides_when_rounds_end(tmp_path):
  def config(**study):
    return {'study': {'name': 'fourier_heatmap', **study}}

  prepare(tmp_path, config())
  (tmp_path / 'results.json').touch()
  refused(r'half_width: None → 0.1', prepare, tmp_path, config(half_width=0.1))
  rounds = tmp_path / 'rounds'
  prepare(rounds, config(half_width=0.1))
  (rounds / 'results.json').touch()
  refused('confidence: ', prepare, rounds, config(half_width=0.1, confidence=0.9))


def test_a_workdir_with_checkpoints_alone_belongs_to_their_trainings(tmp_path):
  first = {'name': 'small_cnn', 'train': True}
  before = {'seed': 0, 'study': {'norm': 4.0}, 'classifiers': {'first': first, 'second': first}}
  prepare(tmp_path, before)
  (tmp_path / 'checkpoints/first/checkpoints/100').mkdir(parents=True)
  after = {'seed': 0, 'batch_size': 8, 'study': {'norm': 5.0}, 'classifiers': {'first': first}}
  prepare(tmp_path, {**after, 'classifiers': {'first': first, 'third': first}})
  fix = r'LABEL\.weights=.*/checkpoints/LABEL$'
  refused(f'seed: 0 → 1\n.*{fix}', prepare, tmp_path, {**after, 'seed': 1})
  changed = {'classifiers': {'first': {**first, 'seed': 2}}}
  refused('classifiers.first.seed: None → 2', prepare, tmp_path, {**after, **changed})
  of_task = {'battery': {'tasks': ('classifier_a',), 'classifier_a': {'study': {'norm': 4.0}}}}
  battery = tmp_path / 'battery'
  prepare(battery, {**of_task, 'classifier': first})
  (battery / 'checkpoints/net/checkpoints/100').mkdir(parents=True)
  of_task['battery']['classifier_a'] = {'study': {'norm': 5.0}}
  prepare(battery, {**of_task, 'classifier': first})  # the name of the task is none of a section
  (tmp_path / 'results.json').touch()
  message = r'batch_size: 8 → None\n.*classifiers\.second: a new classifier\n.*third: left out\n'
  refused(message, prepare, tmp_path, {**before, 'study': {'norm': 5.0}})


def test_a_config_without_finished_work_is_replaced(tmp_path):
  prepare(tmp_path, CONFIG)
  for name in (
    'checkpoints/net/classifier.json',
    'seed1/checkpoints/net/checkpoints/100.orbax-checkpoint-tmp',
    'records/net/header.json',
    'figures/cells.png',
  ):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
  prepare(tmp_path, {**CONFIG, 'seed': 1})
  assert json.loads((tmp_path / 'config.json').read_text())['seed'] == 1


def test_a_classifier_may_have_the_name_of_a_setting_that_chooses_parts(tmp_path):
  network = {'name': 'small_cnn', 'train': True, 'training': {'learning_rate': 0.1}}
  config = {'classifiers': {'probe': network}}
  prepare(tmp_path, config)
  (tmp_path / 'results.json').touch()
  config['classifiers']['probe']['training']['learning_rate'] = 0.5
  refused('learning_rate: 0.1 → 0.5', prepare, tmp_path, config)


def test_settings_of_a_part_that_no_recipe_uses_may_change(tmp_path):
  def config(policy, attack, **sections):
    augment = {'policy': policy, 'crop': {'padding': 4}, **sections}
    attacks = {'name': attack, 'pgd': {'steps': 7}, **sections}
    return {'classifiers': {'net': {'train': True, 'augment': augment, 'attack': attacks}}}

  prepare(tmp_path, config(('crop',), 'auto_pgd'))
  (tmp_path / 'results.json').touch()
  later = config(('crop',), 'auto_pgd', cutout={'size': 16})
  later['classifiers']['net']['attack']['pgd'] = {'steps': 8}
  prepare(tmp_path, later)
  later['classifiers']['net']['augment']['crop'] = {'padding': 2}
  refused(r'net\.augment\.crop\.padding: 4 → 2\nUse', prepare, tmp_path, later)
  with_cutout = config(('crop', 'cutout'), 'auto_pgd', cutout={'size': 16})
  refused(r'augment\.policy: ', prepare, tmp_path, with_cutout)


DAMAGED = r'config\.json is truncated or no JSON'
NO_SECTION = r'config\.json: battery is 5; expected an object'


@cases(
  'content, message',
  (b'{"seed":', DAMAGED),
  (b'\xff\xfe{}', DAMAGED),
  (b'{"battery": 5}', NO_SECTION),
)
def test_damaged_config_is_named(tmp_path, content, message):
  (tmp_path / 'results.json').touch()
  (tmp_path / 'config.json').write_bytes(content)
  refused(message, prepare, tmp_path, CONFIG)


def test_a_workdir_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
  def read_only(*unused):
    raise OSError(errno.EROFS, 'Read-only file system', 'somewhere')

  monkeypatch.setattr('robustness.workdirs.workdir.write_atomically', read_only)
  refused(r'cannot be written to \(Read-only file system\)', prepare, tmp_path, CONFIG)
  (tmp_path / 'file').write_text('')
  refused('file cannot be made', prepare, tmp_path / 'file', CONFIG)


def test_environment_tells_versions_devices_and_seed(monkeypatch, tmp_path):
  described = workdir.RunLog.begin(tmp_path, {}, 7, 'python main.py').environment
  assert described['versions']['jax'] == jax.__version__
  monkeypatch.setattr('importlib.metadata.version', lambda package: package)
  monkeypatch.setitem(sys.modules, 'torch', None)
  assert 'torch' in workdir.versions()
  monkeypatch.delitem(sys.modules, 'torch')
  assert 'torch' not in workdir.versions(), 'installed, but not imported'
  assert len(described['devices']) == jax.device_count()
  assert [described[key] for key in ('seed', 'command', 'processes')] == [7, 'python main.py', 1]
  json.dumps(described)


def test_a_package_inside_of_another_repository_has_no_commit(tmp_path, monkeypatch):
  def git(*words):
    author = '-c', 'user.name=a', '-c', 'user.email=a@b'
    subprocess.run(['git', *author, *words], cwd=tmp_path, check=True, capture_output=True)

  (tmp_path / 'workdir.py').touch()
  monkeypatch.setattr(workdir, '__file__', str(tmp_path / 'workdir.py'))
  git('init')
  git('commit', '--allow-empty', '-m', 'of another project')
  assert workdir.environment('')['git_commit'] == 'unknown: not a git checkout'
  git('add', 'workdir.py')
  assert len(workdir.environment('')['git_commit']) == 40


def test_a_second_run_in_a_workdir_is_refused_and_only_the_first_process_locks(
  tmp_path, monkeypatch
):
  path = tmp_path / 'run'
  message = rf'another run works in .*/run \(process {os.getpid()} on'
  with workdir.locked(path):
    refused(message, workdir.locked(path).__enter__)
  with workdir.locked(path):
    monkeypatch.setattr(jax, 'process_index', lambda: 1)
    with workdir.locked(path):
      pass


@pytest.mark.slow
def test_a_killed_run_releases_its_workdir(tmp_path):
  program = f"""
import sys
from robustness.workdirs import workdir
with workdir.locked({str(tmp_path)!r}):
  print('locked', flush=True)
  sys.stdin.read()
"""
  command = [sys.executable, '-c', program]
  with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
    assert other.stdout is not None and other.stdout.readline() == b'locked\n'
    refused(rf'process {other.pid} ', workdir.locked(tmp_path).__enter__)
    other.kill()
    other.wait()
    with workdir.locked(tmp_path):
      pass


@pytest.mark.parametrize('path', ['', '~nosuchuser/run', 'a\0b'])
def test_an_invalid_path_of_a_workdir_is_refused(path):
  refused('--workdir is|unknown user|is no path', prepare, path, CONFIG)
