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
  """Base class of stored examples, which are not decoded yet.

  An element is a dict of `example_id`, int64 []; `label`, integer [] or [L]; and `stored`: encoded
  bytes, a path, or pixels.

  Attributes:
    labels: labels of all examples, integers [N] or [N, L]; None if labels are stored only with the
      images. For a set of equal parts, such as one part per corruption, of the same n images, the
      labels may be only the n labels of the first part.
  """

  labels: np.ndarray | None = None

  @abc.abstractmethod
  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the elements at ascending, distinct `indices`, int64 [n], in this order."""


class IndexedStore(Store):
  """A store with elements that can be read one by one at any index, as for shuffled training."""

  @abc.abstractmethod
  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the element at an index, int64 []."""

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """Returns the elements at `indices`, int64 [n], which are read one by one."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(np.asarray(indices, np.int64)).map(self.element)


class StreamedStore(Store):
  """A store of files that are read from front to back; training shuffles elements in a buffer."""

  @abc.abstractmethod
  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """Returns the endless sequence of shuffled epochs over `indices`, from element `start` on.

    Epoch e is a permutation of `indices` that depends on (seed, e) only, so that a resumed training
    sees the same order.
    """


@runtime_checkable
class HostStore(Protocol):
  """A store with elements that Python can read one by one, without TensorFlow."""

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """Returns the stored value (encoded bytes, a path or pixels) and the label at an index."""
    ...


@dataclasses.dataclass(frozen=True)
class MemoryStore(IndexedStore):
  """Examples held in memory.

  Attributes:
    stored: pixels [N, ...], or encoded bytes or paths [N].
    labels: integers [N] or [N, L].
  """

  stored: np.ndarray
  labels: np.ndarray

  @functools.cached_property
  def _tensors(self) -> tuple[tf.Tensor, tf.Tensor]:
    """The stored images and the labels as constants of TensorFlow."""
    import tensorflow as tf

    # `Dataset.map` uses them first, within its own graph; `init_scope` makes them outside of it, so
    # that later graphs can use them too
    with tf.init_scope():
      return tf.constant(self.stored), tf.constant(self.labels)

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the element at an index; the index is also its `example_id`."""
    import tensorflow as tf

    stored, labels = self._tensors
    label = tf.gather(labels, index)
    return {'example_id': index, 'label': label, 'stored': tf.gather(stored, index)}

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """Returns the stored value and the label at an index."""
    return self.stored[index], self.labels[index]


@dataclasses.dataclass(frozen=True)
class PartsStore(IndexedStore):
  """Examples of a set of equal parts, each the same n base images in the same order.

  For example, each part holds the images under one corruption at one severity. Image i of part p
  has the index p n + i and the label of base image i.

  Attributes:
    fetch: function of the numbers p and i that returns pixels, uint8 of `shape`, or a path in
      bytes.
    labels: labels of the base images, integers [n] or [n, L].
    shape: shape of the pixels; () for paths or encoded bytes.
  """

  fetch: Callable[[int, int], np.ndarray | bytes]
  labels: np.ndarray
  shape: tuple[int, ...] = ()

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the element at an index; TensorFlow calls back to Python for its stored value."""
    import tensorflow as tf

    dtype = tf.uint8 if self.shape else tf.string
    stored = tf.numpy_function(lambda i: self.host_element(int(i))[0], [index], dtype)
    label = tf.gather(tf.constant(self.labels), index % len(self.labels))
    return {'example_id': index, 'label': label, 'stored': tf.ensure_shape(stored, self.shape)}

  def host_element(self, index: int) -> tuple[bytes | np.ndarray, int | np.ndarray]:
    """Returns the stored value and the label at an index."""
    part, base = divmod(index, len(self.labels))  # the index is part · n + base
    return self.fetch(part, base), self.labels[base]


@dataclasses.dataclass(frozen=True)
class Images:
  """Stored images with labels, as a source returns them.

  Attributes:
    title: names the images in messages, for example "folder 'photos'".
    description: JSON values that identify the images in results.json.
    num_examples: the number of examples.
    class_names: the names of the classes in label order.
    channels: 1 when every image is grey, else 3.
    store: the examples, not decoded.
    where: function from an index to a description of the example, for messages.
    sizes: function from indices to (height, width) of each, or to None if this needs decoding.
    decode: function from `stored` to an image [H, W, channels], uint8 or uint16, or float32 in
      [0, 1]; or to a dict of `image`, which is resized and cropped as the settings say, and further
      columns, which are not. None if `read` is given, or if `stored` is the image.
    read: alternative to `decode` that runs in Python: function from `stored`, as bytes, to an
      image, uint8 [H, W, channels].
    columns: further properties of all examples, {name: array [num_examples, ...]}.
    choose: function `(num_images, seed) -> indices`, ascending, where examples form groups that a
      subset takes whole or not at all, such as the frames of a neighbor set; None draws examples
      singly.
    check: function of indices, int64 [n], that raises InputError if examples are listed but not
      stored; called before any is read. None if all listed examples exist.
    parts: number of equal parts, such as one corruption at one severity, in which the examples
      come; a subset takes the same base images from every part.
    names: `<class>/<file>` of the images of one part, if they are files; else ().
    as_stored: whether images keep their stored size unless the settings change it, instead of being
      prepared for the classifier. True for backgrounds and cutouts, which are composed first.
    cropped: whether images were resized and cropped before they were stored, as in published sets
      of corrupted images. For a classifier of another input size they are resized but not cropped
      again.
    arrays: images [N, H, W, channels], uint8 or float32 in [0, 1], and integer labels [N] or [N,
      L], if the set is stored as two arrays; it is then read without TensorFlow, unless images are
      resized or cropped.
    header: function from `stored`, as bytes, to what `image_files.read_header` returns; None if the
      examples are no image files.
    file: function from an index to the path of its image file; None if examples are no files, or
      of a published set of millions of files.
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
    """Raises InputError for class names, labels or columns of a wrong type, shape or name."""
    if not all(isinstance(name, str) for name in self.class_names):
      raise InputError(f'class names of {self.title} are {self.class_names}; expected texts.')
    if self.read and isinstance(self.store, MemoryStore) and self.store.stored.ndim > 1:
      raise InputError(f'{self.title} stores pixels, and `read` takes bytes: leave `read` out.')
    labels = self.store.labels
    if labels is not None:
      part_size = self.num_examples // self.parts
      are_labels = labels.dtype.kind in 'iu' and labels.ndim in (1, 2)
      # a store may have the labels of all examples, or of one part
      if not are_labels or len(labels) not in (part_size, self.num_examples):
        raise InputError(
          f'labels of {self.title} are {labels.dtype} of shape {labels.shape}; expected integers '
          f'[{part_size}], or [{part_size}, L] padded with -1.'
        )
    for name, values in self.columns.items():
      if name in RESERVED:
        raise InputError(
          f'{self.title} has a column {name!r}; {", ".join(RESERVED)} are taken: rename it.'
        )
      is_array = isinstance(values, np.ndarray) and values.dtype.kind in 'biufUS'
      if not is_array or values.shape[:1] != (self.num_examples,):
        kind, shape = getattr(values, 'dtype', type(values).__name__), np.shape(values)
        raise InputError(
          f'column {name!r} of {self.title} is {kind} of shape {shape}; expected an array of '
          f'numbers or texts [{self.num_examples}, ...].'
        )

  def decoded(self, stored: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the `image` that an element's `stored` value is decoded to, and further columns.

    There are further columns if `decode` returns them, such as a mask.
    """
    if self.decode is not None:
      decoded = self.decode(stored)
      return decoded if isinstance(decoded, dict) else {'image': decoded}
    read = self.read
    if read is None:
      return {'image': stored}
    import tensorflow as tf

    image = tf.numpy_function(lambda value: read(bytes_of(value)), [stored], tf.uint8)
    return {'image': tf.ensure_shape(image, [None, None, self.channels])}

  def decoded_size(self, element: Mapping[str, tf.Tensor]) -> Size:
    """Returns (height, width) of a stored element, which is decoded; may raise InputError."""
    import tensorflow as tf

    try:
      height, width = self.decoded(element['stored'])['image'].shape[:2]
    except (tf.errors.OpError, InputError) as error:
      example = self.where(int(element['example_id']))
      raise InputError(f'{example} cannot be decoded: {error}') from error
    return int(height), int(width)


def bytes_of(value: bytes | np.ndarray) -> bytes:
  """Returns the bytes of an argument of a Python function that TensorFlow calls.

  TensorFlow passes bytes in a graph, and an array without dimensions that holds them when eager.
  """
  return value if isinstance(value, bytes) else value.item()


def array_images(
  images: np.ndarray, labels: np.ndarray, class_names: Sequence[str], title: str, description: Facts
) -> Images:
  """Returns the `Images` of one array of images and one of labels.

  Args:
    images: [N, H, W, 1 or 3], uint8 or float32 in [0, 1].
    labels: integers [N] or [N, L].
    class_names: names of the classes in label order.
    title: names the images in messages.
    description: JSON values that identify the images in results.json.

  Raises:
    InputError: images have another shape, or labels another shape, type or range.
  """
  shape: tuple[int, ...] = getattr(images, 'shape', ())
  if len(shape) != 4 or shape[3] not in (1, 3):
    raise InputError(
      f'images of {title} are a {type(images).__name__} of shape {shape}; expected an array '
      '[N, H, W, 1 or 3].'
    )
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
