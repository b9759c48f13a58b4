"""Tests parts that a config selects by name or in a user's file, and refused names and files."""

import re

import pytest

from robustness.augment import AUGMENTATIONS
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
