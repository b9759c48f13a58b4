"""Storage to rows: the only home of TensorFlow. `load` is the way in.

Importing the package is light: TensorFlow is imported when rows are loaded that need it. The TFDS
builders of this project are registered by `import input_pipeline.builders`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from input_pipeline.selection import select
from input_pipeline.settings import DataSettings, Preparation
from input_pipeline.sources import open_source
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows

if TYPE_CHECKING:
  from input_pipeline.rows import TfRows

__all__ = ['DataSettings', 'Preparation', 'load']


def load(
  settings: DataSettings, seed: int = 0, preparation: Preparation | None = None
) -> ArrayRows | TfRows:
  """Opens the images that the settings name.

  Args:
    settings: the section `config.data`.
    seed: chooses the subset when `settings.num_images` > 0.
    preparation: how images are resized and cropped if the settings do neither and the stored images
      do not have the right size already; stored corrupted images are only resized.

  Returns:
    Rows in a fixed order, with `training_batches`: `ArrayRows` where the source is an array whose
    images are neither resized nor cropped, else `TfRows`. Both give the same rows and batches.

  Raises:
    InputError: whatever is wrong with the settings or the files, named, or TensorFlow is needed and
      not installed.
  """
  with _tensorflow_for(f'config.data.source = {settings.source!r}'):
    with _names_in_utf8():
      source = open_source(settings)
      ''.join(source.class_names).encode()
  if source.arrays is not None:
    selection = select(source, settings, seed, preparation)
    if selection.as_stored:
      return selection.array_rows()
  with _tensorflow_for('resizing or cropping images (config.data.resize, crop, random_crop_area)'):
    from input_pipeline.rows import TfRows
  return TfRows(source, settings, seed, preparation)


@contextlib.contextmanager
def _names_in_utf8() -> Iterator[None]:
  """A context in which a name of a file or folder that is no text in UTF-8 is refused."""
  try:
    yield
  except UnicodeEncodeError as error:
    raise InputError(
      f'the name {error.object[:200]!a} of a file or folder in config.data.path is no text in '
      'UTF-8: rename it.'
    ) from error


@contextlib.contextmanager
def _tensorflow_for(purpose: str) -> Iterator[None]:
  """Turns a missing TensorFlow into an InputError that says what needs it, and what does not."""
  try:
    yield
  except ModuleNotFoundError as error:
    missing = (error.name or '').partition('.')[0]
    if missing not in ('tensorflow', 'tensorflow_datasets'):
      raise
    raise InputError(
      f'{purpose} needs {missing}, which is not installed: pip install tensorflow '
      "tensorflow-datasets. The sources 'digits', 'npz' and 'npy' are read without it, at the size "
      'at which images are stored.'
    ) from error
