"""Low and high passes, and the input filters that apply them: what passes, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.fourier.filters import KINDS, high_pass, lowest_kept
from robustness.fourier.input_filters import HighPass, LowPass
from tests.cases import cases
from tests.refusals import refused


def test_the_published_high_pass_keeps_three_cycles_and_more():
  keep = high_pass(32, 32, 27)
  f = np.arange(32) - 16
  np.testing.assert_array_equal(keep, (abs(f) >= 3)[:, None] & (abs(f) >= 3))
  assert keep.sum() == 27**2
  np.testing.assert_array_equal(high_pass(32, 32), keep)
  assert high_pass(32, 32, 31).sum() == 32**2 - 63, 'only the row and column of zero go'


@cases('side, bandwidth', (28, 23), (32, 27), (64, 53), (224, 183), (299, 244), (5, 4))
def test_other_sides_in_proportion_symmetric_and_by_the_longer_side(side, bandwidth):
  assert high_pass(side, side).sum() == bandwidth**2
  np.testing.assert_array_equal(high_pass(side, side, bandwidth), high_pass(side, side))
  for height, width in ((32, 48), (31, 50), (28, 28)):
    keep = np.fft.ifftshift(high_pass(height, width))
    mirrored = np.roll(keep[::-1, ::-1], 1, (0, 1))
    np.testing.assert_array_equal(keep, mirrored)
  assert lowest_kept(32, 64, 27) == (3, 6)
  assert high_pass(240, 427, 1).sum() == 2, 'the longer side is odd'


@cases(
  'kind, side, bandwidth, message',
  ('high_pass', 32, 26, 'takes an odd number in 1..31'),
  ('high_pass', 31, 27, 'takes an even number'),
  ('high_pass', 32, 33, 'bandwidth is 33'),
  ('high_pass', 32, -1, 'an odd number in 1..31, .*symmetric'),
  ('low_pass', 32, 14, 'a low pass on 32 pixels takes an odd number in 1..32'),
  ('low_pass', 32, 33, 'bandwidth is 33'),
)
def test_no_symmetric_square_is_refused(kind, side, bandwidth, message):
  refused(message, KINDS[kind], side, side, bandwidth)


FILTERS = (LowPass(15), HighPass(27))


@pytest.mark.parametrize('input_filter', FILTERS)
@pytest.mark.parametrize(('fy', 'fx'), [(0, 0), (1, 0), (3, -3), (7, 7), (8, 2), (0, 8), (16, 16)])
def test_a_wave_passes_whole_or_not_at_all(input_filter, fy, fx):
  low = isinstance(input_filter, LowPass)
  passes = max(abs(fy), abs(fx)) <= 7 if low else min(abs(fy), abs(fx)) >= 3
  y, x = np.mgrid[:32, :32]
  single = np.cos(2 * np.pi * (fy * y + fx * x) / 32 + 0.3)
  image = np.repeat(single[None, :, :, None], 3, -1).astype(np.float32)
  np.testing.assert_allclose(
    input_filter(jnp.asarray(image)), image if passes else 0 * image, atol=1e-5
  )


def test_filters_are_projections_and_keep_their_shares_of_white_noise():
  noise = jax.random.normal(jax.random.key(0), (4, 32, 32, 3))
  for input_filter in FILTERS:
    filtered = input_filter(noise)
    np.testing.assert_allclose(input_filter(filtered), filtered, atol=1e-5)
    share = (input_filter.bandwidth / 32) ** 2
    assert float((filtered**2).sum() / (noise**2).sum()) == pytest.approx(share, rel=0.03)
  spectrum = np.fft.fft2(np.asarray(HighPass(31)(noise))[0, ..., 0])
  assert (np.abs(spectrum) < 1e-3).sum() == 63, 'the zero row and column alone'


@pytest.mark.parametrize('input_filter', FILTERS)
def test_a_bandwidth_is_at_least_one_and_a_symmetric_square(input_filter):
  refused(r'input_filter\.\w+\.bandwidth is 0', type(input_filter), 0)
  message = r'bandwidth is 14; .* on 32 pixels takes an odd number'
  refused(message, type(input_filter)(14), jnp.zeros((1, 32, 32, 3)))
