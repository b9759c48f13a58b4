"""Recorded answers on other sets: rows by path, labels by name, and what is refused."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.evaluation.records import Layout, Records
from robustness.video.columns import PATH, to_columns
from robustness.video.metadata import NeighborSets, from_mappings
from robustness.video.recorded_predictions import read_predictions
from robustness.video.transfer import transferred

CLASSES = ('fox', 'red panda', 'sheep')
WHOLE = {'v/2.jpg': ['v/1.jpg', 'v/3.jpg'], 'w/2.jpg': ['w/1.jpg']}
LABELS = {'v/1.jpg': [0], 'v/2.jpg': [0], 'v/3.jpg': [0, 2], 'w/1.jpg': [1], 'w/2.jpg': [1]}


def made(sets: dict[str, list[str]], names: Sequence[str] = CLASSES) -> NeighborSets:
  labels = {
    frame: [list(map(_spelt, names)).index(_spelt(CLASSES[label])) for label in row]
    for frame, row in LABELS.items()
  }
  return from_mappings(sets, labels, names)


def _spelt(name: str) -> str:
  return name.lower().replace('_', ' ')


def recorded(folder: pathlib.Path, paths: bool = True) -> Records:
  """Records of all frames in the reverse order of their paths, block by block."""
  columns = {
    **to_columns(made(WHOLE)),
    'prediction': np.array([[0], [1], [2], [1], [0]], np.int32),
    'output/logits': np.eye(3, dtype=np.float32)[[0, 1, 2, 1, 0]][:, None],
  }
  if paths:
    columns[PATH] = np.array(made(WHOLE).frames)
  records = Records(folder, Layout(5, 1, 2, 1), {'classifier': {}, 'classes': list(CLASSES)})
  for block in range(3):
    part = records.layout.rows(block)
    records.write(block, 0, {name: values[::-1][part] for name, values in columns.items()})
  return records


def test_answers_are_found_by_path_and_labels_by_name(tmp_path: pathlib.Path) -> None:
  fewer = made({'v/1.jpg': ['v/3.jpg']}, ('Sheep', 'red_panda', 'fox'))
  moved = transferred(recorded(tmp_path), fewer, fewer.class_names)
  assert moved.sets.frames == ('v/1.jpg', 'v/3.jpg')
  assert moved.fields['prediction'].tolist() == [[0], [2]]
  assert moved.fields['output/logits'].tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
  assert [set(row) - {-1} for row in moved.sets.labels.tolist()] == [{0}, {0, 2}]
  assert moved.sets.class_names == CLASSES


def test_the_identity_tells_sets_apart(tmp_path: pathlib.Path) -> None:
  records = recorded(tmp_path)
  whole, fewer = (
    transferred(records, made(sets), CLASSES).identity for sets in (WHOLE, {'v/2.jpg': ['v/1.jpg']})
  )
  assert whole['sets'] != fewer['sets'] and whole['classes'] == records.identity['classes']
  assert transferred(records, made(WHOLE), CLASSES).identity == whole


def test_all_sets_give_the_records_own_answers(tmp_path: pathlib.Path) -> None:
  records = recorded(tmp_path)
  own, moved = read_predictions(records), transferred(records, made(WHOLE), CLASSES)
  by_path = dict(zip(own.sets.frames, own.prediction.tolist(), strict=True))
  assert by_path == dict(
    zip(moved.sets.frames, moved.fields['prediction'][:, 0].tolist(), strict=True)
  )


def test_bad_input(tmp_path: pathlib.Path) -> None:
  records = recorded(tmp_path / 'one')
  with pytest.raises(InputError, match="1 of 2 frames are not in .*, first 'w/3.jpg'"):
    transferred(records, from_mappings({'w/1.jpg': ['w/3.jpg']}, LABELS), CLASSES)
  with pytest.raises(InputError, match="class 'wolf', which is none of the 3"):
    transferred(records, made({'w/1.jpg': []}), ('fox', 'wolf', 'sheep'))
  with pytest.raises(InputError, match='holds no paths of frames'):
    transferred(recorded(tmp_path / 'two', paths=False), made(WHOLE), CLASSES)
