"""Runs attacks one after another, each on the images that are still classified correctly."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from robustness.attacks import Arguments, Array

Run = Callable[[Array, Arguments], Array]
"""A function that runs an attack once and returns images, given the number of the run, such as of a
random start, and the arguments of the attack."""

CPU_TILE, TILE = 8, 128
"""Numbers of images that are attacked together, on a CPU and on an accelerator."""


def in_turn(
  run: Run, num_runs: int, arguments: Arguments, state: tuple[Array, Array], first: Array | int = 0
) -> tuple[Array, Array]:
  """Runs an attack several times, each time on the images that are still classified correctly.

  Each run keeps the misclassified images that it finds. It attacks the remaining images in small
  batches of equal size, called tiles. The last tile is filled up with copies of its first image.
  The result for an image does not depend on the other images.

  Args:
    run: the attack of one tile of T images. Called with the number of the run and the arguments of
      the attack for the tile; returns images [T, H, W, C]. Keys differ between runs.
    num_runs: number of runs.
    arguments: the arguments of the attack, for all B images.
    state: (the images after earlier attacks, float32 [B, H, W, C]; whether they are classified
      correctly, bool [B]).
    first: number of the first run.

  Returns:
    (adversarial images [B, H, W, C], whether they are classified correctly, bool [B]).
  """
  _, logits, images, labels, scale = arguments
  images, labels = jnp.asarray(images), jnp.asarray(labels)
  num_rows = len(labels)
  # T, the images in a tile
  tile = min(num_rows, CPU_TILE if jax.default_backend() == 'cpu' else TILE)

  def attack_rows(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
    """Makes one run of the attack on all images that are still classified correctly.

    Args:
      number: number of the run.
      state: (adversarial images [B, H, W, C], whether they are classified correctly, bool [B]).

    Returns:
      The state after the run.
    """
    _, is_right = state
    # The rows that are still right, followed by B to fill the last tile: if row 0 of 3 rows is
    # wrong, in tiles of 2, they are 1, 2, 3, 3, 3.
    right_rows = jnp.flatnonzero(is_right, size=num_rows + tile, fill_value=num_rows)
    run_keys = jax.vmap(lambda key: jax.random.fold_in(key, number))(arguments.keys)

    def attack_tile(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
      """Returns the state after the attack of the tile with the number `index`."""
      current, is_right = state
      padded_rows = jax.lax.dynamic_slice(right_rows, (index * tile,), (tile,))
      rows = jnp.where(padded_rows < num_rows, padded_rows, padded_rows[0])  # copies of the first
      candidates = run(number, Arguments(run_keys[rows], logits, images[rows], labels[rows], scale))
      is_success = is_right[rows] & (logits(candidates).argmax(-1) != labels[rows])
      # The rows that get a new image. B is past the last row, and `mode='drop'` ignores it.
      replaced = jnp.where(is_success, padded_rows, num_rows)
      current = current.at[replaced].set(candidates, mode='drop')
      return current, is_right.at[replaced].set(False, mode='drop')

    num_tiles = -(-is_right.sum() // tile)  # rounded up
    return jax.lax.fori_loop(0, num_tiles, attack_tile, state)

  return jax.lax.fori_loop(first, first + num_runs, attack_rows, state)


def attack_in_turn(run: Run, num_runs: int, arguments: Arguments) -> Array:
  """Returns the adversarial images after several runs of an attack, [B, H, W, C].

  Each run attacks only the images that are still classified correctly. An image is unchanged if no
  run succeeds, or if it is misclassified from the start.

  Args:
    run: the method `run` of the attack.
    num_runs: number of runs.
    arguments: the arguments of the attack.
  """
  is_right = arguments.logits(arguments.images).argmax(-1) == arguments.labels
  adversarial, _ = in_turn(run, num_runs, arguments, (arguments.images, is_right))
  return adversarial
