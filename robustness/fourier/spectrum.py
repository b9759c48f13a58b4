r"""Spectra of images and of what is done to them.

  F(x)[f_y, f_x] = 1/√(HW) Σ x[y, x'] exp(-2πi (f_y y / H + f_x x' / W)),

orthonormal, so that Σ|F|² = Σx² and white noise of standard deviation σ has |F| ≈ .89 σ at every
frequency of every image size. Images are real: |F| at (f_y, f_x) and at its mirror are equal, and
the device keeps the half f_x ≥ 0 (`jnp.fft.rfft2`'s order). `whole` gives back the centred map.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice
from robustness.fourier.filters import half

CHANNELS = ('each', 'grey')
GREY = (0.299, 0.587, 0.114)
SIDE_OF_A_CYCLE = 64  # pixels; rings are as many cycles wide as the shorter side is times this


def half_magnitude(image: jax.Array, channels: str = 'each') -> jax.Array:
  """Returns |F| of an image [H, W, C], float32 [H, W // 2 + 1, channels]: of each, or of 'grey',
  their weighted sum .299 R + .587 G + .114 B."""
  choice('channels', channels, CHANNELS)
  if channels == 'grey' and image.shape[-1] == 3:
    weights = jnp.asarray(GREY, image.dtype)[None, None, :]
    image = (image * weights).sum(-1, keepdims=True)
  planes = jnp.moveaxis(image, -1, 0)
  return jnp.moveaxis(jnp.abs(jnp.fft.rfft2(planes, norm='ortho')), 0, -1)


def whole(values: np.ndarray, width: int) -> np.ndarray:
  """Returns the map of all frequencies, zero in the centre, [..., H, W] of [..., H, W // 2 + 1] in
  the order of `rfft2`, of a quantity that is equal at a frequency and its mirror."""
  mirrored = np.roll(values[..., ::-1, :], 1, axis=-2)
  full = np.concatenate([values, mirrored[..., 1 : (width + 1) // 2][..., ::-1]], axis=-1)
  return np.fft.fftshift(full, axes=(-2, -1))


@dataclasses.dataclass(frozen=True)
class Measures:
  """What is summed over frequencies: weights on the half spectrum, [.., H, W // 2 + 1].

  Attributes:
    weight: how many frequencies of the whole spectrum a cell stands for: 2, or 1 without mirror.
    high: weights of the frequencies that a high pass keeps.
    rings: [R, H, W // 2 + 1], each sums to 1: means over rings of |f|.
    radii: [R], the middle of each ring, in cycles per image.
  """

  weight: np.ndarray
  high: np.ndarray
  rings: np.ndarray
  radii: np.ndarray

  def energies(self, magnitude: jax.Array) -> dict[str, jax.Array]:
    """Returns of `half_magnitude` the `energy` Σ|F|², and what a high pass keeps: `high_energy`."""
    energy = (magnitude**2).sum(-1)
    return {'energy': (energy * self.weight).sum(), 'high_energy': (energy * self.high).sum()}

  def __call__(self, magnitude: jax.Array) -> dict[str, jax.Array]:
    """Returns the `energies`, and `rings` [R], the means of |F|."""
    rings = jnp.asarray(self.rings.reshape(len(self.rings), -1))
    return {
      **self.energies(magnitude),
      'rings': jnp.matmul(rings, magnitude.mean(-1).ravel(), precision='highest'),
    }


def measures(keep: np.ndarray) -> Measures:
  """Returns the weights for a high pass that keeps some frequencies.

  Rings are s = ⌈shorter side / 64⌉ cycles wide: 1 up to sides of 64 pixels, 4 at 224. There are at
  most 33 up to the Nyquist frequency of the shorter side, 46 up to the corner of a square image.

  `keep` is bool [H, W], zero frequency in the centre.
  """
  height, width = keep.shape
  columns = width // 2 + 1
  weight = np.full((height, columns), 2, np.float32)
  weight[:, 0] = 1
  if width % 2 == 0:
    weight[:, -1] = 1
  fy = np.abs(np.fft.fftfreq(height, 1 / height))
  step = -(-min(height, width) // SIDE_OF_A_CYCLE)
  ring = np.floor(np.hypot(fy[:, None], np.arange(columns)[None, :]) / step + 0.5).astype(int)
  rings = (ring == np.unique(ring)[:, None, None]) * weight
  rings /= rings.sum((1, 2), keepdims=True)
  return Measures(weight, weight * half(keep), rings.astype(np.float32), np.unique(ring) * step)
