"""Workdirs and entries of a board that an attacker wrote: no command runs their files, writes
outside of its folder, waits for ever or believes what cannot be."""

import json

import pandas as pd
import pytest

from robustness import workdir
from robustness.__main__ import main
from robustness.results import WHICH_NUMBERS
from tests import finished_runs

COUNT = 20


@pytest.fixture
def runs(tmp_path):
  """Two finished workdirs, `a` and `b`, in a folder of entries."""
  for place, name in enumerate('ab', 1):
    right = {name: [k < 5 * place for k in range(COUNT)]}
    path = finished_runs.write(tmp_path / 'board' / name, right, digests=range(COUNT))
    workdir.write_json(path / workdir.ENVIRONMENT, workdir.environment('python main.py', 0))

    def stated(document):
      document['data']['num_examples'] = COUNT
      rows = [['digest of the images', 'aaa']]
      document['tables'][WHICH_NUMBERS] = {'columns': ['what', 'value'], 'rows': rows}

    change(path / 'results.json', stated)
  return tmp_path / 'board'


def change(file, edit):
  document = json.loads(file.read_text())
  edit(document)
  file.write_text(json.dumps(document))


def rewrite_table(folder, **columns):
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
  """Lets a workdir be of the study Mine of a file, as a run with it leaves it."""
  file = folder.parent.parent / 'x.py'
  file.write_text(PRIVATE)
  reference, mine = f'{file}:Mine', {'name': 'Mine', 'file': 'x.py', 'file_sha256': 'abc'}
  change(folder / 'config.json', lambda d: d['study'].update(name=reference))
  change(folder / 'results.json', lambda d: (d.update(study='Mine'), d['settings'].update(mine)))
  return reference, file.with_name('was_run')


def commands(runs, out):
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
    _, ran = make_private(runs / name)
  assert main(commands(runs, tmp_path / 'out')[command]) == 0, capsys.readouterr().err
  assert not ran.exists()


@pytest.mark.parametrize('command', ['report', 'compare', 'page'])
def test_a_study_in_a_file_is_run_where_the_user_types_it(runs, tmp_path, command, capsys):
  for name in 'ab':
    reference, ran = make_private(runs / name)
  words = commands(runs, tmp_path / 'out')[command]
  assert main([*words, '--study=other.py:Other']) == 2
  assert '--study is' in capsys.readouterr().err and not ran.exists()
  assert main([*words, f'--study={reference}']) == 0, capsys.readouterr().err
  assert ran.exists()
  if command == 'report':
    assert 'Written by its user' in (runs / 'a/report.html').read_text()


SECTIONS = {
  'study': {'name': 'attack_error', 'attacks': ['{}:Mine']},
  'classifier': {'name': '{}:Mine', 'augment': {'policy': ['{}:Mine']}},
  'battery': {'tasks': ['t'], 't': {'study': {'name': '{}:Mine'}}, 'summary': {'name': '{}:Mine'}},
}


@pytest.mark.parametrize('key', SECTIONS)
def test_no_file_that_any_section_of_a_config_names_is_run(runs, tmp_path, key, capsys):
  _, ran = make_private(runs / 'a')
  text = json.dumps(SECTIONS[key]).replace('{}:', f'{tmp_path}/x.py:')
  for name in 'ab':
    change(runs / name / 'config.json', lambda document: document.update({key: json.loads(text)}))
  for words in commands(runs, tmp_path / 'out').values():
    main(words)
    assert not ran.exists(), (words, capsys.readouterr().err)
