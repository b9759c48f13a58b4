"""Blocks of image files that Pillow reads and resizes, in threads and without tf.data.

Pillow releases the interpreter while it decodes and resizes. tf.data, which would call it for every
element, takes as much of the processor's time again as a third of that.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from input_pipeline.geometry import resized_by_pillow
from input_pipeline.settings import DataSettings
from input_pipeline.sizes import another_size
from input_pipeline.sources.source import MemoryStore, Source
from robustness.core.errors import InputError
from robustness.core.host import usable_cores
from robustness.core.rows import Batch

IN_FLIGHT = 64  # files a thread: a block of large images ahead


def are_files(source: Source, settings: DataSettings) -> bool:
  """Whether rows are image files that Pillow resizes, whose paths lie in memory."""
  in_memory = source.read is not None and isinstance(source.store, MemoryStore)
  return settings.pillow_resizes and in_memory


def file_batches(
  source: Source,
  settings: DataSettings,
  blocks: Sequence[np.ndarray],
  image_shape: tuple[int, int, int],
) -> Iterator[Batch]:
  """Yields `image` uint8 [n, H, W, C], `label` and `example_id` int32 of every block, in order.

  Args:
    source: image files, see `are_files`.
    settings: gives `resize`, `crop` and `interpolation`.
    blocks: indices of the examples of each block.
    image_shape: height, width and channels of every row; grey files are repeated to `channels`.

  Raises:
    InputError: when its block is reached, a file that cannot be decoded or has another size.
  """
  assert source.read is not None and isinstance(source.store, MemoryStore)
  read, stored = source.read, np.asarray(source.store.stored)
  labels, threads = np.asarray(source.store.labels), usable_cores()

  def image(index: int) -> np.ndarray:
    return resized_by_pillow(read(stored[index]), settings)

  waiting: collections.deque[Future[np.ndarray]] = collections.deque()
  with ThreadPoolExecutor(threads) as pool:
    coming = itertools.chain.from_iterable(blocks)
    try:
      for index in itertools.islice(coming, IN_FLIGHT * threads):
        waiting.append(pool.submit(image, index))
      for block in blocks:
        images = np.empty((len(block), *image_shape), np.uint8)
        for row, index in zip(images, block, strict=True):
          row[:] = _fitting(waiting.popleft(), source, int(index), image_shape)
          waiting.extend(pool.submit(image, following) for following in itertools.islice(coming, 1))
        ids = np.asarray(block, np.int32)
        yield {'image': images, 'label': labels[block].astype(np.int32), 'example_id': ids}
    finally:
      pool.shutdown(wait=False, cancel_futures=True)


def _fitting(
  coming: Future[np.ndarray], source: Source, index: int, shape: tuple[int, int, int]
) -> np.ndarray:
  """Returns an image when it is read; refuses one of another size and names one that fails."""
  try:
    image = coming.result()
  except InputError as error:
    raise InputError(f'{source.where(index)} cannot be decoded: {error}') from error
  if image.shape[:2] != shape[:2]:
    raise another_size(source, index, image.shape[:2], shape[:2])
  return image
