"""Tests how predictions files are read, and that each kind of bad file is named."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import special

from robustness.evaluation.layout import Layout
from robustness.evaluation.records import Records
from robustness.models.label_space import MERGES, get, project_scores
from robustness.video import predictions
from robustness.video.columns import PATH, to_columns
from robustness.video.metadata import NeighborSets, from_mappings
from robustness.video.predictions import read_predictions, score_kind, transfer_to
from tests.refusals import refused

FRAMES = ('v/1.jpg', 'v/2.jpg', 'v/3.jpg')


def saved(folder: pathlib.Path, content: Any) -> pathlib.Path:
  path = folder / 'predictions.json'
  path.write_text(content if isinstance(content, str) else json.dumps(content))
  return path


def test_scores_are_those_of_the_file_in_the_order_of_the_frames(tmp_path):
  path = saved(tmp_path, {'w/1.jpg': [9], **{f: [i, 0.5] for i, f in enumerate(FRAMES[::-1])}})
  assert predictions.read(path, FRAMES, (2, 1000)).tolist() == [[2, 0.5], [1, 0.5], [0, 0.5]]
  # The scores are kept in double precision, in which the second is larger.
  path = saved(tmp_path, dict.fromkeys(FRAMES, [0.1, float(np.nextafter(0.1, 1))]))
  assert (predictions.read(path, FRAMES).argmax(1) == 1).all()
  # A class that is never predicted may have minus infinity.
  path = saved(tmp_path, '{"v/1.jpg": [-Infinity, 0], "v/2.jpg": [1, 0], "v/3.jpg": [0, 2]}')
  assert predictions.read(path, FRAMES).argmax(1).tolist() == [1, 0, 1]


GOOD = dict.fromkeys(FRAMES, [0, 1])


def test_bad_files_are_named(tmp_path):
  for content, message in (
    ({'v/1.jpg': [0, 1]}, "missing for 2 of 3 frames, first 'v/2.jpg'"),
    ({**GOOD, 'v/2.jpg': [1]}, 'has 1 scores; expected 2'),
    ({**GOOD, 'v/2.jpg': [0] * 4}, "'v/2.jpg' has 4 scores; expected 2"),
    ({**GOOD, 'v/3.jpg': [0, np.nan]}, "1 of 3 frames .* first 'v/3.jpg', class 1: nan"),
    ({**GOOD, 'v/3.jpg': [np.inf, 0]}, 'class 0: inf'),
    ({**GOOD, 'v/3.jpg': [-np.inf] * 2}, "first 'v/3.jpg'"),
    ({**GOOD, 'v/3.jpg': [None, 0]}, "'v/3.jpg'"),
    ({**GOOD, 'v/3.jpg': ['x', 0]}, "'v/3.jpg' has a score that is no"),
    ({**GOOD, 'v/3.jpg': ['0.5', 0]}, "'v/3.jpg' has a score that is no"),
    ({**GOOD, 'v/3.jpg': [True, 0]}, "'v/3.jpg' has a score that is no"),
    ({**GOOD, 'v/3.jpg': [10**400, 0]}, 'a score that no number of 64 bits is near'),
    ({**GOOD, 'v/3.jpg': 4}, 'give a list of scores'),
  ):
    refused(message, predictions.read, saved(tmp_path, content), FRAMES, (2, 4))
  for path in (tmp_path / 'none.json', tmp_path):
    refused('is no file', predictions.read, path, FRAMES)


def test_frames_without_a_prediction_are_refused_or_wrong(tmp_path):
  path = saved(tmp_path, {**GOOD, 'v/2.jpg': []})
  refused("1 of 3 frames have no scores, first 'v/2.jpg'", predictions.read, path, FRAMES)
  scores = predictions.read(path, FRAMES, (2,), 'wrong')
  assert scores.tolist() == [[0, 1], [-np.inf] * 2, [0, 1]]
  records = Records(tmp_path / 'r', Layout(3, 1, 3, 1), {'classifier': {}, 'classes': ['a', 'b']})
  sets = from_mappings({FRAMES[1]: [FRAMES[0], FRAMES[2]]}, dict.fromkeys(FRAMES, [1]))
  records.write(0, 0, {**to_columns(sets), predictions.OUTPUTS[0]: scores[:, None]})
  predicted = read_predictions(records)
  assert predicted.prediction.tolist() == [1, -1, 1]
  assert predicted.confidence.tolist() == pytest.approx([special.expit(1), 0, special.expit(1)])


def test_confidence_is_a_share_among_the_classes_of_the_sets(tmp_path):
  space, logits = get('imagenet_vid'), np.random.default_rng(0).normal(size=(3, 1000))
  sets = from_mappings({FRAMES[1]: [FRAMES[0], FRAMES[2]]}, dict.fromkeys(FRAMES, [1]))
  outputs, records = {'logits': logits, 'probabilities': special.softmax(logits, 1)}, {}
  for kind, scores in outputs.items():
    identity = {'classifier': {'scores': kind, 'label_space': space.name}, 'classes': []}
    records[kind] = Records(tmp_path / kind, Layout(3, 1, 3, 1), identity)
    records[kind].write(0, 0, {**to_columns(sets), predictions.OUTPUTS[0]: scores[:, None]})
  for merge in MERGES:
    expected = special.softmax(project_scores(logits, space, merge), 1).max(1)
    for kind in outputs:
      confidence = read_predictions(records[kind], merge).confidence
      np.testing.assert_allclose(confidence, expected, rtol=1e-5)


LOGITS = np.random.default_rng(0).normal(size=(3, 50))
SHARES = special.softmax(LOGITS, axis=1)


def kind_of(scores: Any, stated: str = 'auto') -> str:
  """Returns 'logits' or 'probabilities' for scores [frames, classes] and the setting `scores`."""
  return score_kind(np.asarray(scores, float), FRAMES, stated, 'model.json')


def test_the_kind_of_scores_follows_from_values_or_the_setting():
  assert kind_of(LOGITS) == kind_of(LOGITS + 10) == kind_of(SHARES - 1) == 'logits'
  assert kind_of(SHARES) == kind_of(SHARES.round(4)) == kind_of(np.eye(3)) == 'probabilities'
  assert kind_of(SHARES.astype(np.float16)) == 'probabilities'
  assert kind_of(LOGITS, 'logits') == kind_of(SHARES / 2, 'logits') == 'logits'
  assert kind_of(SHARES, 'probabilities') == kind_of(SHARES / 2, 'probabilities') == 'probabilities'


def test_contradictory_scores_are_refused():
  negative, below = np.where(np.eye(3, 50), -0.25, SHARES), np.full((3, 2), -np.inf)
  first, halved = "first 'v/1.jpg', class 0: ", SHARES * [[1], [0.5], [1]]
  for scores, stated, message in (
    (negative, 'probabilities', rf'3 of 3 frames .* outside of \[0, 1\], {first}-0.25'),
    (np.full((3, 2), 1.5), 'probabilities', f'{first}1.5'),
    (below, 'probabilities', 'class 0: -inf'),
    (SHARES, 'logits', 'these are probabilities'),
    (halved, 'auto', "1 of 3 frames do not sum to 1, first 'v/2.jpg' with 0.5"),
    (SHARES * 100, 'auto', 'percentages'),
    (SHARES * 100, 'logits', 'percentages'),
  ):
    refused(f'model.json: .*{message}', kind_of, scores, stated)


CLASSES = ('fox', 'red panda', 'sheep')
SETS = {'v/2.jpg': ['v/1.jpg', 'v/3.jpg'], 'w/2.jpg': ['w/1.jpg']}
LABELS = {'v/1.jpg': [0], 'v/2.jpg': [0], 'v/3.jpg': [0, 2], 'w/1.jpg': [1], 'w/2.jpg': [1]}


def labelled(sets: dict[str, list[str]], names: Sequence[str] = CLASSES) -> NeighborSets:
  """Returns neighbor sets with `LABELS`, as ids among classes of these names in this order."""
  spelt = [name.lower().replace('_', ' ') for name in names]
  labels = {f: [spelt.index(CLASSES[label]) for label in row] for f, row in LABELS.items()}
  return from_mappings(sets, labels, names)


def recorded(folder: pathlib.Path, without: str = '', **replaced: np.ndarray) -> Records:
  """Writes records of all frames of `SETS`, in the reverse order of their paths.

  `without` names a column to leave out, `replaced` has columns to take instead.
  """
  columns = {
    **to_columns(labelled(SETS)),
    'prediction': np.array([[0], [1], [2], [1], [0]], np.int32),
    'output/logits': np.eye(3, dtype=np.float32)[[0, 1, 2, 1, 0]][:, None],
    PATH: np.array(labelled(SETS).frames),
    **replaced,
  }
  columns.pop(without, None)
  records = Records(folder, Layout(5, 1, 2, 1), {'classifier': {}, 'classes': list(CLASSES)})
  for block in range(3):
    part = records.layout.rows(block)
    records.write(block, 0, {name: values[::-1][part] for name, values in columns.items()})
  return records


def test_answers_are_found_by_path_and_labels_by_name(tmp_path):
  fewer = labelled({'v/1.jpg': ['v/3.jpg']}, ('Sheep', 'red_panda', 'fox'))
  sets, fields, _ = transfer_to(recorded(tmp_path), fewer, fewer.class_names)
  assert sets.frames == ('v/1.jpg', 'v/3.jpg')
  assert fields['prediction'].tolist() == [[0], [2]]
  assert fields['output/logits'].tolist() == [[[1, 0, 0]], [[0, 0, 1]]]
  assert [set(row) - {-1} for row in sets.labels.tolist()] == [{0}, {0, 2}]
  assert sets.class_names == CLASSES


def test_labels_are_matched_by_exact_spelling_first(tmp_path):
  records = Records(tmp_path, Layout(1, 1, 1, 1), {'classes': ['Cardigan', 'cardigan']})
  records.write(0, 0, {PATH: np.array(['v/1.jpg'])})
  sets = from_mappings({'v/1.jpg': []}, {'v/1.jpg': [0]}, ('Cardigan', 'cardigan'))
  assert transfer_to(records, sets, sets.class_names)[0].labels.tolist() == [[0]]


def test_transferred_records_have_the_identity_of_the_sets(tmp_path):
  records = recorded(tmp_path)
  sets, fields, identity = transfer_to(records, labelled(SETS), CLASSES)
  _, _, fewer = transfer_to(records, labelled({'v/2.jpg': ['v/1.jpg']}), CLASSES)
  assert identity['sets'] != fewer['sets']
  assert identity['classes'] == records.identity['classes']
  assert transfer_to(records, labelled(SETS), CLASSES)[2] == identity
  stored = read_predictions(records)
  answers = zip(sets.frames, fields['prediction'][:, 0].tolist(), strict=True)
  assert dict(zip(stored.sets.frames, stored.prediction.tolist(), strict=True)) == dict(answers)
  unusable = {'output/logits': np.full((5, 1, 3), np.nan, np.float32)}
  refused('row 0 hold NaN', read_predictions, recorded(tmp_path / 'nan', 'prediction', **unusable))


def test_frames_and_classes_missing_in_the_records_are_refused(tmp_path):
  records, unknown = recorded(tmp_path / 'one'), from_mappings({'w/1.jpg': ['w/3.jpg']}, LABELS)
  bare, alone = recorded(tmp_path / 'two', PATH), labelled({'w/1.jpg': []})
  missing = "1 of 2 frames are not in .*, first 'w/3.jpg'"
  refused(missing, transfer_to, records, unknown, CLASSES)
  wolf = "class 'wolf', which is none of the 3"
  refused(wolf, transfer_to, records, alone, ('fox', 'wolf', 'sheep'))
  refused('holds no paths of frames', transfer_to, bare, labelled(SETS), CLASSES)
