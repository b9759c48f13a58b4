"""Comparisons of workdirs: paired where they share images, refused where they nearly do."""

from __future__ import annotations

import csv
import json
import pathlib

import numpy as np
import pytest

from robustness.compare import __main__ as program
from robustness.core.errors import InputError
from robustness.estimates.comparison import mcnemar, paired_difference
from robustness.results import Results
from tests import finished_runs

COUNT = 40
FIRST = (np.arange(COUNT) % 4 > 0).tolist()
PARTS = ('clean', 'fog')
SECOND = (np.arange(COUNT) % 10 > 0).tolist()


def rows(out: pathlib.Path) -> list[dict[str, str]]:
  with (out / 'comparison.csv').open() as file:
    return list(csv.DictReader(file))


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
