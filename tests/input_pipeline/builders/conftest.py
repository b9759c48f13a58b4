"""A small base data set, and corrupted sets built of it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow_datasets as tfds

import input_pipeline.builders  # noqa: F401  (registers them)
from input_pipeline.builders.corrupted import CorruptedConfig
from tests.input_pipeline.builders.pictures import LABELS, SIDE, pictures
from tests.input_pipeline.domains import labelled, store

Build = Callable[..., tfds.core.DatasetBuilder]


@pytest.fixture(scope='session')
def base_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A TFDS folder with the data set `pictures`."""
  return store_pictures(tmp_path_factory.mktemp('tfds'))


def store_pictures(folder: pathlib.Path) -> pathlib.Path:
  """Prepares `pictures` in a TFDS folder: all of them for testing, two for training."""
  features = {
    'image': tfds.features.Image(shape=(SIDE, SIDE, 3), encoding_format='png'),
    'label': tfds.features.ClassLabel(names=['a', 'b', 'c']),
  }
  examples = labelled(pictures(), LABELS)
  store(folder, 'pictures', features, {'test': examples, 'train': examples[:2]})
  return folder


@pytest.fixture
def build(base_dir: pathlib.Path, tmp_path: pathlib.Path) -> Build:
  """Returns a function that builds a config beside nothing else and returns its builder."""

  def make(corruption: str = 'fog', severity: int = 3, **fields: Any) -> tfds.core.DatasetBuilder:
    chosen = {'base_dir': str(base_dir), **fields}
    config = CorruptedConfig(base='pictures', corruption=corruption, severity=severity, **chosen)
    builder = tfds.builder('corrupted', config=config, data_dir=str(tmp_path))
    builder.download_and_prepare()
    return builder

  return make
