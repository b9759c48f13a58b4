"""How stored images are described before they are read: where they are, how one is decoded, labels.

A source of `input_pipeline.sources` returns `Images` with a store of examples, still encoded.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from robustness.core.errors import InputError
from robustness.core.rows import RESERVED, check_label_array
from robustness.core.typing import Facts

if TYPE_CHECKING:  # rows of arrays are read without it
  import tensorflow as tf
Size = tuple[int, int]
"""Height and width in pixels."""


class Store(abc.ABC):
  """Base class for stored images with labels, which are decoded later.

  An element is a dictionary of TensorFlow values: `example_id`, int64 []; `label`, integer [] or
  [L]; and `stored`, which is encoded bytes, a path, or pixels.

  Attributes:
    labels: labels of all N images, integers [N] or [N, L]. None if labels are stored only with the
      images. If the data set repeats the same images in several parts, for instance under each
      corruption, the labels of one part suffice.
  """

  labels: np.ndarray | None = None

  @abc.abstractmethod
  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the undecoded images and labels at some indices, as a data set.

    Args:
      indices: int64 [n], distinct and ascending.
    """


class IndexedStore(Store):
  """Stored images that can be read one by one at any index, as shuffled training needs."""

  @abc.abstractmethod
  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the undecoded image and label at an index, int64 [], see `Store`."""

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the undecoded images and labels at `indices`, int64 [n], as a data set."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(np.asarray(indices, np.int64)).map(self.element)


class StreamedStore(Store):
  """Stored images that can only be read in sequence, such as record files.

  Training shuffles them in a buffer.
  """

  @abc.abstractmethod
  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """Returns the undecoded images and labels in shuffled epochs, without end.

    The order of epoch e depends only on `seed` and e, so that resumed training sees the same order.

    Args:
      indices: indices of the images in an epoch.
      seed: seed of the order.
      start: how many elements of the sequence to skip.
    """


@runtime_checkable
class HostStore(Protocol):
  """Stored images that Python can read one by one, without TensorFlow."""

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """Returns the undecoded image (encoded bytes, a path or pixels) and label at an index."""


@dataclasses.dataclass(frozen=True)
class MemoryStore(IndexedStore):
  """Images and labels in memory.

  Attributes:
    stored: pixels [N, ...], or encoded bytes or paths [N].
    labels: integers [N] or [N, L].
  """

  stored: np.ndarray
  labels: np.ndarray

  @functools.cached_property
  def _tensors(self) -> tuple[tf.Tensor, tf.Tensor]:
    """The stored images and the labels as TensorFlow constants."""
    import tensorflow as tf

    # `Dataset.map` uses them first, within its own graph; `init_scope` makes them outside of it, so
    # that later graphs can use them too
    with tf.init_scope():
      return tf.constant(self.stored), tf.constant(self.labels)

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the undecoded image and label at an index, which is also the `example_id`."""
    import tensorflow as tf

    stored, labels = self._tensors
    label = tf.gather(labels, index)
    return {'example_id': index, 'label': label, 'stored': tf.gather(stored, index)}

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """Returns the undecoded image and the label at an index."""
    return self.stored[index], self.labels[index]


@dataclasses.dataclass(frozen=True)
class PartsStore(IndexedStore):
  """Images that are stored in parts, each with the same n base images in the same order.

  For example, each part holds the base images under one corruption at one severity. Image i of part
  p has the index p · n + i and the label of base image i.

  Attributes:
    fetch: called with p and i; returns pixels, uint8 of `shape`, or encoded bytes or a path.
    labels: labels of the base images, integers [n] or [n, L].
    shape: shape of the pixels; () for encoded bytes or paths.
  """

  fetch: Callable[[int, int], np.ndarray | bytes]
  labels: np.ndarray
  shape: tuple[int, ...] = ()

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the undecoded image and label at an index, by a TensorFlow call of `fetch`."""
    import tensorflow as tf

    dtype = tf.uint8 if self.shape else tf.string
    stored = tf.numpy_function(lambda i: self.host_element(int(i))[0], [index], dtype)
    label = tf.gather(tf.constant(self.labels), index % len(self.labels))  # of the base image
    return {'example_id': index, 'label': label, 'stored': tf.ensure_shape(stored, self.shape)}

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """Returns the undecoded image and the label at an index."""
    part, base = divmod(index, len(self.labels))  # the index is part · n + base
    return self.fetch(part, base), self.labels[base]


@dataclasses.dataclass(frozen=True)
class Images:
  """A data set of images with labels, described before anything is decoded.

  'Stored' below is an undecoded image: encoded bytes, a path, or pixels.

  Attributes:
    title: name of the data set in messages, for example "folder 'photos'".
    description: JSON values that identify the images in results.json.
    num_examples: number of images.
    class_names: names of the classes in label order.
    channels: 1 if every image is grey, else 3.
    store: the stored images.
    where: called with an index; returns a description of the image, for messages.
    sizes: called with indices; returns (height, width) of each image, or None if images must be
      decoded for this.
    decode: called with a stored image in TensorFlow. It returns an image [H, W, channels], uint8,
      uint16, or float32 in [0, 1], or a dictionary of this `image` and further columns. None if
      `read` is given, or if stored images are pixels.
    read: alternative to `decode` in Python: called with the stored image as bytes; returns an
      image, uint8 [H, W, channels].
    columns: further properties of all images, {name: array [num_examples, ...]}.
    choose: called with a number of images and a seed; returns the ascending indices of a random
      subset. Used if images form groups that a subset must not split, such as neighbor sets. None
      chooses images independently.
    check: called with indices, int64 [n], before images are read; raises InputError if an image is
      missing. None if all images exist.
    parts: number of parts of equal size, for instance one for each corruption and severity. A
      random subset uses the same base images in every part.
    names: `<class>/<file>` of the images of one part, if they are files; else ().
    as_stored: whether images keep their size, instead of being resized and cropped for the
      classifier. True for backgrounds and cut-out objects, which are composed first.
    cropped: whether stored images were already resized and cropped, as in published sets of
      corrupted images. They are not cropped again for a classifier of another input size.
    arrays: images [N, H, W, channels], uint8 or float32 in [0, 1], and integer labels [N] or [N,
      L], if the data set consists of two arrays. TensorFlow is then needed only to resize or crop.
    header: called with a stored image as bytes; returns size and greyness like
      `image_files.read_header`. None if images are not files.
    file: called with an index; returns the path of the file with the image, or of its folder if
      the images are millions of files. None if images are not in files.
    left_out: {reason: number of stored files or rows that are not read}.
  """

  title: str
  description: Facts
  num_examples: int
  class_names: tuple[str, ...]
  channels: int
  store: Store
  where: Callable[[int], str]
  sizes: Callable[[Sequence[int]], Iterable[Size] | None]
  decode: Callable[[tf.Tensor], tf.Tensor | dict[str, tf.Tensor]] | None = None
  read: Callable[[bytes], np.ndarray] | None = None
  columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  choose: Callable[[int, int], np.ndarray] | None = None
  check: Callable[[np.ndarray], None] | None = None
  parts: int = 1
  names: Sequence[str] = ()
  as_stored: bool = False
  cropped: bool = False
  arrays: tuple[np.ndarray, np.ndarray] | None = None
  header: Callable[[bytes], tuple[Size, bool]] | None = None
  file: Callable[[int], str] | None = None
  left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    """Raises InputError if class names, labels or columns have a wrong type, shape or name.

    Labels are integers [N], or [N, L] padded with −1. If the data set consists of equal parts with
    the same images, `store` may have the labels of one part. Columns are arrays [N, ...] of numbers
    or texts.
    """
    if not all(isinstance(name, str) for name in self.class_names):
      raise InputError(f'class names of {self.title} are {self.class_names}; expected texts.')
    if self.read and isinstance(self.store, MemoryStore) and self.store.stored.ndim > 1:
      raise InputError(f'{self.title} stores pixels, and `read` takes bytes: leave `read` out.')
    labels = self.store.labels
    if labels is not None:
      part_size = self.num_examples // self.parts
      are_labels = labels.dtype.kind in 'iu' and labels.ndim in (1, 2)
      # a store may have the labels of one part alone, as they are the same in all parts
      if not are_labels or len(labels) not in (part_size, self.num_examples):
        raise InputError(
          f'labels of {self.title} are {labels.dtype} of shape {labels.shape}; expected integers '
          f'[{part_size}], or [{part_size}, L] padded with -1.'
        )
    for name, values in self.columns.items():
      if name in RESERVED:
        problem = f'{self.title} has a column {name!r}'
        raise InputError(f'{problem}; {", ".join(RESERVED)} are taken: rename it.')
      is_array = isinstance(values, np.ndarray) and values.dtype.kind in 'biufUS'
      if not is_array or values.shape[:1] != (self.num_examples,):
        kind = getattr(values, 'dtype', type(values).__name__)  # `values` may be no array
        raise InputError(
          f'column {name!r} of {self.title} is {kind} of shape {np.shape(values)}; expected an '
          f'array of numbers or texts [{self.num_examples}, ...].'
        )

  def decoded(self, stored: tf.Tensor) -> dict[str, tf.Tensor]:
    """Decodes a stored image (encoded bytes, a path, or pixels).

    Returns:
      `{'image': [H, W, channels]}`, with further columns if `decode` returns them, such as a mask.
    """
    if self.decode is not None:
      decoded = self.decode(stored)
      return decoded if isinstance(decoded, dict) else {'image': decoded}
    read = self.read  # a name of its own, which type checkers know not to be None in the lambda
    if read is None:
      return {'image': stored}
    import tensorflow as tf

    image = tf.numpy_function(lambda value: read(bytes_of(value)), [stored], tf.uint8)
    return {'image': tf.ensure_shape(image, [None, None, self.channels])}

  def decoded_size(self, element: Mapping[str, tf.Tensor]) -> Size:
    """Decodes a stored image and returns its (height, width).

    Args:
      element: element of the store, with `example_id` and `stored`.

    Raises:
      InputError: the image cannot be decoded.
    """
    import tensorflow as tf

    try:
      height, width = self.decoded(element['stored'])['image'].shape[:2]
    except (tf.errors.OpError, InputError) as error:
      example = self.where(int(element['example_id']))
      raise InputError(f'{example} cannot be decoded: {error}') from error
    return int(height), int(width)


def bytes_of(value: bytes | np.ndarray) -> bytes:
  """Returns the bytes that TensorFlow passes to a Python function.

  TensorFlow passes bytes in a graph, but an array without dimensions in eager mode.
  """
  return value if isinstance(value, bytes) else value.item()


def array_images(
  images: np.ndarray, labels: np.ndarray, class_names: Sequence[str], title: str, description: Facts
) -> Images:
  """Describes an array of images and an array of labels as `Images`.

  Args:
    images: [N, H, W, 1 or 3], uint8 or float32 in [0, 1].
    labels: integers [N] or [N, L].
    class_names: names of the classes in label order.
    title: name of the data set in messages.
    description: JSON values that identify the images in results.json.

  Raises:
    InputError: `images` have another shape, or `labels` another shape, type or range.
  """
  shape: tuple[int, ...] = getattr(images, 'shape', ())
  if len(shape) != 4 or shape[3] not in (1, 3):
    problem = f'images of {title} are a {type(images).__name__} of shape {shape}'
    raise InputError(f'{problem}; expected an array [N, H, W, 1 or 3].')
  images, labels = np.asanyarray(images), np.asarray(labels)  # a memory map stays one
  check_label_array(labels, f'labels of {title}')
  size = (images.shape[1], images.shape[2])
  return Images(
    title=title,
    description=description,
    num_examples=len(images),
    class_names=tuple(class_names),
    channels=images.shape[3],
    store=MemoryStore(images, labels),
    where=lambda index: f'{title}, example {index}',
    sizes=lambda indices: [size] * len(indices),
    arrays=(images, labels),
  )
