"""Pictures of anchors and of the frames on which a detector is worst, with boxes."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.pictures import read_rgb
from robustness.present import charts, style
from robustness.present.images import show
from robustness.present.notation import number
from robustness.results import Results
from robustness.video.average_precision import DetectionScores, match
from robustness.video.boxes import Boxes
from robustness.video.metadata import NeighborSets, frame_number

MAX_SIDE = 480
"""Largest side of a picture in pixels."""
MIN_SCORE = 0.5
"""Smallest score of detections that are drawn."""
HIT, MISS, OBJECT = 'true positive', 'false positive', 'ground truth'
"""Kinds of boxes in pictures."""
LOOKS = {HIT: (style.COLOURS[2], '-'), MISS: (style.COLOURS[1], '--'), OBJECT: ('white', ':')}
"""{kind of box: (colour, line style)}."""


class ScoredBoxes(NamedTuple):
  """True and detected boxes of a detector, with the average precisions computed from them.

  Attributes:
    scores: average precisions of the detector.
    truth: ground-truth boxes.
    boxes: detected boxes.
    names: {class number: name}; when only localisation is scored, all boxes have class 0.
    threshold: smallest intersection over union of a true positive, in (0, 1].
  """

  scores: DetectionScores
  truth: Boxes
  boxes: Boxes
  names: Mapping[int, str]
  threshold: float = 0.5


def pictures(
  sets: NeighborSets, scored: ScoredBoxes, folder: str | os.PathLike[str], count: int
) -> dict[str, np.ndarray]:
  """Returns images and boxes of the anchors and worst frames where a detector drops most.

  The drop of a set is the average precision (AP) on its anchor minus that on its worst frame.

  Args:
    sets: the neighbor sets.
    scored: true and detected boxes, with the scores of the detector.
    folder: folder of the frames.
    count: largest number of sets to return. Sets without a drop are left out.

  Returns:
    A dictionary of arrays for E images with N true and M detected boxes; {} if no set has a drop.
    Images alternate between anchor (labelled frame) and worst frame, from the largest drop on.

    * `image_<e>`: image e, uint8 [H, W, 3].
    * `frame`: paths of the frames, [E].
    * `offset`: frame number minus the anchor's frame number, int [E].
    * `precision`: AP on each frame alone, float [E].
    * `truth`: true boxes, float [N, 6], with the columns image, class, x0, y0, x1, y1 (pixels).
    * `found`: detected boxes, float [M, 8], with the same columns, the score, and 1 for a true
      positive or 0.
    * `class`, `class_name`: numbers and names of the C classes of all boxes, [C].
  """
  precision = scored.scores.per_image
  # The drop of each set; 0 where no precision is defined, so that the set is not drawn.
  drop = np.nan_to_num(precision[sets.anchors] - precision[scored.scores.frames])
  num_drawn = min(count, int((drop > 0).sum()))
  if not num_drawn:
    return {}
  groups = np.argsort(-drop, kind='stable')[:num_drawn]  # numbers of the drawn sets
  worst_frames = scored.scores.frames[groups]
  frames = np.stack([sets.anchors[groups], worst_frames], 1).ravel()  # anchor, worst, anchor, ...
  paths = [sets.frames[frame] for frame in frames]
  images_and_scales = [_picture(folder, path) for path in paths]
  images, scales = zip(*images_and_scales, strict=True)
  truth, detections = scored.truth.of_images(frames), scored.boxes.of_images(frames)
  matches = match(truth, detections, len(frames), scored.threshold)
  right = np.zeros(len(detections.image), bool)  # also of detections that were not scored
  right[matches.index] = matches.right
  numbers = [frame_number(path) for path in paths]
  offsets = np.subtract(numbers, np.repeat(numbers[::2], 2))  # from the anchor, at even indices
  classes = np.union1d(truth.category, detections.category)
  return {
    **{f'image_{index}': image for index, image in enumerate(images)},
    'frame': np.array(paths),
    'offset': offsets,
    'precision': precision[frames],
    'truth': _table(truth, np.array(scales)),
    'found': np.column_stack([_table(detections, np.array(scales)), right]),
    'class': classes,
    'class_name': np.array([scored.names.get(number, str(number)) for number in classes.tolist()]),
  }


def _table(boxes: Boxes, scales: np.ndarray) -> np.ndarray:
  """Returns a table of N boxes, float [N, 6], or [N, 7] for boxes with scores.

  The columns are image, class, x0, y0, x1, y1 and score.

  Args:
    boxes: the boxes.
    scales: factor that multiplies the corners on each image, [number of images].
  """
  score = () if boxes.score is None else (boxes.score,)
  corners = boxes.corners * scales[boxes.image][:, None]
  return np.column_stack([boxes.image, boxes.category, corners, *score]).astype(float)


def _picture(folder: str | os.PathLike[str], path: str) -> tuple[np.ndarray, float]:
  """Returns a frame shrunk to at most `MAX_SIDE` pixels a side, and the factor of shrinking.

  The picture is uint8 [H, W, 3]. The factor is in (0, 1], 1 for a frame that is small enough.

  Args:
    folder: folder of the frames.
    path: path of the frame, relative to the folder.
  """
  root = expanded(folder).resolve()
  file = (root / path).resolve()
  if not file.is_relative_to(root) or not os.path.isfile(file):
    fix = 'give --frames the folder in which the paths of the metadata begin'
    raise InputError(f'frame {path!r} is no file in {root}: {fix}.')
  image = read_rgb(file)
  scale = min(1.0, MAX_SIDE / max(image.size))
  size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
  return np.asarray(image.resize(size, Image.Resampling.BICUBIC)), scale


def draw(results: Results) -> dict[str, charts.Picture]:
  """Draws the figures of `robustness detection`, as `{name: (figure, caption)}`.

  They show the table of results and, if `results` has arrays from `pictures`, frames with boxes:
  'detection_pictures' and 'localisation_pictures'.
  """
  figures = charts.draw(results)
  kinds = [name.removesuffix('/frame') for name in results.arrays if name.endswith('/frame')]
  for kind in kinds:
    names = [name for name in results.arrays if name.startswith(f'{kind}/')]
    stored = {name.removeprefix(f'{kind}/'): results.arrays[name] for name in names}
    figures[f'{kind}_pictures'] = (
      gallery(stored),
      f'{kind.capitalize()}: anchors above the worst frames of their sets, where the average '
      'precision (AP) of the frame alone falls most; detections with a score from '
      f'{MIN_SCORE:g} on, and ground truth.',
    )
  return figures


@style.in_style
def gallery(stored: Mapping[str, np.ndarray]) -> Figure:
  """Draws anchors above their worst frames, with true and detected boxes (the paper's Figure 4).

  Detections with a score below `MIN_SCORE` are left out.

  Args:
    stored: images and boxes, as returned by `pictures`.
  """
  names = dict(zip(stored['class'].tolist(), stored['class_name'].tolist(), strict=True))
  columns = len(stored['frame']) // 2
  height, width = stored['image_0'].shape[:2]
  cell_width = style.PAGE_WIDTH / max(columns, 2)  # in inches; one set takes half a page
  cell_height = cell_width * height / width + 0.2  # with its title
  # 0.3 inches more for the legend
  figure = Figure(figsize=(cell_width * columns, 2 * cell_height + 0.3), layout='constrained')
  grid = figure.subplots(2, columns, squeeze=False)
  for index, axes in enumerate(grid.T.flat):  # column by column: an anchor, then its worst frame
    show(axes, stored[f'image_{index}'])
    axes.set_axis_off()
    is_worst_frame = index % 2 == 1
    frame_name = f'offset {number(stored["offset"][index])}' if is_worst_frame else 'anchor'
    axes.set_title(f'{frame_name}, AP {style.percent(stored["precision"][index])}')
    # The boxes of all pictures are in one table each, with a column for the picture.
    for image, _, *corners in stored['truth']:
      if image == index:
        _draw_box(axes, corners, OBJECT, '')
    for image, category, *corners, score, is_right in stored['found']:
      if image == index and score >= MIN_SCORE:
        text = f'{names[int(category)]} {score:.2f}'
        _draw_box(axes, corners, HIT if is_right else MISS, text)
  handles = [
    style.dashed(name, dashes, color='0.6' if name == OBJECT else colour)
    for name, (colour, dashes) in LOOKS.items()
  ]
  figure.legend(handles=handles, loc='outside lower center', ncols=3)
  return figure


def _draw_box(axes: Axes, corners: Sequence[float], kind: str, text: str) -> None:
  """Draws the outline of a box in the look of its kind, with a text above it.

  Args:
    axes: the axes of the picture.
    corners: x0, y0, x1, y1 in pixels.
    kind: a key of `LOOKS`.
    text: the text; '' for none.
  """
  x0, y0, x1, y1 = corners
  colour, dashes = LOOKS[kind]
  frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, linewidth=1.4)
  frame.set(edgecolor=colour, linestyle=dashes)
  axes.add_patch(frame)
  around = {'facecolor': colour, 'edgecolor': 'none', 'pad': 0.6}
  if text:
    axes.text(x0, y0, text, fontsize=5, color='white', va='bottom', bbox=around)
