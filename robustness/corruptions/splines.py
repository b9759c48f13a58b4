"""Corruptions of C-bar that resample with cubic B-splines: circular_motion_blur and
transverse_chromatic_abberation (so spelled in the released set).

Reference:
  Mintun, Kirillov & Xie (2021), appendix, and the constants of the released generator.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.filters import border_index, separable
from robustness.corruptions.severities import Constants, at
from robustness.corruptions.waves import grid

Draws = Mapping[str, jax.Array]
TURNS = np.linspace(-1, 1, 21)
TURN_WEIGHTS = np.exp(-2 * TURNS**2) / np.exp(-2 * TURNS**2).sum()


def circular_motion_blur(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns Σ_i w_i R(t_i · 1.5 m°) x, t = -1, -.9, …, 1, w ∝ exp(-2t²): rotations about the centre
  by cubic splines, black outside, so that corners darken.

  Args:
    key: not used.
    image: float32 [N, N, C] in [0, 1].
    severity: number of the entry of `constants`, may be traced.
    constants: magnitude m.
  """
  del key
  side, middle = image.shape[0], (image.shape[0] - 1) / 2
  weights = jnp.asarray(prefilter(side), jnp.float32)
  coefficients = separable(image, weights, weights).reshape(side * side, -1)
  r, c = (line - middle for line in grid(side))
  angles = jnp.deg2rad(1.5 * at(constants['magnitude'], severity)) * jnp.asarray(TURNS, jnp.float32)

  def add(number: jax.Array, total: jax.Array) -> jax.Array:
    cos, sin = jnp.cos(angles[number]), jnp.sin(angles[number])
    turned = sample_spline(
      coefficients, side, cos * r + sin * c + middle, cos * c - sin * r + middle
    )
    return total + jnp.asarray(TURN_WEIGHTS, jnp.float32)[number] * turned

  return jnp.clip(jax.lax.fori_loop(0, len(TURNS), add, jnp.zeros_like(image)), 0, 1)


@functools.lru_cache
def prefilter(side: int) -> np.ndarray:
  """Returns the matrix [N, N] from the pixels of a line to the coefficients of the cubic spline
  through them, mirrored beyond the ends; float64."""
  values = np.zeros((side, side))
  for offset, weight in ((-1, 1 / 6), (0, 4 / 6), (1, 1 / 6)):
    neighbour = np.abs(np.arange(side) + offset)
    neighbour = np.where(neighbour > side - 1, 2 * (side - 1) - neighbour, neighbour)
    values[np.arange(side), neighbour] += weight
  return np.linalg.inv(values)


def sample_spline(coefficients: jax.Array, side: int, y: jax.Array, x: jax.Array) -> jax.Array:
  """Returns a spline [N, N, C] at fractional positions, 0 outside of the image.

  Args:
    coefficients: [N · N, C].
    side: N.
    y, x: positions in pixels, [N, N].
  """
  inside = (y >= 0) & (y <= side - 1) & (x >= 0) & (x <= side - 1)
  (rows, down), (columns, right) = (spline_taps(position, side) for position in (y, x))
  total = sum(
    (
      (down[i] * right[j])[..., None] * coefficients[rows[i] * side + columns[j]]
      for i in range(4)
      for j in range(4)
    ),
    jnp.zeros((*y.shape, coefficients.shape[-1])),
  )
  return jnp.where(inside[..., None], total, 0)


def spline_taps(position: jax.Array, side: int) -> tuple[list[jax.Array], list[jax.Array]]:
  """Returns the four pixels of a line around each position, mirrored, and their weights."""
  start = jnp.floor(position)
  t = position - start
  weights = [
    (1 - t) ** 3 / 6,
    (3 * t**3 - 6 * t**2 + 4) / 6,
    (-3 * t**3 + 3 * t**2 + 3 * t + 1) / 6,
    t**3 / 6,
  ]
  first = start.astype(jnp.int32)
  return [border_index(first + k, side, 'mirror') for k in range(-1, 3)], weights


def transverse_chromatic_abberation(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Enlarges the three channels by 1, 1 + s/2 and 1 + s in random order, s = .05 m.

  The splines are not fitted to the pixels, so that even the scale 1 smoothes by [1 4 1] / 6. A grey
  image takes the mean of the three scales. Released images are rounded to the nearest level, which
  `quantize='floor'` does too here.

  Args:
    key: decides the order.
    image, severity, constants: as in `circular_motion_blur`.
  """
  return abberation_from_draws(draw_abberation(key, image.shape[0]), image, severity, constants)


def draw_abberation(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `order` [3], a permutation: which of the scales each channel takes."""
  del side
  return {'order': jax.random.permutation(key, 3)}


def abberation_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `transverse_chromatic_abberation` with given draws."""
  strength = 0.05 * at(constants['magnitude'], severity)
  planes = jnp.broadcast_to(image, (*image.shape[:2], 3))

  def enlarged(channel: int) -> jax.Array:
    matrix = zoom_matrix(image.shape[0], 1 + strength * draws['order'][channel] / 2)
    return separable(planes[..., channel : channel + 1], matrix, matrix)

  made = jnp.concatenate([enlarged(channel) for channel in range(3)], -1)
  return jnp.clip(made if image.shape[-1] == 3 else made.mean(-1, keepdims=True), 0, 1)


def zoom_matrix(side: int, scale: jax.Array) -> jax.Array:
  """Returns the matrix [N, N] that enlarges a line to round(N · scale) pixels with its end points
  aligned, by a cubic B-spline of the pixels themselves, and keeps N from the middle."""
  size = jnp.round(side * scale)
  place = jnp.arange(side) + jnp.floor((size - side) / 2)
  position = place * (side - 1) / jnp.maximum(size - 1, 1)
  pixels, weights = spline_taps(position, side)
  taps = [
    weight[:, None] * jax.nn.one_hot(pixel, side)
    for pixel, weight in zip(pixels, weights, strict=True)
  ]
  return sum(taps, jnp.zeros((side, side)))
