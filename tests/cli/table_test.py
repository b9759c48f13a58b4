"""`robustness table` and `robustness export` print finished runs for papers and hubs."""

import csv
import dataclasses
import io
import json
import pathlib
from argparse import Namespace

import pytest

from robustness.__main__ import main
from robustness.cli import export, table
from robustness.combined import join_tasks
from robustness.estimates import means
from robustness.estimates.corruption_error import MCE
from robustness.estimates.quantity import ERROR
from robustness.estimates.table import assemble
from robustness.present import methods, side_by_side
from robustness.results import WHICH_NUMBERS, Results, Table
from robustness.studies.attack_error import AttackError
from tests import finished_runs
from tests.cases import cases
from tests.refusals import refused

HALF, MOST = [True, False] * 20, [True] * 36 + [False] * 4
"""Whether each of 40 images is classified correctly: accuracies of 50 % and 90 %."""
ENVIRONMENT = {
  'command': 'robustness accuracy --workdir=DIR',
  'started': '2026-11-24T09:00:00+00:00',
  'robustness': '0.1.0',
  'git_commit': 40 * 'a',
  'python': '3.11',
  'devices': ['cpu cpu'] * 2,
  'versions': {'jax': '0.10.2'},
  'seconds': 30,
}
LEFT_OUT = 'note: each run divides mCE and relative_mCE by its own first classifier: left out\n'


@pytest.fixture
def runs(tmp_path):
  """Two finished workdirs of the same study: `one` has `half` and `most`, `two` has `half`."""
  first = finished_runs.write_corrupted(
    tmp_path / 'one', {'half': HALF, 'most': MOST}, {'half': HALF, 'most': HALF}
  )
  finished_runs.write_corrupted(tmp_path / 'two', {'half': MOST}, {'half': HALF})
  for file in tmp_path.glob('*/results.json'):
    finished_runs.edit(file, lambda results: results['data'].update(num_examples=len(HALF)))
  (first / 'environment.json').write_text(json.dumps(ENVIRONMENT))
  return tmp_path


def test_workdirs_are_one_table_with_the_best_in_bold(runs, capsys):
  folders = [str(runs / 'one'), f'other={runs / "two"}']
  assert main(['table', *folders, '--quantity=clean_error']) == 0
  assert capsys.readouterr() == (
    '| classifier | top-1 error on clean images (%) ↓ |\n| --- | --- |\n'
    '| one half | 50.0 |\n| most | **10.0** |\n| other | **10.0** |\n',
    LEFT_OUT,
  )
  arguments = ('--quantity=error', '--rows=quantity', '--columns=classifier,corruption,severity')
  assert main(['table', *folders, *arguments, '--format=latex', '--intervals']) == 0
  output = capsys.readouterr().out
  assert ' & one half, fog, 1 & most, fog, 1 & other, fog, 1 \\\\' in output
  cell = '50 (34 to 66)'  # 20 of 40 images; 34 to 66 is the exact 95 % interval
  assert f'top-1 error (\\%) $\\downarrow$ & {cell} & {cell} & {cell} \\\\' in output
  assert main(['table', str(runs / 'one'), '--format=csv', '--quantity=clean_error,error']) == 0
  lines = list(csv.reader(io.StringIO(capsys.readouterr().out)))
  assert [line[0] for line in lines] == ['classifier', 'half', 'most'] and lines[2][1] == '10.0'


@pytest.fixture
def battery(runs):
  """A finished battery of `half` and `most` with the tasks clean, corruptions and attack."""
  clean = finished_runs.write(runs / 'clean', {'half': HALF, 'most': MOST})
  tasks = {'clean': clean, 'corruptions': runs / 'one'}
  data = {'num_examples': 40}
  results = {
    name: dataclasses.replace(Results.read(folder), data=data) for name, folder in tasks.items()
  }
  value = means.Estimate(0.4, 0.3, 0.5, 24, 24, 'clopper-pearson')
  quantities = AttackError(attacks=('auto_attack',)).quantities
  rows = [
    means.estimate_row(label, '', quantities[0], {'epsilon': 8 / 255}, value, 0.95)
    for label in ('half', 'most')
  ]
  attack = dataclasses.replace(
    results['clean'], table=assemble([means.table_of_rows(rows)]), quantities=quantities
  )
  join_tasks({**results, 'attack': attack}, {}).write(runs / 'battery')
  return str(runs / 'battery')


def test_a_table_for_a_paper_has_short_heads(battery, runs, capsys):
  assert main(['table', battery, '--show=clean,mce,attack']) == 0
  printed = capsys.readouterr()
  assert 'note: mCE, half: the baseline itself' in printed.err
  assert printed.out.splitlines() == [
    '| classifier | Clean (%) ↑, n = 40 | mCE (%) ↓, n = 40 | AA 8/255 (%) ↑, n = 24 |',
    '| --- | --- | --- | --- |',
    '| half | 50.0 | 100.0 | 60.0 |',
    '| most | **90.0** | 100.0 | 60.0 |',
  ]
  assert main(['table', str(runs / 'one'), '--show=clean,error']) == 0
  assert '| classifier | Clean error (%) ↓ | Error (%) ↓ |' in capsys.readouterr().out
  assert main(['table', battery, '--show=cleen']) == 2
  assert "--show has 'cleen', which is no task or quantity; did you mean 'clean'" in (
    capsys.readouterr().err
  )
  assert main(['table', battery, '--show=clean', '--rows=classifier']) == 2
  assert 'leave out --quantity, --rows and --columns' in capsys.readouterr().err


def test_accuracy_means_clean_images_and_attacks_are_printed_with_norm_and_radius(battery, capsys):
  assert main(['table', battery, '--quantity=accuracy']) == 0
  assert capsys.readouterr().out.splitlines()[0] == '| classifier | clean: top-1 accuracy (%) ↑ |'
  assert main(['table', battery, '--quantity=attack_error', '--columns=epsilon']) == 0
  head = capsys.readouterr().out.splitlines()[0]
  assert head == '| attack: top-1 error under ℓ∞ AutoAttack (%) ↓: classifier | 8/255 |'


def test_many_headlines_are_rows_and_a_table_no_wider_than_a_page(battery, capsys, monkeypatch):
  monkeypatch.setattr(side_by_side, 'MAX_COLUMNS', 2)
  assert main(['table', battery]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert lines[0] == '| quantity | half | most |'
  assert lines[2] == '| clean: top-1 accuracy (%) ↑, n = 40 | 50.0 | **90.0** |'


def test_ratios_to_different_classifiers_are_in_no_table(runs, capsys):
  folders = [str(runs / 'one'), str(runs / 'two')]
  assert main(['table', *folders]) == 0
  printed = capsys.readouterr()
  assert 'mean corruption error' not in printed.out and 'top-1 error' in printed.out
  assert printed.err == LEFT_OUT
  assert main(['table', *folders, '--quantity=mCE']) == 2
  for folder in folders:  # the same network
    file = pathlib.Path(folder) / 'results.json'
    file.write_text(file.read_text().replace('"label": "half"', '"label": "half", "sha256": "a"'))
  capsys.readouterr()
  assert main(['table', *folders, '--quantity=mCE']) == 0
  assert 'mean corruption error' in capsys.readouterr().out
  adapted = '"sha256": "a", "adaptation": {"name": "statistics"}'
  file.write_text(file.read_text().replace('"sha256": "a"', adapted))  # equal weights
  assert main(['table', *folders]) == 0
  printed = capsys.readouterr()
  assert 'mean corruption error' not in printed.out and printed.err == LEFT_OUT


def test_other_images_are_noted_and_other_studies_refused(runs, capsys):
  few = finished_runs.write(runs / 'few', {'half': HALF}, data={'name': 'few'})
  finished_runs.write(runs / 'many', {'half': HALF}, data={'name': 'many'})
  table.read([str(few), str(runs / 'many')])
  notes = capsys.readouterr().err
  assert notes == "note: few and many have other images (name: 'few' → 'many')\n"
  finished_runs.state_images(few, 2, '0ff6')
  finished_runs.write(runs / 'renewed', {'half': HALF}, data={'name': 'few'})
  finished_runs.state_images(runs / 'renewed', 2, '1ff6')
  table.read([str(few), str(runs / 'renewed')])
  notes = capsys.readouterr().err
  assert notes == (
    "note: few and renewed have other images (digest of the images: '0ff6' → '1ff6')\n"
  )
  file = runs / 'two/results.json'
  file.write_text(file.read_text().replace('"baseline": "first"', '"baseline": "alexnet"'))
  table.read([str(runs / 'one'), str(runs / 'two')])
  note = "note: one and two have other settings (baseline: 'first' → 'alexnet')\n"
  assert capsys.readouterr().err == note + LEFT_OUT
  file.write_text(file.read_text().replace('"words": "top-1 error"', '"words": "error of alexnet"'))
  assert main(['table', str(runs / 'one'), str(runs / 'two')]) == 2
  assert "'alexnet'), and other quantities: make a table of each" in capsys.readouterr().err
  assert main(['table', str(few), str(runs / 'one')]) == 2
  assert 'few is of the study accuracy and one of corruption_error' in capsys.readouterr().err


def test_tasks_that_not_all_workdirs_have_are_left_out(battery, runs, capsys):
  parts = Results.read(battery).by_task
  join_tasks({'clean': parts['clean']}, {}).write(runs / 'clean_only')
  join_tasks({'attack': parts['attack']}, {}).write(runs / 'attack_only')
  assert [*table.read([battery, str(runs / 'clean_only')])] == ['clean']
  notes = capsys.readouterr().err
  assert 'note: task attack is left out: only battery has it\n' in notes
  assert 'note: task corruptions is left out' in notes
  for names in (('clean_only', 'attack_only'), ('clean', 'battery')):
    assert main(['table', *(str(runs / name) for name in names)]) == 2
    output = capsys.readouterr()
    assert 'have no study or task in common' in output.err and not output.out
    assert 'give workdirs of the same study, or of batteries with the same tasks' in output.err


HUB = ('export', 'one', '--to=hub', '--out=hub')
HUB_ENTRY = (*HUB, '--classifier=most', '--dataset=me/fog', '--task=top1')


@cases(
  'arguments, message',
  (('table', 'none'), 'no results.json in none: give the working directory of a finished run'),
  (('table', 'one', '--format=html'), "--format is 'html'; valid: 'csv', 'latex', 'markdown'"),
  (
    ('table', 'one', '--quantity=eror'),
    "'eror' is no quantity of these runs; did you mean 'error'",
  ),
  (('table', 'one', '--rows=severty'), "'severty' is no facet of these runs; did you mean 'sever"),
  (('table', 'one', '--rows=severity', '--columns=severity'), 'name each once'),
  (('table', 'one', '--rows=severity'), 'there is no estimate by severity alone'),
  (('export', 'one', '--to=zip'), "--to is 'zip'; valid: 'hub', 'methods'"),
  (('export', 'two', '--to=methods'), 'it has no config.json and environment.json'),
  (('export', 'one', '--to=hub'), '--to=hub needs --out=DIR'),
  ((*HUB, '--task=x'), '--dataset and --task together'),
  ((*HUB[:3], '--out=one/results.csv'), '--out is one/results.csv, a file: name a folder'),
  (HUB, "--classifier is '': a hub has one model; valid: 'half', 'most'"),
  ((*HUB_ENTRY, '--quantity=eror'), "--quantity is 'eror'; did you"),
  ((*HUB_ENTRY, '--at=corupt=fog'), "--at is 'corupt'; did you"),
  ((*HUB_ENTRY, '--at=corruption=fogg'), "--at=corruption=fogg: did you mean 'fog'"),
  ((*HUB_ENTRY, '--quantity=clean_error', '--at=severity=1'), '0 estimates of clean_error are at'),
)
def test_an_impossible_request_is_refused_in_one_line(
  arguments, message, runs, capsys, monkeypatch
):
  monkeypatch.chdir(runs)
  assert main(arguments) == 2
  error = capsys.readouterr().err
  assert error.count('\n') == 1 and error.startswith('error: ') and message in error


def test_a_hub_gets_one_value_with_its_interval_and_a_section_of_the_card(
  runs, capsys, monkeypatch
):
  yaml = pytest.importorskip('yaml', reason='needs PyYAML')
  monkeypatch.chdir(runs)
  at = '--at=corruption=fog,severity=1'
  arguments = ('--quantity=error', at, '--percent', '--url=https://example.org/run')
  assert main((*HUB_ENTRY, *arguments)) == 0
  assert capsys.readouterr().out == 'hub/robustness.md\nhub/.eval_results/fog.yaml\n'
  [entry] = yaml.safe_load((runs / 'hub/.eval_results/fog.yaml').read_text())
  notes = entry.pop('notes')
  assert entry == {
    'dataset': {'id': 'me/fog', 'task_id': 'top1'},
    'value': 50.0,
    'date': '2026-11-24',
    'source': {'url': 'https://example.org/run'},
  }
  assert notes.startswith('top-1 error under fog at severity 1, percent; 95 % interval 33.8')
  assert 'n = 40 observations of 40 independent units; 40 images of digits made' in notes
  card = (runs / 'hub/robustness.md').read_text()
  assert card.startswith('## Robustness\n\n| quantity | most |\n')
  assert '| top-1 error on clean images (%) ↓ | 10 (3 to 24) |' in card and 'half' not in card[:300]
  assert 'We measure most on 40 images' in card and 'differences' not in card


@cases(
  'facets, at',
  ({'corruption': 'gaussian_noise'}, 'corruption=gaussian_noise'),
  ({'class': 'kite, bird', 'severity': 1}, 'class=kite, bird,severity=1'),
)
def test_an_estimate_is_named_as_in_the_csv_and_amounts_are_no_percent(facets, at):
  value = means.Estimate(1.2, 1.1, 1.3, 9, 9, 'stratified')
  table = assemble([means.table_of_rows([means.estimate_row('net', '', MCE, facets, value, 0.95)])])
  results = Results('made', [{'label': 'net'}], {}, {'baseline': 'first'}, table=table)
  results.quantities = (MCE,)
  estimate = export.estimate(results, 'net', 'mCE', at)
  assert estimate[1].value == 1.2
  amount = dataclasses.replace(MCE, unit='')
  flags = Namespace(percent=True)
  refused('--percent is for what', export.hub_entry, amount, estimate[1], flags, '', {})
  other = dataclasses.replace(MCE, words='of another task')
  tasks = {'a': results, 'b': dataclasses.replace(results, quantities=(other,))}
  for task, quantity in (('a', MCE), ('b', other)):
    with_data = {k: dataclasses.replace(v, data={'num_examples': 9}) for k, v in tasks.items()}
    assert (
      export.estimate(join_tasks(with_data, {}), 'net', 'mCE', f'{at},task={task}')[0] == quantity
    )
  shares = dataclasses.replace(results, quantities=(ERROR,))
  assert methods._baseline(results) and not methods._baseline(shares), 'no ratio'
  rho = dataclasses.replace(MCE, name='rho', better='higher')
  results.quantities = (rho,)
  assert not methods._baseline(results), 'it divides by no error'


def test_the_methods_say_interval_n_what_varies_and_the_machine(runs, capsys):
  assert main(['export', str(runs / 'one'), '--to=methods']) == 0
  output = capsys.readouterr().out
  for part in (
    'We measure half; most on 40 images of digits made, 28 × 28 pixels. Intervals of 95 % are',
    '\n\nSettings:\ncorruption_error: confidence=0.95; corruptions=fog; severities=1; protocol=',
    "differences in top-1 error on clean images: Bonett and Price's for paired shares (n = 40)",
    'Ratios are to the values of half.',
    'they hold for the given weights and one draw of what is random (seed 0)',
    'The run of classifier-robustness 0.1.0 (commit aaaaaaaaaaaa) takes 30 s on 2 × cpu with',
    'The command is `robustness accuracy --workdir=DIR`.',
  ):
    assert part in output, part
  results = Results.read(runs / 'one')
  of_predictions = dataclasses.replace(results, classifiers=[{'label': 'half', 'predictions': 'a'}])
  assert methods._scope_of_intervals(of_predictions, {}, '').endswith('hold for these predictions.')
  assert output.count('\n') == 5 and all(label in output for label in results.labels)
  facts = [['severities', '1'], ['preprocessing', 'as stored; 28 × 28 pixels']]
  facts.append(['digest of the images', '0ff6'])
  results.tables[WHICH_NUMBERS] = Table(('what', 'value'), facts)
  protocol = 'Protocol: severities: 1; preprocessing: as stored, 28 × 28 pixels.'
  assert methods._protocol(results) == protocol
  [line, _] = methods.settings(results, ENVIRONMENT)
  assert 'digest of the images: 0ff6; confidence=0.95' in line
  assert 'severities=' not in line, 'it is stated already'
  results.classifiers[0]['preprocessing'] = {'mean': [0.5], 'std': [0.25, 0.2]}
  assert 'half (images normalised by mean 0.5 and std 0.25, 0.2); ' in methods.paragraph(
    results, ENVIRONMENT
  )
  results.classifiers[0]['weights'] = 'trained here'
  trained, loaded = 'one training each', 'the given weights'
  for label, scope in {'half': trained, 'most': loaded, '': f'{trained} or {loaded}'}.items():
    assert f'hold for {scope} and' in methods.paragraph(results, ENVIRONMENT, label)
