"""Runs of attacks one after another, each on the images that are still right alone."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from robustness.attacks import Array, Logits

Run = Callable[[Array, Array, Array, Array], Array]
"""From the number of the run, keys [T], images [T, H, W, C] and labels [T] to images."""

CPU_TILE, TILE = 8, 128
"""Images that are attacked at once, on a CPU and elsewhere."""


def in_turn(
  run: Run,
  count: int,
  logits: Logits,
  keys: Array,
  images: Array,
  labels: Array,
  shown: Array,
  right: Array,
) -> tuple[Array, Array]:
  """Returns `shown` and `right` after so many runs: where a run finds an image that is predicted
  wrongly, it is shown from then on, and the row takes part in no later run.

  Before each run the rows that are right move to the front and are attacked in tiles of one size.
  The time is that of these rows; what becomes of a row does not depend on the others.

  Args:
    run: gives an image for each row of a tile; later runs are given other keys.
    count: how many runs.
    logits: of the classifier.
    keys: [B].
    images: float32 [B, H, W, C], clean.
    labels: int32 [B].
    shown: float32 [B, H, W, C], what earlier attacks left.
    right: bool [B], which rows are predicted rightly as they are shown.
  """
  rows, images, labels = len(labels), jnp.asarray(images), jnp.asarray(labels)
  tile = min(rows, CPU_TILE if jax.default_backend() == 'cpu' else TILE)

  def one_run(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    order = jnp.argsort(~state[1], stable=True)
    order = jnp.concatenate([order, jnp.full(tile, rows, order.dtype)])
    own = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)

    def one_tile(place: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
      shown, right = state
      chosen = jax.lax.dynamic_slice(order, (place * tile,), (tile,))
      at = jnp.minimum(chosen, rows - 1)
      made = run(number, own[at], images[at], labels[at])
      fallen = right[at] & (logits(made).argmax(-1) != labels[at])
      into = jnp.where(fallen, chosen, rows)
      return shown.at[into].set(made, mode='drop'), right.at[into].set(False, mode='drop')

    return jax.lax.fori_loop(0, -(-state[1].sum() // tile), one_tile, state)

  return jax.lax.fori_loop(0, count, one_run, (shown, right))


def whole(run: Run, count: int, logits: Logits, keys: Array, images: Array, labels: Array) -> Array:
  """Returns the images that so many runs leave, see `in_turn`; clean ones where none succeeds, and
  where the image is wrong by itself."""
  right = logits(images).argmax(-1) == labels
  return in_turn(run, count, logits, keys, images, labels, jnp.asarray(images), right)[0]
