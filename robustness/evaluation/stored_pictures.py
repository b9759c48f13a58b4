"""Pictures of mistakes that are stored with the records of a study of costly views.

The most damaged rows of each block are stored, each in the view of its most confident mistake, so
that the pictures of a run are chosen from records and no attack runs a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.evaluation.failures import Tally, most_damaged
from robustness.evaluation.records import CONFIDENCE, PICTURE, Layout, RecordsReader, Shard
from robustness.evaluation.views import Arrays, ViewTable

Best = tuple[jax.Array, jax.Array]
"""The confidence of the most confident mistake of each row so far, -1 for none, and its picture."""


def no_mistakes(images: jax.Array) -> Best:
  """Returns what precedes the first view of images [B, H, W, C]."""
  return jnp.full(len(images), -1.0, jnp.float32), jnp.zeros(images.shape, jnp.uint8)


def with_view(best: Best, images: jax.Array, fields: Arrays) -> Best:
  """Returns the most confident mistakes after a further view, its images and recorded fields."""
  confidence, pictures = best
  sure = jnp.where(fields['rank'] > 0, fields[CONFIDENCE].astype(jnp.float32), -1.0)
  is_better = sure > confidence
  levels = jnp.rint(255 * jnp.clip(images, 0, 1)).astype(jnp.uint8)
  best_pictures = jnp.where(is_better[:, None, None, None], levels, pictures)
  return jnp.where(is_better, sure, confidence), best_pictures


class BlockOfShards(RecordsReader):
  """The records of one block of rows, from its shards in memory."""

  def __init__(self, shards: Sequence[Shard], num_views: int):
    rows, views = shards[0].rows, shards[0].views
    count = rows.stop - rows.start
    self.layout = Layout(count, num_views, count, views.stop - views.start)
    self._shards = shards

  def read(self, block: int, chunk: int) -> Shard:
    """Returns a shard with rows counted from 0."""
    shard = self._shards[chunk]
    return Shard(self.layout.rows(0), shard.views, shard.arrays)


class MistakesOfBlock:
  """Gathers a block of rows chunk by chunk, and chooses its pictures after the last one."""

  def __init__(self, table: ViewTable):
    """Begins without a block; `table` describes all views of the study."""
    self._table = table
    self._shards: list[Shard] = []
    self._confidence, self._pictures = np.zeros(0), np.zeros(0)

  def add(
    self, shard: Shard, confidence: np.ndarray, pictures: np.ndarray
  ) -> dict[str, np.ndarray]:
    """Adds the next chunk of a block with the most confident mistakes in it [n], [n, H, W, C].

    Returns:
      The arrays of the chosen pictures, for the last shard of a block if all its chunks were added;
      {} for the others, and where the records lack some views of the study.
    """
    views = shard.views
    if views.start == 0:
      self._shards, self._confidence, self._pictures = [], confidence, pictures
    elif not self._shards or (self._shards[-1].rows, self._shards[-1].views.stop) != (
      shard.rows,
      views.start,
    ):
      self._shards = []
      return {}
    else:
      is_better = confidence > self._confidence
      self._pictures = np.where(is_better[:, None, None, None], pictures, self._pictures)
      self._confidence = np.maximum(confidence, self._confidence)
    self._shards.append(shard)
    if views.stop < len(self._table.names):
      return {}
    tally = Tally.of(BlockOfShards(self._shards, views.stop), self._table)
    rows = most_damaged(tally)
    return {
      f'{PICTURE}example_id': shard['example_id'][rows],
      f'{PICTURE}view': tally.view[rows].astype(np.int32),
      f'{PICTURE}image': self._pictures[rows],
    }


def stored_picture(records: RecordsReader, row: int, view: int) -> np.ndarray | None:
  """Returns the stored picture of a row in a view, uint8 [H, W, C]; None where there is none."""
  layout = records.layout
  shard = records.read(row // layout.block_rows, layout.num_chunks - 1)
  if f'{PICTURE}image' not in shard.arrays:
    return None
  example = shard['example_id'][row - shard.rows.start]
  is_asked = (shard[f'{PICTURE}example_id'] == example) & (shard[f'{PICTURE}view'] == view)
  return shard[f'{PICTURE}image'][is_asked.argmax()] if is_asked.any() else None
