"""Tests the study `flip_rate`: draws of its frames, and rates and ratios by hand."""

import dataclasses

import numpy as np
import pytest

from robustness import parallel
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.corruptions import corrupt
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.studies.flip_rate import FlipRate
from tests.made_records import made
from tests.refusals import refused
from tests.studies.conftest import table_of
from tests.table_rows import estimate

SHAPE = (8, 8, 3)
STUDY = FlipRate(corruptions=('gaussian_noise', 'brightness'), frames=3, lowest=1.0, highest=2.0)


def test_a_sequence_may_have_a_frame_at_every_thousandth_of_a_severity():
  study = FlipRate(corruptions=('fog',), frames=201, lowest=1.0, highest=1.2)
  assert len(set(study.severities)) == 201


def test_frames_of_a_sequence_have_the_same_draws(tmp_path):
  image = np.full((1, *SHAPE), 0.5, np.float32)
  views = STUDY.views(SHAPE)
  assert len(views) == 6 and len(set(views.ids.tolist())) == 6
  changes = {'image_shape': SHAPE, 'measure': lambda row, frame, view: {'image': frame}}
  views = type(views)(**{**vars(views), **changes})
  rows = ArrayRows(image, np.zeros(1, int), ('a',))
  root = random_keys.stream(0, STUDY.stream)
  evaluator = Evaluator(None, views, root, parallel.create('jit'))
  records = Records(tmp_path, evaluator.layout(1), {})
  evaluator.evaluate(rows, records)
  noise = [records.column('measure/image', view)[0] - 0.5 for view in range(3)]
  # The standard deviations of severities 1, 1.5 and 2 are 0.04, 0.05 and 0.06.
  np.testing.assert_allclose(noise[1], 1.25 * noise[0], atol=1e-6)
  np.testing.assert_allclose(noise[2], 1.5 * noise[0], atol=1e-6)
  key = random_keys.for_example(root, 0, views.ids[0])
  np.testing.assert_allclose(noise[0], corrupt(key, image[0], 'gaussian_noise', 1) - 0.5, atol=1e-6)


def test_shot_noise_of_adjacent_severities_is_correlated():
  views = dataclasses.replace(STUDY, corruptions=('shot_noise', 'fog')).views(SHAPE)
  image = np.tile(np.linspace(0.1, 0.9, 8, dtype=np.float32)[:, None, None], (1, 8, 3))
  key = random_keys.stream(0, STUDY.stream)
  levels = [{name: column[k] for name, column in views.parameters.items()} for k in (0, 1)]
  first, second = (np.asarray(views.show(key, {'image': image}, view)) for view in levels)
  assert np.corrcoef((first - image).ravel(), (second - image).ravel())[0, 1] > 0.98


def test_rates_and_ratio_by_hand(tmp_path):
  # Predictions of two images in three frames of noise, then three of brightness. Of the 4 pairs of
  # frames with noise 3 flip in `first` and 1 in `second`; with brightness 1 and 2.
  first = np.array([[0, 1, 1, 2, 2, 2], [3, 4, 5, 6, 6, 7]])
  second = np.array([[0, 0, 0, 2, 1, 2], [3, 3, 5, 6, 6, 6]])
  evaluations = [made(tmp_path / k, {'prediction': v}) for k, v in (('a', first), ('b', second))]
  table = table_of(STUDY, evaluations)
  assert STUDY.names == ('gaussian_noise', 'brightness')
  assert estimate(table, 'a', 'flip_rate', corruption='gaussian_noise').value == 0.75
  assert estimate(table, 'a', 'flip_rate', corruption='brightness').value == 0.25
  names = [{'corruption': name, 'frame': frame} for name in STUDY.names for frame in (1, 2)]
  places = [estimate(table, 'a', 'flip_rate', **facets).value for facets in names]
  assert places == [1, 0.5, 0, 0.5]
  overall = estimate(table, 'a', 'flip_rate')
  assert (overall.value, overall.n) == (0.5, 2)
  expected = (0.25 / 0.75 + 0.5 / 0.25) / 2
  assert estimate(table, 'b', 'flip_ratio').value == pytest.approx(expected)
  assert estimate(table, 'b', 'flip_ratio', 'a').value == pytest.approx(expected - 1)
  assert estimate(table, 'a', 'flip_ratio').method == 'exact', 'the baseline itself'
  constant = made(tmp_path / 'constant', {'prediction': np.zeros((2, 6), int)})
  table = table_of(STUDY, [constant, evaluations[1]])
  ratio = estimate(table, 'b', 'flip_ratio')
  assert np.isnan(ratio.value) and '0 in gaussian_noise, brightness' in ratio.note


@pytest.mark.parametrize('column', ['corruption', 'perturbation'])
def test_stored_corrupted_images_are_refused(column):
  row = {'image': np.zeros(SHAPE, np.float32), column: 9}
  view = {'corruption': 0, 'severity': 1}
  refused('would be corrupted again', STUDY.views(SHAPE).show, random_keys.from_seed(0), row, view)


def test_rates_differ_by_pairs_of_sequences(tmp_path):
  """The second network flips once more in each image; the intervals of both rates overlap."""
  rng = np.random.default_rng(0)
  first = np.cumsum(rng.integers(0, 2, (60, 6)) * [0, 1, 0, 0, 1, 0], axis=1)
  second = first + [0, 0, 1, 0, 0, 0]
  evaluations = [made(tmp_path / k, {'prediction': v}) for k, v in (('a', first), ('b', second))]
  table = table_of(STUDY, evaluations)
  rates = [estimate(table, label, 'flip_rate').value for label in 'ab']
  difference = estimate(table, 'b', 'flip_rate', 'a')
  assert difference.value == pytest.approx(rates[1] - rates[0]) == 0.25
  assert difference.low > 0 and difference.high - difference.low < 0.2
  assert difference.method == 'bonett-price'
