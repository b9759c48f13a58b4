"""Ctrl-C waits until a checkpoint is saved; SIGTERM stops all processes of a training."""

import signal
from concurrent import futures

import pytest
from jax.experimental import multihost_utils

from robustness.training.preemption import StopRequest, interrupt_deferred


def test_an_interrupt_is_raised_after_the_block_and_the_handler_restored():
  before, steps = signal.getsignal(signal.SIGINT), []
  with interrupt_deferred():
    pass
  assert signal.getsignal(signal.SIGINT) is before
  with pytest.raises(ValueError, match='disk'), interrupt_deferred():
    raise ValueError('disk')
  assert signal.getsignal(signal.SIGINT) is before
  with pytest.raises(KeyboardInterrupt), interrupt_deferred():
    signal.raise_signal(signal.SIGINT)
    steps.append('saved')
  assert steps == ['saved']
  assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_have_no_signals_to_defer():
  def save():
    with interrupt_deferred():
      return True

  with futures.ThreadPoolExecutor(1) as pool:
    assert pool.submit(save).result()


def test_processes_that_train_together_stop_at_the_step_that_jax_names(monkeypatch):
  monkeypatch.setattr(multihost_utils, 'reached_preemption_sync_point', lambda step: step == 7)
  before = signal.getsignal(signal.SIGTERM)
  with StopRequest(2) as stop:
    assert signal.getsignal(signal.SIGTERM) is before, 'the handler is that of JAX'
    assert [stop.must_stop(step) for step in (5, 6, 7)] == [False, False, True]


def test_a_signal_after_the_last_step_is_raised_again():
  received, before = [], signal.getsignal(signal.SIGTERM)
  signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
  try:
    with StopRequest() as stop:
      assert not stop.must_stop(6)
      signal.raise_signal(signal.SIGTERM)
      assert received == []
    assert received == [signal.SIGTERM]
    with pytest.raises(ValueError, match='disk'), StopRequest():
      signal.raise_signal(signal.SIGTERM)
      raise ValueError('disk')
  finally:
    signal.signal(signal.SIGTERM, before)
  assert received == [signal.SIGTERM]


def test_ctrl_c_in_a_training_warns_of_lost_steps(caplog):
  with pytest.raises(KeyboardInterrupt), StopRequest():
    raise KeyboardInterrupt
  assert 'steps since the last checkpoint are lost; SIGTERM saves them' in caplog.text
