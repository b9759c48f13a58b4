"""Studies are measured at steps of a training, resume after a stop and do not change it."""

import pytest

from robustness import launch
from robustness.building import along_training
from robustness.cli.running import planned_work
from robustness.config import experiment as experiments
from robustness.results import Results
from robustness.training.checkpoint import Checkpoints
from tests.refusals import bad_setting, refused

pytestmark = pytest.mark.usefixtures('undrawn')  # only the run of `finished` has figures
TRAINING = {
  'steps': 3,
  'batch_size': 16,
  'checkpoint_every_steps': 1,
  'evaluate_every_epochs': 0.001,  # at every step
  'measure': ('corruption_error',),
}


def config(**changes):
  """Returns a config that trains for three steps and measures at each, with changed settings."""
  study = {'name': 'corruption_error', 'corruptions': ('brightness',), 'severities': (5,)}
  data = {'source': 'digits', 'num_images': 24}
  classifier = {'name': 'small_cnn', 'train': True, 'data': {'num_images': 64}}
  training = {**TRAINING, **changes}
  return {'study': study, 'data': data, 'classifiers': {'cnn': classifier}, 'training': training}


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
  """The workdir of a finished run of `config()`."""
  workdir = tmp_path_factory.mktemp('along')
  launch.run(config(), workdir)
  return workdir


def folder_of(workdir):
  return workdir / along_training.FOLDER / 'corruption_error'


def test_estimates_have_the_step_and_end_with_those_of_the_run(finished):
  table, final = Results.read(folder_of(finished)).table, Results.read(finished).table
  assert sorted(set(table.step)) == [1, 2, 3]
  last = table[(table.step == 3) & (table['quantity'] == 'clean_error')]
  assert last.value.tolist() == final[final['quantity'] == 'clean_error'].value.tolist()
  assert Results.read(folder_of(finished)).classifiers == Results.read(finished).classifiers
  assert (folder_of(finished) / 'report.html').is_file()
  assert list((folder_of(finished) / 'figures').glob('*step*.png'))


@pytest.mark.slow
def test_a_stopped_training_measures_the_same_and_no_step_twice(finished, tmp_path, monkeypatch):
  measure, measured = along_training.measure, []

  def counted(study, execution, classifiers, rows, folder):
    measured.append(folder.parents[1].name)
    if len(measured) == 2:
      raise KeyboardInterrupt
    return measure(study, execution, classifiers, rows, folder)

  monkeypatch.setattr(along_training, 'measure', counted)
  with pytest.raises(KeyboardInterrupt):
    launch.run(config(), tmp_path)
  launch.run(config(), tmp_path)
  assert measured == ['step1', 'step2', 'step2', 'step3']
  uninterrupted, stopped = (folder_of(workdir) / 'results.csv' for workdir in (finished, tmp_path))
  assert uninterrupted.read_bytes() == stopped.read_bytes()


@pytest.mark.slow
def test_kept_checkpoints_are_measured_with_the_same_bytes_after_a_stop(tmp_path, monkeypatch):
  changes = {'steps': 5, 'checkpoint_every_steps': 2, 'measure_at': 'checkpoints'}
  launch.run(config(**changes), tmp_path / 'complete')
  table = Results.read(folder_of(tmp_path / 'complete')).table
  assert sorted(set(table.step)) == [2, 4, 5]
  save = Checkpoints.save
  with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
    patched.setattr(Checkpoints, 'save', interrupted_at(4, save))
    launch.run(config(**changes), tmp_path / 'stopped')
  launch.run(config(**changes), tmp_path / 'stopped')
  uninterrupted, stopped = (
    folder_of(tmp_path / name) / 'results.csv' for name in ('complete', 'stopped')
  )
  assert uninterrupted.read_bytes() == stopped.read_bytes()
  plan = planned_work(experiments.from_config(config(**changes)))
  assert ('cnn: corruption_error along the training', '3 × 24 rows × 2 views', '144') in plan


def interrupted_at(step, save):
  def interrupted(self, state):
    if int(state.step) == step:
      raise KeyboardInterrupt
    save(self, state)

  return interrupted


@pytest.mark.slow
def test_a_training_that_begins_again_replaces_the_steps_of_the_one_before(tmp_path, monkeypatch):
  """Without a checkpoint a training may begin again with other settings."""
  without_checkpoint = {'checkpoint_every_steps': 3}
  measure = along_training.measure
  with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
    patched.setattr(along_training, 'measure', interrupted_in('step3', measure))
    launch.run(config(**without_checkpoint), tmp_path / 'changed')
  changes = {'learning_rate': 0.01, 'evaluate_every_epochs': 0.5, **without_checkpoint}  # 2, 3
  for name in ('changed', 'new'):
    launch.run(config(**changes), tmp_path / name)
  tables = [
    (folder_of(tmp_path / name) / 'results.csv').read_bytes() for name in ('changed', 'new')
  ]
  assert tables[0] == tables[1]


def interrupted_in(step, measure):
  def interrupted(study, execution, classifiers, rows, folder):
    results = measure(study, execution, classifiers, rows, folder)
    if step in folder.parts:
      raise KeyboardInterrupt
    return results

  return interrupted


@pytest.mark.slow
def test_measuring_changes_no_training_and_names_a_task_of_the_run(finished, tmp_path):
  launch.run(config(measure=()), tmp_path / 'plain')
  files = (folder / 'results.csv' for folder in (finished, tmp_path / 'plain'))
  assert len({file.read_bytes() for file in files}) == 1
  unknown = bad_setting('config.training.measure', 'nothing')
  refused(unknown, launch.run, config(measure=('nothing',)), tmp_path / 'unknown')
  refused('training.measure: None', launch.run, config(), tmp_path / 'plain')
