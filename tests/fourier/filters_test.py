"""Tests low and high passes, and the input filters that apply them."""

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
  frequency = abs(np.arange(32) - 16)
  np.testing.assert_array_equal(keep, (frequency >= 3)[:, None] & (frequency >= 3))
  assert keep.sum() == 27**2
  np.testing.assert_array_equal(high_pass(32, 32), keep)
  assert high_pass(32, 32, 31).sum() == 32**2 - 63, 'one row and one column are removed'


@cases('side, bandwidth', (28, 23), (32, 27), (64, 53), (224, 183), (299, 244), (5, 4))
def test_the_default_bandwidth_is_in_proportion_to_the_side(side, bandwidth):
  assert high_pass(side, side).sum() == bandwidth**2
  np.testing.assert_array_equal(high_pass(side, side, bandwidth), high_pass(side, side))


@cases('height, width', (32, 48), (31, 50), (28, 28))
def test_a_high_pass_keeps_a_frequency_and_its_mirror_or_none(height, width):
  keep = np.fft.ifftshift(high_pass(height, width))
  np.testing.assert_array_equal(keep, np.roll(keep[::-1, ::-1], 1, (0, 1)))


def test_the_shorter_side_of_a_rectangle_has_the_bandwidth():
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
def test_a_bandwidth_without_a_symmetric_square_is_refused(kind, side, bandwidth, message):
  refused(message, KINDS[kind], side, side, bandwidth)


FILTERS = (LowPass(15), HighPass(27))


@pytest.mark.parametrize('input_filter', FILTERS)
@pytest.mark.parametrize(('fy', 'fx'), [(0, 0), (1, 0), (3, -3), (7, 7), (8, 2), (0, 8), (16, 16)])
def test_a_wave_passes_unchanged_or_is_removed(input_filter, fy, fx):
  """`LowPass(15)` keeps up to 7 cycles per 32 pixels on both axes, `HighPass(27)` 3 and more."""
  is_low_pass = isinstance(input_filter, LowPass)
  passes = max(abs(fy), abs(fx)) <= 7 if is_low_pass else min(abs(fy), abs(fx)) >= 3
  y, x = np.mgrid[:32, :32]
  wave = np.cos(2 * np.pi * (fy * y + fx * x) / 32 + 0.3)  # a phase at which none of them is zero
  image = np.repeat(wave[None, :, :, None], 3, -1).astype(np.float32)
  np.testing.assert_allclose(
    input_filter(jnp.asarray(image)), image if passes else 0 * image, atol=1e-5
  )


def test_filters_are_projections_and_keep_a_known_share_of_white_noise():
  noise = jax.random.normal(jax.random.key(0), (4, 32, 32, 3))
  for input_filter in FILTERS:
    filtered = input_filter(noise)
    np.testing.assert_allclose(input_filter(filtered), filtered, atol=1e-5)
    share = (input_filter.bandwidth / 32) ** 2
    assert float((filtered**2).sum() / (noise**2).sum()) == pytest.approx(share, rel=0.03)
  spectrum = np.fft.fft2(np.asarray(HighPass(31)(noise))[0, ..., 0])
  assert (np.abs(spectrum) < 1e-3).sum() == 63, (
    'only the row and column of frequency zero are removed'
  )


@pytest.mark.parametrize('input_filter', FILTERS)
def test_input_filters_refuse_unusable_bandwidths(input_filter):
  refused(r'input_filter\.\w+\.bandwidth is 0', type(input_filter), 0)
  message = r'bandwidth is 14; .* on 32 pixels takes an odd number'
  refused(message, type(input_filter)(14), jnp.zeros((1, 32, 32, 3)))
