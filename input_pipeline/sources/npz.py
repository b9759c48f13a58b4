"""Arrays in a `.npz` file: `images` with `labels`, or `image`/`label`, or `x`/`y`.

A file may hold splits, as in `x_train`, `y_train`, `x_test`, `y_test`. `class_names` is optional;
without it the classes are called '0', '1', ... up to the largest label. `example_id` is the
position in the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from input_pipeline.images import Source, array_source
from input_pipeline.settings import DataSettings
from robustness.core.array_files import read_npz
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.rows import check_class_names, check_label_array

_IMAGES, _LABELS = ('images', 'image', 'x'), ('labels', 'label', 'y')


def open_source(settings: DataSettings) -> Source:
  """Returns the images of the file `settings.path`: uint8, or floats in [0, 1].

  Raises:
    InputError: the file is missing or truncated, lacks an array, or an array has an unusable
      dtype, shape or value range.
  """
  return source_of(read_arrays(settings.path), settings)


def source_of(arrays: Mapping[str, np.ndarray], settings: DataSettings) -> Source:
  """Returns the images of named arrays.

  Args:
    arrays: those of a file or folder, by the names that this module's docstring gives.
    settings: gives `source`, `path` and `split`.

  Raises:
    InputError: an array is missing, or has an unusable dtype, shape or value range.
  """
  title = settings.path
  images_key = _find(arrays, _IMAGES, settings.split, settings.path)
  labels_key = _find(arrays, _LABELS, settings.split, settings.path)
  images = _checked_images(arrays[images_key], f'{title}: {images_key!r}')
  labels = _checked_labels(arrays[labels_key], len(images), f'{title}: {labels_key!r}')
  return array_source(
    images,
    labels,
    _class_names(arrays, labels, title),
    title=title,
    description={'source': settings.source, 'path': settings.path, 'split': settings.split},
  )


def read_arrays(path: str) -> dict[str, np.ndarray]:
  """Reads every array of a `.npz` file; nothing in it is executed.

  Raises:
    InputError: the file is missing, is no `.npz`, is truncated, or holds Python objects.
  """
  if not path or not expanded(path).is_file():
    raise InputError(f'config.data.path is {path!r}, which is no file; give a .npz file.')
  return read_npz(expanded(path), 'Give a file that numpy.savez wrote.')


def _find(arrays: Mapping[str, np.ndarray], keys: tuple[str, ...], split: str, path: str) -> str:
  for key in keys:
    if split and f'{key}_{split}' in arrays:
      return f'{key}_{split}'
    if key in arrays and split in ('', 'test'):
      return key
  expected = ' or '.join(repr(f'{key}_{split}') for key in keys)
  whole = (
    ', or ' + ' or '.join(map(repr, keys))
    if split in ('', 'test')
    else ("; to read unsplit arrays set --config.data.split=''")
  )
  raise InputError(
    f'{path} has no array {expected}{whole}. It holds '
    f'{", ".join(map(repr, sorted(arrays))) or "nothing"}.'
  )


def _checked_images(images: np.ndarray, where: str) -> np.ndarray:
  if images.ndim == 3:
    images = images[..., None]
  if images.ndim != 4 or images.shape[-1] not in (1, 3):
    first = ' It looks channels-first: transpose it.' if images.shape[1:2] in ((1,), (3,)) else ''
    raise InputError(
      f'{where} has shape {images.shape}; expected [N, H, W], [N, H, W, 1] or [N, H, W, 3].{first}'
    )
  if not images.size:
    raise InputError(f'{where} holds no images (shape {images.shape}).')
  if images.dtype == np.uint8:
    return images  # as it is: it may be mapped from a file
  if images.dtype.kind != 'f':
    raise InputError(f'{where} is {images.dtype}; expected uint8 in 0..255 or floats in [0, 1].')
  low, high = float(images.min()), float(images.max())
  if not (low >= 0 and high <= 1):
    raise InputError(
      f'{where} has values in [{low:g}, {high:g}]; floats must lie in [0, 1]. '
      'Divide by 255, or store uint8.'
    )
  return images.astype(np.float32)


def _checked_labels(labels: np.ndarray, num_images: int, where: str) -> np.ndarray:
  if labels.ndim == 2 and labels.shape[1] == 1:
    labels = labels[:, 0]
  check_label_array(labels, where)
  if len(labels) != num_images:
    raise InputError(f'{where} has {len(labels)} labels for {num_images} images.')
  return labels.astype(np.int32)


def _class_names(
  arrays: Mapping[str, np.ndarray], labels: np.ndarray, title: str
) -> tuple[str, ...]:
  largest = int(labels.max())
  if 'class_names' not in arrays:
    return tuple(str(label) for label in range(largest + 1))
  names = tuple(str(name) for name in np.atleast_1d(arrays['class_names']))
  check_class_names(names, f"{title}: 'class_names'")
  if largest >= len(names):
    row = int(np.argwhere(labels == largest)[0][0])
    raise InputError(
      f'{title}: label {largest} (example {row}) is outside the {len(names)} '
      "classes of 'class_names'."
    )
  return names
