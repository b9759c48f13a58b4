"""Pictures of anchors and of the frames on which a detector is worst, with boxes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
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
from robustness.video.metadata import NeighborSets

MAX_SIDE = 480  # pixels
"""Largest side of a picture in pixels."""
MIN_SCORE = 0.5
"""Smallest score of detections that are drawn."""
HIT, MISS, OBJECT = 'true positive', 'false positive', 'ground truth'
"""Kinds of boxes in pictures."""
LOOKS = {HIT: (style.COLOURS[2], '-'), MISS: (style.COLOURS[1], '--'), OBJECT: ('white', ':')}
"""Colour and line style of each kind of box."""


class ScoredBoxes(NamedTuple):
  """The boxes of a detector and their scores: with classes, or without them as localisation.

  Attributes:
    scores: average precisions of the detector.
    truth: ground-truth boxes.
    boxes: detected boxes.
    names: {class number: name}.
    threshold: least intersection over union of a true positive.
  """

  scores: DetectionScores
  truth: Boxes
  boxes: Boxes
  names: Mapping[int, str]
  threshold: float = 0.5


def pictures(
  sets: NeighborSets, scored: ScoredBoxes, folder: str | os.PathLike[str], count: int
) -> dict[str, np.ndarray]:
  """Returns arrays with pictures of the sets with the largest fall of average precision (AP).

  The fall is the AP of the anchor minus that of the worst frame. At most `count` sets with a
  positive fall are returned, the largest fall first; without any the dict is empty.

  Returns:
    E pictures, in which anchors and worst frames alternate, and their N true and M detected boxes.
    `image_<e>` uint8 [H, W, 3] is picture e; `frame` [E] has the paths, `offset` int [E] the frames
    from the anchor, and `precision` float [E] the AP. `truth` float [N, 6] has the columns picture,
    class, x0, y0, x1, y1 (in pixels of the picture); `found` float [M, 8] has these, the score, and
    1 for a true positive. `class` int [C] and `class_name` [C] are the classes of all boxes.
  """
  precision = scored.scores.per_image
  fall = np.nan_to_num(precision[sets.anchors] - precision[scored.scores.frames])
  order = np.argsort(-fall, kind='stable')
  groups = order[fall[order] > 0][:count]
  if not len(groups):
    return {}
  frames = np.stack([sets.anchors[groups], scored.scores.frames[groups]], 1).ravel()
  images, scales = zip(*(_picture(folder, sets.frames[frame]) for frame in frames), strict=True)
  truth, detections = scored.truth.of_images(frames), scored.boxes.of_images(frames)
  matches = match(truth, detections, len(frames), scored.threshold)
  right = np.zeros(len(detections.image), bool)
  right[matches.index] = matches.right
  offsets = np.zeros(len(frames), int)
  for place, (group, frame) in enumerate(zip(groups, frames[1::2], strict=True)):
    offsets[2 * place + 1] = sets.offsets[group][sets.neighbors[group] == frame].sum()
  classes = np.union1d(truth.category, detections.category)
  return {
    **{f'image_{index}': image for index, image in enumerate(images)},
    'frame': np.array([sets.frames[frame] for frame in frames]),
    'offset': offsets,
    'precision': precision[frames],
    'truth': _table(truth, np.array(scales)),
    'found': np.column_stack([_table(detections, np.array(scales)), right]),
    'class': classes,
    'class_name': np.array([scored.names.get(number, str(number)) for number in classes.tolist()]),
  }


def _table(boxes: Boxes, scales: np.ndarray) -> np.ndarray:
  """Returns a row for each of N boxes, float [N, 6] or with scores [N, 7].

  The columns are image, class, x0, y0, x1, y1 and score. The corners of image e are multiplied by
  `scales[e]`.
  """
  score = () if boxes.score is None else (boxes.score,)
  corners = boxes.corners * scales[boxes.image][:, None]
  return np.column_stack([boxes.image, boxes.category, corners, *score]).astype(float)


def _picture(folder: str | os.PathLike[str], path: str) -> tuple[np.ndarray, float]:
  """Returns a frame as a picture, uint8 [H, W, 3], and the factor in (0, 1] that it is reduced by.

  The sides of the picture have at most `MAX_SIDE` pixels. `path` is relative to `folder`.
  """
  root = expanded(folder).resolve()
  file = (root / path).resolve()
  if not file.is_relative_to(root) or not os.path.isfile(file):
    raise InputError(
      f'frame {path!r} is no file in {root}: give --frames the folder in which the '
      'paths of the metadata begin.'
    )
  image = read_rgb(file)
  scale = min(1.0, MAX_SIDE / max(image.size))
  size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
  return np.asarray(image.resize(size, Image.Resampling.BICUBIC)), scale


def draw(results: Results) -> dict[str, charts.Picture]:
  """Draws the results of `robustness detection`: the table, and frames with boxes of each kind."""
  figures = charts.draw(results)
  for kind in [name.removesuffix('/frame') for name in results.arrays if name.endswith('/frame')]:
    prefix = f'{kind}/'
    stored = {k.removeprefix(prefix): v for k, v in results.arrays.items() if k.startswith(prefix)}
    figures[f'{kind}_pictures'] = (
      gallery(stored),
      f'{kind.capitalize()}: anchors above the worst frames of their sets, where the average '
      'precision (AP) of the frame alone falls most; detections with a score from '
      f'{MIN_SCORE:g} on, and ground truth.',
    )
  return figures


@style.styled
def gallery(stored: Mapping[str, np.ndarray]) -> Figure:
  """Draws the arrays of `pictures`, anchors above worst frames (the paper's figure 4).

  Detections with a score below `MIN_SCORE` are left out.
  """
  names = dict(zip(stored['class'].tolist(), stored['class_name'].tolist(), strict=True))
  columns = len(stored['frame']) // 2
  height, width = stored['image_0'].shape[:2]
  cell = style.PAGE_WIDTH / max(columns, 2)
  size = (cell * columns, 2 * (cell * height / width + 0.2) + 0.3)
  figure = Figure(figsize=size, layout='constrained')
  grid = figure.subplots(2, columns, squeeze=False)
  for index, axes in enumerate(grid.T.flat):
    show(axes, stored[f'image_{index}'])
    axes.set_axis_off()
    place = f'offset {number(stored["offset"][index])}' if index % 2 else 'anchor'
    axes.set_title(f'{place}, AP {style.percent(stored["precision"][index])}')
    boxes = [(box[2:6], OBJECT, '') for box in stored['truth'] if box[0] == index]
    for box in stored['found']:
      if box[0] == index and box[6] >= MIN_SCORE:
        text = f'{names[int(box[1])]} {box[6]:.2f}'
        boxes.append((box[2:6], HIT if box[7] else MISS, text))
    for (x0, y0, x1, y1), kind, text in boxes:
      colour, dashes = LOOKS[kind]
      frame = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, linewidth=1.4)
      frame.set(edgecolor=colour, linestyle=dashes)
      axes.add_patch(frame)
      around = {'facecolor': colour, 'edgecolor': 'none', 'pad': 0.6}
      if text:
        axes.text(x0, y0, text, fontsize=5, color='white', va='bottom', bbox=around)
  handles = [
    style.dashed(name, dashes, color='0.6' if name == OBJECT else colour)
    for name, (colour, dashes) in LOOKS.items()
  ]
  figure.legend(handles=handles, loc='outside lower center', ncols=3)
  return figure
