"""Tests average precision against pycocotools and by hand, and which frames are the worst."""

import contextlib
import io

import numpy as np
import pytest

from robustness.video import average_precision as detection
from robustness.video import metadata
from robustness.video.average_precision import Scoring, detection_pm_k
from robustness.video.boxes import Boxes
from tests.refusals import bad_setting, refused


def boxes(rows: list[tuple]) -> Boxes:
  """Returns boxes from rows (image, category, x0, y0, x1, y1), with a score last if detected."""
  table = np.array(rows or np.zeros((0, 6)), float)
  return Boxes(*table[:, :2].astype(int).T, table[:, 2:6], *table[:, 6:].T)


def random_boxes(seed: int, images: int = 25, categories: int = 4) -> tuple[Boxes, Boxes]:
  """Returns ground truth, and detections of it: 0 to 3 per box, moved, 1 in 5 of a random class."""
  generator = np.random.default_rng(seed)
  number = generator.integers(0, 4, images).sum() + 3
  image = np.sort(generator.integers(0, images, number))
  category = generator.integers(1, categories + 1, number)
  low = generator.uniform(0, 60, (number, 2))
  corners = np.concatenate([low, low + generator.uniform(8, 40, (number, 2))], 1)
  copies = np.repeat(np.arange(number), 3)[generator.random(3 * number) < 0.7]
  shaken = corners[copies] + generator.normal(0, 3, (len(copies), 4))
  shaken[:, 2:] = np.maximum(shaken[:, 2:], shaken[:, :2] + 1)
  is_true = generator.random(len(copies)) < 0.8
  named = np.where(is_true, category[copies], generator.integers(1, categories + 1, len(copies)))
  score = generator.random(len(copies)).round(2)  # Rounding makes ties.
  order = generator.permutation(len(copies))
  detections = Boxes(image[copies][order], named[order], shaken[order], score[order])
  return Boxes(image, category, corners), detections


def of_pycocotools(
  truth: Boxes, detections: Boxes, images: int, threshold: float, points: int
) -> dict[int, float]:
  """Returns AP by class as pycocotools computes it, of the classes with ground truth."""
  coco = pytest.importorskip('pycocotools.coco', reason='compares with pycocotools')
  evaluation = pytest.importorskip('pycocotools.cocoeval', reason='compares with pycocotools')

  def entries(boxes):
    sized = np.concatenate([boxes.corners[:, :2], boxes.corners[:, 2:] - boxes.corners[:, :2]], 1)
    columns = (boxes.image.tolist(), boxes.category.tolist(), sized.tolist())
    return [{'image_id': i, 'category_id': c, 'bbox': b} for i, c, b in zip(*columns, strict=True)]

  results = [{**e, 'score': s} for e, s in zip(entries(detections), detections.score, strict=True)]
  with contextlib.redirect_stdout(io.StringIO()):
    truth_set = coco.COCO()
    truth_set.dataset = {
      'info': {},
      'images': [{'id': i} for i in range(images)],
      'annotations': [
        {**e, 'id': i + 1, 'area': e['bbox'][2] * e['bbox'][3], 'iscrowd': 0}
        for i, e in enumerate(entries(truth))
      ],
      'categories': [{'id': int(c)} for c in np.unique(truth.category)],
    }
    truth_set.createIndex()
    run = evaluation.COCOeval(truth_set, truth_set.loadRes(results), 'bbox')
    run.params.iouThrs = np.array([threshold])
    run.params.recThrs = np.linspace(0, 1, points)
    run.evaluate()
    run.accumulate()
  precision = run.eval['precision'][0, :, :, 0, -1]
  by_class = zip(run.params.catIds, precision.T, strict=True)
  return {int(c): float(p.mean()) for c, p in by_class if p.max() >= 0}


def precisions(matches: detection.Matches, points: int = 0) -> np.ndarray:
  """Returns the AP of each class over all images, float [classes]."""
  return detection.average_precisions(matches, points, np.ones((1, len(matches.num_truths))))[0]


@pytest.mark.parametrize('threshold, points', [(0.5, 101), (0.5, 11), (0.75, 101)])
@pytest.mark.parametrize('seed', range(4))
def test_equals_pycocotools_on_random_boxes(seed, threshold, points):
  truth, detections = random_boxes(seed)
  matches = detection.match(truth, detections, 25, threshold)
  expected = of_pycocotools(truth, detections, 25, threshold, points)
  values = precisions(matches, points).tolist()
  ours = dict(zip(matches.categories.tolist(), values, strict=True))
  assert ours == pytest.approx(expected, abs=1e-9) and 0 < np.mean(list(ours.values())) < 1


SQUARE = (10, 10, 20, 20)


def test_average_precision_by_hand():
  truth = boxes([(0, 1, *SQUARE), (1, 1, *SQUARE)])
  detections = boxes([(0, 1, *SQUARE, 0.9), (0, 1, *SQUARE, 0.8), (1, 1, 10, 10, 20, 19, 0.7)])
  matches = detection.match(truth, detections, 2)
  assert matches.right.tolist() == [True, False, True], 'a box is claimed once'
  # precision 1, 1/2, 2/3 at recall 1/2, 1/2, 1
  for points, value in (
    (0, 0.5 + 0.5 * 2 / 3),
    (11, (6 * 1 + 5 * 2 / 3) / 11),
    (101, (51 * 1 + 50 * 2 / 3) / 101),
  ):
    assert precisions(matches, points).tolist() == pytest.approx([value])


def test_an_overlap_equal_to_the_threshold_is_enough():
  truth, half_of_it = boxes([(0, 1, 0, 0, 10, 10)]), boxes([(0, 1, 0, 0, 10, 5, 0.9)])
  for threshold, right in ((0.5, True), (0.51, False)):
    assert detection.match(truth, half_of_it, 1, threshold).right.tolist() == [right]


def test_a_box_of_another_class_is_wrong_for_detection_and_right_for_localisation():
  truth, detections = boxes([(0, 1, *SQUARE)]), boxes([(0, 2, *SQUARE, 0.9)])
  assert precisions(detection.match(truth, detections, 1)).tolist() == [0]
  matches = detection.match(truth.without_classes(), detections.without_classes(), 1)
  assert precisions(matches).tolist() == [1]


def test_weights_equal_repetitions_of_images():
  truth, detections = random_boxes(5)
  frames = np.array([0, 1, 1, 4, 7, 7, 7, 9, 12, 20])
  weights = np.bincount(frames, minlength=25)[None]
  repeated = detection.match(truth.of_images(frames), detections.of_images(frames), len(frames))
  matches = detection.match(truth, detections, 25)
  (weighted,) = detection.average_precisions(matches, 0, weights)
  is_present = np.isin(matches.categories, repeated.categories)
  values = precisions(repeated)
  # A repeated image makes ties of equal scores, which are ordered otherwise.
  assert weighted[is_present] == pytest.approx(values, abs=0.05)


def test_per_image_precision_equals_the_evaluation_of_one_image():
  truth, detections = random_boxes(6)
  alone = detection.per_image(detection.match(truth, detections, 25))
  for image in range(25):
    frame = np.array([image])
    objects = truth.of_images(frame)
    if not len(objects.image):
      assert np.isnan(alone[image]), 'undefined without ground truth'
      continue
    matches = detection.match(objects, detections.of_images(frame), 1)
    assert alone[image] == pytest.approx(precisions(matches).mean())


MEMBERS = {'a/5.jpg': ['a/3.jpg', 'a/4.jpg', 'a/6.jpg', 'a/9.jpg'], 'b/1.jpg': []}
SETS = metadata.from_mappings(MEMBERS, dict.fromkeys(MEMBERS, [0]))


def test_ties_of_the_worst_frame_go_to_the_nearest():
  precision = np.array([0.2, 0.5, 1.0, 0.2, 0.0, np.nan])  # a/3, a/4, a/5, a/6, a/9, b/1

  def worst(k, include_anchor=True):
    frames = detection.worst_frames(SETS, precision, k, include_anchor)
    return [SETS.frames[frame] for frame in frames]

  assert worst(0) == ['a/5.jpg', 'b/1.jpg'], 'pm-0 is the anchors; b/1 has no ground truth'
  assert worst(1) == ['a/6.jpg', 'b/1.jpg']
  assert worst(2) == ['a/6.jpg', 'b/1.jpg'], 'a/3 is as bad and further away'
  assert worst(4) == ['a/9.jpg', 'b/1.jpg']
  precision[:] = 1
  assert worst(4)[0] == 'a/5.jpg' and worst(4, include_anchor=False)[0] == 'a/4.jpg'


def test_pm_k_of_a_detector_that_loses_an_object_on_one_neighbor():
  """The class is wrong on a/6 at offset 1, and the box is missing on a/9 at offset 4."""
  classed = [boxes([(frame, 0, *SQUARE) for frame in range(6)])]
  classed += [boxes([(frame, int(frame == 3), *SQUARE, 0.9) for frame in (0, 1, 2, 3, 5)])]
  unclassed = [pair.without_classes() for pair in classed]
  for k, pair, expected in ((1, classed, 0.5), (1, unclassed, 1), (4, unclassed, 0.5)):
    scores = detection_pm_k(SETS, *pair, Scoring(k))
    assert scores.worst.value == expected and scores.anchor.value == 1
    assert scores.drop.value == 1 - expected and scores.drop.n == 2
    interval = scores.worst.low, scores.worst.high
    assert interval == pytest.approx((0, 1) if expected < 1 else (np.nan, np.nan), nan_ok=True)


def test_boxes_are_cut_at_the_borders_of_their_images():
  boxes([(0, 1, 0, 0, 102, 50)]).clip(np.array([[100.0, 50.0]]), str)
  sizes = np.array([[100.0, 50.0], [np.inf, np.inf]])
  rows = [(0, 1, -2, 5, 30, 51), (0, 1, *SQUARE), (1, 1, 5, -1, 900, 900)]
  clipped, distance = boxes(rows).clip(sizes, str)
  assert clipped.corners.tolist() == [[0, 5, 30, 50], list(SQUARE), [5, 0, 900, 900]]
  assert distance.tolist() == [2, 0, 1]
  assert len(boxes([]).clip(sizes, str)[1]) == 0


def test_resamples_without_ground_truth_are_counted():
  anchors = {f'v{v}/1.jpg': [] for v in range(20)}
  sets = metadata.from_mappings(anchors, dict.fromkeys(anchors, [0]))
  for count, has_interval in ((3, True), (1, False)):
    truth = boxes([(frame, 1, *SQUARE) for frame in range(count)])
    detections = boxes([(0, 1, *SQUARE, 0.9)])
    number = detection_pm_k(sets, truth, detections, Scoring(1)).anchor
    undefined = int(number.note.split()[2])
    share_without_truth = (1 - count / 20) ** 20  # 20 videos are drawn, `count` have a box
    assert undefined / detection.RESAMPLES == pytest.approx(share_without_truth, abs=0.06)
    ends = (0, 1) if has_interval else (np.nan, np.nan)
    estimate = number.value, number.low, number.high
    assert estimate == pytest.approx((1 / count, *ends), nan_ok=True)


def test_a_value_without_spread_in_the_resamples_has_no_interval():
  frames = [(frame, 1, *SQUARE) for frame in range(6)]
  perfect = detection_pm_k(SETS, boxes(frames), boxes([(*f, 0.9) for f in frames]), Scoring(1))
  for estimate, value in ((perfect.anchor, 1), (perfect.worst, 1), (perfect.drop, 0)):
    assert estimate.value == value and np.isnan([estimate.low, estimate.high]).all()
    assert estimate.note == 'no interval: all resamples are equal'


def test_sets_of_one_video_are_drawn_together():
  def precision_on(anchors):
    """Returns the AP of a detector that finds the boxes of the first half of the anchors alone."""
    sets = metadata.from_mappings({a: [] for a in anchors}, dict.fromkeys(anchors, [0]))
    truth = boxes([(frame, 1, *SQUARE) for frame in range(len(anchors))])
    detections = boxes([(frame, 1, *SQUARE, 0.9) for frame in range(len(anchors) // 2)])
    return detection_pm_k(sets, truth, detections, Scoring(1)).anchor

  first, second, third, fourth = (
    [f'8Lx004yClt{name}_{clip}/1.jpg' for clip in range(2)] for name in 'abcd'
  )
  number = precision_on([*first, *second, *third, *fourth])
  assert (number.value, number.n, number.clusters) == (0.5, 8, 4)
  assert (number.low, number.high) == (0, 1), 'one resample of 16 has found boxes alone'
  few = precision_on([*first, *second])
  assert (few.value, few.clusters) == (0.5, 2) and np.isnan(few.low)
  assert few.note == 'no interval: too few clusters, effectively 2.0'


def test_bad_settings():
  refused(bad_setting('threshold', 0), Scoring, threshold=0)
  refused(bad_setting('recall_points', 1), Scoring, recall_points=1)
