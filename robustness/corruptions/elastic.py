"""Elastic deformation: a random affine map, then a smooth random displacement of every pixel."""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.corruption import Constants, Draws, Strength, corruption, rows
from robustness.corruptions.filters import apply_separable, gaussian_matrix, sample_bilinear
from robustness.corruptions.names import UNLIKE_OTHERS

TRUNCATE = 3.0  # radius of the smoothing kernel in units of sigma
SUBPIXELS = 32  # OpenCV's warps round positions to 1 / 32 pixel
IMAGECORRUPTIONS_ALPHA = (0.0625, 0.08125, 0.10625, 0.125, 0.15)  # in units of the height
MAX_POSITION = 1e6  # bound in pixels of positions, which are huge if the map is almost singular
_IMAGENET = '2 .7 .1, 2 .08 .2, .05 .01 .02, .07 .01 .02, .12 .01 .02'
"""alpha, sigma and affine of each severity, in units of a side, for ImageNet-C and Inception."""


def _scale_constants(side: int, text: str) -> list[tuple[float, ...]]:
  """Returns `side` times the constants in a text, one tuple per severity.

  Args:
    side: side of the images in pixels.
    text: constants as fractions of the side, such as '0 0 .08, .05 .2 .07' for two severities.
  """
  return [tuple(side * float(value) for value in row) for row in rows(text)]


def _draw(
  key: jax.Array, shape: tuple[int, ...], constants: Constants, variant: str = 'released'
) -> Draws:
  """Returns the random numbers of an elastic transform, uniform on [−1, 1].

  `constants` and `variant` are unused: every `draw` function gets them.

  Returns:
    {'jitter': [3, 2], 'noise': [H, W, 2]}. `jitter` is multiplied by the constant `affine` to shift
    three anchor points by (x, y). `noise` is multiplied by the constant `alpha` to displace each
    pixel by (x, y), and then smoothed.
  """
  key_affine, key_field = jax.random.split(key)
  return {
    'jitter': jax.random.uniform(key_affine, (3, 2), minval=-1, maxval=1),
    'noise': jax.random.uniform(key_field, (*shape[:2], 2), minval=-1, maxval=1),
  }


@corruption(
  'alpha sigma affine',
  {
    32: _scale_constants(32, '0 0 .08, .05 .2 .07, .08 .06 .06, .1 .04 .05, .1 .03 .03'),
    64: _scale_constants(64, '0 0 .08, .05 .3 .06, .1 .08 .06, .1 .03 .03, .16 .03 .02'),
    224: _scale_constants(244, _IMAGENET),  # what the released generator has, for 224
    299: _scale_constants(360, _IMAGENET),
  },
  draw=_draw,
  options={'variant': ('released', 'imagecorruptions')},
  least_side=lambda constants: 3,
  reason='or the triangle that is bent has no area',
  family=UNLIKE_OTHERS,
)
def elastic_transform(
  draws: Draws, image: jax.Array, strength: Strength, variant: str = 'released'
) -> jax.Array:
  """Warps by a random affine map and displaces every pixel by a smooth random field.

  The affine map moves three anchor points by up to the constant `affine`. The field is noise of
  amplitude `alpha`, smoothed by `sigma`. All three are in pixels. The variant 'imagecorruptions'
  follows the package of this name: it has no affine map, other amplitudes, and a sigma of 1 % of
  each side.
  """
  if variant != 'released':
    return _imagecorruptions(draws, image, strength)
  alpha, sigma, affine = strength['alpha'], strength['sigma'], strength['affine']
  # the matrices that smooth the field along its rows and columns
  smoothing = [
    gaussian_matrix(size, sigma, strength.maximum('sigma'), 'reflect', TRUNCATE)
    for size in image.shape[:2]
  ]
  affine_y, affine_x = affine_positions(*_pixel_positions(image), affine * draws['jitter'])
  moved_y, moved_x = _source_positions(image, alpha * apply_separable(draws['noise'], *smoothing))
  # Rows y and columns x of both warps, [2, H, W]. In the released generator, OpenCV's affine warp
  # mirrors at the centre of the edge pixels, and SciPy's displacement at their outer side.
  y = jnp.stack([_reflect(affine_y, image.shape[0], mirror=True), moved_y])
  x = jnp.stack([_reflect(affine_x, image.shape[1], mirror=True), moved_x])
  # Two rounds of a loop instead of two calls, because the loop stores the result of the first warp.
  # XLA would fuse it into the second warp and compute it again for every pixel that is read.
  warped = jax.lax.fori_loop(0, 2, lambda i, image: sample_bilinear(image, y[i], x[i]), image)
  return jnp.clip(warped, 0, 1)


def _imagecorruptions(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Applies the variant of `elastic_transform` in the package imagecorruptions, [H, W, C].

  Each pixel shows the image at a random displacement. The displacements are noise, smoothed along
  rows and columns and multiplied by α, which is a share of the height.

  Args:
    draws: the `noise`.
    image: float32 [H, W, C] in [0, 1].
    strength: the severity, which selects α.
  """
  # the matrices that smooth the field along its rows and columns
  smoothing = [
    gaussian_matrix(size, 0.01 * size, 0.01 * size, 'reflect', TRUNCATE) for size in image.shape[:2]
  ]
  alpha = strength.select(IMAGECORRUPTIONS_ALPHA) * image.shape[0]
  moved = _source_positions(image, alpha * apply_separable(draws['noise'], *smoothing))
  return jnp.clip(sample_bilinear(image, *moved), 0, 1)


def _pixel_positions(image: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns the row and the column of every pixel, float32 [H, W] each."""
  y, x = np.mgrid[: image.shape[0], : image.shape[1]]
  return jnp.asarray(y, jnp.float32), jnp.asarray(x, jnp.float32)


def _source_positions(image: jax.Array, field: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns the rows and columns, [H, W] each, from which displaced pixels take their values.

  `field` [H, W, 2] holds the displacement (x, y) of each pixel.
  """
  y, x = _pixel_positions(image)
  height, width = image.shape[:2]
  rows = _reflect(y + field[..., 1], height, mirror=False)
  return rows, _reflect(x + field[..., 0], width, mirror=False)


def _reflect(position: jax.Array, size: int, mirror: bool) -> jax.Array:
  """Returns positions on a line of `size` pixels, reflected at its ends into [0, size - 1].

  With `mirror` they are reflected at the centre of the last pixel, otherwise at its outer side.
  """
  edge = 0 if mirror else 0.5
  length = max(size - 1, 1) if mirror else size
  along = (position + edge) % (2 * length)  # to and fro between the ends takes 2 lengths
  return jnp.clip(jnp.minimum(along, 2 * length - along) - edge, 0, size - 1)


def affine_positions(y: jax.Array, x: jax.Array, shifts: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns where pixels take their values from under an affine map: (rows, columns), [H, W] each.

  The map moves three anchor points by `shifts`. In (x, y) the anchors are c + (q, q), c + (q, -q)
  and c - (q, q), with the centre c = (⌊W/2⌋, ⌊H/2⌋) and q = ⌊min(H, W)/3⌋. Positions are rounded to
  1/32 pixel, as in OpenCV.

  Args:
    y: rows of the pixels, [H, W].
    x: columns of the pixels, [H, W].
    shifts: shift of each anchor in pixels, (x, y), [3, 2].
  """
  height, width = y.shape
  centre = np.array([width // 2, height // 2], np.float32)
  arm = np.float32(min(height, width) // 3)
  first = centre + arm * np.array((1, 1), np.float32)
  second = centre + arm * np.array((1, -1), np.float32)
  third = centre + arm * np.array((-1, -1), np.float32)
  origin = third + shifts[2]
  # A pixel is origin + along · u + across · v, where u and v lead from the moved third anchor to
  # the moved first and second one. It shows the point with the same coordinates before the move,
  # which is third + along (2 arm, 2 arm) + across (2 arm, 0).
  u, v = first + shifts[0] - origin, second + shifts[1] - origin
  # Cramer's rule solves for along and across; both are 0 if there is no area and so no solution
  area = u[0] * v[1] - u[1] * v[0]
  inverse_area = jnp.where(area == 0, 0, 1 / jnp.where(area == 0, 1, area))
  along = ((x - origin[0]) * v[1] - (y - origin[1]) * v[0]) * inverse_area
  across = ((y - origin[1]) * u[0] - (x - origin[0]) * u[1]) * inverse_area
  from_x = third[0] + 2 * arm * (along + across)
  from_y = third[1] + 2 * arm * along
  return _to_grid(from_y), _to_grid(from_x)


def _to_grid(position: jax.Array) -> jax.Array:
  """Returns positions in pixels rounded to 1/32 pixel, as in OpenCV, and clipped to ±10⁶ pixels.

  An almost singular affine map produces huge positions, all of them far outside of the image.
  """
  clipped = jnp.clip(position, -MAX_POSITION, MAX_POSITION)
  return jnp.floor(clipped * SUBPIXELS + 0.5) / SUBPIXELS
