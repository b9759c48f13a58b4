"""From a source to batches: the one place where stored examples become rows.

Evaluation reads every example once, in order, in blocks that are padded and masked; a subset, a
process's share and a resumed run choose blocks before anything is decoded. Training reads epochs
of permutations end to end.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from input_pipeline import geometry
from input_pipeline.file_batches import are_files, file_batches
from input_pipeline.images import IndexedStore, Source, StreamedStore
from input_pipeline.inspection import culprit
from input_pipeline.selection import select
from input_pipeline.settings import DataSettings, Preparation
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows, Batch, as_float32, chosen_blocks, pad_batch
from robustness.core.sampler import Epochs, Sampler

_PREFETCH = 4
_READ_AT_ONCE = 1024
DRAW = 'draw'
"""Of a training's element: (seed, position in the sequence), which random crops depend on."""


class TfRows:
  """`robustness.core.rows.Rows` read with tf.data; also endless training batches.

  Attributes:
    indices: int64 [num_examples], ascending: the examples of the source that are read.
    image_shape: height, width and channels of every image.
  """

  def __init__(
    self,
    source: Source,
    settings: DataSettings,
    seed: int = 0,
    preparation: Preparation | None = None,
  ):
    """Chooses the subset and checks the images' sizes as far as that needs no decoding."""
    selection = select(source, settings, seed, preparation)
    self._source, self._settings = selection.source, selection.settings
    self._facts = selection.facts
    self.indices = selection.indices
    self.image_shape = selection.image_shape
    if self._settings.resized_by == 'pillow':
      self._refuse_more_than_8_bits()

  @property
  def description(self) -> Mapping[str, Any]:
    """Where the rows come from, in plain values."""
    known = {'num_examples': self.num_examples, 'image_shape': list(self.image_shape)}
    return {**self._facts, **known}

  @property
  def num_examples(self) -> int:
    """How many rows there are."""
    return len(self.indices)

  @property
  def class_names(self) -> tuple[str, ...]:
    """Names of the classes, in label order."""
    return self._source.class_names

  def with_channels(self, channels: int) -> TfRows:
    """Returns the same rows with grey images repeated to `channels`.

    Raises:
      InputError: the images are in colour and fewer channels are asked for.
    """
    if channels != self.image_shape[-1] and self._source.channels != 1:
      raise InputError(
        f'{self._source.title} holds images of {self._source.channels} channels; '
        f'they cannot be shown as {channels}. Choose a classifier that takes '
        f'{self._source.channels} channels.'
      )
    rows = copy.copy(self)
    rows.image_shape = (*self.image_shape[:2], channels)
    return rows

  def at(self, positions: np.ndarray) -> TfRows:
    """Returns the rows at some positions (ascending), with the example ids they have here."""
    rows = copy.copy(self)
    rows.indices = self.indices[positions]
    return rows

  def in_memory(self, most: int) -> ArrayRows | None:
    """Returns these rows as arrays, images as they are stored, if they have at most `most` bytes.

    None if they have more, or if a training reads them in another way than as they are stored, one
    after the other: cut at random, or streamed from a source that is too large.
    """
    if self._settings.random_crop_area or not isinstance(self._source.store, IndexedStore):
      return None
    [first] = self.batches(1, [0], stored=True)
    row = {name: value for name, value in first.items() if isinstance(value, np.ndarray)}
    if self.num_examples * sum(value.nbytes for value in row.values()) > most:
      return None
    columns: dict[str, list[np.ndarray]] = {name: [] for name in row if name != 'mask'}
    for batch in self.batches(_READ_AT_ONCE, stored=True):
      for name, parts in columns.items():
        parts.append(batch[name][batch['mask']])
    whole = {name: np.concatenate(parts) for name, parts in columns.items()}
    images, labels, ids = (whole.pop(name) for name in ('image', 'label', 'example_id'))
    return ArrayRows(images, labels, self.class_names, ids, self._source.title, whole)

  def batches(
    self, batch_size: int, blocks: Sequence[int] | None = None, *, stored: bool = False
  ) -> Iterator[Batch]:
    """Yields blocks in order; see `robustness.core.rows.Rows.batches`.

    Raises:
      InputError: a block that does not exist, or, when it is reached, an image that cannot be
        decoded or has another size; the message names split and index.
    """
    chosen = chosen_blocks(self.num_examples, batch_size, blocks)

    parts = [self.indices[b * batch_size : (b + 1) * batch_size] for b in chosen]
    elements = self._source.store.elements
    if not chosen:
      return
    rows: Iterator[Batch]
    if are_files(self._source, self._settings):
      files = file_batches(self._source, self._settings, parts, self.image_shape)
      rows = map(self._checked, files)
    else:
      whole = elements(np.concatenate(parts))
      rows = self._read(whole, batch_size, lambda read: elements(parts[read]))
    for block, batch in zip(chosen, rows, strict=True):
      if not stored:
        batch['image'] = as_float32(batch['image'])
      known = self._columns(batch['example_id'])
      yield {**pad_batch({**batch, **known}, batch_size), 'block': block}

  def training_batches(
    self,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    process_index: int = 0,
    process_count: int = 1,
    sampler: Sampler | None = None,
  ) -> Iterator[Batch]:
    """Yields endless shuffled batches; the same arguments give the same batches.

    Step s holds positions [s * batch_size, (s + 1) * batch_size) of the sampler's sequence, by
    default that of concatenated epochs, each a permutation of all rows, so that a batch may span
    two epochs. Nothing before `start_step` and no row of another process is read. The order is the
    one of rows in memory; only sources too large for memory are streamed, shuffled in a buffer.

    Args:
      batch_size: the global batch, over all processes.
      seed: with the epoch's number it fixes the epoch's order.
      start_step: the first step to deliver.
      process_index: which contiguous slice of every global batch to deliver.
      process_count: how many slices there are.
      sampler: decides the order; None takes `Epochs`.

    Yields:
      `image` [b, H, W, C], uint8 where it is stored so and not resized, else float32 in [0, 1],
      `label` int32 [b] or [b, L], `example_id` int32 [b],
      and the columns of the source and the sampler [b, ...], with b = batch_size / process_count.

    Raises:
      InputError: see `share_of_batch`, what an image that cannot be read is called, or an order
        of rows that are streamed.
    """
    order = sampler or Epochs(self.num_examples, seed)
    order.batch(start_step, batch_size, process_index, process_count)  # refuses what cannot divide
    if sampler is not None:
      self._refuse_streamed()
    local, share = batch_size // process_count, (process_index, process_count)
    low = local * process_index

    def elements(step: int) -> tf.data.Dataset:
      return self._sequence(
        order,
        seed,
        step * batch_size,
        lambda i: (i % batch_size >= low) & (i % batch_size < low + local),
      )

    batches = self._read(
      elements(start_step), local, lambda read: elements(start_step + read).take(local)
    )
    return (
      {
        **batch,
        **self._columns(batch['example_id']),
        **order.batch_columns(step, batch_size, *share),
      }
      for step, batch in enumerate(batches, start_step)
    )

  def without_images(self) -> Batch:
    """Returns `label`, `example_id` and the source's columns of every row, [N, ...], undecoded.

    Raises:
      InputError: the rows are too many for that, and are streamed.
    """
    self._refuse_streamed()
    elements = self._source.store.elements(self.indices).map(
      lambda element: {name: element[name] for name in ('label', 'example_id')}
    )
    batches = list(elements.batch(_READ_AT_ONCE).as_numpy_iterator())
    label, ids = (np.concatenate([b[name] for b in batches]) for name in ('label', 'example_id'))
    columns = {'label': label.astype(np.int32), 'example_id': ids.astype(np.int32)}
    return {**columns, **self._columns(ids)}

  def _refuse_streamed(self) -> None:
    if not isinstance(self._source.store, IndexedStore):
      raise InputError(
        f'{self._source.title} is too large for memory and is read from front to back, in which no '
        "order of one's own is possible: set config.training.balanced='', or take a slice of the "
        'split.'
      )

  def _refuse_more_than_8_bits(self) -> None:
    decoded = self._source.store.elements(self.indices[:1]).map(
      lambda element: self._source.decoded(element['stored'])['image']
    )
    dtype = decoded.element_spec.dtype
    if dtype != tf.uint8:
      raise InputError(
        f'{self._source.title} holds images of {dtype.name}, and Pillow resizes those of 8 bits '
        "alone: set config.data.resized_by='tensorflow'."
      )

  def _sequence(
    self, order: Sampler, seed: int, first: int, mine: Callable[[tf.Tensor], tf.Tensor]
  ) -> tf.data.Dataset:
    """Returns elements of a training from position `first` on: those at positions that are `mine`.

    Only they are read. Each knows its draw, (seed, position). The sequence is the order's; a
    streamed source is shuffled by the seed.
    """
    store = self._source.store
    if isinstance(store, IndexedStore):
      indices = self._ordered(order, first).enumerate(first).filter(lambda i, _: mine(i))
      stream = indices.map(lambda i, index: (i, store.element(index)))
    else:
      assert isinstance(store, StreamedStore)
      shuffled = store.shuffled(self.indices, seed, first)
      stream = shuffled.enumerate(first).filter(lambda i, _: mine(i))
    return stream.map(lambda i, element: {**element, DRAW: (seed, i)})

  def _ordered(self, order: Sampler, first: int) -> tf.data.Dataset:
    """Returns the indices of the endless sequence of rows from position `first` on, int64."""
    number, offset = divmod(first, self.num_examples)

    def indices(epoch: int) -> np.ndarray:
      begin = epoch * self.num_examples
      return self.indices[order.positions(begin, begin + self.num_examples)]

    def epoch(number: tf.Tensor) -> tf.data.Dataset:
      order = tf.numpy_function(indices, [number], tf.int64)
      return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(order, [self.num_examples]))

    return tf.data.Dataset.counter(number).flat_map(epoch).skip(offset)

  def _columns(self, example_ids: np.ndarray) -> Batch:
    """Returns what the source knows of some examples beside images and labels."""
    return {name: values[example_ids] for name, values in self._source.columns.items()}

  def _read(
    self, elements: tf.data.Dataset, batch_size: int, elements_of: Callable[[int], tf.data.Dataset]
  ) -> Iterator[Batch]:
    """Decodes and batches; `elements_of(k)` gives the k-th batch again to look for a culprit."""
    options = tf.data.Options()
    options.deterministic = True
    data = elements.map(self._row, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    data = data.batch(batch_size).prefetch(_PREFETCH).with_options(options)
    iterator = data.as_numpy_iterator()
    for read in itertools.count():
      try:
        batch = next(iterator, None)
      except tf.errors.OpError as error:
        raise culprit(
          self._source, self._settings, elements_of(read), self.image_shape[:2], error
        ) from error
      if batch is None:
        return
      yield self._checked(batch)

  def _row(self, element: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    columns = self._decoded_and_resized(element, element.get(DRAW))
    image = columns['image']
    if self.image_shape[-1] != self._source.channels:
      image = tf.repeat(image, self.image_shape[-1], axis=-1)
    return {
      **columns,
      'image': tf.ensure_shape(image, self.image_shape),
      'label': tf.cast(element['label'], tf.int32),
      'example_id': tf.cast(element['example_id'], tf.int32),
    }

  def _decoded_and_resized(
    self, element: Mapping[str, tf.Tensor], draw: Any
  ) -> dict[str, tf.Tensor]:
    """Returns `image` at its size, and the further columns that decoding gives.

    A training's image, which has a number to draw by, is cut at random where the settings say so.
    """
    settings, read = self._settings, self._source.read
    random = draw is not None and bool(settings.random_crop_area)
    if read and settings.pillow_resizes and not random:
      return {'image': geometry.read_and_resized(element['stored'], read, settings)}
    columns = self._source.decoded(element['stored'])
    return {**columns, 'image': self._prepared(columns['image'], draw if random else None)}

  def _prepared(self, image: tf.Tensor, draw: Any) -> tf.Tensor:
    """Returns the image at its size, cut at random where there is a number to draw by.

    Images of 8 bits stay uint8 where they are not resized, or by Pillow; others become float32.
    """
    settings, random = self._settings, draw is not None
    in_floats = (settings.resize or random) and settings.resized_by == 'tensorflow'
    if image.dtype != tf.float32 and (image.dtype != tf.uint8 or in_floats):
      image = tf.cast(image, tf.float32) / image.dtype.max
    if not random:
      return geometry.resize_and_crop(image, settings)
    seed = tf.stack([tf.cast(number, tf.int64) for number in draw])
    return geometry.random_resized_crop(image, self.image_shape[:2], seed, settings)

  def _checked(self, batch: Batch) -> Batch:
    label = batch['label']
    if label.ndim == 1 and label.min() < 0:
      row = int(np.argmin(label))
      raise InputError(
        f'{self._source.where(int(batch["example_id"][row]))} has label '
        f'{label[row]}: the split carries no labels. Choose another split.'
      )
    return batch
