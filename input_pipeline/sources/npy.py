"""A folder of `.npy` files, mapped into memory: of the images only those of a batch are read.

PATH/images.npy is uint8 [N, H, W], [N, H, W, 1] or [N, H, W, 3] and PATH/labels.npy integers [N];
names, splits (`images_train.npy`, `labels_train.npy`, ...) and the optional `class_names.npy` are
those of the arrays of a `.npz` file (`input_pipeline.sources.npz`). `example_id` is the position in
the arrays.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from input_pipeline.images import Source
from input_pipeline.settings import DataSettings
from input_pipeline.sources import npz
from robustness.core.errors import InputError
from robustness.core.paths import expanded


def open_source(settings: DataSettings) -> Source:
  """Returns the images of the folder `settings.path`.

  Raises:
    InputError: no such folder, a file that is truncated or no `.npy` file, or see
      `input_pipeline.sources.npz.source_of`.
  """
  folder = expanded(settings.path)
  if not settings.path or not folder.is_dir():
    raise InputError(
      f'config.data.path is {settings.path!r}, which is no folder; give the one that holds '
      'images.npy and labels.npy.'
    )
  arrays = {file.stem: read_array(file) for file in sorted(folder.glob('[!.]*.npy'))}
  return npz.source_of(arrays, settings)


def read_array(path: Path) -> np.ndarray:
  """Maps a `.npy` file into memory; nothing in it is executed.

  Raises:
    InputError: the file is missing, truncated, or no plain array.
  """
  try:
    return np.load(path, mmap_mode='r', allow_pickle=False)
  except Exception as error:  # headers of NumPy fail in their own ways
    raise InputError(
      f'{path} cannot be read as .npy: {error}. It may be truncated: fetch it again.'
    ) from error
