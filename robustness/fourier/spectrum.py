r"""Spectra of images and of changes to images.

  F(x)[f_y, f_x] = 1/√(HW) Σ x[y, x'] exp(-2πi (f_y y / H + f_x x' / W))

is orthonormal: Σ|F|² = Σx², and white noise of standard deviation σ has |F| ≈ .89 σ at every
frequency of every image size. |F| of a real image is equal at (f_y, f_x) and at its mirror, so the
device computes the half f_x ≥ 0 (in the order of `jnp.fft.rfft2`), and `whole` completes the map.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice
from robustness.fourier.filters import half

CHANNELS = ('each', 'grey')
GREY = (0.299, 0.587, 0.114)
PIXELS_PER_CYCLE = 64  # a ring is one cycle wide for each 64 pixels of the shorter side, rounded up


def half_magnitude(image: jax.Array, channels: str = 'each') -> jax.Array:
  """Returns |F| of an image [H, W, C], float32 [H, W // 2 + 1, channels]: of 'each' channel, or of
  the 'grey' image .299 R + .587 G + .114 B."""
  choice('channels', channels, CHANNELS)
  if channels == 'grey' and image.shape[-1] == 3:
    weights = jnp.asarray(GREY, image.dtype)[None, None, :]
    image = (image * weights).sum(-1, keepdims=True)
  planes = jnp.moveaxis(image, -1, 0)
  return jnp.moveaxis(jnp.abs(jnp.fft.rfft2(planes, norm='ortho')), 0, -1)


def full_map(values: np.ndarray, width: int) -> np.ndarray:
  """Returns the map of all frequencies [..., H, W], zero in the centre, from its half
  [..., H, W // 2 + 1] in the order of `rfft2`; it is equal at a frequency and its mirror."""
  mirrored = np.roll(values[..., ::-1, :], 1, axis=-2)
  full = np.concatenate([values, mirrored[..., 1 : (width + 1) // 2][..., ::-1]], axis=-1)
  return np.fft.fftshift(full, axes=(-2, -1))


@dataclasses.dataclass(frozen=True)
class Measures:
  """Sums over frequencies, as weights on the half spectrum, [.., H, W // 2 + 1].

  Attributes:
    weight: Number of frequencies that a cell represents: 2, or 1 if it has no mirror.
    high: `weight` of the frequencies that a high pass keeps, 0 elsewhere.
    rings: [R, H, W // 2 + 1], weights of sum 1 for means over rings of |f|.
    radii: [R], the middle of each ring in cycles per image.
  """

  weight: np.ndarray
  high: np.ndarray
  rings: np.ndarray
  radii: np.ndarray

  def energies(self, magnitude: jax.Array) -> dict[str, jax.Array]:
    """Returns the `energy` Σ|F|² of a `half_magnitude`, and `high_energy` after the high pass."""
    energy = (magnitude**2).sum(-1)
    return {'energy': (energy * self.weight).sum(), 'high_energy': (energy * self.high).sum()}

  def __call__(self, magnitude: jax.Array) -> dict[str, jax.Array]:
    """Returns the `energies`, and `rings` [R], the means of |F| over rings."""
    rings = jnp.asarray(self.rings.reshape(len(self.rings), -1))
    return {
      **self.energies(magnitude),
      'rings': jnp.matmul(rings, magnitude.mean(-1).ravel(), precision='highest'),
    }


def measures(keep: np.ndarray) -> Measures:
  """Returns the weights for a high pass that keeps the frequencies `keep`, bool [H, W], zero in the
  centre.

  Rings are ⌈shorter side / 64⌉ cycles wide: 1 up to sides of 64 pixels, 4 at 224. At most 33 reach
  the Nyquist frequency of the shorter side, and 46 the corner of a square image.
  """
  height, width = keep.shape
  columns = width // 2 + 1
  weight = np.full((height, columns), 2, np.float32)
  weight[:, 0] = 1
  if width % 2 == 0:
    weight[:, -1] = 1
  fy = np.abs(np.fft.fftfreq(height, 1 / height))
  step = -(-min(height, width) // PIXELS_PER_CYCLE)
  ring = np.floor(np.hypot(fy[:, None], np.arange(columns)[None, :]) / step + 0.5).astype(int)
  rings = (ring == np.unique(ring)[:, None, None]) * weight
  rings /= rings.sum((1, 2), keepdims=True)
  return Measures(weight, weight * half(keep), rings.astype(np.float32), np.unique(ring) * step)
