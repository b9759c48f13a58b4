"""Lines through changes of accuracy: SciPy's regression, the published accuracies, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robustness.core.errors import InputError
from robustness.metrics.published_fourier import TABLE_3
from robustness.metrics.tradeoff import fit_lines, slope_over_points, trade_off

# Shares of high-frequency energy, B = 27, of the released functions for CIFAR-10-C on 60 crops of
# one photograph, mean over severities.
SHARES = {
  'brightness': 0.009,
  'contrast': 0.102,
  'defocus_blur': 0.577,
  'elastic_transform': 0.325,
  'fog': 0.029,
  'gaussian_blur': 0.552,
  'glass_blur': 0.487,
  'impulse_noise': 0.709,
  'jpeg_compression': 0.437,
  'motion_blur': 0.313,
  'pixelate': 0.466,
  'shot_noise': 0.708,
  'snow': 0.072,
  'speckle_noise': 0.709,
  'zoom_blur': 0.320,
}


def test_the_line_and_its_student_interval_are_scipys() -> None:
  generator = np.random.default_rng(0)
  x, y = generator.random(15), generator.normal(size=15)
  expected, lines = stats.linregress(x, y), fit_lines(x, y)
  assert float(lines.slope) == pytest.approx(expected.slope)
  assert float(lines.intercept) == pytest.approx(expected.intercept)
  squares = np.polyfit(x, y, 1, full=True)[1][0]
  assert float(lines.residual) == pytest.approx(np.sqrt(squares / 15))
  number, half = slope_over_points(x, y, 0.9), stats.t.ppf(0.95, 13) * expected.stderr
  assert (number.low, number.high) == pytest.approx((expected.slope - half, expected.slope + half))
  assert number.n == 15


@pytest.mark.parametrize(
  ('label', 'sign'), [('gaussian', 1), ('adversarial', 1), ('low_pass', 1), ('high_pass', -1)]
)
def test_the_published_accuracies_have_the_slopes_that_the_paper_states(
  label: str, sign: int
) -> None:
  """Section 4.2: gains at high and losses at low frequencies, and the reverse for a high pass."""
  natural, other = TABLE_3.corrupted['natural'], TABLE_3.corrupted[label]
  shares = [SHARES[name] for name in natural]
  slope = slope_over_points(shares, [other[name] - natural[name] for name in natural])
  assert min(sign * slope.low, sign * slope.high) > 0, slope
  at_fog = fit_lines(shares, [other[name] - natural[name] for name in natural]).at(0.03)
  assert float(at_fog[0]) < 0, 'low frequencies lose throughout'


SHARE = np.array([0.05, 0.1, 0.3, 0.45, 0.6, 0.7])


def made(
  generator: np.random.Generator, count: int, change: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Shares and errors of images under six corruptions, with some mean changes of accuracy."""
  shares = SHARE + 0.02 * generator.normal(size=(count, 6))
  hard = generator.random((count, 1))
  first = 0.2 + 0.3 * hard + 0.1 * generator.normal(size=(count, 6))
  second = first - change + 0.3 * (generator.random((count, 6)) - 0.5) * hard
  return shares, first, second


@pytest.mark.parametrize('bend', [0.0, 0.04])
def test_intervals_over_images_cover_the_line(bend: float) -> None:
  """Of 95 % intervals in 60 samples of 80 images: at least 51 is what chance allows (p > .001)."""
  change = 0.4 * SHARE - 0.1 + bend * np.array([1, -1, 0, 1, 0, -1])
  true, covered = fit_lines(SHARE, change), {'slope': 0, 'residual': 0}
  generator = np.random.default_rng(1)
  for repeat in range(60):
    numbers = trade_off(*made(generator, 80, change), seed=repeat).numbers
    for name in covered:
      covered[name] += numbers[name].low <= getattr(true, name) + 1e-9 <= numbers[name].high + 2e-9
  assert min(covered.values()) >= 51, covered


def test_what_a_trade_off_holds() -> None:
  shares, first, second = made(np.random.default_rng(2), 60, 0.4 * SHARE - 0.1)
  shares[3, 2] = np.nan  # an image that a corruption leaves as it is
  result = trade_off(shares, first, second)
  for name, number in result.numbers.items():
    assert number.low <= number.value <= number.high, name
  assert result.numbers['residual'].low >= 0
  assert (result.low <= result.line).all() and (result.line <= result.high).all()
  x, y = np.nanmean(shares, 0), (first - second).mean(0)
  assert result.numbers['slope'].value == pytest.approx(np.polyfit(x, y, 1)[0])
  assert result.share[[0, -1]] == pytest.approx([x.min(), x.max()])


def test_two_points_are_refused() -> None:
  with pytest.raises(InputError, match='through 2 points has no residual'):
    fit_lines([0.1, 0.2], [0.3, 0.4])


def test_a_corruption_that_changes_nothing_is_left_out_and_said() -> None:
  rng = np.random.default_rng(0)
  share, before, after = (rng.random((40, 5)) for _ in range(3))
  share[:, 2] = np.nan
  others = [0, 1, 3, 4]
  with_it = trade_off(share, before, after)
  without = trade_off(share[:, others], before[:, others], after[:, others])
  assert with_it.numbers['slope'].value == without.numbers['slope'].value
  assert '1 of 5 corruptions change no image' in with_it.numbers['slope'].note
  np.testing.assert_array_equal(with_it.line, without.line)
  share[:, 3:] = np.nan
  none = trade_off(share, before, after)
  assert np.isnan(none.numbers['slope'].value) and '3 of 5' in none.numbers['slope'].note
  assert none.line.shape == (0,)
