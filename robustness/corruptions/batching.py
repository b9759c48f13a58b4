"""A question that a whole batch answers at once, so that a branch stays a branch under vmap."""

from __future__ import annotations

from typing import Any

import jax


@jax.custom_batching.custom_vmap
def any_of_batch(mask: jax.Array) -> jax.Array:
  """Returns whether any element is true, under vmap of any image: one bool for all of them.

  For conditions whose both outcomes are right and differ in cost alone. `lax.cond` and
  `lax.while_loop` would otherwise compute both for every image.

  Args:
    mask: bool, any shape.
  """
  return mask.any()


@any_of_batch.def_vmap
def _any_of_batch(axis_size: int, in_batched: Any, mask: jax.Array) -> tuple[jax.Array, bool]:
  return any_of_batch(mask), False
