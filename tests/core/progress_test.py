"""Progress: a bar on a terminal, elsewhere plain lines with rate and time left."""

from __future__ import annotations

import contextlib
import io
import logging
import sys

import pytest

from robustness.core import progress
from robustness.core.progress import Progress


class Clock:
  """A clock that moves by hand."""

  now = 100.0

  def monotonic(self) -> float:
    return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
  clock = Clock()
  monkeypatch.setattr(progress, 'time', clock)
  return clock


def test_lines_tell_rate_and_time_left(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
  caplog.set_level(logging.INFO)
  with Progress(1000, 'natural', 'images', initial=200) as work:
    clock.now += 25
    work.advance(100)
    assert caplog.messages == ['natural: 300/1000 images (30 %), 4 images/s, 175 s left']
    work.advance(100)
    assert len(caplog.messages) == 1, 'lines keep their distance'
    clock.now += 25
    work.show({'loss': 0.5, 'accuracy': 0.96875})
    work.advance(600)
  told = 'natural: 1000/1000 images (100 %), 28 images/s, 0 s left; loss 0.5, accuracy 0.9688'
  assert caplog.messages[1] == told, 'compiling, before the first advance, is no rate of the work'
  told = 'natural: 1000/1000 images in 50.0 s, 28 images/s; loss 0.5, accuracy 0.9688'
  assert caplog.messages[2] == told


def test_work_found_done_does_not_count_for_the_rate(clock: Clock) -> None:
  work = Progress(10, 'x', 'images', initial=8)
  clock.now += 2
  work.advance(1)
  assert work.rate == 0.5


def test_nothing_to_do_is_told_without_dividing_by_zero(
  clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
  caplog.set_level(logging.INFO)
  for total in (0, 7):
    with Progress(total, 'x', 'images', initial=total):
      pass
  assert caplog.messages == ['x: 0/0 images, done before', 'x: 7/7 images, done before']


def test_work_that_stopped_before_it_began_was_not_done_before(
  clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
  caplog.set_level(logging.INFO)
  for initial in (0, 7):
    with contextlib.suppress(KeyboardInterrupt), Progress(9, 'x', 'images', initial=initial):
      raise KeyboardInterrupt
  assert caplog.messages == ['x: 0/9 images when it stopped', 'x: 7/9 images when it stopped']


def test_a_terminal_gets_a_bar(
  monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  screen = io.StringIO()
  screen.isatty = lambda: True  # type: ignore[method-assign]
  monkeypatch.setattr(sys, 'stderr', screen)
  with Progress(4, 'natural', 'images') as work:
    work.show({'loss': 0.5})
    work.advance(4)
  assert 'natural: 100%' in screen.getvalue() and 'loss 0.5]' in screen.getvalue()
