"""Progress: a bar on a terminal, elsewhere plain lines with rate and time left."""

import contextlib
import io
import logging
import sys
from types import SimpleNamespace

import pytest

from robustness.core import progress
from robustness.core.progress import Progress


@pytest.fixture
def clock(monkeypatch):
  """A clock that moves by hand."""
  clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
  monkeypatch.setattr(progress, 'time', clock)
  return clock


def test_lines_tell_rate_and_time_left(clock, caplog):
  caplog.set_level(logging.INFO)
  with Progress(1000, 'natural', 'images', initial=200) as work:
    clock.now += 25
    work.advance(100)
    begun = ['natural: compiling …', 'natural: 300/1000 images (30 %), the first step took 25 s']
    assert caplog.messages == begun
    work.advance(100)
    assert len(caplog.messages) == 2, 'lines keep their distance'
    clock.now += 25
    work.show({'loss': 0.5, 'accuracy': 0.96875})
    work.advance(600)
  told = 'natural: 1000/1000 images (100 %), 28 images/s, 0 s left; loss 0.5, accuracy 0.9688'
  assert caplog.messages[2] == told, 'compiling, before the first advance, is no rate of the work'
  told = 'natural: 1000/1000 images in 50.0 s, 28 images/s; loss 0.5, accuracy 0.9688'
  assert caplog.messages[3] == told
  work = Progress(10, 'x', 'images', initial=8)  # which does not count for the rate
  clock.now += 2
  work.advance(1)
  assert work.rate == 0.5
  work.close()
  assert caplog.messages[-1] == 'x: 9/10 images in 2.0 s, 0.5 images/s with compilation'


def test_nothing_to_do_is_told_and_work_that_stopped_before_it_began(clock, caplog):
  caplog.set_level(logging.INFO)
  for total, initial in ((0, 0), (7, 7), (9, 0), (9, 7)):
    with contextlib.suppress(KeyboardInterrupt), Progress(total, 'x', 'images', initial=initial):
      raise KeyboardInterrupt
  ends = ('0/0 images, done before', '7/7 images, done before')
  ends += ('0/9 images when it stopped', '7/9 images when it stopped')
  assert caplog.messages[:2] == [f'x: {end}' for end in ends[:2]]
  assert caplog.messages[2:] == [f'x: {x}' for end in ends[2:] for x in ('compiling …', end)]


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
  screen = io.StringIO()
  screen.isatty = lambda: True
  monkeypatch.setattr(sys, 'stderr', screen)
  with Progress(4, 'natural', 'images') as work:
    work.show({'loss': 0.5})
    work.advance(4)
  assert 'natural: 100%' in screen.getvalue() and 'loss 0.5]' in screen.getvalue()
