"""Conversion of 8-bit pixels on the devices to values in [0, 1]."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

BFLOAT16_STEP = 2.0**-8
"""Difference of adjacent bfloat16 numbers in [½, 1); networks in bfloat16 lose smaller changes."""

HIGH, LOW = np.float32(257 / 2**16), np.float32(1 / 255 - 257 / 2**16)
"""Two numbers with the sum 1 / 255; the first has only 9 bits.

XLA would multiply by a rounded 1 / 255, which differs from the division in the last bit for 126 of
the 256 values. The product of an 8-bit value with `HIGH` is exact, so that neither the order of the
products nor a fused multiply-add changes the result.
"""


def scaled(images: jax.Array) -> jax.Array:
  """Returns uint8 images divided by 255 as float32 in [0, 1], and float images unchanged.

  The result equals the division in NumPy and TensorFlow bit by bit.
  """
  if images.dtype != jnp.uint8:
    return images
  levels = images.astype(jnp.float32)
  return levels * HIGH + levels * LOW


def with_scaled_image(rows: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
  """Returns a batch with its uint8 images scaled to float32 in [0, 1].

  Args:
    rows: {name of a column: array with one entry per example}. Only the column 'image' is scaled; a
      batch without this column is returned as it is.
  """
  return {name: scaled(value) if name == 'image' else value for name, value in rows.items()}
