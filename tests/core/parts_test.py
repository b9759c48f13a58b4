"""Parts by name: modules with settings, their sections, and mistakes in them."""

from __future__ import annotations

import pytest

from robustness.core import parts
from robustness.core.errors import InputError

PACKAGE, WHERE = 'robustness.front_ends', 'config.classifier.front_end'


def test_parts_are_the_modules_with_settings() -> None:
  assert {'low_pass', 'high_pass'} <= set(parts.modules(PACKAGE))
  assert 'policy' not in parts.modules('robustness.augment')
  assert parts.default_sections(PACKAGE)['low_pass'] == {'bandwidth': 15}


def test_a_part_has_the_settings_of_its_section() -> None:
  section = {'name': 'low_pass', 'low_pass': {'bandwidth': 9}, 'high_pass': {'bandwidth': 31}}
  part = parts.optional(PACKAGE, section, WHERE)
  assert part is not None
  assert part.describe() == {'name': 'low_pass', 'bandwidth': 9}
  assert part == parts.select(PACKAGE, 'low_pass', section, WHERE, 'name')
  assert parts.optional(PACKAGE, {'name': ''}, WHERE) is None


@pytest.mark.parametrize(
  ('section', 'message'),
  [
    ({'name': 'lowpass'}, r"front_end\.name names 'lowpass'; did you mean 'low_pass'"),
    ({'lowpass': {}}, r"unknown key .*front_end\.lowpass: did you mean 'low_pass'"),
    ({'nam': ''}, r"unknown key .*front_end\.nam: did you mean 'name'"),
    ({'low_pass': {'width': 3}}, r'unknown key .*front_end\.low_pass\.width'),
    ({'low_pass': {'bandwidth': '9'}}, r'front_end\.low_pass\.bandwidth must be an int'),
    ({'high_pass': 9}, r'front_end\.high_pass must be a section of keys'),
  ],
)
def test_mistakes_are_named_even_in_sections_that_are_not_used(section, message) -> None:
  with pytest.raises(InputError, match=message):
    parts.optional(PACKAGE, section, WHERE)
