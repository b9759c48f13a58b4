"""Comparisons of workdirs: paired where they share images, refused where they nearly do."""

from __future__ import annotations

import csv
import json
import pathlib
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from robustness.compare import __main__ as program
from robustness.core.errors import InputError
from robustness.estimates.comparison import mcnemar, paired_difference, sign_flip
from robustness.evaluation.records import Records
from robustness.results import Results
from robustness.studies import si_score
from tests import finished_runs
from tests.table_rows import estimate

COUNT = 40
FIRST = (np.arange(COUNT) % 4 > 0).tolist()
PARTS = ('clean', 'fog')
SECOND = (np.arange(COUNT) % 10 > 0).tolist()


def rows(out: pathlib.Path) -> list[dict[str, str]]:
  with (out / 'comparison.csv').open() as file:
    return list(csv.DictReader(file))


def assert_table_is_comparison(out: pathlib.Path) -> None:
  """Fails unless the table of results has every number of the file, and no other of these kinds."""
  table, ends = Results.read(out).table, ('value', 'low', 'high')
  facets = {
    'fog': {'corruption': 'fog'},
    'severity 1': {'severity': 1},
    'shown': {'corruption_set': 'shown'},
  }
  first, count = '', 0
  for row in rows(out):
    keys = {'part': row['part'] or 'study', **facets.get(row['views'], {'view': row['views']})}
    for versus, quantity, columns in (
      ('', 'accuracy', ('accuracy', 'low', 'high')),
      ('first', 'accuracy', ('minus the first', 'difference low', 'difference high')),
      ('', 'effective_robustness', ('effective robustness', 'effective low', 'effective high')),
    ):
      if versus and not row[columns[0]]:
        first = row['classifier']
      elif row[columns[0]]:
        own = estimate(table, row['classifier'], quantity, versus and first, **keys)
        expected = [float(row[column] or 'nan') for column in columns]
        assert [own[end] for end in ends] == pytest.approx(expected, abs=1e-9, nan_ok=True)
        assert versus or own.n == int(row['images']) or quantity != 'accuracy'
        assert not versus or own.p == pytest.approx(float(row['p'] or 'nan'), nan_ok=True)
        assert own.note == (row['note'] if versus else '')
        count += 1
  own = (table.quantity == 'effective_robustness') | (table.quantity == 'accuracy')
  assert count == own.sum()


@pytest.fixture
def workdirs(tmp_path: pathlib.Path) -> tuple[str, str]:
  finished_runs.write(tmp_path / 'one', {'net': FIRST})
  finished_runs.write(tmp_path / 'other', {'net': SECOND})
  return str(tmp_path / 'one'), str(tmp_path / 'other')


def test_runs_on_the_same_images_are_paired(
  workdirs: tuple[str, str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  out = tmp_path / 'out'
  assert program.main([*workdirs, f'--out={out}']) == 0
  assert 'other' in capsys.readouterr().out
  one, other = rows(out)
  assert (one['classifier'], other['classifier'], other['paired']) == ('one', 'other', 'yes')
  first, second = np.array(FIRST), np.array(SECOND)
  b, c = (first & ~second).sum(), (second & ~first).sum()
  error, low, high = paired_difference(b, c, COUNT)
  assert float(other['accuracy']) == pytest.approx(second.mean())
  assert float(other['minus the first']) == pytest.approx(-error)
  assert float(other['difference low']) == pytest.approx(-high)
  assert float(other['p']) == pytest.approx(float(mcnemar(b, c)))
  document = json.loads((out / 'results.json').read_text())
  assert document['tables']['comparison']['rows'][1][2] == 'other'
  assert 'minus the first' in (out / 'report.html').read_text()
  together = Results.read(out / 'parts' / 'study')
  assert together.numbers['one/top1_accuracy'].value == pytest.approx(first.mean())
  assert together.tables['comparison'].rows[0][:4] == ['one', 'other', int(b), int(c)]
  assert_table_is_comparison(out)
  table = Results.read(out).table
  own = table[table.quantity == 'top1_accuracy'].drop(columns=['part', 'view'])
  expected = together.table[together.table.quantity == 'top1_accuracy']
  pd.testing.assert_frame_equal(own.reset_index(drop=True), expected.reset_index(drop=True))


def test_classifiers_have_one_label_in_all_parts_of_batteries(
  tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  """Of the first battery the second part lacks a classifier: there are differences from another."""
  for name, labels in (('a', ('net', 'other')), ('b', ('net', 'other'))):
    clean = {label: FIRST if label == 'net' else SECOND for label in labels}
    shifted = {'other': SECOND} if name == 'a' else clean
    plain = finished_runs.write(tmp_path / f'{name}_plain', clean)
    fog = finished_runs.write_corrupted(tmp_path / f'{name}_fog', shifted, shifted)
    finished_runs.write_battery(tmp_path / name, {'clean': plain, 'fog': fog})
  out = tmp_path / 'out'
  assert program.main([str(tmp_path / 'a'), str(tmp_path / 'b'), f'--out={out}']) == 0
  labels = {part: {r['classifier'] for r in rows(out) if r['part'] == part} for part in PARTS}
  assert labels['clean'] == {'a net', 'a other', 'b net', 'b other'}
  assert labels['fog'] == {'a other', 'b net', 'b other'}
  notes = {r['note'] for r in rows(out) if r['part'] == 'fog' and r['minus the first']}
  assert notes == {'minus a other: a net is not in this part'}
  assert not any('minus' in r['note'] for r in rows(out) if r['part'] == 'clean')
  assert capsys.readouterr().out.startswith('part ')
  assert_table_is_comparison(out)


def test_the_order_of_the_images_does_not_matter(tmp_path: pathlib.Path) -> None:
  order = np.random.default_rng(0).permutation(COUNT)
  finished_runs.write(tmp_path / 'a', {'net': FIRST})
  finished_runs.write(tmp_path / 'b', {'net': np.array(SECOND)[order].tolist()}, order.tolist())
  finished_runs.write(tmp_path / 'c', {'net': SECOND})
  tables = []
  for name in 'bc':
    out = tmp_path / f'out_{name}'
    program.run([str(tmp_path / 'a'), f'second={tmp_path / name}'], out)
    tables.append(rows(out))
  assert tables[0] == tables[1]
  assert tables[0][1]['classifier'] == 'second'


def test_other_data_are_not_paired(tmp_path: pathlib.Path) -> None:
  finished_runs.write(tmp_path / 'a', {'net': FIRST})
  finished_runs.write(tmp_path / 'b', {'net': SECOND}, data={'source': 'folder', 'path': '/x'})
  results = program.run([str(tmp_path / 'a'), str(tmp_path / 'b')], tmp_path / 'out')
  _, other = rows(tmp_path / 'out')
  assert (other['paired'], other['p'], other['note']) == ('no', '', 'other images')
  assert float(other['difference low']) < float(other['minus the first'])
  reasons = results.tables['not compared by the study itself'].rows
  assert reasons == [['study', 'not all classifiers were shown the same images']]
  assert_table_is_comparison(tmp_path / 'out')


def test_images_shared_in_part_are_refused_or_compared_alone(tmp_path: pathlib.Path) -> None:
  finished_runs.write(tmp_path / 'a', {'net': FIRST})
  finished_runs.write(tmp_path / 'b', {'net': SECOND[:30]}, range(10, 40))
  given = [str(tmp_path / 'a'), str(tmp_path / 'b')]
  with pytest.raises(InputError, match=r'a and b share 30 of 40 and 30 images.*--common'):
    program.run(given, tmp_path / 'out')
  results = program.run(given, tmp_path / 'out', common=True)
  _, other = rows(tmp_path / 'out')
  difference = np.mean(SECOND[:30]) - np.mean(FIRST[10:])
  assert float(other['minus the first']) == pytest.approx(difference)
  assert 'the 30 shared images' in other['note']
  assert results.numbers['study/a/top1_accuracy'].n == 30


def test_changed_files_are_refused(tmp_path: pathlib.Path) -> None:
  finished_runs.write(tmp_path / 'a', {'net': FIRST}, digests=range(COUNT))
  finished_runs.write(tmp_path / 'b', {'net': SECOND}, digests=range(1, COUNT + 1))
  with pytest.raises(InputError, match='the files were changed between the runs'):
    program.run([str(tmp_path / 'a'), str(tmp_path / 'b')], tmp_path / 'out')


def versions(seed: int) -> np.ndarray:
  """Returns what a classifier gets right, clean and in four views: bool [40, 5], alike by image."""
  generator = np.random.default_rng(seed)
  return generator.normal(size=(COUNT, 1)) + 0.3 * generator.normal(size=(COUNT, 5)) > -0.5


@pytest.mark.parametrize('paired', [True, False])
def test_versions_of_an_image_that_are_stored_are_not_images_of_their_own(
  tmp_path: pathlib.Path, paired: bool
) -> None:
  """The table is that of the same images corrupted in the run: by corruption, without the clean
  ones, over 40 images."""
  tables = []
  for stored in (True, False):
    folder = tmp_path / f'stored_{stored}'
    for seed, name in enumerate('ab'):
      own = {'net': versions(seed)}
      other = 0 if paired or name == 'a' else 1000
      finished_runs.write_versions(folder / name, own, stored, first_digest=other)
    results = program.run([str(folder / 'a'), str(folder / 'b')], folder / 'out')
    assert ('study/b/mean_error/shown' in results.numbers) == paired
    tables.append(rows(folder / 'out'))
  assert tables[0] == tables[1]
  assert {row['images'] for row in tables[0]} == {str(COUNT)}
  assert [row['views'] for row in tables[0][::2]] == [
    *('clean', 'fog', 'contrast', 'severity 1', 'severity 5', 'shown')
  ]
  a, b = (versions(seed)[:, 1:].sum(1, dtype=int) for seed in (0, 1))
  together = tables[0][-1]
  assert together['p'] == (str(float(sign_flip(b - a))) if paired else '')


def with_severity(workdir: pathlib.Path, old: int, new: int) -> str:
  """Changes a severity of stored rows."""
  records = Records.open(workdir / 'records' / 'net')
  arrays = dict(records.read(0, 0).arrays)
  arrays['severity'] = np.where(arrays['severity'] == old, new, arrays['severity'])
  records.write(0, 0, arrays)
  return str(workdir)


def test_only_views_that_all_have_are_compared(tmp_path: pathlib.Path) -> None:
  """Means over other severities, and clean images that one run alone has, are left out."""
  made = {name: tmp_path / name for name in 'abc'}
  finished_runs.write_versions(made['a'], {'net': versions(0)}, True)
  finished_runs.write_versions(made['b'], {'net': versions(1)}, True, False, 1000)
  finished_runs.write_versions(made['c'], {'net': versions(2)}, True, False, 2000)
  program.run([str(made['a']), str(made['b'])], tmp_path / 'out')
  views = [row['views'] for row in rows(tmp_path / 'out')[::2]]
  assert views == ['fog', 'contrast', 'severity 1', 'severity 5', 'shown']
  program.run([str(made['a']), with_severity(made['b'], 5, 3)], tmp_path / 'out')
  assert [row['views'] for row in rows(tmp_path / 'out')[::2]] == ['severity 1']
  with pytest.raises(InputError, match=r'b, .*c have no group of views in common'):
    program.run([str(made['b']), with_severity(made['c'], 1, 3)], tmp_path / 'out')


def scenes(
  folder: pathlib.Path, stored: bool, labels: Sequence[str] = ('one', 'two')
) -> pathlib.Path:
  """Writes a workdir of 12 pairs of 4 objects at 3 places; scenes that do not count are wrong in
  the first classifier's answers and right in the second's."""
  places = (0.1, 0.5, 0.9)
  size = np.stack([20 + 0 * PAIRS, 20 + 4 * (PAIRS // 3)], 1)
  study = si_score.Study(factor='cross', areas=(0.2,), xs=places, min_inside=0.75)
  columns = {'object': PAIRS // 3, 'background': PAIRS % 3, 'imagenet_class': 105 + 0 * PAIRS}
  composed = {**columns, 'foreground_size': size}
  counted = study._fractions(composed.__getitem__, finished_runs.SHAPE[0]) >= np.float32(0.75)
  assert 0 < counted.mean() < 1
  drawn = np.random.default_rng(0).random((2, *counted.shape)) > 0.4
  right = {
    label: np.where(counted, own, index == 1)
    for index, (label, own) in enumerate(zip(labels, drawn, strict=True))
  }
  if not stored:
    return finished_runs.write_scenes(folder, study, right, composed)
  pair, level = np.divmod(np.arange(counted.size), len(places))
  of_scene = {
    **{name: values[pair] for name, values in columns.items()},
    'fraction_inside': np.where(counted, 1, 0.1).ravel(),
    **{k: getattr(study.design, k)[level] for k in ('x', 'y', 'area', 'angle')},
  }
  released = si_score.Study(factor='location', stored=True, min_inside=0.75)
  single = {label: own.reshape(-1, 1) for label, own in right.items()}
  return finished_runs.write_scenes(folder, released, single, of_scene)


PAIRS = np.arange(12)


@pytest.mark.parametrize('stored', [True, False])
def test_scenes_that_do_not_count_are_left_out_and_objects_are_the_clusters(
  tmp_path: pathlib.Path, stored: bool
) -> None:
  run = scenes(tmp_path / 'run', stored)
  numbers = Results.read(run).numbers
  table = program.run([str(run)], tmp_path / 'out').tables['comparison']
  one, two = (dict(zip(table.columns, row, strict=True)) for row in table.rows[-2:])
  assert one['views'] == ('as stored' if stored else 'all views')
  for row in (one, two):
    number = numbers[f'{row["classifier"]}/accuracy']
    assert (row['images'], row['accuracy'], row['low'], row['high']) == (
      number.n,
      *(pytest.approx(end) for end in (number.value, number.low, number.high)),
    )
  assert two['minus the first'] == pytest.approx(two['accuracy'] - one['accuracy'])
  assert two['p'] > 0.1, 'four objects'
  found = Results.read(tmp_path / 'out').table
  own = estimate(found, two['classifier'], 'accuracy', part='study', view=two['views'])
  assert (own.value, own.low, own.n) == (two['accuracy'], two['low'], two['images'])
  assert own.clusters == 4 < own.n


def test_enough_classifiers_have_effective_robustness(tmp_path: pathlib.Path) -> None:
  """Clean accuracies .9, .8, .7, .6 and shifted ones .1 lower, but for the last, which is .3 up."""
  clean = {f'net{i}': (np.arange(COUNT) >= 4 * (i + 1)).tolist() for i in range(4)}
  shifted = {
    name: (np.arange(COUNT) >= 4 * (i + 2) - (12 if i == 3 else 0)).tolist()
    for i, name in enumerate(clean)
  }
  finished_runs.write_corrupted(tmp_path / 'run', clean, shifted)
  program.run([str(tmp_path / 'run')], tmp_path / 'out')
  by_classifier = {r['classifier']: r for r in rows(tmp_path / 'out') if r['views'] == 'fog'}
  assert float(by_classifier['net3']['effective robustness']) > 0.2
  assert float(by_classifier['net3']['effective low']) > 0
  assert abs(float(by_classifier['net1']['effective robustness'])) < 0.1
  assert_table_is_comparison(tmp_path / 'out')


def test_what_a_study_finds_by_the_same_facets_stands_once(tmp_path: pathlib.Path) -> None:
  """Calibration has accuracy by corruption too, without intervals; that compared has one."""
  for seed, name in enumerate('ab'):
    run = tmp_path / name
    finished_runs.write_versions(run, {'net': versions(seed)}, False, name='calibration')
  program.run([str(tmp_path / 'a'), str(tmp_path / 'b')], tmp_path / 'out')
  table = Results.read(tmp_path / 'out').table
  for facets in ({'corruption': 'fog'}, {'view': 'clean'}):
    row = estimate(table, 'b', 'accuracy', part='study', **facets)
    assert row.low < row.value < row.high
  alone = estimate(table, 'b', 'accuracy', part='study', corruption='fog', severity=1)
  assert alone.value == pytest.approx(versions(1)[:, 1].mean()) and np.isnan(alone.low)
  assert estimate(table, 'b', 'ece', 'a', part='study', corruption='fog').method == 'bootstrap'


@pytest.mark.parametrize(
  ('second', 'message'), [('nowhere', 'is no workdir'), ('one', 'have one name')]
)
def test_workdirs_that_cannot_be_compared(
  workdirs: tuple[str, str],
  tmp_path: pathlib.Path,
  second: str,
  message: str,
  capsys: pytest.CaptureFixture[str],
) -> None:
  arguments = [workdirs[0], str(tmp_path / second), f'--out={tmp_path / "out"}']
  assert program.main(arguments) == 2
  assert message in capsys.readouterr().err
  assert not (tmp_path / 'out').exists()


def test_different_studies_and_unfinished_ones_are_refused(
  workdirs: tuple[str, str], tmp_path: pathlib.Path
) -> None:
  clean = {'net': FIRST}
  finished_runs.write_corrupted(tmp_path / 'fog', clean, clean)
  with pytest.raises(InputError, match='of the study accuracy and .* of corruption_error'):
    program.run([workdirs[0], str(tmp_path / 'fog')], tmp_path / 'out')
  finished_runs.write_corrupted(tmp_path / 'five', clean, clean, severity=5)
  with pytest.raises(InputError, match=r'show their images differently.*severities: \(1,\)'):
    program.run([str(tmp_path / 'fog'), str(tmp_path / 'five')], tmp_path / 'out')
  next(pathlib.Path(workdirs[1]).glob('records/*/*.npz')).unlink()
  with pytest.raises(InputError, match='not finished'):
    program.run(list(workdirs), tmp_path / 'out')
  with pytest.raises(InputError, match='at least two classifiers'):
    program.run([workdirs[0]], tmp_path / 'out')
  with pytest.raises(InputError, match='which is a workdir'):
    program.run(list(workdirs), pathlib.Path(workdirs[0]))
