"""An attack from several random starts, of which each image keeps the worst."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from robustness.attacks.losses import margin


def worst(
  attack: Callable[[jax.Array], jax.Array],
  keys: jax.Array,
  logits: Callable[[jax.Array], jax.Array],
  labels: jax.Array,
  count: int,
) -> jax.Array:
  """Returns, of `count` runs of an attack, the result with the largest margin, image by image.

  An image is predicted wrongly if any of its runs ended so. The first run has the given keys, run r
  has fold_in(key, r): more restarts never make an attack weaker.

  Args:
    attack: from keys [B] to images [B, H, W, C].
    keys: [B].
    logits, labels: see `robustness.attacks`.
    count: at least 1.
  """
  first = attack(keys)
  if count == 1:
    return first

  def again(run: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    images, largest = state
    other = attack(jax.vmap(lambda key: jax.random.fold_in(key, run))(keys))
    margins = margin(logits(other), labels)
    better = (margins > largest).reshape(-1, 1, 1, 1)
    return jnp.where(better, other, images), jnp.maximum(margins, largest)

  state = (first, margin(logits(first), labels))
  return jax.lax.fori_loop(1, count, again, state)[0]
