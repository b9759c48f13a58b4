"""Low- and high-pass filters: which waves pass, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.fourier.input_filters import HighPass, LowPass
from robustness.models.inputs import InputFilter

FILTERS = (LowPass(15), HighPass(27))


@pytest.mark.parametrize('own', FILTERS)
@pytest.mark.parametrize(('fy', 'fx'), [(0, 0), (1, 0), (3, -3), (7, 7), (8, 2), (0, 8), (16, 16)])
def test_a_wave_passes_whole_or_not_at_all(own: InputFilter, fy: int, fx: int) -> None:
  low = isinstance(own, LowPass)
  passes = max(abs(fy), abs(fx)) <= 7 if low else min(abs(fy), abs(fx)) >= 3
  y, x = np.mgrid[:32, :32]
  single = np.cos(2 * np.pi * (fy * y + fx * x) / 32 + 0.3)
  image = np.repeat(single[None, :, :, None], 3, -1).astype(np.float32)
  np.testing.assert_allclose(own(jnp.asarray(image)), image if passes else 0 * image, atol=1e-5)


def test_filters_are_projections_and_keep_their_shares_of_white_noise() -> None:
  noise = jax.random.normal(jax.random.key(0), (4, 32, 32, 3))
  for own in FILTERS:
    filtered = own(noise)
    np.testing.assert_allclose(own(filtered), filtered, atol=1e-5)
    share = (own.bandwidth / 32) ** 2
    assert float((filtered**2).sum() / (noise**2).sum()) == pytest.approx(share, rel=0.03)
  spectrum = np.fft.fft2(np.asarray(HighPass(31)(noise))[0, ..., 0])
  assert (np.abs(spectrum) < 1e-3).sum() == 63, 'the zero row and column alone'


@pytest.mark.parametrize(
  ('own', 'message'),
  [
    (LowPass(14), 'bandwidth is 14; a low pass on 32 pixels takes an odd number in 1..32'),
    (LowPass(33), 'bandwidth is 33'),
    (HighPass(14), 'bandwidth is 14; a high pass on 32 pixels takes an odd number'),
    (HighPass(33), 'bandwidth is 33'),
  ],
)
def test_bandwidths_that_are_no_symmetric_square_are_refused(own, message) -> None:
  with pytest.raises(InputError, match=message):
    own(jnp.zeros((1, 32, 32, 3)))
  with pytest.raises(InputError, match=r'input_filter\.\w+\.bandwidth is 0'):
    type(own)(0)
