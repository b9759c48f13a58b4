"""Stores pictures of mistakes with the records of studies with costly views, such as attacks.

For each block of rows, the images that are misclassified in the most views are stored, each in the
view of its most confident mistake. Reports then take their pictures from the records, and no attack
runs a second time.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from robustness.evaluation.failures import Tally, most_damaged
from robustness.evaluation.records import CONFIDENCE, PICTURE, RecordsReader, Shard
from robustness.evaluation.views import Arrays, ViewTable

Best = tuple[jax.Array, jax.Array]
"""The most confident mistake of each row in the views so far: its confidence, float32 [B], or −1 if
there is none, and the image in that view, uint8 [B, H, W, C]."""


def no_mistakes(images: jax.Array) -> Best:
  """Returns the mistakes of B rows before the first view, in the form that `add_view` takes.

  They are confidences of −1, float32 [B], and black images in the shape of `images`, uint8.
  """
  return jnp.full(len(images), -1.0, jnp.float32), jnp.zeros(images.shape, jnp.uint8)


def add_view(best: Best, images: jax.Array, fields: Arrays) -> Best:
  """Returns each row's most confident mistake after one more view, in the form of `best`.

  Args:
    best: each row's most confident mistake in the views before: its confidence, float32 [B], −1 if
      there is none, and the image in its view, uint8 [B, H, W, C].
    images: the rows in the view, [B, H, W, C].
    fields: `rank` and `confidence` of the rows in the view, [B] each.
  """
  confidence, pictures = best
  view_confidence = jnp.where(fields['rank'] > 0, fields[CONFIDENCE].astype(jnp.float32), -1.0)
  is_better = view_confidence > confidence
  view_pictures = jnp.rint(255 * jnp.clip(images, 0, 1)).astype(jnp.uint8)
  best_pictures = jnp.where(is_better[:, None, None, None], view_pictures, pictures)
  return jnp.where(is_better, view_confidence, confidence), best_pictures


class MistakesOfBlock:
  """Collects the mistakes in a block of rows, one chunk of views after another.

  After the last chunk it returns the pictures to store: of the images that are misclassified in the
  most views, each in the view of its most confident mistake.
  """

  def __init__(self, table: ViewTable):
    """Starts without any shard; `table` describes all views of the study."""
    self._table = table
    self._shards: list[Shard] = []
    # of the most confident mistake of each row so far, see `add`; empty before the first shard
    self._confidence, self._pictures = np.zeros(0), np.zeros(0)

  def add(self, shard: Shard, confidence: np.ndarray, images: np.ndarray) -> dict[str, np.ndarray]:
    """Adds the next chunk of views of a block.

    A chunk that starts at view 0 begins a new block. If chunks are missing in between, because
    their shards were recorded by an earlier run, no pictures of the block are stored.

    Args:
      shard: the recorded fields of the block in the chunk.
      confidence: [n], confidence of each row's most confident mistake in the chunk.
      images: uint8 [n, H, W, C], each row in the view of this mistake.

    Returns:
      {field: array} of the pictures to store, of the `most_damaged` rows, if the shard is the
      last of its block and all chunks before it were added; else {}.
    """
    if shard.views.start == 0:
      self._shards, self._confidence, self._pictures = [], confidence, images
    elif not self._is_next(shard):
      self._shards = []
      return {}
    else:
      is_better = confidence > self._confidence
      self._pictures = np.where(is_better[:, None, None, None], images, self._pictures)
      self._confidence = np.maximum(confidence, self._confidence)
    self._shards.append(shard)
    if shard.views.stop < len(self._table.names):
      return {}
    all_rows = slice(0, len(shard['label']))  # of a table of this block alone
    shards = [dataclasses.replace(shard, rows=all_rows) for shard in self._shards]
    tally = Tally.of(shards, shard['label'], self._table)
    rows = most_damaged(tally)
    return {
      f'{PICTURE}example_id': shard['example_id'][rows],
      f'{PICTURE}view': tally.view[rows].astype(np.int32),
      f'{PICTURE}image': self._pictures[rows],
    }

  def _is_next(self, shard: Shard) -> bool:
    """Returns whether a shard follows the last added one in the same block."""
    last = self._shards[-1] if self._shards else None
    return last is not None and last.rows == shard.rows and last.views.stop == shard.views.start


def stored_picture(records: RecordsReader, row: int, view: int) -> np.ndarray | None:
  """Returns the stored picture of a row in a view, uint8 [H, W, C]; None where there is none."""
  layout = records.layout
  last_chunk = layout.num_chunks - 1  # its shard has the pictures of a block of rows
  shard = records.read(row // layout.block_rows, last_chunk)
  if f'{PICTURE}image' not in shard.arrays:
    return None
  example = shard['example_id'][row - shard.rows.start]
  matches = (shard[f'{PICTURE}example_id'] == example) & (shard[f'{PICTURE}view'] == view)
  return shard[f'{PICTURE}image'][matches.argmax()] if matches.any() else None
