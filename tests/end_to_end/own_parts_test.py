"""Parts of a training in a file of the user's: from the command line, resumed, and changed."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from robustness.cli import command_line
from robustness.config import experiment
from robustness.core.errors import InputError
from robustness.core.settings import without_inherited

FILE = """
import dataclasses

from robustness.attacks import Attack
from robustness.augment import Augmentation
from robustness.models.inputs import InputFilter
from robustness.objectives import Objective


@dataclasses.dataclass(frozen=True)
class negate(Augmentation):
  resembles = ()
  strength: float = 1.0

  def __post_init__(self):
    self.require(0 <= self.strength <= 1, 'strength', 'in [0, 1]')

  def __call__(self, key, example):
    x = example['image']
    return {**example, 'image': x + self.strength * (1 - 2 * x)}


@dataclasses.dataclass(frozen=True)
class darken(Attack):
  resembles = ('brightness',)

  def __call__(self, keys, logits, images, labels, scale=1.0):
    return images * (1 - scale * self.epsilon)


@dataclasses.dataclass(frozen=True)
class square(InputFilter):
  resembles = ()
  power: float = 2.0

  def __call__(self, images):
    return images**self.power


@dataclasses.dataclass(frozen=True)
class distance(Objective):
  def __call__(self, outputs, batch, state, total):
    losses = ((outputs['logits'] - batch['target']) ** 2).mean(-1)
    return losses, losses * 0 + 1, state, {}
"""
FEW = ('training.steps=4', 'training.batch_size=16', 'data.num_images=32')


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
  path = tmp_path / 'mine.py'
  path.write_text(FILE)
  return path


def arguments(file: pathlib.Path, *changes: str) -> list[str]:
  named = {
    'augment.policy': f"('crop','{file}:negate')",
    'attack.name': f'{file}:darken',
    'input_filter.name': f'{file}:square',
    'objective.name': f'{file}:distance',
  }
  own = [f'--config.classifier.{key}={value}' for key, value in named.items()]
  return ['--config=configs/train.py', *(f'--config.{c}' for c in (*FEW, *changes)), *own]


def parsed(given: list[str]) -> experiment.Experiment:
  config, _ = command_line.read(['main.py', *given])
  assert config is not None
  return experiment.from_config(without_inherited(config.to_dict()))


def test_sections_of_own_parts_are_keys_wherever_they_stand(file: pathlib.Path) -> None:
  changes = 'classifier.augment.negate.strength=.5', 'classifier.attack.darken.epsilon=.25'
  given = arguments(file, *changes)
  (recipe,) = parsed(given).classifiers.values()
  described = recipe.pipeline.describe()
  assert [own['name'] for own in described['augment']] == ['crop', 'negate']
  assert described['augment'][1]['strength'] == 0.5 and described['attack']['epsilon'] == 0.25
  assert recipe.input_filter is not None
  parts = (described['augment'][1], described['objective'], recipe.input_filter.describe())
  assert {own['file'] for own in parts} == {'mine.py'}
  assert {len(own['file_sha256']) for own in parts} == {64}
  for change, message in (
    ('classifier.augment.negate.strenght=.5', "did you mean 'strength'"),
    ('classifier.augment.negate.strength=half', 'could not convert string to float'),
    ('classifier.augment.negat.strength=1', "did you mean 'negate'"),
  ):
    with pytest.raises(InputError, match=message):
      command_line.read(['main.py', *arguments(file, change)])
  with pytest.raises(InputError, match=r'negate\.strength is 2\.0; it must be in \[0, 1\]'):
    parsed(arguments(file, 'classifier.augment.negate.strength=2'))


def test_a_training_with_own_parts_runs_resumes_and_is_another_when_the_file_changes(
  file: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  workdir = tmp_path / 'run'
  given = [*arguments(file, 'classifier.augment.negate.strength=.5'), f'--workdir={workdir}']

  def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)

  first = run('main.py', *given)
  assert first.returncode == 0, first.stderr
  results = json.loads((workdir / 'results.json').read_text())
  assert '"strength": 0.5' in json.dumps(results) and '"mine.py"' in json.dumps(results)
  (workdir / 'results.json').unlink()
  again = run('-m', 'robustness', f'--config={workdir}/config.json', f'--workdir={workdir}')
  assert again.returncode == 0, again.stderr
  assert json.loads((workdir / 'results.json').read_text())['settings'] == results['settings']
  file.write_text(FILE.replace('1 - 2 * x', '0.9 - 2 * x'))
  (workdir / 'results.json').unlink()
  other = run('main.py', *given)
  assert other.returncode != 0 and 'file_sha256' in other.stderr + other.stdout
