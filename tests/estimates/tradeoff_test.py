"""Tests lines through changes of accuracy against SciPy, published accuracies and a bootstrap."""

import numpy as np
import pytest
from scipy import stats

from robustness.estimates.intervals import percentile_interval
from robustness.estimates.means import energy_fraction, known_mean
from robustness.estimates.published import TABLE_3
from robustness.estimates.table import assemble, select
from robustness.estimates.tradeoff import fit_lines, linear_fit, trade_off
from tests.cases import cases
from tests.refusals import refused
from tests.table_rows import estimate

PUBLISHED_SHARES = (
  *(0.009, 0.102, 0.577, 0.325, 0.029, 0.552, 0.487, 0.709),
  *(0.437, 0.313, 0.466, 0.708, 0.072, 0.709, 0.320),
)
"""Shares of high-frequency energy (B = 27) of the corruptions of table 3, in its order. They were
measured with the released functions of CIFAR-10-C on 60 crops of one photograph and averaged over
severities."""


def test_the_line_and_its_student_interval_equal_those_of_scipy():
  generator = np.random.default_rng(0)
  x, y = generator.random(15), generator.normal(size=15)
  expected, lines = stats.linregress(x, y), fit_lines(x, y)
  assert float(lines.slope) == pytest.approx(expected.slope)
  assert float(lines.intercept) == pytest.approx(expected.intercept)
  squares = np.polyfit(x, y, 1, full=True)[1][0]
  assert float(lines.residual) == pytest.approx(np.sqrt(squares / 15))
  fit, t = linear_fit(x, y, [], 0.9), stats.t.ppf(0.95, 13)
  for part, error in ((fit.slope, expected.stderr), (fit.intercept, expected.intercept_stderr)):
    assert (part.high, part.low) == pytest.approx((part.value + t * error, part.value - t * error))
  assert fit.slope.n == fit.slope.clusters == 15
  refused('through 2 points has no residual', fit_lines, [0.1, 0.2], [0.3, 0.4])


@cases('label, sign', ('gaussian', 1), ('adversarial', 1), ('low_pass', 1), ('high_pass', -1))
def test_the_published_accuracies_have_the_slopes_that_the_paper_states(label, sign):
  """Section 4.2: gains at high and losses at low frequencies, and the reverse for a high pass."""
  natural, accuracies = TABLE_3.corrupted['natural'], TABLE_3.corrupted[label]
  gained = [accuracies[name] - natural[name] for name in natural]
  slope = linear_fit(PUBLISHED_SHARES, gained, []).slope
  assert min(sign * slope.low, sign * slope.high) > 0, slope
  at_fog = fit_lines(PUBLISHED_SHARES, gained).at(0.03)
  assert float(at_fog[0]) < 0, 'all networks lose accuracy at low frequencies'


SHARE = np.array([0.05, 0.1, 0.3, 0.45, 0.6, 0.7])


def made(generator: np.random.Generator, count: int, change: np.ndarray) -> list[np.ndarray]:
  """Returns shares [count, 6] and errors of two classifiers, whose mean accuracies differ by
  `change`."""
  shares = SHARE + 0.02 * generator.normal(size=(count, 6))
  hard = generator.random((count, 1))
  first = 0.2 + 0.3 * hard + 0.1 * generator.normal(size=(count, 6))
  second = first - change + 0.3 * (generator.random((count, 6)) - 0.5) * hard
  return [shares, first, second]


def test_a_trade_off_has_the_line_of_mean_changes_by_mean_share():
  shares, first, second = made(np.random.default_rng(2), 60, 0.4 * SHARE - 0.1)
  shares[3, 2] = np.nan  # an image that a corruption leaves as it is
  rows = assemble([trade_off('net', 'base', shares, first, second)])
  assert (rows.low <= rows.value).all() and (rows.value <= rows.high).all()
  assert estimate(rows, 'net', 'residual', 'base').low >= 0
  x, y = np.nanmean(shares, 0), (first - second).mean(0)
  slope, intercept = np.polyfit(x, y, 1)
  assert estimate(rows, 'net', 'slope', 'base').value == pytest.approx(slope)
  line = select(rows, 'line', 'base', high_frequency_share=...)
  expected = intercept + slope * line.high_frequency_share.astype(float)
  np.testing.assert_allclose(line.value, expected)
  assert line.high_frequency_share.iloc[[0, -1]].tolist() == pytest.approx([x.min(), x.max()])


def test_corruptions_that_change_no_image_are_left_out_with_a_note():
  rng = np.random.default_rng(0)
  share, first, second = (rng.random((40, 5)) for _ in range(3))
  share[:, 2] = np.nan
  changing = [0, 1, 3, 4]
  with_it = trade_off('net', 'base', share, first, second)
  without = trade_off('net', 'base', share[:, changing], first[:, changing], second[:, changing])
  np.testing.assert_array_equal(with_it.value, without.value)
  assert with_it.note[:4].str.startswith('1 of 5 corruptions change no image').all()
  share[:, 3:] = np.nan
  undefined = trade_off('net', 'base', share, first, second)
  assert undefined.value.isna().all() and undefined.note.str.startswith('3 of 5').all()
  assert undefined.method.tolist() == without.method[:4].tolist()
  single = trade_off('net', 'base', *(column[:1] for column in (rng.random((1, 5)), first, second)))
  assert single.low[[0, 2, 3]].isna().all() and single.high[[0, 2, 3]].isna().all()
  rare = rng.random((40, 5))
  rare[2:, 0] = np.nan  # a corruption that changes two images
  without_interval = trade_off('net', 'base', rare, first, second).iloc[[0, 3]]
  assert without_interval.note.str.contains('too many').all() and without_interval.low.isna().all()


@pytest.mark.parametrize('rounding', [0, 1e-15])
def test_corruptions_of_one_share_have_no_line(rounding):
  rng = np.random.default_rng(0)
  share = 0.25 + rounding * np.arange(4) + np.zeros((40, 1))
  rows = assemble([trade_off('net', 'base', share, rng.random((40, 4)), rng.random((40, 4)))])
  assert len(rows) == 4 and rows.value.isna().all()
  assert set(rows.note) == {'undefined: all corruptions have the same share'}


def test_intervals_equal_those_of_a_bootstrap_by_hand():
  shares, first, second = made(np.random.default_rng(3), 30, 0.4 * SHARE - 0.1)
  shares[3, 2] = np.nan
  generator, drawn = np.random.default_rng(0), []
  for _ in range(10):
    for counts in generator.multinomial(30, np.full(30, 1 / 30), size=100):
      is_changed = ~np.isnan(shares)
      x = (counts @ np.where(is_changed, shares, 0)) / (counts @ is_changed)
      y = counts @ (first - second) / 30
      slope, intercept = np.polyfit(x, y, 1)
      drawn.append([slope, intercept, ((y - slope * x - intercept) ** 2).mean()])
  rows = assemble([trade_off('net', 'base', shares, first, second)])
  names = ('slope', 'intercept', 'residual')
  slope, intercept, residual = (estimate(rows, 'net', name, 'base') for name in names)
  low, high = percentile_interval(np.array(drawn), 30, 0.95)
  assert (slope.low, slope.high) == pytest.approx((low[0], high[0]))
  assert (intercept.low, intercept.high) == pytest.approx((low[1], high[1]))
  _, high_residual = percentile_interval(np.sqrt(np.array(drawn)[:, 2]), 30, 0.95)
  basic = np.sqrt(max(0, 2 * residual.value**2 - high_residual**2))  # the basic bootstrap
  assert residual.low == pytest.approx(basic)


def test_fractions_of_no_energy_are_nan_and_left_out_of_means():
  np.testing.assert_array_equal(energy_fraction([0, 1, 2.0000001], [0, 4, 2]), [np.nan, 0.25, 1])
  np.testing.assert_array_equal(known_mean([[1, 3, np.nan], [np.nan] * 3]), [2, np.nan])
