"""Tests parts that a config selects by name or in a user's file, and refused names and files."""

import re
import sys

import pytest

from robustness import core
from robustness.augment import AUGMENTATIONS
from robustness.core import registry
from robustness.core.registry import Part, Registry
from robustness.fourier.input_filters import INPUT_FILTERS
from tests.cases import cases
from tests.refusals import bad_setting, refused

WHERE = 'config.classifier.augment'
FILTERS, FILTER_SECTION = INPUT_FILTERS, 'config.classifier.input_filter'
FILE = """
import abc
import dataclasses
from robustness.core.registry import Part

@dataclasses.dataclass(frozen=True)
class Invert(Part):
  strength: float = 1.0

  def __post_init__(self):
    super().__post_init__()
    self.require(0 <= self.strength <= 1, 'strength', 'in [0, 1]')

class Bare(Part):
  strength: float = 1.0

@dataclasses.dataclass(frozen=True)
class Weaker(Invert):
  strength = 0.5

@dataclasses.dataclass(frozen=True)
class Listed(Part):
  levels: list = dataclasses.field(default_factory=list)

class Unfinished(Part):
  @abc.abstractmethod
  def strength_of(self): ...

other = 3
"""
PARTS = Registry('robustness.core', Part)


@pytest.fixture
def file(tmp_path):
  """Returns a user's file that defines parts."""
  path = tmp_path / 'mine.py'
  path.write_text(FILE)
  return path


@cases(
  'name, sections, message',
  ('{file}:Invert', {'Invert': {'strength': 2.0}}, 'strength is 2.0; it must be in [0, 1]'),
  ('{file}:Invert', {'Invert': {'strenght': 1.0}}, 'unknown key'),
  ('{file}:Invert', {'invert': {}}, 'unknown key config.classifier.augment.invert'),
  ('{file}:Inver', {}, "has no 'Inver': did you mean 'Invert'? defined: "),
  ('{file}:none', {}, "defined: 'Bare', 'Invert', 'Listed', 'Unfinished', 'Weaker', 'other'"),
  ('{file}:other', {}, 'is no subclass of robustness.core.registry.Part'),
  ('{file}', {}, 'say which name in it is meant, as mine.py:NAME'),
  ('{file}:Bare', {'Bare': {'strength': 2.0}}, 'its strength is no setting: write @dataclasses'),
  ('{file}:Weaker', {}, 'sets strength = 0.5 without a type, which does not change the default'),
  ('{file}:Listed', {}, 'levels is []; it must be a tuple'),
  ('{file}:Unfinished', {}, 'does not define strength_of: see robustness.core.registry.Part'),
  ('none.py:Invert', {}, 'there is no file'),
  ('invert', {}, 'FILE.py:NAME or package.module:NAME takes one of your own'),
)
def test_bad_names_and_keys_are_refused(file, name, sections, message):
  refused(re.escape(message), PARTS.optional, {'name': name.format(file=file), **sections}, WHERE)


def test_an_empty_name_selects_no_part_and_bad_files_are_refused(tmp_path):
  assert PARTS.optional({'name': ''}, WHERE) is None and PARTS.optional({}, WHERE) is None
  (tmp_path / 'bad.py').write_text('\n1 / 0')
  message = 'bad.py, line 2, in <module>, raised ZeroDivisionError: division by zero'
  refused(message, PARTS.find, f'{tmp_path}/bad.py:X', WHERE)
  user_file = tmp_path / 'taken.py'
  user_file.write_text('from robustness.augment.flip_and_crop import Crop as crop')
  refused("'crop' is a part that is here already", AUGMENTATIONS.find, f'{user_file}:crop', WHERE)


def test_parts_of_two_files_with_one_name_are_refused(file, tmp_path):
  other = tmp_path / 'other.py'
  other.write_text(FILE.replace('1.0', '0.2'))
  names = (f'{file}:Invert', f'{other}:Invert')
  refused('two of these have the same NAME', PARTS.check_sections, {}, WHERE, 'policy', names)
  PARTS.check_sections({}, WHERE, 'policy', (names[0], names[0]))


def test_a_part_in_a_file_is_described_with_the_digest_of_the_file(file):
  part = PARTS.optional({'name': f'{file}:Invert', 'Invert': {'strength': 0.5}}, WHERE)
  described = part.describe()
  assert described.pop('file_sha256') and described.pop('file') == 'mine.py'
  assert described == {'name': 'Invert', 'strength': 0.5}


def test_a_file_is_run_again_when_it_changed_or_was_forgotten(file):
  first = registry.load(f'{file}:Invert', WHERE)
  assert registry.load(f'{file}:Invert', WHERE).value is first.value
  registry.forget()
  assert registry.load(f'{file}:Invert', WHERE).value is not first.value
  file.write_text(FILE + '\n')
  assert registry.load(f'{file}:Invert', WHERE).digest != first.digest


def test_the_digest_of_a_file_is_also_of_the_files_beside_it_that_it_imports(tmp_path):
  texts = {
    'mine.py': 'def part():\n  import beside, package',
    'beside.py': 'import beside_b',
    'package/__init__.py': 'from . import more',
  }
  (tmp_path / 'package').mkdir()
  for name in (*texts, 'beside_b.py', 'package/more.py', 'other.py'):
    (tmp_path / name).write_text(texts.get(name, ''))

  def digest_after_change_of(name):
    with (tmp_path / name).open('a') as file:
      file.write('\nX = 1')
    registry._digest_when_imported.cache_clear()  # another process
    return registry.load(f'{tmp_path}/mine.py:part', WHERE).digest

  first = digest_after_change_of('other.py')
  assert digest_after_change_of('other.py') == first  # it is not imported
  imported = 'beside.py', 'beside_b.py', 'package/__init__.py', 'package/more.py'
  assert len({first, *map(digest_after_change_of, imported)}) == 5


def test_the_digest_of_an_installed_module_is_also_of_its_imports(tmp_path, monkeypatch):
  monkeypatch.syspath_prepend(tmp_path)
  digests = []
  for name, value in (('pack_a', 1), ('pack_b', 2)):
    (tmp_path / name).mkdir()
    for file, text in (('helper', f'X = {value}'), ('parts', 'from .helper import X as part')):
      (tmp_path / name / f'{file}.py').write_text(text)
    digests.append(registry.load(f'{name}.parts:part', WHERE).digest)
  assert digests[0] != digests[1]


@pytest.mark.parametrize('is_module', [False, True])
def test_the_digest_is_also_of_modules_of_the_outermost_package(tmp_path, monkeypatch, is_module):
  project = tmp_path / f'project_{is_module}'
  texts = {
    'parts/__init__.py': '',
    'parts/mine.py': f'from {project.name}.helper import part',
    '__init__.py': '',
    'helper.py': 'from . import more\npart = 1',
    'more.py': '',
    'other.py': '',
  }
  (project / 'parts').mkdir(parents=True)
  for name, text in texts.items():
    (project / name).write_text(text)
  monkeypatch.syspath_prepend(tmp_path)
  reference = f'{project.name}.parts.mine:part' if is_module else f'{project}/parts/mine.py:part'

  def digest_after_change_of(name):
    (project / name).write_text(texts[name] + '\nX = 1')
    registry._digest_when_imported.cache_clear()  # another process
    return registry.load(reference, WHERE).digest

  first = digest_after_change_of('other.py')
  assert first == registry.load(reference, WHERE).digest
  assert len({first, *map(digest_after_change_of, ('helper.py', 'more.py'))}) == 3


def test_parts_of_a_module_or_of_a_package_have_the_settings_of_their_sections():
  assert {'low_pass', 'high_pass'} == set(FILTERS.classes())
  assert FILTERS.default_sections()['low_pass'] == {'bandwidth': 15}
  assert 'crop' in AUGMENTATIONS.classes() and 'policy' not in AUGMENTATIONS.classes()
  section = {'name': 'low_pass', 'low_pass': {'bandwidth': 9}, 'high_pass': {'bandwidth': 31}}
  part = FILTERS.optional(section, FILTER_SECTION)
  assert part.describe() == {'name': 'low_pass', 'bandwidth': 9}
  assert part == FILTERS.select('low_pass', section, FILTER_SECTION)


@cases(
  'section, message',
  ({'name': 'lowpass'}, r"filter\.name names 'lowpass'; did you mean 'low_pass'"),
  ({'lowpass': {}}, r"unknown key .*filter\.lowpass: did you mean 'low_pass'"),
  ({'nam': ''}, r"unknown key .*filter\.nam: did you mean 'name'"),
  ({'low_pass': {'width': 3}}, r'unknown key .*filter\.low_pass\.width'),
  (
    {'low_pass': {'bandwidth': '9'}},
    bad_setting('config.classifier.input_filter.low_pass.bandwidth', '9'),
  ),
  ({'high_pass': 9}, bad_setting('config.classifier.input_filter.high_pass', 9)),
)
def test_mistakes_are_refused_also_in_sections_that_are_not_used(section, message):
  refused(message, FILTERS.optional, section, FILTER_SECTION)


def test_files_that_exit_and_files_named_by_data_are_refused(tmp_path):
  (tmp_path / 'own.py').write_text('import sys\nsys.exit(0)\n')
  refused('own.py:X raised SystemExit: 0', registry.load, f'{tmp_path}/own.py:X', WHERE)
  (tmp_path / 'own.py').write_text('X = 1\n')
  with registry.files_refused():
    refused('files of results are not run', registry.load, f'{tmp_path}/own.py:X', WHERE)
  assert registry.load(f'{tmp_path}/own.py:X', WHERE).value == 1


def test_a_file_may_import_modules_beside_it(tmp_path, monkeypatch):
  monkeypatch.setattr('sys.path', [*sys.path])
  (tmp_path / 'constants_beside.py').write_text('SIDE = 7\n')
  (tmp_path / 'importing.py').write_text('from constants_beside import SIDE\n')
  assert registry.load(f'{tmp_path}/importing.py:SIDE', WHERE).value == 7


def test_a_module_beside_a_file_is_not_taken_from_another_folder(tmp_path, monkeypatch):
  monkeypatch.setattr(sys, 'path', [*sys.path])
  for folder in ('first', 'second'):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / 'beside_both.py').write_text(f'FOLDER = {folder!r}')
    (tmp_path / folder / 'net.py').write_text(
      'def net():\n  from beside_both import FOLDER\n  return FOLDER'
    )
  first, second = (f'{tmp_path}/{folder}/net.py:net' for folder in ('first', 'second'))
  assert registry.load(first, WHERE).value() == 'first'
  refused('second/net.py imports beside_both, which is .*first', registry.load, second, WHERE)
  sys.modules.pop('beside_both')


def test_a_file_in_a_clone_may_use_the_installed_packages(tmp_path, monkeypatch):
  monkeypatch.setattr(sys, 'path', [*sys.path])
  (tmp_path / 'robustness').mkdir()
  (tmp_path / 'robustness' / '__init__.py').touch()
  (tmp_path / 'net.py').write_text('import robustness.core\n\nnet = robustness.core')
  assert registry.load(f'{tmp_path}/net.py:net', WHERE).value is core
