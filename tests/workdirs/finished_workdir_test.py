"""Finished workdirs are read by task; others are refused with what is missing."""

import json
import pathlib

import numpy as np
import pytest

import robustness
from robustness.__main__ import main
from robustness.results import Results, Table
from robustness.studies.accuracy import Accuracy
from robustness.workdirs import workdir as workdirs
from robustness.workdirs.finished_workdir import read, read_task
from tests import finished_runs
from tests.refusals import refused

CORRECT = {'first': [True, False, True], 'second': [True, True, True]}


@pytest.fixture
def workdir(tmp_path):
  """A finished run of the study accuracy with two classifiers on three images."""
  return finished_runs.write(tmp_path / 'run', CORRECT)


def rewrite(workdir: pathlib.Path, **sections: object) -> None:
  """Replaces sections of config.json."""
  finished_runs.edit(workdir / 'config.json', lambda config: config.update(sections))


def test_a_workdir_of_one_study(workdir):
  task = read_task(workdir, '')
  assert task.study.name == 'accuracy' and task.image_shape == finished_runs.SHAPE
  for evaluation, correct in zip(task.evaluations, CORRECT.values(), strict=True):
    np.testing.assert_array_equal(evaluation.records.column('rank') == 0, correct)
  assert task.study.view_table(task.image_shape).names == ['as stored']
  refused("a single study and no task 'errors'", read_task, workdir, 'errors')


def test_a_task_of_a_battery_is_matched_with_its_records(workdir):
  battery = finished_runs.write_battery(workdir.parent / 'battery', {'plain': workdir})
  (battery / 'records/plain-digest').rename(battery / 'records/accuracy-12345678')
  section = {'tasks': ['plain'], 'plain': {'study': {'name': 'accuracy', 'top_k': None}}}
  (battery / 'config.json').write_text(json.dumps({'battery': section}))
  task = read_task(battery, 'plain')
  assert [evaluation.label for evaluation in task.evaluations] == list(CORRECT)
  assert read_task(battery / 'tasks/plain', '').folder == task.folder
  refused('choose one of its tasks, plain', read_task, battery, '')
  refused("no task 'plane'; did you mean 'plain'", read_task, battery, 'plane')


@pytest.mark.usefixtures('undrawn')
def test_commands_read_workdirs_whose_data_have_keys_of_an_earlier_version(tmp_path, capsys):
  workdir = finished_runs.write(tmp_path / 'run', CORRECT)
  rewrite(workdir, data={'source': 'tfds', 'name': 'cifar10', 'path': '', 'canvas': 0})
  environment = workdirs.environment('python main.py')
  (workdir / 'environment.json').write_text(json.dumps(environment))
  assert main(['report', str(workdir)]) == 0
  assert main(['table', str(workdir)]) == 0 and 'first' in capsys.readouterr().out
  assert main(['compare', f'a={workdir}', f'b={workdir}', f'--out={tmp_path / "both"}']) == 0


@pytest.mark.parametrize('single', [True, False])
def test_keys_of_an_earlier_version_are_read(workdir, monkeypatch, single):
  def from_earlier(study):
    return {key: value for key, value in study.items() if key != 'earlier'}

  monkeypatch.setattr(Accuracy, 'from_earlier', staticmethod(from_earlier))
  for header in workdir.glob('records/*/header.json'):
    finished_runs.edit(header, lambda content: content['identity']['study'].update(earlier=1))
  rewrite(workdir, study={'name': 'accuracy', 'earlier': 1})
  if not single:
    workdir = finished_runs.write_battery(workdir.parent / 'battery', {'plain': workdir})
  [task] = read(workdir).values()
  assert [evaluation.label for evaluation in task.evaluations] == list(CORRECT)


def test_two_tasks_with_one_study_have_the_records_of_their_data(tmp_path):
  tasks = {}
  for name, subset in (('random', {'subset_seed': 0}), ('leading', {'subset': 'first'})):
    data = {'source': 'digits', **subset}
    tasks[name] = finished_runs.write(tmp_path / name, {name: CORRECT['first']}, data=data)
  battery = finished_runs.write_battery(tmp_path / 'battery', tasks)
  for name in tasks:
    [evaluation] = read_task(battery, name).evaluations
    assert evaluation.records.directory.name == name


def test_a_task_that_all_classifiers_lack_is_absent(workdir):
  battery = finished_runs.write_battery(workdir.parent / 'battery', {'plain': workdir})
  config = json.loads((battery / 'config.json').read_text())
  config['battery']['attack'] = {'study': {'name': 'attack_error'}}
  config['battery']['tasks'].append('attack')
  (battery / 'config.json').write_text(json.dumps(config))
  refused(r'not finished: .*attack has no results\.json', read, battery)
  results = Results('battery', [], {}, {})
  rows = [['attack', 'own', 'it is a callable, of which there is no gradient']]
  results.tables[workdirs.LEFT_OUT] = Table(('task', 'classifier', 'why'), rows)
  results.write(battery)
  assert list(read(battery)) == ['plain']
  refused("no numbers of the task 'attack', which none of its", read_task, battery, 'attack')


def test_unfinished_and_other_folders_say_what_is_missing(workdir):
  next((workdir / 'records' / 'second').glob('*.npz')).unlink()
  refused(r'not finished.*lacks shards.*Run its command again', read, workdir)
  (workdir / 'results.json').unlink()
  refused(r'not finished.*has no results\.json', read, workdir)
  refused(r'no workdir: it has no config\.json', read, workdir / 'records')


def test_several_seeds_are_read_one_by_one(workdir):
  rewrite(workdir, seeds=[3, 4])
  folder = workdir / 'seed3'
  folder.mkdir()
  for name in ('results.json', 'results.npz', 'results.csv', 'records'):
    (workdir / name).rename(folder / name)
  refused('give one of them, such as .*seed3', read, workdir)
  assert read_task(folder, '').results.study == 'accuracy'
  (workdir / 'environment.json').write_text('{"command": "robustness accuracy"}')
  results = robustness.read(folder)
  assert results.studies().keys() == {''} and results.table.equals(Results.read(folder).table)
  refused('no results.json in .*seed9', robustness.read, workdir / 'seed9')
  refused('seed9 is no folder', robustness.read, workdir / 'records/seed9')


@pytest.mark.parametrize('key', ['predictions', 'detections'])
def test_predictions_made_elsewhere_are_no_run(workdir, key):
  rewrite(workdir, **{key: 'scores.json'})
  refused('made elsewhere', read, workdir)
