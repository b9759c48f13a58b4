"""Rows: images with labels and further columns, read in a fixed order in padded batches.

`input_pipeline` implements the protocol `Rows` with tf.data. `ArrayRows` implements it with numpy
arrays, so that a machine without TensorFlow can run any study. `with_column`, `with_facts` and
`with_labels` return changed rows.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.sampler import Epochs, Sampler, share_of_batch
from robustness.core.settings import require
from robustness.core.typing import Facts

Batch = dict[str, Any]
"""{column: array [B, ...] of B rows}, and 'block', the number of the block; see `Rows.batches`."""
RESERVED = ('image', 'label', 'example_id', 'mask', 'block', 'stored', 'draws')
"""Names of columns that rows have for other purposes; data may not have columns of these names.
Random draws depend on `draws`.
"""
UNKNOWN_CLASSES = 'of no known class'
"""Value of `labels` in the description of rows without labels."""
LEFT_OUT = 'left_out'
"""Key of the description of rows with the numbers of unread files by reason."""
MAX_CACHED_BYTES = 2**31
"""Most bytes of images and columns that `Rows.cached` stores in the host's memory."""
MAX_UNNAMED_CLASSES = 2**20
"""Largest number of classes that are named by their numbers."""


def refuse_unknown_classes(description: Facts, user: str) -> None:
  """Raises InputError if the images were loaded without labels.

  This is the case for `config.data.known_classes=False`, which selects images of unknown classes.

  Args:
    description: facts about the images, as in `Rows.description`.
    user: name of the study or training that needs labels, the subject of the error message.
  """
  if description.get('labels') == UNKNOWN_CLASSES:
    raise InputError(
      f'{user} counts what is right, and images of no known class '
      f'({KEYS.data.known_classes}=False) have no label: leave that key at True.'
    )


class Rows(Protocol):
  """Protocol of a data set of labelled images that is read in a fixed order.

  A row is an image with its label and further columns, such as the path of its file. Rows are read
  in blocks (batches) of consecutive rows. Each row belongs to exactly one block.
  """

  @property
  def description(self) -> Facts:
    """Facts that identify the data as JSON values: source, sizes, counts and settings."""

  @property
  def num_examples(self) -> int:
    """Number of rows."""

  @property
  def image_shape(self) -> tuple[int, int, int]:
    """Height, width and channels of every image."""

  @property
  def class_names(self) -> tuple[str, ...]:
    """Names of the classes, in label order."""

  def at(self, positions: np.ndarray) -> Rows:
    """Returns a subset of the data set with the same example ids.

    Args:
      positions: ascending positions of the selected rows, int in [0, num_examples).
    """

  def with_channels(self, channels: int) -> Rows:
    """Returns the data set with `channels` channels; grey images are repeated.

    Raises:
      InputError: the images are not grey and have another number of channels.
    """

  def cached(self) -> Rows:
    """Returns the same data set, which decodes each image once and then keeps it in memory.

    Images are stored the first time that more than half of the rows are read. Smaller reads before,
    such as samples for a figure, store nothing. Nothing is stored if the rows need more than
    `MAX_CACHED_BYTES`, if crops are random, or if the images are read as a stream.
    """

  def in_memory(self, max_bytes: int) -> ArrayRows | None:
    """Returns the rows as arrays in memory, or None if they cannot be stored.

    Images are uint8 or float32, as they are stored. Rows cannot be stored if they have more than
    `max_bytes` bytes, if the config asks for random crops, or if the images are read as a stream.
    """

  def without_images(self, *, streamed: bool = True) -> Batch:
    """Returns all columns except the images, for every row, as {'label': [N, ...], ...}.

    The columns are `label`, `example_id` and further columns of the data. Some large data sets can
    only be read as a stream of examples. For their labels all images must be read.

    Args:
      streamed: whether a stream may be read for its labels.

    Raises:
      InputError: the data set is a stream, and `streamed` is False or the stream is too long.
    """

  def may_have_changed(self, since: float, positions: slice) -> bool:
    """Returns whether the images at `positions` may have changed after the time `since`.

    Image files have changed if one of them, or a folder with them, was written, replaced or moved,
    or cannot be read. Arrays always may have changed. Other images count as unchanged. No image is
    decoded.

    Args:
      since: a time in seconds, as from `time.time()`.
      positions: contiguous positions of rows.
    """

  def batches(
    self, batch_size: int, blocks: Sequence[int] | None = None, *, stored: bool = False
  ) -> Iterator[Batch]:
    """Yields batches of B = `batch_size` rows in order, each as a dict of columns.

    Args:
      batch_size: rows per batch. Block b holds rows [b * batch_size, (b + 1) * batch_size). The
        last block is padded with zeros.
      blocks: numbers of the blocks to read, ascending. None reads all blocks.
      stored: whether uint8 images are returned as uint8, to be scaled on the device by
        `robustness.core.pixels`. False returns all images as float32 in [0, 1].

    Yields:
      {name of a column: values}, with:

      * `image` float32 [B, H, W, C] in [0, 1], or uint8 if `stored`;
      * `label` int32 [B], or [B, L] padded with -1;
      * `example_id` int32 [B];
      * `mask` bool [B], False on padding;
      * `block`, the number b;
      * further columns of the data: numbers [B] or [B, L], such as `severity`; text [B], such as
        the path of a file; or images [B, ...], such as the object of a scene. Numbers and text are
        saved with the predictions.

    Raises:
      InputError: a block does not exist, or an image cannot be decoded or has another size.
    """

  def training_batches(
    self,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    share: tuple[int, int] = (0, 1),
    sampler: Sampler | None = None,
  ) -> Iterator[Batch]:
    """Returns an endless iterator over shuffled batches, which depends only on the arguments.

    Batch s = 0, 1, ... holds positions [s * batch_size, (s + 1) * batch_size) of the sampler's
    endless sequence of rows. Only the rows of this process are read, from `start_step` on. Images
    that exceed the memory are streamed and shuffled in a buffer.

    Args:
      batch_size: size of the global batch, over all processes.
      seed: seed of the order of the rows in each epoch.
      start_step: number of the first batch.
      share: (k, n) for process k = 0, ..., n - 1 of n, which reads one of n contiguous parts of
        every global batch.
      sampler: order of the rows. None takes `Epochs`, a random permutation in each epoch.

    Returns:
      Dicts of columns, with b = batch_size / n rows each: `image` [b, H, W, C], uint8 if images are
      stored as uint8 and are not resized, else float32 in [0, 1]; `label` int32 [b] or [b, L];
      `example_id` int32 [b]; and the further columns of the rows and of the sampler, [b, ...].

    Raises:
      InputError: n does not divide the batch size, an image cannot be read, or a sampler is given
        for rows that are streamed.
    """


_ORDER = 0x5B5E7
"""Arbitrary constant that makes the draws of `random_order` differ from other draws of a seed."""


def random_order(num_examples: int, seed: int) -> np.ndarray:
  """Returns the positions 0, ..., `num_examples` − 1 in random order, int64 [num_examples].

  Studies that stop early, once the confidence interval is narrow enough (`Study.half_width`), read
  the rows in this order.
  """
  return np.random.default_rng([_ORDER, seed]).permutation(num_examples)


def num_blocks(num_examples: int, batch_size: int) -> int:
  """Returns the number of blocks of `batch_size` rows that contain `num_examples` rows."""
  return -(-num_examples // batch_size)  # rounded up


def chosen_blocks(num_examples: int, batch_size: int, blocks: Sequence[int] | None) -> list[int]:
  """Returns the numbers of the blocks to read, ascending and without repeats.

  Args:
    num_examples: number of rows.
    batch_size: rows per block.
    blocks: numbers of blocks; None selects all.

  Raises:
    InputError: a block does not exist.
  """
  require(batch_size >= 1, 'batch_size', batch_size, 'at least 1')
  count = num_blocks(num_examples, batch_size)
  numbers = list(range(count)) if blocks is None else sorted(set(blocks))
  if numbers and (numbers[0] < 0 or numbers[-1] >= count):
    available = f'{count} blocks of {batch_size} rows, 0..{count - 1}'
    raise InputError(f'blocks {numbers[0]}..{numbers[-1]} asked for; there are {available}.')
  return numbers


def pad_rows(values: np.ndarray, num_rows: int) -> np.ndarray:
  """Returns a copy of an array [n, ...] padded with zeros to [num_rows, ...]."""
  return np.pad(values, [(0, num_rows - len(values))] + [(0, 0)] * (values.ndim - 1))


def pad_batch(batch: Batch, batch_size: int) -> Batch:
  """Returns a batch padded with zeros to `batch_size` rows; `mask` is False on padding."""
  mask = np.arange(batch_size) < len(batch['image'])
  if not mask.all():
    # all columns, but not `block`, the number of the block
    arrays = {name: x for name, x in batch.items() if isinstance(x, np.ndarray)}
    batch = {**batch, **{name: pad_rows(x, batch_size) for name, x in arrays.items()}}
  return {**batch, 'mask': mask}


def as_float32(images: np.ndarray) -> np.ndarray:
  """Returns uint8 images divided by 255 as float32 in [0, 1], and float images unchanged."""
  if images.dtype != np.uint8:
    return images
  return np.asarray(np.divide(images, np.float32(255), dtype=np.float32))


def values_outside(images: np.ndarray) -> str:
  """Returns a phrase on the values of float images outside [0, 1], or '' if there are none.

  Examples are '3 of 3072 image values are NaN' and 'image values lie in [0, 255]'.
  """
  if not images.size or (images.min() >= 0 and images.max() <= 1):
    return ''
  if num_nan := int(np.isnan(images).sum()):
    return f'{num_nan} of {images.size} image values are NaN'
  return f'image values lie in [{images.min():.9g}, {images.max():.9g}]'


def numeric_columns(batch: Batch) -> dict[str, np.ndarray]:
  """Returns the columns of a batch that can be put on a device: boolean, integer and float arrays.

  Columns of text, such as paths, are left out.
  """
  arrays = {name: values for name, values in batch.items() if isinstance(values, np.ndarray)}
  return {name: values for name, values in arrays.items() if values.dtype.kind in 'biuf'}


def are_equal_columns(first: np.ndarray, second: np.ndarray) -> bool:
  """Returns whether two columns have equal values, where NaN equals NaN; texts equal no number."""
  may_have_nan = first.dtype.kind == second.dtype.kind == 'f'
  return bool(np.array_equal(first, second, equal_nan=may_have_nan))


def check_label_array(
  labels: np.ndarray, name: str, is_complete: bool = True, num_classes: int | None = None
) -> None:
  """Raises InputError for invalid labels and names the first image with one.

  Args:
    labels: integers [N], or [N, L] padded with -1. Every image needs a label; labels are at least
      0, fit int32, and differ within an image.
    name: name of the labels in the error message.
    is_complete: whether these are the labels of a whole data set. If so, labels [N, 2] with 0 and 1
      in every row are refused as one-hot. In a subset, all images may belong to both classes.
    num_classes: number of classes, which all labels are below; None if it is unknown.
  """
  has_no_columns = labels.shape[1:] == (0,)
  if labels.ndim not in (1, 2) or has_no_columns or labels.dtype.kind not in 'iu':
    expected = 'integers [N], or [N, L] padded with -1'
    raise InputError(f'{name} is {labels.dtype} of shape {labels.shape}; expected {expected}.')
  if not labels.size:
    return
  table = labels if labels.ndim == 2 else labels[:, None]
  smallest = 0 if labels.ndim == 1 else -1  # padding
  largest = np.iinfo(np.int32).max if num_classes is None else num_classes - 1
  low, high = labels.min(), labels.max()
  if low < smallest or high > largest:
    if low < smallest:
      invalid, limit = low, 'labels start at 0'
    elif num_classes is None:
      invalid, limit = high, f'labels end at {largest}'
    else:
      invalid, limit = high, f'there are {num_classes} classes'
    row = int(np.argwhere(table == invalid)[0][0])  # the first one with this label
    raise InputError(f'{name} has {invalid} (example {row}); {limit}.')
  is_repeated = have_repeated_labels(table)  # [N]
  ordered = np.sort(table, axis=1)  # [N, L], the labels of each image ascending, padding first
  is_one_hot = is_complete and table.shape[1] == 2 and (ordered == [0, 1]).all()
  if is_repeated.any() or is_one_hot:
    row = int(is_repeated.argmax())  # the first; row 0 if none is repeated and all are one-hot
    raise InputError(
      f'{name} has {labels[row].tolist()} (example {row}); the labels of an image are different '
      'classes, padded with -1, and not one-hot, which labels.argmax(1) makes classes of.'
    )
  is_without_label = ordered[:, -1] < 0  # the largest label is padding
  if is_without_label.any():
    raise InputError(f'{name} has no label for example {int(is_without_label.argmax())}.')


def padded_labels(labels: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
  """Returns the label lists of N images as int32 [N, L], padded with −1.

  L is the length of the longest list, and at least 1.
  """
  table = np.full((len(labels), max([1, *map(len, labels)])), -1, np.int32)
  for row, values in zip(table, labels, strict=True):
    row[: len(values)] = values
  return table


def have_repeated_labels(labels: np.ndarray) -> np.ndarray:
  """Returns which images have the same label twice, bool [N].

  Args:
    labels: labels [N, L] padded with -1.
  """
  ordered = np.sort(labels, axis=1)  # equal labels are neighbours
  previous, following = ordered[:, :-1], ordered[:, 1:]
  is_repeated = (previous == following) & (following >= 0)
  return np.asarray(is_repeated.any(1))


def check_class_names(names: Sequence[str], title: str) -> None:
  """Raises InputError if a class name is empty or occurs twice.

  Args:
    names: names of the classes, in label order.
    title: source of the names in the error message, such as 'class_names'.
  """
  if '' in names:
    raise InputError(f"{title} call the class {names.index('')} '': give each class a name.")
  if len(set(names)) < len(names):
    repeated = next(name for name in names if names.count(name) > 1)
    numbers = [number for number, name in enumerate(names) if name == repeated]
    raise InputError(
      f'{title} call the classes {" and ".join(map(str, numbers))} all {repeated!r}; classes are '
      'matched by name: give each another name.'
    )


def identity_of(rows: Rows) -> Facts:
  """Returns the facts that identify a data set in saved results and checkpoints.

  This is `Rows.description` without the counts of ignored files in the folder, such as text files.
  These may change although the images are the same.
  """
  return {key: value for key, value in rows.description.items() if key != LEFT_OUT}


def in_class_order(names: Iterable[str]) -> list[str]:
  """Returns class names in label order.

  If all names are numbers, they are sorted by number, and otherwise alphabetically, in Unicode's
  composed form.
  """
  ascending = sorted(names, key=lambda name: (composed_unicode(name), name))
  are_numbers = all(name.isdecimal() and name.isascii() for name in ascending)
  return sorted(ascending, key=int) if are_numbers else ascending


def composed_unicode(name: str) -> str:
  """Returns a name in Unicode's composed form (NFC), for comparisons.

  File systems and archives of a Mac decompose é into e and a combining accent.
  """
  return unicodedata.normalize('NFC', name)


def numbered_classes(largest: int, title: str) -> tuple[str, ...]:
  """Returns the names '0', '1', ..., `largest` for classes without names.

  Args:
    largest: the largest label.
    title: name of the data in the error message.

  Raises:
    InputError: `largest` is at least `MAX_UNNAMED_CLASSES`.
  """
  valid = f'below {MAX_UNNAMED_CLASSES}, or the classes must have names'
  require(largest < MAX_UNNAMED_CLASSES, f'the largest label of {title}', largest, valid)
  return tuple(map(str, range(largest + 1)))


def refuse_colour(title: str, stored: int, channels: int) -> None:
  """Raises InputError if colour images are needed with another number of channels.

  Grey images are accepted, because their only channel can be repeated.

  Args:
    title: name of the data in the error message.
    stored: number of channels of the images.
    channels: number of channels that is needed.
  """
  if stored != 1:
    raise InputError(
      f'{title} holds images of {stored} channels; they cannot be shown as {channels}. Choose a '
      f'classifier that takes {stored} channels.'
    )


@dataclasses.dataclass(frozen=True)
class ArrayRows:
  """A data set of labelled images in NumPy arrays, in memory or memory-mapped.

  Attributes:
    images: [N, H, W, C], uint8 or float32 in [0, 1]. If it is memory-mapped, `batches` reads the
      images of one batch at a time, and `at` reads all selected images at once.
    labels: integers [N], or [N, L] padded with -1; see `check_label_array`.
    class_names: distinct names of the classes, in label order.
    example_ids: int32 [N]; positions in the arrays by default.
    source: name of the data in `results.json`.
    columns: {name: further values of each image, [N, ...]}, such as {'severity': [N]}.
    facts: further entries of `description`, for `results.json`.
  """

  images: np.ndarray
  labels: np.ndarray
  class_names: tuple[str, ...]
  example_ids: np.ndarray | None = None
  source: str = 'arrays'
  columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  facts: Facts = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    """Raises InputError for arrays with other types, shapes, lengths or values than documented.

    They are `images` [N, H, W, C], uint8 or in [0, 1], `labels` with the class names, and
    optionally ids of the images and further columns.
    """
    if self.images.ndim != 4 or self.images.dtype not in (np.uint8, np.float32):
      actual = f'{self.images.dtype} of shape {self.images.shape}'
      raise InputError(f'images must be uint8 or float32 [N, H, W, C]; got {actual}.')
    if not len(self.images):
      raise InputError('no images: the arrays are empty.')
    if self.labels.ndim and len(self.labels) != len(self.images):
      raise InputError(f'{len(self.labels)} labels for {len(self.images)} images.')
    ids, int32_limits = self.example_ids, np.iinfo(np.int32)
    if ids is not None:
      if ids.shape != self.labels.shape[:1] or ids.dtype.kind not in 'iu':
        expected = f'integers [{len(self.images)}]'
        raise InputError(f'example_ids is {ids.dtype} of shape {ids.shape}; expected {expected}.')
      if ids.min() < int32_limits.min or ids.max() > int32_limits.max:
        raise InputError(f'example_ids go from {ids.min()} to {ids.max()}; they are int32.')
    # rows with example ids may be a selection of the rows of a data set
    check_label_array(self.labels, 'labels', is_complete=ids is None)
    check_class_names(self.class_names, 'class_names')
    for name, column in self.columns.items():
      if len(column) != len(self.images):
        raise InputError(f'column {name!r} has {len(column)} values for {len(self.images)} images.')
    outside = '' if self.images.dtype == np.uint8 else values_outside(self.images)
    if outside:
      raise InputError(f'{outside}; they must lie in [0, 1], or be uint8.')

  @property
  def description(self) -> Facts:
    """JSON values that identify the data, with number and shape of the images."""
    shape = {'num_examples': self.num_examples, 'image_shape': list(self.image_shape)}
    return {'source': self.source, **self.facts, **shape}

  @property
  def num_examples(self) -> int:
    """Number of rows."""
    return len(self.images)

  @property
  def image_shape(self) -> tuple[int, int, int]:
    """Height, width and channels of every image."""
    height, width, channels = self.images.shape[1:]
    return height, width, channels

  def at(self, positions: np.ndarray) -> ArrayRows:
    """Returns the rows at ascending positions, int [M]; their images are copied."""
    return dataclasses.replace(
      self,
      images=self.images[positions],
      labels=self.labels[positions],
      example_ids=self._ids[positions],
      columns={name: column[positions] for name, column in self.columns.items()},
    )

  def cached(self) -> ArrayRows:
    """Returns this object, since its rows are in memory already."""
    return self

  def in_memory(self, max_bytes: int) -> ArrayRows | None:
    """Returns this object, since its rows are arrays; None if they exceed `max_bytes` bytes."""
    arrays = (self.images, self.labels, *self.columns.values())
    return self if sum(array.nbytes for array in arrays) <= max_bytes else None

  def with_channels(self, channels: int) -> ArrayRows:
    """Returns the rows with `channels` channels; grey images are repeated without a copy."""
    height, width, stored = self.image_shape
    if stored == channels:
      return self
    refuse_colour(str(self.description['source']), stored, channels)
    shape = (self.num_examples, height, width, channels)
    return dataclasses.replace(self, images=np.broadcast_to(self.images, shape))

  def training_batches(
    self,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    share: tuple[int, int] = (0, 1),
    sampler: Sampler | None = None,
  ) -> Iterator[Batch]:
    """Returns endless batches in the order of `sampler`, by default shuffled in every epoch.

    For arguments and columns see `Rows.training_batches`.
    """
    order = sampler or Epochs(self.num_examples, seed)
    share_of_batch(start_step, batch_size, share)  # raises errors now, not at the first batch
    # (begin, end) of this process's positions in the order, for each step
    spans = (share_of_batch(step, batch_size, share) for step in itertools.count(start_step))
    return ({**self._batch(order.positions(*span)), **order.columns(*span)} for span in spans)

  def without_images(self, *, streamed: bool = True) -> Batch:
    """Returns the labels, example ids and further columns of all rows, which are in memory."""
    return self._columns_at(slice(None))

  def may_have_changed(self, since: float, positions: slice) -> bool:
    """Returns True, because changes of arrays are not recorded anywhere."""
    return True

  def batches(
    self, batch_size: int, blocks: Sequence[int] | None = None, *, stored: bool = False
  ) -> Iterator[Batch]:
    """Yields blocks of `batch_size` rows in order, as dicts of columns; see `Rows.batches`."""
    for block in chosen_blocks(self.num_examples, batch_size, blocks):
      batch = self._batch(slice(block * batch_size, (block + 1) * batch_size))
      if not stored:
        batch['image'] = as_float32(batch['image'])
      yield {**pad_batch(batch, batch_size), 'block': block}

  def _columns_at(self, positions: np.ndarray | slice) -> Batch:
    """Returns the labels, example ids and further columns of the rows at positions."""
    return {
      'label': self.labels[positions].astype(np.int32),
      'example_id': self._ids[positions].astype(np.int32),
      **{name: column[positions] for name, column in self.columns.items()},
    }

  def _batch(self, positions: np.ndarray | slice) -> Batch:
    """Returns the images and all columns of the rows at positions."""
    return {'image': np.asarray(self.images[positions]), **self._columns_at(positions)}

  @functools.cached_property
  def _ids(self) -> np.ndarray:
    """The example ids, int [N]."""
    return np.arange(self.num_examples) if self.example_ids is None else self.example_ids


def with_column(rows: Rows, name: str, values: Callable[[Batch], np.ndarray], facts: Facts) -> Rows:
  """Returns the data set with a further column.

  Args:
    rows: the data set.
    name: name of the column.
    values: function that is called with a batch and returns the column's values, [B, ...].
    facts: {key: JSON value} about the column, added to the description of the data set.
  """
  return _ChangedRows(rows, lambda batch: {**batch, name: values(batch)}, rows.class_names, facts)


def with_facts(rows: Rows, facts: Facts) -> Rows:
  """Returns the data set with `facts`, {key: JSON value}, added to its description."""
  return _ChangedRows(rows, lambda batch: batch, rows.class_names, facts)


def with_labels(rows: Rows, positions: np.ndarray, class_names: tuple[str, ...]) -> Rows:
  """Returns the data set with its labels renumbered to another list of class names.

  Args:
    rows: the data set.
    positions: int32 [old classes], the new label of each old label, or -1 for no label. For
      example, with [2, -1] the old label 0 becomes 2 and the old label 1 is removed. If two labels
      of an image become equal, only the first is kept.
    class_names: names of the new labels, in label order; () if none of the classes is known.
  """
  kind = 'matched by class name' if class_names else UNKNOWN_CLASSES
  facts = {'labels': kind, 'classes_present': len(set(positions.tolist()))}
  renumber = functools.partial(_renumber_labels, positions)
  return _ChangedRows(rows, renumber, class_names, facts, renumbers=True)


def _renumber_labels(positions: np.ndarray, batch: Batch) -> Batch:
  """Returns a batch in which each label k is replaced by `positions[k]`, see `with_labels`."""
  label = batch['label']
  mask = batch.get('mask', np.ones(len(label), bool))
  is_row = mask if label.ndim == 1 else mask[:, None]
  is_unknown = is_row & (label >= len(positions))
  if is_unknown.any():
    row = np.argwhere(is_unknown)[0][0]
    problem = f'example {batch["example_id"][row]} has label {label[row]}'
    raise InputError(f'{problem}; the data name {len(positions)} classes.')
  label = np.where(label >= 0, positions[label], label).astype(np.int32)  # -1 stays
  if label.ndim == 2:
    is_equal = label[:, :, None] == label[:, None]  # [B, L, L]
    # [B, L]; below the diagonal are the pairs of a label with the labels before it
    equals_earlier = np.tril(is_equal, -1).any(2)
    label[equals_earlier] = -1
  return {**batch, 'label': label}


def columns_in_memory(rows: Rows) -> Batch:
  """Returns all columns that are known without reading an image, as {name: [N, ...]}.

  They are `label`, `example_id` and the stored columns. Columns added by `with_column` are left
  out, because they may be computed from images. For a data set that is read as a stream the result
  is {}.
  """
  if isinstance(rows, _ChangedRows):
    columns = columns_in_memory(rows.rows)
    return rows.change(columns) if rows.renumbers and columns else columns
  try:
    return rows.without_images(streamed=False)
  except InputError:
    return {}


@dataclasses.dataclass(frozen=True)
class _ChangedRows:
  """A data set with the images of another one, but other labels or further columns.

  Attributes:
    rows: the original data set.
    change: function from a batch to the batch with changed columns.
    class_names: names of the classes, in label order.
    facts: entries that are added to the description.
    renumbers: whether `change` only changes labels. If False, `change` may need the images.
  """

  rows: Rows
  change: Callable[[Batch], Batch]
  class_names: tuple[str, ...]
  facts: Facts
  renumbers: bool = False

  @property
  def description(self) -> Facts:
    return {**self.rows.description, **self.facts}

  @property
  def num_examples(self) -> int:
    return self.rows.num_examples

  @property
  def image_shape(self) -> tuple[int, int, int]:
    return self.rows.image_shape

  def at(self, positions: np.ndarray) -> Rows:
    return dataclasses.replace(self, rows=self.rows.at(positions))

  def with_channels(self, channels: int) -> Rows:
    return dataclasses.replace(self, rows=self.rows.with_channels(channels))

  def cached(self) -> Rows:
    return dataclasses.replace(self, rows=self.rows.cached())

  def in_memory(self, max_bytes: int) -> ArrayRows | None:
    """Returns the data set as arrays, or None if the original data set does not fit in memory."""
    arrays = self.rows.in_memory(max_bytes)
    if arrays is None:
      return None
    columns = self.change(arrays.without_images())
    labels, ids = columns.pop('label'), columns.pop('example_id')
    return ArrayRows(arrays.images, labels, self.class_names, ids, arrays.source, columns)

  def without_images(self, *, streamed: bool = True) -> Batch:
    return self.change(self.rows.without_images(streamed=streamed))

  def may_have_changed(self, since: float, positions: slice) -> bool:
    return self.rows.may_have_changed(since, positions)

  def batches(self, *arguments: Any, **options: Any) -> Iterator[Batch]:
    return map(self.change, self.rows.batches(*arguments, **options))

  def training_batches(self, *arguments: Any, **options: Any) -> Iterator[Batch]:
    return map(self.change, self.rows.training_batches(*arguments, **options))
