"""`robustness correlations` correlates pairs of quantities over the networks of workdirs."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness import __main__
from robustness.estimates.means import Estimate, estimate_row, table_of_rows
from robustness.estimates.quantity import declare_accuracy, declare_error
from robustness.estimates.table import assemble
from robustness.results import DIGEST_OF_IMAGES, WHICH_NUMBERS, Results, Table
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures('undrawn')
CLEAN = declare_accuracy('clean_accuracy', 'accuracy on clean images', headline=True)
FOG = declare_error('error', 'error in fog', headline=True)
NAMES = tuple('abcdef')
VALUES = {CLEAN: (0.9, 0.8, 0.7, 0.6, 0.5, 0.4), FOG: (0.3, 0.2, 0.4, 0.6, 0.5, 0.7)}


def write(folder, quantities=(CLEAN, FOG), names=NAMES, **changes):
  """Writes results of networks with these quantities; returns the folder's path."""
  rows = [
    estimate_row(
      name, '', quantity, {}, Estimate(value, value - 0.01, value + 0.01, 99, 99, 'exact'), 0.95
    )
    for quantity in quantities
    for name, value in zip(NAMES, VALUES[quantity], strict=True)
    if name in names
  ]
  results = Results(
    'made',
    [{'label': name, 'sha256': name} for name in names],
    {'num_examples': 99},
    {'name': 'made'},
    table=assemble([table_of_rows(rows)]),
    quantities=tuple(quantities),
  )
  dataclasses.replace(results, **changes).write(folder)
  return str(folder)


def correlated(tmp_path, *paths) -> pd.DataFrame:
  """Runs the command on paths and returns its table."""
  assert __main__.main(['correlations', *paths, f'--out={tmp_path / "out"}']) == 0
  return Results.read(tmp_path / 'out').table


def test_ranks_are_of_better_networks_over_several_folders(tmp_path, capsys, monkeypatch):
  monkeypatch.undo()  # draws the figure
  (tmp_path / 'board').mkdir()
  write(tmp_path / 'board' / 'clean', (CLEAN,))
  write(tmp_path / 'board' / 'fog', (FOG,), NAMES[:5])
  table = correlated(tmp_path, str(tmp_path / 'board'))
  expected = stats.spearmanr(VALUES[CLEAN][:5], -np.array(VALUES[FOG][:5])).statistic
  assert table['value'].item() == pytest.approx(expected) and table.n.item() == 5
  assert (table['first'].item(), table.second.item()) == (CLEAN.words, FOG.words)
  assert (tmp_path / 'out/figures/scatter.png').stat().st_size > 0
  values = Results.read(tmp_path / 'out').tables['values of the networks']
  assert values.rows[5] == ['f', 0.4, None]
  assert 'rank correlation' in capsys.readouterr().out.lower()


def test_a_correlation_over_few_networks_is_printed_without_an_interval(tmp_path, capsys):
  for names, has_interval in ((NAMES, True), (NAMES[:3], False)):
    correlated(tmp_path, write(tmp_path / f'{len(names)}', names=names))
    printed = capsys.readouterr().out.splitlines()[1]
    assert printed.endswith(f'  {len(names)}')
    assert ('(' in printed, 'nan' in printed) == (has_interval, False)


def test_a_name_sets_the_quantities_of_a_path_apart(tmp_path):
  first = write(tmp_path / 'first')
  second = write(tmp_path / 'second', data={'num_examples': 50})
  table = correlated(tmp_path, first, f'other={second}')
  assert len(table) == 6
  assert {*table.second} == {FOG.words, f'other: {CLEAN.words}', f'other: {FOG.words}'}


def test_networks_of_folders_with_one_name_stay_apart(tmp_path):
  paths = [
    write(tmp_path / parent / 'run', classifiers=[{'label': 'a', 'sha256': parent}])
    for parent in ('x', 'y', 'z')
  ]
  correlated(tmp_path, *paths)
  rows = Results.read(tmp_path / 'out').tables['values of the networks'].rows
  assert [row[0] for row in rows] == ['a', 'run: a', f'{tmp_path}/z/run: a']


def test_networks_without_a_digest_are_told_apart_by_their_labels(tmp_path):
  functions = [{'label': name, 'kind': 'function'} for name in NAMES]
  table = correlated(tmp_path, write(tmp_path / 'functions', classifiers=functions))
  assert table.n.item() == 6


def test_repeated_different_or_missing_quantities_are_refused(tmp_path, capsys):
  from robustness.cli.correlations import correlations, values_by_quantity

  first, again = write(tmp_path / 'first'), write(tmp_path / 'again')
  refused(
    'again measures accuracy on clean images again, for the same',
    values_by_quantity,
    [first, again],
  )
  other = write(tmp_path / 'other', (CLEAN,), settings={'name': 'made', 'severity': 3})
  refused('severity.*give it another name, NAME=', values_by_quantity, [first, other])
  stated = [
    {WHICH_NUMBERS: Table(('what', 'value'), [[DIGEST_OF_IMAGES, digest]])} for digest in 'xy'
  ]
  renewed = [
    write(tmp_path / f'renewed {index}', (CLEAN,), NAMES[index : index + 1], tables=tables)
    for index, tables in enumerate(stated)
  ]
  refused("images: 'x' → 'y': give it another name", values_by_quantity, renewed)
  (tmp_path / 'empty').mkdir()
  refused('holds no results.json', values_by_quantity, [str(tmp_path / 'empty')])
  single = write(tmp_path / 'single', (CLEAN,))
  refused('no two quantities in common', correlations, values_by_quantity([single]))
  assert __main__.main(['correlations', str(tmp_path / 'empty'), f'--out={tmp_path}/b']) == 2
  assert 'holds no results.json' in capsys.readouterr().err
