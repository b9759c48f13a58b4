"""Boxes in pixels: detections as COCO results, ground truth as COCO or ILSVRC annotations.

Results are [{"image_id", "category_id", "bbox": [x, y, width, height], "score"}]; annotations are
{"images": [{"id", "file_name", "width", "height"}], "annotations": [{"image_id", "category_id",
"bbox"}]}, and for the names of classes "categories": [{"id", "name"}]. An image is known by its
number or by the path of its frame. Of ILSVRC's files, one for each frame, the classes' numbers are
their positions among those of the sets.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from robustness.core.errors import InputError
from robustness.labels import label_space
from robustness.metrics.detection import Boxes
from robustness.neighbor_sets.boxes import read as read_boxes
from robustness.neighbor_sets.boxes import read_sizes


class Truth(NamedTuple):
  """Ground truth of F frames.

  Attributes:
    boxes: image is the position of a frame.
    sizes: float [F, 2], width and height in pixels; inf where no image says.
    places: {image number or path: position of the frame}.
    names: {class number: name}, where the file tells.
  """

  boxes: Boxes
  sizes: np.ndarray
  places: Mapping[Any, int]
  names: Mapping[int, str]


def read_truth(
  path: str | os.PathLike[str], frames: Sequence[str], class_names: Sequence[str] = ()
) -> Truth:
  """Reads ground truth; boxes of other frames are passed over.

  Args:
    path: a COCO file, or a folder of ILSVRC annotations.
    frames: paths, F of them.
    class_names: those of the sets, for ILSVRC's files, which know classes by name.

  Raises:
    InputError: no such file, no annotations, a frame without an image, an unknown class, or a bad
      box.
  """
  if pathlib.Path(path).expanduser().is_dir():
    return _from_folder(pathlib.Path(path).expanduser(), frames, class_names)
  document = _load(path)
  if not isinstance(document, dict) or not {'images', 'annotations'} <= document.keys():
    raise InputError(
      f'{path} holds no annotations: give {{"images": [...], "annotations": [...]}}.'
    )
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
  known = {image['id'] for image in document['images']} | set(frames)
  boxes = _boxes(document['annotations'], places, known, path, scored=False)
  boxes.check(frames, sizes)
  names = {one['id']: one['name'] for one in document.get('categories', ())}
  return Truth(boxes, sizes, places, names)


def _from_folder(folder: pathlib.Path, frames: Sequence[str], class_names: Sequence[str]) -> Truth:
  """Reads a folder of ILSVRC annotations."""
  known = read_sizes(folder, frames)
  _refuse([frame for frame in frames if frame not in known], frames, folder)
  sizes = np.array([known[frame] for frame in frames])
  found = read_boxes(folder, frames, label_space.words(class_names))
  flat = [(index, box) for index, frame in enumerate(frames) for box in found[frame]]
  image = np.array([index for index, _ in flat], int)
  edges = np.array([(b.x_min, b.y_min, b.x_max, b.y_max) for _, b in flat]).reshape(-1, 4)
  boxes = Boxes(
    image, np.array([box.label for _, box in flat], int), edges * np.tile(sizes, 2)[image]
  )
  boxes.check(frames, sizes)
  return Truth(
    boxes, sizes, {frame: index for index, frame in enumerate(frames)}, dict(enumerate(class_names))
  )


def _refuse(missing: Sequence[str], frames: Sequence[str], path: str | os.PathLike[str]) -> None:
  if missing:
    raise InputError(
      f'{path}: {len(missing)} of {len(frames)} frames are none of its images, '
      f'first {missing[0]!r}.'
    )


def read_detections(path: str | os.PathLike[str], truth: Truth, frames: Sequence[str]) -> Boxes:
  """Reads detections; those of other images of the ground truth are passed over.

  Raises:
    InputError: no such file, no list, an entry without one of the four keys, an image number that
      is no frame's, or a bad box or score.
  """
  entries = _load(path)
  if not isinstance(entries, list):
    raise InputError(
      f'{path} holds a {type(entries).__name__}: give COCO results, a list of '
      '{"image_id", "category_id", "bbox", "score"}.'
    )
  boxes = _boxes(entries, truth.places, truth.places.keys(), path, scored=True)
  boxes.check(frames, truth.sizes)
  return boxes


def _boxes(
  entries: Sequence[Mapping[str, Any]],
  places: Mapping[Any, int],
  known: Any,
  path: str | os.PathLike[str],
  scored: bool,
) -> Boxes:
  keys = ('image_id', 'category_id', 'bbox', *(('score',) if scored else ()))
  for number, entry in enumerate(entries):
    lacking = [key for key in keys if key not in entry]
    if lacking:
      raise InputError(f'{path}: entry {number} has no {lacking[0]!r}; it needs {", ".join(keys)}.')
    if entry['image_id'] not in known:
      raise InputError(
        f'{path}: entry {number} is of image {entry["image_id"]!r}, which is no '
        'image of the ground truth.'
      )
    if len(entry['bbox']) != 4:
      raise InputError(
        f'{path}: entry {number} has bbox {entry["bbox"]!r}; give [x, y, width, height].'
      )
  kept = [entry for entry in entries if entry['image_id'] in places]
  corners = np.array([entry['bbox'] for entry in kept], float).reshape(len(kept), 4)
  corners[:, 2:] += corners[:, :2]
  return Boxes(
    np.array([places[entry['image_id']] for entry in kept], int),
    np.array([entry['category_id'] for entry in kept], int),
    corners,
    np.array([entry['score'] for entry in kept], float) if scored else None,
  )


def _load(path: str | os.PathLike[str]) -> Any:
  file = pathlib.Path(path).expanduser()
  if not file.is_file():
    raise InputError(f'{file} is no file: give boxes as COCO JSON.')
  try:
    return json.loads(file.read_text(encoding='utf-8'))
  except ValueError as error:
    raise InputError(f'{file} is truncated or no JSON ({error}).') from error
