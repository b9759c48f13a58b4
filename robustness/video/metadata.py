"""Neighbor sets (anchors, neighbors, labels and classes of frames) and the files that store them.

A folder holds, directly or in `metadata/`, `pmsets.json` ({anchor path: [neighbor paths]}) and
`labels.json` ({frame path: [classes]}), as ImageNet-Vid-Robust was released. A path is
`<video>/<frame>.<suffix>`, and the digits that end the frame's name are its number:
`val/ILSVRC2015_val_00000000/000442.JPEG`, or `<ytid>_<ms>/frame-12.jpg`. Neighbors without labels,
as in YTBB-Robust, have the labels of their anchors. Optional are `frames.json` ({frame path:
{"frame_type": "i", "fps": 29.97}}) and, in the same folder or `misc/`, names of the classes
(`robustness.video.class_index`).

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from robustness.core import json_files
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import KEYS, InputError, nearest
from robustness.core.paths import expanded
from robustness.core.rows import padded_labels
from robustness.models import label_space
from robustness.video import ytbb_robust
from robustness.video.class_index import CLASS_INDEX, read_class_names

SETS, LABELS, FRAMES = 'pmsets.json', 'labels.json', 'frames.json'
"""Names of the files with sets, labels and frame types and rates."""
FRAME_TYPES = ('i', 'p', 'b')
"""Frame types of video compression: intra-coded, predicted, bidirectionally predicted."""
FRAME, ANCHOR = LABEL_RULES = ('frame', 'anchor')
"""Rules for the labels to judge a neighbor with: its own labels, or the labels of its anchor."""
RELEASES = {
  'imagenet_vid': (
    'ImageNet-Vid-Robust',
    {(1109, 21_070): 'reviewed', (1314, 26_029): 'unreviewed'},
  ),
  'youtube_bb': ('YTBB-Robust', {(2030, 36_827): 'reviewed', (2467, 45_631): 'unreviewed'}),
}
"""The published neighbor sets, by label space: {label space: (name, {(number of anchors, number of
anchor-neighbor pairs): 'reviewed' or 'unreviewed'})}. Counts are from Shankar et al., Do Image
Classifiers Generalize Across Time?, 2021, table 1.
"""
_INT32_MAX = 2**31 - 1
"""Largest distance of two frames of a set, so that it fits int32. Class indices are below it if the
number of classes is unknown."""


class FrameFacts(TypedDict, total=False):
  """Properties that a frame has in its video file; unknown properties may be missing.

  Attributes:
    frame_type: 'i', 'p' or 'b'; '' if unknown.
    fps: frames per second of the video; None if unknown.
  """

  frame_type: str
  fps: float | None


class FramePairs(NamedTuple):
  """The P pairs of an anchor frame and a neighbor frame, as int32 arrays [P] sorted by anchor.

  Attributes:
    group: index of the neighbor set, and of its anchor in `NeighborSets.anchors`.
    frame: index of the neighbor in `NeighborSets.frames`.
    offset: frame number of the neighbor minus the frame number of the anchor.
  """

  group: np.ndarray
  frame: np.ndarray
  offset: np.ndarray


@dataclasses.dataclass(frozen=True)
class NeighborSets:
  """A sets of similar video frames, each an anchor frame with neighbors from the same video.

  Build instances with `from_mappings`, which checks its arguments. F is the number of distinct
  frames in all sets.

  Attributes:
    frames: paths of the F frames, sorted.
    labels: int32 [F, L], at most L class indices of each frame, padded with −1. A neighbor without
      labels in the files has the labels of its anchors.
    anchors: int32 [A], index of each anchor in `frames`, in the order of the file.
    neighbors: for each anchor, an int32 array of the indices of its neighbors in `frames`.
    offsets: for each anchor, an int32 array of its neighbors' frame numbers minus its own.
    class_names: class names in label order; () if the files do not state them.
    frame_types: str [F], 'i', 'p', 'b' or '' (unknown); None if all are unknown.
    fps: float64 [F], frames per second of the video, NaN if unknown; None if all are unknown.
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
  def pairs(self) -> FramePairs:
    """All P pairs of an anchor (labelled frame) and one of its neighbors, as flat arrays [P].

    `neighbors` has the frames of each set and `offsets` their distances from the anchor. Pair p has
    the set `group[p]`, the frame `frame[p]` and the distance `offset[p]`.
    """
    counts = [len(neighbors) for neighbors in self.neighbors]
    empty = np.zeros(0, np.int32)  # `concatenate` needs at least one array
    return FramePairs(
      group=np.repeat(np.arange(len(self.anchors), dtype=np.int32), counts),
      frame=np.concatenate([empty, *self.neighbors]),
      offset=np.concatenate([empty, *self.offsets]),
    )

  @functools.cached_property
  def videos(self) -> np.ndarray | None:
    """The index of the video that each set is from, int [A]; None if every set has its own video.

    Videos are named by the paths of the anchors (labelled frames). Sets that share a frame count as
    one video.
    """
    # an anchor without a folder is a video by itself
    names = [source_of(self.frames[anchor]) or self.frames[anchor] for anchor in self.anchors]
    distinct_names, name_of_set = np.unique(names, return_inverse=True)
    # A graph with all frames as nodes, then all names. Edges join each anchor with the name of its
    # video and with its neighbors. A component of the graph is a video.
    anchor_of_pair = self.anchors[self.pairs.group]
    name_nodes = len(self.frames) + name_of_set
    component = component_of_nodes(
      np.concatenate([self.anchors, anchor_of_pair]),
      np.concatenate([name_nodes, self.pairs.frame]),
      num_nodes=len(self.frames) + len(distinct_names),
    )
    videos, video_of_set = np.unique(component[self.anchors], return_inverse=True)
    return video_of_set if len(videos) < len(self.anchors) else None

  @property
  def title(self) -> str:
    """Title of the data for reports, such as 'neighbor sets: 20 anchors, 100 pairs'.

    If the classes are from ImageNet-Vid-Robust or YTBB-Robust, the title states whether the number
    of anchors (labelled frames) and pairs is the published one (`RELEASES`).
    """
    space = label_space.coarse_space(self.class_names)
    counts = len(self.anchors), len(self.pairs.frame)
    counts_in_words = f'{counts[0]} anchors, {counts[1]} pairs'
    if space is None or space.name not in RELEASES:
      return f'neighbor sets: {counts_in_words}'
    name, published = RELEASES[space.name]  # `published` is by number of anchors and pairs
    if counts in published:
      return f'{name}, {published[counts]}: {counts_in_words}'
    expected = ' or '.join(f'{anchors} and {pairs}' for anchors, pairs in published)
    return f'neighbor sets of {space.name}: {counts_in_words} ({name} has {expected})'

  @functools.cached_property
  def digest(self) -> str:
    """SHA-256 of frames, anchors, pairs and labels, and of frame types and rates if known."""
    digest = hashlib.sha256('\n'.join(self.frames).encode())
    for array in (self.anchors, self.pairs.group, self.pairs.frame, self.labels):
      digest.update(np.ascontiguousarray(array, np.int32).tobytes())
    for facts in (self.frame_types, self.fps):
      digest.update(b'' if facts is None else np.ascontiguousarray(facts).tobytes())
    return digest.hexdigest()

  def pair_labels(self, rule: str = FRAME) -> np.ndarray:
    """Returns the labels that count as correct on each pair's neighbor frame, int32 [P, L].

    Unused entries are −1.

    Args:
      rule: 'frame' for the labels of the neighbor, 'anchor' for the labels of its anchor.
    """
    frames = self.anchors[self.pairs.group] if rule == ANCHOR else self.pairs.frame
    return self.labels[frames]

  def check_labels(self, space: str, num_classes: int, key: str) -> None:
    """Raises InputError if a label exceeds the classes of a label space (a list of classes).

    Args:
      space: name of the label space, for the message.
      num_classes: number of classes of the label space.
      key: name of the setting that chooses the label space, for the message.
    """
    row = int(np.argmax(self.labels.max(1)))  # the frame with the largest label
    label = int(self.labels[row].max())
    if label >= num_classes:
      raise InputError(
        f'frame {self.frames[row]!r} has label {label}, and {space} has {num_classes} classes '
        f'(0..{num_classes - 1}): set {key} to the label space of the labels, or add a class index '
        f'(misc/{CLASS_INDEX}).'
      )


def component_of_nodes(first: np.ndarray, second: np.ndarray, num_nodes: int) -> np.ndarray:
  """Returns the index of each node's connected component in a graph, int [num_nodes].

  Args:
    first, second: int [edges], the two nodes of each edge.
    num_nodes: number of nodes.
  """
  edges = np.ones(len(first)), (first, second)
  graph = scipy.sparse.coo_array(edges, shape=(num_nodes, num_nodes))
  return connected_components(graph, directed=False)[1]


def first_of_each_set(group: np.ndarray, *keys: np.ndarray) -> np.ndarray:
  """Returns, for each neighbor set in ascending order, the index of its first pair.

  Sets without a pair are left out. Of equal pairs, the one with the smallest index is the first.

  Args:
    group: number of the set of each pair, [P].
    *keys: values [P] by which the pairs of a set are sorted, the main key first.
  """
  order = np.lexsort((*reversed(keys), group))  # `lexsort` takes the main key last
  _, first = np.unique(group[order], return_index=True)
  return np.asarray(order[first])


def video_of(path: str) -> str:
  """Returns the folder part of a frame's path, which names its video."""
  return path.rpartition('/')[0]


def source_of(path: str) -> str:
  """Returns the name of the video from which the clip of a frame was cut; '' without a folder.

  `path` is <clip>/<file of the frame>. A clip called <11-character video id>_<milliseconds>, as in
  YouTube-BB, was cut from the video with this id: 'AbCdEfGhIjK_4000/12.jpg' is from 'AbCdEfGhIjK'.
  Any other clip is a video itself, and its name is returned unchanged.
  """
  # (?<![^/]): the id begins at the beginning of the path or after a slash
  return re.sub(r'(?<![^/])([\w-]{11})_\d+$', r'\1', video_of(path))


def frame_number(path: str) -> int:
  """Returns the number of a frame within its video: the digits at the end of the frame's name.

  Raises:
    InputError: the name does not end in digits.
  """
  digits = re.search(r'(\d+)$', pathlib.PurePosixPath(path).stem)
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
  facts: Mapping[str, FrameFacts] | None = None,
) -> NeighborSets:
  """Returns neighbor sets from the contents of `pmsets.json`, `labels.json` and `frames.json`.

  Args:
    sets: {anchor path: [neighbor paths]}; a set may be empty.
    labels: {frame path: [class indices]}; every anchor needs labels, neighbors may lack them.
    class_names: class names in label order; () admits any class index.
    facts: {frame path: frame type and rate}; None if unknown for all frames.

  Raises:
    InputError: an entry is invalid; the message names it.
  """
  if not sets:
    raise InputError(f'{SETS} holds no sets: give at least one anchor.')
  for anchor, members in sets.items():
    _check_set(anchor, members)
  frames = tuple(sorted(set(sets).union(*sets.values())))
  position = {frame: index for index, frame in enumerate(frames)}
  labels_of = {}
  for frame in frames:
    labels_of[frame] = [*_checked_labels(frame, labels.get(frame, ()), len(class_names))]
  # a neighbor without labels takes the labels of all its anchors, each once
  for anchor, members in sets.items():
    for frame in members:
      if not labels.get(frame):
        labels_of[frame] += [label for label in labels_of[anchor] if label not in labels_of[frame]]
  unlabelled = [anchor for anchor in sets if not labels_of[anchor]]
  if unlabelled:
    raise InputError(
      f'{len(unlabelled)} of {len(sets)} anchors have no label, first {unlabelled[0]!r}: add '
      f'{{path: [classes]}} to {LABELS}.'
    )
  neighbors, offsets = [], []
  for anchor, members in sets.items():
    neighbors.append(np.array([position[member] for member in members], np.int32))
    anchor_number = frame_number(anchor)
    distances = [frame_number(member) - anchor_number for member in members]
    offsets.append(np.array(distances, np.int32))
  types, fps = _types_and_rates(frames, facts) if facts else (None, None)
  return NeighborSets(
    frames,
    labels=padded_labels([*labels_of.values()]),
    anchors=np.array([position[anchor] for anchor in sets], np.int32),
    neighbors=tuple(neighbors),
    offsets=tuple(offsets),
    class_names=tuple(class_names),
    frame_types=types,
    fps=fps,
  )


def _check_set(anchor: str, members: Sequence[str]) -> None:
  """Raises InputError unless a neighbor set consists of distinct frames of one video.

  Args:
    anchor: path of the labelled frame.
    members: paths of the frames near it, its neighbors.
  """
  if isinstance(members, str) or not all(isinstance(member, str) for member in members):
    raise InputError(f'the set of anchor {anchor!r} is {members!r}: give a list of frame paths.')
  for member in members:
    if video_of(member) != video_of(anchor):
      raise InputError(
        f'{member!r} is no neighbor of anchor {anchor!r}: it is a frame of another video. '
        'Neighbors are in the folder of their anchor.'
      )
  counts = Counter(frame_number(path) for path in (anchor, *members))  # {frame number: count}
  if max(counts) - min(counts) > _INT32_MAX:
    raise InputError(
      f'the set of anchor {anchor!r} has the frames {min(counts)} to {max(counts)}: numbers of '
      f'frames are at most {_INT32_MAX} apart.'
    )
  (number, count), *_ = counts.most_common(1)  # the number that most frames have
  if count > 1:
    repeated = [path for path in (anchor, *members) if frame_number(path) == number]
    raise InputError(
      f'the set of anchor {anchor!r} holds frame {number} {count} times '
      f'({", ".join(map(repr, repeated))}): a set has its anchor and each neighbor once.'
    )


def _checked_labels(frame: str, labels: Sequence[int], num_classes: int) -> Sequence[int]:
  """Returns the labels of a frame; raises InputError unless they are distinct classes.

  Args:
    frame: path of the frame, for the message.
    labels: its labels.
    num_classes: the number of classes; 0 if it is not known.
  """
  limit = num_classes or _INT32_MAX
  is_list = isinstance(labels, Sequence) and all(type(v) is int and 0 <= v < limit for v in labels)
  if not is_list or len(set(labels)) != len(labels):
    valid = f'a list of distinct classes 0..{limit - 1}'
    raise InputError(f'frame {frame!r} has labels {labels!r}: give {valid}.')
  return labels


def _types_and_rates(
  frames: Sequence[str], facts: Mapping[str, FrameFacts]
) -> tuple[np.ndarray | None, np.ndarray | None]:
  """Returns the types, str [F], and the rates, float [F], of F frames.

  Unknown types are '' and unknown rates NaN. An array is None if all its values are unknown.

  Args:
    frames: paths of the frames.
    facts: {path of a frame: its frame type and rate}.
  """
  types, rates = [], []
  for frame in frames:
    frame_facts = facts.get(frame, {})
    kind, rate = frame_facts.get('frame_type', ''), frame_facts.get('fps')
    if kind not in ('', *FRAME_TYPES):
      fix = nearest(str(kind), FRAME_TYPES)
      raise InputError(f'frame {frame!r} has frame_type {kind!r}; {fix}.')
    is_rate = isinstance(rate, (int, float)) and 0 < rate < np.inf
    if rate is not None and not is_rate:
      raise InputError(f'frame {frame!r} has fps {rate!r}: give frames a second, above 0.')
    types.append(kind)
    rates.append(np.nan if rate is None else float(rate))
  known_types = np.array(types) if any(types) else None
  return known_types, None if np.isnan(rates).all() else np.array(rates)


def read(folder: str | os.PathLike[str], reviewed: bool = True) -> NeighborSets:
  """Reads neighbor sets from a folder.

  Args:
    folder: holds `pmsets.json` and `labels.json`, or the annotations of YTBB-Robust, directly or in
      its folder `metadata`.
    reviewed: whether only the pairs that human reviewers accepted are taken. False takes all pairs;
      only annotations of YTBB-Robust still hold the rejected ones.

  Raises:
    InputError: a file is missing, is no valid JSON or holds an invalid entry.
  """
  root = expanded(folder)
  home = find(root)
  if home is None:
    # for the message, a folder one level below or above that holds neighbor sets
    nearby = [folder for folder in (*sorted(root.glob('*')), root.parent) if find(folder)]
    fix = ': give a folder of neighbor sets.'
    if nearby:
      fix = f', but in {nearby[0]}: give that folder.'
    raise InputError(f'no {SETS} in {root} or {root / "metadata"}{fix}')
  if not (home / SETS).is_file():
    return _read_ytbb_robust(home, reviewed)
  if not reviewed:
    raise InputError(f'{root} holds no annotations of YTBB-Robust, which alone has both reviews.')
  advice = f'Give an object that has each frame once, in the folder of {SETS}.'
  sets = json_files.read(home / SETS, {str: (list, str)}, advice)
  labels = json_files.read(home / LABELS, dict, advice)
  facts = json_files.read(home / FRAMES, {str: dict}, advice) if (home / FRAMES).is_file() else None
  names = read_class_names(home)
  try:
    return from_mappings(sets, labels, names, facts)
  except InputError as error:
    raise InputError(f'{home}: {error}') from error


def find(root: pathlib.Path) -> pathlib.Path | None:
  """Returns the folder with the files of neighbor sets, `root` or `root/metadata`, or None.

  A folder qualifies if it holds `pmsets.json` or the annotation files of YTBB-Robust. `pmsets.json`
  takes precedence, in either folder.
  """
  folders = root, root / 'metadata'
  by_preference = [folder for folder in folders if (folder / SETS).is_file()]
  by_preference += [folder for folder in folders if ytbb_robust.is_release(folder)]
  return next(iter(by_preference), None)


def _read_ytbb_robust(folder: pathlib.Path, reviewed: bool) -> NeighborSets:
  """Reads the neighbor sets of YTBB-Robust from its annotations; see `ytbb_robust.read`.

  Raises:
    InputError: a file is missing or invalid, or has other classes than YTBB-Robust.
  """
  sets, labels, names = ytbb_robust.read(folder, reviewed)
  expected = label_space.get('youtube_bb').class_names
  if names != expected:
    raise InputError(
      f'{folder / ytbb_robust.CLASSES} does not hold the {len(expected)} classes of YTBB-Robust in '
      f'their order: {", ".join(expected[:3])}, ...'
    )
  return from_mappings(sets, labels, names)


def write(sets: NeighborSets, folder: str | os.PathLike[str]) -> None:
  """Writes neighbor sets to a folder in the file layout of ImageNet-Vid-Robust.

  The files are `metadata/pmsets.json` and `metadata/labels.json`. Frame types or rates, if known,
  are in `metadata/frames.json`. Class names, if known, are in `misc/<label
  space>_class_index.json`, or in `misc/class_index.json` for classes of no label space.

  Raises:
    InputError: the folder cannot be written.
  """
  names = sets.frames
  neighbors_of = {}  # {path of an anchor: paths of its neighbors}
  for anchor, members in zip(sets.anchors, sets.neighbors, strict=True):
    neighbors_of[names[anchor]] = [names[member] for member in members]
  labels_of = {}
  for name, labels in zip(names, sets.labels, strict=True):
    if labels.max() >= 0:  # else it has none: labels are padded with −1
      labels_of[name] = labels[labels >= 0].tolist()
  documents: dict[str, object] = {f'metadata/{SETS}': neighbors_of, f'metadata/{LABELS}': labels_of}
  if sets.class_names:
    space = label_space.coarse_space(sets.class_names)
    prefix = f'{space.name}_' if space else ''
    documents[f'misc/{prefix}{CLASS_INDEX}'] = {  # without identifiers
      str(number): ['', name] for number, name in enumerate(sets.class_names)
    }
  facts: dict[str, dict[str, object]] = defaultdict(dict)
  for index, name in enumerate(names):
    if sets.frame_types is not None and sets.frame_types[index] != '':
      facts[name]['frame_type'] = sets.frame_types[index].item()
    if sets.fps is not None and not np.isnan(sets.fps[index]):
      facts[name]['fps'] = sets.fps[index].item()
  if facts:
    documents[f'metadata/{FRAMES}'] = facts
  try:
    # The sets are written last: an incomplete folder is then no folder of neighbor sets.
    for path, value in reversed(documents.items()):
      write_atomically(expanded(folder) / path, (json.dumps(value, indent=1) + '\n').encode())
  except OSError as error:
    raise InputError(f'{folder} cannot be written ({error}): give another folder.') from error


def are_reviewed(candidates: NeighborSets, reviewed: NeighborSets) -> np.ndarray:
  """Returns which of the P pairs of `candidates` are also pairs of `reviewed`, bool [P].

  Raises:
    InputError: no pair of `candidates` is a pair of `reviewed`.
  """
  accepted = set(_paths_of_pairs(reviewed))
  is_reviewed = np.array([pair in accepted for pair in _paths_of_pairs(candidates)], bool)
  if not is_reviewed.any():
    raise InputError(
      f'none of the {len(is_reviewed)} pairs of the data is one of the {len(accepted)} '
      f'reviewed pairs: {KEYS.study.reviewed} names the review of the sets in '
      f'{KEYS.data.video_neighbors.metadata}, with the same paths of frames.'
    )
  return is_reviewed


def _paths_of_pairs(sets: NeighborSets) -> list[tuple[str, str]]:
  """Returns the paths of the anchor and the neighbor of each of the P pairs."""
  pairs = zip(sets.pairs.group, sets.pairs.frame, strict=True)
  return [(sets.frames[sets.anchors[group]], sets.frames[frame]) for group, frame in pairs]
