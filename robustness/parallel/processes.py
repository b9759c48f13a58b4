"""Several processes that share one run and the file system of its workdir.

What one process has to tell another it leaves in the workdir: trained weights, shards. Waiting is
looking for such files. No collectives are used: their time-outs are shorter than a training.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
import traceback
from collections.abc import Callable

import jax
from absl import logging

from robustness.core.errors import InputError

POLL_SECONDS, LINE_SECONDS = 0.5, 60.0


@dataclasses.dataclass(frozen=True)
class Processes:
  """How many processes share a run, and which this is.

  Attributes:
    coordinator: HOST:PORT of process 0.
    count: processes in all.
    index: this process's number, in [0, count).
  """

  coordinator: str = ''
  count: int = 1
  index: int = 0

  def join(self) -> None:
    """Joins `jax.distributed`; does nothing for one process. Must precede all use of devices.

    Raises:
      InputError: no coordinator, or a number out of range.
    """
    if self.count == 1:
      return
    if not self.coordinator or not 0 <= self.index < self.count:
      raise InputError(
        f'--num_processes={self.count} needs --coordinator=HOST:PORT and '
        f'--process_id in 0..{self.count - 1}; got --coordinator='
        f'{self.coordinator} --process_id={self.index}.'
      )
    jax.distributed.initialize(self.coordinator, self.count, self.index)

  def end_together(self, work: Callable[[], int]) -> int:
    """Does some work and returns its exit status; one of several that fails ends here and now.

    A regular exit would first wait for the others, and they for this one's files. Its sudden end
    makes `jax.distributed` stop the others too.
    """
    if self.count == 1:
      return work()
    try:
      status = work()
    except Exception:
      traceback.print_exc()
      status = 1
    if status:
      sys.stdout.flush()
      sys.stderr.flush()
      os._exit(status)
    return status


ALONE = Processes()
"""A run of one process."""


def wait_until(done: Callable[[], bool], what: str) -> None:
  """Returns when `done()` is true; says now and then what is being waited for.

  Args:
    done: looks for what another process leaves in the workdir.
    what: for the log, for example 'the training of natural'.
  """
  last = time.monotonic()
  while not done():
    time.sleep(POLL_SECONDS)
    if time.monotonic() - last >= LINE_SECONDS:
      last = time.monotonic()
      logging.info('waiting for %s by other processes', what)
