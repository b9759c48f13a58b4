"""The tables of Open Images: segments, the boxes around them, and the words for classes.

A segment (one mask of one object) names its image, class and box; what was tagged (occluded,
truncated, ...) stands in the table of boxes. Both are joined by image, class and coordinates.
Tables are read a line at a time, since those of the training split hold millions of boxes.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TextIO

import numpy as np

from robustness.core.errors import InputError, nearest
from robustness.scenes.classes import IMAGENET_INDEX

FLAGS = ('IsOccluded', 'IsTruncated', 'IsGroupOf', 'IsDepiction', 'IsInside')
MAX_BOX_DISTANCE = 1e-3  # the tables round coordinates to different numbers of digits
_SEGMENT_COLUMNS = (
  'MaskPath',
  'ImageID',
  'LabelName',
  'BoxID',
  'BoxXMin',
  'BoxXMax',
  'BoxYMin',
  'BoxYMax',
)
_BOX_COLUMNS = ('ImageID', 'LabelName', 'XMin', 'XMax', 'YMin', 'YMax', *FLAGS)


@dataclasses.dataclass(frozen=True)
class Segment:
  """One segmented object.

  Attributes:
    image_id: file name of the photograph without suffix.
    mask: file name of the mask.
    class_name: a class of SI-Score.
    label: the identifier of the class in the tables, such as '/m/01fb_0'.
    box: xmin, xmax, ymin, ymax as fractions of the photograph's width and height.
    flags: 1 present, 0 absent, -1 unknown, for each of `FLAGS`; empty if no box was found.
  """

  image_id: str
  mask: str
  class_name: str
  label: str
  box: tuple[float, float, float, float]
  flags: Mapping[str, int] = dataclasses.field(default_factory=dict)


def read_class_names(path: Path) -> dict[str, str]:
  """Returns {identifier: class of SI-Score} of a table without header: identifier, English name.

  Classes that SI-Score does not know are left out.
  """
  with _opened(path) as file:
    lines = [line for line in csv.reader(file) if len(line) == 2]
  known = {label: name.lower() for label, name in lines if name.lower() in IMAGENET_INDEX}
  if not known:
    raise InputError(
      f'{path}: none of its {len(lines)} lines names a class of SI-Score; expected '
      "lines such as '/m/01fb_0,Bagel' (class-descriptions-boxable.csv)."
    )
  return known


def choose_classes(names: Mapping[str, str], only: Collection[str]) -> dict[str, str]:
  """Returns the entries of `read_class_names` whose class is in `only`; all if that is empty."""
  for name in only:
    if name not in names.values():
      raise InputError(f'no class {name!r}: {nearest(name, names.values())}.')
  return {label: name for label, name in names.items() if not only or name in only}


def read_segments(segments: Path, boxes: Path, names: Mapping[str, str]) -> list[Segment]:
  """Returns the segments of some classes with the flags of their boxes.

  Args:
    segments: table of masks (train-annotations-object-segmentation.csv or like it).
    boxes: table of boxes of the same split (oidv6-train-annotations-bbox.csv or like it).
    names: {identifier: class}.
  """
  segments_of_classes = [
    Segment(
      row['ImageID'],
      row['MaskPath'],
      names[row['LabelName']],
      row['LabelName'],
      _box(row, 'BoxXMin', 'BoxXMax', 'BoxYMin', 'BoxYMax'),
    )
    for row in _rows(segments, _SEGMENT_COLUMNS)
    if row['LabelName'] in names
  ]
  pairs = {(segment.image_id, segment.label) for segment in segments_of_classes}
  candidates: dict[tuple[str, str], list[tuple[tuple[float, ...], dict[str, int]]]] = {}
  for row in _rows(boxes, _BOX_COLUMNS):
    key = row['ImageID'], row['LabelName']
    if key in pairs:
      flags = {flag: int(_number(row, flag)) for flag in FLAGS}
      candidates.setdefault(key, []).append((_box(row, 'XMin', 'XMax', 'YMin', 'YMax'), flags))
  return [
    dataclasses.replace(s, flags=_nearest_flags(s, candidates.get((s.image_id, s.label), [])))
    for s in segments_of_classes
  ]


def _nearest_flags(
  segment: Segment, boxes: list[tuple[tuple[float, ...], dict[str, int]]]
) -> dict[str, int]:
  """Returns the flags of the box that is the segment's own; none if there is no such box."""
  if not boxes:
    return {}
  distances = [float(np.abs(np.subtract(box, segment.box)).max()) for box, _ in boxes]
  closest = int(np.argmin(distances))
  return boxes[closest][1] if distances[closest] <= MAX_BOX_DISTANCE else {}


def _opened(path: Path) -> TextIO:
  try:
    return path.open(newline='', encoding='utf-8')
  except OSError as error:
    raise InputError(f'cannot read the table {path}: {error.strerror}.') from error


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
  with _opened(path) as file:
    reader = csv.DictReader(file)
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
      raise InputError(
        f'{path} has no column {missing[0]!r}; its columns: '
        f'{", ".join(reader.fieldnames or ())}. Needed: {", ".join(columns)}.'
      )
    for row in reader:
      yield {**row, 'line': f'{path}, line {reader.line_num}'}


def _box(row: Mapping[str, str], *columns: str) -> tuple[float, float, float, float]:
  x0, x1, y0, y1 = (_number(row, name) for name in columns)
  return x0, x1, y0, y1


def _number(row: Mapping[str, str], column: str) -> float:
  try:
    return float(row[column])
  except (TypeError, ValueError) as error:
    raise InputError(
      f'{row["line"]}: {column} is {row[column]!r}; a number is expected. Is the '
      'table cut short? Fetch it again.'
    ) from error
