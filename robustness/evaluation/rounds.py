"""Records of a sequential design: each round has the next rows, in the views that need more.

A round is records of its own, rows × views, in a folder beside the others. What the next round
shows follows from the rounds before it and the design alone, so that a resumed run goes on exactly.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.evaluation.records import Layout, Records, RecordsReader, Shard

FIRST = 'round000'


class Design(Protocol):
  """When a view has been shown enough; see `robustness.estimates.fixed_width`."""

  @property
  def half_width(self) -> float:
    """Of a finished view's interval, at most; a fraction."""

  @property
  def confidence(self) -> float:
    """Of the interval."""

  @property
  def trials(self) -> int:
    """Rows of a round."""

  @property
  def looks(self) -> int:
    """How many rounds there are at most."""

  @property
  def most_trials(self) -> int:
    """Rows of all rounds."""

  def finished(self, successes: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Whether views that are wrong on so many of n rows need no more, bool [v]."""

  def interval(self, successes: ArrayLike, n: ArrayLike) -> tuple[Any, Any]:
    """Returns (low, high) of the share of wrong rows by view, [v]."""

  def other_interval(self, successes: ArrayLike, n: ArrayLike) -> tuple[Any, Any]:
    """Returns (low, high) of shares of the same rows that do not decide, [v]."""


class SequentialRecords:
  """The records of the rounds that there are so far.

  Attributes:
    directory: holds the folders of the rounds.
    design: says which views are finished.
    num_views: V, of the first round.
    rounds: records by round, each complete.
    views: int [v] by round, ascending: the views that it shows, places among all V.
    shown: int [V], the rows that each view has.
    next_views: int [v], the views that go on; none when all are finished.
  """

  def __init__(self, directory: str | os.PathLike[str], design: Design, num_views: int):
    self.directory, self.design, self.num_views = pathlib.Path(directory), design, num_views
    self.rounds: list[Records] = []
    self.views: list[np.ndarray] = []
    self._wrong = np.zeros(num_views, np.int64)
    self.shown = np.zeros(num_views, np.int64)
    self.next_views = np.arange(num_views)

  @classmethod
  def open(cls, directory: str | os.PathLike[str], design: Design) -> SequentialRecords:
    """Opens finished rounds for reading.

    Raises:
      InputError: a round or one of its shards is missing.
    """
    directory = pathlib.Path(directory)
    rounds = cls(directory, design, Records.open(directory / FIRST).layout.num_views)
    while rounds.next_views.size:
      records = Records.open(rounds.folder(len(rounds.rounds)))
      if records.missing():
        raise InputError(
          f'{records.directory} lacks shards: the run is not finished. Run its command again, '
          'which goes on where it stopped.'
        )
      rounds.add(records)
    return rounds

  @property
  def identity(self) -> dict[str, Any]:
    """What all rounds are records of."""
    return {k: v for k, v in self.rounds[0].identity.items() if k != 'round'}

  def folder(self, number: int) -> pathlib.Path:
    """Returns the folder of a round."""
    return self.directory / f'round{number:03d}'

  def identity_of_next(self, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the identity of the next round's records: all rounds', its rows and its views."""
    begin = len(self.rounds) * self.design.trials
    rows = [begin, begin + self.design.trials]
    return {**identity, 'round': {'rows': rows, 'views': self.next_views.tolist()}}

  def add(self, records: Records) -> None:
    """Takes the next round, complete, and finds which views go on."""
    views = self.next_views
    self.rounds.append(records)
    self.views.append(views)
    self._wrong[views] += records.sum_over_rows(_wrong)
    self.shown[views] += records.layout.num_rows
    finished = self.design.finished(self._wrong[views], self.shown[views])
    last = len(self.rounds) == self.design.looks
    self.next_views = views[:0] if last else views[~finished]

  @property
  def common(self) -> int:
    """How many rounds show all views."""
    return sum(len(views) == self.num_views for views in self.views)

  def sum_over_rows(self, values: Callable[[Shard], np.ndarray]) -> np.ndarray:
    """Returns Σ over the rows that each view has of `values(shard)` [n, v], as an array [V]."""
    total: np.ndarray | None = None
    for records, views in zip(self.rounds, self.views, strict=True):
      part = records.sum_over_rows(values)
      total = np.zeros(self.num_views, part.dtype) if total is None else total
      total[views] += part
    assert total is not None
    return total


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
      parts = [shard[name] for shard in shards]
      arrays[name] = np.sum(parts, 0) if name.startswith('total/') else np.concatenate(parts)
    return Shard(self.layout.rows(block), self.layout.views(chunk), arrays)


def _wrong(shard: Shard) -> np.ndarray:
  return shard['rank'] > 0
