"""Construction of neighbor sets: a random anchor in every video and the frames around it.

The user states the classes of videos in a file. A JSON file is {video: class} or {video:
[classes]}. A CSV file has a line for each video and class, under the header `video,class`. A class
is a name, a synonym (such as its WordNet identifier), or a number. In a folder of ILSVRC
annotations, `<video>/<frame>.xml`, a frame has the classes of its boxes; frames without boxes are
left out.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 2.1.
"""

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
from robustness.video import boxes, clips, metadata

HEADER = ['video', 'class']
"""First line of a CSV file of classes."""
VideoLabels = Mapping[str, Sequence[int] | Mapping[int, Sequence[int]]]
"""{video: classes of all its frames}, or {video: {frame number: classes}}."""


@dataclasses.dataclass(frozen=True)
class Built:
  """Neighbor sets that were built from videos: labelled frames with nearby frames.

  Attributes:
    sets: one set for each labelled video.
    frames: the folder that the paths in `sets.frames` are relative to.
    left_out: names of the videos without labels.
  """

  sets: metadata.NeighborSets
  frames: pathlib.Path
  left_out: tuple[str, ...]

  def summary(self) -> str:
    """Describes the size of the data set in one line: its anchors, pairs and distinct frames.

    An anchor is a labelled frame of a video. It makes a pair with each of its neighbors, the frames
    around it.
    """
    sizes = [len(members) for members in self.sets.neighbors]  # number of neighbors of each anchor
    left_out = f'; {len(self.left_out)} videos without a label left out' if self.left_out else ''
    return (
      f'{len(sizes)} anchors, {sum(sizes)} pairs, median {np.median(sizes):g} a set, '
      f'{len(self.sets.frames)} distinct frames under {self.frames}{left_out}'
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
  """Builds neighbor sets: a random labelled frame (anchor) per video, with nearby frames.

  The choice of an anchor depends only on the seed and its video, so other videos do not change it.

  Args:
    videos: folder of video files or of folders of frames; see `robustness.video.clips.find`.
    labels: {video: its labels}, or {video: {frame number: labels}}, where other frames are left
      out.
    frames: folder to write frames of video files to, as PNG. Image files are not copied.
    class_names: class names in label order.
    k: largest distance from the anchor, in frames.
    seed: seed of the choice of anchors.
    facts: whether to store frame types and frame rates, which only video files have.

  Raises:
    InputError: An argument is out of range, a labelled video is missing or cannot be decoded, or
      the folder mixes video files with folders of frames.
  """
  require(k >= 0, 'k', k, 'at least 0')
  require(seed >= 0, 'seed', seed, 'at least 0')
  clip_of = clips.find(videos)
  are_folders = _are_folders(videos, clip_of, labels)
  if facts and are_folders:
    raise InputError(
      f'{videos} holds folders of frames, which do not state types and rates: leave --facts out, '
      f'or write {{frame: {{"frame_type": "i", "fps": 29.97}}}} to metadata/{metadata.FRAMES}.'
    )
  sets: dict[str, list[str]] = {}
  frame_facts: dict[str, metadata.FrameFacts] = {}
  frame_labels: dict[str, Sequence[int]] = {}
  left_out = [name for name in clip_of if name not in labels]
  for name in sorted(labels):
    clip, classes = clip_of[name], labels[name]
    numbers = clip.numbers()
    # {frame number: labels}; labels of a video are the labels of all its frames
    labels_of = classes if isinstance(classes, Mapping) else dict.fromkeys(numbers, classes)
    labelled = [number for number in numbers if labels_of.get(number)]
    if not labelled:
      left_out.append(name)
      continue
    anchor = labelled[anchor_position(name, len(labelled), seed)]
    members = [number for number in labelled if abs(number - anchor) <= k]  # with the anchor
    facts_by_path = clip.take(members, frames)  # in the order of `members`
    frame_facts |= facts_by_path
    path_of = dict(zip(members, facts_by_path, strict=True))  # {frame number: path}
    for number, path in path_of.items():
      frame_labels[path] = labels_of[number]
    sets[path_of[anchor]] = [path for number, path in path_of.items() if number != anchor]
  return Built(
    sets=metadata.from_mappings(sets, frame_labels, class_names, frame_facts if facts else None),
    frames=videos if are_folders else frames,
    left_out=tuple(left_out),
  )


def _are_folders(root: pathlib.Path, clip_of: dict[str, clips.Clip], labels: VideoLabels) -> bool:
  """Returns whether the labelled videos are folders of frames (True) or video files (False).

  Args:
    root: folder of the videos, for messages.
    clip_of: {name: clip} in this folder.
    labels: {name of a labelled video: its labels}.

  Raises:
    InputError: A labelled video is missing, or the labelled videos are of both kinds.
  """
  missing = [name for name in labels if name not in clip_of]
  if missing:
    raise InputError(
      f'{len(missing)} of {len(labels)} labelled videos are not in {root}, first '
      f'{missing[0]!r}: {nearest(missing[0], clip_of)}.'
    )
  kinds = {type(clip_of[name]) for name in labels}
  if len(kinds) > 1:
    raise InputError(
      f'{root} holds video files and folders of frames, and the paths of their frames would '
      'begin in different folders: build them apart.'
    )
  return kinds == {clips.FrameFolder}


def anchor_position(name: str, num_frames: int, seed: int) -> int:
  """Draws which labelled frame of a video becomes its anchor, in [0, num_frames).

  The draw is uniform. It depends only on the arguments, not on other videos.

  Args:
    name: name of the video.
    num_frames: number of its labelled frames.
    seed: seed of the draw.
  """
  salt = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], 'big')
  return int(np.random.default_rng([seed, salt]).integers(num_frames))


def vocabulary(classes: str) -> tuple[tuple[str, ...], dict[str, int]]:
  """Returns class names in label order, and {name or synonym: label}.

  Args:
    classes: A label space such as 'imagenet_vid', or a text file with one class per line. Only
      label spaces have synonyms, such as WordNet identifiers.

  Raises:
    InputError: No class is named, or one is named twice.
  """
  path = expanded(classes)
  if path.is_file():
    names = tuple(line.strip() for line in _read_text(path).splitlines() if line.strip())
  else:
    names = label_space.get(classes).class_names
  if not names or len(set(names)) < len(names):
    raise InputError(f'{classes} must name each class once, one a line; it holds {list(names)}.')
  return names, label_space.index_by_name(names)


def read_labels(path: pathlib.Path, classes: Mapping[str, int]) -> VideoLabels:
  """Reads the labels of videos from a JSON or CSV file, or from ILSVRC annotations.

  Args:
    path: A `.json` or `.csv` file with the classes of videos, or a folder of ILSVRC annotations of
      frames.
    classes: {name or synonym of a class: label}.

  Returns:
    {video: labels} for a file, {video: {frame number: labels}} for a folder. Labels ascend.

  Raises:
    InputError: The file is missing or invalid, names no video, or has an unknown class.
  """
  if path.is_dir():
    return _from_annotations(path, classes)
  if not path.is_file():
    raise InputError(f'{path} is missing: give a .json or .csv file with the classes of videos.')
  if path.suffix.lower() == '.csv':
    classes_of = _from_csv(path)
  else:
    classes_of = json_files.read(path, advice='Give an object, {video: class}.')
  if not classes_of:
    raise InputError(f'{path} names no videos.')
  labels = {}
  for video, stored in classes_of.items():
    words = stored if isinstance(stored, list) else [stored]  # JSON may have a class without a list
    if not words:
      raise InputError(f'{path} gives video {video!r} no class.')
    labels[video] = sorted({_class_index(path, video, word, classes) for word in words})
  return labels


def _from_annotations(
  folder: pathlib.Path, classes: Mapping[str, int]
) -> dict[str, dict[int, list[int]]]:
  """Reads {video: {frame number: labels of its objects}} from ILSVRC annotations.

  Args:
    folder: folder of the annotations, `<video>/<frame>.xml`.
    classes: {WordNet identifier: label}. An object of another class raises InputError.
  """
  files = [file.relative_to(folder).as_posix() for file in sorted(folder.rglob('*.xml'))]
  if not files:
    raise InputError(f'{folder} holds no ILSVRC annotations, <video>/<frame>.xml.')
  labels: dict[str, dict[int, list[int]]] = {}
  boxes_by_file, _ = boxes.read(folder, files, classes)
  for file, objects in boxes_by_file.items():
    classes_of_video = labels.setdefault(metadata.video_of(file), {})
    classes_of_video[metadata.frame_number(file)] = sorted({box.label for box in objects})
  return labels


def _read_text(path: pathlib.Path) -> str:
  """Reads a text file; raises InputError unless it is UTF-8."""
  try:
    return path.read_bytes().decode('utf-8-sig')  # spreadsheets write a byte-order mark
  except UnicodeDecodeError as error:
    raise InputError(f'{path} is no text in UTF-8 ({error}): save it in that encoding.') from error


def _from_csv(path: pathlib.Path) -> dict[str, list[object]]:
  """Reads {video: its classes} from a CSV file with the columns video and class.

  A video with several classes has a line for each. Classes may be names or numbers.
  """
  rows = csv.reader(io.StringIO(_read_text(path), newline=''))
  lines = [[cell.strip() for cell in row] for row in rows if row]
  if lines[:1] != [HEADER] or any(len(line) != len(HEADER) for line in lines):
    header = repr(','.join(HEADER))
    raise InputError(f'{path} must begin with the line {header} and have two cells in every line.')
  classes_of: dict[str, list[object]] = {}
  for video, word in lines[1:]:
    classes_of.setdefault(video, []).append(word)
  return classes_of


def _class_index(path: pathlib.Path, video: str, word: object, classes: Mapping[str, int]) -> int:
  """Returns the label of a class that a file assigns to a video.

  Args:
    path: the file, for messages.
    video: name of the video, for messages.
    word: the class: a name, a synonym or a label, which may be text such as '7'.
    classes: {name or synonym: label}.

  Raises:
    InputError: There is no such class.
  """
  valid = set(classes.values())
  if isinstance(word, str) and word in classes:
    return classes[word]
  number = int(word) if isinstance(word, str) and word.isdecimal() else word
  if type(number) is int and number in valid:  # not `isinstance`, which admits True
    return number
  raise InputError(
    f'{path} gives video {video!r} the class {word!r}, which is no class: '
    f'{nearest(str(word), classes)}, or a number 0..{max(valid)}.'
  )
