"""Corruptions of C-bar that cover parts of an image: checkerboards, lines and white stars.

Images are [N, N, C], and pixel (r, c) has its centre at the integers r, c = 0..N - 1.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.corruption import Constants, Draws, Strength, c_bar, uniform
from robustness.corruptions.filters import grid
from robustness.corruptions.pixels import GUARD, from_levels

GREY = 128 / 255
MOST_CELLS = 40  # of the grid along a side
COUNTED = 1e-4  # keeps a number of lines that is exactly an integer from falling below it
STARS = 5
FEWEST_RAYS, MOST_RAYS = 50, 199
SPREAD = 0.25  # standard deviation of a ray's length, relative


def _draw_checkerboard(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns `angle`, `cell` (pixels), and `luck` [40, 40] in [0, 1)."""
  keys = jax.random.split(key, 3)
  return {
    'angle': uniform(keys[0], 0, 2 * np.pi),
    'cell': jnp.maximum(shape[0] * uniform(keys[1], 0.1, 0.25), 1),
    'luck': uniform(keys[2], 0, 1, (MOST_CELLS, MOST_CELLS)),
  }


@c_bar(_draw_checkerboard, cifar=(1.0, 2.0, 3.0, 4.0, 5.0), imagenet=(2.0, 3.0, 4.0, 5.0, 6.0))
def checkerboard_cutout(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Turns cells of one colour of a rotated checkerboard grey, each with the chance .1 m."""
  r, c = grid(image.shape[0])
  cos, sin = jnp.cos(draws['angle']), jnp.sin(draws['angle'])
  u, v = (r * cos + c * sin) / draws['cell'], (c * cos - r * sin) / draws['cell']
  count = jnp.floor(4 * image.shape[0] / draws['cell']).astype(jnp.int32)
  count = jnp.minimum(count, MOST_CELLS)

  def cell(position: jax.Array) -> jax.Array:
    towards_zero = jnp.trunc(position).astype(jnp.int32)
    return jnp.where(towards_zero < 0, towards_zero + count, towards_zero)

  one_colour = (jnp.floor(u) - jnp.floor(v)) % 2 == 0
  cut = draws['luck'][cell(u), cell(v)] < 0.1 * strength['magnitude']
  return jnp.where((one_colour & cut)[..., None], jnp.float32(GREY), image)


def _draw_lines(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns a `point` (row, column) and an `angle` of as many lines as there are at most."""
  side = shape[0]
  count = int(0.1 * max(constants['magnitude']) * side + COUNTED)
  keys = jax.random.split(key, 4)
  turns = uniform(keys[2], -0.5, 0.5, (count,)) * uniform(keys[1], 0.1, 1)
  return {
    'point': uniform(keys[3], 0, side, (count, 2)),
    'angle': uniform(keys[0], 0, 2 * np.pi) + 2 * np.pi * turns,
  }


@c_bar(_draw_lines, cifar=(0.5, 1.0, 1.5, 2.0, 2.5))
def lines(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Draws ⌊.1 m N⌋ anti-aliased grey lines of similar directions; pixels that they touch are
  truncated to 8 bits after each line.
  """
  side = image.shape[0]
  directions = jnp.stack([jnp.sin(draws['angle']), jnp.cos(draws['angle'])], 1)

  def add(number: jax.Array, covered: jax.Array) -> jax.Array:
    reach = side * directions[number]
    ends = [jnp.trunc(draws['point'][number] + sign * reach) for sign in (-1, 1)]
    weight = line_weight(side, *ends)[..., None]
    mixed = 255 * ((1 - weight) * covered + weight * GREY)
    truncated = from_levels(jnp.floor(jnp.clip(mixed, 0, 255) + GUARD).astype(jnp.uint8))
    return jnp.where(weight > 0, truncated, covered)

  count = jnp.floor(0.1 * side * strength['magnitude'] + COUNTED).astype(jnp.int32)
  return jax.lax.fori_loop(0, count, add, image)


def line_weight(side: int, start: jax.Array, end: jax.Array) -> jax.Array:
  """Returns what a line one pixel wide covers of each pixel, max(0, 1 - distance), [N, N].

  Args:
    side: N.
    start, end: (row, column); beyond them, along the longer axis, nothing is covered.
  """
  r, c = grid(side)
  down, right = end - start
  length = jnp.maximum(jnp.hypot(down, right), 1e-6)
  distance = jnp.abs((r - start[0]) * right - (c - start[1]) * down) / length
  (top, bottom), (left, right_end) = (jnp.sort(jnp.stack([start[k], end[k]])) for k in (0, 1))
  within = jnp.where(
    jnp.abs(down) > jnp.abs(right), (r >= top) & (r <= bottom), (c >= left) & (c <= right_end)
  )
  return jnp.where(within, jnp.maximum(0, 1 - distance), 0)


def _draw_stars(key: jax.Array, count: int, low: float, high: float) -> dict[str, jax.Array]:
  keys = jax.random.split(key, 3)
  return {
    'centre': uniform(keys[0], low, high, (count, 2)),
    'rays': jax.random.randint(keys[1], (count,), FEWEST_RAYS, MOST_RAYS + 1),
    'noise': jax.random.normal(keys[2], (count, MOST_RAYS), jnp.float32),
  }


def _draw_sparkles(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns `centre` [5, 2] (row, column), `rays` [5] and `noise` [5, 199], standard normal."""
  return _draw_stars(key, STARS, 0, shape[0])


@c_bar(_draw_sparkles, cifar=(0.7, 3.5, 5.6, 6.3, 7.0), imagenet=(1.0, 2.0, 3.0, 5.0, 6.0))
def sparkles(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns 1 - (1 - x) Π_s (1 - w_s) over five stars s, whose rays are .01 m N pixels long, one at
  least.
  """
  length = 0.01 * image.shape[0] * strength['magnitude']
  lengths = jnp.maximum(1, length * (1 + SPREAD * draws['noise']))

  def dimmed(star: int) -> jax.Array:
    reach, falloff = _ray(image.shape[0], draws, star, lengths[star])
    return 1 - jnp.clip(falloff * reach, 0, 1)

  clear = jnp.prod(jnp.stack([dimmed(star) for star in range(STARS)]), 0)
  return 1 - (1 - image) * clear[..., None]


def _draw_inverse(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns of one star what `_draw_sparkles` does of five; it is not near the border."""
  return _draw_stars(key, 1, 0.25 * shape[0], 0.75 * shape[0])


@c_bar(_draw_inverse, cifar=(1.0, 1.5, 2.5, 4.5, 5.0), imagenet=(1.0, 2.0, 4.0, 9.0, 10.0))
def inverse_sparkles(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns 1 + w (x - 1): an image that is clear near the centre of one star and white outside.

  The rays are .25 N pixels long; how fast they end grows with the exponent .13 m.
  """
  lengths = 0.25 * image.shape[0] * (1 + SPREAD * draws['noise'][0])
  reach, falloff = _ray(image.shape[0], draws, 0, lengths)
  clear = jnp.clip(falloff * reach ** (0.13 * strength['magnitude']), 0, 1)
  return 1 + clear[..., None] * (image - 1)


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
