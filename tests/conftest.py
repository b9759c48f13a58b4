"""Strict JAX on eight host devices for every test, and the fixtures that several files share."""

import os
import pathlib

import jax
import pytest

jax.config.update('jax_platforms', 'cpu')
jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope='session')
def shared_dir() -> pathlib.Path:
  """The folder of real data and weights beside the checkout; without it tests are skipped."""
  path = pathlib.Path(os.environ.get('ROBUSTNESS_SHARED', ROOT.parent / 'shared'))
  if not (path / 'data').is_dir():
    pytest.skip('needs the folder of real data and weights (set ROBUSTNESS_SHARED)')
  return path


@pytest.fixture(scope='session')
def cifar10_dir() -> pathlib.Path:
  """The TFDS folder, where CIFAR-10 is prepared."""
  path = pathlib.Path(os.environ.get('TFDS_DATA_DIR', '~/tensorflow_datasets')).expanduser()
  if not list(path.glob('cifar10/*/dataset_info.json')):
    pytest.skip('needs CIFAR-10 prepared by TFDS')
  return path
