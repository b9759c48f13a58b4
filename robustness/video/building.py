"""Builds neighbor sets: a random anchor in every video and the frames around it.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.1.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.core.errors import InputError, nearest
from robustness.core.settings import require
from robustness.video import clips
from robustness.video.clips import Clip, FrameFolder
from robustness.video.metadata import NeighborSets, from_mappings


@dataclasses.dataclass(frozen=True)
class Built:
  """What came out.

  Attributes:
    sets: one set for each labelled video.
    frames: the folder that its paths lie under.
    left_out: videos without a label.
  """

  sets: NeighborSets
  frames: pathlib.Path
  left_out: tuple[str, ...]

  def summary(self) -> str:
    """Returns the counts, in a line."""
    sizes = [len(members) for members in self.sets.neighbors]
    left = f'; {len(self.left_out)} videos without a label left out' if self.left_out else ''
    return (
      f'{len(sizes)} anchors, {sum(sizes)} pairs, median {np.median(sizes):g} a set, '
      f'{len(self.sets.frames)} distinct frames under {self.frames}{left}'
    )


def build(
  videos: pathlib.Path,
  labels: Mapping[str, Sequence[int]],
  frames: pathlib.Path,
  class_names: Sequence[str] = (),
  *,
  k: int = 10,
  seed: int = 0,
  facts: bool = False,
) -> Built:
  """Chooses an anchor in each labelled video, and every frame at most k frames away from it.

  The anchor is uniform over the frames of its video and depends on the seed and the video's name
  alone, so that more videos leave it where it is.

  Args:
    videos: holds video files or folders of frames; see `robustness.video.clips.find`.
    labels: {video: classes}, which all frames of its set get.
    frames: where frames of video files are written, as PNG; those of folders stay where they are.
    class_names: in the order of the classes.
    k: largest distance from the anchor, in frames.
    seed: of the choice.
    facts: whether frame types and frames a second are kept where a container tells them.

  Raises:
    InputError: a labelled video that is not there, video files beside folders of frames, a frame
      that cannot be decoded (path and number), or what `clips.find` refuses.
  """
  require(k >= 0, 'k', k, 'at least 0')
  require(seed >= 0, 'seed', seed, 'at least 0')
  clips_by_name = clips.find(videos)
  kinds = _kinds(clips_by_name, labels, videos)
  sets: dict[str, list[str]] = {}
  known: dict[str, dict[str, Any]] = {}
  for name in sorted(labels):
    anchor, taken = _choose(clips_by_name[name], frames, k, seed)
    sets[taken[anchor].path] = [frame.path for i, frame in enumerate(taken) if i != anchor]
    known |= {frame.path: _facts(frame) for frame in taken}
  table = {path: labels[path.rpartition('/')[0]] for path in known}
  return Built(
    from_mappings(sets, table, class_names, known if facts else None),
    videos if kinds == {FrameFolder} else frames,
    tuple(name for name in clips_by_name if name not in labels),
  )


def _kinds(
  clips_by_name: Mapping[str, Clip], labels: Mapping[str, Sequence[int]], videos: pathlib.Path
) -> set[type]:
  """Returns the one kind that all labelled clips are of."""
  missing = [name for name in labels if name not in clips_by_name]
  if missing:
    raise InputError(
      f'{len(missing)} of {len(labels)} labelled videos are not in {videos}, first '
      f'{missing[0]!r}: {nearest(missing[0], clips_by_name)}.'
    )
  kinds = {type(clips_by_name[name]) for name in labels}
  if len(kinds) > 1:
    raise InputError(
      f'{videos} holds video files beside folders of frames, whose frames would lie '
      'under different folders: build them apart.'
    )
  return kinds


def anchor_position(name: str, num_frames: int, seed: int) -> int:
  """Returns the position of a video's anchor, uniform over its frames."""
  salt = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], 'big')
  return int(np.random.default_rng([seed, salt]).integers(num_frames))


def _choose(clip: Clip, folder: pathlib.Path, k: int, seed: int) -> tuple[int, list[clips.Taken]]:
  """Returns the position of the anchor in the chosen frames, and these."""
  numbers = clip.numbers()
  anchor = numbers[anchor_position(clip.name, len(numbers), seed)]
  near = [number for number in numbers if abs(number - anchor) <= k]
  return near.index(anchor), clip.take(near, folder)


def _facts(taken: clips.Taken) -> dict[str, Any]:
  fps = {} if taken.fps is None else {'fps': taken.fps}
  return {'frame_type': taken.frame_type, **fps}
