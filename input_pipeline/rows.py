"""Reads stored examples as rows, in batches for evaluation and for training.

Evaluation reads every example once, in order, in blocks that are padded and masked. Subsets,
processes and resumed runs select their blocks before anything is decoded. Training reads one
permutation of the examples (epoch) after another.
"""

from __future__ import annotations

import collections
import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from input_pipeline import geometry, image_files
from input_pipeline.images import HostStore, IndexedStore, StreamedStore
from input_pipeline.selection import Selection, delivered_size
from robustness.core.errors import KEYS, InputError
from robustness.core.host import usable_cores
from robustness.core.rows import (
  MAX_CACHED_BYTES,
  ArrayRows,
  Batch,
  as_float32,
  chosen_blocks,
  pad_batch,
  refuse_colour,
)
from robustness.core.sampler import Epochs, Sampler, share_of_batch
from robustness.core.typing import Facts

_PREFETCH = 4
"""Batches that tf.data prepares ahead."""
_READ_AT_ONCE = 1024
"""Examples that are read at once into memory."""
_MAX_READ_FOR_LABELS = 100_000
"""Largest number of streamed images that are read only for their labels."""
IN_FLIGHT = 64
"""Number of files per thread that Pillow reads ahead: a block of large images."""
DRAW = 'draw'
"""Key of (seed, position in the sequence) in a training's element; random crops depend on it."""


class TfRows:
  """Images with labels that are read by tf.data, or by Pillow in threads if they are files.

  Implements the protocol `robustness.core.rows.Rows`. A row is an image with its label and further
  columns.

  Attributes:
    indices: indices of the rows among all stored images, int64 [num_examples], ascending.
    image_shape: height, width and channels of the images.
    class_names: names of the classes, in label order.
  """

  def __init__(self, selection: Selection):
    self._images, self._settings = selection.images, selection.settings
    self._facts, self.indices = selection.facts, selection.indices
    self.image_shape, self.class_names = selection.image_shape, selection.images.class_names
    self._should_cache = False  # whether to decode all rows into `_arrays` when many are read
    self._arrays: ArrayRows | None = None
    if self._settings.resized_by == 'pillow':
      self._refuse_more_than_8_bits()

  @property
  def description(self) -> Facts:
    """JSON values that identify the data, with the number and shape of the images."""
    return {**self._facts, 'num_examples': self.num_examples, 'image_shape': list(self.image_shape)}

  @property
  def num_examples(self) -> int:
    """Number of rows."""
    return len(self.indices)

  def with_channels(self, channels: int) -> TfRows:
    """Returns the same images with another number of channels; grey images are repeated.

    Raises:
      InputError: the images are in colour and have another number of channels.
    """
    if channels != self.image_shape[-1]:
      refuse_colour(self._images.title, self._images.channels, channels)
    rows = copy.copy(self)
    rows.image_shape = (*self.image_shape[:2], channels)
    rows._arrays = None  # they may have another number of channels
    return rows

  def at(self, positions: np.ndarray) -> TfRows | ArrayRows:
    """Selects the images at `positions`, int [n], ascending.

    The result is an `ArrayRows` if the images are already decoded in memory.
    """
    if self._arrays:
      return self._arrays.at(positions)
    rows = copy.copy(self)
    rows.indices = self.indices[positions]
    rows._should_cache = False
    return rows

  def cached(self) -> TfRows:
    """Returns the same images, which are kept in memory after more than half of them are read at
    once.
    """
    rows = copy.copy(self)
    rows._should_cache = True
    return rows

  def in_memory(self, max_bytes: int) -> ArrayRows | None:
    """Decodes all images into arrays; returns None if that is not possible.

    It is not possible if the arrays need more than `max_bytes`, for random crops, and for data that
    can only be read in sequence.
    """
    if self._settings.random_crop_area or not isinstance(self._images.store, IndexedStore):
      return None
    [first_row] = self._batches(1, [0], stored=True)  # a batch of the first row alone
    del first_row['block']  # the only entry that is no array
    bytes_of_row = sum(values.nbytes for values in first_row.values())
    if self.num_examples * bytes_of_row > max_bytes:
      return None
    batches = [*self._batches(min(_READ_AT_ONCE, self.num_examples), None, stored=True)]
    columns = {}
    for name in first_row:  # the mask is False for the padding of the last batch
      columns[name] = np.concatenate([batch[name][batch['mask']] for batch in batches])
    del columns['mask']
    images, labels, ids = columns.pop('image'), columns.pop('label'), columns.pop('example_id')
    title = self._images.title
    return ArrayRows(images, labels, self.class_names, ids, source=title, columns=columns)

  def batches(
    self, batch_size: int, blocks: Sequence[int] | None = None, *, stored: bool = False
  ) -> Iterator[Batch]:
    """Yields batches of images in order; see `Rows.batches`.

    The last batch is padded, and its `mask` is False on the padding.

    Args:
      batch_size: images per batch.
      blocks: indices of the batches to read; None reads all.
      stored: whether 8-bit images stay uint8; otherwise images become float32.
    """
    num_blocks = len(chosen_blocks(self.num_examples, batch_size, blocks))
    reads_most_rows = 2 * num_blocks * batch_size > self.num_examples
    if self._should_cache and reads_most_rows:
      self._should_cache = False  # tried once: if the rows are too large, `_arrays` stays None
      self._arrays = self.in_memory(MAX_CACHED_BYTES)
    if self._arrays:
      return self._arrays.batches(batch_size, blocks, stored=stored)
    return self._batches(batch_size, blocks, stored=stored)

  def _batches(self, size: int, blocks: Sequence[int] | None, *, stored: bool) -> Iterator[Batch]:
    """Yields batches like `batches`, but always from storage, not from memory.

    Args:
      size: images per batch.
      blocks: indices of the batches to read; None reads all.
      stored: whether 8-bit images stay uint8; otherwise images become float32.
    """
    block_numbers = chosen_blocks(self.num_examples, size, blocks)
    if not block_numbers:
      return
    indices_of_blocks = [self.indices[b * size : (b + 1) * size] for b in block_numbers]
    store, settings = self._images.store, self._settings
    has_image_files = self._images.read is not None and isinstance(store, HostStore)
    is_resized_by_tensorflow = (settings.resize or settings.crop) and not settings.pillow_resizes
    batches: Iterator[Batch]
    if has_image_files and not is_resized_by_tensorflow:
      batches = map(self._check_labels, self._file_batches(indices_of_blocks))
    else:
      examples = store.elements(np.concatenate(indices_of_blocks))
      # the function reads one block again after an error, to find the image that caused it
      batches = self._read(examples, size, lambda number: store.elements(indices_of_blocks[number]))
    for block, batch in zip(block_numbers, batches, strict=True):
      if not stored:
        batch['image'] = as_float32(batch['image'])
      batch |= self._columns(batch['example_id'])
      yield {**pad_batch(batch, size), 'block': block}

  def training_batches(
    self,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    share: tuple[int, int] = (0, 1),
    sampler: Sampler | None = None,
  ) -> Iterator[Batch]:
    """Returns shuffled training batches without end; see `Rows.training_batches`.

    Args:
      batch_size: images per batch, over all processes.
      seed: seed of the order and of random crops.
      start_step: step of the first batch.
      share: (k, n): this process reads slice k of the n equal slices of every batch.
      sampler: order of the images; None shuffles them in every epoch.
    """
    order = sampler or Epochs(self.num_examples, seed)
    if sampler is not None:
      self._refuse_streamed(max_examples=0)  # a sampler needs images in any order
    low, high = share_of_batch(0, batch_size, share)
    elements_from = functools.partial(self._sequence, order, seed, batch_size, (low, high))
    batches = self._read(
      elements_from(start_step),
      high - low,
      # batches are counted from `start_step`
      elements_of=lambda number: elements_from(start_step + number).take(high - low),
    )

    def with_columns(step: int, batch: Batch) -> Batch:
      """Adds the stored columns and the columns of the sampler to the batch of a step."""
      # the sampler adds columns for the positions that this process reads, such as the epoch
      sampler_columns = order.columns(*share_of_batch(step, batch_size, share))
      return {**batch, **self._columns(batch['example_id']), **sampler_columns}

    return map(with_columns, itertools.count(start_step), batches)

  def without_images(self, *, streamed: bool = True) -> Batch:
    """Returns the labels, example ids and further columns of all images, without the images.

    Args:
      streamed: whether images may be read if they alone contain the labels. False raises InputError
        in this case; so do more than `_MAX_READ_FOR_LABELS` images.
    """
    store, ids = self._images.store, self.indices
    label = store.labels
    if label is None:
      self._refuse_streamed(_MAX_READ_FOR_LABELS if streamed else 0)
      stored = store.elements(ids).map(lambda element: element['label']).batch(_READ_AT_ONCE)
      label = np.concatenate([*stored.as_numpy_iterator()])
    else:
      # a store may have the labels of one part of n images, which every part repeats
      label = label[ids % len(label)]
    columns = {'label': label.astype(np.int32), 'example_id': ids.astype(np.int32)}
    return {**columns, **self._columns(ids)}

  def may_have_changed(self, since: float, positions: slice) -> bool:
    """Returns whether image files may have changed since a time; see `Rows.may_have_changed`.

    Args:
      since: seconds since 1970.
      positions: which images to check.
    """
    file = self._images.file
    if file is None:
      return False
    files = {file(index) for index in self.indices[positions].tolist()}  # an array has many images
    return image_files.changed_since(files, since)

  def _refuse_streamed(self, max_examples: int) -> None:
    """Raises InputError if the data can only be read in sequence and have too many images.

    Args:
      max_examples: largest valid number of images.
    """
    if self.num_examples > max_examples and not isinstance(self._images.store, IndexedStore):
      raise InputError(
        f'{self._images.title} is too large for memory: it is read from front to back and in no '
        "other order. Set training.balanced='' of the run or the classifier, take a slice of the "
        f"split, or read class folders by {KEYS.data.source}='folder'."
      )

  def _refuse_more_than_8_bits(self) -> None:
    """Raises InputError unless images are decoded to uint8, because Pillow resizes only these."""
    decoded = self._images.store.elements(self.indices[:1]).map(
      lambda element: self._images.decoded(element['stored'])['image']
    )
    dtype = decoded.element_spec.dtype
    if dtype != tf.uint8:
      raise InputError(
        f'{self._images.title} holds images of {dtype.name}, and Pillow resizes those of 8 bits '
        f"alone: set {KEYS.data.resized_by}='tensorflow'."
      )

  def _sequence(
    self, order: Sampler, seed: int, batch_size: int, slice_of_batch: tuple[int, int], step: int
  ) -> tf.data.Dataset:
    """Returns the undecoded training images of this process, shuffled and without end.

    All processes agree on one sequence of images, and each reads its positions of the sequence. An
    element holds the stored image, label, id and, as `DRAW`, (seed, position), which determines the
    random crop.

    Args:
      order: order of the images. Data that can only be read in sequence are shuffled by `seed`
        instead.
      seed: seed of random crops.
      batch_size: images per batch, over all processes.
      slice_of_batch: (low, high): this process reads positions low, ..., high - 1 of each batch.
      step: training step at which to start.
    """
    first, (low, high) = step * batch_size, slice_of_batch

    def is_mine(position: tf.Tensor, _: object) -> tf.Tensor:
      """Returns whether this process reads the image at a position of the sequence."""
      return (position % batch_size >= low) & (position % batch_size < high)

    store = self._images.store
    if isinstance(store, IndexedStore):
      indices = self._ordered(order, first).enumerate(first).filter(is_mine)
      sequence = indices.map(lambda i, index: (i, store.element(index)))
    else:
      assert isinstance(store, StreamedStore)
      sequence = store.shuffled(self.indices, seed, first).enumerate(first).filter(is_mine)
    return sequence.map(lambda i, element: {**element, DRAW: (seed, i)})

  def _ordered(self, order: Sampler, first: int) -> tf.data.Dataset:
    """Returns the indices of training images in the given order, int64, without end.

    Args:
      order: order of the images in each epoch of `num_examples` images.
      first: position at which to start.
    """
    count = self.num_examples
    first_epoch, offset = divmod(first, count)

    def indices_of_epoch(epoch: int) -> np.ndarray:
      """Returns the indices of the images of an epoch in order, int64 [count]."""
      return self.indices[order.positions(epoch * count, (epoch + 1) * count)]

    def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
      """Returns the indices of an epoch as a data set."""
      indices = tf.numpy_function(indices_of_epoch, [epoch], tf.int64)
      return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(indices, [count]))

    return tf.data.Dataset.counter(first_epoch).flat_map(one_epoch).skip(offset)

  def _columns(self, example_ids: np.ndarray) -> Batch:
    """Returns further columns of the images with some ids, without image, label and id."""
    return {name: values[example_ids] for name, values in self._images.columns.items()}

  def _read(
    self, elements: tf.data.Dataset, batch_size: int, elements_of: Callable[[int], tf.data.Dataset]
  ) -> Iterator[Batch]:
    """Decodes images with tf.data and yields them in batches.

    Args:
      elements: undecoded images with labels, of all batches.
      batch_size: images per batch.
      elements_of: called with the index of a batch after an error; returns its undecoded images, to
        find the image that caused the error.

    Raises:
      InputError: an image cannot be decoded, or has another size or no label.
    """
    data = elements.map(self._row, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    data = data.batch(batch_size).prefetch(_PREFETCH)
    iterator = data.as_numpy_iterator()
    for number in itertools.count():
      try:
        batch = next(iterator, None)
      except tf.errors.OpError as error:
        raise self._error_of_batch(elements_of(number), error) from error
      if batch is None:
        return
      yield self._check_labels(batch)

  def _error_of_batch(self, elements: tf.data.Dataset, error: tf.errors.OpError) -> InputError:
    """Returns an error that names the first unreadable image of a batch, and the reason.

    Args:
      elements: the undecoded images of the batch.
      error: TensorFlow's error for the batch, which does not name an image.
    """
    try:
      for element in elements:
        size = self._images.decoded_size(element)
        index = int(element['example_id'])
        # raises InputError, which names the element, if the image has another size
        delivered_size(self._images, self._settings, index, size, self.image_shape[:2])
    except InputError as refused:
      return refused
    except tf.errors.OpError as unreadable:  # a file as a whole cannot be read
      error = unreadable
    return InputError(f'{self._images.title} cannot be read: {error.message}')

  def _file_batches(self, blocks: Sequence[np.ndarray]) -> Iterator[Batch]:
    """Yields batches of image files, which Pillow decodes and resizes in threads.

    With tf.data, this would take a third more processor time.

    Args:
      blocks: indices of the images of each batch.
    """
    # one iterator over all blocks, so that no thread waits for the end of a block
    decoded = self._decoded_files(itertools.chain.from_iterable(blocks))
    for block in blocks:
      images = np.empty((len(block), *self.image_shape), np.uint8)
      labels = []
      for row in range(len(block)):
        images[row], label = next(decoded)
        labels.append(label)
      label, ids = np.asarray(labels, np.int32), block.astype(np.int32)
      yield {'image': images, 'label': label, 'example_id': ids}

  def _decoded_files(self, indices: Iterable[int]) -> Iterator[tuple[np.ndarray, int | np.ndarray]]:
    """Yields the pixels, uint8 [H, W, C], and the label of each image file with these indices.

    Threads decode the next images while the caller uses the earlier ones.
    """
    store, threads = self._images.store, usable_cores()
    assert isinstance(store, HostStore)
    # images that threads decode now or have decoded, in order, with their labels
    started: collections.deque[tuple[Future[np.ndarray], int | np.ndarray]] = collections.deque()
    with ThreadPoolExecutor(threads) as pool:
      try:
        for index in indices:
          stored, label = store.host_element(int(index))
          started.append((pool.submit(self._decode_file, int(index), stored), label))
          if len(started) == IN_FLIGHT * threads:
            future, label = started.popleft()
            yield future.result(), label
        while started:
          future, label = started.popleft()
          yield future.result(), label
      finally:
        pool.shutdown(wait=False, cancel_futures=True)

  def _decode_file(self, index: int, stored: bytes | np.ndarray) -> np.ndarray:
    """Decodes and resizes an image file to uint8 [H, W, C].

    Args:
      index: index of the image, for messages.
      stored: content or path of the file, as bytes.
    """
    assert self._images.read is not None and isinstance(stored, bytes)
    try:
      pixels = self._images.read(stored)
    except InputError as error:
      raise InputError(f'{self._images.where(index)} cannot be decoded: {error}') from error
    # raises InputError if the image would have another size than the rows
    size = pixels.shape[0], pixels.shape[1]
    delivered_size(self._images, self._settings, index, size, self.image_shape[:2])
    return geometry.resized_by_pillow(pixels, self._settings) if self._settings.resize else pixels

  def _row(self, element: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Decodes, resizes and crops an image; returns it with its label, id and decoded columns.

    Args:
      element: undecoded image with label and id. In training, the entry `DRAW`, (seed, position),
        determines the random crop.
    """
    columns = self._images.decoded(element['stored'])
    draw = element.get(DRAW) if self._settings.random_crop_area else None
    image = self._prepare_image(columns['image'], draw)
    if self.image_shape[-1] != self._images.channels:  # grey images for a network of 3 channels
      image = tf.repeat(image, self.image_shape[-1], axis=-1)
    return {
      **columns,
      'image': tf.ensure_shape(image, self.image_shape),
      'label': tf.cast(element['label'], tf.int32),
      'example_id': tf.cast(element['example_id'], tf.int32),
    }

  def _prepare_image(self, image: tf.Tensor, draw: Sequence[tf.Tensor] | None) -> tf.Tensor:
    """Resizes and crops a decoded image as the settings require.

    Args:
      image: the decoded image.
      draw: (seed, position), which determines a random crop; None crops the centre.

    Returns:
      uint8 if the image has 8 bits and TensorFlow does not resize it, else float32 in [0, 1].
    """
    settings = self._settings
    is_resized = bool(settings.resize) or draw is not None
    by_tensorflow = is_resized and settings.resized_by == 'tensorflow'
    # integers of more than 8 bits become floats in any case, and 8-bit ones for TensorFlow
    stays_8_bit = image.dtype == tf.uint8 and not by_tensorflow
    if image.dtype != tf.float32 and not stays_8_bit:
      image = tf.cast(image, tf.float32) / image.dtype.max
    if draw is None:
      return geometry.resize_and_crop(image, settings)
    seed = tf.stack([tf.cast(number, tf.int64) for number in draw])
    return geometry.random_resized_crop(image, self.image_shape[:2], seed, settings)

  def _check_labels(self, batch: Batch) -> Batch:
    """Returns `batch` unchanged; raises InputError if an image has label −1 (no label)."""
    label = batch['label']  # [B]; in [B, L], several labels per image, −1 is padding
    if label.ndim == 1 and label.min() < 0:
      row = int(np.argmin(label))
      example = self._images.where(int(batch['example_id'][row]))
      problem = f'{example} has label {label[row]}'
      raise InputError(f'{problem}: the split carries no labels. Choose another split.')
    return batch
