"""Reads stored images and their labels as rows of arrays; `load` is the entry point.

Importing the package is fast: TensorFlow is imported only when images are loaded that need it.
`import input_pipeline.builders` registers the TFDS builders of this project.
"""

import contextlib
from collections.abc import Iterator

import numpy as np

from input_pipeline.selection import select
from input_pipeline.settings import DataSettings, Preparation, open_images
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import encoding_fix
from robustness.core.rows import Rows, check_class_names, with_labels

__all__ = ['DataSettings', 'Preparation', 'load']


def load(settings: DataSettings, seed: int = 0, preparation: Preparation | None = None) -> Rows:
  """Loads the images and labels that `config.data` selects.

  Args:
    settings: the section `config.data`.
    seed: seed of the random subset if `settings.num_images` > 0.
    preparation: how a classifier wants images to be resized and cropped. Used only if `settings`
      neither resize nor crop and stored images differ from the classifier's input size. Stored
      corrupted images are then resized but not cropped.

  Returns:
    Images with labels and further columns, in a fixed order. The result is an `ArrayRows`, which
    needs no TensorFlow, if the images are in an array and are used at their stored size; otherwise
    it is a `TfRows`. Both have the same contents.

  Raises:
    InputError: the settings or files are invalid, or TensorFlow is needed and not installed.
  """
  reading = f'{KEYS.data.source} = {settings.source.name!r}'
  resizing = f'resizing or cropping images ({KEYS.data.resize}, crop, random_crop_area)'
  with _refusals(reading):
    images = open_images(settings)
    ''.join(images.class_names).encode()  # raises UnicodeEncodeError for names not in UTF-8
    check_class_names(images.class_names, f'class names of {images.title}')
    selection = select(images, settings, seed, preparation)
  rows: Rows | None = selection.array_rows()
  if rows is None:
    reads_files = images.arrays is None  # arrays need TensorFlow only to be resized or cropped
    with _refusals(reading if reads_files else resizing):
      from input_pipeline.rows import TfRows
    rows = TfRows(selection)
  if settings.known_classes:
    return rows
  # all images get label 0 and no class name, as the classifiers do not know their classes
  return with_labels(rows, np.zeros(len(rows.class_names), np.int32), ())


@contextlib.contextmanager
def _refusals(purpose: str) -> Iterator[None]:
  """A context manager that raises InputError for missing packages and file names not in UTF-8.

  Args:
    purpose: what needs the package or reads the file, for the message.
  """
  try:
    yield
  except UnicodeEncodeError as error:
    raise InputError(
      f'the name {error.object[:200]!a} of a file or folder that {purpose} reads is no '
      f'text in UTF-8{encoding_fix() or ": rename it"}.'
    ) from error
  except ModuleNotFoundError as error:
    missing = (error.name or '').partition('.')[0]
    if missing not in ('tensorflow', 'tensorflow_datasets', 'pyarrow'):
      raise
    raise InputError(
      f'{purpose} needs {missing}, which is not installed: pip install tensorflow '
      "tensorflow-datasets. The sources 'digits', 'npz' and 'npy' are read without it, at the size "
      'at which images are stored.'
    ) from error
