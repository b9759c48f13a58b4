"""Turns SIGTERM into a request to stop after the step under way."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

import jax
from absl import logging
from jax.experimental import multihost_utils

from robustness.parallel import meeting

STOP, PASS_ON_SECONDS = 'stop', 1.0


@contextlib.contextmanager
def interrupt_deferred() -> Iterator[None]:
  """A context in which Ctrl-C waits for the end, where it raises KeyboardInterrupt.

  Orbax saves in threads of its own: interrupted while it starts them, it would neither finish the
  checkpoint nor be waited for, and its threads would fail while the interpreter ends.
  """
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

  The handler before it is put back at the end. Python allows signal handlers in the main thread
  only; in another thread nothing is caught. Where several processes train one network, JAX catches
  the signal from the moment they join, and has them agree on the step: one that was asked alone
  would leave the others waiting for its share of the next step.

  Processes that train networks of their own stop each where it is, when one of them is asked to.

  Attributes:
    received: whether this process got the signal, or another one that trains beside it; of
      processes that agree, JAX knows it.
  """

  def __init__(self, together: int = 1) -> None:
    """Args: together: how many processes take the steps together."""
    self.received = False
    self._agreed = together > 1
    self._over = threading.Event()
    self._passing_on: threading.Thread | None = None
    self._previous: Any = None
    self._active = False

  def __enter__(self) -> Self:
    self._active = threading.current_thread() is threading.main_thread() and not self._agreed
    if self._active:
      self._previous = signal.signal(signal.SIGTERM, self._receive)
    if not self._agreed and jax.process_count() > 1:
      self._passing_on = threading.Thread(target=self._pass_on, daemon=True)
      self._passing_on.start()
    return self

  def __exit__(self, *unused: object) -> None:
    self._over.set()
    if self._passing_on is not None:
      self._passing_on.join()
    if self._active:
      signal.signal(signal.SIGTERM, signal.SIG_DFL if self._previous is None else self._previous)

  def due(self, step: int) -> bool:
    """Returns whether to stop after this step; processes that agree must ask at every step."""
    return multihost_utils.reached_preemption_sync_point(step) if self._agreed else self.received

  def _pass_on(self) -> None:
    """Tells the processes that train beside this one, or hears from them, that all are to stop."""
    while not (self.received or self._over.wait(PASS_ON_SECONDS)):
      if meeting.told(STOP):
        self.received = True
        return
    if self.received:
      meeting.tell(STOP)

  def _receive(self, number: int, frame: FrameType | None) -> None:
    del number, frame
    logging.warning('SIGTERM: the training stops after this step and saves.')
    self.received = True
