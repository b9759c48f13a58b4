"""What a source is: elements in a fixed order, how to decode one, and what to call it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:  # rows of arrays are read without it
  import tensorflow as tf
Size = tuple[int, int]


class Store(Protocol):
  """Elements that are not decoded yet.

  An element is a dict of `example_id` int64 [], `label` integer [] or [L], and `stored`: encoded
  bytes, a path, or the pixels themselves.
  """

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the elements at `indices` (ascending, without repeats), in that order."""


@runtime_checkable
class IndexedStore(Store, Protocol):
  """Elements that can be read in any order, as a training does."""

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the element at an index, int64 []."""


@runtime_checkable
class StreamedStore(Store, Protocol):
  """Elements that are read from front to back; a training reads them shuffled in a buffer."""

  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """Returns the endless concatenation of shuffled epochs over `indices`, from position `start`.

    Epoch e is a permutation of `indices` that depends on (seed, e) only; position p lies in epoch
    p // len(indices).
    """


@dataclasses.dataclass(frozen=True)
class Source:
  """Stored images with labels.

  Attributes:
    title: what messages call it, for example "folder 'photos'".
    description: plain values for results.json.
    num_examples: how many images there are.
    class_names: in label order.
    channels: 1 when every image is grey, else 3.
    store: the elements.
    decode: from `stored` to an image [H, W, channels], uint8 or uint16, or float32 in [0, 1]; or to
      a dict of `image`, which the settings resize and crop, and further columns, which they do not.
    read: in place of `decode`, of image files: from `stored` as a value on the host to an image,
      uint8 [H, W, channels], which Pillow can resize in the same call.
    where: names one example for messages.
    sizes: height and width of the examples at some indices, or None when only decoding tells.
    columns: what else is known of every example, {name: numbers [num_examples] or
      [num_examples, L]}; see `robustness.core.rows.Rows.batches`.
    choose: `(num_images, seed) -> positions`, ascending, where examples belong together and a
      subset takes all or none of them; None chooses examples one by one.
    parts: of examples that come in equal parts, such as a corruption at a severity: a subset takes
      the same ones from every part.
    names: of the images of one part, `<class>/<file>`, where they are files; else ().
    as_stored: whether images stay as they are unless the settings say otherwise, and are not
      prepared as the classifier wants them: parts of scenes, which are composed first.
    arrays: images [N, H, W, channels], uint8 or float32 in [0, 1], and integer labels [N] or
      [N, L], of sources that lie in two arrays: rows that are neither resized nor cropped are then
      read without TensorFlow. None where examples have to be read or decoded one by one.
    cropped: whether images were resized and cropped before they were stored, as in published sets
      of corrupted images; a classifier of another size then gets them resized and not cropped.
  """

  title: str
  description: Mapping[str, Any]
  num_examples: int
  class_names: tuple[str, ...]
  channels: int
  store: Store
  where: Callable[[int], str]
  sizes: Callable[[Sequence[int]], Iterable[Size] | None]
  decode: Callable[[tf.Tensor], Any] | None = None
  read: Callable[[bytes | np.ndarray], np.ndarray] | None = None
  columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  choose: Callable[[int, int], np.ndarray] | None = None
  parts: int = 1
  names: Sequence[str] = ()
  as_stored: bool = False
  cropped: bool = False
  arrays: tuple[np.ndarray, np.ndarray] | None = None

  def decoded(self, stored: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns `image` and the further columns that decoding gives."""
    if self.decode is None:
      import tensorflow as tf

      image = tf.numpy_function(self.read, [stored], tf.uint8)
      return {'image': tf.ensure_shape(image, [None, None, self.channels])}
    decoded = self.decode(stored)
    return decoded if isinstance(decoded, dict) else {'image': decoded}


def encoded(paths: Iterable[str]) -> list[bytes]:
  """Returns paths in UTF-8; UnicodeEncodeError names one that is no text."""
  return [path.encode() for path in paths]


@dataclasses.dataclass(frozen=True)
class MemoryStore:
  """Elements held in memory: pixels, encoded bytes or paths.

  Attributes:
    stored: [N, ...] numbers or [N] bytes.
    labels: integers [N] or [N, L].
  """

  stored: np.ndarray | tf.Tensor
  labels: np.ndarray | tf.Tensor

  @functools.cached_property
  def _tensors(self) -> tuple[tf.Tensor, tf.Tensor]:
    """What is stored and the labels, made when they are first read."""
    import tensorflow as tf

    with tf.init_scope():  # not in the graph of a map
      return tf.constant(self.stored), tf.constant(self.labels)

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """See `Store`."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(np.asarray(indices, np.int64)).map(self.element)

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """See `IndexedStore`."""
    import tensorflow as tf

    stored, labels = self._tensors
    return {
      'example_id': index,
      'label': tf.gather(labels, index),
      'stored': tf.gather(stored, index),
    }


def array_source(
  images: np.ndarray,
  labels: np.ndarray,
  class_names: tuple[str, ...],
  title: str,
  description: Mapping[str, Any],
) -> Source:
  """Returns a source of images that lie in one array.

  Args:
    images: [N, H, W, C], uint8 or float32 in [0, 1]; C is 1 or 3.
    labels: integers [N], or [N, L] padded with -1.
    class_names: in label order.
    title: what messages call it.
    description: plain values for results.json.
  """
  size = (images.shape[1], images.shape[2])
  return Source(
    title=title,
    description=description,
    num_examples=len(images),
    class_names=class_names,
    channels=images.shape[3],
    store=MemoryStore(images, labels),
    decode=lambda image: image,
    where=lambda index: f'{title}, example {index}',
    sizes=lambda indices: [size] * len(indices),
    arrays=(images, labels),
  )
