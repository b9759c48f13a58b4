"""Boxes in pixels: detections as COCO results, ground truth as COCO or ILSVRC annotations.

Results are [{"image_id", "category_id", "bbox": [x, y, width, height], "score"}]; annotations are
{"images": [{"id", "file_name", "width", "height"}], "annotations": [{"image_id", "category_id",
"bbox"}]}, and for the names of classes "categories": [{"id", "name"}]. An image is known by its
number or by the path of its frame. Of ILSVRC's files, one for each frame, the classes' numbers are
their positions among those of the sets.

A box that stands out of its image is cut at the border.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.models import label_space
from robustness.video.average_precision import Boxes
from robustness.video.boxes import TOLERANCE, read_sizes
from robustness.video.boxes import read as read_boxes
from robustness.video.detection_entries import check_entries

TRUTH: json_files.Form = {
  'images': [{'id': (int, str), 'file_name': str, 'width?': float, 'height?': float}],
  'annotations': list,
  'categories?': [{'id': int, 'name': str}],
}


class Clipped(NamedTuple):
  """Boxes that stood out of their images by more than a pixel.

  Attributes:
    number: how many.
    first: names the first one; '' for none.
  """

  number: int
  first: str = ''


class Truth(NamedTuple):
  """Ground truth of F frames.

  Attributes:
    boxes: image is the position of a frame.
    sizes: float [F, 2], width and height in pixels; inf where no image says.
    places: {image number or path: position of the frame}.
    known: numbers and paths of all images of the file, also those of no frame.
    names: {class number: name}; empty where the file does not list its classes.
    clipped: boxes that were cut.
  """

  boxes: Boxes
  sizes: np.ndarray
  places: Mapping[Any, int]
  known: Collection[Any]
  names: Mapping[int, str]
  clipped: Clipped


class Detections(NamedTuple):
  """What a detector gave for frames.

  Attributes:
    boxes: with scores; image is the position of a frame.
    clipped: boxes that were cut.
  """

  boxes: Boxes
  clipped: Clipped


def read_truth(
  path: str | os.PathLike[str], frames: Sequence[str], class_names: Sequence[str] = ()
) -> Truth:
  """Reads ground truth; boxes of other frames are passed over.

  Args:
    path: a COCO file, or a folder of ILSVRC annotations.
    frames: paths, F of them.
    class_names: those of the sets, for ILSVRC's files, which know classes by name.

  Raises:
    InputError: no such file, no annotations, a frame without an image, an unknown class, or a box
      that is inverted, empty or wholly outside of its image.
  """
  if expanded(path).is_dir():
    return _from_folder(expanded(path), frames, class_names)
  document = json_files.read(expanded(path), TRUTH, 'Give COCO annotations.')
  position = {frame: index for index, frame in enumerate(frames)}
  places: dict[Any, int] = dict(position)
  sizes = np.full((len(frames), 2), np.inf)
  listed = set()
  for image in document['images']:
    index = position.get(image.get('file_name'))
    if index is not None:
      places[image['id']] = index
      listed.add(index)
      sizes[index] = image.get('width', np.inf), image.get('height', np.inf)
  _refuse([f for index, f in enumerate(frames) if index not in listed], frames, path)
  known = {image.get(key) for image in document['images'] for key in ('id', 'file_name')}
  names = {category['id']: category['name'] for category in document.get('categories', ())}
  entries = check_entries(document['annotations'], known, names, path, scored=False)
  boxes, clipped = _boxes(entries, places, sizes, frames, path)
  return Truth(boxes, sizes, places, known, names, clipped)


def _from_folder(folder: pathlib.Path, frames: Sequence[str], class_names: Sequence[str]) -> Truth:
  """Reads a folder of ILSVRC annotations."""
  known = read_sizes(folder, frames)
  _refuse([frame for frame in frames if frame not in known], frames, folder)
  sizes = np.array([known[frame] for frame in frames])
  boxes, clipped = read_boxes(folder, frames, label_space.words(class_names))
  flat = [(index, box) for index, frame in enumerate(frames) for box in boxes[frame]]
  image = np.array([index for index, _ in flat], int)
  edges = np.array([(b.x_min, b.y_min, b.x_max, b.y_max) for _, b in flat]).reshape(-1, 4)
  places = {frame: index for index, frame in enumerate(frames)}
  return Truth(
    Boxes(image, np.array([box.label for _, box in flat], int), edges * np.tile(sizes, 2)[image]),
    sizes,
    places,
    places.keys(),
    dict(enumerate(class_names)),
    Clipped(len(clipped), *map(repr, clipped[:1])),
  )


def _refuse(missing: Sequence[str], frames: Sequence[str], path: str | os.PathLike[str]) -> None:
  if missing:
    raise InputError(
      f'{path}: {len(missing)} of {len(frames)} frames are none of its images, '
      f'first {missing[0]!r}.'
    )


def read_detections(
  path: str | os.PathLike[str], truth: Truth, frames: Sequence[str]
) -> Detections:
  """Reads detections; those of other images of the ground truth are passed over.

  Raises:
    InputError: no such file, no list, an entry without one of the four keys, an image that the
      ground truth does not have, a class that it does not list, a score that is no number, or a box
      that is inverted, empty or wholly outside of its image.
  """
  advice = 'Give COCO results, a list of {"image_id", "category_id", "bbox", "score"}.'
  document = json_files.read(expanded(path), list, advice)
  entries = check_entries(document, truth.known, truth.names, path, scored=True)
  return Detections(*_boxes(entries, truth.places, truth.sizes, frames, path, scored=True))


def _boxes(
  entries: Sequence[Mapping[str, Any]],
  places: Mapping[Any, int],
  sizes: np.ndarray,
  frames: Sequence[str],
  path: str | os.PathLike[str],
  scored: bool = False,
) -> tuple[Boxes, Clipped]:
  """Returns the boxes of frames, each cut at the borders of its image."""
  kept = [number for number, entry in enumerate(entries) if entry['image_id'] in places]
  chosen = [entries[number] for number in kept]
  corners = np.array([entry['bbox'] for entry in chosen], float).reshape(len(chosen), 4)
  corners[:, 2:] += corners[:, :2]
  boxes = Boxes(
    np.array([places[entry['image_id']] for entry in chosen], int),
    np.array([entry['category_id'] for entry in chosen], int),
    corners,
    np.array([entry['score'] for entry in chosen], float) if scored else None,
  )

  def where(box: int) -> str:
    return f'entry {kept[box]} of {path} on {frames[boxes.image[box]]!r}'

  boxes.check(sizes, where)
  clipped, distance = boxes.clipped(sizes)
  far = np.flatnonzero(distance > TOLERANCE)
  first = f'{where(far[0])}, by {distance[far[0]]:g} pixels' if len(far) else ''
  return clipped, Clipped(len(far), first)
