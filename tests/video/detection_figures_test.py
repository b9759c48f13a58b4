"""Which sets are pictured, and that boxes stay on their objects in smaller pictures."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from matplotlib.patches import Rectangle
from PIL import Image

from robustness.core.errors import InputError
from robustness.video.average_precision import detection_pm_k
from robustness.video.boxes import Boxes
from robustness.video.detection_figures import (
  FALSE,
  SIDE,
  TRUE,
  DrawnTask,
  gallery,
  largest_falls,
  pictures,
)
from robustness.video.metadata import NeighborSets, from_mappings

WIDTH, HEIGHT = 2 * SIDE, SIDE


def made() -> tuple[NeighborSets, DrawnTask]:
  """Three sets: no fall, a miss, and one of two objects missed."""
  sets = from_mappings(
    {f'v{v}/2.png': [f'v{v}/1.png'] for v in range(3)},
    {f'v{v}/{n}.png': [0] for v in range(3) for n in (1, 2)},
  )
  box, other = [100, 100, 200, 200], [400, 100, 500, 200]
  truth = Boxes(
    np.array([0, 1, 2, 3, 4, 4, 5]),
    np.zeros(7, int),
    np.array([box, box, box, box, box, other, box], float),
  )
  detections = Boxes(
    np.array([0, 1, 3, 4, 5]), np.zeros(5, int), np.array([box] * 5, float), np.full(5, 0.9)
  )
  return sets, DrawnTask(detection_pm_k(sets, truth, detections, 10), truth, detections, {0: 'fox'})


def save(folder: pathlib.Path, sets: NeighborSets) -> pathlib.Path:
  for frame in sets.frames:
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[100:200, 100:200] = 255
    (folder / frame).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(folder / frame)
  return folder


def test_the_largest_falls_come_first() -> None:
  sets, task = made()
  assert largest_falls(sets, task.scores, 9).tolist() == [1, 2]
  assert largest_falls(sets, task.scores, 1).tolist() == [1]


def test_boxes_are_in_pixels_of_the_picture(tmp_path: pathlib.Path) -> None:
  sets, task = made()
  stored = pictures(sets, task, save(tmp_path, sets), 9)
  assert stored['frame'].tolist() == ['v1/2.png', 'v1/1.png', 'v2/2.png', 'v2/1.png']
  assert stored['offset'].tolist() == [0, -1, 0, -1]
  assert stored['precision'].tolist() == [1, 0, 1, 0.5]
  assert stored['image_0'].shape == (SIDE // 2, SIDE, 3)
  index, _, x0, y0, x1, y1, score, right = stored['found'][0]
  assert (index, score, right) == (0, 0.9, 1)
  inside = stored['image_0'][int(y0) + 2 : int(y1) - 2, int(x0) + 2 : int(x1) - 2]
  assert inside.min() > 250 and stored['image_0'].sum() / 255 / 3 == pytest.approx(50**2, rel=0.02)
  assert stored['class_name'].tolist() == ['fox'] and len(stored['truth']) == 5


def test_without_a_fall_there_is_nothing(tmp_path: pathlib.Path) -> None:
  sets, task = made()
  assert pictures(sets, task, tmp_path, 0) == {}


def test_bad_frames_are_named(tmp_path: pathlib.Path) -> None:
  sets, task = made()
  save(tmp_path, sets)
  (tmp_path / 'v1/1.png').write_bytes(b'no picture')
  with pytest.raises(InputError, match="frame 'v1/1.png' cannot be decoded"):
    pictures(sets, task, tmp_path, 2)
  (tmp_path / 'v1/1.png').unlink()
  with pytest.raises(InputError, match="frame 'v1/1.png' is no file in"):
    pictures(sets, task, tmp_path, 2)


def test_true_and_false_positives_and_ground_truth() -> None:
  square, other = [10, 10, 20, 20], [2, 2, 6, 6]
  stored = {
    'image_0': np.full((30, 40, 3), 255, np.uint8),
    'image_1': np.full((30, 40, 3), 255, np.uint8),
    'frame': np.array(['v/2.png', 'v/1.png']),
    'offset': np.array([0, -1]),
    'precision': np.array([1, 0.5]),
    'truth': np.array([[0, 0, *square], [1, 0, *square]], float),
    'found': np.array(
      [[0, 0, *square, 0.9, 1], [1, 1, *square, 0.8, 0], [1, 0, *other, 0.3, 0]], float
    ),
    'class': np.array([0, 1]),
    'class_name': np.array(['fox', 'sheep']),
  }
  figure = gallery(stored)
  assert [axes.get_title() for axes in figure.axes] == ['anchor, AP 100%', 'offset −1, AP 50%']
  drawn = [[p for p in axes.patches if isinstance(p, Rectangle)] for axes in figure.axes]
  assert [len(box) for box in drawn] == [2, 2], 'a score of .3 is not drawn'
  colours = [matplotlib_colour(box[1]) for box in drawn]
  assert colours == [TRUE, FALSE]
  texts = [text.get_text() for axes in figure.axes for text in axes.texts]
  assert texts == ['fox 0.90', 'sheep 0.80']
  assert [t.get_text() for t in figure.legends[0].get_texts()] == [
    'true positive',
    'false positive',
    'ground truth',
  ]


def matplotlib_colour(patch: Rectangle) -> str:
  red, green, blue, _ = (round(255 * part) for part in patch.get_edgecolor())
  return f'#{red:02X}{green:02X}{blue:02X}'
