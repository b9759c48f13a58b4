"""Rows: stored images with their columns, read in fixed order, padded and masked.

`input_pipeline` implements the protocol with tf.data; `ArrayRows` implements it on numpy arrays, so
that a machine without TensorFlow can run any study. `with_column` and `with_labels` change rows.
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
UNKNOWN_CLASSES = 'of no known class'
"""What the description of such rows says of their `labels`."""
LEFT_OUT = 'left_out'
"""What the description of rows calls the number of stored files that are not read, by reason."""
MOST_KEPT = 2**31
"""Bytes of images and columns that rows keep in the host's memory."""

MOST_NUMBERED = 2**20
"""Classes that need no names."""


def refuse_unknown_classes(description: Facts, whose: str) -> None:
  """Raises InputError where rows have no labels and `whose` needs them."""
  if description.get('labels') == UNKNOWN_CLASSES:
    raise InputError(
      f'{whose} counts what is right, and images of no known class '
      f'({KEYS.data.known_classes}=False) have no label: leave that key at True.'
    )


class Rows(Protocol):
  """Images with labels in a fixed order; every example belongs to one block and counts once."""

  @property
  def description(self) -> Facts:
    """Where the rows come from."""

  @property
  def num_examples(self) -> int:
    """How many rows there are."""

  @property
  def image_shape(self) -> tuple[int, int, int]:
    """Height, width and channels of every image."""

  @property
  def class_names(self) -> tuple[str, ...]:
    """Names of the classes, in label order."""

  def at(self, positions: np.ndarray) -> Rows:
    """Returns the rows at some positions, ascending, with the example ids they have here."""

  def with_channels(self, channels: int) -> Rows:
    """Returns the same rows with grey images repeated to `channels`; refuses images in colour."""

  def kept(self) -> Rows:
    """Returns the same rows, whose images are decoded once, when most of them are first asked for.

    A few rows, such as samples for a figure, are read as ever, and so are all if `in_memory` gives
    none of at most `MOST_KEPT` bytes.
    """

  def in_memory(self, most: int) -> ArrayRows | None:
    """Returns these rows as arrays, images as they are stored, if they have at most `most` bytes.

    None if they have more, or if a training cuts them at random or streams them.
    """

  def without_images(self) -> Batch:
    """Returns `label`, `example_id` and all further columns of every row, [N, ...]; refuses so many
    streamed rows that to look for their labels would take long."""

  def batches(
    self, batch_size: int, blocks: Sequence[int] | None = None, *, stored: bool = False
  ) -> Iterator[Batch]:
    """Yields blocks of rows in order.

    Args:
      batch_size: rows a block; block b holds rows [b * batch_size, (b + 1) * batch_size).
      blocks: which blocks to read, ascending; None reads all of them.
      stored: leaves images of 8 bits as they are stored, uint8 x for x / 255, which
        `robustness.core.pixels` scales on the devices.

    Yields:
      `image` float32 [B, H, W, C] in [0, 1]; `label` int32 [B], or [B, L] padded with -1;
      `example_id` int32 [B]; `mask` bool [B], False on padding; `block`, an int. Further columns
      are what a study needs of each row: numbers [B] or [B, L], such as `severity`, or words [B],
      such as the path of a file, both of which records keep, or images [B, ...], such as the object
      of a scene. Views are given all but words.

    Raises:
      InputError: names a block that does not exist or, when it is reached, an image that cannot be
        decoded or has another size.
    """

  def training_batches(
    self,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    share: tuple[int, int] = (0, 1),
    sampler: Sampler | None = None,
  ) -> Iterator[Batch]:
    """Returns endless shuffled batches; the same arguments give the same batches.

    Step s holds positions [s * batch_size, (s + 1) * batch_size) of the sampler's sequence. Nothing
    before `start_step` and no row of another process is read. Images too large for memory are
    streamed, shuffled in a buffer.

    Args:
      batch_size: the global batch, over all processes.
      seed: with the epoch's number it fixes the epoch's order.
      start_step: the first step to deliver.
      share: (k, n) delivers the k-th of n contiguous slices of every global batch.
      sampler: decides the order; None takes `Epochs`.

    Returns:
      `image` [b, H, W, C], uint8 where it is stored so and not resized, else float32 in [0, 1],
      `label` int32 [b] or [b, L], `example_id` int32 [b],
      and the columns of the rows and the sampler [b, ...], with b = batch_size / n.

    Raises:
      InputError: see `share_of_batch`, what an image that cannot be read is called, or an order
        of rows that are streamed.
    """


_ORDER = 0x5B5E7  # the random stream of `random_order`


def random_order(num_examples: int, seed: int) -> np.ndarray:
  """Returns the positions of all rows in a random order, int64 [N]; rounds of designs follow it."""
  return np.random.default_rng([_ORDER, seed]).permutation(num_examples)


def num_blocks(num_examples: int, batch_size: int) -> int:
  """Returns how many blocks of `batch_size` rows hold `num_examples` rows."""
  return -(-num_examples // batch_size)


def chosen_blocks(num_examples: int, batch_size: int, blocks: Sequence[int] | None) -> list[int]:
  """Returns which blocks to read, ascending: those asked for, or all; refuses others."""
  require(batch_size >= 1, 'batch_size', batch_size, 'at least 1')
  count = num_blocks(num_examples, batch_size)
  chosen = list(range(count)) if blocks is None else sorted(set(blocks))
  if chosen and not 0 <= chosen[0] <= chosen[-1] < count:
    raise InputError(
      f'blocks {chosen[0]}..{chosen[-1]} asked for; there are {count} blocks of {batch_size} rows, '
      f'0..{count - 1}.'
    )
  return chosen


def pad_batch(batch: Batch, batch_size: int) -> Batch:
  """Pads every array of a batch with zeros to `batch_size` rows; `mask` is True on those before."""
  size = len(batch['image'])

  def pad(value: object) -> object:
    if size == batch_size or not isinstance(value, np.ndarray):
      return value
    return np.pad(value, [(0, batch_size - size)] + [(0, 0)] * (value.ndim - 1))

  padded = {name: pad(value) for name, value in batch.items()}
  return {**padded, 'mask': np.arange(batch_size) < size}


def as_float32(images: np.ndarray) -> np.ndarray:
  """Returns images in [0, 1]: x / 255 of uint8 x, others as they are."""
  if images.dtype != np.uint8:
    return images
  scaled: np.ndarray = np.divide(images, np.float32(255), dtype=np.float32)
  return scaled


def numeric_columns(batch: Batch) -> dict[str, np.ndarray]:
  """Returns what a step is given of a batch: all arrays but words, such as paths of files."""
  return {
    name: value
    for name, value in batch.items()
    if isinstance(value, np.ndarray) and value.dtype.kind in 'biuf'
  }


def check_label_array(labels: np.ndarray, where: str, whole: bool = True) -> None:
  """Refuses what are no labels of images, integers [N], or [N, L] padded with -1, naming the first.

  Args:
    labels: in which each image should have one, none below 0 or beyond int32 and none twice.
    where: what messages call them.
    whole: whether these are all of the labels: of 2 classes, only all rows together tell one-hot
      rows from images that have both.
  """
  if labels.ndim not in (1, 2) or labels.shape[1:] == (0,) or labels.dtype.kind not in 'iu':
    raise InputError(
      f'{where} is {labels.dtype} of shape {labels.shape}; expected integers [N], '
      'or [N, L] padded with -1.'
    )
  if not labels.size:
    return
  several = labels if labels.ndim == 2 else labels[:, None]
  most, least = np.iinfo(np.int32).max, 1 - labels.ndim
  low, high = labels.min(), labels.max()
  if low < least or high > most:
    value, limit = (low, 'start at 0') if low < least else (high, f'end at {most}')
    row = int(np.argwhere(several == value)[0][0])
    raise InputError(f'{where} has {value} (example {row}); labels {limit}.')
  twice, ordered = have_one_twice(several), np.sort(several, axis=1)
  if twice.any() or (whole and several.shape[1] == 2 and (ordered == [0, 1]).all()):
    row = int(twice.argmax())
    raise InputError(
      f'{where} has {labels[row].tolist()} (example {row}); the labels of an image are different '
      'classes, padded with -1, and not one-hot, which labels.argmax(1) makes classes of.'
    )
  if (ordered[:, -1] < 0).any():
    raise InputError(f'{where} has no label for example {int((ordered[:, -1] < 0).argmax())}.')


def padded_labels(labels: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
  """Returns several labels a row as int32 [N, L], L at least 1, padded with −1."""
  table = np.full((len(labels), max([1, *map(len, labels)])), -1, np.int32)
  for row, own in zip(table, labels, strict=True):
    row[: len(own)] = own
  return table


def have_one_twice(labels: np.ndarray) -> np.ndarray:
  """Returns whether rows of labels, [N, L] padded with -1, have a label twice, bool [N]."""
  ordered = np.sort(labels, axis=1)
  twice: np.ndarray = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(1)
  return twice


def check_class_names(names: Sequence[str], where: str) -> None:
  """Refuses two classes of one name, and one without a name, with their numbers."""
  if '' in names:
    raise InputError(f"{where} call the class {names.index('')} '': give each class a name.")
  if len(set(names)) < len(names):
    twice = next(name for name in names if names.count(name) > 1)
    numbers = [number for number, name in enumerate(names) if name == twice]
    raise InputError(
      f'{where} call the classes {" and ".join(map(str, numbers))} all {twice!r}; classes are '
      'matched by name: give each a name of its own.'
    )


def identity_of(rows: Rows) -> Facts:
  """Returns the description by which records and checkpoints of rows are found again: without what
  was left out, which changes with every file that somebody puts beside the images."""
  return {key: value for key, value in rows.description.items() if key != LEFT_OUT}


def in_class_order(names: Iterable[str]) -> list[str]:
  """Returns names of classes in the order of their labels: as numbers where all are numbers (0, 1,
  2, 10), else as texts."""
  ascending = sorted(names)
  if all(name.isdecimal() and name.isascii() for name in ascending):
    return sorted(ascending, key=int)
  return ascending


def composed(name: str) -> str:
  """Returns a name in Unicode's composed form (NFC), in which names are compared: file systems and
  archives of a Mac write é as e and a combining accent."""
  return unicodedata.normalize('NFC', name)


def numbered_classes(largest: int, where: str) -> tuple[str, ...]:
  """Returns names of classes that have none: '0', '1', ... up to the largest label."""
  valid = f'below {MOST_NUMBERED}, or the classes must have names'
  require(largest < MOST_NUMBERED, f'the largest label of {where}', largest, valid)
  return tuple(map(str, range(largest + 1)))


@dataclasses.dataclass(frozen=True)
class ArrayRows:
  """Rows from numpy arrays, in memory or memory-mapped.

  Attributes:
    images: [N, H, W, C], uint8 or float32 in [0, 1]; may be mapped from a file, of which only the
      rows of a batch are then read (`at` reads its rows at once).
    labels: integers [N], or [N, L] padded with -1; see `check_label_array`.
    class_names: names of the classes, in label order, no two equal.
    example_ids: int32 [N]; the position in the arrays by default.
    source: what `results.json` calls the data.
    columns: further columns [N, ...]; see `Rows.batches`.
    facts: what else `results.json` tells of the data.
  """

  images: np.ndarray
  labels: np.ndarray
  class_names: tuple[str, ...]
  example_ids: np.ndarray | None = None
  source: str = 'arrays'
  columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  facts: Facts = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    if self.images.ndim != 4 or self.images.dtype not in (np.uint8, np.float32):
      raise InputError(
        f'images must be uint8 or float32 [N, H, W, C]; got {self.images.dtype} of shape '
        f'{self.images.shape}.'
      )
    if not len(self.images):
      raise InputError('no images: the arrays are empty.')
    if len(self.labels) != len(self.images):
      raise InputError(f'{len(self.labels)} labels for {len(self.images)} images.')
    ids, int32 = self.example_ids, np.iinfo(np.int32)
    if ids is not None and (ids.shape != self.labels.shape[:1] or ids.dtype.kind not in 'iu'):
      raise InputError(
        f'example_ids is {ids.dtype} of shape {ids.shape}; expected integers [{len(self.images)}].'
      )
    if ids is not None and (ids.min() < int32.min or ids.max() > int32.max):
      raise InputError(f'example_ids go from {ids.min()} to {ids.max()}; they are int32.')
    # rows that were chosen among others have ids
    check_label_array(self.labels, 'labels', whole=self.example_ids is None)
    check_class_names(self.class_names, 'class_names')
    for name, column in self.columns.items():
      if len(column) != len(self.images):
        raise InputError(f'column {name!r} has {len(column)} values for {len(self.images)} images.')
    if self.images.dtype == np.uint8:
      return
    low, high = float(self.images.min()), float(self.images.max())
    if not (low >= 0 and high <= 1):
      raise InputError(
        f'image values lie in [{low:g}, {high:g}]; they must lie in [0, 1], or be uint8.'
      )

  @property
  def description(self) -> Facts:
    known = {'num_examples': self.num_examples, 'image_shape': list(self.image_shape)}
    return {'source': self.source, **self.facts, **known}

  @property
  def num_examples(self) -> int:
    return len(self.images)

  @property
  def image_shape(self) -> tuple[int, int, int]:
    height, width, channels = self.images.shape[1:]
    return height, width, channels

  def at(self, positions: np.ndarray) -> ArrayRows:
    return dataclasses.replace(
      self,
      images=self.images[positions],
      labels=self.labels[positions],
      example_ids=self._ids[positions],
      columns={name: column[positions] for name, column in self.columns.items()},
    )

  def kept(self) -> ArrayRows:
    """See `Rows`; these rows are kept."""
    return self

  def in_memory(self, most: int) -> ArrayRows | None:
    arrays = (self.images, self.labels, *self.columns.values())
    return self if sum(array.nbytes for array in arrays) <= most else None

  def with_channels(self, channels: int) -> ArrayRows:
    """See `Rows`; images are not copied."""
    height, width, stored = self.image_shape
    if stored == channels:
      return self
    if stored != 1:
      raise InputError(
        f'{self.description["source"]} holds images of {stored} channels; they cannot be shown as '
        f'{channels}. Choose a classifier that takes {stored} channels.'
      )
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
    order = sampler or Epochs(self.num_examples, seed)
    share_of_batch(start_step, batch_size, share)  # refuses what cannot divide
    spans = (share_of_batch(step, batch_size, share) for step in itertools.count(start_step))
    return ({**self._batch(order.positions(*span)), **order.columns(*span)} for span in spans)

  def without_images(self) -> Batch:
    return self._columns_at(slice(None))

  def batches(
    self, batch_size: int, blocks: Sequence[int] | None = None, *, stored: bool = False
  ) -> Iterator[Batch]:
    for block in chosen_blocks(self.num_examples, batch_size, blocks):
      batch = self._batch(slice(block * batch_size, (block + 1) * batch_size))
      if not stored:
        batch['image'] = as_float32(batch['image'])
      yield {**pad_batch(batch, batch_size), 'block': block}

  def _columns_at(self, chosen: np.ndarray | slice) -> Batch:
    return {
      'label': self.labels[chosen].astype(np.int32),
      'example_id': self._ids[chosen].astype(np.int32),
      **{name: column[chosen] for name, column in self.columns.items()},
    }

  def _batch(self, chosen: np.ndarray | slice) -> Batch:
    return {'image': np.asarray(self.images[chosen]), **self._columns_at(chosen)}

  @functools.cached_property
  def _ids(self) -> np.ndarray:
    return np.arange(self.num_examples) if self.example_ids is None else self.example_ids


def with_column(
  rows: Rows, name: str, of_batch: Callable[[Batch], np.ndarray], facts: Facts
) -> Rows:
  """Returns the rows with a further column, which `of_batch` makes of the others: [B, ...].

  The description says `facts` of it.
  """
  return _ChangedRows(rows, lambda batch: {**batch, name: of_batch(batch)}, rows.class_names, facts)


def with_facts(rows: Rows, facts: Facts) -> Rows:
  """Returns the rows with facts in place of those of the same names in their description."""
  return _ChangedRows(rows, lambda batch: batch, rows.class_names, facts)


def with_labels(rows: Rows, positions: np.ndarray, class_names: tuple[str, ...]) -> Rows:
  """Returns the rows with labels that are positions among other class names.

  `positions`, int32 [classes of the rows], are the new labels of the old ones; `class_names` are ()
  where none of them is known.
  """
  kind = 'matched by class name' if class_names else UNKNOWN_CLASSES
  facts = {'labels': kind, 'classes_present': len(set(positions.tolist()))}

  def change(batch: Batch) -> Batch:
    label = batch['label']
    read = batch.get('mask', np.ones(len(label), bool))
    bad = np.argwhere(read.reshape(-1, *[1] * (label.ndim - 1)) & (label >= len(positions)))
    if len(bad):
      row = bad[0][0]
      raise InputError(
        f'example {batch["example_id"][row]} has label {label[row]}; the data name '
        f'{len(positions)} classes.'
      )
    # -1, which fills up several labels, stays, and takes the place of a class that is there twice
    label = np.where(label >= 0, positions[label], label).astype(np.int32)
    if label.ndim == 2:
      label[np.tril(label[:, :, None] == label[:, None], -1).any(2)] = -1
    return {**batch, 'label': label}

  return _ChangedRows(rows, change, class_names, facts)


@dataclasses.dataclass(frozen=True)
class _ChangedRows:
  """Rows of which every batch is changed, but not its images."""

  rows: Rows
  change: Callable[[Batch], Batch]
  class_names: tuple[str, ...]
  facts: Facts

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

  def kept(self) -> Rows:
    return dataclasses.replace(self, rows=self.rows.kept())

  def in_memory(self, most: int) -> ArrayRows | None:
    arrays = self.rows.in_memory(most)
    if arrays is None:
      return None
    columns = self.change(arrays.without_images())
    labels, ids = columns.pop('label'), columns.pop('example_id')
    return ArrayRows(arrays.images, labels, self.class_names, ids, arrays.source, columns)

  def without_images(self) -> Batch:
    return self.change(self.rows.without_images())

  def batches(
    self, batch_size: int, blocks: Sequence[int] | None = None, *, stored: bool = False
  ) -> Iterator[Batch]:
    return map(self.change, self.rows.batches(batch_size, blocks, stored=stored))

  def training_batches(
    self,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    share: tuple[int, int] = (0, 1),
    sampler: Sampler | None = None,
  ) -> Iterator[Batch]:
    batches = self.rows.training_batches(batch_size, seed, start_step, share, sampler)
    return map(self.change, batches)
