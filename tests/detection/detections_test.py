"""Boxes from COCO files, and each kind of bad file."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.detection.detections import read_detections, read_truth

FRAMES = ('v/1.jpg', 'v/2.jpg')
IMAGES = [
  {'id': 7, 'file_name': 'v/1.jpg', 'width': 100, 'height': 50},
  {'id': 8, 'file_name': 'v/2.jpg', 'width': 100, 'height': 50},
  {'id': 9, 'file_name': 'w/1.jpg', 'width': 100, 'height': 50},
]
ANNOTATIONS = [
  {'image_id': 8, 'category_id': 3, 'bbox': [1, 2, 10, 20]},
  {'image_id': 9, 'category_id': 3, 'bbox': [1, 2, 10, 20]},
]
GOOD = {'image_id': 7, 'category_id': 3, 'bbox': [1, 2, 10, 20], 'score': 0.5}


def saved(folder: pathlib.Path, name: str, content: Any) -> pathlib.Path:
  (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
  return folder / name


def truth_of(folder: pathlib.Path, images: Any = IMAGES, annotations: Any = ANNOTATIONS) -> Any:
  return read_truth(
    saved(folder, 'truth.json', {'images': images, 'annotations': annotations}), FRAMES
  )


def test_boxes_of_the_frames(tmp_path: pathlib.Path) -> None:
  truth = truth_of(tmp_path)
  assert truth.boxes.image.tolist() == [1] and truth.boxes.corners.tolist() == [[1, 2, 11, 22]]
  np.testing.assert_array_equal(truth.sizes, [[100, 50], [100, 50]])
  entries = [GOOD, {**GOOD, 'image_id': 'v/2.jpg', 'score': 1}]
  found = read_detections(saved(tmp_path, 'found.json', entries), truth, FRAMES)
  assert found.image.tolist() == [0, 1] and found.score is not None
  assert found.score.tolist() == [0.5, 1]


@pytest.mark.parametrize(
  'content, message',
  [
    ({}, 'give COCO results'),
    ('[', 'truncated or no JSON'),
    ([{'image_id': 7, 'category_id': 3, 'bbox': [1, 2, 3, 4]}], "entry 0 has no 'score'"),
    ([{**GOOD, 'image_id': 70}], 'image 70, which is no image'),
    ([{**GOOD, 'bbox': [1, 2, 3]}], r'has bbox \[1, 2, 3\]'),
    ([GOOD, {**GOOD, 'bbox': [1, 2, -3, 4]}], '1 of 2 boxes is inverted'),
    ([{**GOOD, 'bbox': [90, 2, 30, 4]}], "outside of its image, first .* on 'v/1.jpg'"),
    ([{**GOOD, 'score': float('nan')}], 'not of finite numbers'),
  ],
)
def test_bad_detections(tmp_path: pathlib.Path, content: Any, message: str) -> None:
  truth = truth_of(tmp_path)
  with pytest.raises(InputError, match=message):
    read_detections(saved(tmp_path, 'found.json', content), truth, FRAMES)


def test_bad_ground_truth(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match="1 of 2 frames are none of its images, first 'v/2.jpg'"):
    truth_of(tmp_path, IMAGES[:1], [])
  with pytest.raises(InputError, match='outside of its image'):
    truth_of(tmp_path, annotations=[{'image_id': 8, 'category_id': 3, 'bbox': [1, 2, 10, 200]}])
  with pytest.raises(InputError, match='is no file'):
    read_truth(tmp_path / 'none.json', FRAMES)
  with pytest.raises(InputError, match='holds no annotations'):
    read_truth(saved(tmp_path, 'truth.json', []), FRAMES)
