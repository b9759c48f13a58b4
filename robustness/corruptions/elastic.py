"""Elastic deformation: a random affine map, then a smooth random displacement of every pixel.

Reference:
  Hendrycks and Dietterich (2019), and the released generator of ImageNet-C.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice
from robustness.corruptions.filters import gaussian_weights, sample_bilinear, separable
from robustness.corruptions.severities import Constants, at

TRUNCATE = 3.0  # radius of the smoothing kernel in units of sigma
POSITIONS = 32  # of a pixel, to which OpenCV rounds where a warp samples
VARIANTS = ('released', 'imagecorruptions')
WITHOUT_MAP = (0.0625, 0.08125, 0.10625, 0.125, 0.15)  # alpha of that package, of the height
FARTHEST = 1e6  # pixels; a map that is almost singular points anywhere


def elastic_transform(
  key: jax.Array,
  image: jax.Array,
  severity: jax.Array | int,
  constants: Constants,
  variant: str = 'released',
) -> jax.Array:
  """Warps by a random affine map and displaces every pixel by a smooth random field.

  Args:
    key: decides the map and the field.
    image: float32 [H, W, C] in [0, 1], sides at least 3 (the map is anchored a third of the side
      from the centre).
    severity: 1..5; may be traced.
    constants: in pixels: `alpha`, `sigma`, `affine` (largest shift of an anchor).
    variant: 'released', or 'imagecorruptions' for what that package does under this name: no affine
      map, other fields (sigma 1 % of each side), constants of its own for every size.
  """
  choice('variant', variant, VARIANTS)
  key_affine, key_field = jax.random.split(key)
  jitter = jax.random.uniform(key_affine, (3, 2), minval=-1, maxval=1)
  noise = jax.random.uniform(key_field, (*image.shape[:2], 2), minval=-1, maxval=1)
  if variant == 'released':
    return elastic_from_draws(image, jitter, noise, severity, constants)
  return displace_from_draws(image, noise, severity)


def elastic_from_draws(
  image: jax.Array,
  jitter: jax.Array,
  noise: jax.Array,
  severity: jax.Array | int,
  constants: Constants,
) -> jax.Array:
  """Returns the deformed image for given random numbers.

  Args:
    image: float32 [H, W, C] in [0, 1].
    jitter: [3, 2] in [-1, 1], shifts of the three anchors, (x, y), in units of `affine`.
    noise: [H, W, 2] in [-1, 1], before smoothing; displacements (x, y) in units of `alpha`.
    severity, constants: as in `elastic_transform`.
  """
  alpha, sigma, affine = (at(constants[name], severity) for name in ('alpha', 'sigma', 'affine'))
  rows, columns = (
    smoothing_matrix(size, sigma, max(constants['sigma'])) for size in image.shape[:2]
  )
  affine_map = affine_positions(*_pixels(image), affine * jitter)
  moved = _displaced(image, alpha * separable(noise, rows, columns))
  y, x = (
    jnp.stack([_fold(affine_map[axis], image.shape[axis], True), moved[axis]]) for axis in (0, 1)
  )
  # A loop, so that the first result is stored: fused into the second warp it would be computed
  # again for every pixel that is read.
  warped = jax.lax.fori_loop(
    0, 2, lambda i, image: sample_bilinear(image, y[i], x[i], 'nearest'), image
  )
  return jnp.clip(warped, 0, 1)


def displace_from_draws(image: jax.Array, noise: jax.Array, severity: jax.Array | int) -> jax.Array:
  """Returns the image deformed as `imagecorruptions` does, for given random numbers.

  Args:
    image: float32 [H, W, C] in [0, 1].
    noise: [H, W, 2] in [-1, 1], before smoothing; displacements (x, y).
    severity: 1..5; may be traced.
  """
  rows, columns = (smoothing_matrix(size, 0.01 * size, 0.01 * size) for size in image.shape[:2])
  alpha = at(WITHOUT_MAP, severity) * image.shape[0]
  moved = _displaced(image, alpha * separable(noise, rows, columns))
  return jnp.clip(sample_bilinear(image, *moved, 'nearest'), 0, 1)


def _pixels(image: jax.Array) -> tuple[jax.Array, jax.Array]:
  y, x = np.mgrid[: image.shape[0], : image.shape[1]]
  return jnp.asarray(y, jnp.float32), jnp.asarray(x, jnp.float32)


def _displaced(image: jax.Array, field: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns the rows and columns [H, W] a a displacement (x, y) [H, W, 2] reads."""
  y, x = _pixels(image)
  height, width = image.shape[:2]
  return _fold(y + field[..., 1], height, False), _fold(x + field[..., 0], width, False)


def _fold(position: jax.Array, size: int, mirror: bool) -> jax.Array:
  """Returns the position within [0, size - 1] that shows the same beyond a reflecting border.

  The line is reflected at the centre of its edge pixel (`mirror`) or at that pixel's outer side.
  """
  edge = 0 if mirror else 0.5
  length = max(size - 1, 1) if mirror else size
  along = (position + edge) % (2 * length)
  return jnp.clip(jnp.minimum(along, 2 * length - along) - edge, 0, size - 1)


def affine_positions(y: jax.Array, x: jax.Array, shifts: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns where an image is sampled so that its three anchors move by `shifts`.

  The anchors are c + (q, q), c + (q, -q) and c - (q, q) in (x, y), with the centre c = (⌊W/2⌋,
  ⌊H/2⌋) and q = ⌊min(H, W)/3⌋. Positions are rounded to 1/32 pixel, as OpenCV's warps have it.

  Args:
    y, x: pixels of the result, [H, W].
    shifts: [3, 2], (x, y) of each anchor, in pixels.
  """
  height, width = y.shape
  centre = np.array([width // 2, height // 2], np.float32)
  arm = np.float32(min(height, width) // 3)
  first, second, third = (
    centre + arm * np.array(sign, np.float32) for sign in ((1, 1), (1, -1), (-1, -1))
  )
  origin = third + shifts[2]
  u, v = first + shifts[0] - origin, second + shifts[1] - origin
  area = u[0] * v[1] - u[1] * v[0]
  scale = jnp.where(area == 0, 0, 1 / jnp.where(area == 0, 1, area))
  along = ((x - origin[0]) * v[1] - (y - origin[1]) * v[0]) * scale
  across = ((y - origin[1]) * u[0] - (x - origin[0]) * u[1]) * scale
  from_x = third[0] + 2 * arm * (along + across)
  from_y = third[1] + 2 * arm * along
  return _to_grid(from_y), _to_grid(from_x)


def _to_grid(position: jax.Array) -> jax.Array:
  return jnp.floor(jnp.clip(position, -FARTHEST, FARTHEST) * POSITIONS + 0.5) / POSITIONS


def smoothing_matrix(size: int, sigma: jax.Array | float, max_sigma: float) -> jax.Array:
  """Returns the Gaussian smoothing of a line, the border reflected with its edge pixel repeated.

  Such a line has period 2n, so a kernel wider than the line is first summed over the periods:
  S[i, j] = g[(i - j) mod 2n] + g[(i + j + 1) mod 2n]. Sigma may exceed the line.

  Args:
    size: n, pixels of the line.
    sigma: pixels; may be traced; 0 leaves the line.
    max_sigma: static bound of sigma.
  """
  weights = gaussian_weights(sigma, max_sigma, TRUNCATE)
  reach, period = len(weights) // 2, 2 * size
  summed = jnp.pad(weights, (0, -len(weights) % period)).reshape(-1, period).sum(0)
  i, j = np.mgrid[:size, :size]
  return summed[(i - j + reach) % period] + summed[(i + j + 1 + reach) % period]
