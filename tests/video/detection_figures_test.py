"""The gallery of detections: what is drawn, and in which style."""

from __future__ import annotations

import numpy as np
from matplotlib.patches import Rectangle

from robustness.video.detection_figures import FALSE, TRUE, gallery


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
