"""Tests how sections of the config become dataclasses, and which values are refused."""

import dataclasses

from robustness.core import settings
from robustness.core.errors import nearest
from tests.cases import cases
from tests.refusals import bad_setting, refused


@dataclasses.dataclass(frozen=True)
class Inner:
  flip: bool = False


@dataclasses.dataclass(frozen=True)
class Outer:
  norm: float
  name: str = 'a'
  count: int = 1
  layers: tuple[str, ...] = ()
  inner: Inner = Inner()


def test_nested_sections_are_parsed_and_defaults_stay():
  parsed = settings.parse(Outer, {'norm': 4, 'layers': ['x'], 'inner': {'flip': True}}, 'config.s')
  assert parsed == Outer(4.0, layers=('x',), inner=Inner(True))
  assert isinstance(parsed.norm, float)


@cases(
  'section, message',
  ({'norm': 1.0, 'nrom': 2}, "config.s.nrom: did you mean 'norm'"),
  ({}, 'config.s.norm is not given'),
  ({'norm': '4'}, bad_setting('config.s.norm', '4')),
  ({'norm': True}, bad_setting('config.s.norm', True)),
  ({'norm': 1.0, 'count': 1.5}, bad_setting('config.s.count', 1.5)),
  ({'norm': 1.0, 'count': True}, bad_setting('config.s.count', True)),
  ({'norm': 10**400}, bad_setting('config.s.norm')),
  ({'norm': 1.0, 'count': -(2**63)}, bad_setting('config.s.count', -9223372036854775808)),
  ({'norm': 1.0, 'count': 2**31}, bad_setting('config.s.count', 2147483648)),
  ({'norm': 1.0, 'layers': 'stage1'}, bad_setting('config.s.layers', 'stage1', 'written .X,.')),
  ({'norm': 1.0, 'layers': (1,)}, bad_setting('config.s.layers', (1,))),
  ({'norm': 1.0, 'inner': 3}, bad_setting('config.s.inner', 3)),
  ({'norm': 1.0, 'inner': {'flip': 1}}, bad_setting('config.s.inner.flip', 1)),
)
def test_bad_sections_are_refused(section, message):
  refused(message, settings.parse, Outer, section, 'config.s')


def test_nearest_lists_similar_words_or_all_of_a_few():
  message = nearest('class 7x', [f'class {n}' for n in range(100, 450)] + ['class 7'])
  assert message.startswith("did you mean 'class 7' or ") and message.count("'") == 6
  assert message.endswith('? (351 are valid)')
  assert nearest('ytbb', ['ytbb_robust', 'x']).startswith("did you mean 'ytbb_robust'?")
  assert nearest('mce', ['mCE', 'mFR', 'mc']).startswith("did you mean 'mCE'?")
  assert nearest('zzz', ['norm', 'clip']) == "valid: 'clip', 'norm'"
  animals = [f'{n} goats' for n in range(90)]
  assert nearest('cow', animals).startswith("valid: '0 goats', ")
  assert nearest('cow', [*animals, *'abcdefghijklmnopqrstuvwxyz', *'0123456']).startswith('123 are')
  assert nearest('dog', ['crop', 'long', 'window']) == "valid: 'crop', 'long', 'window'"
