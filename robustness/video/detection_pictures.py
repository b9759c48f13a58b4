"""Frames on which a detector does well and badly, as arrays from which a figure is drawn."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from PIL import Image

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.video.average_precision import Boxes, DetectionScores, match, of_frames
from robustness.video.clips import UNDECODABLE
from robustness.video.metadata import NeighborSets

SIDE = 480  # pixels of the longer side of a stored picture, at most


class DrawnTask(NamedTuple):
  """What is drawn for one task.

  Attributes:
    scores: of the task.
    truth, boxes: ground truth and detections on the frames of the sets, without classes if the task
      ignores them.
    names: of the classes.
    threshold: least IoU of a true positive.
  """

  scores: DetectionScores
  truth: Boxes
  boxes: Boxes
  names: Mapping[int, str]
  threshold: float = 0.5


def largest_falls(sets: NeighborSets, scores: DetectionScores, count: int) -> np.ndarray:
  """Returns the sets whose per-image AP falls most from anchor to worst frame, at most `count`.

  Sets without a fall are left out; among equals the earlier one comes first.
  """
  fall = np.nan_to_num(scores.alone[sets.anchors] - scores.alone[scores.frames])
  order = np.argsort(-fall, kind='stable')
  return order[fall[order] > 0][:count]


def pictures(
  sets: NeighborSets, task: DrawnTask, folder: str | os.PathLike[str], count: int
) -> dict[str, np.ndarray]:
  """Returns anchors and worst frames of the sets with the largest falls, with their boxes.

  Args:
    sets: the neighbor sets.
    task: what the detector gave for them.
    folder: that the paths of the frames lie under.
    count: how many sets.

  Returns:
    E pictures, anchors and worst frames alternate: `image_<e>` uint8 [H, W, 3], `frame` [E] paths,
    `offset` int [E], `precision` float [E], `truth` float [N, 6] and `found` float [M, 8]: picture,
    class, x0, y0, x1, y1 in pixels of the picture, score, whether it is a true positive; `class`
    and `class_name` of all boxes.
    Nothing where no set falls.

  Raises:
    InputError: no such folder, or a frame that is missing or cannot be decoded.
  """
  chosen = largest_falls(sets, task.scores, count)
  if not len(chosen):
    return {}
  frames = np.stack([sets.anchors[chosen], task.scores.frames[chosen]], 1).ravel()
  images, scales = zip(*(_picture(folder, sets.frames[frame]) for frame in frames), strict=True)
  truth, found = of_frames(task.truth, frames), of_frames(task.boxes, frames)
  matches = match(truth, found, len(frames), task.threshold)
  right = np.zeros(len(found.image), bool)
  right[matches.index] = matches.right
  classes = np.union1d(truth.category, found.category)
  return {
    **{f'image_{index}': image for index, image in enumerate(images)},
    'frame': np.array([sets.frames[frame] for frame in frames]),
    'offset': _offsets(sets, chosen, frames),
    'precision': task.scores.alone[frames],
    'truth': _table(truth, np.array(scales)),
    'found': np.column_stack([_table(found, np.array(scales)), right]),
    'class': classes,
    'class_name': np.array([task.names.get(number, str(number)) for number in classes.tolist()]),
  }


def _offsets(sets: NeighborSets, chosen: np.ndarray, frames: np.ndarray) -> np.ndarray:
  """Returns the offset of each picture's frame, 0 for anchors."""
  offsets = np.zeros(len(frames), int)
  for place, (group, frame) in enumerate(zip(chosen, frames[1::2], strict=True)):
    offsets[2 * place + 1] = sets.offsets[group][sets.neighbors[group] == frame].sum()
  return offsets


def _table(boxes: Boxes, scales: np.ndarray) -> np.ndarray:
  """Returns a row for each box, in pixels of the pictures."""
  score = () if boxes.score is None else (boxes.score,)
  corners = boxes.corners * scales[boxes.image][:, None]
  return np.column_stack([boxes.image, boxes.category, corners, *score]).astype(float)


def _picture(folder: str | os.PathLike[str], path: str) -> tuple[np.ndarray, float]:
  """Returns a frame as a picture, and how many of its pixels one of the frame's is."""
  root = expanded(folder).resolve()
  file = (root / path).resolve()
  if not file.is_relative_to(root) or not file.is_file():
    raise InputError(
      f'frame {path!r} is no file in {root}: give --frames the folder in which the '
      'paths of the metadata begin.'
    )
  try:
    with Image.open(file) as image:
      scale = min(1.0, SIDE / max(image.size))
      size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
      return np.asarray(image.convert('RGB').resize(size, Image.Resampling.BICUBIC)), scale
  except UNDECODABLE as error:
    raise InputError(f'frame {path!r} cannot be decoded: {file}: {error}.') from error
