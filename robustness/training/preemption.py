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
  """Delays the KeyboardInterrupt of Ctrl-C to the end of a context.

  An interrupt while Orbax starts its threads would leave a checkpoint unfinished. In other threads
  than the main one, which do not receive signals, the context has no effect.
  """
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  received: list[int] = []
  previous = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
  try:
    yield
  finally:  # a handler that was not installed from Python reads as None and cannot be restored
    signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)
  if received:
    raise KeyboardInterrupt


class Preempted(RuntimeError):  # noqa: N818 (a request that was met, not an error)
  """An error that ends a training after SIGTERM, with its state saved; the same call resumes it."""


class StopRequest:
  """A context in which SIGTERM requests the training to stop after a step.

  The training asks `must_stop` after each step. If the signal comes after the last call, it is
  raised at the end of the context, as if there had been no context. Only the main thread can handle
  signals; in other threads the context has no effect. If several processes train one network, JAX
  handles the signal and makes all of them stop after the same step, because the other processes
  would wait forever for one that stops alone.
  """

  def __init__(self, processes: int = 1) -> None:
    """Prepares the context.

    The attribute `received` is whether the signal came; it stays False if JAX handles the signal.
    `processes` is the number of processes that train one network.
    """
    self.received = False
    self._has_peers = processes > 1  # so that JAX handles the signal
    self._is_handler = not self._has_peers and threading.current_thread() is threading.main_thread()
    self._previous: Any = None  # the handler of the signal outside of the context

  def __enter__(self) -> Self:
    """Replaces the handler of SIGTERM, unless JAX or another thread handles signals."""
    if self._is_handler:
      self._previous = signal.signal(signal.SIGTERM, self._receive)
    return self

  def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
    """Restores the handler of SIGTERM, and raises a signal again that nothing has reacted to.

    A training that stops for the signal ends the context with the error `Preempted`; without an
    error nothing has reacted. `kind` is the type of the error that ends the context, or None.
    """
    if self._is_handler:
      signal.signal(signal.SIGTERM, signal.SIG_DFL if self._previous is None else self._previous)
    if kind is not None and issubclass(kind, KeyboardInterrupt):
      logging.warning('Ctrl-C: steps since the last checkpoint are lost; SIGTERM saves them.')
    if self.received and kind is None:
      signal.raise_signal(signal.SIGTERM)

  def must_stop(self, step: int) -> bool:
    """Returns whether SIGTERM came, so that the training is to stop after this step.

    With several processes, all must call it at every step, and it returns True at the same step in
    each process.
    """
    if self._has_peers:
      return multihost_utils.reached_preemption_sync_point(step)
    return self.received

  def _receive(self, number: int, frame: FrameType | None) -> None:
    """Handles SIGTERM: the training stops after the current step."""
    del number, frame
    logging.warning('SIGTERM: the training stops after this step and saves.')
    self.received = True
