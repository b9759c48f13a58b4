"""Noises of C-bar that are drawn as a spectrum: blue_noise_sample and brownish_noise.

Reference:
  Mintun, Kirillov & Xie (2021), appendix, and the constants of the released generator.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.severities import Constants, at
from robustness.corruptions.waves import uniform

Draws = Mapping[str, jax.Array]


def blue_noise_sample(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Blackens the pixels where noise with the spectrum |k|, of standard deviation 1, is at most
  .3 m - 2.5: black pixels avoid each other.

  Args:
    key: decides the phases.
    image: float32 [N, N, C] in [0, 1], N even.
    severity: number of the entry of `constants`, may be traced.
    constants: magnitude m.
  """
  return blue_from_draws(draw_blue(key, image.shape[0]), image, severity, constants)


def draw_blue(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `phases` [N, N / 2] in [0, 2π)."""
  return {'phases': uniform(key, 0, 2 * np.pi, (side, side // 2))}


def blue_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `blue_noise_sample` with given draws."""
  field = field_of(draws['phases'], np.sqrt(_squared(image.shape[0])))
  threshold = 0.3 * at(constants['magnitude'], severity) - 2.5
  return jnp.where((field > threshold)[..., None], image, 0)


def brownish_noise(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Returns clip(x + σ n, 0, 1), n of each channel with the spectrum 1 / (|k|² + 1) and standard
  deviation 1; 255 σ = 6.4 m. The mean of n is not removed: channels shift in level.

  Args:
    key: decides the phases.
    image, severity, constants: as in `blue_noise_sample`.
  """
  return brownish_from_draws(draw_brownish(key, image.shape[0]), image, severity, constants)


def draw_brownish(key: jax.Array, side: int) -> dict[str, jax.Array]:
  """Returns `phases` [3, N, N / 2] in [0, 2π); a grey image uses the first."""
  return {'phases': uniform(key, 0, 2 * np.pi, (3, side, side // 2))}


def brownish_from_draws(
  draws: Draws, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Applies `brownish_noise` with given draws."""
  amplitude = 1 / (_squared(image.shape[0]) + 1)
  phases = draws['phases'][: image.shape[-1]]
  noise = jnp.moveaxis(jax.vmap(lambda phase: field_of(phase, amplitude))(phases), 0, -1)
  return jnp.clip(image + 6.4 / 255 * at(constants['magnitude'], severity) * noise, 0, 1)


def field_of(half: jax.Array, amplitude: np.ndarray) -> jax.Array:
  """Returns the real part of the inverse transform, divided by its standard deviation, [N, N].

  The right half of the phases is the left one turned by 180°, as released. That is no Hermitian
  spectrum: taking the real part leaves each frequency a random share of its amplitude.

  Args:
    half: phases [N, N / 2] of the left half, frequency 0 in the middle of the whole.
    amplitude: [N, N], frequency 0 in the middle.
  """
  side = len(half)
  phase = jnp.concatenate([half, half[::-1, ::-1]], 1)
  spectrum = jnp.asarray(amplitude, jnp.float32) * jax.lax.complex(jnp.cos(phase), jnp.sin(phase))
  field = jnp.fft.ifft2(jnp.roll(spectrum, (side // 2, side // 2), (0, 1))).real
  return field / field.std()


def _squared(side: int) -> np.ndarray:
  """Returns |k|² with frequency 0 in the middle, float64 [N, N]."""
  line = (np.arange(side) - side // 2) ** 2.0
  return line[:, None] + line
