"""Whole runs with classifiers, studies and parts of a training from a user's Python file."""

import json
import pathlib

import pytest

from robustness import launch
from robustness.cli import command_line
from robustness.config import experiment
from robustness.core.settings import without_inherited
from robustness.models import weights
from robustness.results import SINGLE, Results
from robustness.workdirs import finished_workdir
from tests import commands
from tests.building.builder_test import builder, rows
from tests.cases import cases
from tests.docs_test import recipes
from tests.end_to_end import runs
from tests.refusals import bad_setting, refused


@pytest.fixture
def config(tmp_path):
  """A config of a network with weights and of a callable."""
  changed = runs.shrunk('fourier_heatmap')
  runs.wrap_second(changed, tmp_path)
  return changed


@cases(
  'key, value, message',
  ('classifiers.gaussian.train', True, 'brings its own weights'),
  ('classifiers.gaussian.name', 'none.py:network', 'there is no file none.py'),
)
def test_training_a_callable_and_a_missing_file_are_refused(config, key, value, message, tmp_path):
  config.update_from_flattened_dict({key: value})
  refused(message, launch.run, config.to_dict(), tmp_path / 'run')
  assert not (tmp_path / 'run' / 'records').exists()


def test_saved_class_names_are_matched_by_name(tmp_path):
  path = tmp_path / 'net.safetensors'
  variables = weights.load_variables(runs.save_weights(path, 'small_cnn', num_classes=3))[0]
  weights.save_variables(path, variables, {'class_names': ['cat', 'ant', 'bee']})
  sections = {'net': {'name': 'small_cnn', 'weights': str(path)}}
  (classifier,) = builder(tmp_path, sections).build()
  assert classifier.class_names == ('cat', 'ant', 'bee')
  other = builder(tmp_path, sections, rows(class_names=('ant', 'bee', 'dog')))
  refused("first 'dog'.*matched by name", other.build)


MACHINE = 'tests/end_to_end/machine.py', 'own'
ACCURACY = f'--config={runs.ROOT / "configs/accuracy.py"}'


@pytest.fixture
def name(tmp_path):
  """The flag that chooses the study `Shift` of a user's file."""
  (tmp_path / 'shown.py').write_text(recipes()['robustness/studies/shift.py'])
  return f'--config.study.name={tmp_path / "shown.py"}:Shift'


def test_settings_of_a_study_in_a_file_are_checked(name):
  words = ['x', ACCURACY, name, '--config.study.top_k=1']
  refused('unknown key config.study.top_k', command_line.read, words)


PARTS = """
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
def file(tmp_path):
  """A file with an augmentation, an attack, an input filter and an objective."""
  path = tmp_path / 'mine.py'
  path.write_text(PARTS)
  return path


def arguments(file: pathlib.Path, *changes: str) -> list[str]:
  """Returns the flags of a short training with all parts of `file`."""
  settings = {
    'augment.policy': f"('crop','{file}:negate')",
    'attack.name': f'{file}:darken',
    'input_filter.name': f'{file}:square',
    'objective.name': f'{file}:distance',
  }
  parts = [f'--config.classifier.{key}={value}' for key, value in settings.items()]
  return ['--config=configs/train.py', *(f'--config.{c}' for c in (*FEW, *changes)), *parts]


def parsed(flags: list[str]) -> experiment.Experiment:
  config, _ = command_line.read(['main.py', *flags])
  assert config is not None
  return experiment.from_config(without_inherited(config.to_dict()))


def test_settings_of_parts_in_a_file_are_keys_of_the_config(file):
  changes = 'classifier.augment.negate.strength=.5', 'classifier.attack.darken.epsilon=.25'
  (recipe,) = parsed(arguments(file, *changes)).classifiers.values()
  described = recipe.pipeline.describe()
  assert [part['name'] for part in described['augment']] == ['crop', 'negate']
  assert described['augment'][1]['strength'] == 0.5 and described['attack']['epsilon'] == 0.25
  assert recipe.input_filter is not None
  parts = (described['augment'][1], described['objective'], recipe.input_filter.describe())
  assert {part['file'] for part in parts} == {'mine.py'}
  assert {len(part['file_sha256']) for part in parts} == {64}
  for change, message in (
    ('classifier.augment.negate.strenght=.5', "did you mean 'strength'"),
    (
      'classifier.augment.negate.strength=half',
      bad_setting('config.classifier.augment.negate.strength', 'half'),
    ),
    ('classifier.augment.negat.strength=1', "did you mean 'negate'"),
    (
      'classifier.augment.negate.strength=2',
      bad_setting('config.classifier.augment.negate.strength', 2.0),
    ),
  ):
    refused(message, parsed, arguments(file, change))


@pytest.mark.slow
def test_a_run_with_parts_in_a_file_resumes_unless_the_file_changes(file, name, tmp_path):
  workdir, strength = tmp_path / 'run', 'classifier.augment.negate.strength=.5'
  flags = [*arguments(file, strength), name, '--config.study.largest=2', f'--workdir={workdir}']
  commands.python(*MACHINE, *flags)
  _check_study(workdir, name)
  results = json.loads((workdir / 'results.json').read_text())
  assert '"strength": 0.5' in json.dumps(results) and '"mine.py"' in json.dumps(results)
  (workdir / 'results.json').unlink()
  runs.run(command_line.load_config(str(workdir / 'config.json')), workdir, drawn=False)
  assert json.loads((workdir / 'results.json').read_text())['settings'] == results['settings']
  file.write_text(PARTS.replace('1 - 2 * x', '0.9 - 2 * x'))
  (workdir / 'results.json').unlink()
  config, _ = command_line.read(['main.py', *flags])
  refused('file_sha256', launch.run, without_inherited(config.to_dict()), workdir)


def _check_study(workdir: pathlib.Path, name: str) -> None:
  results = Results.read(workdir)
  assert results.study == 'Shift' and results.settings['largest'] == 2
  assert results.settings['file'] == 'shown.py' and len(results.settings['file_sha256']) == 64
  shifted = results.table[(results.table.quantity == 'accuracy') & (results.table.pixels >= 0)]
  assert sorted(set(shifted.pixels)) == [0, 1, 2]
  study = finished_workdir.read(workdir)[SINGLE].study
  assert study.describe().items() <= results.settings.items()
  again = command_line.load_config(str(workdir / 'config.json'))
  section = {'name': name.partition('=')[2], 'largest': 2, 'confidence': 0.95}
  assert again.study.to_dict() == section
