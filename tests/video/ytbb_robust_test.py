"""Tests that YTBB-Robust's annotations are read by the authors' rules, and the released anchors."""

import json
import shutil

import pytest

from robustness.cli.neighbor_sets import main
from robustness.models import label_space
from robustness.video import metadata, ytbb_robust
from tests.cases import cases
from tests.refusals import refused

MARKS = ['good', 'unsure', 'bad', 'dog', 'car', 'none']
PAIR_MARKS = ['similar', 'dissimilar', 'blur-increase', 'bad-anchor']
A, B, C, D, E, F = (f'{v}_{n}000/frame-{15 * n}.jpg' for n, v in enumerate('abcdef', 1))
ANCHORS = {
  A: ['good'],
  B: ['good', 'dog', 'car'],
  C: ['good', 'unsure'],
  D: ['good'],
  E: [],
  F: ['good'],
}
PAIRS = {  # The keys are an anchor and the number of a neighbor's frame.
  (A, 14): ['similar'],
  (A, 16): ['similar', 'blur-increase'],
  (A, 17): ['dissimilar'],
  (C, 46): ['similar'],
  (D, 59): ['similar'],
  (D, 61): ['similar', 'bad-anchor'],
  (F, 90): ['bad-anchor'],  # with itself
  (F, 91): ['similar'],
}
CLASSES = label_space.get('youtube_bb').class_names


def neighbor(anchor: str, number: int) -> str:
  """Returns the path of a frame in the clip of an anchor."""
  return f'{anchor.partition("/")[0]}/frame-{number}.jpg'


def annotations(names: list[str], marked: dict[str, list[str]]) -> dict:
  """Returns a released JSON file of marks by key; entries have the marks' positions in `names`."""
  labels = {key: [names.index(mark) for mark in marks] for key, marks in marked.items()}
  entries = [{'key': key, 'notes': '', 'labels': positions} for key, positions in labels.items()]
  return {'labels': names, 'annotations': entries}


@pytest.fixture
def release(tmp_path):
  """A small release; some keys have folders in front, and two anchors are annotated twice."""
  anchors = {f'/data/videos/{key}' if 'b_' in key else key: m for key, m in ANCHORS.items()}
  document = annotations(MARKS, anchors)
  for key, mark in ((A, 2), (f'/other/{E}', 0)):
    document['annotations'].insert(0, {'key': key, 'notes': '', 'labels': [mark]})
  pairs = {f'/data/{a},/data/{neighbor(a, n)}': marks for (a, n), marks in PAIRS.items()}
  for name, content in (
    (ytbb_robust.ANCHORS, document),
    (ytbb_robust.PAIRS, annotations(PAIR_MARKS, pairs)),
    (ytbb_robust.CLASSES, dict(enumerate(CLASSES))),
  ):
    (tmp_path / name).write_text(json.dumps(content))
  rows = [f'{key.split("_")[0]},{key.split("_")[1].split("/")[0]},0' for key in ANCHORS]
  (tmp_path / ytbb_robust.CSV).write_text('\n'.join(['ytid,time_ms,label', *rows]) + '\n')
  return tmp_path


def test_the_authors_rules_keep_good_anchors_and_unproblematic_pairs(release):
  sets, labels, names = ytbb_robust.read(release)
  assert sets == {A: [neighbor(A, 14)], B: []}
  assert labels == {A: [0], B: [0, 19, 23]} and names == CLASSES
  sets, _, _ = ytbb_robust.read(release, reviewed=False)  # all anchors and pairs
  assert {a: len(members) for a, members in sets.items()} == {A: 3, B: 0, C: 1, D: 2, E: 0, F: 1}


def test_the_folder_is_read_as_neighbor_sets(release):
  sets = metadata.read(release)
  assert len(sets.anchors) == 2 and len(sets.pairs.frame) == 1
  assert sets.class_names == CLASSES
  assert sets.pair_labels().tolist() == [[0, -1, -1]], 'those of its anchor'
  assert len(metadata.read(release, reviewed=False).anchors) == 6


@cases(
  'name, change, message',
  (ytbb_robust.ANCHORS, lambda text: text[:-20], 'truncated or no JSON'),
  (ytbb_robust.ANCHORS, lambda text: text.replace('"good"', '"fine"'), "no label 'good'"),
  (ytbb_robust.ANCHORS, lambda text: text.replace('[0]', '[6]'), 'has 6 labels, 0..5'),
  (ytbb_robust.PAIRS, lambda text: text.replace(',/data/a_1000', ';a'), "'<anchor>,<neighbor>'"),
  (ytbb_robust.CSV, lambda text: text.replace('ytid', 'video'), 'ytid,time_ms,label'),
  (ytbb_robust.CSV, lambda text: text[:-3], "label '' is none of the 24 classes"),
  (ytbb_robust.CSV, lambda text: text.replace('b_'[0] + ',2000', 'x,1'), 'no row for the anchor'),
  (ytbb_robust.CLASSES, lambda text: text.replace('"2"', '"77"'), 'number its 24 classes 0..23'),
  (ytbb_robust.CLASSES, lambda _: '{}', f'{ytbb_robust.CLASSES} names no class'),
)
def test_other_files_are_refused_in_one_line(release, name, change, message):
  (release / name).write_text(change((release / name).read_text()))
  error = refused(message, ytbb_robust.read, release)
  assert '\n' not in error and str(release) in error
  (release / name).unlink()
  refused(f'has no {name}; YTBB-Robust has', ytbb_robust.read, release)


def test_the_released_anchors(shared_dir, tmp_path):
  """2169 of 2467 anchors are good; the CSV numbers car 22 and none 23, the index of classes not."""
  for file in (shared_dir / 'data/ytbb_robust').iterdir():
    shutil.copyfile(file, tmp_path / file.name)
  (tmp_path / ytbb_robust.PAIRS).write_text(json.dumps(annotations(['similar'], {})))
  sets, labels, names = ytbb_robust.read(tmp_path)
  assert len(sets) == 2169 and names[23] == 'car'
  assert len(ytbb_robust.read(tmp_path, reviewed=False)[0]) == 2467
  cars = [names[label] for classes in labels.values() for label in classes if label >= 22]
  assert set(cars) == {'car'}


def test_an_import_does_not_overwrite_the_annotations(release):
  command = ['import', '--unreviewed', f'--metadata={release}', f'--out={release}']
  refused('holds neighbor sets already', main, command)
