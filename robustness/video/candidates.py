"""The neighbor sets under review, pair by pair, and the image files of their frames."""

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
  """Identifies what is under review: an anchor, or a pair of frames.

  An anchor is a labelled video frame; a pair is an anchor and a neighboring frame.

  Attributes:
    kind: `ANCHOR` or `PAIR`.
    number: index of the anchor among the anchors, or of the pair among the pairs.
  """

  kind: str
  number: int

  def __str__(self) -> str:
    """Returns '<kind>:<number>'."""
    return f'{self.kind}:{self.number}'


class Pair(NamedTuple):
  """An anchor (labelled video frame) with one of its neighboring frames.

  Attributes:
    anchor: index of the anchor among the anchors.
    frame: index of the neighbor in `NeighborSets.frames`.
    offset: frame number of the neighbor minus the frame number of the anchor.
  """

  anchor: int
  frame: int
  offset: int


@dataclasses.dataclass(frozen=True)
class Candidates:
  """Neighbor sets to be reviewed: anchors (labelled video frames) with nearby frames.

  Attributes:
    sets: the neighbor sets.
    class_names: {class id: name of the class} for at least the classes of all labels.
  """

  sets: NeighborSets
  class_names: Mapping[int, str]

  def __post_init__(self) -> None:
    """Raises InputError if a frame under review has a label without a class name.

    `labels` has the class ids of each frame.
    """
    for frame, labels in zip(self.sets.frames, self.labels, strict=True):
      for label in labels:
        if label not in self.class_names:
          raise InputError(
            f'frame {frame} has the class id {label}, which is none of the '
            f'{len(self.class_names)} classes: give its names by --classes.'
          )

  @functools.cached_property
  def labels(self) -> tuple[tuple[int, ...], ...]:
    """The class ids of each frame in `sets.frames`, ascending."""
    return tuple(tuple(sorted(set(row[row >= 0].tolist()))) for row in self.sets.labels)

  @functools.cached_property
  def pairs(self) -> tuple[Pair, ...]:
    """All pairs of an anchor (labelled frame) and a neighbor, sorted by anchor and offset."""
    # the three arrays of `sets.pairs` are the fields of `Pair`
    members = zip(*(column.tolist() for column in self.sets.pairs), strict=True)
    return tuple(sorted((Pair(*pair) for pair in members), key=lambda p: (p.anchor, p.offset)))

  @functools.cached_property
  def pairs_of(self) -> tuple[tuple[int, ...], ...]:
    """The pairs of each anchor, as ascending indices in `pairs`; one tuple for each anchor.

    A pair is an anchor (labelled frame) and a frame near it, and is judged by annotators.
    """
    numbers: list[list[int]] = [[] for _ in self.sets.anchors]
    for number, pair in enumerate(self.pairs):
      numbers[pair.anchor].append(number)
    return tuple(map(tuple, numbers))

  @functools.cached_property
  def digest(self) -> str:
    """SHA-256 hash of the neighbor sets and labels under review.

    It does not depend on their order in the files, and identifies the sets that answers are about.
    """
    frames = self.sets.frames
    sets = {}  # {path of an anchor: paths of its neighbors}
    for anchor, numbers in enumerate(self.pairs_of):
      neighbors = [frames[self.pairs[number].frame] for number in numbers]
      sets[frames[self.anchor_frame(anchor)]] = neighbors
    content = json.dumps([sets, dict(zip(frames, self.labels, strict=True))], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()

  def anchor_frame(self, anchor: int) -> int:
    """Returns the index in `sets.frames` of an anchor (labelled frame).

    Args:
      anchor: index of the anchor among the anchors.
    """
    return int(self.sets.anchors[anchor])

  def anchor_of(self, item: Item) -> Item:
    """Returns the anchor (labelled frame) of a pair; an anchor is returned unchanged."""
    return item if item.kind == ANCHOR else Item(ANCHOR, self.pairs[item.number].anchor)

  def paths(self, item: Item) -> tuple[str, str | None]:
    """Returns the paths of an item's anchor and neighbor.

    An item is a pair of frames, or an anchor (labelled frame) alone. The latter has None as
    neighbor.
    """
    anchor = self.sets.frames[self.anchor_frame(self.anchor_of(item).number)]
    if item.kind == ANCHOR:
      return anchor, None
    return anchor, self.sets.frames[self.pairs[item.number].frame]

  @functools.cached_property
  def items(self) -> Mapping[tuple[str, str | None], Item]:
    """{(path of the anchor, path of the neighbor or None): item}, anchors first.

    An item is a pair of frames, or an anchor (labelled frame) alone.
    """
    anchors = [Item(ANCHOR, number) for number in range(len(self.sets.anchors))]
    pairs = [Item(PAIR, number) for number in range(len(self.pairs))]
    return {self.paths(item): item for item in (*anchors, *pairs)}

  def item(self, name: str) -> Item:
    """Parses the name of an item under review, such as 'pair:17' or 'anchor:3'.

    Raises:
      InputError: There is no such item.
    """
    kind, _, digits = name.partition(':')
    count = {ANCHOR: len(self.sets.anchors), PAIR: len(self.pairs)}.get(kind, 0)
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 9
    if not is_number or int(digits) >= count:
      raise InputError(
        f'there is no {name!r} under review: {ANCHOR}:0 to {ANCHOR}:{len(self.sets.anchors) - 1} '
        f'and {PAIR}:0 to {PAIR}:{len(self.pairs) - 1} are.'
      )
    return Item(kind, int(digits))


class FrameFile(NamedTuple):
  """The image file of a video frame, as served over HTTP.

  Attributes:
    content: the bytes of the file.
    content_type: MIME type, such as 'image/png'.
    tag: value of the header ETag, which changes if the file changes.
  """

  content: bytes
  content_type: str
  tag: str


class ReviewFrames:
  """Reads image files of video frames, but none outside of one folder."""

  def __init__(self, folder: str | os.PathLike[str], paths: Sequence[str]):
    """Checks that all paths are image files inside the folder.

    Args:
      folder: the folder that the paths are relative to.
      paths: paths of the frames; a frame is later read by its index in this list.

    Raises:
      InputError: The folder or a file is missing, a file is outside of the folder, or a name has no
        suffix of an image.
    """
    self._root = pathlib.Path(folder).resolve()
    self._paths = tuple(paths)
    self._damages: dict[tuple[int, str], str] = {}  # {(index, tag of the file): its damage}
    for path in self._paths:
      if pathlib.PurePosixPath(path).suffix.lower() not in CONTENT_TYPES:
        raise InputError(
          f'frame {path} is of no known kind: its name should end in {", ".join(CONTENT_TYPES)}.'
        )
      self._resolved(path)  # only checks: raises InputError outside the folder
    missing = [path for path in self._paths if not os.path.isfile(self._root / path)]
    if missing:
      raise InputError(
        f'{len(missing)} of {len(self._paths)} frames are missing in {folder}, the first is '
        f'{missing[0]}: give --frames the folder in which the paths of the metadata begin.'
      )

  def read(self, index: int) -> FrameFile:
    """Reads the image file of the frame `paths[index]`.

    Raises:
      InputError: The index is not in [0, number of paths).
    """
    if not 0 <= index < len(self._paths):
      raise InputError(f'there is no frame {index}: 0 to {len(self._paths) - 1} are under review.')
    path = self._paths[index]
    with open(self._resolved(path), 'rb') as file:
      status = os.fstat(file.fileno())
      content = file.read()
    suffix = pathlib.PurePosixPath(path).suffix.lower()
    # the tag consists of the time of the last change and the size
    return FrameFile(content, CONTENT_TYPES[suffix], f'"{status.st_mtime_ns:x}-{status.st_size:x}"')

  def damage(self, index: int) -> str:
    """Returns why a frame cannot be decoded completely; '' if it can.

    Browsers show truncated files without an error, so a review would not notice them.

    Args:
      index: index of the frame in `paths`.
    """
    try:
      frame = self.read(index)
    except (InputError, OSError) as error:
      return str(error)
    key = index, frame.tag  # the tag changes with the content of the file
    if key not in self._damages:
      self._damages[key] = damage(io.BytesIO(frame.content))
    return self._damages[key]

  def _resolved(self, path: str) -> pathlib.Path:
    """Returns the absolute path of a frame; raises InputError if it is outside the folder."""
    resolved = (self._root / path).resolve()
    if not resolved.is_relative_to(self._root):
      problem = f'frame {path} is outside the folder {self._root} (by its name or by a link)'
      raise InputError(f'{problem}: only files of the folder are shown.')
    return resolved
