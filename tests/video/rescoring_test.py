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
from robustness.estimates.table import assemble, select, to_csv
from robustness.evaluation.study import scores_of
from robustness.models.label_space import get
from robustness.studies.accuracy import Accuracy
from robustness.studies.video_pm_k import VideoPmK
from robustness.video import metadata
from robustness.video.rescoring import Rescoring
from tests.end_to_end import runs
from tests.table_rows import estimate
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
  scored = rescoring.evaluations(folder / 'records')
  return values(assemble((study or VideoPmK(testbed='')).reduce(scored, (0, 0, 0)).estimates))


def of_sets(path: object, folder: pathlib.Path, **given: Any) -> Rescoring:
  return Rescoring(str(path), str(folder / 'sets'), **given)


def config_of(path: object, folder: pathlib.Path) -> Any:
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(path), str(folder / 'sets')
  return config


def right_in(path: pathlib.Path) -> dict[str, bool]:
  """Whether each frame is right by the scores in a file."""
  return {f: int(np.argmax(s)) in LABELS[f] for f, s in json.loads(path.read_text()).items()}


def expected(right: dict[str, bool], sets: dict[str, list[str]]) -> tuple[float, float]:
  """Accuracy on anchors and of whole sets."""
  whole = [right[a] and all(right[f] for f in n) for a, n in sets.items()]
  return float(np.mean([right[a] for a in sets])), float(np.mean(whole))


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
  numbers = accuracies(of_sets(path, tmp_path), tmp_path)
  found = numbers['accuracy_anchor'], numbers['accuracy_pm_2']
  assert found == expected(right_in(path), SETS) and 0 < found[1] < 1


@pytest.mark.parametrize('merge', ['max', 'sum', 'mean'])
def test_a_thousand_scores_are_projected_by_any_rule(tmp_path: pathlib.Path, merge: str) -> None:
  path = saved(tmp_path, 1000)
  scores = json.loads(path.read_text())
  members = get('imagenet_vid').members
  merged = {'max': np.max, 'sum': np.sum, 'mean': np.mean}[merge]
  hits = 0
  for anchor in SETS:
    shares = np.exp(np.array(scores[anchor]))
    hits += int(np.argmax([merged(shares[list(own)]) for own in members])) in LABELS[anchor]
  rescoring = of_sets(path, tmp_path, merge=merge)
  assert accuracies(rescoring, tmp_path)['accuracy_anchor'] == hits / 8
  records = Rescoring(str(tmp_path / 'records/one'))
  for other in ('max', 'sum', 'mean'):
    again = accuracies(records, tmp_path, VideoPmK(merge=other, testbed=''))
    assert (again['accuracy_anchor'] == hits / 8) or other != merge


@pytest.mark.parametrize('merge', ['sum', 'mean'])
def test_probabilities_in_a_file_are_not_taken_for_logits(
  tmp_path: pathlib.Path, merge: str
) -> None:
  path = saved(tmp_path, 1000, lead=5.5)
  logits = json.loads(path.read_text())
  shares = {frame: special.softmax(row).round(9).tolist() for frame, row in logits.items()}
  (tmp_path / 'shares.json').write_text(json.dumps(shares))
  found = []
  for name, kind in (('one', 'logits'), ('shares', 'probabilities')):
    config = config_of(tmp_path / f'{name}.json', tmp_path)
    config.study.merge = merge
    results = runs.run(config, tmp_path / f'run_{name}')
    assert results.classifier['scores'] == kind
    found.append({n: v for n, v in values(results.table).items() if n.endswith(('anchor', '_2'))})
  assert found[0] == found[1]
  assert found[0]['accuracy_anchor'] > 1 / 8  # where logits are nearly equal it is one class always


def test_records_give_what_the_file_gave_at_any_k(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path)
  first = accuracies(of_sets(path, tmp_path), tmp_path)
  again = accuracies(Rescoring(str(tmp_path / 'records/one')), tmp_path)
  assert again == first
  near = accuracies(Rescoring(str(tmp_path / 'records/one')), tmp_path, VideoPmK(k=1, testbed=''))
  assert near['accuracy_pm_1'] >= first['accuracy_pm_2']


def test_a_k_beyond_the_sets_is_called_by_what_they_reach(
  tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
  config = config_of(saved(tmp_path), tmp_path)
  config.study.k = 2
  reached = runs.run(config, tmp_path / 'reached')
  config.study.k = 1_000_000
  results = runs.run(config, tmp_path / 'beyond')
  assert 'no neighbor is more than 2 frames from its anchor' in caplog.text
  pd.testing.assert_frame_equal(results.table, reached.table)
  assert select(results.table, 'accuracy_pm_k', k=...).k.max() == 2
  assert results.tables['neighbor sets'].rows == [(8, 16, 1_000_000, 2)]
  assert 'k reached' in (tmp_path / 'beyond/report.html').read_text()


@pytest.mark.parametrize('label', ['..', '.hidden', 'x' * 300])
def test_a_label_that_names_no_folder_is_refused(label: str) -> None:
  with pytest.raises(InputError, match=r'config\.predictions names .*; a folder is named so'):
    _ = Rescoring(f'{label}=scores.json').paths


def test_several_files_are_labelled_by_their_names(tmp_path: pathlib.Path) -> None:
  files = [saved(tmp_path, seed=s, name=n) for s, n in enumerate(('one', 'two'))]
  rescoring = of_sets(','.join(map(str, files)), tmp_path)
  numbers = accuracies(rescoring, tmp_path)
  assert {name.split('/')[0] for name in numbers} == {'one', 'two'}
  results = runs.run(config_of(rescoring.predictions, tmp_path), tmp_path / 'run')
  assert [c['label'] for c in results.classifier] == ['one', 'two']
  assert results.data['class_names'] == list(get('imagenet_vid').class_names)


def test_runs_that_called_theirs_alike_are_scored_together(tmp_path: pathlib.Path) -> None:
  paths = []
  for seed, folder in enumerate(('a', 'b=c')):
    (tmp_path / folder).mkdir()
    path = saved(tmp_path / folder, seed=seed, name='net')
    accuracies(of_sets(path, tmp_path / folder), tmp_path / folder)
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
  rescoring = of_sets(saved(tmp_path), tmp_path)
  accuracies(rescoring, tmp_path)
  saved(tmp_path, seed=1)
  with pytest.raises(InputError, match='sha256'):
    accuracies(rescoring, tmp_path)


def test_records_of_different_frames_are_not_compared(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path)
  accuracies(of_sets(path, tmp_path), tmp_path)
  metadata.write(
    metadata.from_mappings({a: n[:1] for a, n in SETS.items()}, LABELS), tmp_path / 'sets'
  )
  other = path.rename(tmp_path / 'two.json')
  accuracies(of_sets(other, tmp_path), tmp_path)
  rescoring = Rescoring(','.join(str(tmp_path / 'records' / name) for name in ('one', 'two')))
  with pytest.raises(InputError, match='one and two were recorded on different frames'):
    accuracies(rescoring, tmp_path)


def test_records_are_scored_on_other_sets_of_their_frames(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path, 1000)
  accuracies(of_sets(path, tmp_path), tmp_path)
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
    accuracies(of_sets(tmp_path / 'bad.json', tmp_path), tmp_path)
  with pytest.raises(InputError, match='config.study.name'):
    scores_of(Accuracy(), {'predictions': 'x'})
  with pytest.raises(InputError, match='unknown key config.prediction'):
    VideoPmK().prediction_scores({'predictions': 'x', 'prediction': 1})


@pytest.mark.parametrize('width', [30, 1000])
def test_the_archive_is_taken_as_it_unpacks(tmp_path: pathlib.Path, width: int) -> None:
  path = saved(tmp_path, width)
  small_archive.save_misc(tmp_path / 'sets/misc')
  numbers = accuracies(of_sets(path, tmp_path), tmp_path)
  other = saved(tmp_path / 'other', width)
  beside = accuracies(of_sets(other, tmp_path / 'other'), tmp_path / 'other')
  assert numbers == beside and numbers['accuracy_anchor'] > 0.3


REVIEWED = {anchor: members[:1] for anchor, members in list(SETS.items())[2:]}


def saved_review(path: object, folder: pathlib.Path) -> Any:
  """Writes sets after a review beside those before; returns a config of both."""
  metadata.write(metadata.from_mappings(REVIEWED, LABELS), folder / 'reviewed')
  config = config_of(path, folder)
  config.unreviewed, config.metadata = config.metadata, str(folder / 'reviewed')
  return config


def test_a_run_on_reviewed_and_unreviewed_sets(tmp_path: pathlib.Path) -> None:
  path, k = saved(tmp_path), 2
  results = runs.run(saved_review(path, tmp_path), tmp_path / 'run')
  right, table = right_in(path), results.table
  found = []
  for frames, sets in (('unreviewed', SETS), ('reviewed', REVIEWED)):
    own = {'frames': frames}
    anchor, worst = expected(right, sets)
    found.append((anchor, worst))
    row = estimate(table, 'one', 'accuracy_anchor', **own)
    assert (row.value, row.n) == (pytest.approx(anchor), len(sets))
    assert estimate(table, 'one', 'accuracy_pm_k', k=k, **own).value == pytest.approx(worst)
    drop = estimate(table, 'one', 'drop_pm_k', k=k, **own)
    assert drop.value == pytest.approx(anchor - worst)
    at = [right[f] for members in sets.values() for f in members if f.endswith('/9.jpg')]
    row = estimate(table, 'one', 'error', offset=-1, **own)
    assert (row.value, row.n) == (pytest.approx(1 - np.mean(at)), len(at))
  change = np.subtract(found[1], found[0])
  for name, value, facets in (
    ('anchor', change[0], {}),
    ('worst', change[1], {'k': k}),
    ('drop', change[0] - change[1], {'k': k}),
  ):
    assert estimate(table, 'one', f'review_{name}', **facets).value == pytest.approx(value)
  assert (tmp_path / 'run/figures/error_offset_frames.png').is_file()
  assert {quantity.name for quantity in results.quantities} >= set(table.quantity)


def test_several_classifiers_from_records_and_files(tmp_path: pathlib.Path) -> None:
  files = [saved(tmp_path, seed=s, name=n) for s, n in enumerate(('one', 'two'))]
  runs.run(config_of(files[0], tmp_path), tmp_path / 'before')
  alone = runs.run(saved_review(files[0], tmp_path), tmp_path / 'alone')
  both = f'{tmp_path / "before/records/one"},{files[1]}'
  results = runs.run(saved_review(both, tmp_path), tmp_path / 'both')
  own = results.table[(results.table.classifier == 'one') & (results.table.versus == '')]
  own = own[own.quantity != 'accuracy_static']  # of several classifiers
  assert to_csv(own[alone.table.columns].dropna(axis=1, how='all')) == to_csv(
    alone.table.dropna(axis=1, how='all')
  )
  drops = [estimate(results.table, label, 'review_drop', k=2) for label in ('one', 'two')]
  paired = estimate(results.table, 'two', 'review_drop', 'one', k=2)
  assert paired.value == pytest.approx(drops[1].value - drops[0].value)
