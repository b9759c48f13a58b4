"""Tests that every benchmark runs at a tiny size and prints its ratios; no rate is asserted."""

import importlib
import json
import re

import numpy as np
import pytest

from tests import commands
from tests.models import peers
from tests.refusals import refused

CASES = {
  'startup': (
    '--config.study.window=3 --config.training.steps=2 --config.data.num_images=16 '
    '--config.training.batch_size=16 --config.classifiers=natural'
  ),
  'training_throughput': '--networks small_cnn --steps 2 --rounds 1',
  'battery': (
    '--images 4 --rounds 1 --sizes 4 --heat_map_images 1 '
    "--config.battery.tasks=('clean','corruptions','attack') "
    "--config.battery.corruptions.study.corruptions=('contrast',) "
    '--config.battery.corruptions.study.severities=(1,) '
    '--config.battery.attack.study.attack.pgd.steps=1'
  ),
  'corruptions_in_training': '--batch 4 --steps 1 --rounds 1',
}
"""Benchmarks and arguments that make them small."""


@pytest.fixture
def printed(capsys):
  """Returns a function that runs a benchmark with arguments and returns what it prints."""

  def run(name, arguments):
    capsys.readouterr()
    importlib.import_module(f'benchmarks.{name}').main(arguments.split())
    return capsys.readouterr().out

  return run


def table_lines(text):
  return [line for line in text.splitlines() if line.startswith('|')]


@pytest.fixture
def tables(printed):
  """Returns a function that runs a benchmark and returns the lines of its tables."""
  return lambda *run: table_lines(printed(*run))


def check_ratios(table: list[str]) -> None:
  """Asserts that a table has a row and a column of ratios, and cells in every column."""
  assert len(table) >= 3 and 'ratio' in table[0]
  assert {line.count('|') for line in table} == {table[0].count('|')}


@pytest.mark.slow
@pytest.mark.parametrize('name', CASES)
def test_a_benchmark_prints_its_ratios(name, tables):
  if name == 'corruptions_in_training':
    pytest.importorskip('torch', reason='runs PyTorch too')
  check_ratios(tables(name, CASES[name]))


@pytest.mark.slow
def test_auto_attack_is_compared_with_the_authors_stage_by_stage(tables):
  pytest.importorskip('torch', reason='compares with PyTorch')
  pytest.importorskip('autoattack', reason="compares with the authors' package")
  lines = tables('auto_attack_against_authors', '--images 4 --iterations 1 --queries 1')
  stages = [line.split('|')[1].strip() for line in lines[2:7]]
  assert (stages[0], stages[4]) == ('clean', 'square')


def test_intervals_of_sequential_sampling_cover_the_value_as_often_as_promised(tables):
  lines = tables('sequential_coverage', '--half_widths .1 .2 --confidences .95')
  header, _, *rows = [line.split('|') for line in lines]
  column = header.index(' least coverage ')
  assert [0.95 <= float(row[column]) < 0.96 for row in rows] == [True, True]


@pytest.mark.slow
def test_training_steps_are_compared_with_pytorch(tables):
  pytest.importorskip('torch', reason='compares with PyTorch')
  options = '--networks resnet20 --only torch --batches 8 --steps 1 --rounds 1'
  assert 'PyTorch' in tables('training_throughput', options)[2]


@pytest.mark.slow
def test_networks_without_a_peer_are_left_out_of_forward_against_pytorch(printed):
  peers.peer('timm')
  options = '--networks resnet18 small_cnn --images 1 --rounds 1'
  output = printed('forward_against_pytorch', options)
  assert '| resnet18 ' in output and 'small_cnn' not in output


ACCELERATOR = (
  '--networks resnet20 --images 4 --views 2 --sizes 2 --passes 8 --rows 2 --chunks 2 --at_once 1 2 '
  '--attack_steps 1 --rounds 1 --matrices 32 --batches 4 --training_steps 1'
)


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
def test_tables_of_an_accelerator_are_printed_and_written_as_json(tmp_path, printed):
  studies = ['heat_map', 'scenes', 'pgd', 'training']
  file, trace = tmp_path / 'gpu.jsonl', tmp_path / 'trace'
  options = f'--json {file} --trace {trace} --precisions tf32 --studies {" ".join(studies)}'
  output = printed('gpu_throughput', f'{ACCELERATOR} {options}')
  lines = [json.loads(line) for line in file.read_text().splitlines()]
  assert [line['study'] for line in lines] == studies
  assert {line['precision'] for line in lines} == {'tf32'}
  for line in lines[:3]:
    parts = line['parts_microseconds']
    assert parts['network'] > 0 and parts['perturbation'] > 0 and parts['whole step'] > 0
    assert line['ratio']['study'][0] > 0 and line['best_step'] in line['steps']
  assert len(lines[0]['steps']) == 2, 'one view at once, and two'
  assert lines[2]['images_per_second']['gradient'] > 0 and lines[3]['batch'] == 4
  assert len({path.parts[-5] for path in trace.rglob('*.xplane.pb')}) == len(lines), 'profiles'
  assert all(text in output for text in ('µs a pass', 'ratio at the best step', 'ratio to it'))


@pytest.mark.slow
def test_views_at_once_and_rows_at_once_change_no_record():
  import dataclasses

  from benchmarks import subject
  from robustness.studies.fourier_heatmap import FourierHeatmap

  network = subject.classifier('small_cnn')
  rows = subject.rows(network.input_shape, 40)
  evaluator = subject.evaluator(network, FourierHeatmap(), 4)
  at_once = dataclasses.replace(evaluator, rows_at_once=2, views_at_once=2)
  layout = evaluator.layout(rows.num_examples)
  assert at_once.step_rows(layout) < evaluator.step_rows(layout)
  [(_, _, large)], [(_, _, small)] = (list(e.shards(rows, layout)) for e in (evaluator, at_once))
  np.testing.assert_array_equal(small['prediction'], large['prediction'])
  np.testing.assert_allclose(small['probability'], large['probability'], atol=1e-5)


@pytest.mark.slow
def test_predictions_of_two_machines_are_compared(tmp_path, printed, tables):
  options, file = '--images 6 --batch 4', tmp_path / 'predictions.npz'
  printed('equal_predictions', f'{options} --networks small_cnn --save {file}')
  compared = f'{options} --precisions float32 bfloat16 --compare {file}'
  table = [line.split('|') for line in tables('equal_predictions', compared)]
  exact, rounded = ([cell.strip() for cell in line] for line in table[2:])  # float32 and bfloat16
  assert exact[4:7] == ['6', '1.000000', '0'] and float(rounded[6]) > 0
  images = np.zeros((6, 28, 28, 1), np.float32)
  np.savez(tmp_path / 'other.npz', image=images, label=np.zeros(6, np.int64))
  other = f'{options} --data {tmp_path / "other.npz"} --compare {file}'
  refused('other weights or images', printed, 'equal_predictions', other)


NO_TENSORFLOW = {
  'gpu_throughput': f'{ACCELERATOR} --precisions float32 --studies scenes',
  'gpu_alternatives': '--batch 1 --rounds 1 --precisions float32 bfloat16',
  'training_throughput': '--networks small_cnn --only loop --batches 4 --steps 2',
  'equal_predictions': '--networks small_cnn --images 2 --save FILE',
}


@pytest.mark.slow
def test_an_accelerators_benchmarks_need_no_tensorflow(tmp_path):
  file = tmp_path / 'file.npz'
  modules = ' '.join(f'-m benchmarks.{name} {line}' for name, line in NO_TENSORFLOW.items())
  command = ('tests/end_to_end/machine.py', 'bare', *modules.replace('FILE', str(file)).split())
  _, *printed = re.split(r'^== benchmarks\.(\w+)\n', commands.python(*command), flags=re.MULTILINE)
  outputs = dict(zip(printed[::2], printed[1::2], strict=True))
  assert [*outputs] == [*NO_TENSORFLOW] and file.exists()
  check_ratios(table_lines(outputs['gpu_alternatives']))
  assert all('ratio' in outputs[name] for name in ('gpu_throughput', 'training_throughput'))
