"""Source `video_neighbors`: the frames of neighbor sets, from a metadata folder and frame files.

A neighbor set is an anchor frame of a video with nearby frames that look similar to it.
`metadata` is laid out as ImageNet-Vid-Robust or YTBB-Robust were released, or has one such folder
for each split. Its paths are relative to `frames`, or to `frames/ytbb_videos` if that exists. Each
frame is one row, even if it belongs to several sets. `config.data.num_images` counts anchors, which
are taken with all of their neighbors. `NeighborFrames` describes the columns.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import numpy as np
from absl import logging

from input_pipeline.image_files import existing_folder, file_images, looks_like
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import KEYS, InputError, SettingError, first_names, nearest
from robustness.core.rows import padded_labels
from robustness.models import label_space
from robustness.video.columns import (
  FPS,
  FRAME_TYPE,
  GROUP,
  OFFSET,
  PATH,
  component_numbers,
  to_columns,
)
from robustness.video.metadata import SETS, NeighborSets
from robustness.video.metadata import find as find_sets
from robustness.video.metadata import read as read_sets
from robustness.video.ytbb_robust import VIDEOS

KEY = 'config.data.video_neighbors'
"""Name of the section of the config, for messages."""
SPACES = ('imagenet_vid', 'youtube_bb')
"""Label spaces of the published neighbor sets; the first is the default."""
_SUBSET = 0xA2C4
"""Seed of the random stream of `NeighborFrames.choose`."""


@dataclasses.dataclass(frozen=True)
class VideoNeighbors(Source):
  """Video frames in sets of similar frames.

  A neighbor set is an anchor, a frame that humans have reviewed, with similar frames around it in
  the video.

  Attributes:
    metadata: folder of the files that list the sets; '' is `frames`.
    frames: folder of the images.
    label_space: classes of the labels if no file class_index.json names them: 'imagenet_vid',
      'youtube_bb', or '' for 'imagenet_vid'.
    allow_missing: whether images may be missing. Sets without their anchor are left out.
  """

  moved_keys = {'path': 'frames', 'name': 'label_space'}

  metadata: str = ''
  frames: str = ''
  label_space: str = ''
  allow_missing: bool = False

  def open(self, settings: DataSettings) -> Images:
    """Returns the distinct frames of video neighbor sets, read from image files in RGB.

    A neighbor set is a labelled frame, the anchor, with the frames around it. Columns of a frame
    say in which sets it is.

    Args:
      settings: settings of the data, of which the split is used here.
    """
    metadata_folder = find_metadata(self.metadata or self.frames, settings.split)
    frames = load(metadata_folder, self.frames, self.label_space, self.allow_missing)
    root = frames_folder(self.frames)
    description: dict[str, object] = {
      'path': self.frames,
      'metadata': self.metadata,
      'split': settings.split,
      'dataset': frames.title,
      'sets': frames.digest,
      'available_anchors': frames.num_anchors,
    }
    if frames.missing:
      description['missing_frames'] = len(frames.missing)
      description['missing_anchors'] = frames.missing_anchors
    return file_images(
      [f'{root}/{path}' for path in frames.paths],
      frames.labels,
      frames.class_names,
      title=f'neighbor sets {str(metadata_folder)!r}',
      description=description,
      channels=3,
      columns=frames.columns,
      choose=frames.choose,
    )


@dataclasses.dataclass(frozen=True)
class NeighborFrames:
  """The N distinct frames of neighbor sets for which image files exist, sorted by path.

  A neighbor set is an anchor frame with similar frames around it in the video. A frame may be in
  several sets, at most M.

  Attributes:
    paths: paths relative to the folder of frames.
    labels: int32 [N], or [N, L] padded with −1. A frame without labels has the labels of the
      anchors of its sets.
    class_names: class names in label order.
    columns: further columns, {name: array}.

      * `path`: path of the frame.
      * `group_id`, int32 [N, M]: indices, in the metadata, of the sets that contain the frame,
        padded with −1.
      * `offset`, int32 [N, M]: frame number minus the anchor's frame number in each of these sets;
        0 for anchors and padding.
      * `anchor`, int32 [N]: 1 if the frame is an anchor.
      * `frame_type`, int32 [N]: index in `metadata.FRAME_TYPES`, −1 if unknown.
      * `fps`, float32 [N]: frames per second of the video, NaN if unknown.
    num_anchors: number of sets.
    missing: paths of frames that are left out because they have no file.
    missing_anchors: number of anchors in `missing`; their sets are left out.
    title: title of the sets, see `NeighborSets.title`.
    digest: SHA-256 of the sets, see `NeighborSets.digest`.
  """

  paths: tuple[str, ...]
  labels: np.ndarray
  class_names: tuple[str, ...]
  columns: Mapping[str, np.ndarray]
  num_anchors: int
  missing: tuple[str, ...]
  missing_anchors: int
  title: str
  digest: str

  def choose(self, num_anchors: int, seed: int) -> np.ndarray:
    """Returns indices of all frames in randomly chosen neighbor sets, ascending.

    Sets that share frames are chosen together, so there may be slightly more than `num_anchors`
    sets. With the same seed, smaller choices are contained in larger ones.

    Args:
      num_anchors: number of sets to choose; 0 chooses all.
      seed: seed of the random choice.

    Raises:
      InputError: there are fewer sets than `num_anchors`.
    """
    if num_anchors > self.num_anchors:
      problem, fix = 'which counts anchors here', f'There are {self.num_anchors} (0 takes all).'
      raise SettingError(KEYS.data.num_images, num_anchors, problem=problem, fix=fix)
    if not num_anchors:
      return np.arange(len(self.paths))
    group_id, offset = self.columns[GROUP], self.columns[OFFSET]
    anchors, _ = np.nonzero((group_id >= 0) & (offset == 0))  # the index of each set's anchor
    # Sets that share frames, directly or through other sets, are a family. Families are taken
    # whole, because a set with only some of its frames read would have another pm-k accuracy.
    family = component_numbers(group_id)  # of each frame
    families, anchors_per_family = np.unique(family[anchors], return_counts=True)
    order = np.random.default_rng([_SUBSET, seed]).permutation(len(families))
    # entry k is the number of anchors in the first k + 1 families of this order
    cumulative_anchors = np.cumsum(anchors_per_family[order])
    num_taken = 1 + int(np.searchsorted(cumulative_anchors, num_anchors))
    return np.flatnonzero(np.isin(family, families[order[:num_taken]]))


def find_metadata(path: str, split: str) -> Path:
  """Returns the folder that lists a split's neighbor sets: `path/split` if it does, else `path`.

  Sets are listed in pmsets.json or in the files of YTBB-Robust, in the folder or its subfolder
  metadata. Reading raises an error if `path` has neither.

  Raises:
    InputError: `path` does not exist or holds another published data set, or there is no folder for
      a split other than '' and 'test'.
  """
  advice = f'give the folder that holds {SETS} or metadata/{SETS}.'
  root = existing_folder(path, advice, f'{KEY}.metadata')
  if split and find_sets(root / split):
    return root / split
  if split not in ('', 'test'):
    folders = [folder for folder in sorted(root.iterdir()) if find_sets(folder)]
    splits = [folder.name for folder in folders if folder.name != 'metadata']
    problem = f'but {root} has no folder of that name with neighbor sets'
    raise SettingError(KEYS.data.split, split, problem=problem, fix=f'{nearest(split, splits)}.')
  release = '' if find_sets(root) else looks_like(root)
  if release:
    raise InputError(f'{root} holds no neighbor sets{release}; {advice}')
  return root


def load(
  metadata: Path, frames: str, space: str = '', allow_missing: bool = False
) -> NeighborFrames:
  """Reads neighbor sets and returns their frames that exist as files.

  Args:
    metadata: folder that lists the neighbor sets.
    frames: folder from which paths of frames are relative.
    space: classes of the labels if there are no class names: 'imagenet_vid', 'youtube_bb', or ''
      for 'imagenet_vid'.
    allow_missing: whether files may be missing. Sets without their anchor (labelled frame) are left
      out.

  Raises:
    InputError: files are missing and `allow_missing` is False, or no anchor has a file.
  """
  sets = read_sets(metadata)
  logging.info('%s', sets.title)
  root = frames_folder(frames, sets.frames[0])
  present = np.array([_is_file(root, path) for path in sets.frames])
  missing = tuple(sets.frames[index] for index in np.flatnonzero(~present))
  has_anchor = present[sets.anchors].any()
  if missing and not (allow_missing and has_anchor):
    raise _refusal(missing, sets, root)
  return _present_frames(sets, class_names(sets, space), present, missing)


def frames_folder(path: str, first: str = '') -> Path:
  """Returns the folder from which paths of frames are relative: `path`, or path/ytbb_videos.

  YTBB-Robust has the folder ytbb_videos; it is used if it exists.

  Args:
    path: folder from the config.
    first: path of a frame, as an example in the message.

  Raises:
    InputError: `path` does not exist.
  """
  advice = f'give the folder that holds {first!r} and the other frames.'
  root = existing_folder(path, advice, f'{KEY}.frames')
  return root / VIDEOS if (root / VIDEOS).is_dir() else root


def _is_file(root: Path, path: str) -> bool:
  """Returns whether the file of a frame exists.

  Args:
    root: folder of the frames.
    path: path of the frame relative to `root`.

  Raises:
    InputError: `path` is absolute or contains '..'.
  """
  if PurePosixPath(path).is_absolute() or '..' in PurePosixPath(path).parts:
    problem = f'frame {path!r} does not lie under the folder of frames'
    raise InputError(f'{problem}: paths are relative, without "..".')
  return os.path.isfile(root / path)


def _refusal(missing: tuple[str, ...], sets: NeighborSets, root: Path) -> InputError:
  """Returns an error for missing frames, with advice on where to find them.

  Args:
    missing: paths of the missing frames.
    sets: the neighbor sets.
    root: folder of the frames.
  """
  missing_anchors = set(missing) & {sets.frames[index] for index in sets.anchors}
  nearby = [root.parent, *sorted(root.glob('*'))]
  elsewhere = [folder for folder in nearby if os.path.isfile(folder / missing[0])]
  if elsewhere:
    fix = f'The first lies in {elsewhere[0]}: give that folder.'
  elif len(missing_anchors) < len(sets.anchors):  # some sets can be read
    option = f'--{KEYS.data.video_neighbors.allow_missing}=True'
    fix = f'Get them, or take the sets as far as there are frames ({option}): sets without their '
    fix += 'anchor are left out.'
  else:
    fix = 'Get them; predictions in a file are scored without frames (:predictions).'
  return InputError(
    f'{len(missing)} of {len(sets.frames)} frames are not in {root} ({len(missing_anchors)} of '
    f'{len(sets.anchors)} anchors): {first_names(missing, 10)}. These are {sets.title}. {fix}'
  )


def class_names(sets: NeighborSets, space: str = '') -> tuple[str, ...]:
  """Returns the class names of neighbor sets, in label order.

  Args:
    sets: the neighbor sets. If their classes are a known label space, such as ImageNet-Vid, its
      spelling is used.
    space: label space of sets without class names; '' for 'imagenet_vid'.
  """
  if not sets.class_names:
    names = label_space.get(space or SPACES[0]).class_names
    key = KEYS.data.video_neighbors.label_space
    sets.check_labels(space or SPACES[0], len(names), f'{key} (of {SPACES})')
    return names
  known_space = label_space.coarse_space(sets.class_names)
  return known_space.class_names if known_space else sets.class_names


def _present_frames(
  sets: NeighborSets, names: tuple[str, ...], present: np.ndarray, missing: tuple[str, ...]
) -> NeighborFrames:
  """Selects the frames with files, in neighbor sets with an anchor that has a file.

  A neighbor set is an anchor (a labelled frame) and frames near it, and a frame may be in several
  sets. A set without its anchor's file is left out, and so is a frame that has no file or is in no
  other set.

  Args:
    sets: neighbor sets with F frames.
    names: names of the classes.
    present: bool [F], whether the file of each frame exists.
    missing: paths of the frames without a file.
  """
  columns = to_columns(sets)
  has_anchor = present[sets.anchors]  # whether a set is kept, bool [sets]
  set_of_frame = columns[GROUP]  # indices of the sets of each frame, [F, M], padded with −1
  is_set_kept = has_anchor[np.maximum(set_of_frame, 0)]  # [F, M]; of set 0 for the padding
  is_kept = (set_of_frame >= 0) & present[:, None] & is_set_kept  # [F, M]; False for the padding
  rows = np.flatnonzero(is_kept.any(1))  # indices of the N frames that are returned
  max_sets = is_kept.sum(1).max()
  # for each frame an order of the M columns that moves kept sets to the front
  kept_first = np.argsort(~is_kept, axis=1, kind='stable')

  def remaining(values: np.ndarray, padding: int) -> np.ndarray:
    """Removes the entries of sets that are left out, and shifts the others to the front.

    For instance, [3, 7, 9] without the second set becomes [3, 9, padding].

    Args:
      values: [F, M], a value for each set of each frame.
      padding: value of unused entries.

    Returns:
      [N, max_sets], for the N frames in `rows`.
    """
    masked = np.where(is_kept, values, padding)
    return np.take_along_axis(masked, kept_first, axis=1)[rows, :max_sets]

  group_id, offset = remaining(set_of_frame, -1), remaining(columns[OFFSET], 0)
  labels = padded_labels([np.unique(row[row >= 0]) for row in sets.labels[rows]])
  paths = tuple(sets.frames[row] for row in rows)
  kinds = columns.get(FRAME_TYPE, np.full(len(present), -1, np.int32))
  fps = columns.get(FPS, np.full(len(present), np.nan))
  return NeighborFrames(
    paths=paths,
    labels=labels[:, 0] if labels.shape[1] == 1 else labels,
    class_names=names,
    columns={
      GROUP: group_id,
      OFFSET: offset,
      'anchor': ((group_id >= 0) & (offset == 0)).any(1).astype(np.int32),
      FRAME_TYPE: kinds[rows],
      FPS: fps[rows].astype(np.float32),
      PATH: np.array(paths),
    },
    num_anchors=int(has_anchor.sum()),
    missing=missing,
    missing_anchors=int((~has_anchor).sum()),
    title=sets.title,
    digest=sets.digest,
  )
