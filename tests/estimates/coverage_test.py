"""Tests how often intervals cover for few images, in the simulations of docs/intervals.md."""

import pytest

from benchmarks import interval_coverage

CASES = {
  # By quantity: the level of its errors, and the number of images.
  'mean error': (('.6', 5), ('.2', 20)),
  'mean error, second - first': (('.2', 5), ('.2', 20)),
  'mCE against AlexNet': (('.6', 5), ('.2', 20)),
  'mCE against the first': (('.6', 5), ('.6', 20)),
  'drop to pm-k': (('.2', 5),),
  'accuracy over objects': (('.6', 5),),
}


@pytest.mark.slow
@pytest.mark.parametrize(
  ('quantity', 'level', 'n'), [(q, *case) for q in CASES for case in CASES[q]]
)
def test_coverage_is_near_its_confidence_for_few_images(quantity, level, n):
  """The bound of 0.93 is three standard errors of 1000 samples below a coverage of 0.95."""
  images = interval_coverage.population(interval_coverage.LEVELS[level], size=4000)
  function = interval_coverage.QUANTITIES[quantity]
  covered = interval_coverage.coverage(function, images, n, samples=1000).held
  assert covered >= 0.93


def test_false_discoveries_of_views_of_the_same_images_stay_at_the_rate():
  images = interval_coverage.population(-1.0, size=4000, shift=0.8)
  rate, discoveries = interval_coverage.false_discoveries(images, 200, samples=60)
  assert discoveries > 5 and rate <= 0.05
