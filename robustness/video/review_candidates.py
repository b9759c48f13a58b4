"""The sets under review, pair by pair."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from robustness.core.errors import InputError
from robustness.video.metadata import NeighborSets

ANCHOR, PAIR = 'anchor', 'pair'


class Item(NamedTuple):
  """What is judged: the anchor or the pair of that number."""

  kind: str
  number: int

  def __str__(self) -> str:
    return f'{self.kind}:{self.number}'


class Pair(NamedTuple):
  """An anchor (its number among the anchors) and a neighbor (its index among the frames)."""

  anchor: int
  frame: int
  offset: int


@dataclasses.dataclass(frozen=True)
class Candidates:
  """Candidate sets with the names of their classes; pairs are numbered anchor by anchor.

  Attributes:
    sets: the neighbor sets as they were built.
    class_names: by class id.
  """

  sets: NeighborSets
  class_names: Mapping[int, str]

  def __post_init__(self) -> None:
    for frame, labels in zip(self.sets.frames, self.labels, strict=True):
      for label in labels:
        if label not in self.class_names:
          raise InputError(
            f'frame {frame} has the class id {label}, which is none of the '
            f'{len(self.class_names)} classes: give its names by --classes.'
          )

  @functools.cached_property
  def labels(self) -> tuple[tuple[int, ...], ...]:
    """The class ids of every frame, ascending."""
    return tuple(
      tuple(sorted({int(label) for label in row if label >= 0})) for row in self.sets.labels
    )

  @functools.cached_property
  def pairs(self) -> tuple[Pair, ...]:
    """All pairs, those of an anchor from the first neighbor to the last."""
    return tuple(
      Pair(anchor, int(frame), int(offset))
      for anchor, (frames, offsets) in enumerate(
        zip(self.sets.neighbors, self.sets.offsets, strict=True)
      )
      for frame, offset in sorted(zip(frames, offsets, strict=True), key=lambda member: member[1])
    )

  @functools.cached_property
  def pairs_of(self) -> tuple[tuple[int, ...], ...]:
    """By anchor, the numbers of its pairs."""
    numbers_of: list[list[int]] = [[] for _ in self.sets.anchors]
    for number, pair in enumerate(self.pairs):
      numbers_of[pair.anchor].append(number)
    return tuple(tuple(numbers) for numbers in numbers_of)

  @functools.cached_property
  def digest(self) -> str:
    """SHA-256 of the sets and labels, whatever the layout of the files they came from."""
    frames = self.sets.frames
    sets = {
      self.anchor_path(anchor): [frames[self.pairs[number].frame] for number in numbers]
      for anchor, numbers in enumerate(self.pairs_of)
    }
    content = json.dumps([sets, dict(zip(frames, self.labels, strict=True))], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()

  def anchor_path(self, anchor: int) -> str:
    """Returns the path of an anchor's frame."""
    return self.sets.frames[int(self.sets.anchors[anchor])]

  def paths(self, item: Item) -> tuple[str, str | None]:
    """Returns the paths of anchor and neighbor; None for the neighbor of an anchor alone."""
    if item.kind == ANCHOR:
      return self.anchor_path(item.number), None
    pair = self.pairs[item.number]
    return self.anchor_path(pair.anchor), self.sets.frames[pair.frame]

  @functools.cached_property
  def items(self) -> Mapping[tuple[str, str | None], Item]:
    """By the paths of anchor and neighbor, what they name."""
    anchors = [Item(ANCHOR, number) for number in range(len(self.sets.anchors))]
    return {
      self.paths(item): item
      for item in [*anchors, *(Item(PAIR, number) for number in range(len(self.pairs)))]
    }

  def item(self, name: str) -> Item:
    """Returns the item of a name such as 'pair:17'.

    Raises:
      InputError: there is none of that name.
    """
    kind, _, digits = name.partition(':')
    count = {ANCHOR: len(self.sets.anchors), PAIR: len(self.pairs)}.get(kind, 0)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9 or int(digits) >= count:
      raise InputError(
        f'there is no {name!r} under review: {ANCHOR}:0 to '
        f'{ANCHOR}:{len(self.sets.anchors) - 1} and {PAIR}:0 to '
        f'{PAIR}:{len(self.pairs) - 1} are.'
      )
    return Item(kind, int(digits))
