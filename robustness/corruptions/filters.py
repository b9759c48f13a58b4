"""Image operations that several corruptions share, with the borders of the published generators.

Every image is [H, W, C]; a plane is an image with one channel. Sizes are static; sigmas, angles and
coordinates may be traced. Borders, for the row a b c d:

  nearest   a a a | a b c d | d d d     (replicate)
  reflect   c b a | a b c d | d c b     (the edge pixel is repeated)
  mirror    d c b | a b c d | c b a     (the edge pixel is not repeated; OpenCV's REFLECT_101)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice

BORDERS = ('nearest', 'reflect', 'mirror')
DIRECT_TAPS = 49  # a kernel with more elements is applied by FFT
HIGHEST = jax.lax.Precision.HIGHEST  # accelerators would round products to 10 bits


def border_index(position: jax.Array, size: int, border: str) -> jax.Array:
  """Returns the pixel of [0, size) that stands at any integer position of a line.

  Args:
    position: integers, of any distance outside the line.
    size: of the line, in pixels.
    border: one of `BORDERS`.
  """
  choice('border', border, BORDERS)
  if border == 'nearest' or size == 1:
    return jnp.clip(position, 0, size - 1)
  period = 2 * size if border == 'reflect' else 2 * size - 2
  folded = position % period
  last = period - 1 if border == 'reflect' else period
  return jnp.where(folded < size, folded, last - folded)


def pad(
  image: jax.Array, rows: tuple[int, int], columns: tuple[int, int], border: str
) -> jax.Array:
  """Extends an image [H, W, C] by static (before, after) numbers of rows and columns."""
  height, width = image.shape[:2]
  y = border_index(jnp.arange(-rows[0], height + rows[1]), height, border)
  x = border_index(jnp.arange(-columns[0], width + columns[1]), width, border)
  return image[y][:, x]


def gaussian_weights(
  sigma: jax.Array | float, max_sigma: float, truncate: float = 4.0
) -> jax.Array:
  """Returns exp(-k² / 2σ²) for k = -r..r, 0 beyond int(truncate·σ + ½), with sum 1.

  Args:
    sigma: pixels; may be traced; 0 gives a single tap.
    max_sigma: static bound of sigma, which fixes r = int(truncate·max_sigma + ½).
    truncate: radius in units of sigma.
  """
  reach = int(truncate * max_sigma + 0.5)
  tap = jnp.arange(-reach, reach + 1, dtype=jnp.float32)
  sigma = jnp.asarray(sigma, jnp.float32)
  radius = jnp.floor(truncate * sigma + 0.5)
  weights = jnp.exp(-0.5 * (tap / jnp.maximum(sigma, 1e-6)) ** 2)
  weights = jnp.where(jnp.abs(tap) <= radius, weights, 0)
  return weights / weights.sum()


def gaussian_matrix(
  size: int,
  sigma: jax.Array | float,
  max_sigma: float,
  truncate: float = 4.0,
  border: str = 'nearest',
) -> jax.Array:
  """Returns the matrix [size, size] that smooths a line of pixels, its border included.

  Args:
    size: of the line, in pixels.
    sigma, max_sigma, truncate: as in `gaussian_weights`.
    border: one of `BORDERS`.
  """
  weights = gaussian_weights(sigma, max_sigma, truncate)
  reach, wide = len(weights) // 2, size + len(weights) - 1
  band = jnp.tile(jnp.pad(weights, (0, size)), size)[: size * wide].reshape(size, wide)
  inside = band[:, reach : reach + size]
  if reach == 0:
    return inside
  outside = np.concatenate([np.arange(-reach, 0), np.arange(size, size + reach)])
  with jax.ensure_compile_time_eval():
    fold = jax.nn.one_hot(border_index(jnp.asarray(outside), size, border), size)
  edges = jnp.concatenate([band[:, :reach], band[:, reach + size :]], 1)
  return inside + jnp.matmul(edges, fold, precision=HIGHEST)


def gaussian_filter(
  image: jax.Array,
  sigma: jax.Array | float,
  max_sigma: float,
  truncate: float = 4.0,
  border: str = 'nearest',
) -> jax.Array:
  """Smooths [H, W, C] with a separable Gaussian, each channel alone.

  Args:
    image: float32 [H, W, C].
    sigma: pixels; may be traced; 0 leaves the image.
    max_sigma: static bound of sigma.
    truncate: radius of the kernel in units of sigma; the radius is int(truncate·σ + ½).
    border: one of `BORDERS`.
  """
  height, width = image.shape[:2]
  rows = gaussian_matrix(height, sigma, max_sigma, truncate, border)
  columns = rows if width == height else gaussian_matrix(width, sigma, max_sigma, truncate, border)
  return separable(image, rows, columns)


def separable(image: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
  """Returns rows · image · columnsᵀ of each channel: [H', H], [H, W, C], [W', W] to [H', W', C]."""
  image = jnp.einsum('ij,jwc->iwc', rows, image, precision=HIGHEST)
  return jnp.einsum('ij,hjc->hic', columns, image, precision=HIGHEST)


def correlate(image: jax.Array, kernel: jax.Array, border: str = 'mirror') -> jax.Array:
  """Correlates every channel of [H, W, C] with one kernel of odd static sides.

  Args:
    image: float32 [H, W, C].
    kernel: float32 [2a + 1, 2b + 1]; may be traced; not flipped.
    border: one of `BORDERS`.
  """
  a, b = (side // 2 for side in kernel.shape)
  padded = pad(image, (a, a), (b, b), border)
  if kernel.size > DIRECT_TAPS:
    return _correlate_by_fft(padded, kernel, image.shape[:2])
  height, width = image.shape[:2]
  return sum(
    (
      kernel[i, j] * padded[i : i + height, j : j + width]
      for i in range(kernel.shape[0])
      for j in range(kernel.shape[1])
    ),
    jnp.zeros_like(image),
  )


def _correlate_by_fft(padded: jax.Array, kernel: jax.Array, shape: tuple[int, ...]) -> jax.Array:
  size = [_fast_size(n) for n in padded.shape[:2]]
  spectrum = jnp.fft.rfft2(jnp.moveaxis(padded, -1, 0), s=size)
  transfer = jnp.conj(jnp.fft.rfft2(kernel, s=size))
  planes = jnp.fft.irfft2(spectrum * transfer[None], s=size)
  return jnp.moveaxis(planes[:, : shape[0], : shape[1]], 0, -1)


def _fast_size(least: int) -> int:
  """Returns the smallest even n ≥ least that has no prime factor above 5."""
  size = least + least % 2
  while True:
    rest = size
    for prime in (2, 3, 5):
      while rest % prime == 0:
        rest //= prime
    if rest == 1:
      return size
    size += 2


def sample_bilinear(image: jax.Array, y: jax.Array, x: jax.Array, border: str) -> jax.Array:
  """Samples [H, W, C] at fractional positions: [...] and [...] to [..., C].

  Args:
    image: float32 [H, W, C].
    y, x: positions in pixels, of one shape; pixel centres are integers.
    border: one of `BORDERS`; where it lies between pixels, both neighbours are folded.
  """
  height, width, channels = image.shape
  top, left = jnp.floor(y), jnp.floor(x)
  down, right = (y - top)[..., None], (x - left)[..., None]
  rows = [border_index(top.astype(jnp.int32) + k, height, border) for k in (0, 1)]
  columns = [border_index(left.astype(jnp.int32) + k, width, border) for k in (0, 1)]
  pixels = image.reshape(-1, channels)

  def at(i: int, j: int) -> jax.Array:
    return pixels[rows[i] * width + columns[j]]

  upper = (1 - right) * at(0, 0) + right * at(0, 1)
  lower = (1 - right) * at(1, 0) + right * at(1, 1)
  return (1 - down) * upper + down * lower


def interpolate(image: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
  """Resamples [H, W, C] on a grid of rows y [H'] and columns x [W'], bilinear, to [H', W', C].

  Args:
    image: float32 [H, W, C].
    y, x: positions in pixels within [0, H - 1] and [0, W - 1]; may be traced.
  """
  top = jnp.clip(jnp.floor(y).astype(jnp.int32), 0, max(image.shape[0] - 2, 0))
  left = jnp.clip(jnp.floor(x).astype(jnp.int32), 0, max(image.shape[1] - 2, 0))
  down, right = (y - top)[:, None, None], (x - left)[None, :, None]
  bottom = jnp.minimum(top + 1, image.shape[0] - 1)
  image = image[top] * (1 - down) + image[bottom] * down
  farther = jnp.minimum(left + 1, image.shape[1] - 1)
  return image[:, left] * (1 - right) + image[:, farther] * right


def zoom_coordinates(size: int, zooms: np.ndarray) -> np.ndarray:
  """Returns where the pixels of a line come from when its centre is enlarged.

  The centred piece of ceil(n / z) pixels is stretched to round(piece · z) with its end points
  aligned, and n pixels are kept from the middle, as scipy.ndimage.zoom of order 1 and a trim do.

  Args:
    size: n, in pixels.
    zooms: float64 [Z], each at least 1.

  Returns:
    float32 [Z, size], positions in pixels of the line, for `interpolate`.
  """
  zooms = np.asarray(zooms, np.float64)
  piece = np.ceil(size / zooms)
  start = (size - piece) // 2
  stretched = np.maximum(np.round(piece * zooms), size)
  trim = (stretched - size) // 2
  step = (piece - 1) / np.maximum(stretched - 1, 1)
  pixel = np.arange(size)[None, :] + trim[:, None]
  return (start[:, None] + pixel * step[:, None]).astype(np.float32)


def motion_blur(
  image: jax.Array, radius: jax.Array, sigma: jax.Array, angle: jax.Array, max_radius: int
) -> jax.Array:
  """One-sided motion blur along a direction, edges replicated.

  y(p) = Σᵢ wᵢ x(p + oᵢ), wᵢ ∝ exp(-i² / 2σ²), i = 0..2·radius,
  oᵢ = (⌈i sin a - ½⌉, ⌈i cos a - ½⌉) rows and columns.

  Args:
    image: float32 [H, W, C].
    radius: integer, pixels; may be traced.
    sigma: pixels; may be traced.
    angle: a, degrees; may be traced.
    max_radius: static bound of radius.
  """
  tap = jnp.arange(2 * max_radius + 1)
  weights = jnp.exp(-0.5 * (tap / sigma) ** 2)
  weights = jnp.where(tap <= 2 * radius, weights, 0)
  weights = weights / weights.sum()
  turn = jnp.deg2rad(angle)
  down = jnp.ceil(tap * jnp.sin(turn) - 0.5).astype(jnp.int32)
  right = jnp.ceil(tap * jnp.cos(turn) - 0.5).astype(jnp.int32)
  margin = 2 * max_radius
  padded = pad(image, (margin, margin), (margin, margin), 'nearest')

  def add(i: jax.Array, total: jax.Array) -> jax.Array:
    corner = (margin + down[i], margin + right[i], 0)
    return total + weights[i] * jax.lax.dynamic_slice(padded, corner, image.shape)

  first = weights[0] * image
  return jax.lax.fori_loop(1, 2 * jnp.asarray(radius, jnp.int32) + 1, add, first)
