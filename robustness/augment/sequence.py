"""Operations that follow each other on one image: what every policy of operations ends in."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

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


def below(share: jax.Array, count: ArrayLike) -> jax.Array:
  """Returns ⌊share · count⌋, int32: uniform over 0..count − 1 where the share is over [0, 1).

  Shares are multiples of 2⁻²³, so that no chance of a few hundred is off by more than that.
  """
  count = jnp.asarray(count)
  return jnp.minimum((share * count).astype(jnp.int32), count - 1)
