"""Ctrl-C waits while a checkpoint is handed to the threads that save it."""

from __future__ import annotations

import signal
import threading

import pytest

from robustness.training.preemption import interrupt_deferred


def test_an_interrupt_is_raised_when_the_block_is_over() -> None:
  before, steps = signal.getsignal(signal.SIGINT), []
  with pytest.raises(KeyboardInterrupt):
    with interrupt_deferred():
      signal.raise_signal(signal.SIGINT)
      steps.append('saved')
  assert steps == ['saved']
  assert signal.getsignal(signal.SIGINT) is before


def test_without_an_interrupt_and_with_an_error_nothing_is_left_behind() -> None:
  before = signal.getsignal(signal.SIGINT)
  with interrupt_deferred():
    pass
  with pytest.raises(ValueError, match='disk'):
    with interrupt_deferred():
      raise ValueError('disk')
  assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_have_no_signals_to_defer() -> None:
  passed: list[bool] = []

  def save() -> None:
    with interrupt_deferred():
      passed.append(True)

  thread = threading.Thread(target=save)
  thread.start()
  thread.join()
  assert passed == [True]
