"""The corruption perlin_noise of C-bar: a blend towards light grey gradient noise.

Reference:
  Mintun, Kirillov & Xie (2021), appendix; Perlin (1985), An Image Synthesizer.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from robustness.corruptions.severities import Constants, at
from robustness.corruptions.waves import grid

TABLE = 256
CELLS = 7  # along a side, in the lowest octave
OCTAVES = (1, 2, 4, 8, 16)
GAIN = 1.5


def perlin_noise(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns (1 - α) x + α g with α = .05 m, g = clip(½ t + ½, 0, 1) and t = Σ_f |noise(f p)| / f,
  the same in all channels; f = 1, 2, 4, 8, 16 and p = 7 (r, c) / N.

  The released generator shuffles its table with a slight bias; this permutation is uniform.

  Args:
    key: decides gradients and permutation.
    image: float32 [N, N, C] in [0, 1].
    severity: number of the entry of `constants`, may be traced.
    constants: magnitude m.
  """
  draws = draw_perlin(key, image.shape[0])
  return perlin_from_draws(draws, image, severity, constants)


def draw_perlin(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `gradients` [256, 2] of length 1 (diagonals are favoured) and `permutation` [256].

  A gradient that is drawn as (0, 0), which has no direction, becomes (1, 0).
  """
  del side
  gradient_key, order_key = jax.random.split(key)
  drawn = jax.random.randint(gradient_key, (TABLE, 2), -TABLE, TABLE).astype(jnp.float32)
  length = jnp.sqrt((drawn**2).sum(1, keepdims=True))
  return {
    'gradients': jnp.where(length > 0, drawn / jnp.maximum(length, 1), jnp.array([1.0, 0.0])),
    'permutation': jax.random.permutation(order_key, TABLE),
  }


def perlin_from_draws(
  draws: Mapping[str, jax.Array], image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `perlin_noise` with given draws."""
  r, c = (CELLS / image.shape[0] * line for line in grid(image.shape[0]))
  total = sum(
    (jnp.abs(noise(f * r, f * c, draws['gradients'], draws['permutation'])) / f for f in OCTAVES),
    jnp.zeros(image.shape[:2]),
  )
  weight = 0.05 * at(constants['magnitude'], severity)
  grey = jnp.clip(0.5 * total + 0.5, 0, 1)[..., None]
  return (1 - weight) * image + weight * grey


def noise(r: jax.Array, c: jax.Array, gradients: jax.Array, permutation: jax.Array) -> jax.Array:
  """Returns gradient noise × 1.5 at lattice coordinates, float32 [N, M]; 0 on lattice points.

  Args:
    r: rows [N, 1], at least 0.
    c: columns [1, M], at least 0.
    gradients: [256, 2] along rows and columns.
    permutation: of 0..255, [256]; the gradient of (i, j) is that of p[p[i] + j].
  """
  top, left = jnp.floor(r), jnp.floor(c)
  down, right = r - top, c - left
  i, j = top.astype(jnp.int32), left.astype(jnp.int32)

  def corner(below: int, beside: int) -> jax.Array:
    hashed = permutation[(permutation[(i + below) % TABLE] + (j + beside) % TABLE) % TABLE]
    gradient = gradients[hashed]
    return (down - below) * gradient[..., 0] + (right - beside) * gradient[..., 1]

  s, t = (v * v * (3 - 2 * v) for v in (down, right))
  upper, lower = ((1 - s) * corner(0, k) + s * corner(1, k) for k in (0, 1))
  return GAIN * ((1 - t) * upper + t * lower)
