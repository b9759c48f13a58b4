"""Records of a sequential evaluation, which stops early for views that need no more images.

It proceeds in rounds. Each round evaluates the next rows of the data, but only in the views with
an error that is not estimated precisely enough yet. Each round has a folder of records. The rows
and views of a round follow from the design and the earlier rounds only, so that a resumed run
computes the same records.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from robustness.core.typing import Facts
from robustness.estimates.fixed_width import FixedWidth
from robustness.estimates.quantity import Statistic
from robustness.evaluation.records import TOTAL, Records, RecordsReader, Shard

ROUND = 'round'
"""The beginning of the name of a round's folder."""
FIRST = f'{ROUND}000'
"""The folder of the first round. If it exists, the records are sequential."""


class SequentialRecords:
  """Records of a sequential evaluation, which shows images in rounds of increasing precision.

  Each round predicts the next images of the data, only in the views with an error that is not known
  precisely enough yet. A view is one way of perturbing all images.

  Attributes:
    directory: the folder that contains a folder for each round.
    design: the stopping rule, which decides from the number of errors whether a view is finished.
    num_views: V, the number of all views; the first round predicts all of them.
    rounds: the records of each finished round.
    views: the indices of the views of each finished round, ascending int [v].
    shown: int [V], the number of images that each view was shown with.
    next_views: int [v], the indices of the views of the next round; empty if all views are
      finished.
  """

  def __init__(self, directory: str | os.PathLike[str], design: FixedWidth, num_views: int):
    """Starts a sequential evaluation without a finished round. The first one will have all V views.

    A round predicts the next images, in the views with an error that is not precise enough yet. A
    view is a way of perturbing images.

    Args:
      directory: the folder that contains a folder for each round.
      design: the stopping rule.
      num_views: V.
    """
    self.directory, self.design, self.num_views = pathlib.Path(directory), design, num_views
    self.rounds: list[Records] = []
    self.views: list[np.ndarray] = []
    self.shown = np.zeros(num_views, np.int64)
    self._num_wrong = np.zeros(num_views, np.int64)  # misclassified rows among those shown, by view
    self.next_views = np.arange(num_views)

  @classmethod
  def open(cls, directory: str | os.PathLike[str], design: FixedWidth) -> SequentialRecords:
    """Opens the records of a finished sequential evaluation for reading.

    Rounds are read in order, because the records of a round decide whether another round follows.

    Args:
      directory: the folder that contains a folder for each round.
      design: the stopping rule of the evaluation.

    Raises:
      InputError: a round or one of its files is missing.
    """
    directory = pathlib.Path(directory)
    # the records of the first round have all views
    rounds = cls(directory, design, Records.open(directory / FIRST).layout.num_views)
    while rounds.next_views.size:
      rounds.add(Records.open(rounds.folder(len(rounds.rounds))))  # raises if a shard is missing
    return rounds

  @property
  def identity(self) -> Facts:
    """The settings that all rounds share, such as classifier, data and seed.

    The images and views of a single round, which its header states too, are left out.
    """
    return {k: v for k, v in self.rounds[0].identity.items() if k != 'round'}

  def folder(self, number: int) -> pathlib.Path:
    """Returns the folder of round `number`, counted from 0."""
    return self.directory / f'{ROUND}{number:03d}'

  def identity_of_next(self, identity: Facts) -> Facts:
    """Returns the settings for the header of the next round's records.

    They are the given settings and, at the key 'round', the range [first, end) of the round's
    images and the indices of its views.

    Args:
      identity: the settings that all rounds share.
    """
    begin = len(self.rounds) * self.design.trials  # each round has this number of rows
    rows = [begin, begin + self.design.trials]
    return {**identity, 'round': {'rows': rows, 'views': self.next_views.tolist()}}

  def add(self, records: Records) -> None:
    """Adds the records of a finished round, and determines the views of the next one.

    The next round has the views (ways of perturbing images) with an interval of the error that is
    still too wide. It has none if the stopping rule, `design`, allows no further round.
    """
    views = self.next_views  # int [v]
    self.rounds.append(records)
    self.views.append(views)
    is_wrong = records.values(lambda shard: shard['rank'] > 0)  # [rows, v]
    self._num_wrong[views] += is_wrong.sum(0)
    self.shown[views] += records.layout.num_rows
    is_finished = self.design.finished(self._num_wrong[views], self.shown[views])
    is_last_round = len(self.rounds) == self.design.looks  # the largest number of rounds
    self.next_views = views[:0] if is_last_round else views[~is_finished]

  @property
  def num_full_rounds(self) -> int:
    """The number of finished rounds that predicted all views.

    A sequential evaluation predicts the next images in each round, and only in the views (ways of
    perturbing the images) with an error that is not precise enough yet. Views only drop out, so the
    rounds with all views come first.
    """
    return sum(len(views) == self.num_views for views in self.views)

  def values(self, statistic: Statistic, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of a statistic in all rounds.

    Args:
      statistic: function that computes the values of a shard.
      num_rows: number of rows of the result, at least the number of images that were shown.

    Returns:
      The values, [num_rows, V], 0 where an image was not shown in a view; and where it was shown,
      bool [num_rows, V].
    """
    by_round = [records.values(statistic) for records in self.rounds]
    values = np.zeros((num_rows, self.num_views), np.result_type(*by_round))
    is_shown = np.zeros(values.shape, bool)
    begin = 0
    for round_values, views in zip(by_round, self.views, strict=True):
      end = begin + len(round_values)
      values[begin:end, views] = round_values
      is_shown[begin:end, views] = True
      begin = end
    return values, is_shown


class CommonRows(RecordsReader):
  """The first rounds of a sequential evaluation, which have all views, as one table of records.

  Each round has other images. Block number k of the table has the images of round k, from 0.
  """

  def __init__(self, rounds: SequentialRecords, count: int):
    """Makes one table of records of the first `count` rounds of a sequential evaluation.

    Each round has predicted as many images as every other round, in all views (ways of perturbing
    images). The images of a round are one block of consecutive rows of the table.

    Args:
      rounds: the records of all rounds.
      count: number of rounds, at most `rounds.num_full_rounds`.
    """
    first_layout = rounds.rounds[0].layout
    block_rows = first_layout.num_rows  # each round is one block
    self.directory, self.identity = rounds.directory, rounds.identity
    num_rows = count * block_rows
    self.layout = dataclasses.replace(first_layout, num_rows=num_rows, block_rows=block_rows)
    self._rounds: Sequence[Records] = rounds.rounds[:count]

  def read(self, block: int, chunk: int) -> Shard:
    """Returns the records of all images of a round in one chunk of views.

    If the round has several blocks of images, they are concatenated, and sums over images
    (`total/`) are added.

    Args:
      block: number of the round.
      chunk: number of the chunk of views (ways of perturbing images).
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
