"""Corruptions of C-bar that move pixels: caustic_refraction, ripple and pinch_and_twirl.

All sample bilinearly, and black outside of the image.

Reference:
  Mintun, Kirillov & Xie (2021), appendix, and the constants of the released generator.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.filters import gaussian_filter
from robustness.corruptions.severities import Constants, at
from robustness.corruptions.waves import grid, uniform

Draws = Mapping[str, jax.Array]
LARGE = 128  # a side from which on pinches lie 5 × 5, not 3 × 3


def sample_or_black(image: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
  """Samples [H, W, C] bilinearly at fractional positions [...]; pixels outside are 0."""
  height, width, channels = image.shape
  framed = jnp.pad(image, ((1, 1), (1, 1), (0, 0))).reshape(-1, channels)
  y, x = jnp.clip(y, -1, height) + 1, jnp.clip(x, -1, width) + 1
  top, left = jnp.floor(y), jnp.floor(x)
  down, right = (y - top)[..., None], (x - left)[..., None]
  rows = [jnp.minimum(top.astype(jnp.int32) + k, height + 1) for k in (0, 1)]
  columns = [jnp.minimum(left.astype(jnp.int32) + k, width + 1) for k in (0, 1)]
  upper, lower = (
    (1 - right) * framed[row * (width + 2) + columns[0]]
    + right * framed[row * (width + 2) + columns[1]]
    for row in rows
  )
  return (1 - down) * upper + down * lower


def ripple(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns x(r + a sin(2πr/l + h), c + a' sin(2πc/l' + h')), a = a' = .0025 m N pixels.

  Args:
    key: decides lengths and phases of the two waves.
    image: float32 [N, N, C] in [0, 1].
    severity: number of the entry of `constants`, may be traced.
    constants: magnitude m.
  """
  return ripple_from_draws(draw_ripple(key, image.shape[0]), image, severity, constants)


def draw_ripple(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `length` [2], pixels, and `phase` [2], of rows and of columns."""
  keys = jax.random.split(key)
  return {
    'length': uniform(keys[0], 0.1 * side, 0.3 * side, (2,)),
    'phase': uniform(keys[1], 0, 2 * np.pi, (2,)),
  }


def ripple_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `ripple` with given draws."""
  amount = 0.0025 * image.shape[0] * at(constants['magnitude'], severity)
  rows, columns = (
    line + amount * jnp.sin(2 * np.pi * line / draws['length'][k] + draws['phase'][k])
    for k, line in enumerate(grid(image.shape[0]))
  )
  y, x = (jnp.broadcast_to(line, image.shape[:2]) for line in (rows, columns))
  return sample_or_black(image, y, x)


def pinch_and_twirl(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Pinches circles in 3 × 3 cells (5 × 5 of large images) and twirls each by ± mπ/20.

  Args:
    key: decides the direction of each twirl.
    image, severity, constants: as in `ripple`.
  """
  return pinch_from_draws(draw_pinch(key, image.shape[0]), image, severity, constants)


def draw_pinch(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `sign` [cells, cells], ±1."""
  cells = 3 if side < LARGE else 5
  return {'sign': 2.0 * jax.random.bernoulli(key, 0.5, (cells, cells)) - 1}


def pinch_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `pinch_and_twirl` with given draws."""
  magnitude = at(constants['magnitude'], severity)
  cells = draws['sign'].shape[0]
  width = image.shape[0] // cells
  radius = width // 2
  r, c = grid(image.shape[0])
  row, column = (jnp.minimum(line // width, cells - 1) for line in (r, c))
  down, right = r - row * width - radius, c - column * width - radius
  distance = jnp.hypot(down, right)
  inside = (distance <= radius) & (distance > 0) & (r < cells * width) & (c < cells * width)
  share = jnp.where(inside, distance / max(radius, 1), 1)
  pinched = jnp.sin(np.pi / 2 * share) ** -(0.04 * magnitude + 0.1)
  sign = draws['sign'][row.astype(jnp.int32), column.astype(jnp.int32)]
  angle = sign * magnitude * np.pi / 20 * (1 - share) ** 2
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  y = row * width + radius + pinched * (down * cos - right * sin)
  x = column * width + radius + pinched * (down * sin + right * cos)
  return jnp.where(inside[..., None], sample_or_black(image, y, x), image)


def caustic_refraction(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Looks through moving water: refracts by the slope of a caustic and adds the slope as light.

  The lens is .05 m N pixels deep, its index 4, and the light .2 m.

  Args:
    key: decides time and size of the waves.
    image, severity, constants: as in `ripple`.
  """
  return caustic_from_draws(draw_caustic(key, image.shape[0]), image, severity, constants)


def draw_caustic(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `time` and `size` of the waves, pixels."""
  keys = jax.random.split(key)
  return {'time': uniform(keys[0], 0.5, 2), 'size': uniform(keys[1], 0.75 * side, 1.25 * side)}


def caustic_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `caustic_refraction` with given draws."""
  side, magnitude = image.shape[0], at(constants['magnitude'], severity)
  surface = gaussian_filter(caustic(side, draws)[..., None], 1.0, 1.0, border='reflect')[..., 0]
  framed = jnp.pad(surface, 1)  # neighbours outside count as 0
  down, right = framed[2:, 1:-1] - framed[:-2, 1:-1], framed[1:-1, 2:] - framed[1:-1, :-2]
  slope = jnp.hypot(down, right)
  cos = 1 / jnp.sqrt(1 + slope**2)
  sin = slope * cos
  shift = 0.05 * magnitude * side * sin * (jnp.sqrt(1 - sin**2 / 16) - cos / 4)
  bent = jnp.where(cos >= 0.999, 0, shift / jnp.maximum(slope, 1e-12))
  r, c = grid(side)
  y, x = r + _to_thousandths(bent * down), c + _to_thousandths(bent * right)
  light = 0.2 * magnitude * (down - right)
  return jnp.clip(sample_or_black(image, y, x) + light[..., None], 0, 1)


def caustic(side: int, draws: Draws) -> jax.Array:
  """Returns the brightness of a caustic, float32 [N, N] in [0, 1]."""
  start = [
    jnp.mod(jnp.broadcast_to(line, (side, side)) / draws['size'], 1) * 6.28318530718 - 250
    for line in grid(side)
  ]
  (first, second), total = start, jnp.float32(1)
  for n in range(1, 6):
    t = draws['time'] * (1 - 3.5 / n)
    first, second = (
      start[0] + jnp.cos(t - first) + jnp.sin(t + second),
      start[1] + jnp.sin(t - second) + jnp.cos(t + first),
    )
    total += 1 / jnp.hypot(
      start[0] * 0.005 / jnp.sin(first + t), start[1] * 0.005 / jnp.cos(second + t)
    )
  return jnp.clip(jnp.abs(1.17 - (total / 5) ** 1.4) ** 8, 0, 1)


def _to_thousandths(values: jax.Array) -> jax.Array:
  return jnp.round(values * 1000) / 1000
