"""Stored images: elements in a fixed order, how to decode one, and what to call it."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from robustness.core.errors import InputError
from robustness.core.typing import Facts

if TYPE_CHECKING:  # rows of arrays are read without it
  import tensorflow as tf
Size = tuple[int, int]


class Store(abc.ABC):
  """Elements that are not decoded yet.

  An element is a dict of `example_id` int64 [], `label` integer [] or [L], and `stored`: encoded
  bytes, a path, or the pixels themselves. `labels` are the labels of all elements, or of each of
  equal parts; None where only the elements have them.
  """

  labels: np.ndarray | None = None

  @abc.abstractmethod
  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the elements at `indices` (some, ascending, without repeats), in that order."""


class IndexedStore(Store):
  """Elements that can be read in any order, as a training does."""

  @abc.abstractmethod
  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the element at an index, int64 []."""

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(np.asarray(indices, np.int64)).map(self.element)


class StreamedStore(Store):
  """Elements that are read from front to back; a training reads them shuffled in a buffer."""

  @abc.abstractmethod
  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """Returns the endless concatenation of shuffled epochs over `indices`, from position `start`.

    Epoch e is a permutation of `indices` that depends on (seed, e) only.
    """


@runtime_checkable
class HostStore(Protocol):
  """Elements that Python reads one by one, without tf.data."""

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """Returns what is stored at an index, and its label."""
    ...


@dataclasses.dataclass(frozen=True)
class MemoryStore(IndexedStore):
  """Elements held in memory: pixels [N, ...], or encoded bytes or paths [N]."""

  stored: np.ndarray
  labels: np.ndarray

  @functools.cached_property
  def _tensors(self) -> tuple[tf.Tensor, tf.Tensor]:
    import tensorflow as tf

    with tf.init_scope():  # not in the graph of a map
      return tf.constant(self.stored), tf.constant(self.labels)

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    import tensorflow as tf

    stored, labels = (tf.gather(tensor, index) for tensor in self._tensors)
    return {'example_id': index, 'label': labels, 'stored': stored}

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """See `HostStore`."""
    return self.stored[index], self.labels[index]


@dataclasses.dataclass(frozen=True)
class PartsStore(IndexedStore):
  """Elements in equal parts with the same labels [n], fetched one by one.

  `fetch` takes the numbers of a part and of an image in it and returns uint8 pixels of the shape,
  or a path in bytes, of shape ().
  """

  fetch: Callable[[int, int], np.ndarray | bytes]
  labels: np.ndarray
  shape: tuple[int, ...] = ()

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    import tensorflow as tf

    count, kind = len(self.labels), tf.uint8 if self.shape else tf.string
    stored = tf.numpy_function(lambda i: self.fetch(*divmod(int(i), count)), [index], kind)
    label = tf.gather(tf.constant(self.labels), index % count)
    return {'example_id': index, 'label': label, 'stored': tf.ensure_shape(stored, self.shape)}

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """See `HostStore`."""
    part, place = divmod(index, len(self.labels))
    return self.fetch(part, place), self.labels[place]


@dataclasses.dataclass(frozen=True)
class Images:
  """Stored images with labels.

  Attributes:
    title: names the images in messages, for example "folder 'photos'".
    description: plain values for results.json.
    num_examples: the number of examples.
    class_names: the names of the classes in label order.
    channels: 1 when every image is grey, else 3.
    store: the elements.
    where: names one example for messages.
    sizes: height and width of the examples at some indices, or None if only decoding
      shows them.
    decode: from `stored` to an image [H, W, channels], uint8 or uint16, or float32 in [0, 1]; or to
      a dict of `image`, which the settings resize and crop, and further columns, which they do not.
    read: in place of `decode`, of image files: from `stored` as bytes on the host to an image,
      uint8 [H, W, channels].
    columns: other facts about every example, {name: numbers [num_examples, ...]}.
    choose: `(num_images, seed) -> positions`, ascending, where examples belong together and a
      subset takes all or none of them; None chooses examples one by one.
    check: refuses examples at some indices, int64 [n], that are listed and not stored, before any
      is read; None where all that is listed exists.
    parts: of examples that come in equal parts, such as a corruption at a severity: a subset takes
      the same ones from every part.
    names: of the images of one part, `<class>/<file>`, where they are files; else ().
    as_stored: whether images stay as they are unless the settings say otherwise, and are not
      prepared as the classifier wants them: parts of scenes, which are composed first.
    cropped: whether images were resized and cropped before they were stored, as in published sets
      of corrupted images; a classifier of another size then gets them resized and not cropped.
    arrays: images [N, H, W, channels], uint8 or float32 in [0, 1], and integer labels [N] or
      [N, L], of images that are stored in two arrays: rows that are neither resized nor cropped
      are then read without TensorFlow.
    header: of pictures in files: from `stored` as bytes to `read_header` of it; None where what is
      stored is no picture file.
    left_out: how much of what is stored is not read, by reason.
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
  left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

  def decoded(self, stored: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns `image` and the further columns of a decoded element."""
    if self.decode is None:
      import tensorflow as tf

      read = self.read
      assert read is not None

      def decode(value: bytes | np.ndarray) -> np.ndarray:  # bytes in a graph, an array when eager
        return read(value if isinstance(value, bytes) else value.item())

      image = tf.numpy_function(decode, [stored], tf.uint8)
      return {'image': tf.ensure_shape(image, [None, None, self.channels])}
    decoded = self.decode(stored)
    return decoded if isinstance(decoded, dict) else {'image': decoded}

  def decoded_size(self, element: Mapping[str, tf.Tensor]) -> Size:
    """Returns height and width of an element, pixels."""
    import tensorflow as tf

    try:
      height, width = self.decoded(element['stored'])['image'].shape[:2]
    except (tf.errors.OpError, InputError) as error:
      example = self.where(int(element['example_id']))
      raise InputError(f'{example} cannot be decoded: {error}') from error
    return int(height), int(width)


def array_images(
  images: np.ndarray, labels: np.ndarray, class_names: Sequence[str], title: str, description: Facts
) -> Images:
  """Returns images that are stored in one array; for the arguments see `Images`."""
  size = (images.shape[1], images.shape[2])
  return Images(
    title=title,
    description=description,
    num_examples=len(images),
    class_names=tuple(class_names),
    channels=images.shape[3],
    store=MemoryStore(images, labels),
    decode=lambda image: image,
    where=lambda index: f'{title}, example {index}',
    sizes=lambda indices: [size] * len(indices),
    arrays=(images, labels),
  )
