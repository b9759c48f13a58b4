"""Reader of YTBB-Robust as released; annotations of anchors and pairs become neighbor sets.

A folder holds `anchor_labels.json` and `pmk_labels.json`, {"labels": [name], "annotations":
[{"key", "notes", "labels": [index of a name]}]}, `ytbb_robustness_test_anchors_full.csv` with the
header `ytid,time_ms,label`, and `ytbb_class_index.json`, {class: name}. The labels of an annotation
are called marks here. The key of an anchor is the path of its frame, and the key of a pair is
`<path of the anchor>,<path of the neighbor>`. Only the last two components of a path are used,
`<ytid>_<ms>/frame-<number>.jpg`. If a key has several annotations, the last annotation is used.

Rules of the authors' loader:

* an anchor is good if it is marked `good` and neither `bad` nor `unsure`;
* a pair is accepted if it is marked `similar` and has none of the marks `PROBLEMS`; a pair that is
  marked `bad-anchor` removes its anchor with all pairs;
* the classes of an anchor and of the frames of its pairs are the classes that it is marked with,
  and its class in the CSV file, in which the numbers 22 and 23 are swapped.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, appendix B.
"""

import csv
import pathlib
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.video.class_index import names_in_index

K = TypeVar('K', bound=Hashable)
ANCHORS, PAIRS = 'anchor_labels.json', 'pmk_labels.json'
"""Files with the annotations of anchors and of pairs."""
VIDEOS = 'ytbb_videos'
"""The folder of frames, next to the annotations or their folder `metadata`."""
CLASSES, CSV = 'ytbb_class_index.json', 'ytbb_robustness_test_anchors_full.csv'
"""File with the class names, and file with the classes of anchors."""
FILES = (ANCHORS, PAIRS, CSV, CLASSES)
"""The files of a release."""
HEADER = ['ytid', 'time_ms', 'label']
"""First line of the CSV file."""
GOOD, NOT_GOOD = 'good', frozenset({'unsure', 'bad'})
"""Mark of a good anchor, and marks of anchors that are not good."""
SIMILAR, BAD_ANCHOR = 'similar', 'bad-anchor'
"""Mark of a similar pair, and mark of a pair with a bad anchor."""
PROBLEMS = frozenset(
  ('dissimilar', 'problematic', 'incorrect', 'dont know', 'deformation', 'background-change')
  + ('occlusion-increased', 'blur-increase', BAD_ANCHOR)
)
"""Marks with which a pair is not accepted."""
SWAPPED = {22: 23, 23: 22}
"""{class in the CSV file: class in the class index}, for classes with different numbers there."""

_ANNOTATIONS = {'labels': [str], 'annotations': [{'key': str, 'labels': [int]}]}
_ADVICE = 'Give the folder of YTBB-Robust as it was released.'


def is_release(folder: pathlib.Path) -> bool:
  """Returns whether a folder holds annotations in the original format of YTBB-Robust."""
  return any((folder / name).is_file() for name in (ANCHORS, PAIRS))


def read(
  folder: pathlib.Path, reviewed: bool = True
) -> tuple[dict[str, list[str]], dict[str, list[int]], tuple[str, ...]]:
  """Reads the anchors, neighbors and labels of YTBB-Robust from its original files.

  Args:
    folder: holds the files `FILES`: annotations of anchors (labelled frames) and of pairs, a CSV
      file with classes, and class names.
    reviewed: whether to return only the anchors and pairs that reviewers accepted, or all.

  Returns:
    A tuple of

    * {anchor path: [neighbor paths]};
    * {anchor path: [class indices]};
    * the class names, in label order.

  Raises:
    InputError: a file is missing, truncated or of another release, a key is not the path of a
      frame, or the CSV file lacks an anchor.
  """
  _check_files(folder)
  index = json_files.read(folder / CLASSES, {str: str}, _ADVICE)
  class_names = names_in_index(folder / CLASSES, index)
  if not class_names:
    raise InputError(f'{folder / CLASSES} names no class. {_ADVICE}')
  marks_of_anchors = _annotations(folder / ANCHORS, GOOD, _frame_path)
  marks_of_pairs = _annotations(folder / PAIRS, SIMILAR, _pair_paths)
  bad_anchors = {anchor for (anchor, _), marks in marks_of_pairs.items() if BAD_ANCHOR in marks}
  class_of_video = _csv_classes(folder / CSV, len(class_names))
  neighbors: dict[str, list[str]] = {}
  labels: dict[str, list[int]] = {}
  for anchor, marks in marks_of_anchors.items():
    is_good = GOOD in marks and marks.isdisjoint(NOT_GOOD) and anchor not in bad_anchors
    if reviewed and not is_good:
      continue  # its pairs are left out below
    video, _, _ = anchor.partition('/')
    if video not in class_of_video:
      raise InputError(f'{folder / CSV} has no row for the anchor {anchor!r} of {ANCHORS}.')
    marked_classes = {class_names.index(mark) for mark in marks if mark in class_names}
    labels[anchor] = sorted(marked_classes | {class_of_video[video]})
    neighbors[anchor] = []
  for (anchor, neighbor), marks in marks_of_pairs.items():
    if anchor not in neighbors or neighbor == anchor:  # some keys are an anchor with itself
      continue
    is_accepted = SIMILAR in marks and marks.isdisjoint(PROBLEMS)
    if is_accepted or not reviewed:
      neighbors[anchor].append(neighbor)
  return neighbors, labels, class_names


def _check_files(folder: pathlib.Path) -> None:
  """Raises InputError if a folder lacks a file of the release."""
  missing = [name for name in FILES if not (folder / name).is_file()]
  if missing:
    advice = f'. {PAIRS} lists the neighbors, reviewed or not' if PAIRS in missing else ''
    has = f'YTBB-Robust has {", ".join(FILES)}{advice}.'
    raise InputError(f'{folder} has no {" and ".join(missing)}; {has}')


def _annotations(
  path: pathlib.Path, required_mark: str, parse_key: Callable[[str, pathlib.Path], K]
) -> dict[K, frozenset[str]]:
  """Reads the annotations of anchors or pairs, such as `{'<path of an anchor>': {'good'}}`.

  Args:
    path: file of annotations. Its key 'labels' lists all marks, such as 'good' or 'similar'.
    required_mark: a mark that the file must list, to detect a file of another kind.
    parse_key: called with the key of an annotation and `path`; returns the anchor (labelled frame)
      or pair.
  """
  document = json_files.read(path, _ANNOTATIONS, _ADVICE)
  names = document['labels']
  if required_mark not in names:
    raise InputError(f'{path} has no label {required_mark!r}, but: {", ".join(names)}. {_ADVICE}')
  marked: dict[K, frozenset[str]] = {}
  for entry in document['annotations']:
    invalid = [number for number in entry['labels'] if not 0 <= number < len(names)]
    if invalid:
      problem = f'{path} marks {entry["key"]!r} with label {invalid[0]}'
      raise InputError(f'{problem}; it has {len(names)} labels, 0..{len(names) - 1}.')
    marked[parse_key(entry['key'], path)] = frozenset(names[number] for number in entry['labels'])
  return marked


def _frame_path(key: str, path: pathlib.Path) -> str:
  """Returns the last two parts of a frame's path, `<ytid>_<ms>/frame-<number>.jpg`.

  Args:
    key: path of the frame.
    path: file that contains `key`, for the error message.
  """
  parts = pathlib.PurePosixPath(key).parts[-2:]
  if len(parts) != 2:
    raise InputError(f"{path} has the key {key!r}; a frame's ends in <video>/<frame>.jpg.")
  return '/'.join(parts)


def _pair_paths(key: str, path: pathlib.Path) -> tuple[str, str]:
  """Splits the key of a pair, '<anchor>,<neighbor>', into the paths of its frames.

  Args:
    key: key of the pair.
    path: file that contains `key`, for the error message.
  """
  if key.count(',') != 1:
    raise InputError(f"{path} has the key {key!r}; a pair's is '<anchor>,<neighbor>'.")
  anchor, neighbor = key.split(',')
  return _frame_path(anchor, path), _frame_path(neighbor, path)


def _csv_classes(path: pathlib.Path, count: int) -> Mapping[str, int]:
  """Reads the class of each video clip, `{clip: class index}`, from the CSV file of the release.

  A clip is named '<YouTube id>_<milliseconds>'. The file confuses two classes (`SWAPPED`), which is
  corrected.

  Args:
    path: the CSV file.
    count: number of classes.

  Raises:
    InputError: the file has another header, or a class index outside [0, `count`).
  """
  rows = csv.DictReader(path.read_text('utf-8', errors='replace').splitlines())
  if rows.fieldnames != HEADER:
    first_line = ','.join(rows.fieldnames or ())
    problem = f'{path} begins with {first_line[:80]!r}'
    raise InputError(f'{problem}; the header of the release is {",".join(HEADER)}.')
  classes = {}
  for row in rows:
    label = row['label'] or ''
    if not label.isdecimal() or int(label) >= count:
      raise InputError(
        f'{path}, line {rows.line_num}: label {label!r} is none of the {count} classes, 0..'
        f'{count - 1}; the file may be cut short.'
      )
    classes[f'{row["ytid"]}_{row["time_ms"]}'] = SWAPPED.get(int(label), int(label))
  return classes
