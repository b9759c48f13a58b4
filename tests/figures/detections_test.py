"""The gallery of detections: what is drawn, and in which style."""

from __future__ import annotations

import numpy as np
from matplotlib.patches import Rectangle

from robustness.figures.detections import FALSE, TRUE, detection_gallery
from robustness.metrics.detection import Boxes


def test_true_and_false_positives_and_ground_truth() -> None:
  square, other = [10, 10, 20, 20], [2, 2, 6, 6]
  truth = Boxes(np.array([0, 1]), np.array([0, 0]), np.array([square, square], float))
  detections = Boxes(
    np.array([0, 1, 1]),
    np.array([0, 1, 0]),
    np.array([square, square, other], float),
    np.array([0.9, 0.8, 0.3]),
  )
  images = [np.ones((30, 40, 3))] * 2
  figure = detection_gallery(
    images, truth, detections, ('anchor', 'neighbor'), {0: 'fox', 1: 'sheep'}
  )
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
