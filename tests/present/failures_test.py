"""Titles and captions say what the pictures of failures show."""

import numpy as np

from robustness.evaluation.failures import IMAGE_COLUMNS
from robustness.present.failures import draw, titles
from robustness.results import DAMAGED_IMAGES, FAILURE_IMAGES, Results, Table
from tests.cases import cases

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


@cases(
  'pictures, views, clean, phrase',
  (1, 1, None, 'Images that net takes for another class with the least probability of their own'),
  (1, 9, None, 'Images that net gets wrong in most views, in the view of the most confident'),
  (2, 1, 'cab', 'gets wrong in one view, of the images that it gets right when clean: above as'),
  (2, 1, 'cab', 'below in that view, with what each is taken for'),
  (2, 9, 'cab', 'wrong in most views, of the images that it gets right when clean: above as'),
  (2, 9, None, 'Images that net gets wrong in most views: above as they are stored, below in'),
)
def test_captions_say_which_images_and_views_are_shown(pictures, views, clean, phrase):
  columns = {'taken for when clean': clean, 'confidence when clean': 0.6, 'shown in': 'fog'}
  row = {**dict.fromkeys(IMAGE_COLUMNS), **MISTAKE, **columns, 'classifier': 'net', 'of': views}
  tables = {DAMAGED_IMAGES: Table(IMAGE_COLUMNS, [[row[name] for name in IMAGE_COLUMNS]])}
  images = {FAILURE_IMAGES: np.zeros((1, pictures, 4, 4, 3), np.uint8)}
  [(_, caption)] = draw(Results('made', [{'label': 'net'}], {}, {}, tables, images)).values()
  assert phrase in caption
