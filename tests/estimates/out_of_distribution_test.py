"""Tests out-of-distribution scores, and AUROC, AUPR and FPR against counts."""

import numpy as np
import pytest
from scipy import special

from robustness.estimates import out_of_distribution as ood
from tests.refusals import bad_setting, refused


def separation(of_id, of_ood, units, ood_units):
  """Returns AUROC, AUPR and FPR of a set of known images and one of others."""
  return ood.separations(of_id, units, {'set': (of_ood, ood_units)})['set']


GENERATOR = np.random.default_rng(0)
KNOWN, OTHER = np.round(GENERATOR.normal(1, 1, 60), 1), np.round(GENERATOR.normal(0, 1, 40), 1)


def test_scores_of_logits_by_definition():
  z = GENERATOR.normal(size=(5, 4))
  p = special.softmax(z, 1)
  np.testing.assert_allclose(ood.score_of_logits('msp', z), p.max(1))
  np.testing.assert_allclose(ood.score_of_logits('energy', z), np.log(np.exp(z).sum(1)))
  np.testing.assert_array_equal(ood.score_of_logits('max_logit', z), z.max(1))
  refused(bad_setting('score', 'odin'), ood.score_of_logits, 'odin', z)


def test_distances_to_neighbours_are_between_features_of_unit_length():
  features, bank = GENERATOR.normal(size=(7, 3)), GENERATOR.normal(size=(9, 3))
  a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features, bank))
  distance = np.sort(np.linalg.norm(a[:, None] - b, axis=-1), 1)
  for k in (1, 4, 9):
    np.testing.assert_allclose(ood.nearest_neighbours(5 * features, bank, k), -distance[:, k - 1])
  for k, bad_bank in ((0, bank), (10, bank), (1, bank[:, :2])):
    refused(f'K = {k}', ood.nearest_neighbours, features, bad_bank, k)


def test_features_of_zero_are_as_far_as_those_at_a_right_angle():
  features, bank = np.array([[0, 0], [0, 3.0]]), np.array([[0, 0], [1.0, 0], [0, 1]])
  for k, nearest in ((1, 0), (2, np.sqrt(2))):
    scores = ood.nearest_neighbours(features, bank, k)
    np.testing.assert_allclose(scores, [-np.sqrt(2), -nearest])


@pytest.mark.parametrize('positives', ood.POSITIVES)
def test_weighted_separation_equals_counts_of_repeated_scores(positives):
  counts = GENERATOR.integers(0, 3, 100)
  id_scores, ood_scores = np.repeat(KNOWN, counts[:60]), np.repeat(OTHER, counts[60:])
  area = ((id_scores[:, None] > ood_scores) + 0.5 * (id_scores[:, None] == ood_scores)).mean()
  if positives == 'ood':
    threshold = np.sort(ood_scores)[int(np.ceil(0.95 * len(ood_scores) - 1e-9)) - 1]
    rate = (id_scores <= threshold).mean()
  else:
    threshold = np.sort(id_scores)[::-1][int(np.ceil(0.95 * len(id_scores) - 1e-9)) - 1]
    rate = (ood_scores >= threshold).mean()
  sums = np.repeat([counts[:60].sum(), counts[60:].sum()], [60, 40])
  shares = counts / sums * np.repeat([60, 40], [60, 40])
  measured = ood.Separation(KNOWN, OTHER, positives)(counts[None] / counts.sum())
  np.testing.assert_allclose(measured[:, [0, 2]], [[area, rate]])
  is_positive, scores = np.arange(100) >= 60, -np.concatenate([KNOWN, OTHER])
  if positives == 'id':
    is_positive, scores = ~is_positive, -scores
  recall, average = 0.0, 0.0
  for threshold in np.unique(scores)[::-1]:
    flagged = scores >= threshold
    caught = shares[flagged & is_positive].sum() / shares[is_positive].sum()
    if shares[flagged].sum():
      average += (caught - recall) * shares[flagged & is_positive].sum() / shares[flagged].sum()
    recall = caught
  assert measured[0, 1] == pytest.approx(average)


def test_intervals_have_a_width_where_all_scores_are_separated():
  twenty = np.arange(20)
  area, precision, rate = separation(twenty + 30.0, 1.0 * twenty, twenty, twenty)
  assert (area.value, area.high, rate.value, rate.low) == (1, 1, 0, 0)
  assert precision.value == precision.high == 1 and precision.low < 0.97
  assert 0.8 < area.low < 0.95 and rate.high > 0.1 and area.clusters == 40


def test_repeated_images_are_one_cluster():
  once, known_twice, other_often = (
    separation(
      np.repeat(KNOWN, n), np.repeat(OTHER, m), np.repeat(np.arange(60), n), np.arange(40 * m) // m
    )[0]
    for n, m in ((1, 1), (2, 1), (1, 20))
  )
  assert (known_twice.n, other_often.n) == (160, 860)
  assert known_twice.clusters == other_often.clusters == once.clusters == 100
  for repeated in (known_twice, other_often):
    assert (repeated.low, repeated.high) == pytest.approx((once.low, once.high), abs=0.005)


def test_few_units_of_several_images_have_no_interval():
  two_units, single_images = np.repeat([0, 1], 30), np.arange(40)
  for estimate in separation(KNOWN, OTHER, two_units, single_images):
    assert estimate.value > 0 and np.isnan([estimate.low, estimate.high]).all()
    assert estimate.note == 'no interval: too few clusters, effectively 2.0'
  uneven = np.minimum(np.arange(60) // 2, 5)
  area = separation(KNOWN, OTHER, uneven, single_images)[0]
  assert np.isnan(area.low), '50 of 60 images are in one unit'
  images = np.arange(60)
  areas = [separation(KNOWN, OTHER, units, single_images)[0] for units in (images, images // 10)]
  width_by_image, width_by_tens = (area.high - area.low for area in areas)
  assert width_by_image < width_by_tens


def test_bad_scores_are_refused():
  refused(r'is \(\(0,\)', ood.Separation, KNOWN[:0], OTHER)
  refused(r'is \(\(60, 1\)', ood.Separation, KNOWN[:, None], OTHER[:, None])
  refused('none NaN', ood.Separation, KNOWN, OTHER * np.nan)
  refused(bad_setting('positives', 'in'), ood.Separation, KNOWN, OTHER, 'in')
