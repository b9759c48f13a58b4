"""Several processes that carry out one run together: how they join `jax.distributed`, and end."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax

from robustness.core.errors import InputError
from robustness.parallel.meeting import GOES_ON, RESUMABLE, lost, meet, part

HEARTBEAT_SECONDS = 30
"""A process that has sent no heartbeat for so long has died; JAX then ends the others."""

PART_SECONDS, SAVE_SECONDS = 15, 60
"""How long a process that fails, or stops, waits for the others to do likewise."""

_handlers: list[Any] = []  # what C calls must not be collected
_leaving: list[int] = []  # the exit status, once the reason has been told


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
    """Joins `jax.distributed`; does nothing for one process. Must precede all use of devices.

    Raises:
      InputError: no coordinator, a number out of range, or no cluster that JAX detects. A
        coordinator that does not answer in time ends the process with status 2.
    """
    self._check()
    if not self.several:
      return
    jax.config.update('jax_cpu_collectives_implementation', 'gloo')
    with self._deadline():
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
    _end_with_a_line_when_jax_aborts()

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
    here = _is_address(self.coordinator) and 0 <= self.index < self.count
    if not self.detect and self.several and not here:
      raise InputError(
        f'--num_processes={self.count} needs --coordinator=HOST:PORT and '
        f'--process_id in 0..{self.count - 1}; got --coordinator='
        f'{self.coordinator} --process_id={self.index}.'
      )

  @contextlib.contextmanager
  def _deadline(self) -> Iterator[None]:
    """A context that ends the process with status 2 when it lasts longer than `timeout`."""
    timer = threading.Timer(self.timeout, self._give_up)
    timer.daemon = True
    timer.start()
    try:
      yield
    finally:
      timer.cancel()

  def _give_up(self) -> None:
    what = f'the coordinator {self.coordinator}' if self.coordinator else 'the cluster'
    if self.detect or (self.index and not _answers(self.coordinator)):
      reason = f'{what} did not answer'
    else:
      reason = f'not all of the {self.count} processes came to {what}'
    sys.stderr.write(
      f'error: {reason} within {self.timeout} s (--join_timeout). Start process 0 there, and all '
      'others with the same --coordinator and --num_processes.\n'
    )
    sys.stderr.flush()
    os._exit(2)

  def end_together(self, work: Callable[[], int]) -> int:
    """Does some work and returns its exit status; one of several that fails ends here and now.

    A regular exit would first wait for the others, and they for this one. It tells them its status
    and waits a moment, for they may fail likewise and have something to say.
    """
    if not self.several:
      return work()
    seconds = PART_SECONDS
    try:
      status = work()
      if status == RESUMABLE:
        seconds = SAVE_SECONDS
      elif not status:
        meet('the end of the run')
    except Exception as error:
      status = _status_of(error)
    if status:
      sys.stdout.flush()
      sys.stderr.flush()
      _leaving.append(status)
      part(status, seconds)
      os._exit(status)
    return status


ALONE = Processes()
"""A run of one process."""


def heed_sigterm() -> None:
  """Lets SIGTERM end this process, where JAX would keep it for a training; none follows."""
  if jax.distributed.is_initialized() and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _status_of(error: Exception) -> int:
  """Prints what went wrong, and returns the exit status that it means."""
  failure = lost(error)
  if failure is None:
    traceback.print_exception(error)
    return 1
  print(failure, file=sys.stderr)
  return failure.status


def _end_with_a_line_when_jax_aborts() -> None:
  """Makes JAX's end of a process, when another one has died, say what it means.

  Where heartbeats stay away, or process 0 is gone, JAX aborts the process in a thread of its own,
  where Python has no part; the signal's handler is therefore set in C. A process that was leaving
  anyway, as when process 0 was the quicker one to do so, ends with its own status.
  """
  if os.name != 'posix':
    return
  line = (
    f'another process of this run ended (its machine is gone, or it was killed; see the lines '
    f'above), so process {jax.process_index()} ends too. {GOES_ON}\n'
  ).encode()

  @ctypes.CFUNCTYPE(None, ctypes.c_int)
  def end(number: int) -> None:
    del number
    if not _leaving:
      os.write(2, line)
    os._exit(_leaving[0] if _leaving else RESUMABLE)

  _handlers.append(end)
  ctypes.CDLL(None).signal(signal.SIGABRT, end)


def _is_address(coordinator: str) -> bool:
  host, _, port = coordinator.rpartition(':')
  return bool(host) and port.isdecimal()


def _answers(coordinator: str) -> bool:
  host, _, port = coordinator.rpartition(':')
  try:
    socket.create_connection((host.strip('[]'), int(port)), timeout=2).close()
  except OSError:
    return False
  return True
