"""Named streams of random keys that depend on (seed, study, example, view) and nothing else.

In training the step takes the view's place, and rows that a batch holds again are told apart.

Batch size, chunk, device count, process count, jit or pmap and a resume therefore never change a
random number. Nor do JAX's defaults: the implementation is named, and how Threefry turns a key into
numbers, which JAX lets a flag decide (`jax_threefry_partitionable`), is pinned.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp

from robustness.core.errors import InputError

FLAG = 'jax_threefry_partitionable'


def pin() -> None:
  """Makes this process draw by partitionable Threefry, whatever JAX's flag was set to.

  Every evaluation, training and builder of data sets begins with `stream`, which calls this, so
  that JAX_THREEFRY_PARTITIONABLE=0 in the environment changes no draw. A caller inside of
  `jax.threefry_partitionable(False)`, which outranks it, is refused.
  """
  if not getattr(jax.config, FLAG):
    jax.config.update(FLAG, True)  # type: ignore[no-untyped-call]
  if not getattr(jax.config, FLAG):
    raise InputError(
      'jax.threefry_partitionable is False around this call; all published draws are those of '
      'True: leave the context manager away.'
    )


@contextmanager
def pinned() -> Iterator[None]:
  """Draws inside of it, in traced code too, from keys of any origin as `pin` has it and in 32 bits:
  for functions that users call from code with flags of its own."""
  with jax.threefry_partitionable(True), jax.enable_x64(False):
    yield


def from_seed(seed: int | jax.Array) -> jax.Array:
  """Returns the typed Threefry key of a seed, 0 ≤ seed < 2**32; see `pin`.

  A traced seed is a uint32 scalar and has the same key.
  """
  pin()
  return jax.random.key(seed, impl='threefry2x32')


def stream(seed: int | jax.Array, name: str) -> jax.Array:
  """Returns the root key of a stream: that of a seed, with the CRC-32 of its name folded in."""
  return jax.random.fold_in(from_seed(seed), zlib.crc32(name.encode()))


def for_example(key: jax.Array, example_id: jax.Array, view_id: jax.Array) -> jax.Array:
  """Returns the key of one row shown in one view: fold_in(fold_in(key, example_id), view_id).

  The integers are scalars and may be traced.
  """
  return jax.random.fold_in(jax.random.fold_in(key, example_id), view_id)


def for_occurrence(
  key: jax.Array, example_id: jax.Array, step: jax.Array, occurrence: jax.Array
) -> jax.Array:
  """Returns the key of a training row; a row that a batch holds again has another.

  The first occurrence has the key of `for_example`. For those after it −occurrence, which as
  uint32 no step reaches, is folded in between example and step.

  Args:
    key: a stream's root key.
    example_id: integer scalar, as the others perhaps traced.
    step: below 2**31.
    occurrence: int32: how often the batch holds the row before this place.
  """
  row = jax.random.fold_in(key, example_id)
  again = jax.random.fold_in(row, -occurrence)
  return jax.random.fold_in(jnp.where(occurrence > 0, again, row), step)


def occurrences(example_ids: jax.Array, axis_name: str | None = None) -> jax.Array:
  """Returns how often a batch holds each row before its place, int32 [B]: 0 for the first.

  `axis_name` is the axis of pmap where `example_ids` are one device's share of the batch.
  """
  whole = example_ids if axis_name is None else jax.lax.all_gather(example_ids, axis_name).ravel()
  order = jnp.argsort(whole, stable=True)
  ordered = whole[order]
  rank = jnp.arange(len(whole), dtype=jnp.int32) - jnp.searchsorted(ordered, ordered)
  counted = jnp.zeros(len(whole), jnp.int32).at[order].set(rank)
  if axis_name is None:
    return counted
  return counted.reshape(-1, *example_ids.shape)[jax.lax.axis_index(axis_name)]
