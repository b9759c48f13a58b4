"""Records of a sequential evaluation, which stops early for views that need no more images.

It proceeds in rounds. Each round evaluates the next rows of the data, but only in the views with
an error that is not estimated precisely enough yet. Each round has a folder of records. The rows
and views of a round follow from the design and the earlier rounds only, so that a resumed run
computes the same records.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

import numpy as np

from robustness.core.typing import Facts
from robustness.estimates.fixed_width import FixedWidth
from robustness.evaluation.layout import Layout
from robustness.evaluation.records import TOTAL, Records, RecordsReader, Shard

ROUND = 'round'
"""The beginning of the name of a round's folder."""
FIRST = f'{ROUND}000'
"""The folder of the first round. If it exists, the records are sequential."""


class SequentialRecords:
  """The records of the finished rounds of a sequential evaluation.

  Attributes:
    directory: the folder that contains the folders of the rounds.
    design: the stopping rule, which decides from the number of errors whether a view is finished.
    num_views: V, the number of all views; the first round evaluates all of them.
    rounds: the complete records of each round.
    views: for each round, the indices of the views that it evaluates, ascending int [v].
    shown: int [V], the number of rows that each view has been evaluated on.
    next_views: int [v], the indices of the views of the next round; empty if all are finished.
  """

  def __init__(self, directory: str | os.PathLike[str], design: FixedWidth, num_views: int):
    """Starts with no finished round; the first one shall have all `num_views` views."""
    self.directory, self.design, self.num_views = pathlib.Path(directory), design, num_views
    self.rounds: list[Records] = []
    self.views: list[np.ndarray] = []
    self.shown = np.zeros(num_views, np.int64)
    self._num_wrong = np.zeros(num_views, np.int64)  # misclassified rows among those shown, by view
    self.next_views = np.arange(num_views)

  @classmethod
  def open(cls, directory: str | os.PathLike[str], design: FixedWidth) -> SequentialRecords:
    """Opens the records of a finished sequential evaluation for reading.

    `directory` has the folders of the rounds, and `design` is the stopping rule of the evaluation.
    The rounds are read in order, because the records of a round decide whether another one follows.

    Raises:
      InputError: a round or a shard is missing.
    """
    directory = pathlib.Path(directory)
    # the records of the first round have all views
    rounds = cls(directory, design, Records.open(directory / FIRST).layout.num_views)
    while rounds.next_views.size:
      rounds.add(Records.open(rounds.folder(len(rounds.rounds))))  # raises if a shard is missing
    return rounds

  @property
  def identity(self) -> Facts:
    """The facts that identify the records of all rounds, such as classifier, data and seed.

    The rows and views of a single round, which its records state in addition, are left out.
    """
    return {k: v for k, v in self.rounds[0].identity.items() if k != 'round'}

  def folder(self, number: int) -> pathlib.Path:
    """Returns the folder of round `number`, counted from 0."""
    return self.directory / f'{ROUND}{number:03d}'

  def identity_of_next(self, identity: Facts) -> Facts:
    """Returns the facts that identify the records of the next round, for their header.

    They are `identity`, the facts of all rounds, and under 'round' the range [first, end) of the
    rows that the round shows and the indices of its views.
    """
    begin = len(self.rounds) * self.design.trials  # each round has this number of rows
    rows = [begin, begin + self.design.trials]
    return {**identity, 'round': {'rows': rows, 'views': self.next_views.tolist()}}

  def add(self, records: Records) -> None:
    """Adds the complete records of the next round, and determines the views of the round after it.

    The round after it has the views in which the interval of the error is still too wide, unless
    the design allows no further round.
    """
    views = self.next_views  # int [v]
    self.rounds.append(records)
    self.views.append(views)
    is_wrong = records.values(lambda shard: shard['rank'] > 0)  # [rows, v]
    self._num_wrong[views] += is_wrong.sum(0)
    self.shown[views] += records.layout.num_rows
    is_finished = self.design.finished(self._num_wrong[views], self.shown[views])
    is_last_round = len(self.rounds) == self.design.looks
    self.next_views = views[:0] if is_last_round else views[~is_finished]

  @property
  def num_full_rounds(self) -> int:
    """Number of rounds that evaluate all views; these are the first rounds."""
    return sum(len(views) == self.num_views for views in self.views)


class CommonRows(RecordsReader):
  """The records of the first rounds of a sequential evaluation, which evaluate all views.

  Each round evaluates further rows of the data (see `SequentialRecords`). The rounds are
  concatenated to one table, in which block number k has the rows of round k, from 0.
  """

  def __init__(self, rounds: SequentialRecords, count: int):
    """Selects the first `count` rounds, at most the `num_full_rounds` with all views."""
    first_layout = rounds.rounds[0].layout
    rows_per_round = first_layout.num_rows
    self.directory, self.identity = rounds.directory, rounds.identity
    self.layout = Layout(
      num_rows=count * rows_per_round,
      num_views=rounds.num_views,
      block_rows=rows_per_round,
      chunk_views=first_layout.chunk_views,
    )
    self._rounds: Sequence[Records] = rounds.rounds[:count]

  def read(self, block: int, chunk: int) -> Shard:
    """Returns the records of all rows of round number `block` in a chunk of views.

    The records of a round may have several blocks of rows, which are concatenated here. Sums over
    rows (`total/`) are added.
    """
    round_records = self._rounds[block]
    num_blocks = round_records.layout.num_blocks
    shards = [round_records.read(block_of_round, chunk) for block_of_round in range(num_blocks)]
    arrays = {}
    for name in shards[0].arrays:
      # blocks differ in the pictures that they store
      by_block = [shard[name] for shard in shards if name in shard.arrays]
      arrays[name] = np.sum(by_block, 0) if name.startswith(TOTAL) else np.concatenate(by_block)
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)
