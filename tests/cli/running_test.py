"""How a run ends when it is interrupted, and what is refused before it begins."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time

import jax
import pytest

from robustness import run
from robustness.cli import running


class Interrupted:
  """Something in whose end Ctrl-C comes."""

  def __del__(self) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_in_a_finalizer_is_not_lost(
  monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.setattr(sys, 'unraisablehook', running.raise_interrupt_again)
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with pytest.raises(KeyboardInterrupt):
      Interrupted()
      for _ in range(500):
        time.sleep(0.01)
  finally:
    signal.signal(signal.SIGINT, before)
  assert capsys.readouterr().err == ''


def test_an_interrupted_run_does_not_take_the_interpreter_apart(tmp_path: pathlib.Path) -> None:
  """XLA's threads fail where Python ends under them; here what runs at the end does."""
  program = f"""
import atexit, os
from robustness import run
from robustness.cli import running
run.main = lambda *given: run.exit_with(run.INTERRUPTED, 'interrupted.')
atexit.register(os.abort)
running.begin(['run', '--config=accuracy', '--workdir={tmp_path}'], ['run'])
"""
  command = [sys.executable, '-c', program]
  ended = subprocess.run(command, capture_output=True, text=True, check=False)
  assert (ended.returncode, ended.stderr) == (130, 'interrupted.\n')


@pytest.mark.parametrize(
  ('name', 'value', 'kept'),
  [
    ('JAX_NUM_CPU_DEVICES', '3', True),
    ('XLA_FLAGS', '--xla_force_host_platform_device_count=3', True),
    ('XLA_FLAGS', '--xla_gpu_deterministic_ops=true', False),
  ],
)
def test_a_number_of_devices_that_the_environment_asks_for_is_kept(
  monkeypatch: pytest.MonkeyPatch, name: str, value: str, kept: bool
) -> None:
  changes: list[str] = []
  for other in ('JAX_NUM_CPU_DEVICES', 'XLA_FLAGS'):
    monkeypatch.delenv(other, raising=False)
  monkeypatch.setenv(name, value)
  monkeypatch.setattr(run.host, 'keep_freed_memory', lambda: True)
  monkeypatch.setattr(jax.config, 'update', lambda key, number: changes.append(key))
  run.set_devices(run.ALONE)
  assert changes == ([] if kept else ['jax_num_cpu_devices'])
