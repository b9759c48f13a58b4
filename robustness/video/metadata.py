"""Neighbor sets and the files they are kept in: anchors, neighbors, labels of frames.

A folder holds, directly or in `metadata/`, `pmsets.json` ({anchor path: [neighbor paths]}) and
`labels.json` ({frame path: [classes]}), as ImageNet-Vid-Robust was released. A path is
`<video>/<frame>.<suffix>`, and the digits that end the frame's name are its number:
`val/ILSVRC2015_val_00000000/000442.JPEG`, or `<ytid>_<ms>/frame-12.jpg`. Where only anchors have
labels, as in YTBB-Robust, the labels of other frames are empty and the label rule is 'anchor'.
Optional are the classes' names, here or in `misc/` (`robustness.video.class_index`), and
`frames.json` ({frame path: {"frame_type": "i", "fps": 29.97}}).

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from robustness.core import json_files
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.video import class_index
from robustness.video.class_index import CLASS_INDEX, CLASS_MAP

SETS, LABELS, FRAMES = 'pmsets.json', 'labels.json', 'frames.json'
ANNOTATIONS = 'anchor_labels.json'
"""What YTBB-Robust was released with in place of sets."""
FRAME_TYPES = ('i', 'p', 'b')
FRAME, ANCHOR = 'frame', 'anchor'
LABEL_RULES = (FRAME, ANCHOR)

Facts = Mapping[str, Mapping[str, Any]]

_NUMBER = re.compile(r'(\d+)$')


class Pairs(NamedTuple):
  """All P pairs of an anchor and a neighbor, anchor by anchor; each array has shape [P].

  Attributes:
    group: position of the anchor in `NeighborSets.anchors`.
    frame: position of the neighbor in `NeighborSets.frames`.
    offset: frame number of the neighbor minus the anchor's.
  """

  group: np.ndarray
  frame: np.ndarray
  offset: np.ndarray


@dataclasses.dataclass(frozen=True)
class NeighborSets:
  """A sets of frames that look like their anchors; `from_mappings` checks what it is given.

  Attributes:
    frames: distinct paths, sorted; F of them.
    labels: int32 [F, L], the classes of each frame, padded with −1; all −1 where none are known.
    anchors: int32 [A], positions in `frames`, in the order of the file.
    neighbors: for each anchor the positions of its neighbors, int32.
    offsets: of the same shapes, signed differences of frame numbers, int32.
    class_names: in the order of the labels; () where no class index came along.
    frame_types: [F] of 'i', 'p', 'b' or '' (unknown), from the video's compression; or None.
    fps: float64 [F], frames a second of the video, NaN where unknown; or None.
  """

  frames: tuple[str, ...]
  labels: np.ndarray
  anchors: np.ndarray
  neighbors: tuple[np.ndarray, ...]
  offsets: tuple[np.ndarray, ...]
  class_names: tuple[str, ...] = ()
  frame_types: np.ndarray | None = None
  fps: np.ndarray | None = None

  @functools.cached_property
  def pairs(self) -> Pairs:
    """Every pair, as flat arrays."""
    sizes = [len(members) for members in self.neighbors]
    empty = np.zeros(0, np.int32)
    return Pairs(
      np.repeat(np.arange(len(self.anchors), dtype=np.int32), sizes),
      np.concatenate([empty, *self.neighbors]),
      np.concatenate([empty, *self.offsets]),
    )

  @functools.cached_property
  def has_bare_neighbors(self) -> bool:
    """Whether some neighbor has no labels of its own."""
    return bool((self.labels[self.pairs.frame] < 0).all(1).any())

  def pair_labels(self, rule: str = FRAME) -> np.ndarray:
    """Returns the labels that count for each neighbor, int32 [P, L], padded with −1.

    Args:
      rule: 'frame' takes the neighbor's own labels, 'anchor' its anchor's.

    Raises:
      InputError: another rule, or neighbors without labels of their own under 'frame'.
    """
    if rule not in LABEL_RULES:
      raise InputError(f'the label rule is {rule!r}; {nearest(rule, LABEL_RULES)}.')
    if rule == ANCHOR:
      return self.labels[self.anchors][self.pairs.group]
    labels = self.labels[self.pairs.frame]
    without = np.flatnonzero((labels < 0).all(1))
    if len(without):
      raise InputError(
        f'{len(without)} of {len(labels)} neighbors have no labels, first '
        f'{self.frames[self.pairs.frame[without[0]]]!r}: add them to {LABELS}, or take their '
        "anchors' with the label rule 'anchor'."
      )
    return labels


def check_labels(sets: NeighborSets, space: str, num_classes: int, key: str) -> None:
  """Refuses labels that a label space does not have.

  Args:
    sets: without class names of their own.
    space: the name of the label space that the labels are of.
    num_classes: how many classes it has.
    key: what names the space in a config.

  Raises:
    InputError: a label beyond the classes; its frame is named.
  """
  row = int(np.argmax(sets.labels.max(1)))
  label = int(sets.labels[row].max())
  if label >= num_classes:
    raise InputError(
      f'frame {sets.frames[row]!r} has label {label}, and {space} has {num_classes} classes '
      f'(0..{num_classes - 1}): set {key} to the label space that the labels are of, or add a '
      f'class index (misc/{CLASS_INDEX}).'
    )


def digest(sets: NeighborSets) -> str:
  """Returns the SHA-256 of members and labels."""
  digest = hashlib.sha256('\n'.join(sets.frames).encode())
  for array in (sets.anchors, *sets.pairs[:2], sets.labels):
    digest.update(np.ascontiguousarray(array, np.int32).tobytes())
  return digest.hexdigest()


def video_of(path: str) -> str:
  """Returns the video of a frame: the folders of its path."""
  return path.rpartition('/')[0]


def frame_number(path: str) -> int:
  """Returns the number of a frame within its video: the digits that end its name.

  Raises:
    InputError: the name does not end in digits.
  """
  digits = _NUMBER.search(pathlib.PurePosixPath(path).stem)
  if not digits:
    raise InputError(
      f'frame {path!r} has no number: name frames <video>/<number>.<suffix>, such '
      "as 'clip/000442.JPEG' or 'clip/frame-12.jpg'."
    )
  return int(digits[1])


def from_mappings(
  sets: Mapping[str, Sequence[str]],
  labels: Mapping[str, Sequence[int]],
  class_names: Sequence[str] = (),
  facts: Facts | None = None,
) -> NeighborSets:
  """Returns neighbor sets from what the files hold.

  Args:
    sets: {anchor path: [neighbor paths]}; a set may be empty.
    labels: {frame path: [classes]}, for every anchor and for neighbors where known.
    class_names: in the order of the classes; () leaves the number of classes open.
    facts: {frame path: {'frame_type': ..., 'fps': ...}}, both optional.

  Raises:
    InputError: no sets, a path without a frame number, an anchor without a label, a neighbor of
      another video, a frame twice in a set, or a label, frame type or fps that cannot be.
  """
  if not sets:
    raise InputError(f'{SETS} holds no sets: give at least one anchor.')
  for anchor, members in sets.items():
    _check_set(anchor, members)
  frames = tuple(sorted(set(sets).union(*sets.values())))
  position = {frame: index for index, frame in enumerate(frames)}
  table = _label_table(frames, labels, len(class_names))
  anchors = np.array([position[anchor] for anchor in sets], np.int32)
  bare = [frames[index] for index in anchors if (table[index] < 0).all()]
  if bare:
    raise InputError(
      f'{len(bare)} of {len(sets)} anchors have no label, first {bare[0]!r}: add '
      f'{{path: [classes]}} to {LABELS}.'
    )
  neighbors = tuple(np.array([position[m] for m in members], np.int32) for members in sets.values())
  numbers = np.array([frame_number(frame) for frame in frames], np.int64)
  offsets = tuple(
    (numbers[members] - numbers[anchor]).astype(np.int32)
    for anchor, members in zip(anchors, neighbors, strict=True)
  )
  types, fps = _facts(frames, facts)
  return NeighborSets(frames, table, anchors, neighbors, offsets, tuple(class_names), types, fps)


def _check_set(anchor: str, members: Sequence[str]) -> None:
  """Refuses what is no set of frames of one video."""
  if isinstance(members, str) or not all(isinstance(member, str) for member in members):
    raise InputError(f'the set of anchor {anchor!r} is {members!r}: give a list of frame paths.')
  strangers = [member for member in members if video_of(member) != video_of(anchor)]
  if strangers:
    raise InputError(
      f'{strangers[0]!r} is no neighbor of anchor {anchor!r}: it is a frame of '
      'another video. Neighbors lie in the folder of their anchor.'
    )
  counts = Counter(frame_number(path) for path in (anchor, *members))
  number, count = counts.most_common(1)[0]
  if count > 1:
    twice = [path for path in (anchor, *members) if frame_number(path) == number]
    raise InputError(
      f'the set of anchor {anchor!r} holds frame {number} {count} times '
      f'({", ".join(map(repr, twice))}): a set has its anchor and each neighbor '
      'once.'
    )


def _label_table(
  frames: Sequence[str], labels: Mapping[str, Sequence[int]], num_classes: int
) -> np.ndarray:
  """Returns labels [F, L] padded with −1."""
  rows = [_checked_labels(frame, labels.get(frame, ()), num_classes) for frame in frames]
  table = np.full((len(rows), max(1, *map(len, rows)) if rows else 1), -1, np.int32)
  for row, values in zip(table, rows, strict=True):
    row[: len(values)] = values
  return table


def _checked_labels(frame: str, values: Sequence[int], num_classes: int) -> Sequence[int]:
  whole = isinstance(values, Sequence) and all(type(v) is int and v >= 0 for v in values)
  if (
    not whole
    or len(set(values)) != len(values)
    or (num_classes and max(values, default=0) >= num_classes)
  ):
    valid = f'0..{num_classes - 1}' if num_classes else 'from 0 on'
    raise InputError(
      f'frame {frame!r} has labels {values!r}: give a list of distinct classes {valid}.'
    )
  return values


def _facts(
  frames: Sequence[str], facts: Facts | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
  """Returns frame types and fps of the frames."""
  if not facts:
    return None, None
  types, rates = [], []
  for frame in frames:
    kind = facts.get(frame, {}).get('frame_type', '')
    rate = facts.get(frame, {}).get('fps')
    if kind not in ('', *FRAME_TYPES):
      raise InputError(
        f'frame {frame!r} has frame_type {kind!r}; {nearest(str(kind), FRAME_TYPES)}.'
      )
    if rate is not None and not (isinstance(rate, (int, float)) and 0 < rate < np.inf):
      raise InputError(f'frame {frame!r} has fps {rate!r}: give frames a second, above 0.')
    types.append(kind)
    rates.append(np.nan if rate is None else float(rate))
  return (
    np.array(types) if any(types) else None,
    np.array(rates) if not np.isnan(rates).all() else None,
  )


def read(folder: str | os.PathLike[str]) -> NeighborSets:
  """Reads neighbor sets.

  Args:
    folder: holds `pmsets.json` and `labels.json`, or a folder `metadata` that does.

  Raises:
    InputError: a file is missing or no JSON, or see `from_mappings`.
  """
  root = expanded(folder)
  home = find(root)
  if home is None:
    raise InputError(f'no {SETS} in {root} or {root / "metadata"}{_instead_of(root)}')
  facts = _mapping(home / FRAMES) if (home / FRAMES).is_file() else None
  return from_mappings(_mapping(home / SETS), _mapping(home / LABELS), _class_names(home), facts)


def find(root: pathlib.Path) -> pathlib.Path | None:
  """Returns the folder that holds the sets, `root` or its folder `metadata`; None if neither."""
  places = (root, root / 'metadata')
  return next((place for place in places if os.path.isfile(place / SETS)), None)


def _instead_of(root: pathlib.Path) -> str:
  """Says what to give in place of a folder without sets."""
  if any(os.path.isfile(place / ANNOTATIONS) for place in (root, root / 'metadata')):
    return (
      f', but {ANNOTATIONS}: YTBB-Robust was released as annotations, of which no sets are made '
      f'here. Write {SETS} and {LABELS} of the anchors and pairs that passed the review.'
    )
  found = [place for place in (*sorted(root.glob('*')), root.parent) if find(place)]
  return f', but in {found[0]}: give that folder.' if found else ': give a folder of neighbor sets.'


def _mapping(path: pathlib.Path) -> dict[str, Any]:
  """Reads a JSON object that gives each key once."""
  forms = {SETS: {str: (list, str)}, FRAMES: {str: dict}}
  advice = f'Give an object that has each frame once, beside {SETS}.'
  if path.name.endswith((CLASS_INDEX, CLASS_MAP)):
    advice = 'Give an object that has each class once.'
  return json_files.read(path, forms.get(path.name, dict), advice)


def _class_names(home: pathlib.Path) -> tuple[str, ...]:
  """Returns the names of the classes that files beside the sets tell, or () without one."""
  places = (home, home / 'misc', home.parent / 'misc')
  for read_names, pattern in (
    (class_index.indexed, f'*{CLASS_INDEX}'),
    (class_index.mapped, f'*{CLASS_MAP}'),
  ):
    for place in places:
      names = read_names({path: _mapping(path) for path in sorted(place.glob(pattern))})
      if names:
        return names
  return ()


def write(sets: NeighborSets, folder: str | os.PathLike[str]) -> None:
  """Writes neighbor sets in the released layout, so that the released scorer reads them too.

  `metadata/pmsets.json` and `metadata/labels.json`; if the classes have names, a class index in
  `misc`, called `imagenet_vid_class_index.json` or `youtube_bb_class_index.json` if they are those,
  and else `class_index.json`; `metadata/frames.json` if frame types or fps are known.

  Args:
    sets: what to write.
    folder: made if it does not exist.
  """
  root = expanded(folder)
  names = sets.frames
  table = {
    names[anchor]: [names[member] for member in members]
    for anchor, members in zip(sets.anchors, sets.neighbors, strict=True)
  }
  labels = {
    name: [int(label) for label in row if label >= 0]
    for name, row in zip(names, sets.labels, strict=True)
  }
  _write_json(root / 'metadata' / SETS, table)
  _write_json(root / 'metadata' / LABELS, {name: row for name, row in labels.items() if row})
  if sets.class_names:
    _write_json(
      root / 'misc' / class_index.file_name(sets.class_names),
      {str(number): ['', name] for number, name in enumerate(sets.class_names)},
    )
  facts = _known_facts(sets)
  if facts:
    _write_json(root / 'metadata' / FRAMES, facts)


def _known_facts(sets: NeighborSets) -> dict[str, dict[str, Any]]:
  facts: dict[str, dict[str, Any]] = {name: {} for name in sets.frames}
  for key, values in (('frame_type', sets.frame_types), ('fps', sets.fps)):
    for name, value in zip(sets.frames, [] if values is None else values.tolist(), strict=False):
      if value and value == value:  # neither '' nor NaN
        facts[name][key] = value
  return {name: known for name, known in facts.items() if known}


def _write_json(path: pathlib.Path, value: Any) -> None:
  write_atomically(path, (json.dumps(value, indent=1) + '\n').encode())
