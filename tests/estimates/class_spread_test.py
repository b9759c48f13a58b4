"""Tests the spread of accuracies over classes: a published example, coverage, and bad input."""

import numpy as np
import pytest

from robustness.estimates.class_spread import class_spread, variance_between_classes
from tests.refusals import refused


def test_the_variance_between_studies_equals_that_of_a_published_example():
  """Uses cases and persons of BCG vaccine trials; the R package metafor has 0.1197 to 1.1115."""
  vaccinated = '4,123 6,306 3,231 62,13598 33,5069 180,1541 8,2545 505,88391 29,7499 17,1716 '
  vaccinated += '186,50634 5,2498 27,16913'
  controls = '11,139 29,303 11,220 248,12867 47,5808 372,1451 10,629 499,88391 45,7277 65,1665 '
  controls += '141,27338 3,2341 29,17854'
  (a, n), (b, m) = (
    np.array([pair.split(',') for pair in text.split()], float).T for text in (vaccinated, controls)
  )
  variances = variance_between_classes(np.log(a / n) - np.log(b / m), 1 / a - 1 / n + 1 / b - 1 / m)
  np.testing.assert_allclose(variances, [0.3181, 0.1197, 1.1115], atol=5e-5)


def test_equal_classes_have_no_spread_however_few_their_images():
  labels = np.arange(1000) % 10
  generator = np.random.default_rng(0)
  spreads = [class_spread(generator.random(1000) < 0.8, labels) for _ in range(100)]
  assert np.median([s.value for s in spreads]) < 0.02, 'the standard deviation is 0.04'
  assert np.mean([s.low == 0 for s in spreads]) >= 0.93
  perfect = class_spread(np.ones(1000, bool), labels)
  assert (perfect.value, perfect.low) == (0, 0) and perfect.high < 0.02


def test_the_interval_covers_the_spread_of_the_population():
  labels, generator, covered = np.arange(2000) % 20, np.random.default_rng(0), 0
  for _ in range(200):
    accuracy = np.clip(generator.normal(0.7, 0.1, 20), 0, 1)
    estimate = class_spread(generator.random(2000) < accuracy[labels], labels)
    covered += estimate.low <= 0.1 <= estimate.high
  assert covered >= 184  # 0.92 of 200


def test_the_interval_covers_the_spread_of_many_classes_with_few_images_each():
  labels, generator, estimates = np.arange(10000) % 1000, np.random.default_rng(0), []
  for _ in range(60):  # accuracies have the mean 0.85 and the deviation 0.12, many of them near 1
    accuracy = generator.beta(6.675, 1.178, 1000)
    estimates.append(class_spread(generator.random(10000) < accuracy[labels], labels))
  assert np.mean([e.value for e in estimates]) == pytest.approx(0.12, abs=0.002)
  assert np.mean([e.low <= 0.12 <= e.high for e in estimates]) >= 0.9


def test_values_without_variance_and_a_single_class_are_refused():
  refused('variances from 0', variance_between_classes, np.arange(3.0), np.zeros(3))
  refused('spread of 1 values', class_spread, np.ones(5, bool), np.zeros(5, int))
  assert class_spread(np.arange(40) % 40 < 30, np.arange(40) % 4).n == 40
  estimate = class_spread(np.arange(40) < 20, np.arange(40) // 20)
  assert (estimate.clusters, estimate.method) == (2, 'q-profile')
  assert estimate.value == pytest.approx(0.7, abs=0.05)


def test_the_interval_of_two_classes_ends_at_the_largest_spread_of_a_population():
  labels, number = np.arange(100) // 50, np.arange(100) % 50
  differing = class_spread(number < np.where(labels, 30, 20), labels)
  assert differing.low <= differing.value < differing.high == 0.5
  opposite = class_spread(labels == 1, labels)
  assert opposite.low <= 0.5 < opposite.value == opposite.high
