"""No command trusts the workdirs and leaderboard entries of strangers.

It runs none of their files, writes only to its folder, ends, and refuses impossible values.
"""

import itertools
import json
import os
import re
import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest

from robustness.__main__ import main
from robustness.results import Results
from robustness.workdirs import workdir
from tests import finished_runs
from tests.cases import cases
from tests.finished_runs import edit as change
from tests.refusals import refused

COUNT = 20


@pytest.fixture(scope='module')
def written(tmp_path_factory):
  """A folder with two finished workdirs: `a` has 5 of 20 images right and `b` 10 of 20."""
  board = tmp_path_factory.mktemp('board')
  for name, num_right in (('a', 5), ('b', 10)):
    right = {name: [k < num_right for k in range(COUNT)]}
    path = finished_runs.write(board / name, right, digests=range(COUNT))
    workdir.write_json(path / workdir.ENVIRONMENT, workdir.environment('python main.py'))
    finished_runs.state_images(path, COUNT, 'aaa')
  return board


@pytest.fixture
def runs(written, tmp_path):
  """A copy of the folder `written` that a test may change."""
  return shutil.copytree(written, tmp_path / 'board')


def rewrite_table(folder, **columns):
  """Sets columns of results.csv, in all rows."""
  table = pd.read_csv(folder / 'results.csv', keep_default_na=False)
  table.assign(**columns).to_csv(folder / 'results.csv', index=False, lineterminator='\n')


PRIVATE = """
import dataclasses
import pathlib
from robustness.studies.accuracy import Accuracy
pathlib.Path(__file__).with_name('was_run').touch()

@dataclasses.dataclass(frozen=True)
class Mine(Accuracy):
  title = 'Written by its user'
"""


def make_private(folder):
  """Changes a workdir to one of a study in a user's file.

  Returns:
    The name of the study, and the path of a file that exists after the user's file was run.
  """
  file = folder.parent.parent / 'x.py'
  file.write_text(PRIVATE)
  reference, mine = f'{file}:Mine', {'name': 'Mine', 'file': 'x.py', 'file_sha256': 'abc'}
  change(folder / 'config.json', lambda d: d['study'].update(name=reference))
  change(folder / 'results.json', lambda d: (d.update(study='Mine'), d['settings'].update(mine)))
  return reference, file.with_name('was_run')


def commands(runs, out):
  """Returns the arguments of each command that reads a workdir, by a name."""
  a, b = runs / 'a', runs / 'b'
  return {
    'report': ['report', str(a)],
    'table': ['table', str(a), str(b)],
    'compare': ['compare', str(a), str(b), f'--out={out / "compared"}'],
    'check': ['leaderboard', str(runs), '--check'],
    'page': ['leaderboard', str(runs), f'--out={out / "site"}'],
    'add': ['leaderboard', str(out), f'--add=new={a}'],
    'methods': ['export', str(a), '--to=methods'],
    'hub': ['export', str(a), '--to=hub', f'--out={out / "hub"}'],
  }


@pytest.mark.parametrize('command', ['report', 'table', 'compare', 'check', 'page', 'add', 'hub'])
def test_a_study_in_a_file_is_read_without_running_the_file(runs, tmp_path, command, capsys):
  for name in 'ab':
    _, trace = make_private(runs / name)
  assert main(commands(runs, tmp_path / 'out')[command]) == 0, capsys.readouterr().err
  assert not trace.exists()


@pytest.mark.parametrize('command', ['report', 'compare', 'page'])
def test_a_study_in_a_file_is_run_where_the_user_types_it(runs, tmp_path, command, capsys):
  for name in 'ab':
    reference, trace = make_private(runs / name)
  words = commands(runs, tmp_path / 'out')[command]
  assert main([*words, '--study=other.py:Other']) == 2
  assert '--study is' in capsys.readouterr().err and not trace.exists()
  assert main([*words, f'--study={reference}']) == 0, capsys.readouterr().err
  assert trace.exists()
  if command == 'report':
    assert 'Written by its user' in (runs / 'a/report.html').read_text()


SECTIONS = {
  'study': {'name': 'attack_error', 'attacks': ['{}:Mine']},
  'classifier': {'name': '{}:Mine', 'augment': {'policy': ['{}:Mine']}},
  'battery': {'tasks': ['t'], 't': {'study': {'name': '{}:Mine'}}, 'summary': {'name': '{}:Mine'}},
}


@pytest.mark.parametrize(
  'key',
  ['study', *(pytest.param(key, marks=pytest.mark.slow) for key in ('classifier', 'battery'))],
)
def test_no_file_that_any_section_of_a_config_names_is_run(runs, tmp_path, key, capsys):
  _, trace = make_private(runs / 'a')
  text = json.dumps(SECTIONS[key]).replace('{}:', f'{tmp_path}/x.py:')
  for name in 'ab':
    change(runs / name / 'config.json', lambda document: document.update({key: json.loads(text)}))
  for words in commands(runs, tmp_path / 'out').values():
    main(words)
    assert not trace.exists(), (words, capsys.readouterr().err)


def name_study(document):
  document['study'] = '../../victim'


def name_task(document):
  document['quantities'] = {'../../victim': document['quantities']}


@cases(
  'edit, message',
  (name_study, r"study names '\.\./\.\./victim'; a folder is named so"),
  (name_task, r"tasks names '\.\./\.\./victim'"),
  (lambda d: d['quantities'][0].update(name='../x'), r"quantities names '\.\./x'"),
  (lambda d: d['classifiers'][0].update(label='../x'), r"classifiers names '\.\./x'"),
  (lambda d: d['classifiers'][0].update(label='\x1b[2J'), r"classifiers names '\\x1b\[2J'"),
  (lambda d: d['classifiers'].append(d['classifiers'][0]), "2 classifiers have the label 'a'"),
  (lambda d: d['classifiers'][0].update(seeds=[1]), 'seeds is a list; expected an object'),
  (lambda d: d['classifiers'][0].update(augment=[1]), r'augment\[0\] is 1; expected an object'),
  (lambda d: d['settings'].update(seeds=1), 'settings.seeds is 1; expected a list'),
  (lambda d: d.update(x=json.loads('[' * 900 + ']' * 900)), 'nested too deeply'),
)
def test_results_that_no_run_writes_are_refused_by_name(runs, edit, message):
  change(runs / 'a/results.json', edit)
  refused(message, Results.read, runs / 'a')


def test_no_command_writes_where_a_name_in_results_points(runs, tmp_path, capsys):
  change(runs / 'a/results.json', name_study)
  for name in ('report', 'table', 'check', 'page'):
    status = main(commands(runs, tmp_path / 'out')[name])
    error = capsys.readouterr().err
    assert status == (1 if name in ('check', 'page') else 2) and "names '../../victim'" in error
  assert not [*tmp_path.parent.rglob('victim*')]


READING = ('report', 'table', 'check', 'methods', 'hub')
"""Names of commands that print values of a workdir."""


@cases(
  'columns, message, names',
  ({'n': -5}, r'n is -5, outside', ['table']),
  ({'confidence': 7}, r'confidence is 7, outside \[0, 1\]', ['table']),
  ({'value': 2.5}, r'is 2.5, outside \[0, 1\]', READING),
  ({'value': 0.999}, 'its answers do not give its top1_accuracy of a, value 0.999', READING),
  ({'low': 0.3}, 'its answers do not give its top1_accuracy of a, low 0.3', ['table']),
  ({'low': 0.9, 'high': 0.8}, 'low is 0.9, above high, 0.8', ['table']),
  ({'classifier': 'other'}, 'estimates of top1_accuracy of a in .* are not those that', ['table']),
  ({'extra': 1}, "the column 'extra', which results.json does not declare", ['table']),
)
def test_an_edited_table_is_refused_by_all_commands(
  runs, tmp_path, columns, message, names, capsys
):
  rewrite_table(runs / 'a', **columns)
  for name in names:
    assert main(commands(runs, tmp_path / 'out')[name])
    assert re.search(message, capsys.readouterr().err)


def state_other_version(folder, **changed):
  """Writes into results.json that another commit of the package made the results."""
  other = {**workdir.code_version(), 'git_commit': 'f' * 40, **changed}
  change(folder / 'results.json', lambda document: document.update(environment=other))


@cases(
  'name, value, names',
  ('value', 0.24, (*READING, 'page')),
  ('low', 0.01, ['table']),
  ('confidence', 0.9, ['table']),
)
def test_other_values_of_another_version_are_marked(runs, tmp_path, name, value, names, capsys):
  table = pd.read_csv(runs / 'a/results.csv', keep_default_na=False)
  table.loc[0, name] = value
  table.to_csv(runs / 'a/results.csv', index=False, lineterminator='\n')
  assert main(commands(runs, tmp_path / 'out')['table'])
  assert 'altered, or of another version' in capsys.readouterr().err
  state_other_version(runs / 'a')
  message = '1 value not reproduced by this version'
  for command in names:
    assert main(commands(runs, tmp_path / 'out')[command]) == 0
    output = capsys.readouterr()
    assert output.err.count(message) == 1, command
    assert name != 'value' or command != 'table' or '| 24.0' in output.out
  if name == 'value':
    assert main(commands(runs, tmp_path / 'out')['compare']) == 0
    for page in (runs / 'a/report.html', tmp_path / 'out/site/report.html'):
      assert message in page.read_text()
    assert message in (tmp_path / 'out/hub/robustness.md').read_text()


@pytest.mark.slow
def test_equal_values_of_another_version_have_no_mark(runs, tmp_path, capsys):
  for name in 'ab':
    state_other_version(runs / name)
  for name in ('report', 'table', 'check', 'page'):
    assert main(commands(runs, tmp_path / 'out')[name]) == 0
    assert 'reproduced' not in capsys.readouterr().err


def test_absent_values_of_another_version_are_counted(runs, capsys):
  file = runs / 'a/results.csv'
  file.write_text(''.join(file.read_text().splitlines(True)[:-1]))
  assert main(['table', str(runs / 'a')]) == 2
  assert 'are not those that its records give' in capsys.readouterr().err
  state_other_version(runs / 'a')
  assert main(['table', str(runs / 'a')]) == 0
  message = 'note: a: 0 values not reproduced by this version, 1 of this version absent'
  assert capsys.readouterr().err.splitlines() == [message]


@pytest.mark.parametrize('key', ['git_commit', 'robustness'])
def test_records_that_this_version_cannot_reduce_are_a_mark_where_another_wrote_them(
  runs, tmp_path, key, capsys
):
  change(runs / 'a/config.json', lambda document: document['study'].update(gone=1))
  assert main(['table', str(runs / 'a')]) == 2
  assert 'config.study.gone' in capsys.readouterr().err
  state_other_version(runs / 'a', **{key: 'other'})
  assert main(['table', str(runs / 'a')]) == 0
  assert 'all values not reproduced by this version (' in capsys.readouterr().err


def test_an_impossible_value_is_refused_from_another_version_too(runs):
  state_other_version(runs / 'a')
  rewrite_table(runs / 'a', value=2.5)
  refused(r'is 2.5, outside \[0, 1\]', Results.read, runs / 'a')


@pytest.mark.parametrize('data', [[1], 1, {'num_examples': 'x'}, {'image_shape': 3}])
def test_impossible_data_is_refused_without_records_too(runs, data, capsys):
  shutil.rmtree(runs / 'a/records')
  change(runs / 'a/results.json', lambda document: document.update(data=data))
  assert main(['leaderboard', str(runs), '--check']) == 1
  assert re.match('error: a: .*data', capsys.readouterr().err)


@pytest.mark.parametrize('stride', [4, pytest.param(1, marks=pytest.mark.slow)])
def test_damaged_arrays_are_refused_in_one_line(runs, capsys, stride):
  """Damages each array in three ways; the quick test takes every fourth pair of both."""
  run = finished_runs.write_corrupted(runs.parent / 'c', {'c': [True, False]}, {'c': [False] * 2})
  workdir.write_json(run / workdir.ENVIRONMENT, workdir.environment('python main.py'))
  with np.load(run / 'results.npz') as arrays:
    arrays = dict(arrays)
  assert main(['report', str(run)]) == 0
  capsys.readouterr()
  statuses, damaged = [], (np.zeros(3), np.array(['x']), np.zeros((0, 2, 2, 2, 2, 2)))
  for name, array in [*itertools.product(arrays, damaged)][::stride]:
    np.savez(run / 'results.npz', **{**arrays, name: array})
    status, output = main(['report', str(run)]), capsys.readouterr()
    is_refused = output.err.startswith('error: ') and 'results.npz' in output.err
    statuses.append(status)
    assert status == 0 or (is_refused and output.err.count('\n') == 1), output.err
  assert 2 in statuses


def test_an_interval_that_leaves_out_its_value_is_refused_without_records(runs, capsys):
  shutil.rmtree(runs / 'a/records')
  rewrite_table(runs / 'a', low=0.3, high=0.4)
  assert main(['leaderboard', str(runs), '--check']) == 1
  assert 'is 0.25, outside of its interval, [0.3, 0.4]' in capsys.readouterr().err


@pytest.mark.slow
def test_values_without_records_are_marked(runs, tmp_path, capsys):
  words = 'not verifiable from records'
  for name in ('report', 'table', 'page'):
    assert main(commands(runs, tmp_path / 'out')[name]) == 0
    assert words not in capsys.readouterr().err
  for name in 'ab':
    shutil.rmtree(runs / name / 'records')
  for name in ('report', 'table', 'methods'):
    assert main(commands(runs, tmp_path / 'out')[name]) == 0
    assert words in capsys.readouterr().err
  assert words in (runs / 'a/report.html').read_text()
  assert main(commands(runs, tmp_path / 'again')['page']) == 0
  assert words in (tmp_path / 'again/site/report.html').read_text()


def test_a_report_is_not_replaced_by_one_with_less_in_it(runs, capsys):
  assert main(['report', str(runs / 'a')]) == 0
  page = (runs / 'a/report.html').read_bytes()
  table, text = runs / 'a/results.csv', (runs / 'a/results.csv').read_text()
  table.write_text(text.splitlines()[0] + '\n')
  assert main(['report', str(runs / 'a')]) == 2
  assert 'holds no estimate' in capsys.readouterr().err
  change(runs / 'a/results.json', lambda document: document.update(quantities=[]))
  shutil.rmtree(runs / 'a/records')
  assert main(['report', str(runs / 'a')]) == 2
  assert 'has more rows of' in capsys.readouterr().err
  assert (runs / 'a/report.html').read_bytes() == page


def test_special_files_and_bombs_are_refused(runs, tmp_path, capsys):
  def refusal():
    """Returns what is printed by two commands that refuse the workdir."""
    error = capsys.readouterr().err
    assert main(['leaderboard', str(runs), '--check']) == 1
    assert main(['report', str(runs / 'a')]) == 2
    return error + capsys.readouterr().err

  table = runs / 'a/results.csv'
  content = table.read_bytes()
  table.unlink()
  table.symlink_to('/dev/zero')
  assert 'a/results.csv is a link' in refusal()
  table.unlink()
  os.mkfifo(table)
  assert 'a/results.csv is a device, a pipe or a socket' in refusal()
  table.unlink()
  table.write_bytes(content)
  with (
    zipfile.ZipFile(runs / 'a/results.npz', 'w', zipfile.ZIP_DEFLATED) as archive,
    archive.open('a.npy', 'w') as member,
  ):
    # 300 MiB of zeros: a small archive that inflates above the limit of 256 MiB
    header = {'descr': '|u1', 'fortran_order': False, 'shape': (300 * 2**20,)}
    np.lib.format.write_array_header_1_0(member, header)
    for _ in range(300):
      member.write(bytes(2**20))
  assert 'it inflates to 300 MiB, above 256 MiB' in refusal()


def test_a_board_is_made_of_the_valid_entries(runs, tmp_path, capsys):
  (tmp_path / 'file').touch()
  assert main(['leaderboard', str(runs), f'--out={tmp_path / "file"}']) == 2
  assert 'is a file: name a folder' in capsys.readouterr().err
  shutil.copytree(runs / 'b', runs / 'new\nline\x1b')
  for name in 'ab':
    change(runs / name / 'results.json', name_study)
  assert main(['leaderboard', str(runs), f'--out={tmp_path / "site"}']) == 1
  error = capsys.readouterr().err
  assert 'error: a: ' in error and r"error: 'new\nline\x1b': " in error
  assert 'entries left out' in (tmp_path / 'site/report.html').read_text().lower()


def test_an_entry_that_words_a_quantity_differently_is_the_one_refused(runs, capsys):
  shutil.copytree(runs / 'a', runs / '0')
  shutil.rmtree(runs / '0/records')
  change(runs / '0/results.json', lambda d: d['quantities'][0].update(words='other'))
  assert main(['leaderboard', str(runs), '--check']) == 1
  assert capsys.readouterr().err.startswith('error: 0: it declares the quantity top1_accuracy')


def test_a_fault_that_no_check_foresees_leaves_out_its_entry_alone(
  runs, tmp_path, monkeypatch, capsys
):
  from robustness.cli import leaderboard

  build = leaderboard.boards_of

  def failing(entries, *arguments):
    if any(entry.name == 'a' for entry in entries):
      raise KeyError('unforeseen')
    return build(entries, *arguments)

  monkeypatch.setattr(leaderboard, 'boards_of', failing)
  assert main(['leaderboard', str(runs), f'--out={tmp_path / "site"}']) == 1
  output = capsys.readouterr()
  assert output.err == "error: a: KeyError('unforeseen')\n" and 'accuracy' in output.out


def test_text_of_results_is_no_markup_for_a_hub(runs, tmp_path, capsys):
  tag = '<img src=x onerror=alert(1)>[x](http://x)'
  change(runs / 'a/results.json', lambda d: d['data'].update(source=tag, split='\x1b[2J`'))
  change(runs / 'a/results.json', lambda d: d['classifiers'][0].update(note=tag))
  assert main(commands(runs, tmp_path / 'out')['hub']) == 0
  text = (tmp_path / 'out/hub/robustness.md').read_text()
  assert '<img' not in text and '](http' not in text and '\x1b' not in text
  assert '&lt;img src=x' in text


@pytest.mark.parametrize('name', ['a/b\n', 'a/..', 'a/b/c', 'a/b\0', '../b', 'a/.b'])
def test_the_id_of_a_hub_is_checked(runs, tmp_path, name, capsys):
  words = commands(runs, tmp_path / 'out')['hub']
  assert main([*words, f'--dataset={name}', '--task=x']) == 2
  assert '--dataset is ' in capsys.readouterr().err
