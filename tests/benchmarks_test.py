"""Every benchmark runs at a tiny size and prints its ratio; how large it is, is not asserted."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.models import peers

CASES = {
  'heatmap_throughput': '--images 16 --frequencies 3 --rounds 1 --networks small_cnn --sizes 2',
  'heatmap_against_loop': '--images 16 --frequencies 3 --rounds 1 --networks small_cnn --sizes 8',
  'heatmap_against_pytorch': '--images 4 --frequencies 2 --rounds 1 --sizes 4',
  'input_throughput': '--network squeezenet1_1 --images 4 --sizes 2 --rounds 1',
  'scaling': '--sizes 16x2 16x3',
  'imports': '--rounds 1 --modules numpy robustness.corruptions',
  'several_processes': '--steps 2 --batch_size 4',
  'scene_evaluation': '--network squeezenet1_1 --places 2 --rows 1',
  'corrupted_evaluation': '--networks small_cnn --images 8 --rounds 1 --corruptions contrast fog',
  'gpu_alternatives': '--batch 1 --rounds 1 --precisions float32 bfloat16',
  'video_throughput': '--networks resnet20 --anchors 2 --rounds 1 --sizes 4',
  'scenes': '--sides 32 --levels 3 --rows 8 --rounds 1 --factors location',
  'policy_throughput': (
    '--network small_cnn --batch 8 --rounds 1 --policies gaussian augmix --steps 1'
  ),
  'auto_augment_against_torchvision': '--sides 32 --images 8 --rounds 1',
  'startup': (
    '--config.study.window=3 --config.training.steps=2 --config.data.num_images=16 '
    '--config.training.batch_size=16'
  ),
  'training_throughput': '--networks small_cnn --steps 2 --rounds 1',
  'systematic_throughput': (
    '--networks small_cnn --batch 8 --steps 1 --rounds 1 --images 4 --sizes 4'
  ),
  'battery': (
    '--images 4 --rounds 1 --sizes 4 --heat_map_images 1 '
    "--config.battery.parts=('clean','corruptions','attack') "
    "--config.battery.corruptions.study.corruptions=('contrast',) "
    '--config.battery.corruptions.study.severities=(1,) --config.battery.attack.study.steps=1'
  ),
  'convolutions_against_pytorch': '--images 1 --rounds 1 --layers 1 --matrix 64',
  'corruptions_in_training': '--batch 4 --steps 1 --rounds 1',
  'pm_k_scoring': '--anchors 20 --models 2 --rounds 1',
}
"""By benchmark, its arguments."""


@pytest.mark.slow
@pytest.mark.parametrize('name', CASES)
def test_prints_its_ratios(name: str, capsys: pytest.CaptureFixture[str]) -> None:
  if name.endswith('against_pytorch') or name == 'corruptions_in_training':
    pytest.importorskip('torch', reason='runs PyTorch too')
  if name == 'auto_augment_against_torchvision':
    peers.peer('torchvision')
  _check_table(name, CASES[name].split(), capsys)


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # the package's own
def test_pgd_against_foolbox(capsys: pytest.CaptureFixture[str]) -> None:
  pytest.importorskip('torch', reason='compares with PyTorch')
  if importlib.util.find_spec('foolbox') is None:
    pytest.skip('compares with foolbox')
  few = ['--images', '4', '--rounds', '1', '--steps', '1']
  _check_table('pgd_against_foolbox', few, capsys)


def test_sequential_coverage(capsys: pytest.CaptureFixture[str]) -> None:
  arguments = ['--half_widths', '.1', '.2', '--confidences', '.95']
  importlib.import_module('benchmarks.sequential_coverage').main(arguments)
  header, _, *lines = [line.split('|') for line in capsys.readouterr().out.splitlines()]
  least = header.index(' least coverage ')
  assert [0.95 <= float(line[least]) < 0.96 for line in lines] == [True, True]


@pytest.mark.slow
def test_the_networks_named_are_those_compared_with_pytorch(
  capsys: pytest.CaptureFixture[str],
) -> None:
  pytest.importorskip('torch', reason='runs PyTorch too')
  few = CASES['heatmap_against_pytorch'].split()
  table = _check_table(
    'heatmap_against_pytorch', [*few, '--networks', 'resnet32', 'resnet20'], capsys
  )
  measured = [line.split('|')[1].strip() for line in table[2:]]
  assert measured == ['resnet32', 'resnet32', 'resnet20', 'resnet20']
  with pytest.raises(SystemExit):
    _check_table('heatmap_against_pytorch', [*few, '--networks', 'vit_b16'], capsys)
  assert "invalid choice: 'vit_b16'" in capsys.readouterr().err


def _check_table(name: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
  importlib.import_module(f'benchmarks.{name}').main(arguments)
  table = [line for line in capsys.readouterr().out.splitlines() if line.startswith('|')]
  assert len(table) >= 3 and 'ratio' in table[0]
  assert {line.count('|') for line in table} == {table[0].count('|')}
  return table


@pytest.mark.slow
def test_training_steps_are_compared_with_pytorch(capsys: pytest.CaptureFixture[str]) -> None:
  pytest.importorskip('torch', reason='compares with PyTorch')
  from benchmarks import training_throughput

  few = ['--batches', '8', '--steps', '1', '--rounds', '1']
  training_throughput.main(['--networks', 'resnet20', '--only', 'torch', *few])
  table = [line for line in capsys.readouterr().out.splitlines() if line.startswith('|')]
  assert 'PyTorch' in table[2]


@pytest.mark.slow
def test_forward_against_pytorch_prints_two_tables(capsys: pytest.CaptureFixture[str]) -> None:
  peers.peer('timm')
  from benchmarks import forward_against_pytorch

  few = '--networks resnet18 small_cnn --images 1 --rounds 1 --largest resnet18'
  forward_against_pytorch.main(few.split())
  out = capsys.readouterr().out
  assert '| resnet18 ' in out and 'small_cnn' not in out, 'no peer, so left out'
  assert 'import, s' in out and 'peak memory of resnet18, MB' in out


@pytest.mark.slow
@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # the package's own
def test_corruptions_against_packages(capsys: pytest.CaptureFixture[str]) -> None:
  if importlib.util.find_spec('imagecorruptions') is None:
    pytest.skip('compares with imagecorruptions')
  pytest.importorskip('skimage', reason='imagecorruptions needs scikit-image')
  from benchmarks import corruptions_against_packages

  few = '--side 32 --images 8 --rounds 1 --corruptions contrast gaussian_blur'
  corruptions_against_packages.main([*few.split(), '--packages', 'imagecorruptions'])
  out = capsys.readouterr().out
  assert 'has no' not in out
  table = [line for line in out.splitlines() if line.startswith('|')]
  assert len(table) == 5 and 'ratio' in table[0] and '(1)' in table[-1]


@pytest.mark.slow
def test_c_bar_is_compared_with_its_definition(capsys: pytest.CaptureFixture[str]) -> None:
  from benchmarks import c_bar

  c_bar.main(['--images', '2', '--rounds', '1', '--corruptions', 'ripple', 'lines'])
  table = [line for line in capsys.readouterr().out.splitlines() if line.startswith('|')]
  assert len(table) == 6 and 'geometric mean of 2' in table[-1]


ACCELERATOR = [
  *('--networks', 'resnet20', '--images', '4', '--views', '2', '--sizes', '2', '--passes', '8'),
  *('--rows', '2', '--chunks', '2', '--at_once', '1', '2', '--attack_steps', '1', '--rounds', '1'),
  *('--matrices', '32', '--batches', '4', '--training_steps', '1'),
]


@pytest.mark.slow
def test_what_an_accelerator_does_is_printed_and_kept_as_json(
  tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  from benchmarks import gpu_throughput

  studies = ['heat_map', 'scenes', 'pgd', 'training']
  file, trace = tmp_path / 'gpu.jsonl', tmp_path / 'trace'
  kept = ['--json', str(file), '--trace', str(trace)]
  gpu_throughput.main([*ACCELERATOR, *kept, '--precisions', 'tf32', '--studies', *studies])
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
  out = capsys.readouterr().out
  assert 'µs a pass' in out and 'ratio at the best step' in out and 'ratio to it' in out


@pytest.mark.slow
def test_views_at_once_and_rows_at_once_change_no_record() -> None:
  import dataclasses

  from benchmarks import subject
  from robustness.studies.fourier_heatmap import FourierHeatmap

  network = subject.classifier('small_cnn')
  rows = subject.rows(network.input_shape, 40)
  evaluator = subject.evaluator(network, FourierHeatmap(), 4)
  at_once = dataclasses.replace(evaluator, rows_at_once=2, views_at_once=2)
  layout = evaluator.layout(rows.num_examples)
  assert at_once.step_rows(layout) < evaluator.step_rows(layout)
  [(_, _, ours)], [(_, _, theirs)] = (list(e.shards(rows, layout)) for e in (evaluator, at_once))
  np.testing.assert_array_equal(ours['prediction'], theirs['prediction'])
  np.testing.assert_allclose(ours['probability'], theirs['probability'], atol=1e-5)


@pytest.mark.slow
def test_predictions_of_two_machines_are_compared(
  tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  from benchmarks import equal_predictions
  from robustness.core.errors import InputError

  few = ['--images', '6', '--batch', '4']
  file = str(tmp_path / 'predictions.npz')
  equal_predictions.main([*few, '--networks', 'small_cnn', '--save', file])
  equal_predictions.main([*few, '--precisions', 'float32', 'bfloat16', '--compare', file])
  table = [line.split('|') for line in capsys.readouterr().out.splitlines() if line[0] == '|']
  same, rounded = ([cell.strip() for cell in line] for line in table[2:])
  assert same[4:7] == ['6', '1.000000', '0'] and float(rounded[6]) > 0
  images = np.zeros((6, 28, 28, 1), np.float32)
  np.savez(tmp_path / 'other.npz', image=images, label=np.zeros(6, np.int64))
  with pytest.raises(InputError, match='other weights or images'):
    equal_predictions.main([*few, '--data', str(tmp_path / 'other.npz'), '--compare', file])


@pytest.mark.slow
@pytest.mark.parametrize(
  ('module', 'arguments'),
  [
    (
      'gpu_throughput',
      [*ACCELERATOR, '--precisions', 'float32', '--studies', 'scenes', 'training'],
    ),
    ('gpu_alternatives', ['--batch', '1', '--rounds', '1', '--precisions', 'float32']),
    (
      'corrupted_evaluation',
      ['--networks', 'small_cnn', '--images', '2', '--rounds', '1', '--corruptions', 'contrast'],
    ),
    (
      'training_throughput',
      ['--networks', 'small_cnn', '--only', 'loop', '--batches', '4', '--steps', '2'],
    ),
    ('equal_predictions', ['--networks', 'small_cnn', '--images', '2', '--save', 'FILE']),
  ],
)
def test_an_accelerators_benchmarks_need_no_tensorflow(
  module: str, arguments: list[str], tmp_path: pathlib.Path
) -> None:
  root = pathlib.Path(__file__).resolve().parents[1]
  program = [sys.executable, str(root / 'tests/end_to_end/bare_machine.py'), 'bare', '-m']
  given = [str(tmp_path / 'file.npz') if argument == 'FILE' else argument for argument in arguments]
  run = subprocess.run(
    [*program, f'benchmarks.{module}', *given], cwd=root, capture_output=True, text=True
  )
  assert run.returncode == 0, run.stderr
  assert 'ratio' in run.stdout or (tmp_path / 'file.npz').exists()
