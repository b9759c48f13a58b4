"""Tests boxes read from COCO's JSON and ILSVRC's XML: clipped at the image, refused if invalid."""

import json
import pathlib
from typing import Any

import numpy as np

from robustness.video import boxes
from robustness.video.boxes import Box, read_detections, read_truth
from tests.cases import cases
from tests.refusals import refused
from tests.video.small_archive import save_xml

NOT_CLIPPED = boxes.Clipped(0)
CLASSES = {'cat': 0, 'dog': 1, 'n02084071': 1}


def coco(folder: pathlib.Path, bbox: Any = (10, 20, 30, 40), name: str = 'dog') -> pathlib.Path:
  """Writes two images of 200 × 100 pixels, the first with a box (x, y, width, height)."""
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
  """Writes an ILSVRC annotation that has the image and the box of `coco`."""
  return save_xml(folder / 'annotations', ['v/1.jpg'], name, (200, 100), (10, 20, x_max, 60))


def read(path: pathlib.Path) -> Any:
  """Returns the boxes of v/1.jpg by frame, as shares of the image, and what was clipped."""
  return boxes.read(path, ['v/1.jpg'], CLASSES)


def test_coco_and_ilsvrc_files_give_the_same_box(tmp_path):
  expected = [Box(0.2, 0.05, 0.6, 0.2, 1)]
  frames = ['v/1.jpg', 'v/2.jpg', 'w/9.jpg']
  from_coco = {'v/1.jpg': expected, 'v/2.jpg': []}
  assert boxes.read(coco(tmp_path), frames, CLASSES) == (from_coco, NOT_CLIPPED)
  assert boxes.read(voc(tmp_path), frames, CLASSES) == ({'v/1.jpg': expected}, NOT_CLIPPED)


@cases('bbox', (-0.5, 0, 201, 100.5), (190, 20, 30, 40), (-5, 20, 30, 40), (10, 80, 30, 40))
def test_boxes_are_clipped_and_counted_beyond_one_pixel(tmp_path, bbox):
  annotated, clipped = read(coco(tmp_path, bbox))
  x, y, width, height = bbox
  low = max(y, 0) / 100, max(x, 0) / 200
  high = min((y + height) / 100, 1), min((x + width) / 200, 1)
  assert annotated['v/1.jpg'] == [Box(*low, *high, 1)]
  is_beyond_a_pixel = x != -0.5
  assert clipped.number == is_beyond_a_pixel
  assert ('v/1.jpg' in clipped.first) == is_beyond_a_pixel


def test_invalid_boxes_and_files_are_refused(tmp_path):
  inverted = (10, 20, 0, 40), (10, 20, 30, -5), (10, 20, np.nan, 40)
  for bbox in (*inverted, (200, 20, 30, 40), (-30, 20, 30, 40), (10, 120, 30, 40)):
    message = '(inverted or empty|no finite number|wholly outside).*, first entry 0 of .*v/1'
    refused(message, read, coco(tmp_path, bbox))
  refused(r"v/1\.jpg has .* class 'dgo'; did you mean 'dog'", read, coco(tmp_path, name='dgo'))
  refused('are inverted', read, voc(tmp_path, x_max=5))
  refused("object of class 'n1'", read, voc(tmp_path, 'n1'))
  (tmp_path / 'annotations/v/1.xml').write_text('<annotation><object/></annotation>')
  refused('is no ILSVRC annotation .no size/width', read, tmp_path / 'annotations')
  (tmp_path / 'other.json').write_text('{"images": []}')
  message = 'annotations is missing; expected a list. Give a COCO'
  refused(message, read, tmp_path / 'other.json')
  refused(r'none\.json is no file', read, tmp_path / 'none.json')
  refused(r'entry 0 has bbox \[1, 2, 3\]', read, coco(tmp_path, (1, 2, 3)))
  flat = coco(tmp_path, (-5, 20, 30, 40)).read_text()
  refused('wholly outside', read, saved(tmp_path, 'a.json', flat.replace('200', '0')))
  twice = flat.replace('"id": 4', '"id": 3')
  refused('a.json has 2 images of id 3', read, saved(tmp_path, 'a.json', twice))


FRAMES = ('v/1.jpg', 'v/2.jpg')
SIZE = {'width': 100, 'height': 50}
IMAGES = [
  {'id': i, 'file_name': f, **SIZE} for i, f in ((7, 'v/1.jpg'), (8, 'v/2.jpg'), (9, 'w/1.jpg'))
]
ANNOTATIONS = [{'image_id': i, 'category_id': 3, 'bbox': [1, 2, 10, 20]} for i in (8, 9)]
GOOD = {'image_id': 7, 'category_id': 3, 'bbox': [1, 2, 10, 20], 'score': 0.5}


def truth_of(folder: pathlib.Path, **document: Any) -> Any:
  """Returns ground truth as it is read from `IMAGES` and `ANNOTATIONS`, or from other parts."""
  content = {'images': IMAGES, 'annotations': ANNOTATIONS, **document}
  return read_truth(saved(folder, 'truth.json', content), FRAMES)


def test_boxes_are_those_of_the_requested_frames(tmp_path):
  truth = truth_of(tmp_path)
  assert truth.boxes.image.tolist() == [1] and truth.boxes.corners.tolist() == [[1, 2, 11, 22]]
  np.testing.assert_array_equal(truth.sizes, [[100, 50], [100, 50]])
  entries = [GOOD, {**GOOD, 'image_id': 'v/2.jpg', 'score': 1}]
  other = {**GOOD, 'image_id': 9}
  detections, _ = read_detections(saved(tmp_path, 'found.json', [other, *entries]), truth, FRAMES)
  assert detections.image.tolist() == [0, 1] and detections.score is not None
  assert detections.score.tolist() == [0.5, 1]


def test_boxes_over_the_border_are_cut_and_counted(tmp_path):
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


@cases(
  'content, message',
  ({}, 'Give COCO results'),
  ([{'image_id': 7, 'category_id': 3, 'bbox': [1, 2, 3, 4]}], r'\[0\]\.score is missing'),
  ([{**GOOD, 'image_id': 70}], 'image 70, which is no image'),
  ([{**GOOD, 'bbox': [1, 2, 3]}], r'has bbox \[1, 2, 3\]'),
  ([GOOD, {**GOOD, 'bbox': [1, 2, -3, 4]}], "1 of 2 boxes are inverted .* entry 1 of .* on 'v/1"),
  ([{**GOOD, 'bbox': [1, 2, 0, 4]}], 'are inverted or empty'),
  ([{**GOOD, 'bbox': [-9, 2, 9, 4]}], 'wholly outside of their images'),
  ([{**GOOD, 'bbox': [1, 2, np.nan, 4]}], 'a coordinate that is no finite number'),
  ([{**GOOD, 'bbox': [100, 2, 3, 4]}], "wholly outside .* first entry 0 of .* on 'v/1.jpg'"),
  ([{**GOOD, 'bbox': [1, None, 3, 4]}], r'\[0\]\.bbox\[1\] is None'),
  ([GOOD, {**GOOD, 'score': np.nan}], "a score that is no .* entry 1 of .* 'v/1.*score nan"),
  ([{**GOOD, 'score': '0.5'}], r"\[0\]\.score is '0.5'; expected a number"),
  ([GOOD, 7], r'\[1\] is 7; expected an object'),
  ([{**GOOD, 'category_id': 'dog'}], r"\[0\]\.category_id is 'dog'"),
  ([{**GOOD, 'image_id': [7]}], 'image_id is a list'),
)
def test_bad_detections_are_named(tmp_path, content, message):
  truth = truth_of(tmp_path)
  refused(message, read_detections, saved(tmp_path, 'found.json', content), truth, FRAMES)


def test_classes_that_the_ground_truth_does_not_list_are_refused(tmp_path):
  categories = [{'id': 3, 'name': 'fox'}, {'id': 8, 'name': 'cow'}]
  truth = truth_of(tmp_path, categories=categories)
  path = saved(tmp_path, 'found.json', [GOOD, {**GOOD, 'category_id': 8}])
  assert read_detections(path, truth, FRAMES)[0].category.tolist() == [3, 8]
  saved(tmp_path, 'found.json', [GOOD, {**GOOD, 'category_id': 4}])
  refused('entry 1 has category_id 4, .* 2 classes, 3 to 8', read_detections, path, truth, FRAMES)
  other = {'categories': categories, 'annotations': [{**ANNOTATIONS[0], 'category_id': 1}]}
  refused('truth.json: entry 0 has category_id 1', truth_of, tmp_path, **other)


def test_bad_ground_truth_is_named(tmp_path):
  missing = "1 of 2 frames are none of its images, first 'v/2.jpg'"
  refused(missing, truth_of, tmp_path, images=IMAGES[:1], annotations=[])
  outside, message = {**ANNOTATIONS[0], 'bbox': [1, 50, 10, 20]}, 'wholly outside .* entry 0 of .*'
  refused(f"{message}truth.json on 'v/2.jpg'", truth_of, tmp_path, annotations=[outside])
  crowd = [ANNOTATIONS[1], {**ANNOTATIONS[0], 'iscrowd': 1}]
  refused('truth.json: entry 1 has iscrowd 1', truth_of, tmp_path, annotations=crowd)
  truth_of(tmp_path, annotations=[{**crowd[1], 'image_id': 9}])  # The image is no frame.
  for change, message in (
    ({'images': [*IMAGES, {**IMAGES[0], 'id': 5}]}, "2 images of file_name 'v/1.jpg'"),
    ({'categories': [{'id': 3, 'name': 'fox'}] * 2}, '2 categories of id 3'),
    ({'images': [{**image, 'width': 0} for image in IMAGES]}, 'wholly outside of their images'),
  ):
    refused(message, truth_of, tmp_path, **change)
  refused('is no file', read_truth, tmp_path / 'none.json', FRAMES)
  refused('Give COCO annotations', read_truth, saved(tmp_path, 'truth.json', []), FRAMES)
