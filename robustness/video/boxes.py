"""Bounding boxes of objects in frames: COCO's JSON, or ILSVRC's XML beside the frames.

COCO: `images` (id, file_name, width, height), `annotations` (image_id, category_id, bbox of
x, y, width, height in pixels) and `categories` (id, name); a frame is found by `file_name`. ILSVRC:
a folder with `<path of the frame>.xml`, one `object` (name, bndbox) for each box.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree

from robustness.core import json_files
from robustness.core.errors import InputError, nearest

COCO: json_files.Form = {
  'images': [{'id': (int, str), 'file_name': str, 'width': float, 'height': float}],
  'categories': [{'id': (int, str), 'name': str}],
  'annotations': [{'image_id': (int, str), 'category_id': (int, str), 'bbox': [float]}],
}
TOLERANCE = 1.0
"""Pixels by which a box may stand out of its image without being counted as clipped."""


class Box(NamedTuple):
  """An object in a frame; edges as fractions of height and width, 0 ≤ min < max ≤ 1.

  Attributes:
    y_min, x_min, y_max, x_max: the edges.
    label: position of its class.
  """

  y_min: float
  x_min: float
  y_max: float
  x_max: float
  label: int


class FrameBoxes(NamedTuple):
  """The boxes of frames.

  Attributes:
    boxes: by frame, where they are known.
    clipped: the frame of each box that stood out of its image by more than `TOLERANCE`, and was cut
      at its border.
  """

  boxes: dict[str, list[Box]]
  clipped: tuple[str, ...]


def read(path: pathlib.Path, frames: Iterable[str], classes: Mapping[str, int]) -> FrameBoxes:
  """Returns the boxes of frames where they are known.

  Args:
    path: a COCO file, or a folder of ILSVRC annotations.
    frames: paths of frames.
    classes: the position of a class by every word for it.

  Raises:
    InputError: nothing there, files that cannot be read, an unknown class, or a box that is
      inverted, empty or wholly outside of its image.
  """
  if path.is_dir():
    files = {frame: (path / frame).with_suffix('.xml') for frame in frames}
    known = {frame: _from_xml(file, classes) for frame, file in files.items() if file.is_file()}
    return _separated(known)
  if not path.is_file():
    raise InputError(f'{path} is missing: give a COCO .json file or a folder of ILSVRC .xml files.')
  known = _from_coco(path, classes)
  return _separated({frame: known[frame] for frame in frames if frame in known})


def _separated(known: Mapping[str, list[tuple[Box, bool]]]) -> FrameBoxes:
  """Returns the boxes, and the frames of those that were clipped."""
  return FrameBoxes(
    {frame: [box for box, _ in boxes] for frame, boxes in known.items()},
    tuple(frame for frame, boxes in known.items() for _, clipped in boxes if clipped),
  )


def read_sizes(folder: pathlib.Path, frames: Iterable[str]) -> dict[str, tuple[float, float]]:
  """Returns width and height in pixels of the frames that a folder of ILSVRC files describes.

  Raises:
    InputError: a file that cannot be read.
  """
  sizes = {}
  for frame in frames:
    file = (folder / frame).with_suffix('.xml')
    if file.is_file():
      try:
        root = ElementTree.parse(file).getroot()
        sizes[frame] = _number(root, 'size/width'), _number(root, 'size/height')
      except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f'{file} is no ILSVRC annotation ({error}).') from error
  return sizes


def _from_coco(path: pathlib.Path, classes: Mapping[str, int]) -> dict[str, list[tuple[Box, bool]]]:
  try:
    document = json_files.read(path, COCO, 'Give a COCO annotation file.')
    images = {image['id']: image for image in document['images']}
    names = {category['id']: category['name'] for category in document['categories']}
    boxes: dict[str, list[tuple[Box, bool]]] = {i['file_name']: [] for i in images.values()}
    for number, annotation in enumerate(document['annotations']):
      image = images[annotation['image_id']]
      x, y, width, height = map(float, annotation['bbox'])
      where = f'{path}, entry {number}, {image["file_name"]}'
      label = _position(names[annotation['category_id']], classes, where)
      boxes[image['file_name']].append(
        box((x, y, x + width, y + height), (image['height'], image['width']), label, where)
      )
  except InputError:
    raise
  except (ValueError, KeyError, TypeError) as error:
    raise InputError(
      f'{path} is no COCO annotation file ({type(error).__name__}: {error}).'
    ) from error
  return boxes


def _from_xml(file: pathlib.Path, classes: Mapping[str, int]) -> list[tuple[Box, bool]]:
  try:
    root = ElementTree.parse(file).getroot()
    size = (_number(root, 'size/height'), _number(root, 'size/width'))
    return [
      box(
        tuple(_number(node, f'bndbox/{edge}') for edge in ('xmin', 'ymin', 'xmax', 'ymax')),
        size,
        _position(_text(node, 'name'), classes, str(file)),
        str(file),
      )
      for node in root.iter('object')
    ]
  except InputError:
    raise
  except (ElementTree.ParseError, ValueError) as error:
    raise InputError(f'{file} is no ILSVRC annotation ({error}).') from error


def _text(node: ElementTree.Element, place: str) -> str:
  text = node.findtext(place)
  if text is None:
    raise ValueError(f'no {place}')
  return text.strip()


def _number(node: ElementTree.Element, place: str) -> float:
  return float(_text(node, place))


def _position(name: Any, classes: Mapping[str, int], where: str) -> int:
  if name not in classes:
    raise InputError(f'{where} has an object of class {name!r}; {nearest(str(name), classes)}.')
  return classes[name]


def box(
  edges: tuple[float, ...], size: tuple[float, float], label: int, where: str
) -> tuple[Box, bool]:
  """Returns a box as fractions, cut at the borders of its image, and whether it stood out of it.

  Args:
    edges: x_min, y_min, x_max, y_max in pixels.
    size: height and width of the image in pixels.
    label: position of its class.
    where: names the frame in messages.

  Raises:
    InputError: inverted, empty, or wholly outside of the image.
  """
  x_min, y_min, x_max, y_max = edges
  height, width = size
  overlaps = x_min < width and y_min < height and x_max > 0 and y_max > 0
  if not (x_min < x_max and y_min < y_max and overlaps):
    raise InputError(
      f'{where}: box x {x_min:g}..{x_max:g}, y {y_min:g}..{y_max:g} in an image of '
      f'{width:g} × {height:g} pixels is inverted, empty or wholly outside of it.'
    )
  distance = max(-x_min, -y_min, x_max - width, y_max - height)
  clipped = Box(
    max(y_min, 0.0) / height,
    max(x_min, 0.0) / width,
    min(y_max / height, 1.0),
    min(x_max / width, 1.0),
    label,
  )
  return clipped, distance > TOLERANCE
