"""Records of a sequential design, which shows a view until its interval is narrow enough.

Each round shows the next rows in the views that are not finished. Its records are in a folder of
their own. The views of the next round depend on the finished rounds and the design only, so that a
resumed run gets the same records.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

import numpy as np

from robustness.core.errors import InputError
from robustness.core.typing import Facts
from robustness.estimates.fixed_width import FixedWidth
from robustness.evaluation.records import TOTAL, Layout, Records, RecordsReader, Shard

ROUND = 'round'
FIRST = f'{ROUND}000'


class SequentialRecords:
  """The records of the finished rounds.

  Attributes:
    directory: folder of the folders of the rounds.
    design: the stopping rule, which decides when a view is finished.
    num_views: number V of views in the first round.
    rounds: records by round, each complete.
    views: int [v] by round, ascending: numbers in [0, V) of the views that the round shows.
    shown: int [V], number of rows that each view was shown with.
    next_views: int [v], numbers of the views of the next round; empty when all are finished.
  """

  def __init__(self, directory: str | os.PathLike[str], design: FixedWidth, num_views: int):
    self.directory, self.design, self.num_views = pathlib.Path(directory), design, num_views
    self.rounds: list[Records] = []
    self.views: list[np.ndarray] = []
    self._wrong = np.zeros(num_views, np.int64)
    self.shown = np.zeros(num_views, np.int64)
    self.next_views = np.arange(num_views)

  @classmethod
  def open(cls, directory: str | os.PathLike[str], design: FixedWidth) -> SequentialRecords:
    """Opens a finished design for reading; raises InputError if a round or a shard is missing."""
    directory = pathlib.Path(directory)
    rounds = cls(directory, design, Records.open(directory / FIRST).layout.num_views)
    while rounds.next_views.size:
      records = Records.open(rounds.folder(len(rounds.rounds)))
      if records.missing():
        raise InputError(
          f'{records.directory} lacks shards: the run is not finished. Run its command again, '
          'which resumes where it stopped.'
        )
      rounds.add(records)
    return rounds

  @property
  def identity(self) -> Facts:
    """The identity that all rounds share."""
    return {k: v for k, v in self.rounds[0].identity.items() if k != 'round'}

  def folder(self, number: int) -> pathlib.Path:
    """Returns the folder of a round."""
    return self.directory / f'{ROUND}{number:03d}'

  def identity_of_next(self, identity: Facts) -> Facts:
    """Returns the identity of the next round: the design's identity with rows and views."""
    begin = len(self.rounds) * self.design.trials
    rows = [begin, begin + self.design.trials]
    return {**identity, 'round': {'rows': rows, 'views': self.next_views.tolist()}}

  def add(self, records: Records) -> None:
    """Adds the records of the next round, which are complete, and decides the views after it."""
    views = self.next_views
    self.rounds.append(records)
    self.views.append(views)
    self._wrong[views] += records.values(lambda shard: shard['rank'] > 0).sum(0)
    self.shown[views] += records.layout.num_rows
    finished = self.design.finished(self._wrong[views], self.shown[views])
    is_last = len(self.rounds) == self.design.looks
    self.next_views = views[:0] if is_last else views[~finished]

  @property
  def common(self) -> int:
    """Number of rounds that show all views."""
    return sum(len(views) == self.num_views for views in self.views)


class CommonRows(RecordsReader):
  """Records of the rows that all views were shown with; each block is a round."""

  def __init__(self, rounds: SequentialRecords, count: int):
    """Selects the first `count` rounds, at most `rounds.common`, of the finished rounds."""
    first = rounds.rounds[0]
    size = first.layout.num_rows
    self.directory, self.identity = rounds.directory, rounds.identity
    self.layout = Layout(count * size, rounds.num_views, size, first.layout.chunk_views)
    self._rounds: Sequence[Records] = rounds.rounds[:count]

  def read(self, block: int, chunk: int) -> Shard:
    """Returns all rows of a round in a chunk of views."""
    records = self._rounds[block]
    shards = [records.read(b, chunk) for b in range(records.layout.num_blocks)]
    arrays = {}
    for name in shards[0].arrays:
      by_block = [shard[name] for shard in shards if name in shard.arrays]
      arrays[name] = np.sum(by_block, 0) if name.startswith(TOTAL) else np.concatenate(by_block)
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)
