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

Mistakes = tuple[jax.Array, jax.Array]
"""The most confident mistake of each of B rows in some views: its confidence, float32 [B], or −1 if
there is none, and the image in the view of the mistake, uint8 [B, H, W, C]."""


def no_mistakes(images: jax.Array) -> Mistakes:
  """Returns the mistakes of B rows in no views, to which `add_view` adds views.

  They are confidences of −1, float32 [B], and black images in the shape of `images`, uint8.
  """
  return jnp.full(len(images), -1.0, jnp.float32), jnp.zeros(images.shape, jnp.uint8)


def add_view(mistakes: Mistakes, images: jax.Array, fields: Arrays) -> Mistakes:
  """Returns each row's most confident mistake in the views of `mistakes` and one more view.

  Args:
    mistakes: each row's most confident mistake in the views so far.
    images: the rows in the next view, [B, H, W, C].
    fields: `rank` and `confidence` of the predictions in the next view, [B] each.
  """
  confidence, pictures = mistakes
  is_wrong = fields['rank'] > 0  # the true class is not the first one
  view_confidence = jnp.where(is_wrong, fields[CONFIDENCE].astype(jnp.float32), -1.0)
  is_higher = view_confidence > confidence
  view_pictures = jnp.rint(255 * jnp.clip(images, 0, 1)).astype(jnp.uint8)
  new_pictures = jnp.where(is_higher[:, None, None, None], view_pictures, pictures)
  return jnp.where(is_higher, view_confidence, confidence), new_pictures


class MistakesOfBlock:
  """Collects the mistakes in a block of rows, one chunk of views after another.

  After the last chunk it returns the pictures to store: of the images that are misclassified in the
  most views, each in the view of its most confident mistake.
  """

  def __init__(self, table: ViewTable):
    """Collects nothing yet; `table` describes all views of the study."""
    self._table = table
    self._shards: list[Shard] = []  # of one block, for views 0, 1, ... without a gap
    # confidence and image of each row's most confident mistake in `_shards`, as in `Mistakes`
    self._confidence, self._pictures = np.zeros(0), np.zeros(0)

  def add(self, shard: Shard, confidence: np.ndarray, images: np.ndarray) -> dict[str, np.ndarray]:
    """Adds the next chunk of views of a block, and returns the block's pictures after the last one.

    A chunk that starts at view 0 begins a new block. If a chunk of the block is left out, because
    an earlier run recorded it, no pictures of the block are stored.

    Args:
      shard: the recorded fields of the block in the chunk.
      confidence: [n], confidence of each row's most confident mistake in the chunk.
      images: uint8 [n, H, W, C], each row in the view of this mistake.

    Returns:
      The pictures of the `most_damaged` rows, as fields of the shard that start with `PICTURE`; {}
      before the last chunk of the block, or if a chunk was left out.
    """
    if shard.views.start == 0:
      self._shards, self._confidence, self._pictures = [], confidence, images
    elif not self._is_next(shard):
      self._shards = []
      return {}
    else:
      is_higher = confidence > self._confidence
      self._pictures = np.where(is_higher[:, None, None, None], images, self._pictures)
      self._confidence = np.maximum(confidence, self._confidence)
    self._shards.append(shard)
    if shard.views.stop < len(self._table.names):
      return {}
    all_rows = slice(0, len(shard['label']))  # of a table of this block alone
    shards = [dataclasses.replace(shard, rows=all_rows) for shard in self._shards]
    tally = Tally(shards, shard['label'], self._table)
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
  """Returns the picture of a row in a view, uint8 [H, W, C]; None if the records do not have it.

  The last shard of each block of rows has the pictures of K rows, each in one view, or none.
  """
  layout = records.layout
  shard = records.read(row // layout.block_rows, layout.num_chunks - 1)
  if f'{PICTURE}image' not in shard.arrays:
    return None
  example_id = shard['example_id'][row - shard.rows.start]
  is_row, is_view = shard[f'{PICTURE}example_id'] == example_id, shard[f'{PICTURE}view'] == view
  pictures = shard[f'{PICTURE}image'][is_row & is_view]  # one or none of the K pictures
  return pictures[0] if len(pictures) else None
