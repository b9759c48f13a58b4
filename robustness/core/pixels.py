"""8-bit pixels on the devices, as values in [0, 1]."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

BFLOAT16_STEP = 2.0**-8
"""From one bfloat16 to the next in [½, 1): a network in bfloat16 sees less of smaller changes."""

HIGH, LOW = np.float32(257 / 2**16), np.float32(1 / 255 - 257 / 2**16)


def scaled(images: jax.Array) -> jax.Array:
  """Returns images as float32 in [0, 1]: x / 255 of uint8 x, others as they are.

  The value is the float32 nearest to x / 255 for all 256 of them, as NumPy's and TensorFlow's
  division gives it. XLA multiplies by a rounded 1/255 instead, which differs in the last bit for
  126. Here 1/255 is a sum of two numbers; the product with the first, of 9 bits, is exact, so that
  neither the order nor a fused multiply-add changes the result.
  """
  if images.dtype != jnp.uint8:
    return images
  levels = images.astype(jnp.float32)
  return levels * HIGH + levels * LOW


def with_scaled_image(rows: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
  """Returns rows with their `image`, where they have one, as float32 in [0, 1]."""
  return {name: scaled(value) if name == 'image' else value for name, value in rows.items()}
