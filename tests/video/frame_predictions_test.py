"""Scoring predictions in files and records of earlier runs, without a classifier."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special

from configs import video_pm_k
from robustness.core.errors import InputError
from robustness.estimates.table import assemble, select
from robustness.evaluation.study import scores_of
from robustness.models.label_space import get
from robustness.studies.accuracy import Accuracy
from robustness.studies.video_pm_k import VideoPmK
from robustness.video import frame_predictions, metadata
from robustness.video.frame_predictions import Rescoring
from tests.end_to_end import runs
from tests.video import small_archive

SETS = {f'v{i}/10.jpg': [f'v{i}/9.jpg', f'v{i}/12.jpg'] for i in range(8)}
LABELS = {frame: [i] for i in range(8) for frame in (f'v{i}/9.jpg', f'v{i}/10.jpg', f'v{i}/12.jpg')}


def saved(
  folder: pathlib.Path, width: int = 30, seed: int = 0, name: str = 'one', lead: float = 3
) -> pathlib.Path:
  """Writes metadata and scores that are right for about half of the frames."""
  metadata.write(metadata.from_mappings(SETS, LABELS), folder / 'sets')
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


def accuracies(rescoring: Rescoring, folder: pathlib.Path, study: VideoPmK | None = None) -> Any:
  scored = frame_predictions.evaluations(rescoring, folder / 'records')
  return values(assemble((study or VideoPmK(testbed='')).reduce(scored, (0, 0, 0)).estimates))


def values(table: pd.DataFrame) -> dict[str, float]:
  """Returns accuracy on anchors and at the largest k by name; of several, after their label."""
  worst = select(table, 'accuracy_pm_k', k=...)
  rows = pd.concat([select(table, 'accuracy_anchor'), worst[worst.k == worst.k.max()]])
  several = rows.classifier.nunique() > 1
  return {
    (f'{row.classifier}/' if several else '')
    + (row.quantity if pd.isna(row.k) else f'accuracy_pm_{row.k}'): row.value
    for row in rows.itertuples()
  }


def test_thirty_scores(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path)
  scores = json.loads(path.read_text())
  right = {f: int(np.argmax(scores[f])) in LABELS[f] for f in scores}
  numbers = accuracies(Rescoring(str(path), str(tmp_path / 'sets')), tmp_path)
  assert numbers['accuracy_anchor'] == sum(right[a] for a in SETS) / 8
  whole = sum(right[a] and all(right[f] for f in n) for a, n in SETS.items()) / 8
  assert numbers['accuracy_pm_2'] == whole and 0 < whole < 1


@pytest.mark.parametrize('merge', ['max', 'sum', 'mean'])
def test_a_thousand_scores_are_projected_by_any_rule(tmp_path: pathlib.Path, merge: str) -> None:
  path = saved(tmp_path, 1000)
  scores = json.loads(path.read_text())
  members = get('imagenet_vid').members
  merged = {'max': np.max, 'sum': np.sum, 'mean': np.mean}[merge]
  hits = (
    sum(
      int(np.argmax([merged(np.exp(np.array(scores[a])[list(m)])) for m in members])) in LABELS[a]
      for a in SETS
    )
    / 8
  )
  rescoring = Rescoring(str(path), str(tmp_path / 'sets'), merge=merge)
  assert accuracies(rescoring, tmp_path)['accuracy_anchor'] == hits
  records = Rescoring(str(tmp_path / 'records/one'))
  for other in ('max', 'sum', 'mean'):
    again = accuracies(records, tmp_path, VideoPmK(merge=other, testbed=''))
    assert (again['accuracy_anchor'] == hits) or other != merge


@pytest.mark.parametrize('merge', ['sum', 'mean'])
def test_probabilities_in_a_file_are_not_taken_for_logits(
  tmp_path: pathlib.Path, merge: str
) -> None:
  path = saved(tmp_path, 1000, lead=5.5)
  logits = json.loads(path.read_text())
  shares = {frame: special.softmax(row).round(9).tolist() for frame, row in logits.items()}
  (tmp_path / 'shares.json').write_text(json.dumps(shares))
  anchor, worst = [], []
  for name, kind in (('one', 'logits'), ('shares', 'probabilities')):
    config = video_pm_k.get_config('predictions')
    config.predictions, config.metadata = f'{tmp_path / name}.json', str(tmp_path / 'sets')
    config.study.merge = merge
    results = runs.run(config, tmp_path / f'run_{name}')
    assert results.classifier['scores'] == kind
    own = values(results.table)
    anchor.append(own['accuracy_anchor'])
    worst.append(own['accuracy_pm_2'])
  assert anchor[0] == anchor[1] and worst[0] == worst[1]
  assert anchor[0] > 1 / 8  # one class of the eight always, where logits are nearly equal


def test_records_give_what_the_file_gave_at_any_k(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path)
  first = accuracies(Rescoring(str(path), str(tmp_path / 'sets')), tmp_path)
  again = accuracies(Rescoring(str(tmp_path / 'records/one')), tmp_path)
  assert again == first
  near = accuracies(Rescoring(str(tmp_path / 'records/one')), tmp_path, VideoPmK(k=1, testbed=''))
  assert near['accuracy_pm_1'] >= first['accuracy_pm_2']


@pytest.mark.parametrize('k', [50, 1_000_000])
def test_a_k_beyond_the_sets_is_called_by_what_they_reach(
  tmp_path: pathlib.Path, k: int, caplog: pytest.LogCaptureFixture
) -> None:
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(saved(tmp_path)), str(tmp_path / 'sets')
  config.study.k = 2
  reached = runs.run(config, tmp_path / 'reached')
  config.study.k = k
  results = runs.run(config, tmp_path / 'beyond')
  assert 'no neighbor is more than 2 frames from its anchor' in caplog.text
  pd.testing.assert_frame_equal(results.table, reached.table)
  assert select(results.table, 'accuracy_pm_k', k=...).k.max() == 2
  assert results.tables['neighbor sets'].rows == [(8, 16, k, 2)]
  assert 'k reached' in (tmp_path / 'beyond/report.html').read_text()


@pytest.mark.parametrize('label', ['..', '.hidden', 'x' * 300])
def test_a_label_that_names_no_folder_is_refused(label: str) -> None:
  with pytest.raises(InputError, match=r'config\.predictions names .*; a folder is named so'):
    _ = Rescoring(f'{label}=scores.json').paths


def test_several_files_are_labelled_by_their_names(tmp_path: pathlib.Path) -> None:
  files = [saved(tmp_path, seed=s, name=n) for s, n in enumerate(('one', 'two'))]
  rescoring = Rescoring(','.join(map(str, files)), str(tmp_path / 'sets'))
  numbers = accuracies(rescoring, tmp_path)
  assert {name.split('/')[0] for name in numbers} == {'one', 'two'}
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = rescoring.predictions, rescoring.metadata
  results = runs.run(config, tmp_path / 'run')
  assert [c['label'] for c in results.classifier] == ['one', 'two']
  assert results.data['class_names'] == list(get('imagenet_vid').class_names)


def test_runs_that_called_theirs_alike_are_scored_together(tmp_path: pathlib.Path) -> None:
  paths = []
  for seed, folder in enumerate(('a', 'b=c')):
    (tmp_path / folder).mkdir()
    path = saved(tmp_path / folder, seed=seed, name='net')
    accuracies(Rescoring(str(path), str(tmp_path / folder / 'sets')), tmp_path / folder)
    paths.append(tmp_path / folder / 'records/net')
  alone = [accuracies(Rescoring(str(path)), tmp_path) for path in paths]
  config = video_pm_k.get_config('predictions')
  config.predictions = f'clean={paths[0]},{paths[1]}'
  results = runs.run(config, tmp_path / 'run')
  own = values(results.table)
  for label, numbers in zip(('clean', 'net'), alone, strict=True):
    assert {name: own[f'{label}/{name}'] for name in numbers} == numbers
  assert alone[0] != alone[1]
  twice = f'{paths[0]},{paths[1]}'
  with pytest.raises(InputError, match=f'by the label .net.*net_1={paths[0]},net_2={paths[1]}'):
    accuracies(Rescoring(twice), tmp_path)
  with pytest.raises(InputError, match='without a label'):
    accuracies(Rescoring('=net.json'), tmp_path)


def test_a_file_that_changed_is_no_longer_that_of_the_records(tmp_path: pathlib.Path) -> None:
  rescoring = Rescoring(str(saved(tmp_path)), str(tmp_path / 'sets'))
  accuracies(rescoring, tmp_path)
  saved(tmp_path, seed=1)
  with pytest.raises(InputError, match='sha256'):
    accuracies(rescoring, tmp_path)


def test_records_of_different_frames_are_not_compared(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path)
  accuracies(Rescoring(str(path), str(tmp_path / 'sets')), tmp_path)
  metadata.write(
    metadata.from_mappings({a: n[:1] for a, n in SETS.items()}, LABELS), tmp_path / 'sets'
  )
  other = path.rename(tmp_path / 'two.json')
  accuracies(Rescoring(str(other), str(tmp_path / 'sets')), tmp_path)
  rescoring = Rescoring(','.join(str(tmp_path / 'records' / name) for name in ('one', 'two')))
  with pytest.raises(InputError, match='one and two were recorded on different frames'):
    accuracies(rescoring, tmp_path)


def test_records_are_scored_on_other_sets_of_their_frames(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path, 1000)
  accuracies(Rescoring(str(path), str(tmp_path / 'sets')), tmp_path)
  metadata.write(
    metadata.from_mappings({a: n[:1] for a, n in list(SETS.items())[3:]}, LABELS),
    tmp_path / 'fewer',
  )
  fewer = str(tmp_path / 'fewer')
  from_file = accuracies(Rescoring(str(path), fewer), tmp_path / 'file')
  rescoring = Rescoring(f'{tmp_path / "records/one"},{path.rename(tmp_path / "two.json")}', fewer)
  both = accuracies(rescoring, tmp_path / 'both')
  for label in ('one', 'two'):
    assert {name: both[f'{label}/{name}'] for name in from_file} == from_file


def test_bad_input(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match='config.predictions'):
    Rescoring()
  with pytest.raises(InputError, match='config.merge'):
    Rescoring('x.json', merge='best')
  with pytest.raises(InputError, match="config.scores is 'logit'; did you mean 'logits'"):
    Rescoring('x.json', scores='logit')
  with pytest.raises(InputError, match='config.metadata'):
    accuracies(Rescoring(str(saved(tmp_path))), tmp_path)
  with pytest.raises(InputError, match='holds no records'):
    accuracies(Rescoring(str(tmp_path)), tmp_path)
  (tmp_path / 'bad.json').write_text(json.dumps(dict.fromkeys(LABELS, [0.0] * 7)))
  with pytest.raises(InputError, match='has 7 scores; expected 30 or 1000'):
    accuracies(Rescoring(str(tmp_path / 'bad.json'), str(tmp_path / 'sets')), tmp_path)
  with pytest.raises(InputError, match='config.study.name'):
    scores_of(Accuracy(), {'predictions': 'x'})
  with pytest.raises(InputError, match='unknown key config.prediction'):
    VideoPmK().prediction_scores({'predictions': 'x', 'prediction': 1})


@pytest.mark.parametrize('width', [30, 1000])
def test_the_archive_is_taken_as_it_unpacks(tmp_path: pathlib.Path, width: int) -> None:
  path = saved(tmp_path, width)
  small_archive.save_misc(tmp_path / 'sets/misc')
  numbers = accuracies(Rescoring(str(path), str(tmp_path / 'sets')), tmp_path)
  other = saved(tmp_path / 'other', width)
  expected = accuracies(Rescoring(str(other), str(tmp_path / 'other/sets')), tmp_path / 'other')
  assert numbers == expected and numbers['accuracy_anchor'] > 0.3
