"""Readers of a user's JSON refuse wrong values and damaged files in one line."""

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from robustness.core.errors import InputError
from robustness.video import answers, boxes, building, metadata, predictions
from tests.json_faults import DAMAGE, KINDS_OF_DAMAGE, changed
from tests.refusals import in_one_line_or_not_at_all, refused

FRAMES = ('v/1.jpg', 'v/2.jpg')
CLASSES = {'ant': 0, 'bee': 1}
COCO = {
  'images': [{'id': i, 'file_name': f, 'width': 8, 'height': 9} for i, f in enumerate(FRAMES)],
  'categories': [{'id': 0, 'name': 'ant'}],
  'annotations': [{'image_id': 0, 'category_id': 0, 'bbox': [1, 1, 3, 3]}],
}
DETECTIONS = [{'image_id': 0, 'category_id': 0, 'bbox': [1, 1, 3, 3], 'score': 0.5}]
SCORES = {frame: [0.1, 0.9] for frame in FRAMES}
Read = Callable[[pathlib.Path], object]
"""A function that reads a file."""


def sets_beside(file: pathlib.Path) -> object:
  for name, (document, _) in CASES.items():
    if name.startswith('sets/') and name.removeprefix('sets/') != file.name:
      (file.parent / name.removeprefix('sets/')).write_text(json.dumps(document))
  return metadata.read(file.parent)


def detected(file: pathlib.Path) -> object:
  truth = file.with_name('truth.json')
  truth.write_text(json.dumps(COCO))
  return boxes.read_detections(file, boxes.read_truth(truth, FRAMES), FRAMES)


def environments_of(file: pathlib.Path) -> object:
  from input_pipeline.sources.environments import Environments

  file.with_name('1.png').touch()
  return Environments(str(file)).read()


def answered(file: pathlib.Path) -> object:
  log = file.with_name('answers.jsonl')
  log.write_bytes(json.dumps(FORMAT).encode() + b'\n' + file.read_bytes() + b'\n')
  try:
    return answers.read(log, 'digest')
  except InputError as error:
    raise InputError(f'{file}: {error}') from error


def header_of(file: pathlib.Path) -> object:
  file.write_bytes(file.read_bytes() + b'\n')
  return answers.read(file, 'digest')


VALUES = ('ann', 'individual', *FRAMES, 'correct', 'dissimilar', ['blur'], False, [1], 3.5)
KEYS = 'annotator round anchor neighbor label similar reasons feature shown time'
ANSWER = dict(zip(KEYS.split(), VALUES, strict=True))
FORMAT = {'format': answers.FORMAT, 'version': answers.VERSION, 'metadata': 'digest'}
PLAN = {'annotators_per_pair': 2, 'joint_votes': 0, 'densify': False}
CASES: dict[str, tuple[Any, Read]] = {
  'environments.json': ({'clean': {'ant': ['1.png']}, 'snow': {'ant': []}}, environments_of),
  'answer.json': (ANSWER, answered),
  'header.jsonl': ({**FORMAT, 'plan': PLAN}, header_of),
  'sets/pmsets.json': ({FRAMES[0]: [FRAMES[1]]}, sets_beside),
  'sets/labels.json': ({frame: [0] for frame in FRAMES}, sets_beside),
  'sets/class_index.json': ({'0': ['n1', 'ant'], '1': ['n2', 'bee']}, sets_beside),
  'sets/frames.json': ({FRAMES[0]: {'frame_type': 'I', 'fps': 30.0}}, sets_beside),
  'scores.json': (SCORES, lambda file: predictions.read(file, FRAMES, (2,))),
  'videos.json': ({'v': ['ant', 1]}, lambda file: building.read_labels(file, CLASSES)),
  'boxes.json': (COCO, lambda file: boxes.read(file, FRAMES, CLASSES)),
  'truth_of_detections.json': (COCO, lambda file: boxes.read_truth(file, FRAMES)),
  'detections.json': (DETECTIONS, detected),
}
"""A valid document and its reader, by the name of the file."""


@pytest.mark.parametrize('name', CASES)
def test_another_value_in_any_place_is_no_traceback(tmp_path, name):
  document, read = CASES[name]
  file = tmp_path / pathlib.Path(name).name
  for value in changed(document):
    file.write_text(json.dumps(value))
    in_one_line_or_not_at_all(read, file)


@pytest.mark.parametrize('name', CASES)
@pytest.mark.parametrize('damage', KINDS_OF_DAMAGE)
def test_a_damaged_file_is_one_line(tmp_path, name, damage):
  document, read = CASES[name]
  file = tmp_path / pathlib.Path(name).name
  file.write_bytes(DAMAGE[damage](json.dumps(document).encode()))
  assert '\n' not in refused(re.escape(file.name), read, file)
