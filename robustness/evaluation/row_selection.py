"""Some rows of records, in any order, read as records are: two runs on the same images then agree
row by row, and rows that are versions of one image are its views."""

from __future__ import annotations

import numpy as np

from robustness.core.errors import InputError
from robustness.evaluation.records import Layout, Records, Shard, is_of_views


class RowSelection(Records):
  """Records of chosen rows in one block; for reading alone.

  Sums that were taken on the device (`total/...`) are of all rows and are not there.
  """

  def __init__(self, records: Records, rows: np.ndarray):
    """Opens a selection.

    Args:
      records: complete.
      rows: [n] places among their rows; or of records with a single view [n, V], the rows that show
        each of n images in V views, -1 where none does: the columns of an image, such as `label`,
        are then those of its last row, and what it is predicted as in such a view means nothing.
    """
    whole = records.layout
    self.directory, self._header = records.directory, records._header
    self._records, self._rows = records, np.asarray(rows)
    views = self._rows.shape[1:] * 2 or (whole.num_views, whole.chunk_views)
    self.layout = Layout(len(rows), views[0], max(1, len(rows)), views[1])

  def read(self, block: int, chunk: int) -> Shard:
    """Returns the chosen rows of a chunk of views, gathered from all blocks."""
    shards = [self._records.read(b, chunk) for b in range(self._records.layout.num_blocks)]
    arrays = {
      name: self._chosen(name, np.concatenate([shard[name] for shard in shards]))
      for name in shards[0].arrays
      if not name.startswith('total/')
    }
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)

  def _chosen(self, name: str, values: np.ndarray) -> np.ndarray:
    if self._rows.ndim == 1:
      return values[self._rows]
    return values[self._rows, 0] if is_of_views(name) else values[self._rows.max(1)]

  def total(self, name: str) -> np.ndarray:
    """Raises InputError: sums over all rows say nothing of some."""
    raise InputError(
      f'{self.directory} has {name} summed over all its images, which cannot be taken apart: '
      'compare runs on the same images.'
    )
