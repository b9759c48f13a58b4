"""Conversion of neighbor sets to columns of rows, a row per frame, and back."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from robustness.core.errors import KEYS, InputError, or_column
from robustness.video.metadata import FRAME_TYPES, NeighborSets, source_of

GROUP, OFFSET, FRAME_TYPE, FPS, LABEL = 'group_id', 'offset', 'frame_type', 'fps', 'label'
"""Names of the columns, see `to_columns`."""
PATH = 'path'


def to_columns(sets: NeighborSets) -> dict[str, np.ndarray]:
  """Returns the columns of the F frames of neighbor sets.

  `label` int32 [F, L] has up to L labels of a frame, padded with −1. `group_id` int32 [F, M] has
  the numbers of the up to M sets that hold the frame, padded with −1, and `offset` int32 [F, M] its
  distance from their anchors in frames, 0 for an anchor and for padding. If the sets have them,
  `frame_type` int32 [F] is a position in `FRAME_TYPES` or −1, and `fps` float64 [F] the frame rate.
  """
  pairs, groups = sets.pairs, np.arange(len(sets.anchors), dtype=np.int32)
  frame = np.concatenate([sets.anchors, pairs.frame])
  group = np.concatenate([groups, pairs.group])
  offset = np.concatenate([np.zeros_like(groups), pairs.offset])
  order = np.lexsort((group, frame))
  frame, group, offset = frame[order], group[order], offset[order]
  count = np.bincount(frame, minlength=len(sets.frames))
  first = np.repeat(np.cumsum(count) - count, count)  # first entry of the same frame
  slot = np.arange(len(frame)) - first
  shape = len(count), int(count.max())
  group_ids, offsets = np.full(shape, -1, np.int32), np.zeros(shape, np.int32)
  group_ids[frame, slot] = group
  offsets[frame, slot] = offset
  columns = {LABEL: sets.labels, GROUP: group_ids, OFFSET: offsets}
  if sets.frame_types is not None:
    kinds = {name: index for index, name in enumerate(FRAME_TYPES)}
    columns[FRAME_TYPE] = np.array([kinds.get(t, -1) for t in sets.frame_types], np.int32)
  if sets.fps is not None:
    columns[FPS] = sets.fps
  return columns


def component_numbers(group_id: np.ndarray, folders: np.ndarray | None = None) -> np.ndarray:
  """Returns the connected component of each frame, int [F].

  Two frames are connected if they share a set (`group_id` int [F, M], padded with −1) or a folder
  (names [F], '' for none).
  """
  # the nodes of the graph are frames, then sets, then folders; edges lead from frames to the others
  row, slot = np.nonzero(group_id >= 0)
  node = group_id[row, slot] + len(group_id)
  size = len(group_id) + int(group_id.max()) + 1
  if folders is not None:
    names, folder = np.unique(folders, return_inverse=True)
    inside = np.flatnonzero(folders != '')
    row, node = np.append(row, inside), np.append(node, size + folder[inside])
    size += len(names)
  graph = scipy.sparse.coo_array((np.ones(len(row)), (row, node)), shape=(size, size))
  return connected_components(graph, directed=False)[1][: len(group_id)]


def clip_numbers(columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
  """Returns the number of the clip of each of N rows, int [N]; None without a column `group_id`.

  Each row is a frame of neighbor sets. A clip is a folder of frames; clips of one YouTube video
  count as one (`source_of`). If the rows have no paths, sets that share frames count as one clip.
  """
  if GROUP not in columns:
    return None
  paths = columns.get(PATH)
  folders = None if paths is None else np.array([source_of(str(path)) for path in paths])
  return component_numbers(columns[GROUP].reshape(len(columns[GROUP]), -1), folders)


def from_columns(
  columns: Mapping[str, np.ndarray], names: Sequence[str] = (), class_names: Sequence[str] = ()
) -> NeighborSets:
  """Returns the neighbor sets that the columns of rows describe; each row becomes a frame.

  A row may be in several sets: its columns have a slot for each, [N, slots], and −1 in unused ones.

  Args:
    columns: `label`, `group_id` (number of a set) and `offset` (frames from the set's anchor), int
      [N, slots], or [N] for one slot; optionally `frame_type` and `fps` [N], see `to_columns`.
    names: paths of the N frames; by default 'row 0', 'row 1', ...
    class_names: names of the classes in label order.
  """
  check_names(columns)
  label, group_id, offset = (np.atleast_2d(columns[name].T).T for name in (LABEL, GROUP, OFFSET))
  frame, slot = np.nonzero(group_id >= 0)  # a member of a set each
  distance = offset[frame, slot]
  ids, set_number = np.unique(group_id[frame, slot], return_inverse=True)
  if not len(ids):
    raise InputError('the rows are in no neighbor set: every group_id is -1.')
  is_anchor = distance == 0
  count = np.bincount(set_number[is_anchor], minlength=len(ids))
  if (count != 1).any():
    bad = int(np.argmax(count != 1))
    raise InputError(f'set {ids[bad]} has {count[bad]} anchors (rows with offset 0): give one.')
  anchors = np.zeros(len(ids), np.int32)
  anchors[set_number[is_anchor]] = frame[is_anchor]
  order = np.lexsort((distance, set_number))
  order = order[distance[order] != 0]
  cuts = np.searchsorted(set_number[order], np.arange(1, len(ids)))
  kinds = columns.get(FRAME_TYPE)
  return NeighborSets(
    tuple(names) or tuple(f'row {index}' for index in range(len(label))),
    label.astype(np.int32),
    anchors,
    tuple(np.split(frame[order].astype(np.int32), cuts)),
    tuple(np.split(distance[order].astype(np.int32), cuts)),
    tuple(class_names),
    None if kinds is None or (kinds < 0).all() else np.array([*FRAME_TYPES, ''])[kinds],
    None if FPS not in columns or np.isnan(columns[FPS]).all() else columns[FPS].astype(float),
  )


def check_names(columns: Container[str]) -> None:
  """Raises InputError if `columns` lack `label`, `group_id` or `offset`, which describe sets."""
  for name in (LABEL, GROUP, OFFSET):
    if name not in columns:
      raise InputError(
        f'the rows have no column {name!r}: they are no frames of neighbor sets. '
        f"Set {KEYS.data.source} to 'video_neighbors' or 'made_clips'" + or_column(name)
      )
