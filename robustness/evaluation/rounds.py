"""Records of a sequential design: each round has the next rows, in the views that need more.

A round has its own folder of records. What the next round shows follows from the rounds before it
and the design alone, so that a resumed run gets the same records.
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
    directory: holds the folders of the rounds.
    design: says which views are finished.
    num_views: V, of the first round.
    rounds: records by round, each complete.
    views: int [v] by round, ascending: the views that it shows, places among all V.
    shown: int [V], the rows that each view has.
    next_views: int [v], the views of the next round; none when all are finished.
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
    """Opens finished rounds for reading; raises InputError where a round or a shard is missing."""
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
    """Returns the identity of the next round's records: all rounds', its rows and its views."""
    begin = len(self.rounds) * self.design.trials
    rows = [begin, begin + self.design.trials]
    return {**identity, 'round': {'rows': rows, 'views': self.next_views.tolist()}}

  def add(self, records: Records) -> None:
    """Adds the next round, complete, and finds the views of the one after it."""
    views = self.next_views
    self.rounds.append(records)
    self.views.append(views)
    self._wrong[views] += records.values(lambda shard: shard['rank'] > 0).sum(0)
    self.shown[views] += records.layout.num_rows
    finished = self.design.finished(self._wrong[views], self.shown[views])
    last = len(self.rounds) == self.design.looks
    self.next_views = views[:0] if last else views[~finished]

  @property
  def common(self) -> int:
    """How many rounds show all views."""
    return sum(len(views) == self.num_views for views in self.views)


class CommonRows(RecordsReader):
  """The rows that all views have; a block is a round."""

  def __init__(self, rounds: SequentialRecords, count: int):
    """Args: rounds: read; count: how many rounds, at most `rounds.common`."""
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
      parts = [shard[name] for shard in shards if name in shard.arrays]
      arrays[name] = np.sum(parts, 0) if name.startswith(TOTAL) else np.concatenate(parts)
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)
