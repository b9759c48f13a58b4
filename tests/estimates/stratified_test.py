"""Means over classes: their value, and how often their intervals hold."""

import numpy as np
import pytest

from robustness.estimates.intervals import clopper_pearson, korn_graubard
from robustness.estimates.means import Estimate
from robustness.estimates.systematic import Cells


def stratified_share(share: np.ndarray, stratum: np.ndarray, trials: int) -> Estimate:
  cells = Cells(np.asarray(share, float)[:, None], stratum, np.zeros(len(share)), [0], [trials])
  return cells.accuracy([0])


def test_a_stratified_share_of_equal_strata_is_the_mean_over_images():
  rng = np.random.default_rng(2)
  share = (rng.random(400) < 0.3).astype(float)
  balanced = stratified_share(share, np.repeat(np.arange(4), 100), 1)
  plain = stratified_share(share, np.zeros(400, int), 1)
  assert balanced.value == pytest.approx(plain.value) == pytest.approx(share.mean())
  assert balanced.high - balanced.low == pytest.approx(plain.high - plain.low, rel=0.03)


@pytest.mark.parametrize(
  ('images', 'views', 'rate', 'runs', 'least'),
  [
    *(([10, 20, 40, 80], 1, rate, 1000, 0.935) for rate in (0.5, 0.95)),
    *(([1] * 10, 5, rate, 300, 0.95) for rate in (0.6, 0.9)),
  ],
)
def test_intervals_cover_with_unequal_classes_and_of_one_image_each(
  images, views, rate, runs, least
):
  """Of one image a class, without a spread within it, all views counted: it held in .61 to .82."""
  rng, covered, stratum = np.random.default_rng(3), 0, np.repeat(np.arange(len(images)), images)
  for _ in range(runs):
    number = stratified_share(rng.random(len(stratum)) < rate, stratum, views)
    covered += number.low <= rate <= number.high
  assert covered / runs >= least


def test_classes_right_or_wrong_throughout_one_stratum_and_no_image_at_all():
  """As many trials as images; Korn and Graubard's interval; none."""
  number = stratified_share(np.repeat([0.0, 1.0], 6), np.repeat([0, 1], 6), 5)
  assert (number.low, number.high) == pytest.approx(clopper_pearson(6, 12))
  share = np.random.default_rng(5).binomial(5, 0.7, 300) / 5
  one = stratified_share(share, np.zeros(300, int), 5)
  expected = share.mean(), *korn_graubard(share.mean(), share.std(ddof=1), 300, 5)
  assert (one.value, one.low, one.high) == pytest.approx(expected, abs=1e-3)
  assert np.isnan(stratified_share(np.zeros(0), np.zeros(0, int), 5).value)
