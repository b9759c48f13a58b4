"""Conversion of neighbor sets to columns of rows, a row per frame, and back."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from robustness.core.errors import KEYS, InputError, or_column
from robustness.video.metadata import FRAME_TYPES, NeighborSets, component_of_nodes, source_of

GROUP, OFFSET, FRAME_TYPE, FPS, LABEL = 'group_id', 'offset', 'frame_type', 'fps', 'label'
"""Names of the columns, see `to_columns`."""
PATH = 'path'
"""Name of the column with the path of each frame."""


def to_columns(sets: NeighborSets) -> dict[str, np.ndarray]:
  """Converts neighbor sets to arrays with one entry per video frame, `{column: values}`.

  A neighbor set is an anchor frame with similar frames of the same video. F is the number of
  distinct frames. A frame may be in several sets, at most M, and have several labels, at most L.

  * `label`, int32 [F, L]: labels of each frame, padded with −1.
  * `group_id`, int32 [F, M]: indices of the sets that contain each frame, padded with −1.
  * `offset`, int32 [F, M]: frame number minus the anchor's frame number in each of these sets; 0
    for anchors (labelled frames) and padding.
  * `frame_type`, int32 [F]: index in `FRAME_TYPES`, −1 if unknown. Present if `sets` has frame
    types.
  * `fps`, float64 [F]: frames per second, NaN if unknown. Present if `sets` has frame rates.
  """
  pairs, groups = sets.pairs, np.arange(len(sets.anchors), dtype=np.int32)
  # The members of all sets, first all anchors and then all neighbors; then sorted by frame and set.
  frame = np.concatenate([sets.anchors, pairs.frame])
  group = np.concatenate([groups, pairs.group])
  offset = np.concatenate([np.zeros_like(groups), pairs.offset])
  order = np.lexsort((group, frame))
  frame, group, offset = frame[order], group[order], offset[order]
  count = np.bincount(frame, minlength=len(sets.frames))  # sets that hold each frame
  # The sets of a frame fill its columns from the left: for the frames [0, 0, 2] the columns of the
  # members are [0, 1, 0]. `first_member` is the position of each frame's first member.
  first_member = np.cumsum(count) - count
  column = np.arange(len(frame)) - first_member[frame]
  shape = len(count), int(count.max())
  group_ids, offsets = np.full(shape, -1, np.int32), np.zeros(shape, np.int32)
  group_ids[frame, column] = group
  offsets[frame, column] = offset
  columns = {LABEL: sets.labels, GROUP: group_ids, OFFSET: offsets}
  if sets.frame_types is not None:
    index_of = {name: index for index, name in enumerate(FRAME_TYPES)}
    columns[FRAME_TYPE] = np.array([index_of.get(t, -1) for t in sets.frame_types], np.int32)
  if sets.fps is not None:
    columns[FPS] = sets.fps
  return columns


def with_numbered_sets(columns: Mapping[str, Any]) -> dict[str, Any]:
  """Replaces set names in the column `group_id` by integers 0, 1, … in sorted order.

  Args:
    columns: {name: values}. Other columns are unchanged, and so is a `group_id` of numbers.

  Raises:
    InputError: `group_id` mixes strings with other types.
  """
  names = np.asarray(columns.get(GROUP, ()))  # () is no text either
  if names.dtype.kind not in 'OSTU':  # objects, bytes and the two kinds of text
    return dict(columns)
  _, numbers = sorted_names(f'the column {GROUP!r}', names)
  return {**columns, GROUP: numbers.reshape(names.shape).astype(np.int32)}


def component_numbers(group_id: np.ndarray, folders: np.ndarray | None = None) -> np.ndarray:
  """Assigns each of F frames to a connected component of frames that share sets or folders.

  Args:
    group_id: int [F, M], indices of the sets that contain each frame, padded with −1.
    folders: str [F], the folder of each frame, '' for none; None ignores folders.

  Returns:
    int [F], the index of each frame's component.
  """
  # A graph in which each frame is connected with its sets and its folder. The nodes are all frames,
  # then all sets, then all folders; `node` is the other end of each edge.
  frame, column = np.nonzero(group_id >= 0)
  node = len(group_id) + group_id[frame, column]
  num_nodes = len(group_id) + int(group_id.max()) + 1
  if folders is not None:
    names, folder = np.unique(folders, return_inverse=True)
    in_folder = np.flatnonzero(folders != '')
    frame, node = np.append(frame, in_folder), np.append(node, num_nodes + folder[in_folder])
    num_nodes += len(names)
  return component_of_nodes(frame, node, num_nodes)[: len(group_id)]


def clip_numbers(columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
  """Returns the video clip of each frame as an index, int [N]; None without `group_id`.

  Clips are the clusters of bootstrap resampling. The frames of a folder are one clip. Folders are
  merged if they were cut from the same YouTube video (`<video id>_<milliseconds>`) or share a
  neighbor set. If there is no column `path`, sets that share frames form a clip.

  Args:
    columns: {name: values} of N frames, see `to_columns`.
  """
  if GROUP not in columns:
    return None
  paths = columns.get(PATH)
  folders = None if paths is None else np.array([source_of(str(path)) for path in paths])
  # a column [N] becomes [N, 1]
  return component_numbers(np.column_stack([columns[GROUP]]), folders)


def from_columns(
  columns: Mapping[str, np.ndarray], names: Sequence[str] = (), class_names: Sequence[str] = ()
) -> NeighborSets:
  """Builds neighbor sets from arrays with one entry per frame; the inverse of `to_columns`.

  Args:
    columns: {name: values} of N frames, in the format of `to_columns`: `label`, `group_id` and
      `offset` (also [N] in place of [N, 1]), and optionally `frame_type` and `fps`.
    names: paths of the N frames; () names them 'row 0', 'row 1', ...
    class_names: class names in label order.

  Raises:
    InputError: a column is missing or does not hold integers, no frame is in a set, or a set does
      not have exactly one anchor (labelled frame) or has two frames at the same offset.
  """
  check_names(columns)
  # [N, L], [N, M] and [N, M]; a column [N] becomes [N, 1]
  label, group_id, offset = (_whole_numbers(columns, key) for key in (LABEL, GROUP, OFFSET))
  if group_id.shape != offset.shape:
    problem = f'{GROUP} has the shape {group_id.shape}, and {OFFSET} {offset.shape}'
    raise InputError(f'{problem}: give an offset for each set of a row.')
  # The members of all sets: index of the frame, its distance from the anchor, and index of the set
  # in `set_ids`, sorted by set, then by distance. A frame is listed once for each of its sets.
  frame, column = np.nonzero(group_id >= 0)
  if not len(frame):
    raise InputError('the rows are in no neighbor set: every group_id is -1.')
  distance = offset[frame, column]
  set_ids, group = np.unique(group_id[frame, column], return_inverse=True)
  order = np.lexsort((distance, group))  # by the last key first
  frame, distance, group = frame[order].astype(np.int32), distance[order], group[order]
  is_anchor = distance == 0
  _check_members(frame, distance, group, set_ids)
  # the neighbors of all sets are split where each set but the first begins
  starts_of_sets = np.searchsorted(group[~is_anchor], np.arange(1, len(set_ids)))
  types, fps = _types_and_rates(columns)
  return NeighborSets(
    frames=tuple(names) or tuple(f'row {index}' for index in range(len(label))),
    labels=label.astype(np.int32),
    anchors=frame[is_anchor],
    neighbors=tuple(np.split(frame[~is_anchor], starts_of_sets)),
    offsets=tuple(np.split(distance[~is_anchor].astype(np.int32), starts_of_sets)),
    class_names=tuple(class_names),
    frame_types=types,
    fps=fps,
  )


def _check_members(
  frame: np.ndarray, distance: np.ndarray, group: np.ndarray, set_ids: np.ndarray
) -> None:
  """Raises InputError unless each set has one anchor and no two frames at the same distance.

  Args:
    frame: int [P], the row of each member of a set; members are sorted by set, then by distance.
    distance: int [P], the distance of each member from the anchor (labelled frame) in frames.
    group: int [P], the index of the set of each member.
    set_ids: the numbers of the sets in the data.
  """

  def in_words(index: int) -> str:
    """Returns the number of a set and its first row, such as 'set 3 (of row 40)'."""
    return f'set {set_ids[index]} (of row {frame[group == index].min()})'

  count = np.bincount(group[distance == 0], minlength=len(set_ids))  # anchors of each set
  if (count != 1).any():
    bad = int(np.argmax(count != 1))
    raise InputError(f'{in_words(bad)} has {count[bad]} anchors (rows with offset 0): give one.')
  is_same_as_next = (np.diff(group) == 0) & (np.diff(distance) == 0)
  if is_same_as_next.any():
    bad = int(np.argmax(is_same_as_next))
    raise InputError(f'{in_words(group[bad])} has two rows with offset {distance[bad]}: give one.')


def _types_and_rates(
  columns: Mapping[str, np.ndarray],
) -> tuple[np.ndarray | None, np.ndarray | None]:
  """Returns the frame types, str [N], and frame rates, float [N], of N frames.

  Unknown types are '' and unknown rates NaN. If no type (or rate) is known, None takes the place of
  the array.

  Args:
    columns: {name: values} of the frames; `frame_type` and `fps` are read if they are present.
  """
  types = None
  if FRAME_TYPE in columns:
    numbers = _whole_numbers(columns, FRAME_TYPE)[:, 0]
    if numbers.min() < -1 or numbers.max() >= len(FRAME_TYPES):
      valid = f'0 to {len(FRAME_TYPES) - 1} for {", ".join(FRAME_TYPES)}, or -1 if unknown'
      raise InputError(f'{FRAME_TYPE} goes from {numbers.min()} to {numbers.max()}: give {valid}.')
    # −1, unknown, takes the last entry, ''
    types = None if (numbers < 0).all() else np.array([*FRAME_TYPES, ''])[numbers]
  fps = columns.get(FPS)
  if fps is not None:
    if (fps <= 0).any():
      raise InputError(f'{FPS} is {fps.min():g}: give frames a second above 0, or NaN if unknown.')
    fps = None if np.isnan(fps).all() else fps.astype(float)
  return types, fps


def _whole_numbers(columns: Mapping[str, np.ndarray], key: str) -> np.ndarray:
  """Returns the column `key`, [N] or [N, M], as integers [N, M].

  Raises:
    InputError: a value is not an integer.
  """
  return whole_numbers(f'the column {key!r}', np.column_stack([columns[key]]))


def whole_numbers(name: str, values: np.ndarray) -> np.ndarray:
  """Converts integers, also integers stored as floats, to int64.

  Args:
    name: name of the values, for the error message.
    values: array of numbers.

  Raises:
    InputError: a value is not an integer.
  """
  # the remainder of NaN and of an infinite number is NaN
  if values.dtype.kind not in 'iuf' or not (np.mod(values, 1) == 0).all():
    raise InputError(f'{name} has values that are no whole numbers: give integers.')
  return values.astype(np.int64)


def sorted_names(name: str, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the sorted unique names, and for each name its index among them.

  Args:
    name: what the names are, for the error message.
    names: array of names.

  Raises:
    InputError: the names cannot be sorted, for instance because numbers and strings are mixed.
  """
  try:
    return np.unique(names, return_inverse=True)
  except TypeError as error:
    raise InputError(
      f'{name} cannot be sorted ({error}): give texts alone, or numbers alone.'
    ) from error


def check_names(columns: Container[str]) -> None:
  """Raises InputError if the column `label`, `group_id` or `offset` is missing.

  These columns assign video frames to neighbor sets. The message explains how to get them.
  """
  for name in (LABEL, GROUP, OFFSET):
    if name not in columns:
      raise InputError(
        f'the rows have no column {name!r}: they are no frames of neighbor sets. '
        f"Set {KEYS.data.source} to 'video_neighbors' or 'made_clips'" + or_column(name)
      )
