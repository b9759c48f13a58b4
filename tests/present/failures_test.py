"""What stands above the pictures of failures."""

from __future__ import annotations

from robustness.present.failures import titles

MISTAKE = {'class': 'cab, taxi', 'taken for': 'street_sign, post', 'confidence': 0.875}


def test_titles_name_the_class_and_the_whole_view() -> None:
  clean = {'taken for when clean': 'cab, taxi', 'confidence when clean': 0.6}
  row = {**MISTAKE, **clean, 'of': 394, 'shown in': 'fy=-13, fx=-12'}
  assert titles(row, 2) == ['cab\n→ cab 60%', 'fy=-13, fx=-12\n→ street sign 88%']


def test_a_study_of_one_view_has_one_title_for_both() -> None:
  row = {**MISTAKE, 'of': 1, 'shown in': 'as stored', 'taken for when clean': None}
  assert titles(row, 1) == ['cab\n→ street sign 88%']


def test_a_composed_picture_is_named_by_its_object_and_its_view() -> None:
  row = {**MISTAKE, 'of': 19, 'shown in': 'area 0.2, 30°', 'taken for when clean': None}
  assert titles(row, 1) == ['cab\narea 0.2, 30°\n→ street sign 88%']


def test_long_names_are_broken_and_cut() -> None:
  row = {**MISTAKE, 'of': 1, 'shown in': 'as stored', 'taken for when clean': None}
  [title] = titles({**row, 'class': 'a name of many words ' * 4}, 1)
  assert title.splitlines()[:2] == ['a name of many words a', 'name of many…']
