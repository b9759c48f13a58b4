"""Conversion of 8-bit pixels on the devices to values in [0, 1]."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

BFLOAT16_STEP = 2.0**-8
"""Difference of adjacent bfloat16 numbers in [½, 1); networks in bfloat16 lose smaller changes."""

HIGH, LOW = np.float32(257 / 2**16), np.float32(1 / 255 - 257 / 2**16)
"""Two numbers with the sum 1 / 255; the first has only 9 bits."""


def scaled(images: jax.Array) -> jax.Array:
  """Returns images as float32 in [0, 1]: x / 255 for uint8 x; float images are unchanged.

  For each of the 256 values the result is the float32 nearest to x / 255, as in NumPy's and
  TensorFlow's division. XLA would multiply by a rounded 1/255, which differs in the last bit for
  126 values. Here 1/255 is `HIGH` + `LOW`. The product with `HIGH`, which has 9 bits, is exact, so
  that neither the order nor a fused multiply-add changes the result.
  """
  if images.dtype != jnp.uint8:
    return images
  levels = images.astype(jnp.float32)
  return levels * HIGH + levels * LOW


def with_scaled_image(rows: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
  """Returns columns of arrays by name; the column `image`, if present, is scaled to [0, 1]."""
  return {name: scaled(value) if name == 'image' else value for name, value in rows.items()}
