"""Random keys that depend only on (seed, name of a stream, example, view), never on batching.

A stream is the set of random numbers of one purpose, such as a study. In training, the step takes
the place of the view, and repeated rows of a batch have different keys. Therefore batch size,
chunks, numbers of devices and processes, jit or pmap, and a resume never change a random number.
Nor do JAX's defaults: the implementation of keys is named, and the flag that decides how Threefry
turns keys into numbers (`jax_threefry_partitionable`) is set here.
"""

import functools
import pickle
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError, is_users

T = TypeVar('T')
"""Any type."""
_RETRACED = jax.make_user_context()  # type: ignore[no-untyped-call]
"""A context; JAX traces jitted functions again when it has a new value."""
FLAG = 'jax_threefry_partitionable'
"""JAX's flag for partitionable Threefry."""


def pin() -> None:
  """Turns on partitionable Threefry in this process, which makes random numbers reproducible.

  `from_seed` and `stream` call this. Random numbers therefore do not depend on
  JAX_THREEFRY_PARTITIONABLE in the environment.

  Raises:
    InputError: the caller is within `jax.threefry_partitionable(False)`, which has priority.
  """
  if not getattr(jax.config, FLAG):
    jax.config.update(FLAG, True)  # type: ignore[no-untyped-call]
  if not getattr(jax.config, FLAG):  # a context hides the update
    raise InputError(
      'jax.threefry_partitionable is False around this call; all published draws are those of '
      'True: leave the context manager away.'
    )


@contextmanager
def pinned() -> Iterator[None]:
  """A context manager in which JAX uses partitionable Threefry and 32 bits, also in traced code.

  It wraps functions that users may call with other values of these JAX flags.
  """
  with jax.threefry_partitionable(True), jax.enable_x64(False):
    yield


def from_seed(seed: int | jax.Array) -> jax.Array:
  """Returns the typed Threefry key of a seed in 0..2**32 − 1, after calling `pin`.

  A traced seed is a uint32 scalar. It has the same key as the equal Python integer.
  """
  pin()
  return jax.random.key(seed, impl='threefry2x32')


def stream(seed: int | jax.Array, name: str) -> jax.Array:
  """Returns a random key for one purpose, such as 'training/crop', derived from a seed.

  The CRC-32 of `name` is folded into the seed's key. Different names have independent random
  numbers.

  Args:
    seed: seed in 0..2**32 − 1.
    name: name of the purpose.
  """
  return jax.random.fold_in(from_seed(seed), zlib.crc32(name.encode()))


def without_global_draws(function: Callable[..., T]) -> Callable[..., T]:
  """Returns `function` with a check against user code that draws from `np.random` or `random`.

  While JAX traces the function, such code would draw a number once. The number would be the same
  for every image and step. The returned function raises InputError instead.
  """

  @functools.wraps(function, updated=())  # a function may be an object with fields
  def checked(*arguments: Any, **keywords: Any) -> T:
    """Calls `function`, which JAX traces, and refuses random numbers from a global generator.

    The states of the generators of `np.random` and `random` are compared before and after the call.

    Raises:
      InputError: code of a user in `function` draws from one of them.
    """
    states = _global_states()
    result = function(*arguments, **keywords)
    has_draws = _global_states() != states
    # Another thread may have drawn. A second call finds the function that draws, if there is one.
    place = _place_of_draw(function, arguments, keywords) if has_draws else ''
    if place:
      raise InputError(
        f'{place} draws from np.random or random while it is compiled, so that all images and '
        'steps would have the same numbers: draw by jax.random from the key that it is given, or '
        'numbers that never change from np.random.default_rng(SEED).'
      )
    return result

  return checked


def _global_states() -> tuple[object, ...]:
  """Returns the states of the global generators of NumPy and Python."""
  return pickle.dumps(np.random.get_state()), random.getstate()


def _place_of_draw(
  function: Callable[..., object], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> str:
  """Calls `function` and returns which function of user code draws from a global generator.

  The global generators are `np.random` and `random`.

  Args:
    function: the function to call.
    arguments: its positional arguments.
    keywords: its keyword arguments.

  Returns:
    Name and file of the first user function that draws, such as 'noise in /home/me/noise.py'. The
    result is '' if there is none.
  """
  last_states = _global_states()
  places: list[str] = []
  running: list[CodeType] = []  # the user's functions that were called and have not returned
  is_users_file = functools.cache(is_users)  # called for every function that is called

  def note_draws(frame: FrameType, event: str, _: object) -> None:
    """Profiler for `sys.setprofile` that adds user functions that draw to `places`.

    At each call and return of a user function, the states of the generators are compared with the
    last ones. If they differ, the innermost user function that was running has drawn.
    """
    nonlocal last_states
    if event not in ('call', 'return') or not is_users_file(frame.f_code.co_filename):
      return
    states = _global_states()
    if running and states != last_states:
      places.append(f'{running[-1].co_qualname} in {running[-1].co_filename}')
    last_states = states
    if event == 'call':
      running.append(frame.f_code)
    else:
      running.pop()

  profile = sys.getprofile()
  with _RETRACED(object()):  # a new value: functions that are jitted themselves are traced again
    sys.setprofile(note_draws)
    try:
      function(*arguments, **keywords)
    finally:
      sys.setprofile(profile)
  return places[0] if places else ''


def for_example(key: jax.Array, example_id: jax.Array, view_id: jax.Array) -> jax.Array:
  """Returns the random key of one example under one perturbation (view).

  The key is `fold_in(fold_in(key, example_id), view_id)`.

  Args:
    key: key for all examples and views, such as `stream(seed, 'training/crop')`.
    example_id: integer scalar, which may be traced.
    view_id: integer scalar, which may be traced. It numbers the perturbation, such as fog at
      severity 3.
  """
  return jax.random.fold_in(jax.random.fold_in(key, example_id), view_id)


def for_occurrence(
  key: jax.Array, example_id: jax.Array, step: jax.Array, occurrence: jax.Array
) -> jax.Array:
  """Returns the random key of a training example in a step.

  A batch may contain an example several times. Each copy gets a different key. The first copy has
  the key `fold_in(fold_in(key, example_id), step)`. For later copies −occurrence is folded in
  between example and step. As uint32 it is larger than any step, so that all keys differ.

  Args:
    key: key of a purpose, such as `stream(seed, 'training/crop')`.
    example_id: integer scalar. All integers may be traced.
    step: number of the training step, below 2**31.
    occurrence: number of earlier copies of the example in the batch, int32 (see `occurrences`).
  """
  first_copy = jax.random.fold_in(key, example_id)
  later_copy = jax.random.fold_in(first_copy, -occurrence)
  return jax.random.fold_in(jnp.where(occurrence > 0, later_copy, first_copy), step)


def occurrences(example_ids: jax.Array, axis_name: str | None = None) -> jax.Array:
  """Returns the number of earlier copies of each example in the batch, int32 [B].

  For example, the ids [7, 5, 7, 7] return [0, 0, 1, 2].

  Args:
    example_ids: ids of the examples, [B]. Within `jax.pmap` these are the examples of this device.
    axis_name: name of the axis of `jax.pmap`. If given, copies are counted over all devices.
  """
  ids = example_ids if axis_name is None else jax.lax.all_gather(example_ids, axis_name).ravel()
  order = jnp.argsort(ids, stable=True)  # copies are neighbours, in their order in the batch
  ordered = ids[order]
  # a position minus the position of the first copy: 0, 1, ... for the copies of each example
  rank = jnp.arange(len(ids), dtype=jnp.int32) - jnp.searchsorted(ordered, ordered)
  earlier_copies = jnp.zeros(len(ids), jnp.int32).at[order].set(rank)  # in the order of the batch
  if axis_name is None:
    return earlier_copies
  # the share of this device
  return earlier_copies.reshape(-1, *example_ids.shape)[jax.lax.axis_index(axis_name)]
