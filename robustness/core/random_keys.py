"""Named streams of random keys that depend on (seed, study, example, view) and nothing else.

Batch size, chunk, device count, process count, jit or pmap and a resume therefore never change a
random number.
"""

from __future__ import annotations

import zlib

import jax


def stream(seed: int, name: str) -> jax.Array:
  """Returns the root key of a named stream.

  Args:
    seed: the experiment's seed, 0 ≤ seed < 2**32.
    name: for example the study's name; its CRC-32 is folded in.

  Returns:
    A typed Threefry key (the implementation is fixed, so that a change of JAX's default does not
    change results).
  """
  return jax.random.fold_in(jax.random.key(seed, impl='threefry2x32'), zlib.crc32(name.encode()))


def for_example(key: jax.Array, example_id: jax.Array, view_id: jax.Array) -> jax.Array:
  """Returns the key of one row shown in one view: fold_in(fold_in(key, example_id), view_id).

  Args:
    key: a stream's root key.
    example_id: integer scalar (may be traced).
    view_id: integer scalar (may be traced); for training, the step takes its place.
  """
  return jax.random.fold_in(jax.random.fold_in(key, example_id), view_id)
