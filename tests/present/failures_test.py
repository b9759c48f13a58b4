"""What stands above the pictures of failures."""

from robustness.present.failures import titles

MISTAKE = {'class': 'cab, taxi', 'taken for': 'street_sign, post', 'confidence': 0.875}


def test_titles_name_class_and_view_once_and_break_long_names():
  clean = {'taken for when clean': 'cab, taxi', 'confidence when clean': 0.6}
  row = {**MISTAKE, **clean, 'of': 394, 'shown in': 'fy=-13, fx=-12'}
  assert titles(row, 2) == ['cab\n→ cab 60%', 'fy=-13, fx=-12\n→ street sign 88%']
  row = {**MISTAKE, 'of': 1, 'shown in': 'as stored', 'taken for when clean': None}
  assert titles(row, 1) == ['cab\n→ street sign 88%']
  composed = titles({**row, 'of': 19, 'shown in': 'area 0.2, 30°'}, 1)
  assert composed == ['cab\narea 0.2, 30°\n→ street sign 88%']
  [title] = titles({**row, 'class': 'a name of many words ' * 4}, 1)
  assert title.splitlines()[:2] == ['a name of many words a', 'name of many…']
