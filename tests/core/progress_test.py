"""Tests progress: a bar on a terminal, and elsewhere lines with the rate and the time left."""

import contextlib
import io
import logging
import sys
import time
from types import SimpleNamespace

import pytest

from robustness.core import progress
from robustness.core.progress import Progress, phase


@pytest.fixture
def clock(monkeypatch):
  """Returns the clock of progress, which the test sets by `now`."""
  clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
  monkeypatch.setattr(progress, 'time', clock)
  return clock


def test_lines_show_rate_and_remaining_time(clock, caplog):
  caplog.set_level(logging.INFO)
  with Progress(1000, 'natural', 'images', initial=200) as work:
    clock.now += 25
    work.advance(100)
    first_lines = [
      'natural: 200/1000 images done before; compiling …',
      'natural: 300/1000 images (30 %), the first step took 25 s',
    ]
    assert caplog.messages == first_lines
    work.advance(100)
    assert len(caplog.messages) == 2, 'no time has passed since the last line'
    clock.now += 25
    work.show({'loss': 0.5, 'accuracy': 0.96875})
    work.advance(600)
  line = 'natural: 1000/1000 images (100 %), 28 images/s, 0 s left; loss 0.5, accuracy 0.9688'
  assert caplog.messages[2] == line, 'the rate leaves out the first step'
  line = 'natural: 1000/1000 images (200 before) in 50.0 s, 28 images/s; loss 0.5, accuracy 0.9688'
  assert caplog.messages[3] == line
  work = Progress(10, 'x', 'images', initial=8)
  clock.now += 2
  work.advance(1)
  assert work.rate == 0.5, 'one image in two seconds, without the initial eight'
  work.close()
  assert caplog.messages[-1] == 'x: 9/10 images (8 before) in 2.0 s, 0.5 images/s with compilation'


def test_completed_and_interrupted_work_is_reported(clock, caplog):
  caplog.set_level(logging.INFO)
  for total, initial in ((0, 0), (7, 7), (9, 0), (9, 7)):
    with contextlib.suppress(KeyboardInterrupt), Progress(total, 'x', 'images', initial=initial):
      raise KeyboardInterrupt
  ends = ('0/0 images, done before', '7/7 images, done before')
  ends += ('0/9 images when it stopped', '7/9 images when it stopped')
  assert caplog.messages[:2] == [f'x: {end}' for end in ends[:2]]
  begins = ('compiling …', '7/9 images done before; compiling …')
  lines = [line for pair in zip(begins, ends[2:], strict=True) for line in pair]
  assert caplog.messages[2:] == [f'x: {line}' for line in lines]


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
  screen = io.StringIO()
  screen.isatty = lambda: True
  monkeypatch.setattr(sys, 'stderr', screen)
  monkeypatch.delenv('JPY_PARENT_PID', raising=False)
  with Progress(4, 'natural', 'images') as work:
    work.show({'loss': 0.5})
    work.advance(4)
    with work.other_work('evaluation'):
      assert screen.getvalue().endswith('evaluation …]')
  assert 'natural: 100%' in screen.getvalue() and 'loss 0.5]' in screen.getvalue()
  assert screen.getvalue().rstrip().endswith('loss 0.5]')


def test_a_command_in_a_notebook_has_lines(monkeypatch, caplog):
  caplog.set_level(logging.INFO)
  screen = io.StringIO()
  screen.isatty = lambda: True
  monkeypatch.setattr(sys, 'stderr', screen)
  monkeypatch.setenv('JPY_PARENT_PID', '1')
  with Progress(4, 'natural', 'images') as work:
    work.advance(4)
  assert not screen.getvalue() and 'natural: 4/4 images' in caplog.messages[-1]


@pytest.fixture
def fast(monkeypatch):
  """Shortens the seconds between lines to 20 ms."""
  for name in ('PHASE_SECONDS', 'BEAT_SECONDS', 'SLOW_BEAT_SECONDS'):
    monkeypatch.setattr(progress, name, 0.02)


def wait_for(condition):
  """Waits until a condition is true, for at most 20 s."""
  end = time.monotonic() + 20
  while not condition() and time.monotonic() < end:
    time.sleep(0.005)
  assert condition()


def test_a_long_first_step_and_later_waiting_are_reported(fast, caplog):
  caplog.set_level(logging.INFO)
  with Progress(8, 'x', 'images') as work:
    first = 'x: the first step, which compiles, has taken 0 s'
    wait_for(lambda: caplog.messages.count(first) > 1)
    work.advance(4)
    wait_for(lambda: 'x: 4/8 images after 0 s' in caplog.messages)
    with work.other_work('evaluation'):
      wait_for(lambda: any(line.startswith('x: evaluation …') for line in caplog.messages))
    assert caplog.messages[-1].startswith('x: evaluation in')
  count = len(caplog.messages)
  time.sleep(0.1)
  assert len(caplog.messages) == count, 'no line after the end'


@pytest.mark.parametrize('is_terminal', [False, True])
def test_a_long_phase_is_shown(is_terminal, fast, caplog, monkeypatch):
  caplog.set_level(logging.INFO)
  screen = io.StringIO()
  screen.isatty = lambda: is_terminal
  monkeypatch.setattr(sys, 'stderr', screen)
  monkeypatch.setattr(progress, 'PHASE_SECONDS', 0.5)  # longer than a busy machine needs to go on

  def output():
    return screen.getvalue() if is_terminal else ''.join(caplog.messages)

  with phase('net: figures'):
    assert not output()
    wait_for(lambda: 'net: figures …' in output())
  assert is_terminal or caplog.messages[-1].startswith('net: figures in ')


def test_a_script_without_a_terminal_or_a_log_prints_lines(monkeypatch):
  monkeypatch.setattr(progress.logging, 'get_verbosity', lambda: progress.logging.WARNING)
  monkeypatch.delitem(sys.modules, 'ipykernel', raising=False)  # tests of notebooks import it
  monkeypatch.setattr(sys, 'stderr', screen := io.StringIO())
  for bars in (False, None):
    assert not screen.getvalue(), 'progress=False prints none'
    with progress.showing(bars), phase('net: checks', 0), Progress(4, 'net', 'images') as work:
      wait_for(lambda bars=bars: bars is False or 'net: checks …\n' in screen.getvalue())
      work.advance(4)
  assert '\nnet: 4/4 images in ' in screen.getvalue()


def test_a_short_phase_is_not_shown(caplog):
  caplog.set_level(logging.INFO)
  with phase('net: figures'):
    pass
  assert not caplog.messages
