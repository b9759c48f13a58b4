"""Frames on which a detector does well and badly, with boxes: as arrays, and drawn from these."""

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

SIDE = 480  # pixels of the longer side of a stored picture, at most
TRUE, FALSE, TRUTH = style.COLOURS[2], style.COLOURS[1], 'white'
LEAST_SCORE = 0.5
HIT, MISS, OBJECT = 'true positive', 'false positive', 'ground truth'
LOOKS = {HIT: (TRUE, '-'), MISS: (FALSE, '--'), OBJECT: (TRUTH, ':')}


class DrawnBoxes(NamedTuple):
  """What is drawn of one kind of score: for localisation truth and boxes have no classes."""

  scores: DetectionScores
  truth: Boxes
  boxes: Boxes
  names: Mapping[int, str]
  threshold: float = 0.5


def pictures(
  sets: NeighborSets, of: DrawnBoxes, folder: str | os.PathLike[str], count: int
) -> dict[str, np.ndarray]:
  """Returns anchors and worst frames, with boxes, of the sets whose per-image AP falls most.

  Those are at most `count` sets; among equals the earlier one comes first.

  Returns:
    E pictures, anchors and worst frames alternate: `image_<e>` uint8 [H, W, 3], `frame` [E] paths,
    `offset` int [E], `precision` float [E], `truth` float [N, 6] and `found` float [M, 8]: picture,
    class, x0, y0, x1, y1 in pixels of the picture, score, whether it is a true positive; `class`
    and `class_name` of all boxes.
    Nothing where no set falls.
  """
  alone = of.scores.alone
  fall = np.nan_to_num(alone[sets.anchors] - alone[of.scores.frames])
  order = np.argsort(-fall, kind='stable')
  chosen = order[fall[order] > 0][:count]
  if not len(chosen):
    return {}
  frames = np.stack([sets.anchors[chosen], of.scores.frames[chosen]], 1).ravel()
  images, scales = zip(*(_picture(folder, sets.frames[frame]) for frame in frames), strict=True)
  truth, found = of.truth.of_images(frames), of.boxes.of_images(frames)
  matches = match(truth, found, len(frames), of.threshold)
  right = np.zeros(len(found.image), bool)
  right[matches.index] = matches.right
  offsets = np.zeros(len(frames), int)
  for place, (group, frame) in enumerate(zip(chosen, frames[1::2], strict=True)):
    offsets[2 * place + 1] = sets.offsets[group][sets.neighbors[group] == frame].sum()
  classes = np.union1d(truth.category, found.category)
  return {
    **{f'image_{index}': image for index, image in enumerate(images)},
    'frame': np.array([sets.frames[frame] for frame in frames]),
    'offset': offsets,
    'precision': alone[frames],
    'truth': _table(truth, np.array(scales)),
    'found': np.column_stack([_table(found, np.array(scales)), right]),
    'class': classes,
    'class_name': np.array([of.names.get(number, str(number)) for number in classes.tolist()]),
  }


def _table(boxes: Boxes, scales: np.ndarray) -> np.ndarray:
  """Returns a row for each box, in pixels of the pictures."""
  score = () if boxes.score is None else (boxes.score,)
  corners = boxes.corners * scales[boxes.image][:, None]
  return np.column_stack([boxes.image, boxes.category, corners, *score]).astype(float)


def _picture(folder: str | os.PathLike[str], path: str) -> tuple[np.ndarray, float]:
  """Returns a frame as a picture, and how many of its pixels one of the frame's is."""
  root = expanded(folder).resolve()
  file = (root / path).resolve()
  if not file.is_relative_to(root) or not os.path.isfile(file):
    raise InputError(
      f'frame {path!r} is no file in {root}: give --frames the folder in which the '
      'paths of the metadata begin.'
    )
  image = read_rgb(file)
  scale = min(1.0, SIDE / max(image.size))
  size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
  return np.asarray(image.resize(size, Image.Resampling.BICUBIC)), scale


def draw(results: Results) -> dict[str, charts.Picture]:
  """Draws the table of results of `robustness detection`, and the boxes on frames of each kind."""
  figures = charts.draw(results)
  for name in [name for name in results.arrays if name.endswith('/frame')]:
    kind = name.removesuffix('/frame')
    prefix = f'{kind}/'
    stored = {k.removeprefix(prefix): v for k, v in results.arrays.items() if k.startswith(prefix)}
    figures[f'{kind}_pictures'] = (
      gallery(stored),
      f'{kind.capitalize()}: anchors above the worst frames of their sets, where the average '
      'precision (AP) of the frame alone falls most; detections with a score from '
      f'{LEAST_SCORE:g} on, and ground truth.',
    )
  return figures


@style.styled
def gallery(stored: Mapping[str, np.ndarray]) -> Figure:
  """Draws boxes on images of `pictures`, anchors above neighbors (the paper's figure 4).

  Detections with a score below `LEAST_SCORE` are left out.
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
      if box[0] == index and box[6] >= LEAST_SCORE:
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
    style.dashed(name, dashes, color='0.6' if colour == TRUTH else colour)
    for name, (colour, dashes) in LOOKS.items()
  ]
  figure.legend(handles=handles, loc='outside lower center', ncols=3)
  return figure
