"""Rotation in the image plane: exact by right angles, bilinear by others."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.scipy.ndimage import map_coordinates

RIGHT_ANGLES = (90, 180, 270)
FILLS = ('constant', 'nearest')


def rotate(image: jax.Array, degrees: jax.Array | float, fill: str = 'constant') -> jax.Array:
  """Rotates an image about its centre, counter-clockwise.

  By multiples of 90° pixels are moved and none is interpolated, so that nothing but the angle
  distinguishes the image from the upright one (section 2 of the paper).

  Args:
    image: float32 [H, W, C] with H = W.
    degrees: of the rotation, any number; may be traced.
    fill: of what lies outside the image: 'constant' (black) or 'nearest' (its border).

  Returns:
    The rotated image, of the same shape.
  """
  turns = jnp.round(jnp.asarray(degrees, jnp.float32) / 90)
  right = jnp.abs(degrees - 90 * turns) < 1e-4
  moved = quarter_turns(image, turns.astype(jnp.int32) % 4)
  return jnp.where(right, moved, _interpolated(image, degrees, fill))


def quarter_turns(image: jax.Array, turns: jax.Array | int) -> jax.Array:
  """Rotates a square image [H, H, C] by turns × 90°, counter-clockwise, turns in 0..3."""
  whole = [functools.partial(jnp.rot90, k=k) for k in range(4)]
  return jax.lax.switch(turns, whole, image)


def _interpolated(image: jax.Array, degrees: jax.Array | float, fill: str) -> jax.Array:
  angle = jnp.deg2rad(jnp.asarray(degrees, jnp.float32))
  height, width = image.shape[:2]
  centre = jnp.array([(height - 1) / 2, (width - 1) / 2])
  row, column = jnp.meshgrid(
    jnp.arange(height) - centre[0], jnp.arange(width) - centre[1], indexing='ij'
  )
  source = [
    jnp.cos(angle) * row + jnp.sin(angle) * column + centre[0],
    -jnp.sin(angle) * row + jnp.cos(angle) * column + centre[1],
  ]
  sample = functools.partial(map_coordinates, coordinates=source, order=1, mode=fill)
  return jax.vmap(sample, in_axes=-1, out_axes=-1)(image)
