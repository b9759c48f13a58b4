"""A small base data set, and a function that builds corrupted sets of it."""

import numpy as np
import pytest
import tensorflow_datasets as tfds

import input_pipeline.builders  # noqa: F401  (registers them)
from input_pipeline.builders.corrupted import CorruptedConfig
from tests.input_pipeline.domains import store_labelled

SIDE = 16
LABELS = np.arange(11, dtype=np.int64) % 3


def pictures() -> np.ndarray:
  """Returns smooth coloured images that all differ, uint8 [11, SIDE, SIDE, 3]."""
  y, x = np.mgrid[:SIDE, :SIDE] / SIDE
  waves = np.stack([np.sin((3 + c) * x + y * (2 - c)) for c in range(3)], -1)
  contrast = np.linspace(0.2, 1, len(LABELS))[:, None, None, None]
  return np.rint(127 + 100 * waves[None] * contrast).astype(np.uint8)


@pytest.fixture(scope='session')
def base_dir(tmp_path_factory):
  """Returns a TFDS folder with the data set `pictures`."""
  return store_pictures(tmp_path_factory.mktemp('tfds'))


def store_pictures(folder):
  """Prepares the images of `pictures` as a TFDS data set: all for testing, two for training."""
  rows = list(zip(pictures(), LABELS, strict=True))
  splits = {'test': rows, 'train': rows[:2]}
  store_labelled(folder, 'pictures', splits, ('a', 'b', 'c'), (SIDE, SIDE, 3))
  return folder


def examples(builder, split='test'):
  """Returns all examples of a split of a prepared data set."""
  return list(tfds.as_numpy(builder.as_dataset(split=split)))


@pytest.fixture
def build(base_dir, tmp_path):
  """Returns a function that prepares a config of `corrupted` and returns its builder."""

  def make(corruption='fog', severity=3, **fields):
    settings = {'base_dir': str(base_dir), **fields}
    config = CorruptedConfig(base='pictures', corruption=corruption, severity=severity, **settings)
    builder = tfds.builder('corrupted', config=config, data_dir=str(tmp_path))
    builder.download_and_prepare()
    return builder

  return make
