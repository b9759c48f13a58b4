"""Conversion of users' arrays, and of data sets of other libraries, to rows.

The protocols of MAITE (Modular AI Trustworthy Engineering) are structural: an object that has them
need not inherit from its classes, and nothing here imports it.
"""

import contextlib
import dataclasses
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from robustness.core import arguments
from robustness.core.errors import InputError
from robustness.core.rows import RESERVED, ArrayRows, check_label_array

COLOURS = (1, 3, 4)
"""Numbers of channels that images have."""
ENDLESS = 2**40
"""Fewest entries of data that count as data without end."""


def rows_of(
  data: Any,
  labels: Any = None,
  columns: Mapping[str, Any] | None = None,
  class_names: Sequence[str] = (),
) -> ArrayRows:
  """Returns users' images and labels as a data set in memory.

  `data` is either an array of images, or a data set of pairs (image, label).

  Args:
    data: images [N, H, W, C], uint8 or floats in [0, 1]. Or pairs (image, label), single or in
      batches, from a `tf.data.Dataset`, a PyTorch data set or loader, a Grain or MAITE data set, or
      a list. PyTorch tensors and MAITE images have channels first, all others channels last.
    labels: integers [N], or None if `data` contains the labels.
    columns: {name: further values of each image, [N, ...]}.
    class_names: names of the classes, in label order. With (), the names of a MAITE data set are
      used, and other data have no names.

  Raises:
    InputError: there are no images, an array has channels first, values are outside [0, 1], labels
      are not integers [N], or a column has a reserved name or is not an array [N, ...].
  """
  if labels is None:
    images, labels = _stack_pairs(data)
  else:
    images, labels = _image_array(data), as_array(labels)
  if images.ndim == 4 and images.shape[3] not in COLOURS and images.shape[1] in COLOURS:
    raise InputError(
      f'images have shape {images.shape}, channels first: give images.transpose(0, 2, 3, 1).'
    )
  if images.dtype.kind == 'f':
    images = images.astype(np.float32, copy=False)
  arrays = {name: as_array(column) for name, column in (columns or {}).items()}
  for name, array in arrays.items():
    if not isinstance(name, str) or name.startswith('_') or name in RESERVED:
      raise InputError(
        f'a column is called {name!r}; a name is a text that begins without _ and is not one of '
        f'{", ".join(RESERVED)}: rename it.'
      )
    if array.dtype == object and all(isinstance(value, str) for value in array.ravel()):
      array = array.astype(str)  # a column of texts in pandas
      arrays[name] = array
    if not array.ndim or array.dtype == object:
      raise InputError(
        f'column {name!r} is {array.dtype} of shape {array.shape}; expected numbers or texts '
        "[N, ...], with '' for a missing text."
      )
  rows = ArrayRows(images, labels, (), columns=arrays)
  return with_class_names(rows, class_names or maite_class_names(data))


def with_class_names(rows: ArrayRows, class_names: Sequence[str]) -> ArrayRows:
  """Returns the data set with names for its classes.

  Args:
    rows: the data set.
    class_names: names in label order; () for no names.

  Raises:
    InputError: a label has no name.
  """
  if len(class_names):
    check_label_array(rows.labels, 'labels', is_complete=False, num_classes=len(class_names))
  return dataclasses.replace(rows, class_names=tuple(class_names))


def _stack_pairs(data: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns the images [N, H, W, C] and labels [N] of a data set of pairs (image, label).

  `data` is a data set or loader of any library, or a list; a pair may also be a batch.
  """
  images, labels = [], []
  for entry in _iterate(data):
    image, label = _split_pair(entry)
    image_batch, label_batch = (image, label) if image.ndim == 4 else (image[None], label[None])
    images.append(image_batch)
    labels.append(label_batch)
    expected_shape = len(image_batch), *labels[0].shape[1:]  # [B], or [B, L] padded with -1
    if label_batch.shape != expected_shape:
      raise InputError(
        f'images of shape {image.shape} have labels of shape {label.shape}: give each image one '
        'label, or all images equally many, padded with -1.'
      )
  if not images:
    raise InputError('no images: the data are empty.')
  _check_sizes(image.shape[1:] for image in images)
  return np.concatenate(images), np.concatenate(labels)


def _split_pair(entry: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns the image and the label, or images and labels, of an entry of a data set or loader.

  The entry is (image, label), {'image': ..., 'label': ...}, or (image, target, metadata) of MAITE;
  each may be a batch.
  """
  parts: tuple[Any, ...] = ()
  if isinstance(entry, Mapping):
    parts = entry.get('image'), entry.get('label')
  elif hasattr(entry, '__len__'):
    parts = tuple(entry)
  if len(parts) == 3 and isinstance(parts[2], Mapping):  # one image of MAITE's data set
    parts = stacked_images([parts[0]]), _classes([parts[1]])
  elif len(parts) == 3 and isinstance(parts[2], Sequence):  # a batch of MAITE's loader
    parts = stacked_images(parts[0]), _classes(parts[1])
  if len(parts) != 2 or parts[0] is None or parts[1] is None:
    raise InputError('data without labels must be pairs (image, label): give labels=... as well.')
  image, label = parts
  return _image_array(image), as_array(label)


def maite_metadata(value: Any) -> Mapping[str, Any]:
  """Returns the metadata of a data set or model of the library MAITE; {} for other objects.

  MAITE's protocols require an attribute `metadata`, a mapping with the key 'id'.
  """
  metadata = getattr(value, 'metadata', None)
  return metadata if isinstance(metadata, Mapping) and 'id' in metadata else {}


def maite_class_names(value: Any) -> tuple[str, ...]:
  """Returns the class names in the metadata of a data set or model of MAITE; () if it has none.

  Raises:
    InputError: `index2label` does not number its names from 0.
  """
  names = maite_metadata(value).get('index2label', {})
  if sorted(names) != [*range(len(names))]:
    raise InputError(f'index2label has the keys {[*names]}; they must be 0 to {len(names) - 1}.')
  return tuple(names[number] for number in range(len(names)))


def stacked_images(images: Iterable[Any]) -> np.ndarray:
  """Returns images from MAITE's data sets, [C, H, W] each, as one array [N, H, W, C].

  Raises:
    InputError: an image does not have its channels first, is neither uint8 nor floating, or has
      another size than the first image.
  """
  arrays = [as_array(image) for image in images]
  for array in arrays:
    if array.ndim != 3 or array.shape[0] not in COLOURS:
      raise InputError(f'an image has the shape {array.shape}; images of MAITE are (C, H, W).')
    if array.dtype != np.uint8 and array.dtype.kind != 'f':
      raise InputError(f'an image is {array.dtype}; it must be uint8, or floats in [0, 1].')
  _check_sizes(array.shape[1:] for array in arrays)
  return np.stack(arrays).transpose(0, 2, 3, 1)


def _classes(targets: Iterable[Any]) -> np.ndarray:
  """Returns the classes [N] of MAITE's one-hot targets; InputError if one is not one-hot."""
  arrays = [as_array(target) for target in targets]
  for array in arrays:
    if array.ndim != 1 or np.count_nonzero(array) != 1 or array.max() != 1:
      raise InputError(f'a target is {array.tolist()}; targets of MAITE are one-hot, (classes,).')
  return np.array([array.argmax() for array in arrays])


def _check_sizes(sizes: Iterable[tuple[int, ...]]) -> None:
  """Raises InputError unless all images have one size."""
  distinct = sorted(set(sizes))
  if len(distinct) > 1:
    raise InputError(f'images have the sizes {distinct[0]} and {distinct[1]}: resize them to one.')


def _iterate(data: Any) -> Iterator[Any]:
  """Returns an iterator over a data set, which is read by index if it has no `__iter__`.

  Raises:
    InputError: the data are an array of images without labels, have no entries, or are data of
      `tf.data` or Grain that repeat without end.
  """
  has_iterator, has_index = hasattr(data, '__iter__'), hasattr(data, '__getitem__')
  if isinstance(data, np.ndarray) or not (has_iterator or has_index):
    raise InputError(f'data is a {type(data).__name__} without labels: give labels [N].')
  is_endless = hasattr(data, 'cardinality') and int(data.cardinality()) == -1  # of `tf.data`
  # Grain's data sets, and the samplers of its loaders, have a huge length if they repeat. Streams
  # of PyTorch may raise an error in place of a length.
  lengths = [0]
  for part in (data, getattr(data, '_sampler', ())):
    with contextlib.suppress(NotImplementedError):
      lengths.append(operator.length_hint(part, 0))
  if is_endless or max(lengths) >= ENDLESS:
    raise InputError('data repeat without end: give one epoch, such as data.take(N).')
  return iter(data) if has_iterator else (data[number] for number in range(len(data)))


def _image_array(image: Any) -> np.ndarray:
  """Returns an image, or a batch of images, as an array with channels last.

  Raises:
    InputError: a tensor of PyTorch has channels last.
  """
  array = as_array(image)
  if not hasattr(image, 'detach') or array.ndim not in (3, 4):  # no tensor of PyTorch
    return array
  if array.shape[-1] in COLOURS and array.shape[-3] not in COLOURS:
    raise InputError(
      f'a tensor of PyTorch has the shape {array.shape}, channels last; tensors have channels '
      'first, [N, C, H, W], and arrays channels last, [N, H, W, C]: give tensor.numpy().'
    )
  return np.moveaxis(array, -3, -1)


def as_array(value: Any) -> np.ndarray:
  """Returns a NumPy array with the values of an array-like object.

  Args:
    value: a JAX, NumPy, PyTorch or TensorFlow array, a Pillow image, a number, or nested lists of
      numbers.

  Raises:
    InputError: NumPy cannot convert the value, for example lists of different lengths.
  """
  return np.asarray(arguments.as_array('a value', value))


def as_numbers(value: Any) -> tuple[float, ...] | None:
  """Returns a number, or a sequence or array of numbers, as a flat tuple of floats.

  None is returned unchanged.

  Raises:
    InputError: the value contains something other than numbers.
  """
  if value is None:
    return None
  numbers = np.ravel(as_array(value))
  if numbers.dtype.kind not in 'biuf':
    raise InputError(f'{value!r} is no number, and no sequence or array of numbers.')
  return tuple(numbers.astype(float).tolist())
