"""Corruptions of C-bar that add or blend in waves: single_frequency_greyscale,
cocentric_sine_waves (so spelled in the released set) and plasma_noise.

Each has `draw_…(key, side)` and `…_from_draws(draws, image, severity, constants)`. Pixel (r, c) has
its centre at the integers r, c = 0..N - 1.

Reference:
  Mintun, Kirillov & Xie (2021), On Interaction Between Augmentations and Corruptions in Natural
  Corruption Robustness, appendix, and the constants of the released generator.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from robustness.corruptions.severities import Constants, at

Draws = Mapping[str, jax.Array]
MOST_STEPS = 6  # of the plasma's recursion


def grid(side: int) -> tuple[jax.Array, jax.Array]:
  """Returns the rows [N, 1] and columns [1, N] of the pixels of a square image, float32."""
  line = jnp.arange(side, dtype=jnp.float32)
  return line[:, None], line[None, :]


def uniform(key: jax.Array, low: float, high: float, shape: tuple[int, ...] = ()) -> jax.Array:
  """Returns uniform draws from [low, high), float32."""
  return jax.random.uniform(key, shape, jnp.float32, low, high)


def single_frequency_greyscale(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns clip(x + A sin(c fx + r fy + φ), 0, 1), the same in all channels; 255 A = 19.6 m.

  Args:
    key: decides frequency and phase.
    image: float32 [N, N, C] in [0, 1].
    severity: number of the entry of `constants`, may be traced.
    constants: magnitude m.
  """
  draws = draw_single_frequency(key, image.shape[0])
  return single_frequency_from_draws(draws, image, severity, constants)


def draw_single_frequency(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `frequency` (fx, fy), the larger of which is uniform on [-π, π], and `phase`."""
  del side
  keys = jax.random.split(key, 4)
  first = uniform(keys[0], -jnp.pi, jnp.pi)
  pair = jnp.stack([first, jnp.abs(first) * uniform(keys[1], -1, 1)])
  swapped = jax.random.bernoulli(keys[2])
  return {
    'frequency': jnp.where(swapped, pair[::-1], pair),
    'phase': uniform(keys[3], 0, 2 * jnp.pi),
  }


def single_frequency_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `single_frequency_greyscale` with given draws."""
  r, c = grid(image.shape[0])
  amplitude = 19.6 / 255 * at(constants['magnitude'], severity)
  wave = jnp.sin(c * draws['frequency'][0] + r * draws['frequency'][1] + draws['phase'])
  return jnp.clip(image + amplitude * wave[..., None], 0, 1)


def cocentric_sine_waves(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns clip(x + I z, 0, 1), the same in all channels; z ∈ [-½, ½) is a sawtooth of wobbly
  rings, z = ((ρ + a sin kθ) mod w) / w - ½, and 255 I = 12.8 m.

  Args:
    key: decides centre, k (real, so that there is a seam), a and w.
    image, severity, constants: as in `single_frequency_greyscale`.
  """
  draws = draw_cocentric(key, image.shape[0])
  return cocentric_from_draws(draws, image, severity, constants)


def draw_cocentric(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `centre` (row, column), `frequency` k, `wobble` a and `width` w, pixels."""
  keys = jax.random.split(key, 4)
  return {
    'centre': uniform(keys[0], 0, side, (2,)),
    'frequency': uniform(keys[1], 0, 10),
    'wobble': uniform(keys[2], 0, side / 10),
    'width': uniform(keys[3], 0, side / 10),
  }


def cocentric_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `cocentric_sine_waves` with given draws."""
  r, c = grid(image.shape[0])
  down, right = r - draws['centre'][0], c - draws['centre'][1]
  radius, angle = jnp.hypot(down, right), jnp.arctan2(right, down)
  width = jnp.maximum(draws['width'], 1e-6)
  rings = jnp.mod(radius + draws['wobble'] * jnp.sin(draws['frequency'] * angle), width) / width
  height = 12.8 / 255 * at(constants['magnitude'], severity)
  return jnp.clip(image + height * (rings - 0.5)[..., None], 0, 1)


def plasma_noise(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns clip((1 - I) x + I n, 0, 1) with n ∈ [-1, 1] of each channel; 255 I = 6.4 m.

  As n has the mean 0, the image is darkened. A grey image takes the mean of the three n.

  Args:
    key: decides time, steps, sharpness and scale of the plasma.
    image, severity, constants: as in `single_frequency_greyscale`.
  """
  draws = draw_plasma(key, image.shape[0])
  return plasma_from_draws(draws, image, severity, constants)


def draw_plasma(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `time` T, `steps` of 4, 5, 6, `sharpness` q, and `scale` in pixels."""
  keys = jax.random.split(key, 4)
  return {
    'time': uniform(keys[0], 0, 6 * jnp.pi),
    'steps': jax.random.randint(keys[1], (), 4, MOST_STEPS + 1),
    'sharpness': uniform(keys[2], 0.5, 1),
    'scale': uniform(keys[3], 0.075 * side, 0.2 * side),
  }


def plasma_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `plasma_noise` with given draws."""
  time = draws['time']
  y, x = (jnp.broadcast_to(v, image.shape[:2]) / draws['scale'] for v in grid(image.shape[0]))
  fine, slow, divisor = 1.0, 1.0, jnp.float32(1)
  for step in range(MOST_STEPS):
    across = jnp.cos(fine * y + time / slow) / divisor
    along = jnp.sin(fine * x + time / slow) / divisor
    across, along = across - 0.3 * along, along + 0.3 * across
    taken = step < draws['steps']
    x, y = jnp.where(taken, x + across, x), jnp.where(taken, y + along, y)
    fine, slow, divisor = fine * 1.93, slow * 1.15, divisor * (2.25 - draws['sharpness'])
  waves = [jnp.sin(x - time), jnp.sin((x + y + jnp.sin(time)) / 2), jnp.sin(y + time)]
  noise = jnp.stack(waves, -1)
  if image.shape[-1] == 1:
    noise = noise.mean(-1, keepdims=True)
  weight = 6.4 / 255 * at(constants['magnitude'], severity)
  return jnp.clip((1 - weight) * image + weight * noise, 0, 1)
