"""Tests which sets are pictured, and that boxes stay on their objects in smaller pictures."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from PIL import Image

from robustness.video.average_precision import Scoring, detection_pm_k
from robustness.video.boxes import Boxes
from robustness.video.detection_figures import LOOKS, MAX_SIDE, ScoredBoxes, gallery, pictures
from robustness.video.metadata import from_mappings
from tests.refusals import refused

BOX, OTHER = [100, 100, 200, 200], [400, 100, 500, 200]
SETS = from_mappings(
  {f'v{v}/2.png': [f'v{v}/1.png'] for v in range(3)},
  {f'v{v}/{n}.png': [0] for v in range(3) for n in (1, 2)},
)


def scored_boxes() -> ScoredBoxes:
  """Returns scores of three sets: no fall, a missed object, and one of two objects missed."""
  corners = np.array([BOX, BOX, BOX, BOX, BOX, OTHER, BOX], float)
  truth = Boxes(np.array([0, 1, 2, 3, 4, 4, 5]), np.zeros(7, int), corners)
  zeros, corners = np.zeros(5, int), np.array([BOX] * 5, float)
  detections = Boxes(np.array([0, 1, 3, 4, 5]), zeros, corners, np.full(5, 0.9))
  scores = detection_pm_k(SETS, truth, detections, Scoring())
  return ScoredBoxes(scores, truth, detections, {0: 'fox'})


@pytest.fixture
def folder(tmp_path):
  """A folder of black frames, twice as large as pictures, with a white square at `BOX`."""
  for frame in SETS.frames:
    pixels = np.zeros((MAX_SIDE, 2 * MAX_SIDE, 3), np.uint8)
    pixels[100:200, 100:200] = 255
    (tmp_path / frame).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(tmp_path / frame)
  return tmp_path


def test_the_largest_falls_come_first_with_boxes_in_pixels_of_the_picture(folder):
  stored = pictures(SETS, scored_boxes(), folder, 9)
  assert stored['frame'].tolist() == ['v1/2.png', 'v1/1.png', 'v2/2.png', 'v2/1.png']
  assert stored['offset'].tolist() == [0, -1, 0, -1]
  assert stored['precision'].tolist() == [1, 0, 1, 0.5]
  assert stored['image_0'].shape == (MAX_SIDE // 2, MAX_SIDE, 3)
  index, _, x0, y0, x1, y1, score, right = stored['found'][0]
  assert (index, score, right) == (0, 0.9, 1)
  inside = stored['image_0'][int(y0) + 2 : int(y1) - 2, int(x0) + 2 : int(x1) - 2]
  white_pixels = stored['image_0'].sum() / 255 / 3
  assert inside.min() > 250 and white_pixels == pytest.approx(50**2, rel=0.02)
  assert stored['class_name'].tolist() == ['fox'] and len(stored['truth']) == 5
  assert pictures(SETS, scored_boxes(), folder, 1)['frame'].tolist() == ['v1/2.png', 'v1/1.png']
  assert pictures(SETS, scored_boxes(), folder, 0) == {}


def test_bad_frames_are_named(folder):
  (folder / 'v1/1.png').write_bytes(b'no picture')
  refused('unreadable image .*v1/1.png', pictures, SETS, scored_boxes(), folder, 2)
  (folder / 'v1/1.png').unlink()
  refused("frame 'v1/1.png' is no file in", pictures, SETS, scored_boxes(), folder, 2)


def test_true_and_false_positives_and_ground_truth_are_drawn_in_their_colours():
  square, other = [10, 10, 20, 20], [2, 2, 6, 6]
  detections = [[0, 0, *square, 0.9, 1], [1, 1, *square, 0.8, 0], [1, 0, *other, 0.3, 0]]
  stored = {
    **dict.fromkeys(('image_0', 'image_1'), np.full((30, 40, 3), 255, np.uint8)),
    'frame': np.array(['v/2.png', 'v/1.png']),
    'offset': np.array([0, -1]),
    'precision': np.array([1, 0.5]),
    'truth': np.array([[0, 0, *square], [1, 0, *square]], float),
    'found': np.array(detections, float),
    'class': np.array([0, 1]),
    'class_name': np.array(['fox', 'sheep']),
  }
  figure = gallery(stored)
  assert [axes.get_title() for axes in figure.axes] == ['anchor, AP 100%', 'offset −1, AP 50%']
  drawn = [[p for p in axes.patches if isinstance(p, Rectangle)] for axes in figure.axes]
  assert [len(box) for box in drawn] == [2, 2], 'the detection with a score of 0.3 is not drawn'
  colours = [to_hex(box[1].get_edgecolor()).upper() for box in drawn]
  assert colours == [LOOKS['true positive'][0], LOOKS['false positive'][0]]
  texts = [text.get_text() for axes in figure.axes for text in axes.texts]
  assert texts == ['fox 0.90', 'sheep 0.80']
  legend = [text.get_text() for text in figure.legends[0].get_texts()]
  assert legend == ['true positive', 'false positive', 'ground truth']
