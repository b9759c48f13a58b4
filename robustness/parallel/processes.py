"""Several processes that share one run: they join, compare their configs, wait and end together."""

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

from robustness.core.errors import InputError, causes
from robustness.core.settings import differing_keys

RESUMABLE = 75
"""Exit status of a process that stopped and resumes when its command is run again."""

HOW_TO_RESUME = 'The same command, with any number of processes, goes on from what was saved last.'
HEARTBEAT_SECONDS = 30
"""A process without a heartbeat for this time counts as dead, and JAX ends the other processes."""

FAIL_SECONDS, SAVE_SECONDS = 15, 60
"""Time that a failing process, or a process that stops and can resume, waits for others to end."""

LAST_SECONDS = 3.0
"""Further time that process 0 waits, so that other processes end before it."""
VISIBLE_SECONDS = 10
"""Longest time until a network file system shows a file from another machine."""

FOREVER_SECONDS = 10**6
"""Time-out of `barrier`, 12 days, as Orbax's barriers need one."""
_COLLECTIVES = ('Gloo', 'NCCL', 'coordination service', 'CoordinationService', 'UNAVAILABLE')
"""Words in messages of errors that the end of another process causes."""
_numbers = itertools.count()
"""The numbers of barriers: names may recur, and JAX needs a new key for each barrier."""


@dataclasses.dataclass(frozen=True)
class Processes:
  """The place of a process among the processes of its run.

  Attributes:
    coordinator: HOST:PORT of process 0.
    count: number of processes.
    index: number of this process, in [0, count).
    detect: whether `jax.distributed.initialize` asks the cluster for coordinator, count and index
      (SLURM, TPU pods, Kubernetes or Open MPI).
    timeout: seconds to wait for the coordinator and for all processes.
  """

  coordinator: str = ''
  count: int = 1
  index: int = 0
  detect: bool = False
  timeout: int = 120

  @property
  def is_distributed(self) -> bool:
    """Whether this process must join others."""
    return self.detect or self.count > 1

  def join(self) -> None:
    """Joins `jax.distributed`; does nothing for a single process.

    It must be called before any use of devices. If the coordinator does not answer in time, the
    process exits with status 2.

    Raises:
      InputError: The coordinator is missing, a number is out of range, or JAX detects no cluster.
    """
    self._check()
    if not self.is_distributed:
      return
    jax.config.update('jax_cpu_collectives_implementation', 'gloo')
    deadline = threading.Timer(self.timeout, self._give_up)
    deadline.daemon = True
    deadline.start()
    try:
      jax.distributed.initialize(
        coordinator_address=None if self.detect else self.coordinator,
        num_processes=None if self.detect else self.count,
        process_id=None if self.detect else self.index,
        # `deadline` ends the process before JAX does, with a message and without a core dump
        initialization_timeout=self.timeout + 60,
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
    """Raises InputError for command-line options that contradict each other or are incomplete.

    For example, --num_processes=2 is incomplete without --coordinator.
    """
    if self.detect and (self.coordinator or self.count > 1 or self.index):
      raise InputError(
        '--distributed asks the cluster for coordinator and numbers: leave out --coordinator, '
        '--num_processes and --process_id, or give these without --distributed.'
      )
    if not self.is_distributed and self.index:
      raise InputError(
        f'--process_id={self.index} is one of several processes: give --num_processes and '
        '--coordinator too, or leave it out.'
      )
    host, _, port = self.coordinator.rpartition(':')
    is_valid = host and port.isdecimal() and 0 <= self.index < self.count
    if self.is_distributed and not self.detect and not is_valid:
      raise InputError(
        f'--num_processes={self.count} needs --coordinator=HOST:PORT and --process_id in '
        f'0..{self.count - 1}; got --coordinator={self.coordinator} --process_id={self.index}.'
      )

  def _give_up(self) -> None:
    """Prints why the processes of a distributed run did not connect, and ends this one.

    Process 0 is the coordinator that the others connect to. The exit code is 2.
    """
    peer = f'the coordinator {self.coordinator}' if self.coordinator else 'the cluster'
    # process 0 is the coordinator itself; a detected cluster's address is not known here
    if self.detect or (self.index and not self._coordinator_answers()):
      reason = f'{peer} did not answer'
    else:
      reason = f'not all of the {self.count} processes came to {peer}'
    sys.stderr.write(
      f'error: {reason} within {self.timeout} s (--join_timeout). Start process 0 there, and all '
      'others with the same --coordinator and --num_processes.\n'
    )
    sys.stderr.flush()
    os._exit(2)

  def _coordinator_answers(self) -> bool:
    """Returns whether the coordinator's port accepts a connection."""
    host, _, port = self.coordinator.rpartition(':')
    try:
      # brackets surround an IPv6 address
      socket.create_connection((host.strip('[]'), int(port)), timeout=2).close()
    except OSError:
      return False
    return True

  def end_together(self, work: Callable[[], int]) -> int:
    """Runs `work` and returns its exit status, so that all processes of a run end together.

    With several processes, a failure ends this process instead. It first waits a limited time for
    others to fail and print their reasons. It then leaves by `os._exit`, because a regular exit
    would wait for the other processes forever.

    Args:
      work: function without arguments that returns an exit status, 0 for success.
    """
    if not self.is_distributed:
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
      # a process that can be resumed may still save a checkpoint
      seconds = SAVE_SECONDS if status == RESUMABLE else FAIL_SECONDS
      with contextlib.suppress(jax.errors.JaxRuntimeError):  # other processes ended or continue
        _wait('the end of all that fail', seconds)
      # process 0 runs JAX's coordination service, and JAX ends the other processes with it
      if jax.process_index() == 0:
        time.sleep(LAST_SECONDS)
    os._exit(status)


ALONE = Processes()
"""The only process of a run."""


def exchange(name: str, value: str) -> list[str]:
  """Returns the texts of all processes, in the order of their indices.

  All processes must call this function, in the same order if there are several calls.

  Args:
    name: what is exchanged, such as 'the config', for errors; the same in all processes.
    value: this process's text.

  Raises:
    jax.errors.JaxRuntimeError: Another process ended meanwhile, see `peer_is_lost`.
  """
  if jax.process_count() == 1:
    return [value]
  barrier(name)
  content = np.frombuffer(value.encode(), np.uint8)
  sizes = multihost_utils.process_allgather(np.int32(content.size))
  padded = np.zeros(max(1, *sizes), np.uint8)  # gathered arrays must have equal, nonzero sizes
  padded[: content.size] = content
  rows = multihost_utils.process_allgather(padded)
  return [row[:size].tobytes().decode() for row, size in zip(rows, sizes, strict=True)]


def barrier(name: str) -> None:
  """Waits until all processes have called `barrier` with the same name.

  There is no time limit. Processes must call their barriers in the same order.

  Args:
    name: what is waited for, such as 'the checkpoints', for errors.

  Raises:
    jax.errors.JaxRuntimeError: Another process ended meanwhile, see `peer_is_lost`.
  """
  if jax.process_count() > 1:
    # numbered, because JAX refuses a second barrier of the same name
    _wait(f'{name} {next(_numbers)}', FOREVER_SECONDS)


def _wait(key: str, seconds: int) -> None:
  """Waits until all processes have reached the barrier `key`, but at most `seconds`."""
  from orbax.checkpoint import multihost  # Orbax takes long to import

  multihost.get_barrier_sync_fn()(key=key, timeout_ms=1000 * seconds)


def check_config(config: Mapping[str, object]) -> None:
  """Checks that all processes have equal configs.

  Raises:
    InputError: They differ. The message, on every process, names the first process that differs
      from process 0, and the keys.
  """
  first, *peers = exchange('the config', json.dumps(config, default=repr))
  for index, peer in enumerate(peers, start=1):
    if peer == first:  # also with NaN, which differs from itself once it is read
      continue
    differences = differing_keys(json.loads(first), json.loads(peer))
    if differences:
      raise InputError(
        f'process {index} was started with another config than process 0. Keys that differ '
        f'(process 0 → process {index}):\n  config.'
        + '\n  config.'.join(differences)
        + '\nGive all processes the same --config and the same overrides.'
      )


def check_workdir(directory: pathlib.Path) -> None:
  """Checks that the workdir is on a file system that all processes share.

  Process 0 creates a file in the workdir, and every process must see it.

  Raises:
    InputError: The file cannot be created, or some process does not see it.
  """
  if jax.process_count() == 1:
    return
  name, failure = f'.seen_by_all_{uuid.uuid4().hex}', ''
  if jax.process_index() == 0:
    try:
      directory.mkdir(parents=True, exist_ok=True)
      (directory / name).touch()
    except OSError as error:
      failure = f'workdir {directory} cannot be made or written to ({error.strerror}).'
  # every process takes the name that process 0 chose, and its failure
  name, failure = json.loads(exchange('a file', json.dumps([name, failure]))[0])
  if failure:
    raise InputError(f'process 0: {failure}')
  file = directory / name
  deadline = time.monotonic() + VISIBLE_SECONDS
  while not file.exists() and time.monotonic() < deadline:
    time.sleep(0.1)
  # each process sends '' if it sees the file, otherwise the path of its workdir
  unseen_paths = exchange('who sees it', '' if file.exists() else str(directory))
  if jax.process_index() == 0:
    file.unlink(missing_ok=True)
  lacking = [f'process {index} ({path})' for index, path in enumerate(unseen_paths) if path]
  if lacking:
    raise InputError(
      f'the workdir that process 0 made is not there for {", ".join(lacking)}. Give all processes '
      'the same --workdir, on a file system that they share.'
    )


def peer_is_lost(error: BaseException) -> bool:
  """Returns whether an error was caused by the end of another process of the run.

  Such errors, or their causes, have a word of `_COLLECTIVES` in their message, for instance 'Gloo'.
  """
  return jax.distributed.is_initialized() and any(
    word in str(reason) for reason in causes(error) for word in _COLLECTIVES
  )


def _print_failure(error: Exception) -> int:
  """Prints an error and returns the exit code, which is `RESUMABLE` if another process was lost."""
  if not peer_is_lost(error):
    traceback.print_exception(error)
    return 1
  print(
    f'another process of this run ended, so process {jax.process_index()} ends too; see its output '
    f'for the reason ({str(error).splitlines()[0]}). {HOW_TO_RESUME}',
    file=sys.stderr,
  )
  return RESUMABLE


def restore_sigterm() -> None:
  """Lets SIGTERM end the process again, since JAX intercepts it for trainings.

  Used when no training follows.
  """
  if jax.distributed.is_initialized() and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
