"""Small sources on disk and in memory for the input pipeline's tests."""

import numpy as np
import pytest
from PIL import Image

from input_pipeline.images import array_images
from input_pipeline.rows import TfRows
from input_pipeline.selection import select
from input_pipeline.settings import DataSettings
from tests.input_pipeline.domains import store_labelled


@pytest.fixture
def make_rows():
  """Returns a function that makes rows of n different uint8 images, labelled by index modulo 5."""

  def make(n=23, seed=0, channels=3, size=(4, 6), **settings):
    images = np.random.default_rng(1).integers(0, 256, (n, *size, channels), dtype=np.uint8)
    labels = np.arange(n, dtype=np.int32) % 5
    source = array_images(images, labels, tuple('abcde'), 'numbers', {'source': 'numbers'})
    return TfRows(select(source, DataSettings(**settings), seed))

  return make


@pytest.fixture
def save_image():
  """Returns a function that writes random pixels of a mode and size (width, height) to a file.

  The pixels follow from the name of the file. The function returns the path.
  """

  def save(path, mode='RGB', size=(8, 8), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {'L': (), 'RGB': (3,), 'RGBA': (4,), 'CMYK': (4,)}[mode]
    seed = np.frombuffer(path.name.encode(), np.uint8)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], *channels), np.uint8)
    Image.frombytes(mode, size, pixels.tobytes()).save(path, **options)
    return path

  return save


@pytest.fixture(scope='session')
def tiny_tfds(tmp_path_factory):
  """Returns a TFDS folder with three data sets of grey images, in which image k has the level k.

  The splits of `tiny_set` are 30 images for testing and 2 for training, labelled 0, 1, 0, ...
  Images of `uneven_set` differ in size, and images of `unlabelled_set` have the label -1.
  """
  folder = tmp_path_factory.mktemp('tfds')
  for name, sizes, labelled in (
    ('tiny_set', [(5, 7)] * 30, True),
    ('uneven_set', [(5, 7), (5, 7), (6, 9)], True),
    ('unlabelled_set', [(5, 7)] * 3, False),
  ):
    shape = (*sizes[0], 3) if len(set(sizes)) == 1 else (None, None, 3)
    images = [np.full((*size, 3), index, np.uint8) for index, size in enumerate(sizes)]
    rows = [(image, k % 2 if labelled else -1) for k, image in enumerate(images)]
    store_labelled(folder, name, {'test': rows, 'train': rows[:2]}, ('no', 'yes'), shape)
  return folder
