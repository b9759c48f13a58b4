"""Turns SIGTERM into a request to stop the training after the current step."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

from absl import logging
from jax.experimental import multihost_utils


@contextlib.contextmanager
def interrupt_deferred() -> Iterator[None]:
  """Delays Ctrl-C (KeyboardInterrupt) until the end of a context.

  Orbax would leave a checkpoint unfinished if it were interrupted while it starts its threads.
  Outside the main thread the context has no effect.
  """
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  interrupts: list[int] = []
  previous = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
  try:
    yield
  finally:
    # None is a handler that was not installed from Python, which cannot be restored
    signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)
  if interrupts:
    raise KeyboardInterrupt


class Preempted(RuntimeError):  # noqa: N818 (a request that was met, not an error)
  """Raised when a training has stopped on SIGTERM and saved its state to resume from."""


class StopRequest:
  """A context in which SIGTERM stops the training after the current step.

  The training asks `must_stop` after each step. A signal after the last call is raised again at the
  end of the context. With several processes, JAX handles the signal and stops all of them after the
  same step. Signals can only be handled in the main thread; elsewhere the context has no effect.

  Attributes:
    received: whether the signal came. It stays False if JAX handles the signal.
  """

  def __init__(self, processes: int = 1) -> None:
    """Prepares the context.

    Args:
      processes: number of processes that train the network together.
    """
    self.received = False
    self._has_peers = processes > 1  # so that JAX handles the signal
    self._is_handler = not self._has_peers and threading.current_thread() is threading.main_thread()
    self._previous: Any = None  # the handler of the signal outside of the context

  def __enter__(self) -> Self:
    """Installs the handler of SIGTERM, if this is the main thread of a single process."""
    if self._is_handler:
      self._previous = signal.signal(signal.SIGTERM, self._receive)
    return self

  def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
    """Restores the handler of SIGTERM, and raises a received signal again if it was ignored.

    Args:
      kind: type of the error that ends the context, or None. With an error, such as `Preempted`,
        the signal counts as handled.
      *unused: the error and its traceback.
    """
    if self._is_handler:
      signal.signal(signal.SIGTERM, signal.SIG_DFL if self._previous is None else self._previous)
    if kind is not None and issubclass(kind, KeyboardInterrupt):
      logging.warning('Ctrl-C: steps since the last checkpoint are lost; SIGTERM saves them.')
    if self.received and kind is None:
      signal.raise_signal(signal.SIGTERM)

  def must_stop(self, step: int) -> bool:
    """Returns whether to stop after this step, because SIGTERM came.

    With several processes, all must call this method at every step. It returns True at the same
    step in each.
    """
    if self._has_peers:
      return multihost_utils.reached_preemption_sync_point(step)
    return self.received

  def _receive(self, number: int, frame: FrameType | None) -> None:
    """Handles SIGTERM: remembers that the training must stop after the current step."""
    logging.warning('SIGTERM: the training stops after this step and saves.')
    self.received = True
