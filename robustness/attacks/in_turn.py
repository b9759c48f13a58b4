"""Runs attacks one after another, each on the images that are still classified correctly."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from robustness.attacks import Array, Logits

Run = Callable[[Array, Array, Array, Array], Array]
"""A function of the number of the run, and of keys [T], images [T, H, W, C] and labels [T] of a
tile, that returns images [T, H, W, C]."""

CPU_TILE, TILE = 8, 128
"""Numbers of images that are attacked together, on a CPU and on an accelerator."""


def in_turn(
  run: Run,
  count: int,
  logits: Logits,
  keys: Array,
  images: Array,
  labels: Array,
  adversarial: Array,
  was_right: Array,
  first: Array | int = 0,
) -> tuple[Array, Array]:
  """Runs an attack `count` times, each time on the images that are still classified correctly.

  Each run keeps the misclassified images that it finds. It attacks the remaining images in small
  batches of equal size, called tiles. The last tile is filled up with copies of its first image.
  The result for an image does not depend on the other images.

  Args:
    run: The attack of one tile. Called with the number of the run, keys [T], images [T, H, W, C]
      and labels [T]; returns images [T, H, W, C]. Keys differ between runs.
    count: Number of runs.
    logits: The classifier, a function from images to logits.
    keys: Random keys [B].
    images: Clean images, float32 [B, H, W, C].
    labels: int32 [B].
    adversarial: The images after earlier attacks, float32 [B, H, W, C].
    was_right: Whether the `adversarial` images are classified correctly, bool [B].
    first: Number of the first run.

  Returns:
    (adversarial images [B, H, W, C], whether they are classified correctly, bool [B]).
  """
  num_rows, images, labels = len(labels), jnp.asarray(images), jnp.asarray(labels)
  tile = min(num_rows, CPU_TILE if jax.default_backend() == 'cpu' else TILE)
  no_row = num_rows  # an index past the last row, which `mode='drop'` ignores

  def attack_rows(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    """Makes one run; returns (adversarial images, whether they are classified correctly)."""
    _, is_right = state
    # The rows that are still right, followed by `no_row` to fill the last tile: of 3 rows of which
    # row 0 is wrong, in tiles of 2, the order is 1, 2, 3, 3, 3.
    order = jnp.flatnonzero(is_right, size=num_rows + tile, fill_value=no_row)
    run_keys = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)

    def attack_tile(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
      """Attacks one tile, a small batch of images that are still classified correctly.

      Returns the new state of all images: (adversarial images, whether they are classified
      correctly).
      """
      current, is_right = state
      entries = jax.lax.dynamic_slice(order, (index * tile,), (tile,))  # rows, then `no_row`
      rows = jnp.where(entries < num_rows, entries, entries[0])  # filled with the first row
      candidates = run(number, run_keys[rows], images[rows], labels[rows])
      is_success = is_right[rows] & (logits(candidates).argmax(-1) != labels[rows])
      replaced = jnp.where(is_success, entries, no_row)  # the rows that get a new image
      current = current.at[replaced].set(candidates, mode='drop')
      return current, is_right.at[replaced].set(False, mode='drop')

    num_tiles = -(-is_right.sum() // tile)  # rounded up
    return jax.lax.fori_loop(0, num_tiles, attack_tile, state)

  return jax.lax.fori_loop(first, first + count, attack_rows, (adversarial, was_right))


def attack_in_turn(
  run: Run, count: int, logits: Logits, keys: Array, images: Array, labels: Array
) -> Array:
  """Returns the adversarial images after `count` runs of an attack, [B, H, W, C].

  Each run attacks only the images that are still classified correctly. An image is unchanged if no
  run succeeds, or if it is misclassified from the start. For the arguments see `in_turn`.
  """
  is_right = logits(images).argmax(-1) == labels
  adversarial, _ = in_turn(run, count, logits, keys, images, labels, images, is_right)
  return adversarial
