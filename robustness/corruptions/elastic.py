"""Elastic deformation: a random affine map, then a smooth random displacement of every pixel.

Reference:
  Hendrycks and Dietterich (2019), and the released generator of ImageNet-C. Other packages have
  another corruption under this name, without the affine map.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.filters import gaussian_weights, sample_bilinear, separable
from robustness.corruptions.severities import Constants, at

TRUNCATE = 3.0  # radius of the smoothing kernel in units of sigma
POSITIONS = 32  # of a pixel, to which OpenCV rounds where a warp samples
FARTHEST = 1e6  # pixels; a map that is almost singular points anywhere


def elastic_transform(key: jax.Array, image: jax.Array, severity: jax.Array | int,
                      constants: Constants) -> jax.Array:
  """Warps by a random affine map and displaces every pixel by a smooth random field.

  Args:
    key: decides the map and the field.
    image: float32 [H, W, C] in [0, 1], sides at least 3 (the map is anchored a third of the side
      from the centre).
    severity: 1..5; may be traced.
    constants: in pixels: `alpha`, `sigma`, `affine` (largest shift of an anchor).
  """
  key_affine, key_field = jax.random.split(key)
  jitter = jax.random.uniform(key_affine, (3, 2), minval=-1, maxval=1)
  noise = jax.random.uniform(key_field, (*image.shape[:2], 2), minval=-1, maxval=1)
  return elastic_from_draws(image, jitter, noise, severity, constants)


def elastic_from_draws(image: jax.Array, jitter: jax.Array, noise: jax.Array,
                       severity: jax.Array | int, constants: Constants) -> jax.Array:
  """Returns the deformed image for given random numbers.

  Args:
    image: float32 [H, W, C] in [0, 1].
    jitter: [3, 2] in [-1, 1], shifts of the three anchors, (x, y), in units of `affine`.
    noise: [H, W, 2] in [-1, 1], before smoothing; displacements (x, y) in units of `alpha`.
    severity, constants: as in `elastic_transform`.
  """
  alpha, sigma, affine = (at(constants[name], severity) for name in ('alpha', 'sigma', 'affine'))
  max_sigma = max(constants['sigma'])
  height, width = image.shape[:2]
  rows = smoothing_matrix(height, sigma, max_sigma)
  columns = rows if width == height else smoothing_matrix(width, sigma, max_sigma)
  field = alpha * separable(noise, rows, columns)
  y, x = (jnp.asarray(axis, jnp.float32) for axis in np.mgrid[:height, :width])
  whole = affine_positions(y, x, affine * jitter)
  warps = (jnp.stack([_fold(whole[0], height, True), _fold(y + field[..., 1], height, False)]),
           jnp.stack([_fold(whole[1], width, True), _fold(x + field[..., 0], width, False)]))
  # A loop, so that the first result is stored: fused into the second warp it would be computed
  # again for every pixel that is read.
  moved = jax.lax.fori_loop(
      0, 2, lambda i, x: sample_bilinear(x, warps[0][i], warps[1][i], 'nearest'), image)
  return jnp.clip(moved, 0, 1)


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
  first, second, third = (centre + arm * np.array(sign, np.float32)
                          for sign in ((1, 1), (1, -1), (-1, -1)))
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


def smoothing_matrix(size: int, sigma: jax.Array, max_sigma: float) -> jax.Array:
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
