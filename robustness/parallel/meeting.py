"""What processes of one run say to each other, through the coordination service of process 0.

A process says something under a name, and waits until the others have said theirs. Waiting has no
time-out, where collectives of the devices have one that is shorter than an evaluation; who waits
hears when another process ends.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from typing import Any

import jax
from absl import logging

RESUMABLE = 75
"""Exit status of a process that had to stop and goes on when its command is given again."""

GOES_ON = 'The same command, with any number of processes, goes on from what was saved last.'
LOOK_SECONDS, LINE_SECONDS, LAST_SECONDS = 2.0, 60.0, 0.5
_ENDED = 'ended'
_COLLECTIVES = ('Gloo', 'NCCL', 'coordination service', 'CoordinationService', 'UNAVAILABLE')
_numbers = itertools.count()


class ProcessLostError(RuntimeError):
  """Another process of the run has ended.

  Attributes:
    status: with which this process ends too: that of the other one, or resumable where it was
      killed.
  """

  status = RESUMABLE


def exchange(name: str, value: str) -> list[str]:
  """Returns what every process says under a name, in their order; waits for all of them.

  All processes must call this in the same order. One process gets its own value back.

  Args:
    name: what is exchanged, for the log, for example 'the records of natural'.
    value: what this process says.

  Raises:
    ProcessLostError: another process ended meanwhile.
  """
  count = jax.process_count()
  if count == 1:
    return [value]
  key = f'{next(_numbers)}/{name}'
  _client().key_value_set(f'{key}/{jax.process_index()}', value)
  return [_said_by(index, key, name) for index in range(count)]


def meet(name: str) -> None:
  """Returns when all processes have come to this point; see `exchange`."""
  exchange(name, '')


def tell(what: str) -> None:
  """Tells all processes something that they may ask for with `told`."""
  _client().key_value_set(f'told/{what}', '', allow_overwrite=True)


def told(what: str) -> bool:
  """Returns whether a process has told this."""
  return bool(_client().key_value_dir_get(f'told/{what}'))


def lost(error: BaseException) -> ProcessLostError | None:
  """Returns the error as what it means where it came from another process's end, else None.

  A library may have wrapped it in one of its own, as Orbax does where a save waits for the others.
  """
  if isinstance(error, ProcessLostError):
    return error
  if not jax.distributed.is_initialized():
    return None
  for reason in _with_causes(error):
    if any(word in str(reason) for word in _COLLECTIVES):
      return _process_lost(_ended(), f' ({str(reason).splitlines()[0]})')
  return None


def _with_causes(error: BaseException) -> Iterator[BaseException]:
  """Yields an error and, from the last to the first, those that led to it."""
  reason: BaseException | None = error
  while reason is not None:
    yield reason
    reason = reason.__cause__ or reason.__context__


def part(status: int, seconds: int) -> None:
  """Tells the others that this process ends, and waits until they do likewise, so many seconds.

  Process 0 waits a moment more: with it ends the service, which the others hear as a failure.
  """
  if jax.distributed.is_initialized():
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # the others are gone already
      _client().key_value_set(f'{_ENDED}/{jax.process_index()}', str(status))
      _client().wait_at_barrier('the end of all that fail', 1000 * seconds)
      if jax.process_index() == 0:
        time.sleep(LAST_SECONDS)


def _said_by(index: int, key: str, name: str) -> str:
  last = time.monotonic()
  while True:
    try:
      return _client().blocking_key_value_get(f'{key}/{index}', int(1000 * LOOK_SECONDS))
    except jax.errors.JaxRuntimeError as error:
      if 'DEADLINE_EXCEEDED' not in str(error):
        raise
    ended = _ended()
    if ended:
      raise _process_lost(ended)
    if time.monotonic() - last >= LINE_SECONDS:
      last = time.monotonic()
      logging.info('waiting for process %d: %s', index, name)


def _client() -> Any:
  """The client of the coordination service, which JAX has no public name for."""
  from jax._src import distributed

  return distributed.global_state.client


def _ended() -> dict[int, int]:
  """Returns the exit status of the processes that said that they end."""
  try:
    said = _client().key_value_dir_get(f'{_ENDED}/')
  except jax.errors.JaxRuntimeError:  # process 0 is gone, and the service with it
    return {}
  return {int(key.rpartition('/')[2]): int(status) for key, status in said}


def _process_lost(ended: dict[int, int], seen: str = '') -> ProcessLostError:
  who = ', '.join(f'process {index} (status {status})' for index, status in sorted(ended.items()))
  failure = ProcessLostError(
    f'{who or "another process of this run"} ended, so process {jax.process_index()} ends too. '
    f'{"See there for the reason" if who else "It was killed, or its machine is gone"}{seen}. '
    f'{GOES_ON}'
  )
  failure.status = max(ended.values(), default=RESUMABLE)
  return failure
