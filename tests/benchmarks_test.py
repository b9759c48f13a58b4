"""Every benchmark runs at a tiny size and prints its ratio; how large it is, is not asserted."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from tests.models import peers

SMALL = ['--images', '16', '--frequencies', '3', '--rounds', '1']
CASES = {
  'heatmap_throughput': [*SMALL, '--networks', 'small_cnn', '--sizes', '2'],
  'heatmap_against_loop': [*SMALL, '--networks', 'small_cnn', '--sizes', '8'],
  'heatmap_against_pytorch': [
    '--images',
    '4',
    '--frequencies',
    '2',
    '--rounds',
    '1',
    '--sizes',
    '4',
  ],
  'input_throughput': [
    *('--network', 'squeezenet1_1', '--images', '4', '--sizes', '2', '--rounds', '1')
  ],
  'scaling': ['--sizes', '16x2', '16x3'],
  'imports': ['--rounds', '1', '--modules', 'numpy', 'robustness.corruptions'],
  'several_processes': ['--steps', '2', '--batch_size', '4'],
  'scene_evaluation': ['--network', 'squeezenet1_1', '--places', '2', '--rows', '1'],
  'corrupted_evaluation': [
    '--networks',
    'small_cnn',
    '--images',
    '8',
    '--rounds',
    '1',
    '--corruptions',
    'contrast',
    'fog',
  ],
  'gpu_throughput': [
    *SMALL,
    '--networks',
    'small_cnn',
    '--precisions',
    'float32',
    'bfloat16',
    '--sizes',
    '2',
    '--matrices',
    '32',
  ],
  'video_throughput': ['--networks', 'resnet20', '--anchors', '2', '--rounds', '1', '--sizes', '4'],
  'scenes': [
    '--sides',
    '32',
    '--levels',
    '3',
    '--rows',
    '8',
    '--rounds',
    '1',
    '--factors',
    'location',
  ],
  'policy_throughput': [
    *('--network', 'small_cnn', '--batch', '8', '--rounds', '1'),
    *('--policies', 'gaussian', 'augmix', '--steps', '1'),
  ],
  'auto_augment_against_torchvision': ['--sides', '32', '--images', '8', '--rounds', '1'],
  'startup': [
    '--config.study.window=3',
    '--config.training.steps=2',
    '--config.data.num_images=16',
    '--config.training.batch_size=16',
  ],
  'training_throughput': ['--networks', 'small_cnn', '--steps', '2', '--rounds', '1'],
  'systematic_throughput': [
    *('--networks', 'small_cnn', '--batch', '8', '--steps', '1', '--rounds', '1'),
    *('--images', '4', '--sizes', '4'),
  ],
  'battery': [
    *('--images', '4', '--rounds', '1', '--sizes', '4', '--heat_map_images', '1'),
    "--config.battery.parts=('clean','corruptions','attack')",
    "--config.battery.corruptions.study.corruptions=('contrast',)",
    '--config.battery.corruptions.study.severities=(1,)',
    '--config.battery.attack.study.steps=1',
  ],
  'corruptions_in_training': ['--batch', '4', '--steps', '1', '--rounds', '1'],
  'pm_k_scoring': ['--anchors', '20', '--models', '2', '--rounds', '1'],
}


@pytest.mark.slow
@pytest.mark.parametrize('name', CASES)
def test_prints_its_ratios(name: str, capsys: pytest.CaptureFixture[str]) -> None:
  if name in ('heatmap_against_pytorch', 'corruptions_in_training'):
    pytest.importorskip('torch', reason='runs PyTorch too')
  if name == 'auto_augment_against_torchvision':
    peers.peer('torchvision')
  _check_table(name, CASES[name], capsys)


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


def _check_table(name: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
  importlib.import_module(f'benchmarks.{name}').main(arguments)
  table = [line for line in capsys.readouterr().out.splitlines() if line.startswith('|')]
  assert len(table) >= 3 and 'ratio' in table[0]
  assert {line.count('|') for line in table} == {table[0].count('|')}


@pytest.mark.slow
def test_training_steps_are_compared_with_pytorch_and_with_the_chip(
  capsys: pytest.CaptureFixture[str],
) -> None:
  pytest.importorskip('torch', reason='compares with PyTorch')
  from benchmarks import training_throughput

  few = ['--batches', '8', '--steps', '1', '--rounds', '1']
  training_throughput.main(['--networks', 'resnet20', '--only', 'torch', *few])
  chip = ['--chip', '--networks', 'small_cnn', '--precisions', 'bfloat16', '--matrices', '32']
  training_throughput.main([*chip, *few])
  table = [line for line in capsys.readouterr().out.splitlines() if line.startswith('|')]
  assert 'PyTorch' in table[2] and 'matrix products' in table[5]


@pytest.mark.slow
def test_forward_against_pytorch_prints_two_tables(capsys: pytest.CaptureFixture[str]) -> None:
  peers.peer('timm')
  from benchmarks import forward_against_pytorch

  forward_against_pytorch.main(
    [
      '--networks',
      'resnet18',
      'small_cnn',
      '--images',
      '1',
      '--rounds',
      '1',
      '--largest',
      'resnet18',
    ]
  )
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

  corruptions_against_packages.main(
    [
      '--side',
      '32',
      '--images',
      '8',
      '--rounds',
      '1',
      '--corruptions',
      'contrast',
      'gaussian_blur',
      '--packages',
      'imagecorruptions',
    ]
  )
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
