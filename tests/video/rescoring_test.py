"""Tests that predictions in files and records of earlier runs are scored without a classifier."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special

from configs import video_pm_k
from robustness.estimates.table import assemble, select
from robustness.evaluation.study import scores_of
from robustness.models.label_space import get
from robustness.studies.accuracy import Accuracy
from robustness.studies.video_pm_k import VideoPmK
from robustness.video import metadata
from robustness.video.rescoring import Rescoring
from tests.end_to_end import runs
from tests.refusals import bad_setting, refused
from tests.table_rows import estimate

SETS = {f'v{i}/10.jpg': [f'v{i}/9.jpg', f'v{i}/12.jpg'] for i in range(8)}
LABELS = {f'v{i}/{number}.jpg': [i] for i in range(8) for number in (9, 10, 12)}


def save_sets(folder: pathlib.Path, sets: Mapping[str, list[str]] = SETS) -> str:
  """Writes neighbor sets labelled by `LABELS`; returns their folder."""
  metadata.write(metadata.from_mappings(sets, LABELS), folder)
  return str(folder)


def save_scores(
  folder: pathlib.Path, width: int = 30, seed: int = 0, name: str = 'one', lead: float = 3
) -> pathlib.Path:
  """Writes `SETS` and normal scores, the label's raised by `lead`; returns the file of scores.

  A lead of 3 makes about half of the frames right. `width` is 30 for the classes of the sets or
  1000 for ImageNet's, where the first class that a label covers has the lead.
  """
  save_sets(folder / 'sets')
  generator = np.random.default_rng(seed)
  members = get('imagenet_vid').members
  scores = {}
  for frame, (label,) in LABELS.items():
    row = generator.normal(size=width)
    row[label if width == 30 else members[label][0]] += lead
    scores[frame] = row.tolist()
  path = folder / f'{name}.json'
  path.write_text(json.dumps(scores))
  return path


def accuracies(rescoring: Rescoring, folder: pathlib.Path, **study: Any) -> dict[str, float]:
  """Scores on the sets, with records in `folder`; returns accuracies as `accuracies_by_name`."""
  scored = rescoring.evaluations(folder / 'records')
  table = assemble(VideoPmK(testbed='', **study).reduce(scored, (0, 0, 0)).estimates)
  return accuracies_by_name(table)


def rescoring_of(path: object, folder: pathlib.Path, **settings: Any) -> Rescoring:
  """Returns the scoring of a file on the sets that `save_scores` wrote."""
  return Rescoring(str(path), str(folder / 'sets'), **settings)


def config_of(path: object, folder: pathlib.Path) -> Any:
  """Returns the config of a run that scores a file on the sets that `save_scores` wrote."""
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(path), str(folder / 'sets')
  return config


def is_right_by_frame(path: pathlib.Path) -> dict[str, bool]:
  """Returns for each frame whether the largest of its 30 scores in a file is of its label."""
  return {f: int(np.argmax(s)) in LABELS[f] for f, s in json.loads(path.read_text()).items()}


def expected_accuracies(right: dict[str, bool], sets: dict[str, list[str]]) -> tuple[float, float]:
  """Returns the share of right anchors, and of sets with all frames right."""
  is_set_right = [right[a] and all(right[f] for f in n) for a, n in sets.items()]
  return float(np.mean([right[a] for a in sets])), float(np.mean(is_set_right))


def accuracies_by_name(table: pd.DataFrame) -> dict[str, float]:
  """Returns 'accuracy_anchor' and, at the largest k, 'accuracy_pm_<k>'.

  The names of two or more classifiers begin with their label, 'one/accuracy_anchor'.
  """
  worst = select(table, 'accuracy_pm_k', k=...)
  rows = pd.concat([select(table, 'accuracy_anchor'), worst[worst.k == worst.k.max()]])
  has_labels = rows.classifier.nunique() > 1
  return {
    (f'{row.classifier}/' if has_labels else '')
    + (row.quantity if pd.isna(row.k) else f'accuracy_pm_{row.k}'): row.value
    for row in rows.itertuples()
  }


def test_thirty_scores_and_their_records_at_any_k(tmp_path):
  path = save_scores(tmp_path)
  first = accuracies(rescoring_of(path, tmp_path), tmp_path)
  pair = first['accuracy_anchor'], first['accuracy_pm_2']
  assert pair == expected_accuracies(is_right_by_frame(path), SETS) and 0 < pair[1] < 1
  records = Rescoring(str(tmp_path / 'records/one'))
  assert accuracies(records, tmp_path) == first
  near = accuracies(records, tmp_path, k=1)
  assert near['accuracy_pm_1'] >= first['accuracy_pm_2']


@pytest.mark.slow
@pytest.mark.parametrize('merge', ['max', 'sum', 'mean'])
def test_a_thousand_scores_are_projected_by_any_rule(tmp_path, merge):
  path = save_scores(tmp_path, 1000)
  scores = json.loads(path.read_text())
  members, merged, hits = get('imagenet_vid').members, getattr(np, merge), 0
  for anchor in SETS:
    shares = np.exp(np.array(scores[anchor]))
    hits += int(np.argmax([merged(shares[list(m)]) for m in members])) in LABELS[anchor]
  assert (
    accuracies(rescoring_of(path, tmp_path), tmp_path, merge=merge)['accuracy_anchor'] == hits / 8
  )
  records = Rescoring(str(tmp_path / 'records/one'))
  for other in ('max', 'sum', 'mean'):
    again = accuracies(records, tmp_path, merge=other)
    assert (again['accuracy_anchor'] == hits / 8) or other != merge


@pytest.mark.slow
@pytest.mark.parametrize('merge', ['sum', 'mean'])
def test_probabilities_in_a_file_are_not_taken_for_logits(tmp_path, merge):
  path = save_scores(tmp_path, 1000, lead=5.5)
  logits = json.loads(path.read_text())
  logits['v0/9.jpg'] = []  # A frame without scores does not decide whether a file has logits.
  path.write_text(json.dumps(logits))
  shares = {f: row and special.softmax(row).round(9).tolist() for f, row in logits.items()}
  (tmp_path / 'shares.json').write_text(json.dumps(shares))
  measured = []
  for name, kind in (('one', 'logits'), ('shares', 'probabilities')):
    config = config_of(tmp_path / f'{name}.json', tmp_path)
    config.study.merge, config.unpredicted = merge, 'wrong'
    results = runs.run(config, tmp_path / f'run_{name}', drawn=False)
    assert results.classifiers[0]['scores'] == kind
    numbers = accuracies_by_name(results.table)
    measured.append({n: v for n, v in numbers.items() if n.endswith(('anchor', '_2'))})
  assert measured[0] == measured[1]
  chance = 1 / 8  # Probabilities read as logits are nearly equal and always predict one class.
  assert measured[0]['accuracy_anchor'] > chance


@pytest.mark.slow
def test_k_is_limited_to_the_largest_distance_in_the_sets(tmp_path, caplog):
  config = config_of(save_scores(tmp_path), tmp_path)
  config.study.k = 2
  reached = runs.run(config, tmp_path / 'reached', drawn=False)
  config.study.k = 1_000_000
  results = runs.run(config, tmp_path / 'beyond')
  assert 'no neighbor is more than 2 frames from its anchor' in caplog.text
  pd.testing.assert_frame_equal(results.table, reached.table)
  assert select(results.table, 'accuracy_pm_k', k=...).k.max() == 2
  assert results.tables['neighbor sets'].rows == [(8, 16, 1_000_000, 2)]
  assert 'k reached' in (tmp_path / 'beyond/report.html').read_text()


def test_runs_with_equal_labels_are_scored_together(tmp_path):
  paths = []
  for seed, folder in enumerate(('a', 'b=c')):
    (tmp_path / folder).mkdir()
    path = save_scores(tmp_path / folder, seed=seed, name='net')
    accuracies(rescoring_of(path, tmp_path / folder), tmp_path / folder)
    paths.append(tmp_path / folder / 'records/net')
  alone = [accuracies(Rescoring(str(path)), tmp_path) for path in paths]
  config = video_pm_k.get_config('predictions')
  config.predictions = f'clean={paths[0]},{paths[1]}'
  results = runs.run(config, tmp_path / 'run', drawn=False)
  facts = dict(results.tables['which numbers these are'].rows)
  comparable = facts['comparable with published tables']
  assert comparable.startswith('no: neighbor sets of imagenet_vid: 8')
  measured = accuracies_by_name(results.table)
  for label, numbers in zip(('clean', 'net'), alone, strict=True):
    assert {name: measured[f'{label}/{name}'] for name in numbers} == numbers
  assert alone[0] != alone[1]
  message = f'of the label .net.*net_1={paths[0]},net_2={paths[1]}'
  refused(message, accuracies, Rescoring(f'{paths[0]},{paths[1]}'), tmp_path)
  refused('without a label', accuracies, Rescoring('=net.json'), tmp_path)


def test_changed_files_and_records_of_different_frames_are_not_compared(tmp_path):
  path = save_scores(tmp_path)
  accuracies(rescoring_of(path, tmp_path), tmp_path)
  save_scores(tmp_path, seed=1)
  refused('sha256', accuracies, rescoring_of(path, tmp_path), tmp_path)
  save_scores(tmp_path)
  corrected = {frame: [(label + 1) % 8] for frame, (label,) in LABELS.items()}
  metadata.write(metadata.from_mappings(SETS, corrected), tmp_path / 'sets')
  refused('sets: ', accuracies, rescoring_of(path, tmp_path), tmp_path)
  save_scores(tmp_path, seed=1)
  save_sets(tmp_path / 'sets', {a: n[:1] for a, n in SETS.items()})
  other = path.rename(tmp_path / 'two.json')
  accuracies(rescoring_of(other, tmp_path), tmp_path)
  rescoring = Rescoring(','.join(str(tmp_path / 'records' / name) for name in ('one', 'two')))
  refused('one and two were recorded on different frames', accuracies, rescoring, tmp_path)
  renamed = [json.dumps(part).replace('v', 'w') for part in (SETS, LABELS)]  # clips w0 to w7
  metadata.write(metadata.from_mappings(*map(json.loads, renamed)), tmp_path / 'later')
  path.write_text(other.read_text().replace('v', 'w'))
  accuracies(Rescoring(f'later={path}', str(tmp_path / 'later')), tmp_path)
  rescoring = Rescoring(','.join(str(tmp_path / 'records' / name) for name in ('one', 'later')))
  refused("their column 'path' differs", accuracies, rescoring, tmp_path)


def test_records_with_other_orders_of_classes_are_scored_together(tmp_path):
  """The scores of clip v3 are one class off, so that 7 of 8 sets are right."""
  names, right = [f'class {n}' for n in range(8)], dict.fromkeys(('one', 'two'), 7 / 8)
  reversed_ids = {frame: [7 - label] for frame, (label,) in LABELS.items()}
  moved_ids = {frame: [(label + 1) % 8] for frame, (label,) in LABELS.items()}
  inputs = {'one': (LABELS, names), 'two': (reversed_ids, names[::-1]), 'three': (moved_ids, names)}
  for label, (labels, classes) in inputs.items():
    metadata.write(metadata.from_mappings(SETS, labels, classes), tmp_path / label)
    scores = {f: np.eye(8)[row[0] ^ f.startswith('v3')].tolist() for f, row in labels.items()}
    path = tmp_path / f'{label}.json'
    path.write_text(json.dumps(scores))
    accuracies(Rescoring(str(path), str(tmp_path / label)), tmp_path)
  records = {label: str(tmp_path / 'records' / label) for label in inputs}
  measured = accuracies(Rescoring(f'{records["one"]},{records["two"]}'), tmp_path)
  assert {label: measured[f'{label}/accuracy_pm_2'] for label in right} == right
  unequal = Rescoring(f'{records["one"]},{records["three"]}')
  refused("their column 'label' differs", accuracies, unequal, tmp_path)


def test_records_are_scored_on_other_sets_of_their_frames(tmp_path):
  path = save_scores(tmp_path, 1000)
  accuracies(rescoring_of(path, tmp_path), tmp_path)
  fewer = save_sets(tmp_path / 'fewer', {a: n[:1] for a, n in list(SETS.items())[3:]})
  from_file = accuracies(Rescoring(str(path), fewer), tmp_path / 'file')
  rescoring = Rescoring(f'{tmp_path / "records/one"},{path.rename(tmp_path / "two.json")}', fewer)
  measured = accuracies(rescoring, tmp_path / 'both')
  for label in ('one', 'two'):
    assert {name: measured[f'{label}/{name}'] for name in from_file} == from_file
  data = rescoring.evaluations(tmp_path / 'both/records')[0].records.identity['data']
  assert data['num_examples'] == 10 and '5 anchors, 5 pairs' in data['dataset']
  assert data['sets'] == metadata.read(fewer).digest


def test_sets_that_lost_all_neighbors_are_judged_by_their_anchors(tmp_path):
  path, alone = (
    save_scores(tmp_path),
    save_sets(tmp_path / 'alone', {anchor: [] for anchor in SETS}),
  )
  right = expected_accuracies(is_right_by_frame(path), SETS)[0]
  measured = accuracies(Rescoring(str(path), alone), tmp_path)
  assert measured == {'accuracy_anchor': right, 'accuracy_pm_1': right}


def test_missing_settings_and_files_that_do_not_fit_are_named(tmp_path):
  refused(bad_setting('config.predictions', ''), Rescoring)
  refused(
    bad_setting('config.scores', 'logit', words="did you mean 'logits'"),
    Rescoring,
    'x.json',
    scores='logit',
  )
  refused(
    bad_setting('config.metadata', ''), accuracies, Rescoring(str(save_scores(tmp_path))), tmp_path
  )
  refused('holds no records', accuracies, Rescoring(str(tmp_path)), tmp_path)
  (tmp_path / 'bad.json').write_text(json.dumps(dict.fromkeys(LABELS, [0.0] * 7)))
  bad = rescoring_of(tmp_path / 'bad.json', tmp_path)
  refused('has 7 scores; expected 30 or 1000', accuracies, bad, tmp_path)
  custom_sets = metadata.from_mappings(SETS, LABELS, [f'custom {n}' for n in range(30)])
  metadata.write(custom_sets, tmp_path / 'custom')
  wide = Rescoring(str(save_scores(tmp_path, 1000)), str(tmp_path / 'custom'))
  refused('has 1000 scores; expected 30', accuracies, wide, tmp_path)
  beyond = metadata.from_mappings(SETS, {**LABELS, 'v3/9.jpg': [30]})
  metadata.write(beyond, tmp_path / 'beyond')
  message = r"'v3/9\.jpg' has label 30, and imagenet_vid has 30 .*: set config\.label_space"
  refused(
    message, accuracies, Rescoring(str(save_scores(tmp_path)), str(tmp_path / 'beyond')), tmp_path
  )
  refused(bad_setting('config.study.name', 'accuracy'), scores_of, Accuracy(), {'predictions': 'x'})
  unknown = {'predictions': 'x', 'prediction': 1}
  refused('unknown key config.prediction', scores_of, VideoPmK(), unknown)
  for label in ('..', '.hidden', 'x' * 300):
    unsafe = Rescoring(f'{label}=scores.json')
    refused('config.predictions names .*; a folder is named so', unsafe.evaluations, tmp_path)


REVIEWED = {anchor: members[:1] for anchor, members in list(SETS.items())[2:]}
"""A review that drops two of eight anchors and the neighbor at offset 2 of the others."""


def config_with_review(path: object, folder: pathlib.Path) -> Any:
  """Writes the sets after a review; returns a config with the sets before and after it."""
  config = config_of(path, folder)
  config.unreviewed = config.metadata
  config.metadata = save_sets(folder / 'reviewed', REVIEWED)
  return config


@pytest.mark.slow
def test_a_run_on_reviewed_and_unreviewed_sets(tmp_path):
  path, k = save_scores(tmp_path), 2
  results = runs.run(config_with_review(path, tmp_path), tmp_path / 'run')
  assert results.data['class_names'] == list(get('imagenet_vid').class_names)
  right, table = is_right_by_frame(path), results.table

  def check(name, value, n=None, **facets):
    """Asserts the value, and n where it is not None, of the row with these facets."""
    row = estimate(table, 'one', name, **facets)
    assert row.value == pytest.approx(value) and n in (None, row.n)

  pairs = []
  for frames, sets in (('unreviewed', SETS), ('reviewed', REVIEWED)):
    anchor, worst = expected_accuracies(right, sets)
    pairs.append((anchor, worst))
    check('accuracy_anchor', anchor, len(sets), frames=frames)
    check('accuracy_pm_k', worst, k=k, frames=frames)
    check('drop_pm_k', anchor - worst, k=k, frames=frames)
    before = [right[f] for members in sets.values() for f in members if f.endswith('/9.jpg')]
    check('error', 1 - np.mean(before), len(before), offset=-1, frames=frames)
  anchor, worst = np.subtract(pairs[1], pairs[0])
  check('review_anchor', anchor)
  check('review_worst', worst, k=k)
  check('review_drop', anchor - worst, k=k)
  assert (tmp_path / 'run/figures/error_offset_frames.png').is_file()
  assert {quantity.name for quantity in results.quantities} >= set(table.quantity)


def test_equal_reviewed_and_unreviewed_sets_are_refused(tmp_path, capsys, monkeypatch):
  config = config_with_review(save_scores(tmp_path), tmp_path)
  config.unreviewed = config.metadata
  message = runs.refused(config, tmp_path / 'run', capsys, monkeypatch)
  assert 'holds the sets that are scored: give the sets before the review' in message
