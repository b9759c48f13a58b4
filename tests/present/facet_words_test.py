"""Facets and their values in words."""

from __future__ import annotations

from robustness.present.notation import MINUS, place_words, value_words


def test_places_are_in_words() -> None:
  given = [('corruption', 'motion_blur'), ('severity', 3), ('class', '7'), ('shift', -2), ('k', 10)]
  assert [value_words(*pair) for pair in given] == [
    *('under motion blur', 'at severity 3', 'in class 7', f'at shift {MINUS}2', 'at k = 10')
  ]
  assert place_words(['corruption', 'severity'], ['fog', 3]) == 'under fog at severity 3'
