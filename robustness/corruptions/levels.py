"""The 256 levels of an 8-bit image, as float images see them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice

QUANTIZE = ('floor', 'round')
GUARD = 2.0**-12  # of a level: keeps float32 error from moving what is exactly on a threshold

LEVELS = np.arange(256, dtype=np.float32) / np.float32(255)
"""The levels as an 8-bit file gives them; XLA's division by 255 is one bit off for half of them."""


def to_levels(image: jax.Array, quantize: str = 'floor') -> jax.Array:
  """Returns x in [0, 1] as one of the levels k / 255, float32.

  Args:
    image: any shape, in [0, 1].
    quantize: 'floor' truncates, as the released generators do (results are ½ level darker in the
      mean); 'round' takes the nearest level, halves to even.
  """
  choice('quantize', quantize, QUANTIZE)
  scaled = jnp.clip(image, 0, 1) * 255
  levels = (
    jnp.floor(scaled + GUARD)
    if quantize == 'floor'
    else jnp.round(jnp.round(scaled / GUARD) * GUARD)
  )
  return from_levels(levels.astype(jnp.uint8))


def from_levels(levels: jax.Array) -> jax.Array:
  """Returns levels k / 255 of integers k in 0..255, of any shape; float32."""
  return jnp.asarray(LEVELS).at[levels].get(mode='promise_in_bounds')
