"""Bounding boxes of objects in frames, from COCO's JSON files and ILSVRC's XML files.

COCO annotations: `images` (id, file_name, width, height), `annotations` (image_id, category_id,
bbox of x, y, width, height in pixels) and `categories` (id, name). COCO results, of a detector, are
[{"image_id", "category_id", "bbox", "score"}]. An image is named by its number or by the path of
its frame. ILSVRC: a folder with `<path of the frame>.xml`, one `object` (name, bndbox) for each
box; a class has its position among the classes of the sets as number.

A box that extends beyond its image is clipped at the border.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.models import label_space

BOX = {'image_id': (int, str), 'category_id': int, 'bbox': [float]}
"""Keys and types that an entry of a box must have in COCO's JSON."""
RESULTS: json_files.Form = [{**BOX, 'score': float}]
"""Form of COCO results: a list of scored boxes."""
TRUTH = {
  'images': [{'id': (int, str), 'file_name': str, 'width?': float, 'height?': float}],
  'annotations': [{**BOX, 'iscrowd?': int}],
  'categories?': [{'id': int, 'name': str}],
}
"""Form of COCO annotations for scoring; keys that end in '?' may be missing."""
COCO: json_files.Form = {
  **TRUTH,
  'images': [{'id': (int, str), 'file_name': str, 'width': float, 'height': float}],
  'categories': [{'id': int, 'name': str}],
}
"""Form of COCO annotations from which neighbor sets are built: sizes and classes are required."""
TOLERANCE = 1.0
"""Largest distance in pixels by which a box may extend beyond its image and is not counted as
clipped.
"""
Entries = Sequence[Mapping[str, Any]]
"""Boxes in COCO's JSON, checked against `RESULTS`, `TRUTH` or `COCO`."""


class Box(NamedTuple):
  """A labelled bounding box in a frame.

  Attributes:
    y_min, x_min, y_max, x_max: edges as fractions of height and width, 0 ≤ min < max ≤ 1.
    label: class index.
  """

  y_min: float
  x_min: float
  y_max: float
  x_max: float
  label: int


def read(
  path: Path, frames: Sequence[str], classes: Mapping[str, int]
) -> tuple[dict[str, list[Box]], Clipped]:
  """Reads annotated boxes of frames.

  Args:
    path: a COCO file, or a folder of ILSVRC annotations.
    frames: paths of frames.
    classes: {name or synonym of a class: class index}.

  Returns:
    {path of an annotated frame: its boxes}, and a summary of the boxes that were clipped.

  Raises:
    InputError: the file is missing or invalid, or a box is of none of the classes.
  """
  if not path.exists():
    raise InputError(f'{path} is missing: give a COCO .json file or a folder of ILSVRC .xml files.')
  document = _document(path, frames, classes, COCO, 'Give a COCO annotation file.')
  truth = _truth(document, frames, path)
  annotated = {image['file_name'] for image in document['images']}
  boxes: dict[str, list[Box]] = {frame: [] for frame in frames if frame in annotated}
  corners = truth.boxes.corners / np.tile(truth.sizes, 2)[truth.boxes.image]
  for image, category, (x0, y0, x1, y1) in zip(
    truth.boxes.image, truth.boxes.category.tolist(), corners.tolist(), strict=True
  ):
    name = truth.names.get(category, str(category))
    if name not in classes:
      raise InputError(
        f'{path}: {frames[image]} has an object of class {name!r}; {nearest(name, classes)}.'
      )
    boxes[frames[image]].append(Box(y0, x0, y1, x1, classes[name]))
  return boxes, truth.clipped


def _document(
  path: Path, frames: Iterable[str], classes: Mapping[str, int], form: json_files.Form, advice: str
) -> dict[str, Any]:
  """Returns annotations in COCO's form, from a COCO file or from a folder of ILSVRC's XML files.

  Args:
    path: the COCO file, or the folder, which has one file per frame; frames without one are
      skipped.
    frames: paths of frames, used for a folder.
    classes: {class name: class index}, used for a folder.
    form: the form that the COCO file must have.
    advice: how to get a file of this form, for the error.

  Raises:
    InputError: a file is invalid or has an object of an unknown class.
  """
  if not path.is_dir():
    document: dict[str, Any] = json_files.read(path, form, advice)
    _check_once(document, path)
    return document
  images, annotations = [], []
  for frame in frames:
    file = (path / frame).with_suffix('.xml')
    if not file.is_file():
      continue
    try:
      root = ElementTree.parse(file).getroot()
      size = {side: float(_text(root, f'size/{side}')) for side in ('width', 'height')}
      objects = [
        (
          [float(_text(node, f'bndbox/{edge}')) for edge in ('xmin', 'ymin', 'xmax', 'ymax')],
          _text(node, 'name'),
        )
        for node in root.iter('object')
      ]
    except (ElementTree.ParseError, ValueError) as error:
      raise InputError(f'{file} is no ILSVRC annotation ({error}).') from error
    for (x0, y0, x1, y1), name in objects:
      if name not in classes:
        raise InputError(f'{file} has an object of class {name!r}; {nearest(name, classes)}.')
      bbox = [x0, y0, x1 - x0, y1 - y0]
      annotations.append({'image_id': frame, 'category_id': classes[name], 'bbox': bbox})
    images.append({'id': frame, 'file_name': frame, **size})
  categories = [{'id': label, 'name': word} for word, label in classes.items()]
  return {'images': images, 'annotations': annotations, 'categories': categories}


def _check_once(document: Mapping[str, Sequence[Mapping[str, object]]], path: Path) -> None:
  """Raises InputError if two images share an id or file name, or two categories an id."""
  for part, key in (('images', 'id'), ('images', 'file_name'), ('categories', 'id')):
    values = Counter(entry[key] for entry in document.get(part, ()))
    value, count = values.most_common(1)[0] if values else ('', 0)
    if count > 1:
      raise InputError(
        f'{path} has {count} {part} of {key} {value!r}: give each a different {key}.'
      )


def _text(node: ElementTree.Element, place: str) -> str:
  """Returns the text of the element at a path below `node`; raises ValueError if there is none."""
  text = node.findtext(place)
  if text is None:
    raise ValueError(f'no {place}')
  return text.strip()


@dataclasses.dataclass(frozen=True)
class Boxes:
  """N boxes on F images.

  Attributes:
    image: int [N], index in [0, F) of each box's image.
    category: int [N], class of each box.
    corners: float [N, 4], x0, y0, x1, y1 in pixels.
    score: float [N], confidence of each detection; None for ground truth.
  """

  image: np.ndarray
  category: np.ndarray
  corners: np.ndarray
  score: np.ndarray | None = None

  def without_classes(self) -> Boxes:
    """Returns the boxes with class 0 throughout, so that only their position is scored."""
    return dataclasses.replace(self, category=np.zeros_like(self.category))

  def of_images(self, images: np.ndarray) -> Boxes:
    """Returns the boxes of some images, which are renumbered: `images[i]`, int [M], becomes image
    i.

    An image that is listed twice becomes two images with the same boxes.
    """
    order = np.argsort(self.image, kind='stable')
    starts, stops = (np.searchsorted(self.image[order], images, side) for side in ('left', 'right'))
    sizes = stops - starts
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = order[np.repeat(starts, sizes) + within]
    return Boxes(
      np.repeat(np.arange(len(images)), sizes),
      self.category[places],
      self.corners[places],
      None if self.score is None else self.score[places],
    )

  def clip(self, sizes: np.ndarray, name: Callable[[int], str]) -> tuple[Boxes, np.ndarray]:
    """Returns the boxes clipped at the borders of their images, and by how much they extended
    beyond.

    Args:
      sizes: float [F, 2], width and height of the images in pixels; inf if unknown.
      name: function from the index of a box to a description of it, for messages.

    Returns:
      The boxes, and the largest distance of an edge of each box beyond the border in pixels, float
      [N].

    Raises:
      InputError: a number is not finite, or a box is empty or wholly outside of its image.
    """
    x0, y0, x1, y1 = self.corners.T
    width, height = sizes[self.image].T
    scores = np.ones(len(self.image)) if self.score is None else self.score
    outside = 'are wholly outside of their images'
    for is_good, problem in (
      (np.isfinite(scores), 'have a score that is no finite number'),
      (np.isfinite(self.corners).all(1), 'have a coordinate that is no finite number'),
      ((x1 > x0) & (y1 > y0), 'are inverted or empty'),
      (np.minimum(x1, width) > np.maximum(x0, 0), outside),
      (np.minimum(y1, height) > np.maximum(y0, 0), outside),
    ):
      if not is_good.all():
        first = int(np.argmin(is_good))
        corners = ', '.join(f'{value:g}' for value in self.corners[first])
        score = '' if self.score is None else f', score {self.score[first]:g}'
        raise InputError(
          f'{int((~is_good).sum())} of {len(is_good)} boxes {problem}, first {name(first)}: '
          f'[{corners}] (x0, y0, x1, y1){score}.'
        )
    corners = np.clip(self.corners, 0, np.tile(sizes[self.image], 2))
    distance = np.abs(self.corners - corners).max(1, initial=0)
    return dataclasses.replace(self, corners=corners), distance


class Clipped(NamedTuple):
  """Summary of the boxes that extended beyond their images by more than `TOLERANCE`.

  Attributes:
    number: how many boxes.
    first: describes the first of them and its distance; '' if there is none.
  """

  number: int
  first: str = ''


class Truth(NamedTuple):
  """Ground truth of F frames.

  Attributes:
    boxes: the boxes; `boxes.image` is the index of a frame.
    clipped: summary of the boxes that were clipped.
    sizes: float [F, 2], width and height in pixels; inf if the file does not state them.
    places: {image id or path: index of the frame}.
    images: ids and paths of all images of the file, including images that are not frames.
    names: {category id: class name}; empty if the file does not list its classes.
  """

  boxes: Boxes
  clipped: Clipped
  sizes: np.ndarray
  places: Mapping[int | str, int]
  images: Collection[int | str]
  names: Mapping[int, str]


def read_truth(path: Path, frames: Sequence[str], class_names: Sequence[str] = ()) -> Truth:
  """Reads the ground truth of F frames; boxes of other images are skipped.

  Args:
    path: a COCO file, or a folder of ILSVRC annotations.
    frames: paths of the F frames.
    class_names: class names of the neighbor sets, by which ILSVRC's files name classes.

  Raises:
    InputError: a frame has no annotation, an entry is invalid, or a box is of a crowd (iscrowd 1).
  """
  document = _document(
    expanded(path), frames, label_space.words(class_names), TRUTH, 'Give COCO annotations.'
  )
  annotated = {image['file_name'] for image in document['images']}
  missing = [frame for frame in frames if frame not in annotated]
  if missing:
    raise InputError(
      f'{path}: {len(missing)} of {len(frames)} frames are none of its images, '
      f'first {missing[0]!r}.'
    )
  truth = _truth(document, frames, path)
  for number, entry in enumerate(document['annotations']):
    if entry.get('iscrowd') and entry['image_id'] in truth.places:
      raise InputError(
        f'{path}: entry {number} has iscrowd 1, and boxes of crowds are not scored: leave its '
        'frame out of the sets, or the entry, whose detections then count as wrong.'
      )
  return truth


def _truth(document: Mapping[str, Any], frames: Sequence[str], path: Path) -> Truth:
  """Returns the ground truth of frames from annotations in COCO's form; `path` is for messages."""
  places: dict[int | str, int] = {frame: index for index, frame in enumerate(frames)}
  position = dict(places)
  sizes = np.full((len(frames), 2), np.inf)
  for image in document['images']:
    index = position.get(image['file_name'])
    if index is not None:
      places[image['id']] = index
      sizes[index] = image.get('width', np.inf), image.get('height', np.inf)
  images = {image[key] for image in document['images'] for key in ('id', 'file_name')}
  names = {category['id']: category['name'] for category in document.get('categories', ())}
  _check_entries(document['annotations'], images, names, path)
  boxes, clipped = _boxes(document['annotations'], places, sizes, frames, path)
  return Truth(boxes, clipped, sizes, places, images, names)


def read_detections(path: Path, truth: Truth, frames: Sequence[str]) -> tuple[Boxes, Clipped]:
  """Reads the detections on frames, and returns them with a summary of those that were clipped.

  Args:
    path: a file of COCO results.
    truth: ground truth of the frames, which maps image ids to frames.
    frames: paths of the F frames.

  Raises:
    InputError: an entry is invalid, or of an image or class that the ground truth does not have.
  """
  advice = 'Give COCO results, a list of {"image_id", "category_id", "bbox", "score"}.'
  entries = json_files.read(expanded(path), RESULTS, advice)
  _check_entries(entries, truth.images, truth.names, path)
  return _boxes(entries, truth.places, truth.sizes, frames, path, has_scores=True)


def _check_entries(
  entries: Entries, images: Collection[int | str], names: Mapping[int, str], path: Path
) -> None:
  """Raises InputError if an entry has an unknown image or class, or a box without four numbers.

  Args:
    entries: the boxes.
    images: the valid image ids and paths.
    names: {category id: class name}; empty admits any class.
    path: the file of the entries, for messages.
  """
  for number, entry in enumerate(entries):
    image, category, bbox = entry['image_id'], entry['category_id'], entry['bbox']
    problem = ''
    if image not in images:
      problem = f'is of image {image!r}, which is no image of the ground truth.'
    elif names and category not in names:
      problem = (
        f'has category_id {category}, which is no class of the ground truth: it has '
        f'{len(names)} classes, {min(names)} to {max(names)}.'
      )
    elif len(bbox) != 4:
      problem = f'has bbox {bbox!r}; give [x, y, width, height].'
    if problem:
      raise InputError(f'{path}: entry {number} {problem}')


def _boxes(
  entries: Entries,
  places: Mapping[int | str, int],
  sizes: np.ndarray,
  frames: Sequence[str],
  path: Path,
  has_scores: bool = False,
) -> tuple[Boxes, Clipped]:
  """Returns the boxes of frames, clipped at the borders of their images, and a summary of clipping.

  Args:
    entries: boxes of any images; boxes of images that are not frames are skipped.
    places: {image id or path: index of the frame}.
    sizes: float [F, 2], width and height in pixels.
    frames: paths of the frames, for messages.
    path: the file of the entries, for messages.
    has_scores: whether the entries are detections, which have scores.
  """
  numbers = [number for number, entry in enumerate(entries) if entry['image_id'] in places]
  entries = [entries[number] for number in numbers]
  corners = np.array([entry['bbox'] for entry in entries], float).reshape(len(entries), 4)
  corners[:, 2:] += corners[:, :2]
  boxes = Boxes(
    np.array([places[entry['image_id']] for entry in entries], int),
    np.array([entry['category_id'] for entry in entries], int),
    corners,
    np.array([entry['score'] for entry in entries], float) if has_scores else None,
  )

  def name(box: int) -> str:
    return f'entry {numbers[box]} of {path} on {frames[boxes.image[box]]!r}'

  clipped, distance = boxes.clip(sizes, name)
  far = np.flatnonzero(distance > TOLERANCE)
  first = f'{name(far[0])}, by {distance[far[0]]:g} pixels' if len(far) else ''
  return clipped, Clipped(len(far), first)
