"""Small sources on disk and in memory for the input pipeline's tests."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline.images import array_images
from input_pipeline.rows import TfRows
from input_pipeline.settings import DataSettings
from tests.input_pipeline.domains import labelled, store


@pytest.fixture
def make_rows() -> Callable[..., TfRows]:
  """Returns a maker of rows over n distinct uint8 images whose label is their index modulo 5."""

  def make(
    n: int = 23, seed: int = 0, channels: int = 3, size: tuple[int, int] = (4, 6), **settings: Any
  ) -> TfRows:
    images = np.random.default_rng(1).integers(0, 256, (n, *size, channels), dtype=np.uint8)
    labels = np.arange(n, dtype=np.int32) % 5
    source = array_images(images, labels, tuple('abcde'), 'numbers', {'source': 'numbers'})
    return TfRows(source, DataSettings(**settings), seed)

  return make


@pytest.fixture
def save_image() -> Callable[..., pathlib.Path]:
  """Returns a writer of a random image file of a given mode and size (width, height)."""

  def save(
    path: pathlib.Path, mode: str = 'RGB', size: tuple[int, int] = (8, 8), **options: Any
  ) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {'L': (), 'RGB': (3,), 'RGBA': (4,), 'CMYK': (4,)}[mode]
    seed = np.frombuffer(path.name.encode(), np.uint8)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], *channels), np.uint8)
    Image.frombytes(mode, size, pixels.tobytes()).save(path, **options)
    return path

  return save


@pytest.fixture(scope='session')
def tiny_tfds(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """Returns a TFDS folder with `tiny_set` (30 equal images), `uneven_set` and `unlabelled_set`."""
  folder = tmp_path_factory.mktemp('tfds')
  _store(folder, 'tiny_set', [(5, 7)] * 30, first_label=0)
  _store(folder, 'uneven_set', [(5, 7), (5, 7), (6, 9)], first_label=0)
  _store(folder, 'unlabelled_set', [(5, 7)] * 3, first_label=-1)
  return folder


def _store(folder: pathlib.Path, name: str, sizes: list[tuple[int, int]], first_label: int) -> None:
  fixed = len(set(sizes)) == 1
  shape = (*sizes[0], 3) if fixed else (None, None, 3)
  features = {
    'image': tfds.features.Image(shape=shape, encoding_format='png'),
    'label': tfds.features.ClassLabel(names=['no', 'yes']),
  }
  images = [np.full((*size, 3), index, np.uint8) for index, size in enumerate(sizes)]
  labels = [index % 2 if first_label == 0 else -1 for index in range(len(sizes))]
  examples = labelled(images, labels)
  store(folder, name, features, {'test': examples, 'train': examples[:2]})
