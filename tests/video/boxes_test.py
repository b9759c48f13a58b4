"""Boxes out of COCO's JSON and ILSVRC's XML; boxes that cannot be."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.video import boxes
from robustness.video.boxes import Box, read_detections, read_truth

CLASSES = {'cat': 0, 'dog': 1, 'n02084071': 1}


def coco(folder: pathlib.Path, bbox: Any = (10, 20, 30, 40), name: str = 'dog') -> pathlib.Path:
  size = {'width': 200, 'height': 100}
  document = {
    'images': [{'id': i, 'file_name': f'v/{i - 2}.jpg', **size} for i in (3, 4)],
    'annotations': [{'id': 0, 'image_id': 3, 'category_id': 7, 'bbox': bbox}],
    'categories': [{'id': 7, 'name': name}],
  }
  return saved(folder, 'boxes.json', document)


def saved(folder: pathlib.Path, name: str, content: Any) -> pathlib.Path:
  (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
  return folder / name


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
  x, y, width, height = bbox
  low = max(y, 0) / 100, max(x, 0) / 200
  high = min((y + height) / 100, 1), min((x + width) / 200, 1)
  assert known['v/1.jpg'] == [Box(*low, *high, 1)] and clipped == ('v/1.jpg',)


@pytest.mark.parametrize(
  'x, y, width, height',
  [
    (10, 20, 0, 40),
    (10, 20, 30, -5),
    (200, 20, 30, 40),
    (-30, 20, 30, 40),
    (10, 120, 30, 40),
    (10, 20, np.nan, 40),
  ],
)
def test_bad_boxes_are_refused(
  tmp_path: pathlib.Path, x: float, y: float, width: float, height: float
) -> None:
  where = r'entry 0, v/1\.jpg: box .* is inverted, empty or wholly outside'
  with pytest.raises(InputError, match=where):
    boxes.read(coco(tmp_path, (x, y, width, height)), ['v/1.jpg'], CLASSES)


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


FRAMES = ('v/1.jpg', 'v/2.jpg')
SIZE = {'width': 100, 'height': 50}
IMAGES = [
  {'id': i, 'file_name': f, **SIZE} for i, f in ((7, 'v/1.jpg'), (8, 'v/2.jpg'), (9, 'w/1.jpg'))
]
ANNOTATIONS = [{'image_id': i, 'category_id': 3, 'bbox': [1, 2, 10, 20]} for i in (8, 9)]
GOOD = {'image_id': 7, 'category_id': 3, 'bbox': [1, 2, 10, 20], 'score': 0.5}


def truth_of(folder: pathlib.Path, images: Any = IMAGES, annotations: Any = ANNOTATIONS) -> Any:
  return read_truth(
    saved(folder, 'truth.json', {'images': images, 'annotations': annotations}), FRAMES
  )


def test_boxes_of_the_frames(tmp_path: pathlib.Path) -> None:
  truth = truth_of(tmp_path)
  assert truth.boxes.image.tolist() == [1] and truth.boxes.corners.tolist() == [[1, 2, 11, 22]]
  np.testing.assert_array_equal(truth.sizes, [[100, 50], [100, 50]])
  entries = [GOOD, {**GOOD, 'image_id': 'v/2.jpg', 'score': 1}]
  other = {**GOOD, 'image_id': 9}
  detections, _ = read_detections(saved(tmp_path, 'found.json', [other, *entries]), truth, FRAMES)
  assert detections.image.tolist() == [0, 1] and detections.score is not None
  assert detections.score.tolist() == [0.5, 1]


def test_boxes_over_the_border_are_cut_and_counted(tmp_path: pathlib.Path) -> None:
  over = {'image_id': 8, 'category_id': 3, 'bbox': [-2, 2, 10, 49]}
  truth = truth_of(tmp_path, annotations=[*ANNOTATIONS, over])
  assert truth.boxes.corners.tolist() == [[1, 2, 11, 22], [0, 2, 8, 50]]
  assert truth.clipped.number == 1 and 'entry 2 of' in truth.clipped.first
  assert truth.clipped.first.endswith("on 'v/2.jpg', by 2 pixels")
  rounded = {**GOOD, 'bbox': [95, 2, 6, 10]}
  path = saved(tmp_path, 'found.json', [GOOD, {**GOOD, 'bbox': [90, 2, 30, 4]}, rounded])
  detections, clipped = read_detections(path, truth, FRAMES)
  assert detections.corners[1:].tolist() == [[90, 2, 100, 6], [95, 2, 100, 12]]
  assert clipped.number == 1, 'a pixel of rounding is not counted'


@pytest.mark.parametrize(
  'content, message',
  [
    ({}, 'Give COCO results'),
    ('[', 'truncated or no JSON'),
    ([{'image_id': 7, 'category_id': 3, 'bbox': [1, 2, 3, 4]}], r'\[0\]\.score is missing'),
    ([{**GOOD, 'image_id': 70}], 'image 70, which is no image'),
    ([{**GOOD, 'bbox': [1, 2, 3]}], r'has bbox \[1, 2, 3\]'),
    ([GOOD, {**GOOD, 'bbox': [1, 2, -3, 4]}], "1 of 2 boxes are inverted .* entry 1 of .* on 'v/1"),
    ([{**GOOD, 'bbox': [100, 2, 3, 4]}], "wholly outside .* first entry 0 of .* on 'v/1.jpg'"),
    ([{**GOOD, 'bbox': [1, None, 3, 4]}], r'\[0\]\.bbox\[1\] is None'),
    (
      [GOOD, {**GOOD, 'score': float('nan')}],
      "a score that is no .* entry 1 of .* 'v/1.*score nan",
    ),
    ([{**GOOD, 'score': '0.5'}], r"\[0\]\.score is '0.5'; expected a number"),
    ([GOOD, 7], r'\[1\] is 7; expected an object'),
    ([{**GOOD, 'category_id': 'dog'}], r"\[0\]\.category_id is 'dog'"),
    ([{**GOOD, 'image_id': [7]}], 'image_id is a list'),
  ],
)
def test_bad_detections(tmp_path: pathlib.Path, content: Any, message: str) -> None:
  truth = truth_of(tmp_path)
  with pytest.raises(InputError, match=message):
    read_detections(saved(tmp_path, 'found.json', content), truth, FRAMES)


def test_classes_that_the_ground_truth_does_not_list_are_refused(tmp_path: pathlib.Path) -> None:
  document = {
    'images': IMAGES,
    'annotations': ANNOTATIONS,
    'categories': [{'id': 3, 'name': 'fox'}, {'id': 8, 'name': 'cow'}],
  }
  truth = read_truth(saved(tmp_path, 'truth.json', document), FRAMES)
  path = saved(tmp_path, 'found.json', [GOOD, {**GOOD, 'category_id': 8}])
  assert read_detections(path, truth, FRAMES)[0].category.tolist() == [3, 8]
  saved(tmp_path, 'found.json', [GOOD, {**GOOD, 'category_id': 4}])
  with pytest.raises(InputError, match='entry 1 has category_id 4, .* 2 classes, 3 to 8'):
    read_detections(path, truth, FRAMES)
  document['annotations'] = [{**ANNOTATIONS[0], 'category_id': 1}]
  with pytest.raises(InputError, match='truth.json: entry 0 has category_id 1'):
    read_truth(saved(tmp_path, 'truth.json', document), FRAMES)


def test_bad_ground_truth(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match="1 of 2 frames are none of its images, first 'v/2.jpg'"):
    truth_of(tmp_path, IMAGES[:1], [])
  with pytest.raises(InputError, match="wholly outside .* entry 0 of .*truth.json on 'v/2.jpg'"):
    truth_of(tmp_path, annotations=[{'image_id': 8, 'category_id': 3, 'bbox': [1, 50, 10, 20]}])
  with pytest.raises(InputError, match='is no file'):
    read_truth(tmp_path / 'none.json', FRAMES)
  with pytest.raises(InputError, match='Give COCO annotations'):
    read_truth(saved(tmp_path, 'truth.json', []), FRAMES)
