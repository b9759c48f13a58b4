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
  """Returns the most confident mistakes of B images before any view is added: there are none.

  The confidences are −1, float32 [B], and the pictures black, uint8 [B, H, W, C].
  """
  return jnp.full(len(images), -1.0, jnp.float32), jnp.zeros(images.shape, jnp.uint8)


def add_view(mistakes: Mistakes, images: jax.Array, fields: Arrays) -> Mistakes:
  """Updates each image's most confident mistake with the predictions in one more view.

  Args:
    mistakes: confidence and picture of each image's most confident mistake so far.
    images: the images as the view shows them, [B, H, W, C].
    fields: `rank` and `confidence` of the predictions in the view (a way of perturbing images), [B]
      each.
  """
  confidence, pictures = mistakes
  is_wrong = fields['rank'] > 0  # the true class is not the first one
  view_confidence = jnp.where(is_wrong, fields[CONFIDENCE].astype(jnp.float32), -1.0)
  is_higher = view_confidence > confidence
  view_pictures = jnp.rint(255 * jnp.clip(images, 0, 1)).astype(jnp.uint8)
  new_pictures = jnp.where(is_higher[:, None, None, None], view_pictures, pictures)
  return jnp.where(is_higher, view_confidence, confidence), new_pictures


class MistakesOfBlock:
  """Selects the pictures of mistakes that are stored for a block of images.

  The fields of the block are added one chunk of views after another. After the last chunk, the
  images that are misclassified in the most views are selected. Each is pictured in the view of its
  most confident mistake.
  """

  def __init__(self, table: ViewTable):
    """Starts without any mistakes.

    Args:
      table: all views (ways of perturbing images) of the study.
    """
    self._table = table
    self._shards: list[Shard] = []  # of one block, for views 0, 1, ... without a gap
    # confidence and image of each row's most confident mistake in `_shards`, as in `Mistakes`
    self._confidence, self._pictures = np.zeros(0), np.zeros(0)

  def add(self, shard: Shard, confidence: np.ndarray, images: np.ndarray) -> dict[str, np.ndarray]:
    """Adds a chunk of views of a block of images; returns the selected pictures after the last
    chunk.

    A chunk that starts at view 0 begins a new block. If a chunk was left out, because an earlier
    run recorded it, no pictures of the block are stored.

    Args:
      shard: the recorded fields of the block's n images in the chunk.
      confidence: confidence of each image's most confident mistake in the chunk, [n].
      images: each image in the view (a way of perturbing images) of this mistake, uint8 [n, H, W,
        C].

    Returns:
      The pictures of the `most_damaged` images, as fields with names that start with `PICTURE`. {}
      before the last chunk, or if a chunk was left out.
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
    all_rows = slice(0, len(shard['label']))  # the table of this block alone starts at row 0
    shards = [dataclasses.replace(shard, rows=all_rows) for shard in self._shards]
    tally = Tally(shards, shard['label'], self._table)
    rows = most_damaged(tally)
    return {
      f'{PICTURE}example_id': shard['example_id'][rows],
      f'{PICTURE}view': tally.view[rows].astype(np.int32),
      f'{PICTURE}image': self._pictures[rows],
    }

  def _is_next(self, shard: Shard) -> bool:
    """Returns whether a shard has the next views of the same block of images."""
    last = self._shards[-1] if self._shards else None
    return last is not None and last.rows == shard.rows and last.views.stop == shard.views.start


def stored_picture(records: RecordsReader, row: int, view: int) -> np.ndarray | None:
  """Returns the stored picture of an image in a view, uint8 [H, W, C]; None if there is none.

  Records of costly views, such as attacks, have pictures of some misclassified images, each in one
  view.

  Args:
    records: the records.
    row: position of the image.
    view: number of the view.
  """
  layout = records.layout
  # the last shard of a block has its pictures
  shard = records.read(row // layout.block_rows, layout.num_chunks - 1)
  if f'{PICTURE}image' not in shard.arrays:
    return None
  example_id = shard['example_id'][row - shard.rows.start]
  is_row, is_view = shard[f'{PICTURE}example_id'] == example_id, shard[f'{PICTURE}view'] == view
  pictures = shard[f'{PICTURE}image'][is_row & is_view]  # one or none of the K pictures
  return pictures[0] if len(pictures) else None
