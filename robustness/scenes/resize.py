r"""Resizing with a triangle filter as a product with two matrices, the sizes being traced.

Pixel o of n lies at c = (o + ½)·s with s = (input size)/n; input pixel i enters with the weight

  max(0, 1 − |i + ½ − c| / max(s, 1)),

divided by the sum of all. That is Pillow's BILINEAR: enlarging interpolates linearly, reducing
averages over 2·s pixels. Pillow rounds to 8 bits after each direction; nothing is rounded here.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


def triangle_weights(positions: jax.Array, inputs: int, size: ArrayLike, resized: ArrayLike
                     ) -> jax.Array:
  """Returns the weights of one direction, float32 [len(positions), inputs].

  Args:
    positions: int32 [n], pixels of the resized line; those outside it have no weight.
    inputs: pixels of the padded line that is resized.
    size: how many of them hold the image, counted from the first.
    resized: how many pixels the image shall have.
  """
  scale = jnp.asarray(size, jnp.float32) / jnp.maximum(resized, 1)
  centre = (positions + 0.5) * scale
  pixel = jnp.arange(inputs)
  distance = jnp.abs(pixel[None, :] + 0.5 - centre[:, None]) / jnp.maximum(scale, 1.0)
  weights = jnp.maximum(0.0, 1.0 - distance) * (pixel < size)[None, :]
  inside = (positions >= 0) & (positions < resized)
  return weights * (inside / jnp.maximum(weights.sum(1), 1e-6))[:, None]


def resize_planes(planes: jax.Array, vertical: jax.Array, horizontal: jax.Array) -> jax.Array:
  """Returns vertical · plane · horizontalᵀ of each plane, [C, rows, columns].

  Args:
    planes: [C, H, W].
    vertical: weights [rows, H].
    horizontal: weights [columns, W].
  """
  rows = jnp.einsum('yi,cij->cyj', vertical, planes, precision='highest')
  return jnp.einsum('cyj,xj->cyx', rows, horizontal, precision='highest')
