"""Image operations shared by corruptions, with the borders of the published generators.

Every image is [H, W, C]. Sizes are static; sigmas, angles and coordinates may be traced. Borders of
the row a b c d:

  nearest   a a a | a b c d | d d d     (replicate)
  reflect   c b a | a b c d | d c b     (the edge pixel is repeated)
  mirror    d c b | a b c d | c b a     (the edge pixel is not repeated; OpenCV's REFLECT_101)
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import scipy

Border = Literal['nearest', 'reflect', 'mirror']
"""Pixels outside of an image: the edge pixel, or the image mirrored with or without this pixel."""
DIRECT_TAPS = 49  # kernels with more elements are applied by FFT
HIGHEST = jax.lax.Precision.HIGHEST  # otherwise accelerators round products to 10 bits


def border_index(position: jax.Array, size: int, border: Border) -> jax.Array:
  """Returns the index of the pixel that extends a line at a position beyond its ends.

  Args:
    position: integer positions, which may be negative or at least `size`.
    size: number of pixels of the line.
    border: how the line continues, such as 'mirror'.

  Returns:
    Indices in [0, size), in the shape of `position`.
  """
  if border == 'nearest' or size == 1:
    return jnp.clip(position, 0, size - 1)
  # the line and its mirror image repeat with this period; 'mirror' has each end pixel once in it
  period = 2 * size if border == 'reflect' else 2 * size - 2
  folded = position % period
  last = period - 1 if border == 'reflect' else period
  return jnp.where(folded < size, folded, last - folded)


def pad(image: jax.Array, rows: int, columns: int, border: Border) -> jax.Array:
  """Returns an image [H, W, C] extended to [H + 2·`rows`, W + 2·`columns`, C].

  `rows` are added at the top and at the bottom, and `columns` at either side. `border` says which
  pixels continue the image.
  """
  height, width = image.shape[:2]
  y = border_index(jnp.arange(-rows, height + rows), height, border)
  x = border_index(jnp.arange(-columns, width + columns), width, border)
  return image[y][:, x]


def gaussian_weights(sigma: jax.Array | float, max_sigma: float, truncate: float = 4) -> jax.Array:
  """Returns the taps exp(-k² / 2σ²), k = -r..r, of a Gaussian filter, normalised to sum 1.

  Args:
    sigma: standard deviation σ in pixels, which may be traced. For σ = 0 only the tap k = 0 is not
      0.
    max_sigma: static upper bound of σ, which fixes r.
    truncate: taps with |k| > int(truncate·σ + ½) are 0.
  """
  reach = int(truncate * max_sigma + 0.5)
  tap = jnp.arange(-reach, reach + 1, dtype=jnp.float32)
  sigma = jnp.asarray(sigma, jnp.float32)
  radius = jnp.floor(truncate * sigma + 0.5)
  weights = jnp.exp(-0.5 * (tap / jnp.maximum(sigma, 1e-6)) ** 2)
  weights = jnp.where(jnp.abs(tap) <= radius, weights, 0)
  return weights / weights.sum()


def gaussian_matrix(
  size: int, sigma: jax.Array | float, max_sigma: float, border: Border, truncate: float = 4.0
) -> jax.Array:
  """Returns the matrix [size, size] that smooths a line of pixels by a Gaussian.

  Args:
    size: number of pixels of the line.
    sigma: standard deviation in pixels, which may be traced.
    max_sigma: static upper bound of `sigma`.
    border: how the line continues beyond its ends, such as 'mirror'.
    truncate: the Gaussian is cut off at `truncate` times `sigma`, which may exceed the line.
  """
  weights = gaussian_weights(sigma, max_sigma, truncate)
  reach = len(weights) // 2
  band = _shifted_rows(weights, size)  # a column per pixel of the line, and `reach` on each side
  inside = band[:, reach : reach + size]
  if reach == 0:
    return inside
  outside = np.concatenate([np.arange(-reach, 0), np.arange(size, size + reach)])
  # [positions outside, size], 1 at the pixel inside that each position stands for
  with jax.ensure_compile_time_eval():
    fold = jax.nn.one_hot(border_index(jnp.asarray(outside), size, border), size)
  weights_outside = jnp.concatenate([band[:, :reach], band[:, reach + size :]], 1)
  return inside + jnp.matmul(weights_outside, fold, precision=HIGHEST)


def _shifted_rows(weights: jax.Array, size: int) -> jax.Array:
  """Returns a band matrix with the same n weights in each row, shifted by one column per row.

  The matrix is [size, size + n − 1]. For the weights a, b, c and 2 rows, it has the rows a b c 0
  and 0 a b c.
  """
  num_columns = size + len(weights) - 1
  repeated = jnp.tile(jnp.pad(weights, (0, size)), size)
  return repeated[: size * num_columns].reshape(size, num_columns)


def gaussian_filter(
  image: jax.Array, sigma: jax.Array | float, max_sigma: float, border: Border = 'nearest'
) -> jax.Array:
  """Returns an image [H, W, C] smoothed by a Gaussian of standard deviation `sigma` pixels.

  `sigma` may be traced; `max_sigma`, its static bound, fixes the size of the kernel.
  """
  height, width = image.shape[:2]
  rows = gaussian_matrix(height, sigma, max_sigma, border)
  columns = rows if width == height else gaussian_matrix(width, sigma, max_sigma, border)
  return apply_separable(image, rows, columns)


def apply_separable(image: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
  """Returns rows · image · columnsᵀ for each channel of an image [H, W, C], as [H', W', C].

  The matrices `rows` [H', H] and `columns` [W', W] act on each axis.
  """
  image = jnp.einsum('ij,jwc->iwc', rows, image, precision=HIGHEST)
  return jnp.einsum('ij,hjc->hic', columns, image, precision=HIGHEST)


def correlate(image: jax.Array, kernel: jax.Array) -> jax.Array:
  """Returns an image [H, W, C] with every channel correlated with one kernel [2a + 1, 2b + 1].

  Borders are mirrored without repeating the edge pixel.
  """
  height, width = image.shape[:2]
  padded = pad(image, kernel.shape[0] // 2, kernel.shape[1] // 2, 'mirror')
  if kernel.size > DIRECT_TAPS:
    # the smallest even sizes without a prime factor above 5, for which FFTs are fast
    size = [2 * scipy.fft.next_fast_len(-(-n // 2), real=True) for n in padded.shape[:2]]
    spectrum = jnp.fft.rfft2(jnp.moveaxis(padded, -1, 0), s=size)
    transfer = jnp.conj(jnp.fft.rfft2(kernel, s=size))  # the conjugate correlates, not convolves
    planes = jnp.fft.irfft2(spectrum * transfer[None], s=size)
    return jnp.moveaxis(planes[:, :height, :width], 0, -1)
  total = jnp.zeros_like(image)
  for i in range(kernel.shape[0]):
    for j in range(kernel.shape[1]):
      total = total + kernel[i, j] * padded[i : i + height, j : j + width]
  return total


def interpolate(image: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
  """Returns an image [H, W, C] resampled bilinearly on a grid of rows and columns, [H', W', C].

  The rows y [H'] are in [0, H - 1] and the columns x [W'] in [0, W - 1], in pixels.
  """
  # Row y is y0 plus the fraction `down` in [0, 1]; the last row is the one before it plus 1.
  y0 = jnp.clip(jnp.floor(y).astype(jnp.int32), 0, max(image.shape[0] - 2, 0))
  x0 = jnp.clip(jnp.floor(x).astype(jnp.int32), 0, max(image.shape[1] - 2, 0))
  down, right = (y - y0)[:, None, None], (x - x0)[None, :, None]
  y1, x1 = jnp.minimum(y0 + 1, image.shape[0] - 1), jnp.minimum(x0 + 1, image.shape[1] - 1)
  image = image[y0] * (1 - down) + image[y1] * down
  return image[:, x0] * (1 - right) + image[:, x1] * right


def sample_bilinear(image: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
  """Returns an image [H, W, C] sampled bilinearly at rows y and columns x [...], as [..., C].

  Positions are in pixels and may be fractional; edges are replicated.
  """
  height, width, channels = image.shape
  y0, x0 = jnp.floor(y), jnp.floor(x)
  down, right = (y - y0)[..., None], (x - x0)[..., None]
  rows = [jnp.clip(y0.astype(jnp.int32) + k, 0, height - 1) for k in (0, 1)]
  columns = [jnp.clip(x0.astype(jnp.int32) + k, 0, width - 1) for k in (0, 1)]
  pixels = image.reshape(-1, channels)

  def pixel(i: int, j: int) -> jax.Array:
    """Returns the pixel above (i = 0) or below (1) and left (j = 0) or right (1) of each point."""
    return pixels[rows[i] * width + columns[j]]

  upper = (1 - right) * pixel(0, 0) + right * pixel(0, 1)
  lower = (1 - right) * pixel(1, 0) + right * pixel(1, 1)
  return (1 - down) * upper + down * lower


def zoom_coordinates(size: int, zooms: np.ndarray) -> np.ndarray:
  """Returns the source positions of the pixels of a line that is enlarged about its centre.

  Entry [i, k] is for pixel k of the line enlarged by zoom factor i. It is a fractional position in
  the original line, in pixels. At zoom z, the central ⌈n / z⌉ of n pixels are stretched to round(⌈n
  / z⌉ · z) pixels with aligned end points, and the central n pixels of the result are kept. This
  equals `scipy.ndimage.zoom` of order 1, followed by a crop.

  Args:
    size: number n of pixels of the line.
    zooms: zoom factors, at least 1, [Z].

  Returns:
    float32 [Z, size], to be passed to `interpolate`.
  """
  zooms = np.asarray(zooms, np.float64)
  piece = np.ceil(size / zooms)  # length of the piece; it begins at pixel `start` of the line
  start = (size - piece) // 2
  stretched = np.maximum(np.round(piece * zooms), size)  # its length after the stretching
  trim = (stretched - size) // 2
  step = (piece - 1) / np.maximum(stretched - 1, 1)  # from one stretched pixel to the next
  pixel = np.arange(size)[None, :] + trim[:, None]
  return (start[:, None] + pixel * step[:, None]).astype(np.float32)


def motion_blur(
  image: jax.Array, radius: jax.Array, sigma: jax.Array, angle: jax.Array, max_radius: int
) -> jax.Array:
  """Returns an image blurred by a trail of pixels in one direction.

  The value at pixel p of the image x is Σᵢ wᵢ x(p + oᵢ) over i = 0..2·radius, with weights wᵢ ∝
  exp(-i² / 2σ²) of sum 1 and offsets oᵢ = (⌈i sin a - ½⌉, ⌈i cos a - ½⌉) in rows and columns. Edges
  are replicated. All numbers but `max_radius` may be traced.

  Args:
    image: [H, W, C].
    radius: integer, in pixels.
    sigma: standard deviation σ in pixels.
    angle: angle a in degrees.
    max_radius: static upper bound of `radius`.
  """
  tap = jnp.arange(2 * max_radius + 1)
  weights = jnp.exp(-0.5 * (tap / sigma) ** 2)
  weights = jnp.where(tap <= 2 * radius, weights, 0)
  weights = weights / weights.sum()
  radians = jnp.deg2rad(angle)
  down = jnp.ceil(tap * jnp.sin(radians) - 0.5).astype(jnp.int32)
  right = jnp.ceil(tap * jnp.cos(radians) - 0.5).astype(jnp.int32)
  margin = 2 * max_radius
  padded = pad(image, margin, margin, 'nearest')

  def add(i: jax.Array, total: jax.Array) -> jax.Array:
    """Returns `total` plus the image shifted by the i-th offset, times its weight."""
    corner = (margin + down[i], margin + right[i], 0)
    return total + weights[i] * jax.lax.dynamic_slice(padded, corner, image.shape)

  first = weights[0] * image
  return jax.lax.fori_loop(1, 2 * jnp.asarray(radius, jnp.int32) + 1, add, first)


def pixel_grid(side: int) -> tuple[jax.Array, jax.Array]:
  """Returns the rows, float32 [N, 1], and the columns, [1, N], of the pixels of N × N images."""
  line = jnp.arange(side, dtype=jnp.float32)
  return line[:, None], line[None, :]


@jax.custom_batching.custom_vmap
def any_of_batch(mask: jax.Array) -> jax.Array:
  """Returns whether any element of a mask is true; under `vmap`, for the whole batch at once.

  It serves as a condition that selects the faster of two equivalent computations. With a condition
  per image, `lax.cond` and `lax.while_loop` under `vmap` would compute both for every image.
  """
  return mask.any()


@any_of_batch.def_vmap
def _any_of_batch(axis_size: int, in_batched: object, mask: jax.Array) -> tuple[jax.Array, bool]:
  """The rule of `any_of_batch` for `vmap`.

  Args:
    axis_size: unused.
    in_batched: unused.
    mask: the masks of the batch, bool [B, ...].

  Returns:
    (whether any element is true, False). False states that the result has no batch axis.
  """
  return any_of_batch(mask), False
