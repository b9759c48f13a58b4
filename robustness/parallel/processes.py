"""Several processes that carry out one run together: how they join, agree, wait and end."""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils
from orbax.checkpoint import multihost

from robustness.core.errors import InputError, causes
from robustness.core.settings import differing_keys

RESUMABLE = 75
"""Exit status of a process that had to stop and goes on when its command is given again."""

GOES_ON = 'The same command, with any number of processes, goes on from what was saved last.'
HEARTBEAT_SECONDS = 30
"""A process without a heartbeat for this time has died; JAX then ends the others."""

FAIL_SECONDS, SAVE_SECONDS = 15, 60
"""How long a process that fails, or stops, waits for the others to do likewise."""

LAST_SECONDS = 3.0
VISIBLE_SECONDS = 10
"""How long a network file system may take to show what another machine wrote."""

FOREVER_SECONDS = 10**6
_COLLECTIVES = ('Gloo', 'NCCL', 'coordination service', 'CoordinationService', 'UNAVAILABLE')
_numbers = itertools.count()


@dataclasses.dataclass(frozen=True)
class Processes:
  """How a process finds the others of its run.

  Attributes:
    coordinator: HOST:PORT of process 0.
    count: processes in all.
    index: this process's number, in [0, count).
    detect: asks the cluster for these three (SLURM, TPU pods, Kubernetes, Open MPI, as
      `jax.distributed.initialize` detects them).
    timeout: seconds to wait for the coordinator and for all processes.
  """

  coordinator: str = ''
  count: int = 1
  index: int = 0
  detect: bool = False
  timeout: int = 120

  @property
  def several(self) -> bool:
    """Whether there is anybody to join."""
    return self.detect or self.count > 1

  def join(self) -> None:
    """Joins `jax.distributed` before all use of devices; does nothing for one process.

    Raises:
      InputError: no coordinator, a number out of range, or no cluster that JAX detects. A
        coordinator that does not answer in time ends the process with status 2.
    """
    self._check()
    if not self.several:
      return
    jax.config.update('jax_cpu_collectives_implementation', 'gloo')
    deadline = threading.Timer(self.timeout, self._give_up)
    deadline.daemon = True
    deadline.start()
    try:
      jax.distributed.initialize(
        None if self.detect else self.coordinator,
        None if self.detect else self.count,
        None if self.detect else self.index,
        initialization_timeout=self.timeout + 60,  # the deadline comes first, without a core dump
        heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
      )
    except (ValueError, RuntimeError) as error:
      if not self.detect:
        raise
      raise InputError(
        f'--distributed finds no cluster here: {error} It needs SLURM, a TPU pod, Kubernetes '
        'or Open MPI; elsewhere give --coordinator, --num_processes and --process_id.'
      ) from error
    finally:
      deadline.cancel()

  def _check(self) -> None:
    if self.detect and (self.coordinator or self.count > 1 or self.index):
      raise InputError(
        '--distributed asks the cluster for coordinator and numbers: leave out --coordinator, '
        '--num_processes and --process_id, or give these without --distributed.'
      )
    if not self.several and self.index:
      raise InputError(
        f'--process_id={self.index} is one of several processes: give --num_processes and '
        '--coordinator too, or leave it out.'
      )
    host, _, port = self.coordinator.rpartition(':')
    here = host and port.isdecimal() and 0 <= self.index < self.count
    if not self.detect and self.several and not here:
      raise InputError(
        f'--num_processes={self.count} needs --coordinator=HOST:PORT and --process_id in '
        f'0..{self.count - 1}; got --coordinator={self.coordinator} --process_id={self.index}.'
      )

  def _give_up(self) -> None:
    what = f'the coordinator {self.coordinator}' if self.coordinator else 'the cluster'
    if self.detect or (self.index and not self._coordinator_answers()):
      reason = f'{what} did not answer'
    else:
      reason = f'not all of the {self.count} processes came to {what}'
    sys.stderr.write(
      f'error: {reason} within {self.timeout} s (--join_timeout). Start process 0 there, and all '
      'others with the same --coordinator and --num_processes.\n'
    )
    sys.stderr.flush()
    os._exit(2)

  def _coordinator_answers(self) -> bool:
    host, _, port = self.coordinator.rpartition(':')
    try:
      socket.create_connection((host.strip('[]'), int(port)), timeout=2).close()
    except OSError:
      return False
    return True

  def end_together(self, work: Callable[[], int]) -> int:
    """Does some work and returns its exit status; one of several that fails ends here and now.

    A regular exit would first wait for the others, and they for this one. Those that fail likewise
    are waited for, since they may have something to say. Process 0 waits a moment more: with it
    ends JAX's coordination service, at which JAX ends the others.
    """
    if not self.several:
      return work()
    try:
      status = work()
      if not status:
        barrier('the end of the run')
        return status
    except Exception as error:
      status = _print_failure(error)
    sys.stdout.flush()
    sys.stderr.flush()
    if jax.distributed.is_initialized():
      with contextlib.suppress(jax.errors.JaxRuntimeError):  # the others are gone, or go on
        _wait('the end of all that fail', SAVE_SECONDS if status == RESUMABLE else FAIL_SECONDS)
      if jax.process_index() == 0:
        time.sleep(LAST_SECONDS)
    os._exit(status)


ALONE = Processes()
"""A run of one process."""


def exchange(name: str, value: str) -> list[str]:
  """Returns the value of every process, in their order; all must call this in the same order.

  Raises:
    jax.errors.JaxRuntimeError: another process ended meanwhile, see `peer_is_lost`.
  """
  if jax.process_count() == 1:
    return [value]
  barrier(name)
  content = np.frombuffer(value.encode(), np.uint8)
  sizes = multihost_utils.process_allgather(np.int32(content.size))
  padded = np.zeros(max(1, *sizes), np.uint8)
  padded[: content.size] = content
  rows = multihost_utils.process_allgather(padded)
  return [row[:size].tobytes().decode() for row, size in zip(rows, sizes, strict=True)]


def barrier(name: str) -> None:
  """Returns when all processes have come to this point; see `exchange`.

  It has no time-out, where collectives of the devices have one that an evaluation may exceed.
  """
  if jax.process_count() > 1:
    _wait(f'{name} {next(_numbers)}', FOREVER_SECONDS)


def _wait(key: str, seconds: int) -> None:
  multihost.get_barrier_sync_fn()(key=key, timeout_ms=1000 * seconds)


def check_config(config: Mapping[str, object]) -> None:
  """Raises InputError, on every process, where processes of one run were started with different
  configs; names the first that differs from process 0, and its keys."""
  first, *others = exchange('the config', json.dumps(config, default=repr))
  for index, other in enumerate(others, 1):
    lines = [] if other == first else differing_keys(json.loads(first), json.loads(other))
    if lines:
      raise InputError(
        f'process {index} was started with another config than process 0. Keys that differ '
        f'(process 0 → process {index}):\n  config.'
        + '\n  config.'.join(lines)
        + '\nGive all processes the same --config and the same overrides.'
      )


def check_workdir(directory: pathlib.Path) -> None:
  """Raises InputError, on every process, where some do not see a file that process 0 makes in the
  workdir: all must share its file system."""
  if jax.process_count() == 1:
    return
  file, failure = directory / f'.seen_by_all_{uuid.uuid4().hex}', ''
  if jax.process_index() == 0:
    try:
      directory.mkdir(parents=True, exist_ok=True)
      file.touch()
    except OSError as error:
      failure = f'workdir {directory} cannot be made or written to ({error.strerror}).'
  name, failure = json.loads(exchange('a file', json.dumps([file.name, failure]))[0])
  if failure:
    raise InputError(f'process 0: {failure}')
  deadline = time.monotonic() + VISIBLE_SECONDS
  while not (seen := (directory / name).exists()) and time.monotonic() < deadline:
    time.sleep(0.1)
  answers = exchange('who sees it', '' if seen else str(directory))
  file.unlink(missing_ok=True)
  blind = [f'process {index} ({path})' for index, path in enumerate(answers) if path]
  if blind:
    raise InputError(
      f'the workdir that process 0 made is not there for {", ".join(blind)}. Give all processes '
      'the same --workdir, on a file system that they share.'
    )


def peer_is_lost(error: BaseException) -> bool:
  """Whether an error, or one that led to it, comes from the end of another process.

  A library may wrap it in one of its own, as Orbax does where a save waits for the others.
  """
  return jax.distributed.is_initialized() and any(
    word in str(reason) for reason in causes(error) for word in _COLLECTIVES
  )


def _print_failure(error: Exception) -> int:
  if not peer_is_lost(error):
    traceback.print_exception(error)
    return 1
  print(
    f'another process of this run ended, so process {jax.process_index()} ends too; see its output '
    f'for the reason ({str(error).splitlines()[0]}). {GOES_ON}',
    file=sys.stderr,
  )
  return RESUMABLE


def restore_sigterm() -> None:
  """Lets SIGTERM end this process, where JAX would keep it for a training; none follows."""
  if jax.distributed.is_initialized() and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
