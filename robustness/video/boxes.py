"""Bounding boxes of objects in frames, from COCO's JSON files and ILSVRC's XML files.

COCO annotations have `images` (id, file_name, width, height), `annotations` (image_id, category_id,
bbox of x, y, width, height in pixels) and `categories` (id, name). COCO results, of a detector, are
[{"image_id", "category_id", "bbox", "score"}]. An image is named by its number or by the path of
its frame. ILSVRC annotations are a folder with a file `<path of the frame>.xml` for each frame,
with one `object` (name, bndbox) for each box; the number of a class is its position among the
classes of the neighbor sets.

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
import pandas as pd

from robustness.core import json_files
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.models import label_space

# Forms of JSON files, see `robustness.core.json_files`: ground truth (`COCO` for clips, with sizes
# and class names; `TRUTH` where both may be missing) and detections (`RESULTS`).
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
"""Largest distance in pixels that a box may extend beyond its image without counting as clipped.
"""
Entries = Sequence[Mapping[str, Any]]
"""Boxes in COCO's JSON, checked against `RESULTS`, `TRUTH` or `COCO`."""


class Box(NamedTuple):
  """A labelled bounding box in a video frame.

  Attributes:
    y_min, x_min, y_max, x_max: edges as fractions of the frame's height (y) and width (x), 0 ≤ min
      < max ≤ 1.
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
  """Reads the bounding boxes of video frames from COCO or ILSVRC annotations.

  Args:
    path: A COCO file, or a folder of ILSVRC annotations.
    frames: paths of frames.
    classes: {name or synonym of a class: class index}.

  Returns:
    {path of an annotated frame: its boxes}, and a summary of the boxes that were clipped. An
    annotated frame may have no box.

  Raises:
    InputError: The file is missing or invalid, or the class of a box is not in `classes`.
  """
  advice = 'Give a COCO .json file, or a folder of ILSVRC .xml files.'
  document = _read_document(path, frames, classes, COCO, advice)
  truth = _parse_truth(document, frames, path)
  annotated = {image['file_name'] for image in document['images']}
  boxes: dict[str, list[Box]] = {frame: [] for frame in frames if frame in annotated}
  sizes = truth.sizes[truth.boxes.image]  # width and height of each box's image, [N, 2]
  # x0, y0, x1, y1 as fractions of width, height, width, height.
  corners = truth.boxes.corners / np.tile(sizes, 2)
  for image, category, (x0, y0, x1, y1) in zip(
    truth.boxes.image, truth.boxes.category.tolist(), corners.tolist(), strict=True
  ):
    name = truth.names.get(category, str(category))
    if name not in classes:
      problem = f'{path}: {frames[image]} has an object of class {name!r}'
      raise InputError(f'{problem}; {nearest(name, classes)}.')
    boxes[frames[image]].append(Box(y_min=y0, x_min=x0, y_max=y1, x_max=x1, label=classes[name]))
  return boxes, truth.clipped


def _read_document(
  path: Path, frames: Iterable[str], classes: Mapping[str, int], form: json_files.Form, advice: str
) -> dict[str, Any]:
  """Reads annotations into COCO's JSON structure, from a COCO file or ILSVRC's XML files.

  Args:
    path: the COCO file, or the folder of ILSVRC files.
    frames: paths of frames, used for a folder.
    classes: {class name: class index}, used for a folder.
    form: Keys and types that the COCO file must have.
    advice: advice for the error message of an invalid COCO file.

  Raises:
    InputError: A file is invalid or has an object of an unknown class.
  """
  if path.is_dir():
    return _document_of_xml_files(path, frames, classes)
  document: dict[str, Any] = json_files.read(path, form, advice)
  _check_once(document, path)  # raises InputError for repeated ids or paths
  return document


def _document_of_xml_files(
  folder: Path, frames: Iterable[str], classes: Mapping[str, int]
) -> dict[str, Any]:
  """Converts ILSVRC's XML annotations to COCO's JSON structure, with frame paths as ids.

  Args:
    folder: folder of the XML files.
    frames: paths of frames; a frame without a file is skipped.
    classes: {class name: class index}.
  """
  images, annotations = [], []
  for frame in frames:
    file = (folder / frame).with_suffix('.xml')
    if not file.is_file():
      continue
    try:
      root = ElementTree.parse(file).getroot()
      size = {side: float(_text(root, f'size/{side}')) for side in ('width', 'height')}
      objects = []
      for node in root.iter('object'):
        edges = [_text(node, f'bndbox/{edge}') for edge in ('xmin', 'ymin', 'xmax', 'ymax')]
        objects.append(([float(edge) for edge in edges], _text(node, 'name')))
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
  """Raises InputError if an image id, image path or category id occurs twice in a COCO file.

  Args:
    document: the content of the file, with the lists 'images' and 'categories'.
    path: the file, for messages.
  """
  for kind, key in (('images', 'id'), ('images', 'file_name'), ('categories', 'id')):
    counts = Counter(entry[key] for entry in document.get(kind, ()))
    for value, count in counts.most_common(1):
      if count > 1:
        advice = f'give each a different {key}'
        raise InputError(f'{path} has {count} {kind} of {key} {value!r}: {advice}.')


def _text(node: ElementTree.Element, tag: str) -> str:
  """Returns the text of an XML element below a node.

  Args:
    node: the node.
    tag: path of the element, such as 'size/width'.

  Raises:
    ValueError: There is no such element.
  """
  text = node.findtext(tag)
  if text is None:
    raise ValueError(f'no {tag}')
  return text.strip()


@dataclasses.dataclass(frozen=True)
class Boxes:
  """N bounding boxes on F images: ground truth or detections.

  Attributes:
    image: int [N], index in [0, F) of each box's image.
    category: int [N], class number of each box.
    corners: float [N, 4], x0, y0, x1, y1 in pixels, from the left and the top of the image.
    score: float [N], confidence of each detection; None for ground truth.
  """

  image: np.ndarray
  category: np.ndarray
  corners: np.ndarray
  score: np.ndarray | None = None

  def without_classes(self) -> Boxes:
    """Sets the class of all boxes to 0, so that only their position is scored."""
    return dataclasses.replace(self, category=np.zeros_like(self.category))

  def of_images(self, images: np.ndarray) -> Boxes:
    """Selects the boxes on M listed images, in the order of the list.

    The `image` of a selected box is the position of its image in the list. If an image is listed
    twice, its boxes are returned twice.

    Args:
      images: indices in [0, F) of the listed images, int [M].
    """
    boxes_of = pd.Series(self.image).groupby(self.image).indices  # {image: positions of its boxes}
    no_boxes = np.zeros(0, int)
    boxes_by_image = [boxes_of.get(image, no_boxes) for image in images.tolist()]
    boxes = np.concatenate([no_boxes, *boxes_by_image])
    return Boxes(
      image=np.repeat(np.arange(len(images)), [len(members) for members in boxes_by_image]),
      category=self.category[boxes],
      corners=self.corners[boxes],
      score=None if self.score is None else self.score[boxes],
    )

  def clip(self, sizes: np.ndarray, name: Callable[[int], str]) -> tuple[Boxes, np.ndarray]:
    """Clips boxes at the borders of their images.

    Args:
      sizes: float [F, 2], width and height of the images in pixels; inf if unknown.
      name: function from the index of a box to a description for messages.

    Returns:
      The clipped boxes, and how far each extended beyond its image in pixels, float [N].

    Raises:
      InputError: A number is not finite, or a box is empty or wholly outside its image.
    """
    self._check(sizes, name)
    corners = np.clip(self.corners, 0, np.tile(sizes[self.image], 2))  # x1 and y1 like x0 and y0
    distance = np.abs(self.corners - corners).max(1, initial=0)
    return dataclasses.replace(self, corners=corners), distance

  def _check(self, sizes: np.ndarray, name: Callable[[int], str]) -> None:
    """Raises InputError for boxes that are not finite, empty, or wholly outside their images.

    Args:
      sizes: float [F, 2], width and height of the images in pixels; inf if unknown.
      name: function from the index of a box to a description for messages.
    """
    x0, y0, x1, y1 = self.corners.T
    width, height = sizes[self.image].T
    scores = np.ones(len(self.image)) if self.score is None else self.score
    outside = 'are wholly outside of their images'
    for is_valid, problem in (  # bool [N] each
      (np.isfinite(scores), 'have a score that is no finite number'),
      (np.isfinite(self.corners).all(1), 'have a coordinate that is no finite number'),
      ((x1 > x0) & (y1 > y0), 'are inverted or empty'),
      (np.minimum(x1, width) > np.maximum(x0, 0), outside),
      (np.minimum(y1, height) > np.maximum(y0, 0), outside),
    ):
      if not is_valid.all():
        first = int(np.argmin(is_valid))
        corners = ', '.join(f'{value:g}' for value in self.corners[first])
        score = '' if self.score is None else f', score {self.score[first]:g}'
        raise InputError(
          f'{int((~is_valid).sum())} of {len(is_valid)} boxes {problem}, first {name(first)}: '
          f'[{corners}] (x0, y0, x1, y1){score}.'
        )


class Clipped(NamedTuple):
  """A summary of bounding boxes that were clipped at the border of their image.

  Attributes:
    number: number of boxes that extended beyond their images by more than `TOLERANCE` pixels.
    first: description of the first of these boxes; '' if there is none.
  """

  number: int
  first: str = ''


class Truth(NamedTuple):
  """Ground-truth bounding boxes of F video frames.

  Attributes:
    boxes: the boxes; `boxes.image` is the index of a frame.
    clipped: summary of the boxes that were clipped.
    sizes: float [F, 2], width and height in pixels; inf if the file does not state them.
    frame_of_image: {id of an image in the file, or path of its frame: index of the frame}.
    image_names: ids and paths of all images of the file, also of images that are not frames.
    names: {class number: name}; empty if the file does not list its classes.
  """

  boxes: Boxes
  clipped: Clipped
  sizes: np.ndarray
  frame_of_image: Mapping[int | str, int]
  image_names: Collection[int | str]
  names: Mapping[int, str]


def read_truth(path: Path, frames: Sequence[str], class_names: Sequence[str] = ()) -> Truth:
  """Reads the ground-truth boxes of F video frames; other images are skipped.

  Args:
    path: A COCO file, or a folder of ILSVRC annotations.
    frames: paths of the F frames.
    class_names: names of the classes, needed for ILSVRC annotations.

  Raises:
    InputError: A frame has no annotation, an entry is invalid, or a box is of a crowd (iscrowd 1).
  """
  classes = label_space.index_by_name(class_names)
  document = _read_document(expanded(path), frames, classes, TRUTH, 'Give COCO annotations.')
  annotated = {image['file_name'] for image in document['images']}
  missing = [frame for frame in frames if frame not in annotated]
  if missing:
    problem = f'{len(missing)} of {len(frames)} frames are none of its images'
    raise InputError(f'{path}: {problem}, first {missing[0]!r}.')
  truth = _parse_truth(document, frames, path)
  for number, entry in enumerate(document['annotations']):
    if entry.get('iscrowd') and entry['image_id'] in truth.frame_of_image:
      raise InputError(
        f'{path}: entry {number} has iscrowd 1, and boxes of crowds are not scored: leave its '
        'frame out of the sets, or the entry, whose detections then count as wrong.'
      )
  return truth


def _parse_truth(document: Mapping[str, Any], frames: Sequence[str], path: Path) -> Truth:
  """Extracts the ground-truth boxes of F video frames from COCO annotations.

  Args:
    document: the annotations, checked to have the structure `TRUTH`. Boxes of other images are
      skipped.
    frames: paths of the F frames.
    path: the file of the annotations, for messages.
  """
  index_of_frame = {frame: index for index, frame in enumerate(frames)}
  # entries of boxes name an image by its path, or by its id, which is added below
  frame_of_image: dict[int | str, int] = dict(index_of_frame.items())
  sizes = np.full((len(frames), 2), np.inf)
  image_names: set[int | str] = set()
  for image in document['images']:
    image_names |= {image['id'], image['file_name']}
    index = index_of_frame.get(image['file_name'])
    if index is not None:
      frame_of_image[image['id']] = index
      sizes[index] = image.get('width', np.inf), image.get('height', np.inf)
  names = {category['id']: category['name'] for category in document.get('categories', ())}
  _check_entries(document['annotations'], image_names, names, path)
  boxes, clipped = _parse_boxes(document['annotations'], frame_of_image, sizes, frames, path)
  return Truth(boxes, clipped, sizes, frame_of_image, image_names, names)


def read_detections(path: Path, truth: Truth, frames: Sequence[str]) -> tuple[Boxes, Clipped]:
  """Reads detections on F video frames from a file of COCO results.

  Args:
    path: the file; detections on other images are skipped.
    truth: ground truth of the frames.
    frames: paths of the F frames.

  Returns:
    The detected boxes, and a summary of the boxes that were clipped.
  """
  advice = 'Give COCO results, a list of {"image_id", "category_id", "bbox", "score"}.'
  entries = json_files.read(expanded(path), RESULTS, advice)
  _check_entries(entries, truth.image_names, truth.names, path)
  return _parse_boxes(entries, truth.frame_of_image, truth.sizes, frames, path, has_scores=True)


def _check_entries(
  entries: Entries, image_names: Collection[int | str], names: Mapping[int, str], path: Path
) -> None:
  """Raises InputError for a box with an unknown image or class, or without four numbers.

  Args:
    entries: boxes as in COCO's JSON.
    image_names: ids and paths of the known images.
    names: {number of a known class: its name}; {} allows any class.
    path: the file of the boxes, for messages.
  """
  for number, entry in enumerate(entries):
    image, category, bbox = entry['image_id'], entry['category_id'], entry['bbox']
    problem = ''
    if image not in image_names:
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


def _parse_boxes(
  entries: Entries,
  frame_of_image: Mapping[int | str, int],
  sizes: np.ndarray,
  frames: Sequence[str],
  path: Path,
  has_scores: bool = False,
) -> tuple[Boxes, Clipped]:
  """Converts boxes from COCO's JSON, and clips them at the borders of their images.

  Args:
    entries: boxes as in COCO's JSON.
    frame_of_image: {id or path of an image: index of the frame}; boxes of other images are skipped.
    sizes: float [F, 2], width and height of the frames in pixels; inf if unknown.
    frames: paths of the F frames.
    path: file of the boxes, for messages.
    has_scores: whether the boxes are detections with scores.

  Returns:
    The boxes, and a summary of the clipped ones.
  """
  # the numbers of the entries on the F frames
  numbers = [number for number, entry in enumerate(entries) if entry['image_id'] in frame_of_image]
  on_frames = [entries[number] for number in numbers]
  # `reshape` makes [0, 4] of no boxes
  corners = np.array([entry['bbox'] for entry in on_frames], float).reshape(len(on_frames), 4)
  corners[:, 2:] += corners[:, :2]  # from x, y, width, height to x0, y0, x1, y1
  boxes = Boxes(
    image=np.array([frame_of_image[entry['image_id']] for entry in on_frames], int),
    category=np.array([entry['category_id'] for entry in on_frames], int),
    corners=corners,
    score=np.array([entry['score'] for entry in on_frames], float) if has_scores else None,
  )

  def name(box: int) -> str:
    """Describes the box with an index, as in 'entry 7 of boxes.json on clip/4.png'."""
    return f'entry {numbers[box]} of {path} on {frames[boxes.image[box]]!r}'

  inside, distance = boxes.clip(sizes, name)
  clipped = np.flatnonzero(distance > TOLERANCE)
  first = f'{name(clipped[0])}, by {distance[clipped[0]]:g} pixels' if len(clipped) else ''
  return inside, Clipped(len(clipped), first)
