"""How a run ends when it is interrupted, and what is refused before it begins."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from robustness.command import running


class Interrupted:
  """Something in whose end Ctrl-C comes."""

  def __del__(self) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_in_a_finalizer_is_not_lost(
  monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.setattr(sys, 'unraisablehook', running.heed_interrupt)
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with pytest.raises(KeyboardInterrupt):
      Interrupted()
      for _ in range(500):
        time.sleep(0.01)
  finally:
    signal.signal(signal.SIGINT, before)
  assert capsys.readouterr().err == ''
