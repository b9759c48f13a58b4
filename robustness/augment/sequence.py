"""Operations that follow each other on one image: what every policy of operations ends in."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from robustness.augment import operations
from robustness.augment.operations import Drawn, Image, Operations


def apply(
  image: jax.Array, drawn: Drawn, possible: Operations, fill: tuple[int, ...] = ()
) -> jax.Array:
  """Returns the image after the operations.

  Args:
    image: float32 [H, W, C] in [0, 1]; taken in 8-bit levels, unless no operation was drawn: it is
      then returned as it is.
    drawn: the operations in order, each array [steps, ...].
    possible: the operations that can occur.
    fill: levels that pixels take at the end which do not show the image, where `possible` is
      transparent.

  Raises:
    InputError: the image has neither one channel nor three.
  """
  operations.check_channels(image.shape)

  def step(state: Image, drawn: Drawn) -> tuple[Image, None]:
    return possible(state, drawn), None

  begin = operations.to_levels(image), jnp.ones(image.shape[:2], bool)
  (levels, kept), _ = jax.lax.scan(step, begin, drawn)
  if possible.transparent:
    levels = operations.filled(levels, kept, fill)
  changed = (drawn.name >= 0).any()
  return jax.lax.cond(changed, lambda: operations.from_levels(levels), lambda: image)


def centres(key: jax.Array, steps: int, possible: Operations, height: int, width: int) -> jax.Array:
  """Returns places uniform over the pixels, int32 [steps, 2]; zeros where no square can occur."""
  if 'Cutout' not in possible.names:
    return jnp.zeros((steps, 2), jnp.int32)
  return jax.random.randint(key, (steps, 2), 0, jnp.array([[height, width]]))
