"""Sources `npz` and `npy`: arrays of images and labels, in a file or a folder.

`npz` reads a `.npz` file, `npy` a folder of `.npy` files. The arrays are called `images` and
`labels`, or `image` and `label`, or `x` and `y`. Images are uint8, or floats in [0, 1], [N, H, W],
[N, H, W, 1] or [N, H, W, 3]; labels are integers [N] or [N, L]. A file or folder may hold splits,
as in `x_train`, `y_train`, `x_test`, `y_test`. An array `class_names` is optional; without it the
classes are called '0', '1', ... up to the largest label. `example_id` is the index in the arrays.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from input_pipeline.images import Images, array_images
from input_pipeline.settings import DataSettings, Source
from robustness.core import rows
from robustness.core.array_files import read_npz
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded

_IMAGES, _LABELS = ('images', 'image', 'x'), ('labels', 'label', 'y')
"""Names of the arrays of images and of labels."""


@dataclasses.dataclass(frozen=True)
class Npz(Source):
  """Images and labels in an `.npz` file, which is read completely.

  Attributes:
    path: the file. (For the data source 'npy', a folder of `.npy` files.)
  """

  path: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns the images and labels of the split.

    Raises:
      InputError: an array is missing or invalid.
    """
    arrays, title = self.arrays(), self.path
    images_name = _find(arrays, _IMAGES, settings.split, title)
    labels_name = _find(arrays, _LABELS, settings.split, title)
    images = _checked_images(arrays[images_name], f'{title}: {images_name!r}')
    labels = _checked_labels(arrays[labels_name], len(images), f'{title}: {labels_name!r}')
    description = {'path': self.path, 'split': settings.split}
    return array_images(images, labels, _class_names(arrays, labels, title), title, description)

  def splits_overlap(self, split: str, other_split: str) -> bool:
    """Returns whether two splits are read from the same array."""
    if split == other_split:
      return True
    arrays = self.arrays()
    return len({_find(arrays, _IMAGES, name, self.path) for name in (split, other_split)}) == 1

  def arrays(self) -> Mapping[str, np.ndarray]:
    """Reads all arrays from the file, `{name: array}`; refuses pickled objects."""
    if not self.path or not expanded(self.path).is_file():
      raise self.refused('path', 'which is no file', 'Give a .npz file.')
    return read_npz(expanded(self.path), 'Give a file that numpy.savez wrote.')


class Npy(Npz):
  """Images and labels in a folder of `.npy` files, which are memory-mapped."""

  name = 'npy'

  def arrays(self) -> Mapping[str, np.ndarray]:
    """Memory-maps all arrays in the folder, `{name: array}`."""
    folder = self.folder('give the one that holds images.npy and labels.npy.')
    return {file.stem: read_npy(file) for file in sorted(folder.glob('[!.]*.npy'))}


def read_npy(path: Path) -> np.ndarray:
  """Memory-maps an `.npy` file.

  Raises:
    InputError: the file is damaged or contains pickled objects.
  """
  if path.exists() and not path.is_file():  # reading a pipe would wait for its other end
    raise InputError(f'{path} is no regular file: give a copy of the array.')
  try:
    array = np.load(path, mmap_mode='r', allow_pickle=False)
  except Exception as error:  # for a damaged header np.load raises errors of many types
    problem = f'{path} cannot be read as .npy'
    raise InputError(f'{problem}: {error}. It may be truncated: fetch it again.') from error
  if not isinstance(array, np.ndarray):  # np.load opens a zip archive as an NpzFile
    array.close()
    raise InputError(f'{path} is a zip archive and no .npy file: fetch it again.')
  return array


def _find(arrays: Mapping[str, np.ndarray], names: tuple[str, ...], split: str, path: str) -> str:
  """Returns the name of the array for a split, such as 'images_train'.

  For the splits '' and 'test', names without a split, such as 'images', are valid too.

  Args:
    arrays: {name: array}.
    names: names without a split to try in order, such as 'images' and 'x'.
    split: the split.
    path: the file or folder, for messages.

  Raises:
    InputError: there is no such array.
  """
  can_be_unsplit = split in ('', 'test')
  for name in names:
    if split and f'{name}_{split}' in arrays:
      return f'{name}_{split}'
    if name in arrays and can_be_unsplit:
      return name
  expected = ' or '.join(repr(f'{name}_{split}') for name in names)
  advice = f"; to read unsplit arrays set {KEYS.data.split:--}=''"
  if can_be_unsplit:
    advice = ', or ' + ' or '.join(map(repr, names))
  problem = f'{path} has no array {expected}{advice}'
  raise InputError(f'{problem}. It holds {", ".join(map(repr, sorted(arrays))) or "nothing"}.')


def _checked_images(images: np.ndarray, title: str) -> np.ndarray:
  """Validates images and returns them as uint8 or float32 [N, H, W, C].

  Raises:
    InputError: the shape, type or range is not valid.
  """
  if images.ndim == 3:
    images = images[..., None]
  if images.ndim != 4 or images.shape[-1] not in (1, 3):
    is_channels_first = images.ndim > 1 and images.shape[1] in (1, 3)
    hint = ' It looks channels-first: transpose it.' if is_channels_first else ''
    problem = f'{title} has shape {images.shape}'
    raise InputError(f'{problem}; expected [N, H, W], [N, H, W, 1] or [N, H, W, 3].{hint}')
  if not images.size:
    raise InputError(f'{title} holds no images (shape {images.shape}).')
  if images.dtype == np.uint8:
    return images  # as it is: it may be mapped from a file
  if images.dtype.kind != 'f':
    raise InputError(f'{title} is {images.dtype}; expected uint8 in 0..255 or floats in [0, 1].')
  if outside := rows.values_outside(images):
    valid = 'floats must lie in [0, 1]. Divide by 255, or store uint8'
    raise InputError(f'{title}: {outside}; {valid}.')
  return images.astype(np.float32, copy=False)


def _checked_labels(labels: np.ndarray, num_images: int, title: str) -> np.ndarray:
  """Validates labels and returns them as int32 [N], or [N, L] for up to L labels per image.

  Labels of shape [N, 1] become [N].

  Raises:
    InputError: labels are not integers, or their number is not `num_images`.
  """
  if labels.ndim == 2 and labels.shape[1] == 1:
    labels = labels[:, 0]
  rows.check_label_array(labels, title)
  if len(labels) != num_images:
    raise InputError(f'{title} has {len(labels)} labels for {num_images} images.')
  return labels.astype(np.int32)


def _class_names(
  arrays: Mapping[str, np.ndarray], labels: np.ndarray, title: str
) -> tuple[str, ...]:
  """Returns the class names in label order, from the array 'class_names' if there is one.

  Otherwise the names are '0', '1', ...

  Args:
    arrays: {name: array}.
    labels: labels of N images, [N] or [N, L].
    title: name of the data set in messages.

  Raises:
    InputError: a label has no name.
  """
  if 'class_names' not in arrays:
    return rows.numbered_classes(int(labels.max()), title)
  stored = np.atleast_1d(arrays['class_names'])
  is_bytes = stored.dtype.kind == 'S'
  stored = np.char.decode(stored, 'utf-8', 'replace') if is_bytes else stored
  names = tuple(map(str, stored))
  rows.check_class_names(names, f"{title}: 'class_names'")
  rows.check_label_array(labels, f'{title}: labels', num_classes=len(names))
  return names
