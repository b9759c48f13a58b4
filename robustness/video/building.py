"""Builds neighbor sets: a random anchor in every video and the frames around it.

The classes of videos are in a file that a user writes. JSON: {video: class} or {video: [classes]}.
CSV: a line a video and class, under the header `video,class`; a video with several classes has
several lines. A class is a name, another word for it (such as its WordNet identifier), or its
number. A folder of ILSVRC annotations, `<video>/<frame>.xml`, gives each frame the classes of its
boxes; frames without a box are left out.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.1.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.settings import require
from robustness.models import label_space
from robustness.video import boxes, clips
from robustness.video.metadata import (
  FRAMES,
  FrameFacts,
  NeighborSets,
  frame_number,
  from_mappings,
  video_of,
)

HEADER = ['video', 'class']
VideoLabels = Mapping[str, Sequence[int] | Mapping[int, Sequence[int]]]
"""Classes by video: of all its frames, or by the frame's number."""


@dataclasses.dataclass(frozen=True)
class Built:
  """A set for each labelled video, the folder their paths lie under, and videos left out."""

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
  labels: VideoLabels,
  frames: pathlib.Path,
  class_names: Sequence[str] = (),
  *,
  k: int = 10,
  seed: int = 0,
  facts: bool = False,
) -> Built:
  """Chooses an anchor in each labelled video, and every frame at most k frames away from it.

  The anchor is uniform over the frames of its video and depends on the seed and the video's name
  alone, so that more videos do not move it.

  Args:
    videos: holds video files or folders of frames; see `robustness.video.clips.find`.
    labels: {video: classes}, which all frames of its set get, or {video: {frame number: classes}},
      where frames without classes are left out.
    frames: where frames of video files are written, as PNG; those of folders stay where they are.
    class_names: in the order of the classes.
    k: largest distance from the anchor, in frames.
    seed: of the choice.
    facts: whether frame types and frames a second are kept, of which video files tell.
  """
  require(k >= 0, 'k', k, 'at least 0')
  require(seed >= 0, 'seed', seed, 'at least 0')
  found = clips.find(videos)
  missing = [name for name in labels if name not in found]
  if missing:
    raise InputError(
      f'{len(missing)} of {len(labels)} labelled videos are not in {videos}, first '
      f'{missing[0]!r}: {nearest(missing[0], found)}.'
    )
  kinds = {type(found[name]) for name in labels}
  if len(kinds) > 1:
    raise InputError(
      f'{videos} holds video files beside folders of frames, whose frames would lie '
      'under different folders: build them apart.'
    )
  if facts and kinds == {clips.FrameFolder}:
    raise InputError(
      f'{videos} holds folders of frames, which do not tell their types and rates: leave --facts '
      f'out, or write {{frame: {{"frame_type": "i", "fps": 29.97}}}} to metadata/{FRAMES}.'
    )
  sets: dict[str, list[str]] = {}
  known: dict[str, FrameFacts] = {}
  of_frames: dict[str, Sequence[int]] = {}
  left_out = [name for name in found if name not in labels]
  for name in sorted(labels):
    numbers, own = found[name].numbers(), labels[name]
    by_number = own if isinstance(own, Mapping) else dict.fromkeys(numbers, own)
    numbers = [number for number in numbers if by_number.get(number)]
    if not numbers:
      left_out.append(name)
      continue
    anchor = numbers[anchor_position(name, len(numbers), seed)]
    near = [number for number in numbers if abs(number - anchor) <= k]
    taken = found[name].take(near, frames)
    known |= taken
    paths = list(taken)
    of_frames |= {path: by_number[number] for path, number in zip(paths, near, strict=True)}
    sets[paths.pop(near.index(anchor))] = paths
  return Built(
    from_mappings(sets, of_frames, class_names, known if facts else None),
    videos if kinds == {clips.FrameFolder} else frames,
    tuple(left_out),
  )


def anchor_position(name: str, num_frames: int, seed: int) -> int:
  """Returns the position of a video's anchor, uniform over its frames."""
  salt = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], 'big')
  return int(np.random.default_rng([seed, salt]).integers(num_frames))


def vocabulary(classes: str) -> tuple[tuple[str, ...], dict[str, int]]:
  """Returns class names in order, and the position of a class by every word for it.

  `classes` is a label space such as 'imagenet_vid', or a text file with one class a line.
  """
  path = expanded(classes)
  if path.is_file():
    names = tuple(line.strip() for line in _text(path).splitlines() if line.strip())
  else:
    names = label_space.get(classes).class_names
  if not names or len(set(names)) < len(names):
    raise InputError(f'{classes} must name each class once, one a line; it holds {list(names)}.')
  return names, label_space.words(names)


def read_labels(path: pathlib.Path, classes: Mapping[str, int]) -> VideoLabels:
  """Returns the distinct classes of each video in a `.json` or `.csv` file, ascending, or those of
  each frame of the videos in a folder of ILSVRC annotations."""
  if path.is_dir():
    return _from_annotations(path, classes)
  if not path.is_file():
    raise InputError(f'{path} is missing: give a .json or .csv file with the classes of videos.')
  if path.suffix.lower() == '.csv':
    classes_of = _from_csv(path)
  else:
    document = json_files.read(path, advice='Give an object, {video: class}.')
    classes_of = {v: words if isinstance(words, list) else [words] for v, words in document.items()}
  if not classes_of:
    raise InputError(f'{path} names no videos.')
  labels = {}
  for video, words in classes_of.items():
    labels[video] = sorted({_position(path, video, word, classes) for word in words})
    if not words:
      raise InputError(f'{path} gives video {video!r} no class.')
  return labels


def _from_annotations(
  folder: pathlib.Path, classes: Mapping[str, int]
) -> dict[str, dict[int, list[int]]]:
  files = [file.relative_to(folder).as_posix() for file in sorted(folder.rglob('*.xml'))]
  if not files:
    raise InputError(f'{folder} holds no ILSVRC annotations, <video>/<frame>.xml.')
  labels: dict[str, dict[int, list[int]]] = {}
  for file, own in boxes.read(folder, files, classes)[0].items():
    of_video = labels.setdefault(video_of(file), {})
    of_video[frame_number(file)] = sorted({box.label for box in own})
  return labels


def _text(path: pathlib.Path) -> str:
  try:
    return path.read_bytes().decode('utf-8-sig')  # spreadsheets write a byte-order mark
  except UnicodeDecodeError as error:
    raise InputError(f'{path} is no text in UTF-8 ({error}): save it in that encoding.') from error


def _from_csv(path: pathlib.Path) -> dict[str, list[object]]:
  rows = csv.reader(io.StringIO(_text(path), newline=''))
  lines = [[cell.strip() for cell in row] for row in rows if row]
  if not lines or lines[0] != HEADER or any(len(line) != len(HEADER) for line in lines):
    raise InputError(
      f'{path} must begin with the line {",".join(HEADER)!r} and have two cells in every line.'
    )
  classes_of: dict[str, list[object]] = {}
  for video, word in lines[1:]:
    classes_of.setdefault(video, []).append(word)
  return classes_of


def _position(path: pathlib.Path, video: str, word: object, classes: Mapping[str, int]) -> int:
  valid = set(classes.values())
  if isinstance(word, str) and word in classes:
    return classes[word]
  number = int(word) if isinstance(word, str) and word.isdecimal() else word
  if type(number) is int and number in valid:
    return number
  raise InputError(
    f'{path} gives video {video!r} the class {word!r}, which is no class: '
    f'{nearest(str(word), classes)}, or a number 0..{max(valid)}.'
  )
