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
  """Returns {name of a column: its values} for the F frames of neighbor sets.

  * `label`, int32 [F, L]: the up to L labels of a frame, padded with −1.
  * `group_id`, int32 [F, M]: the numbers of the up to M sets that hold the frame, padded with −1.
  * `offset`, int32 [F, M]: the frame's distance from the anchors of these sets in frames, 0 for an
    anchor and for padding.
  * `frame_type`, int32 [F], if the sets state types: index in `FRAME_TYPES`, −1 if unknown.
  * `fps`, float64 [F], if the sets state rates: frames per second, NaN if unknown.
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
  """Returns the columns of a user with the names of sets in `group_id` replaced by numbers.

  Names are numbered 0, 1, … in sorted order. All other columns are unchanged, and so is `group_id`
  if it holds numbers already.

  Raises:
    InputError: the names are not all texts.
  """
  names = np.asarray(columns.get(GROUP, ()))  # () is no text either
  if names.dtype.kind not in 'OSTU':  # objects, bytes and the two kinds of text
    return dict(columns)
  _, numbers = sorted_names(f'the column {GROUP!r}', names)
  return {**columns, GROUP: numbers.reshape(names.shape).astype(np.int32)}


def component_numbers(group_id: np.ndarray, folders: np.ndarray | None = None) -> np.ndarray:
  """Groups F frames by what they share, and returns the number of each frame's group, int [F].

  Two frames are in one group if they share a set or a folder, or if a chain of such frames connects
  them.

  Args:
    group_id: int [F, M], the sets of each frame, padded with −1.
    folders: str [F], the folder of each frame, '' for none; None connects frames by sets only.
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
  """Groups frames by clip for resampling, and returns the number of each row's clip, int [N].

  A clip consists of the frames in one folder. Folders that were cut from one YouTube video
  (`<video id>_<milliseconds>`) or share a neighbor set are one clip. Without paths, a clip consists
  of all sets that share frames.

  Args:
    columns: {name: values} of N rows, see `to_columns`. The result is None without `group_id`.
  """
  if GROUP not in columns:
    return None
  paths = columns.get(PATH)
  folders = None if paths is None else np.array([source_of(str(path)) for path in paths])
  group_id = np.column_stack([columns[GROUP]])  # a column [N] becomes [N, 1]
  return component_numbers(group_id, folders)


def from_columns(
  columns: Mapping[str, np.ndarray], names: Sequence[str] = (), class_names: Sequence[str] = ()
) -> NeighborSets:
  """Returns the neighbor sets that the columns of rows describe; each row becomes a frame.

  Args:
    columns: {name: values} of N rows, see `to_columns`: `label`, `group_id` and `offset`, which may
      be [N] in place of [N, 1], and optionally `frame_type` and `fps`.
    names: paths of the N frames; () names them 'row 0', 'row 1', ...
    class_names: names of the classes in label order.

  Raises:
    InputError: a column is missing or has values that are no whole numbers, no row is in a set, or
      a set has no anchor, several anchors, or two frames of one offset.
  """
  check_names(columns)
  # [N, L], [N, M] and [N, M]; a column [N] becomes [N, 1]
  label, group_id, offset = (_whole_numbers(columns, key) for key in (LABEL, GROUP, OFFSET))
  if group_id.shape != offset.shape:
    raise InputError(
      f'{GROUP} has the shape {group_id.shape}, and {OFFSET} {offset.shape}: give an offset for '
      'each set of a row.'
    )
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
  count = np.bincount(group[is_anchor], minlength=len(set_ids))  # anchors of each set
  if (count != 1).any():
    bad = int(np.argmax(count != 1))
    raise InputError(f'set {set_ids[bad]} has {count[bad]} anchors (rows with offset 0): give one.')
  is_same_as_next = (np.diff(group) == 0) & (np.diff(distance) == 0)
  if is_same_as_next.any():
    bad = int(np.argmax(is_same_as_next))
    raise InputError(
      f'set {set_ids[group[bad]]} has two rows with offset {distance[bad]}: give one.'
    )
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


def _types_and_rates(
  columns: Mapping[str, np.ndarray],
) -> tuple[np.ndarray | None, np.ndarray | None]:
  """Returns the frame types, str [N], and frame rates, float [N], of N rows.

  Unknown types are '' and unknown rates NaN. An array is None if `columns` has no such column, or
  if all its values are unknown.
  """
  types, fps = None, columns.get(FPS)
  if FRAME_TYPE in columns:
    numbers = _whole_numbers(columns, FRAME_TYPE)[:, 0]
    if numbers.min() < -1 or numbers.max() >= len(FRAME_TYPES):
      valid = f'0 to {len(FRAME_TYPES) - 1} for {", ".join(FRAME_TYPES)}, or -1 if unknown'
      raise InputError(f'{FRAME_TYPE} goes from {numbers.min()} to {numbers.max()}: give {valid}.')
    # −1, unknown, takes the last entry, ''
    types = None if (numbers < 0).all() else np.array([*FRAME_TYPES, ''])[numbers]
  if fps is not None:
    if (fps <= 0).any():
      raise InputError(f'{FPS} is {fps.min():g}: give frames a second above 0, or NaN if unknown.')
    fps = None if np.isnan(fps).all() else fps.astype(float)
  return types, fps


def _whole_numbers(columns: Mapping[str, np.ndarray], key: str) -> np.ndarray:
  """Returns a column, [N] or [N, M], as integers [N, M]; raises InputError for other values."""
  return whole_numbers(f'the column {key!r}', np.column_stack([columns[key]]))


def whole_numbers(name: str, values: np.ndarray) -> np.ndarray:
  """Returns integers, or floats that are whole numbers, as int64; `name` is for the message.

  Raises:
    InputError: a value is no whole number.
  """
  # the remainder of NaN and of an infinite number is NaN
  if values.dtype.kind not in 'iuf' or not (np.mod(values, 1) == 0).all():
    raise InputError(f'{name} has values that are no whole numbers: give integers.')
  return values.astype(np.int64)


def sorted_names(name: str, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the distinct names, sorted, and the index of each of `names` among them.

  Raises:
    InputError: names have no order, such as None, or numbers among texts.
  """
  try:
    distinct, indices = np.unique(names, return_inverse=True)
  except TypeError as error:
    raise InputError(
      f'{name} cannot be sorted ({error}): give texts alone, or numbers alone.'
    ) from error
  return distinct, indices


def check_names(columns: Container[str]) -> None:
  """Raises InputError if `columns` lack `label`, `group_id` or `offset`, which describe sets.

  The message says how to get frames of neighbor sets, or another column for it (`or_column`).
  """
  for name in (LABEL, GROUP, OFFSET):
    if name not in columns:
      raise InputError(
        f'the rows have no column {name!r}: they are no frames of neighbor sets. '
        f"Set {KEYS.data.source} to 'video_neighbors' or 'made_clips'" + or_column(name)
      )
