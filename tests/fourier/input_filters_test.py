"""Low- and high-pass front ends: which waves pass, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.front_ends import high_pass, low_pass


def wave(fy: int, fx: int, side: int = 32) -> np.ndarray:
  y, x = np.mgrid[:side, :side]
  single = np.cos(2 * np.pi * (fy * y + fx * x) / side + 0.3)
  return np.repeat(single[None, :, :, None], 3, -1).astype(np.float32)


@pytest.mark.parametrize('module', [low_pass, high_pass])
@pytest.mark.parametrize(('fy', 'fx'), [(0, 0), (1, 0), (3, -3), (7, 7), (8, 2), (0, 8), (16, 16)])
def test_a_wave_passes_whole_or_not_at_all(module, fy: int, fx: int) -> None:
  bandwidth = 15 if module is low_pass else 27
  lowest = max(abs(fy), abs(fx)) <= 7 if module is low_pass else min(abs(fy), abs(fx)) >= 3
  image = wave(fy, fx)
  filtered = module.front_end(jnp.asarray(image), module.Settings(bandwidth))
  np.testing.assert_allclose(filtered, image if lowest else 0 * image, atol=1e-5)


def test_filters_are_projections_and_keep_their_shares_of_white_noise() -> None:
  noise = jax.random.normal(jax.random.key(0), (4, 32, 32, 3))
  for module, bandwidth, share in ((low_pass, 15, (15 / 32) ** 2), (high_pass, 27, (27 / 32) ** 2)):
    settings = module.Settings(bandwidth)
    filtered = module.front_end(noise, settings)
    np.testing.assert_allclose(module.front_end(filtered, settings), filtered, atol=1e-5)
    assert float((filtered**2).sum() / (noise**2).sum()) == pytest.approx(share, rel=0.03)


def test_high_pass_31_removes_the_zero_row_and_column_alone() -> None:
  noise = jax.random.normal(jax.random.key(0), (1, 32, 32, 1))
  spectrum = np.fft.fft2(np.asarray(high_pass.front_end(noise, high_pass.Settings(31)))[0, ..., 0])
  assert (np.abs(spectrum) < 1e-3).sum() == 63


@pytest.mark.parametrize(
  ('module', 'bandwidth', 'message'),
  [
    (low_pass, 14, 'bandwidth is 14; a low pass on 32 pixels takes an odd number in 1..32'),
    (low_pass, 33, 'bandwidth is 33'),
    (high_pass, 14, 'bandwidth is 14; a high pass on 32 pixels takes an odd number'),
    (high_pass, 33, 'bandwidth is 33'),
  ],
)
def test_bandwidths_that_are_no_symmetric_square_are_refused(module, bandwidth, message) -> None:
  with pytest.raises(InputError, match=message):
    module.front_end(jnp.zeros((1, 32, 32, 3)), module.Settings(bandwidth))
  with pytest.raises(InputError, match=r'front_end\.\w+\.bandwidth is 0'):
    module.Settings(0)
