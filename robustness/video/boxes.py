"""Bounding boxes of objects in frames, from COCO's JSON and from ILSVRC's XML beside the frames.

COCO annotations: `images` (id, file_name, width, height), `annotations` (image_id, category_id,
bbox of x, y, width, height in pixels) and `categories` (id, name). COCO results, of a detector, are
[{"image_id", "category_id", "bbox", "score"}]. An image is known by its number or by the path of
its frame. ILSVRC: a folder with `<path of the frame>.xml`, one `object` (name, bndbox) for each
box; the classes' numbers are their positions among those of the sets.

A box that stands out of its image is cut at the border.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict
from xml.etree import ElementTree

import numpy as np

from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.models import label_space

COCO: json_files.Form = {
  'images': [{'id': (int, str), 'file_name': str, 'width': float, 'height': float}],
  'categories': [{'id': (int, str), 'name': str}],
  'annotations': [{'image_id': (int, str), 'category_id': (int, str), 'bbox': [float]}],
}
BOX = {'image_id': (int, str), 'category_id': int, 'bbox': [float]}
FOUND: json_files.Form = [{**BOX, 'score': float}]
TRUTH: json_files.Form = {
  'images': [{'id': (int, str), 'file_name': str, 'width?': float, 'height?': float}],
  'annotations': [{**BOX, 'iscrowd?': int}],
  'categories?': [{'id': int, 'name': str}],
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


class _Annotated(NamedTuple):
  """An annotated image: width and height in pixels, boxes, and which of them were cut."""

  size: tuple[float, float]
  boxes: list[Box]
  clipped: list[bool]

  def add(self, edges: Sequence[float], name: object, classes: Mapping[str, int], at: str) -> None:
    """Adds a box of x_min, y_min, x_max, y_max in pixels as fractions, cut at the image's borders.

    `classes` has the position of a class by every word for it; `at` names the frame in messages.
    """
    if name not in classes:
      raise InputError(f'{at} has an object of class {name!r}; {nearest(str(name), classes)}.')
    (x_min, y_min, x_max, y_max), (width, height) = edges, self.size
    inside = max(x_min, 0) < min(x_max, width) and max(y_min, 0) < min(y_max, height)
    if not (x_min < x_max and y_min < y_max and inside):
      raise InputError(
        f'{at}: box x {x_min:g}..{x_max:g}, y {y_min:g}..{y_max:g} in an image of '
        f'{width:g} × {height:g} pixels is inverted, empty or wholly outside of it.'
      )
    self.clipped.append(max(-x_min, -y_min, x_max - width, y_max - height) > TOLERANCE)
    low = max(y_min, 0.0) / height, max(x_min, 0.0) / width
    high = min(y_max / height, 1.0), min(x_max / width, 1.0)
    self.boxes.append(Box(*low, *high, classes[str(name)]))


def read(
  path: Path, frames: Iterable[str], classes: Mapping[str, int]
) -> tuple[dict[str, list[Box]], tuple[str, ...]]:
  """Returns the boxes of frames where they are known, and the frame of each box that was cut.

  Cut are boxes that stand out of their image by more than `TOLERANCE`.

  Args:
    path: a COCO file, or a folder of ILSVRC annotations.
    frames: paths of frames.
    classes: the position of a class by every word for it.
  """
  if path.is_dir():
    known = _from_xml(path, frames, classes)
  elif path.is_file():
    annotated = _from_coco(path, classes)
    known = {frame: annotated[frame] for frame in frames if frame in annotated}
  else:
    raise InputError(f'{path} is missing: give a COCO .json file or a folder of ILSVRC .xml files.')
  clipped = (frame for frame, image in known.items() for was_cut in image.clipped if was_cut)
  return {frame: image.boxes for frame, image in known.items()}, tuple(clipped)


def _from_coco(path: Path, classes: Mapping[str, int]) -> dict[str, _Annotated]:
  document = json_files.read(path, COCO, 'Give a COCO annotation file.')
  _check_once(document, path)
  images = {image['id']: image for image in document['images']}
  names = {category['id']: category['name'] for category in document['categories']}
  known = {i['file_name']: _Annotated((i['width'], i['height']), [], []) for i in images.values()}
  for number, annotation in enumerate(document['annotations']):
    try:
      frame = images[annotation['image_id']]['file_name']
      x, y, width, height = map(float, annotation['bbox'])
      name = names[annotation['category_id']]
    except (KeyError, ValueError) as error:
      why = f'{type(error).__name__}: {error}'
      raise InputError(f'{path} is no COCO annotation file ({why}).') from error
    edges = x, y, x + width, y + height
    known[frame].add(edges, name, classes, f'{path}, entry {number}, {frame}')
  return known


def _check_once(document: Mapping[str, Sequence[Mapping[str, object]]], path: Path) -> None:
  """Refuses images and categories of which two have one number or path."""
  for part, key in (('images', 'id'), ('images', 'file_name'), ('categories', 'id')):
    values = Counter(entry[key] for entry in document.get(part, ()))
    value, count = values.most_common(1)[0] if values else ('', 0)
    if count > 1:
      raise InputError(f'{path} has {count} {part} of {key} {value!r}: give each one of its own.')


def _from_xml(
  folder: Path, frames: Iterable[str], classes: Mapping[str, int]
) -> dict[str, _Annotated]:
  known = {}
  for frame in frames:
    file = (folder / frame).with_suffix('.xml')
    if not file.is_file():
      continue
    try:
      root = ElementTree.parse(file).getroot()
      height, width = (float(_text(root, f'size/{side}')) for side in ('height', 'width'))
      objects = [
        (
          [float(_text(node, f'bndbox/{edge}')) for edge in ('xmin', 'ymin', 'xmax', 'ymax')],
          _text(node, 'name'),
        )
        for node in root.iter('object')
      ]
    except (ElementTree.ParseError, ValueError) as error:
      raise InputError(f'{file} is no ILSVRC annotation ({error}).') from error
    known[frame] = _Annotated((width, height), [], [])
    for edges, name in objects:
      known[frame].add(edges, name, classes, str(file))
  return known


def _text(node: ElementTree.Element, place: str) -> str:
  text = node.findtext(place)
  if text is None:
    raise ValueError(f'no {place}')
  return text.strip()


@dataclasses.dataclass(frozen=True)
class Boxes:
  """N boxes on F images.

  Attributes:
    image: int [N], position of each box's image.
    category: int [N].
    corners: float [N, 4]: x0, y0, x1, y1 in pixels.
    score: float [N]; None for ground truth.
  """

  image: np.ndarray
  category: np.ndarray
  corners: np.ndarray
  score: np.ndarray | None = None

  def without_classes(self) -> Boxes:
    """Returns the boxes as of one class, for localisation."""
    return dataclasses.replace(self, category=np.zeros_like(self.category))

  def of_images(self, images: np.ndarray) -> Boxes:
    """Returns the boxes of some images; each becomes an image of its own, in that order."""
    order = np.argsort(self.image, kind='stable')
    starts, stops = (np.searchsorted(self.image[order], images, side) for side in ('left', 'right'))
    sizes = stops - starts
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = order[np.repeat(starts, sizes) + within]
    return Boxes(
      np.repeat(np.arange(len(images)), sizes),
      self.category[kept],
      self.corners[kept],
      None if self.score is None else self.score[kept],
    )

  def cut(self, sizes: np.ndarray, where: Callable[[int], str]) -> tuple[Boxes, np.ndarray]:
    """Returns the boxes cut at the borders of their images, and by how much each stood out.

    Args:
      sizes: [F, 2], width and height of the images in pixels; inf where unknown.
      where: names the box at a position, for messages.

    Returns:
      The boxes, and the largest distance of an edge beyond its border, pixels, float [N].
    """
    x0, y0, x1, y1 = self.corners.T
    width, height = sizes[self.image].T
    scores = np.ones(len(self.image)) if self.score is None else self.score
    outside = 'lie wholly outside of their images'
    for good, what in (
      (np.isfinite(scores), 'have a score that is no finite number'),
      (np.isfinite(self.corners).all(1), 'have a coordinate that is no finite number'),
      ((x1 > x0) & (y1 > y0), 'are inverted or empty'),
      (np.minimum(x1, width) > np.maximum(x0, 0), outside),
      (np.minimum(y1, height) > np.maximum(y0, 0), outside),
    ):
      if not good.all():
        first = int(np.argmin(good))
        corners = ', '.join(f'{value:g}' for value in self.corners[first])
        score = '' if self.score is None else f', score {self.score[first]:g}'
        raise InputError(
          f'{int((~good).sum())} of {len(good)} boxes {what}, first {where(first)}: '
          f'[{corners}] (x0, y0, x1, y1){score}.'
        )
    corners = np.clip(self.corners, 0, np.tile(sizes[self.image], 2))
    distance = np.abs(self.corners - corners).max(1, initial=0)
    return dataclasses.replace(self, corners=corners), distance


class CocoBox(TypedDict):
  """A box in COCO's JSON; the score is a detection's, and `iscrowd` of the ground truth."""

  image_id: int | str
  category_id: int
  bbox: list[float]
  score: float
  iscrowd: NotRequired[int]


class Clipped(NamedTuple):
  """How many boxes stood out of their images by more than `TOLERANCE`, and what names the first."""

  number: int
  first: str = ''


class Truth(NamedTuple):
  """Ground truth of F frames.

  Attributes:
    boxes: image is the position of a frame.
    clipped: boxes that were cut.
    sizes: float [F, 2], width and height in pixels; inf where no image says.
    places: {image number or path: position of the frame}.
    known: numbers and paths of all images of the file, also those of no frame.
    names: {class number: name}; empty where the file does not list its classes.
  """

  boxes: Boxes
  clipped: Clipped
  sizes: np.ndarray
  places: Mapping[int | str, int]
  known: Collection[int | str]
  names: Mapping[int, str]


def read_truth(path: Path, frames: Sequence[str], class_names: Sequence[str] = ()) -> Truth:
  """Reads ground truth; boxes of other frames are passed over.

  Args:
    path: a COCO file, or a folder of ILSVRC annotations.
    frames: paths, F of them.
    class_names: those of the sets, for ILSVRC's files, which know classes by name.
  """
  places: dict[int | str, int] = {frame: index for index, frame in enumerate(frames)}
  if expanded(path).is_dir():
    annotated = _from_xml(expanded(path), frames, label_space.words(class_names))
    _require_images(annotated, frames, path)
    sizes = np.array([annotated[frame].size for frame in frames])
    flat = [(index, box) for index, frame in enumerate(frames) for box in annotated[frame].boxes]
    image = np.array([index for index, _ in flat], int)
    edges = np.array([(b.x_min, b.y_min, b.x_max, b.y_max) for _, b in flat]).reshape(-1, 4)
    labels = np.array([box.label for _, box in flat], int)
    clipped = [frame for frame in frames for was_cut in annotated[frame].clipped if was_cut]
    return Truth(
      Boxes(image, labels, edges * np.tile(sizes, 2)[image]),
      Clipped(len(clipped), *map(repr, clipped[:1])),
      sizes,
      places,
      places,
      dict(enumerate(class_names)),
    )
  document = json_files.read(expanded(path), TRUTH, 'Give COCO annotations.')
  _check_once(document, path)
  position, sizes = dict(places), np.full((len(frames), 2), np.inf)
  for image in document['images']:
    index = position.get(image['file_name'])
    if index is not None:
      places[image['id']] = index
      sizes[index] = image.get('width', np.inf), image.get('height', np.inf)
  _require_images({image['file_name'] for image in document['images']}, frames, path)
  known = {image[key] for image in document['images'] for key in ('id', 'file_name')}
  names = {category['id']: category['name'] for category in document.get('categories', ())}
  entries = document['annotations']
  _check_entries(entries, known, names, path)
  for number, entry in enumerate(entries):
    if entry.get('iscrowd') and entry['image_id'] in places:
      raise InputError(
        f'{path}: entry {number} has iscrowd 1, and boxes of crowds are not scored: leave its '
        'frame out of the sets, or the entry, whose detections then count as wrong.'
      )
  return Truth(*_pixels(entries, places, sizes, frames, path), sizes, places, known, names)


def _require_images(known: Collection[str], frames: Sequence[str], path: Path) -> None:
  missing = [frame for frame in frames if frame not in known]
  if missing:
    raise InputError(
      f'{path}: {len(missing)} of {len(frames)} frames are none of its images, '
      f'first {missing[0]!r}.'
    )


def read_detections(path: Path, truth: Truth, frames: Sequence[str]) -> tuple[Boxes, Clipped]:
  """Reads detections, and which were cut; those of other images of the truth are passed over."""
  advice = 'Give COCO results, a list of {"image_id", "category_id", "bbox", "score"}.'
  entries = json_files.read(expanded(path), FOUND, advice)
  _check_entries(entries, truth.known, truth.names, path)
  return _pixels(entries, truth.places, truth.sizes, frames, path, scored=True)


def _check_entries(
  entries: Sequence[CocoBox], images: Collection[int | str], names: Mapping[int, str], path: Path
) -> None:
  """Refuses entries on unknown images or of unknown classes; without names any class passes."""
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


def _pixels(
  entries: Sequence[CocoBox],
  places: Mapping[int | str, int],
  sizes: np.ndarray,
  frames: Sequence[str],
  path: Path,
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

  cut, distance = boxes.cut(sizes, where)
  far = np.flatnonzero(distance > TOLERANCE)
  first = f'{where(far[0])}, by {distance[far[0]]:g} pixels' if len(far) else ''
  return cut, Clipped(len(far), first)
