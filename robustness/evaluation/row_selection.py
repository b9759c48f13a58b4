"""Some rows of records, in any order, read as records are: two runs on the same images then agree
row by row."""

from __future__ import annotations

import numpy as np

from robustness.core.errors import InputError
from robustness.evaluation.records import Layout, Records, Shard


class RowSelection(Records):
  """Records of chosen rows in one block; for reading alone.

  Sums that were taken on the device (`total/...`) are of all rows and are not there.
  """

  def __init__(self, records: Records, rows: np.ndarray):
    """Args: records: complete; rows: [n] places among their rows."""
    whole = records.layout
    self.directory, self._header = records.directory, records._header
    self.layout = Layout(len(rows), whole.num_views, max(1, len(rows)), whole.chunk_views)
    self._records, self._rows = records, np.asarray(rows)

  def read(self, block: int, chunk: int) -> Shard:
    """Returns the chosen rows of a chunk of views, gathered from all blocks."""
    shards = [self._records.read(b, chunk) for b in range(self._records.layout.num_blocks)]
    arrays = {
      name: np.concatenate([shard[name] for shard in shards])[self._rows]
      for name in shards[0].arrays
      if not name.startswith('total/')
    }
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)

  def total(self, name: str) -> np.ndarray:
    """Raises InputError: sums over all rows say nothing of some."""
    raise InputError(
      f'{self.directory} has {name} summed over all its images, which cannot be taken apart: '
      'compare runs on the same images.'
    )
