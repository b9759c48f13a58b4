"""Turns SIGTERM into a request to stop after the step under way."""

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
  """A context in which Ctrl-C waits for the end, where it raises KeyboardInterrupt: Orbax,
  interrupted while it starts its threads, would neither finish the checkpoint nor be waited for."""
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  asked: list[int] = []
  previous = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
  try:
    yield
  finally:
    signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)
  if asked:
    raise KeyboardInterrupt


class Preempted(RuntimeError):  # noqa: N818 (a request that was met, not an error)
  """The training was asked to stop and saved itself; the same call continues it."""


class StopRequest:
  """A context in which SIGTERM only asks the training to stop after a step.

  One that comes after the last step was asked about is raised again at the end.

  Signal handlers are allowed in the main thread only; in another nothing is caught. Where several
  processes train one network, JAX catches the signal and has them agree on the step: one that was
  asked alone would leave the others waiting for its share of the next step.
  """

  def __init__(self, processes: int = 1) -> None:
    self._received = False
    self._agreed = processes > 1
    self._active = not self._agreed and threading.current_thread() is threading.main_thread()
    self._previous: Any = None

  def __enter__(self) -> Self:
    if self._active:
      self._previous = signal.signal(signal.SIGTERM, self._receive)
    return self

  def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
    if self._active:
      signal.signal(signal.SIGTERM, signal.SIG_DFL if self._previous is None else self._previous)
    if self._received and kind is None:
      signal.raise_signal(signal.SIGTERM)

  @property
  def received(self) -> bool:
    """Whether the signal came; where processes agree on a step, JAX alone knows."""
    return self._received

  def due(self, step: int) -> bool:
    """Returns whether to stop after this step; processes that agree must ask at every step."""
    return multihost_utils.reached_preemption_sync_point(step) if self._agreed else self._received

  def _receive(self, number: int, frame: FrameType | None) -> None:
    del number, frame
    logging.warning('SIGTERM: the training stops after this step and saves.')
    self._received = True
