"""Config sections become dataclasses; what does not fit is named."""

import dataclasses

from robustness.core import settings
from robustness.core.errors import nearest
from tests.cases import cases
from tests.refusals import refused


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


def test_parses_nested_sections_and_keeps_defaults():
  parsed = settings.parse(Outer, {'norm': 4, 'layers': ['x'], 'inner': {'flip': True}}, 'config.s')
  assert parsed == Outer(4.0, layers=('x',), inner=Inner(True))
  assert isinstance(parsed.norm, float)


@cases(
  'section, message',
  ({'norm': 1.0, 'nrom': 2}, "config.s.nrom: did you mean 'norm'"),
  ({}, 'config.s.norm is not given'),
  ({'norm': '4'}, "config.s.norm must be a float; got '4'"),
  ({'norm': True}, 'config.s.norm must be a float; got True'),
  ({'norm': 1.0, 'count': 1.5}, 'config.s.count must be an int; got 1.5'),
  ({'norm': 1.0, 'count': True}, 'config.s.count must be an int'),
  ({'norm': 10**400}, r'config\.s\.norm is 10+; it must be a number that 64 bits hold'),
  ({'norm': 1.0, 'count': -(2**63)}, r'config\.s\.count is -\d+; it must be a number'),
  ({'norm': 1.0, 'count': 2**31}, r'config\.s\.count is 2147483648; it must be below 2\*\*31'),
  ({'norm': 1.0, 'layers': 'stage1'}, 'config.s.layers must be a tuple of str'),
  ({'norm': 1.0, 'layers': (1,)}, 'config.s.layers must be a str; got 1'),
  ({'norm': 1.0, 'inner': 3}, 'config.s.inner must be a section'),
  ({'norm': 1.0, 'inner': {'flip': 1}}, 'config.s.inner.flip must be True or False; got 1'),
)
def test_refuses(section, message):
  refused(message, settings.parse, Outer, section, 'config.s')


def test_nearest_of_many_lists_three_and_of_few_all_even_when_none_is_close():
  message = nearest('class 7x', [f'class {n}' for n in range(100, 450)] + ['class 7'])
  assert message.startswith("did you mean 'class 7' or ") and message.count("'") == 6
  assert message.endswith('? (351 are valid)')
  assert nearest('zzz', ['norm', 'clip']) == "valid: 'clip', 'norm'"
