"""A changed value anywhere in the JSON files of a run is reported in one line or is harmless."""

import json
import pathlib
import random
import re
from collections.abc import Callable

import pytest

from robustness.cli import command_line
from robustness.config import experiment
from robustness.core.errors import InputError
from robustness.workdirs import finished_workdir, workdir
from tests import finished_runs
from tests.json_faults import DAMAGE, KINDS_OF_DAMAGE, changed
from tests.refusals import in_one_line_or_not_at_all, refused

MAX_CHANGES = 400  # a random sample of all changes, for time
HEADER = 'records/first/header.json'


@pytest.fixture
def run(tmp_path):
  """A finished run of two classifiers, with facts of a checkpoint."""
  path = finished_runs.write(tmp_path / 'run', {'first': [True, False], 'second': [True, True]})
  workdir.write_json(path / workdir.ENVIRONMENT, workdir.environment('python main.py'))
  facts = path / 'checkpoints/first/classifier.json'
  workdir.write_json(facts, {'architecture': 'small_cnn', 'training': {'total_steps': 3}})
  return path


READERS: dict[str, Callable[[pathlib.Path], object]] = {
  'config.json': finished_workdir.read,
  'results.json': finished_workdir.read,
  HEADER: lambda path: (finished_workdir.read(path), list(finished_workdir.record_lines(path))),
  'environment.json': lambda path: finished_workdir.find(str(path)),
  'checkpoints/first/classifier.json': lambda path: list(finished_workdir.training_lines(path)),
}
"""Functions that read a file of a workdir, by the path of the file."""


@pytest.mark.slow
@pytest.mark.parametrize('name', READERS)
def test_another_value_in_any_place_is_no_traceback(run, name):
  file, read = run / name, READERS[name]
  document = json.loads(file.read_text())
  cases = list(changed(document))
  for value in random.Random(0).sample(cases, min(MAX_CHANGES, len(cases))):
    file.write_text(json.dumps(value))
    try:
      read(run)
    except InputError as error:
      assert name == 'environment.json' or '\n' not in str(error), error


@pytest.mark.parametrize('name', READERS)
@pytest.mark.parametrize('damage', KINDS_OF_DAMAGE)
def test_a_damaged_file_is_named(run, name, damage):
  file = run / name
  file.write_bytes(DAMAGE[damage](file.read_bytes()))
  message = refused(file.name, READERS[name], run)
  assert '\n' not in message and message.count(file.name) == 1
  assert re.search('Delete .*: the command of the run|ommand (of the run )?again', message), message


@pytest.mark.slow
def test_another_value_in_any_place_of_a_config_is_no_traceback(tmp_path):
  document = json.loads(json.dumps(command_line.load_config('accuracy').to_dict()))
  file = tmp_path / 'own.json'
  for value in random.Random(0).sample(list(changed(document)), MAX_CHANGES):
    file.write_text(json.dumps(value))
    in_one_line_or_not_at_all(experiment.from_config, value)
    in_one_line_or_not_at_all(command_line.from_json, file)
