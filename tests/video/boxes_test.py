"""Boxes out of COCO's JSON and ILSVRC's XML; boxes that cannot be."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from robustness.core.errors import InputError
from robustness.video import boxes
from robustness.video.boxes import Box

CLASSES = {'cat': 0, 'dog': 1, 'n02084071': 1}


def coco(folder: pathlib.Path, bbox: Any = (10, 20, 30, 40), name: str = 'dog') -> pathlib.Path:
  path = folder / 'boxes.json'
  path.write_text(
    json.dumps(
      {
        'images': [
          {'id': 3, 'file_name': 'v/1.jpg', 'width': 200, 'height': 100},
          {'id': 4, 'file_name': 'v/2.jpg', 'width': 200, 'height': 100},
        ],
        'annotations': [{'id': 0, 'image_id': 3, 'category_id': 7, 'bbox': bbox}],
        'categories': [{'id': 7, 'name': name}],
      }
    )
  )
  return path


def voc(folder: pathlib.Path, name: str = 'n02084071', x_max: int = 40) -> pathlib.Path:
  path = folder / 'annotations/v/1.xml'
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(
    '<annotation><size><width>200</width><height>100</height></size>'
    f'<object><name>{name}</name><bndbox><xmax>{x_max}</xmax><xmin>10</xmin><ymax>60</ymax>'
    '<ymin>20</ymin></bndbox></object></annotation>'
  )
  return folder / 'annotations'


def test_both_forms_give_the_same_box(tmp_path: pathlib.Path) -> None:
  expected = [Box(0.2, 0.05, 0.6, 0.2, 1)]
  frames = ['v/1.jpg', 'v/2.jpg', 'w/9.jpg']
  assert boxes.read(coco(tmp_path), frames, CLASSES) == ({'v/1.jpg': expected, 'v/2.jpg': []}, ())
  assert boxes.read(voc(tmp_path), frames, CLASSES) == ({'v/1.jpg': expected}, ())


def test_a_box_over_the_edge_by_a_pixel_is_cut(tmp_path: pathlib.Path) -> None:
  known, clipped = boxes.read(coco(tmp_path, (-0.5, 0, 201, 100.5)), ['v/1.jpg'], CLASSES)
  assert known['v/1.jpg'] == [Box(0.0, 0.0, 1.0, 1.0, 1)] and clipped == ()


@pytest.mark.parametrize('bbox', [(190, 20, 30, 40), (-5, 20, 30, 40), (10, 80, 30, 40)])
def test_a_box_further_over_the_edge_is_cut_and_counted(
  tmp_path: pathlib.Path, bbox: tuple[float, ...]
) -> None:
  known, clipped = boxes.read(coco(tmp_path, bbox), ['v/1.jpg'], CLASSES)
  assert clipped == ('v/1.jpg',)
  box = known['v/1.jpg'][0]
  x, y, width, height = bbox
  assert 0 <= box.x_min == max(x, 0) / 200 and box.x_max == min((x + width) / 200, 1)
  assert 0 <= box.y_min == max(y, 0) / 100 and box.y_max == min((y + height) / 100, 1)


@pytest.mark.parametrize(
  'bbox',
  [
    (10, 20, 0, 40),
    (10, 20, 30, -5),
    (200, 20, 30, 40),
    (-30, 20, 30, 40),
    (10, 120, 30, 40),
    (10, 20, float('nan'), 40),
  ],
)
def test_bad_boxes_are_refused(tmp_path: pathlib.Path, bbox: tuple[float, ...]) -> None:
  with pytest.raises(
    InputError, match=r'entry 0, v/1\.jpg: box .* is inverted, empty or wholly outside'
  ):
    boxes.read(coco(tmp_path, bbox), ['v/1.jpg'], CLASSES)


def test_what_cannot_be_read_is_refused(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match=r"v/1\.jpg has .* class 'dgo'; did you mean 'dog'"):
    boxes.read(coco(tmp_path, name='dgo'), ['v/1.jpg'], CLASSES)
  with pytest.raises(InputError, match='is inverted'):
    boxes.read(voc(tmp_path, x_max=5), ['v/1.jpg'], CLASSES)
  with pytest.raises(InputError, match="object of class 'n1'"):
    boxes.read(voc(tmp_path, 'n1'), ['v/1.jpg'], CLASSES)
  (tmp_path / 'annotations/v/1.xml').write_text('<annotation><object/></annotation>')
  with pytest.raises(InputError, match='is no ILSVRC annotation .no size/height'):
    boxes.read(tmp_path / 'annotations', ['v/1.jpg'], CLASSES)
  (tmp_path / 'other.json').write_text('{"images": []}')
  with pytest.raises(InputError, match='categories is missing; expected a list. Give a COCO'):
    boxes.read(tmp_path / 'other.json', ['v/1.jpg'], CLASSES)
  with pytest.raises(InputError, match=r'none\.json is missing'):
    boxes.read(tmp_path / 'none.json', ['v/1.jpg'], CLASSES)
