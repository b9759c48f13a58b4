"""Corruptions of C-bar that cover parts of an image: checkerboard_cutout and lines.

Reference:
  Mintun, Kirillov & Xie (2021), appendix, and the constants of the released generator.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.levels import GUARD, from_levels
from robustness.corruptions.severities import Constants, at
from robustness.corruptions.waves import grid, uniform

Draws = Mapping[str, jax.Array]
GREY = 128 / 255
MOST_CELLS = 40  # of the grid along a side
COUNTED = 1e-4  # keeps a number of lines that is exactly an integer from falling below it


def checkerboard_cutout(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Turns cells of one colour of a rotated checkerboard grey, each with the chance .1 m.

  Args:
    key: decides angle, size of the cells, and what each cell compares with its chance.
    image: float32 [N, N, C] in [0, 1].
    severity: number of the entry of `constants`, may be traced.
    constants: magnitude m.
  """
  return checkerboard_from_draws(draw_checkerboard(key, image.shape[0]), image, severity, constants)


def draw_checkerboard(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `angle`, `cell` (pixels), and `luck` [40, 40] in [0, 1)."""
  keys = jax.random.split(key, 3)
  return {
    'angle': uniform(keys[0], 0, 2 * np.pi),
    'cell': jnp.maximum(side * uniform(keys[1], 0.1, 0.25), 1),
    'luck': uniform(keys[2], 0, 1, (MOST_CELLS, MOST_CELLS)),
  }


def checkerboard_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `checkerboard_cutout` with given draws."""
  r, c = grid(image.shape[0])
  cos, sin = jnp.cos(draws['angle']), jnp.sin(draws['angle'])
  u, v = (r * cos + c * sin) / draws['cell'], (c * cos - r * sin) / draws['cell']
  count = jnp.floor(4 * image.shape[0] / draws['cell']).astype(jnp.int32)
  count = jnp.minimum(count, MOST_CELLS)

  def cell(position: jax.Array) -> jax.Array:
    towards_zero = jnp.trunc(position).astype(jnp.int32)
    return jnp.where(towards_zero < 0, towards_zero + count, towards_zero)

  one_colour = (jnp.floor(u) - jnp.floor(v)) % 2 == 0
  cut = draws['luck'][cell(u), cell(v)] < 0.1 * at(constants['magnitude'], severity)
  return jnp.where((one_colour & cut)[..., None], jnp.float32(GREY), image)


def lines(key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants) -> jax.Array:
  """Draws ⌊.1 m N⌋ anti-aliased grey lines of similar directions; pixels that they touch are
  truncated to 8 bits after each line.

  Args:
    key: decides direction, spread and places.
    image, severity, constants: as in `checkerboard_cutout`.
  """
  most = int(0.1 * max(constants['magnitude']) * image.shape[0] + COUNTED)
  draws = draw_lines(key, image.shape[0], most)
  return lines_from_draws(draws, image, severity, constants)


def draw_lines(key: jax.Array, side: int, count: int) -> dict[str, jax.Array]:
  """Returns a `point` (row, column) and an `angle` of each line, [count, 2] and [count]."""
  keys = jax.random.split(key, 4)
  turns = uniform(keys[2], -0.5, 0.5, (count,)) * uniform(keys[1], 0.1, 1)
  return {
    'point': uniform(keys[3], 0, side, (count, 2)),
    'angle': uniform(keys[0], 0, 2 * np.pi) + 2 * np.pi * turns,
  }


def lines_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `lines` with given draws."""
  side = image.shape[0]
  directions = jnp.stack([jnp.sin(draws['angle']), jnp.cos(draws['angle'])], 1)

  def add(number: jax.Array, covered: jax.Array) -> jax.Array:
    reach = side * directions[number]
    ends = [jnp.trunc(draws['point'][number] + sign * reach) for sign in (-1, 1)]
    weight = line_weight(side, *ends)[..., None]
    mixed = 255 * ((1 - weight) * covered + weight * GREY)
    truncated = from_levels(jnp.floor(jnp.clip(mixed, 0, 255) + GUARD).astype(jnp.uint8))
    return jnp.where(weight > 0, truncated, covered)

  count = jnp.floor(0.1 * side * at(constants['magnitude'], severity) + COUNTED).astype(jnp.int32)
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
