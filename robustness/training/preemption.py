"""Turns SIGTERM into a request to stop after the step under way."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

from absl import logging


class Preempted(RuntimeError):  # noqa: N818 (a request that was met, not an error)
  """The training was asked to stop and saved itself; the same call continues it."""


class StopRequest:
  """A context in which SIGTERM only sets `received`; the handler before it is put back at the end.

  Python allows signal handlers in the main thread only; in another thread nothing is caught.
  """

  def __init__(self) -> None:
    self.received = False
    self._previous: Any = None
    self._active = False

  def __enter__(self) -> Self:
    self._active = threading.current_thread() is threading.main_thread()
    if self._active:
      self._previous = signal.signal(signal.SIGTERM, self._receive)
    return self

  def __exit__(self, *unused: object) -> None:
    if self._active:
      signal.signal(signal.SIGTERM, signal.SIG_DFL if self._previous is None else self._previous)

  def _receive(self, number: int, frame: FrameType | None) -> None:
    del number, frame
    logging.warning('SIGTERM: the training stops after this step and saves.')
    self.received = True
