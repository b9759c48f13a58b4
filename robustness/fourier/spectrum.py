"""Amplitude spectra of images and of changes to images.

The orthonormal transform of an H × W image x is

  F(x)[f_y, f_x] = 1/√(HW) Σ_{y,x'} x[y, x'] exp(−2πi (f_y y / H + f_x x' / W)),

so that Σ|F|² = Σx², and white noise of standard deviation σ has a mean |F| of about .89 σ at every
frequency of every image size. |F| of a real image is equal at (f_y, f_x) and at its mirror.
Therefore the device computes only the half f_x ≥ 0, in the order of `jnp.fft.rfft2`, and `full_map`
completes it.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice
from robustness.fourier.filters import half_spectrum

CHANNELS = ('each', 'grey')
"""Whether spectra are computed of each channel or of the grey image."""
GREY = (0.299, 0.587, 0.114)
"""Weights of R, G and B in the grey image."""
PIXELS_PER_CYCLE = 64
"""A ring is one cycle wide for each 64 pixels of the shorter side, rounded up."""


def half_magnitude(image: jax.Array, channels: str = 'each') -> jax.Array:
  """Returns the amplitude spectrum |F| of an image, float32 [H, W // 2 + 1, channels].

  Args:
    image: [H, W, C].
    channels: 'each' for a spectrum per channel, or 'grey' for the spectrum of .299 R + .587 G +
      .114 B.
  """
  choice('channels', channels, CHANNELS)
  if channels == 'grey' and image.shape[-1] == 3:
    weights = jnp.asarray(GREY, image.dtype)[None, None, :]
    image = (image * weights).sum(-1, keepdims=True)
  planes = jnp.moveaxis(image, -1, 0)
  return jnp.moveaxis(jnp.abs(jnp.fft.rfft2(planes, norm='ortho')), 0, -1)


def full_map(values: np.ndarray, width: int) -> np.ndarray:
  """Completes a half spectrum to a map of all frequencies, [..., H, W], with zero in the centre.

  Args:
    values: [..., H, W // 2 + 1] in the order of `rfft2`. A frequency and its mirror have the same
      value.
    width: W.
  """
  mirrored = np.roll(values[..., ::-1, :], 1, axis=-2)  # the value at −f_y in row f_y
  # columns −f_x in the order of `fft2`, for 0 < f_x < W / 2; the two ends are their own mirrors
  negative = mirrored[..., 1 : (width + 1) // 2][..., ::-1]
  full = np.concatenate([values, negative], axis=-1)
  return np.fft.fftshift(full, axes=(-2, -1))


@dataclasses.dataclass(frozen=True)
class Measures:
  """Computes the energies of an amplitude spectrum, and its means over rings of frequencies.

  The attributes are weights of the elements of a half spectrum, [H, W // 2 + 1] in the order of
  `rfft2`, in sums over all frequencies.

  Attributes:
    weight: float32 [H, W // 2 + 1], number of frequencies that an element represents: 2, or 1 if
      the mirror is an element too.
    high: float32 [H, W // 2 + 1], `weight` at the frequencies that a high pass keeps, else 0.
    rings: float32 [R, H, W // 2 + 1], weights of means over R rings of |f|. The weights of each
      ring sum to 1.
    radii: the middle of each ring in cycles per image, [R].
  """

  weight: np.ndarray
  high: np.ndarray
  rings: np.ndarray
  radii: np.ndarray

  def energies(self, magnitude: jax.Array) -> dict[str, jax.Array]:
    """Returns the energy of a spectrum, and the part of it at high frequencies.

    Args:
      magnitude: |F|, the absolute values of an image's `rfft2`, [H, W // 2 + 1, channels].

    Returns:
      {'energy': Σ|F|² over frequencies and channels, 'high_energy': the same sum over the
      frequencies that a high pass keeps}.
    """
    energy = (magnitude**2).sum(-1)
    return {'energy': (energy * self.weight).sum(), 'high_energy': (energy * self.high).sum()}

  def __call__(self, magnitude: jax.Array) -> dict[str, jax.Array]:
    """Returns the energies of a spectrum, and its means over R rings of frequencies.

    Args:
      magnitude: |F|, the absolute values of an image's `rfft2`, [H, W // 2 + 1, channels].

    Returns:
      `energy` and `high_energy`, see `energies`; and `rings` [R], the mean of |F| over each ring
      and over channels.
    """
    # [R, H · (W // 2 + 1)]; each row holds weights that sum to 1
    rings = jnp.asarray(self.rings.reshape(len(self.rings), -1))
    return {
      **self.energies(magnitude),
      'rings': jnp.matmul(rings, magnitude.mean(-1).ravel(), precision='highest'),
    }


def measures(keep: np.ndarray) -> Measures:
  """Returns the `Measures` for spectra of H × W images.

  Rings are ⌈shorter side / 64⌉ cycles wide: 1 up to sides of 64 pixels, and 4 at 224. At most 33
  rings reach the Nyquist frequency of the shorter side, and 46 the corner of a square image.

  Args:
    keep: bool [H, W], the frequencies that count as high, with zero frequency in the centre. They
      are the frequencies that a high pass keeps.
  """
  height, width = keep.shape
  columns = width // 2 + 1
  weight = np.full((height, columns), 2, np.float32)
  weight[:, 0] = 1  # f_x = 0: the mirror of each frequency is in this column too
  if width % 2 == 0:
    weight[:, -1] = 1  # f_x = W/2, the Nyquist frequency, in the same way
  fy = np.abs(np.fft.fftfreq(height, 1 / height))
  step = -(-min(height, width) // PIXELS_PER_CYCLE)  # the width of a ring in cycles, rounded up
  radius = np.hypot(fy[:, None], np.arange(columns)[None, :])
  ring = np.floor(radius / step + 0.5).astype(int)  # number of the ring of each frequency
  numbers = np.unique(ring)
  rings = (ring == numbers[:, None, None]) * weight
  rings /= rings.sum((1, 2), keepdims=True)  # the weights of each ring sum to 1
  high = weight * half_spectrum(keep)
  return Measures(weight, high, rings.astype(np.float32), radii=numbers * step)
