"""The neighbor sets under review, pair by pair, and the image files of their frames."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from robustness.core.errors import InputError
from robustness.core.pictures import damage
from robustness.video.metadata import NeighborSets

ANCHOR, PAIR = 'anchor', 'pair'
"""Kinds of items under review."""
CONTENT_TYPES = {'.jpg': 'image/jpeg'} | {
  f'.{kind}': f'image/{kind}' for kind in ('jpeg', 'png', 'webp', 'gif', 'bmp')
}
"""{suffix of an image file: its MIME type}."""


class Item(NamedTuple):
  """An anchor or a pair under review.

  Attributes:
    kind: `ANCHOR` or `PAIR`.
    number: number of the anchor among the anchors, or of the pair among the pairs.
  """

  kind: str
  number: int

  def __str__(self) -> str:
    """Returns '<kind>:<number>'."""
    return f'{self.kind}:{self.number}'


class Pair(NamedTuple):
  """An anchor with one of its neighbors.

  Attributes:
    anchor: number of the anchor.
    frame: index of the neighbor's frame.
    offset: frame number of the neighbor minus the anchor's.
  """

  anchor: int
  frame: int
  offset: int


@dataclasses.dataclass(frozen=True)
class Candidates:
  """Neighbor sets to be reviewed, with pairs numbered in the order of their anchors."""

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
    """For each frame of `sets.frames` the ids of its classes, ascending."""
    return tuple(tuple(sorted(set(row[row >= 0].tolist()))) for row in self.sets.labels)

  @functools.cached_property
  def pairs(self) -> tuple[Pair, ...]:
    """All pairs of an anchor and a neighbor, sorted by anchor and offset."""
    members = zip(*(part.tolist() for part in self.sets.pairs), strict=True)
    return tuple(sorted((Pair(*pair) for pair in members), key=lambda p: (p.anchor, p.offset)))

  @functools.cached_property
  def pairs_of(self) -> tuple[tuple[int, ...], ...]:
    """For each anchor the numbers of its pairs in `pairs`."""
    numbers: list[list[int]] = [[] for _ in self.sets.anchors]
    for number, pair in enumerate(self.pairs):
      numbers[pair.anchor].append(number)
    return tuple(map(tuple, numbers))

  @functools.cached_property
  def digest(self) -> str:
    """SHA-256 of the sets and labels, equal for files that list them in another order."""
    frames = self.sets.frames
    sets = {
      frames[self.anchor_frame(anchor)]: [frames[self.pairs[number].frame] for number in numbers]
      for anchor, numbers in enumerate(self.pairs_of)
    }
    content = json.dumps([sets, dict(zip(frames, self.labels, strict=True))], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()

  def anchor_frame(self, anchor: int) -> int:
    """Returns the index in `sets.frames` of the frame of the anchor with a number."""
    return int(self.sets.anchors[anchor])

  def anchor_of(self, item: Item) -> Item:
    """Returns the anchor of an item that is a pair; an anchor is returned itself."""
    return item if item.kind == ANCHOR else Item(ANCHOR, self.pairs[item.number].anchor)

  def paths(self, item: Item) -> tuple[str, str | None]:
    """Returns the paths of an item's anchor and neighbor; the latter is None without a pair."""
    anchor = self.sets.frames[self.anchor_frame(self.anchor_of(item).number)]
    is_pair = item.kind == PAIR
    return anchor, self.sets.frames[self.pairs[item.number].frame] if is_pair else None

  @functools.cached_property
  def items(self) -> Mapping[tuple[str, str | None], Item]:
    """{(path of the anchor, path of the neighbor or None): item}, anchors first."""
    anchors = [Item(ANCHOR, number) for number in range(len(self.sets.anchors))]
    pairs = [Item(PAIR, number) for number in range(len(self.pairs))]
    return {self.paths(item): item for item in (*anchors, *pairs)}

  def item(self, name: str) -> Item:
    """Returns the item of a name such as 'pair:17'."""
    kind, _, digits = name.partition(':')
    count = {ANCHOR: len(self.sets.anchors), PAIR: len(self.pairs)}.get(kind, 0)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9 or int(digits) >= count:
      raise InputError(
        f'there is no {name!r} under review: {ANCHOR}:0 to {ANCHOR}:{len(self.sets.anchors) - 1} '
        f'and {PAIR}:0 to {PAIR}:{len(self.pairs) - 1} are.'
      )
    return Item(kind, int(digits))


class FrameFile(NamedTuple):
  """The bytes of a frame's file, their MIME type, and a tag that changes with the file."""

  content: bytes
  content_type: str
  tag: str


class ReviewFrames:
  """Reader of the image files of listed frames, by index; it refuses files outside one folder."""

  def __init__(self, folder: str | os.PathLike[str], paths: Sequence[str]):
    """Checks that each path names an image file inside the folder."""
    if not pathlib.Path(folder).is_dir():
      raise InputError(
        f'there is no folder {os.fspath(folder)}: give --frames the folder in '
        'which the paths of the metadata begin.'
      )
    self._root = pathlib.Path(folder).resolve()
    self._paths = tuple(paths)
    self._damages: dict[int, tuple[str, str]] = {}  # {index: (tag of the file, its damage)}
    for path in self._paths:
      if pathlib.PurePosixPath(path).suffix.lower() not in CONTENT_TYPES:
        raise InputError(
          f'frame {path} is of no known kind: its name should end in {", ".join(CONTENT_TYPES)}.'
        )
      self._resolved(path)
    missing = [path for path in self._paths if not os.path.isfile(self._root / path)]
    if missing:
      raise InputError(
        f'{len(missing)} of {len(self._paths)} frames are missing in {folder}, the first is '
        f'{missing[0]}: give --frames the folder in which the paths of the metadata begin.'
      )

  def read(self, index: int) -> FrameFile:
    """Reads the image file of the frame with an index.

    Raises:
      InputError: there is no such frame.
    """
    if not 0 <= index < len(self._paths):
      raise InputError(f'there is no frame {index}: 0 to {len(self._paths) - 1} are under review.')
    path = self._paths[index]
    with open(self._resolved(path), 'rb') as file:
      status = os.fstat(file.fileno())
      content = file.read()
    suffix = pathlib.PurePosixPath(path).suffix.lower()
    return FrameFile(content, CONTENT_TYPES[suffix], f'"{status.st_mtime_ns:x}-{status.st_size:x}"')

  def damage(self, index: int) -> str:
    """Returns why a frame cannot be decoded completely, or ''.

    Browsers show the beginning of a truncated file without an error.
    """
    try:
      frame = self.read(index)
    except (InputError, OSError) as error:
      return str(error)
    if self._damages.get(index, ('', ''))[0] != frame.tag:
      self._damages[index] = frame.tag, damage(io.BytesIO(frame.content))
    return self._damages[index][1]

  def _resolved(self, path: str) -> pathlib.Path:
    """Returns the file of a frame; raises InputError if it is outside the folder of frames."""
    resolved = (self._root / path).resolve()
    if not resolved.is_relative_to(self._root):
      raise InputError(
        f'frame {path} is outside the folder {self._root} (by its name or by a link): only files '
        'of the folder are shown.'
      )
    return resolved
