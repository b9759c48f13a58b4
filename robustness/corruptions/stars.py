"""White stars of C-bar: sparkles and inverse_sparkles.

Reference:
  Mintun, Kirillov & Xie (2021), appendix, and the constants of the released generator.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.severities import Constants, at
from robustness.corruptions.waves import grid, uniform

Draws = Mapping[str, jax.Array]
STARS = 5
FEWEST_RAYS, MOST_RAYS = 50, 199
SPREAD = 0.25  # standard deviation of a ray's length, relative


def sparkles(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns 1 - (1 - x) Π_s (1 - w_s) over five stars s, whose rays are .01 m N pixels long, one at
  least.

  Args:
    key: decides centres, numbers of rays and their lengths.
    image: float32 [N, N, C] in [0, 1].
    severity: number of the entry of `constants`, may be traced.
    constants: magnitude m.
  """
  return sparkles_from_draws(draw_sparkles(key, image.shape[0]), image, severity, constants)


def draw_sparkles(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `centre` [5, 2] (row, column), `rays` [5] and `noise` [5, 199], standard normal."""
  return _draw_stars(key, STARS, 0, side)


def sparkles_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `sparkles` with given draws."""
  length = 0.01 * image.shape[0] * at(constants['magnitude'], severity)
  lengths = jnp.maximum(1, length * (1 + SPREAD * draws['noise']))

  def dimmed(star: int) -> jax.Array:
    reach, falloff = _ray(image.shape[0], draws, star, lengths[star])
    return 1 - jnp.clip(falloff * reach, 0, 1)

  clear = jnp.prod(jnp.stack([dimmed(star) for star in range(STARS)]), 0)
  return 1 - (1 - image) * clear[..., None]


def inverse_sparkles(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns 1 + w (x - 1): an image that is clear near the centre of one star and white outside.

  The rays are .25 N pixels long; how fast they end grows with the exponent .13 m.

  Args:
    key, image, severity, constants: as in `sparkles`.
  """
  return inverse_from_draws(draw_inverse(key, image.shape[0]), image, severity, constants)


def draw_inverse(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns of one star what `draw_sparkles` does of five; it is not near the border."""
  return _draw_stars(key, 1, 0.25 * side, 0.75 * side)


def inverse_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `inverse_sparkles` with given draws."""
  lengths = 0.25 * image.shape[0] * (1 + SPREAD * draws['noise'][0])
  reach, falloff = _ray(image.shape[0], draws, 0, lengths)
  clear = jnp.clip(falloff * reach ** (0.13 * at(constants['magnitude'], severity)), 0, 1)
  return 1 + clear[..., None] * (image - 1)


def _draw_stars(key: jax.Array, count: int, low: float, high: float) -> dict[str, jax.Array]:
  keys = jax.random.split(key, 3)
  return {
    'centre': uniform(keys[0], low, high, (count, 2)),
    'rays': jax.random.randint(keys[1], (count,), FEWEST_RAYS, MOST_RAYS + 1),
    'noise': jax.random.normal(keys[2], (count, MOST_RAYS), jnp.float32),
  }


def _ray(side: int, draws: Draws, star: int, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns l² / distance² and 1 - (f - ½)² of every pixel [N, N], where l is interpolated between
  the two rays that the pixel lies between, f of the way from one to the other.

  Args:
    side: N.
    draws: `centre` and `rays`, of all stars.
    star: number of the star.
    lengths: of its rays in pixels, [199], of which the first `rays` count.
  """
  r, c = grid(side)
  down, right = r - draws['centre'][star, 0], c - draws['centre'][star, 1]
  rays = draws['rays'][star]
  turned = (jnp.arctan2(right, down) + np.pi) / (2 * np.pi) * rays
  before = jnp.floor(turned)
  part, index = turned - before, before.astype(jnp.int32)
  length = (1 - part) * lengths[index % rays] + part * lengths[(index + 1) % rays]
  return length**2 / (down**2 + right**2 + 1e-4), 1 - (part - 0.5) ** 2
