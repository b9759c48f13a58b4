"""Progress of long work with rate and remaining time: a bar on a terminal, log lines elsewhere."""

import contextlib
import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Self

from absl import logging
from tqdm import tqdm

from robustness.core.errors import set_within

LINE_SECONDS = 20.0
"""Smallest time in seconds between two log lines."""
_DRAWS_BARS = contextvars.ContextVar[bool | None]('draws_bars')
"""Whether progress is drawn as bars, as the context `showing` sets it; unset outside of one."""
PHASE_SECONDS, BEAT_SECONDS, SLOW_BEAT_SECONDS = 5.0, 10.0, 60.0
"""Seconds until work in a context `phase` is shown, seconds between two reports that a step still
runs, and seconds between later reports, after that time."""


def showing(bars: bool | None) -> contextlib.AbstractContextManager[None]:
  """A context manager that chooses whether progress is shown as bars or as log lines.

  Args:
    bars: True draws bars, False logs lines. None draws bars in notebooks and on terminals.
      Elsewhere None logs lines, or prints them to stderr if the log level would hide them.
  """
  is_notebook = 'ipykernel' in sys.modules
  return set_within(_DRAWS_BARS, True if bars is None and is_notebook else bars)


def draws_bars() -> bool:
  """Returns whether progress is drawn as bars instead of log lines.

  The context manager `showing` decides. Outside it, bars are drawn if stderr is a terminal. The
  output of a `!command` in a notebook does not count as one, because it cannot redraw a line.
  """
  bars = _DRAWS_BARS.get(None)
  if bars is not None:
    return bars
  is_terminal = sys.stderr is not None and sys.stderr.isatty()  # it is None if it was closed
  return is_terminal and 'JPY_PARENT_PID' not in os.environ


def _line_writer() -> Callable[..., None]:
  """Returns the function that writes a line of progress, called as `write(format, *values)`.

  The function logs the line. Within `showing(None)` it prints to stderr if the log level would hide
  the line.
  """
  # the variable is None only within `showing(None)`; False is the default outside of `showing`
  if _DRAWS_BARS.get(False) is not None or logging.get_verbosity() >= logging.INFO:
    return logging.info
  return lambda text, *values: print(text % values, file=sys.stderr, flush=True)


_OPEN: list['Progress'] = []
"""The `Progress` objects of the `with` blocks that the program is in, the outermost first."""


def part_of_step(name: str) -> contextlib.AbstractContextManager[None]:
  """A context manager that names the work inside, such as one attack, in the progress display.

  The name appears in the innermost open `with Progress(...)`. Outside of any `Progress`, nothing is
  shown.
  """
  return _OPEN[-1].other_work(name) if _OPEN else contextlib.nullcontext()


class Heartbeat:
  """A thread that calls a function at intervals while other work continues."""

  def __init__(self, beat: Callable[[float], None], first: float, every: float):
    """Starts the thread.

    Args:
      beat: function to call, with the seconds since the start.
      first: seconds until the first call.
      every: seconds between calls. If `every` is above 1, as for log lines, calls slow down to one
        in `SLOW_BEAT_SECONDS` after the first `SLOW_BEAT_SECONDS`.
    """
    self._stopped = threading.Event()
    self._thread = threading.Thread(target=self._run, args=(beat, first, every), daemon=True)
    self._thread.start()

  def _run(self, beat: Callable[[float], None], first: float, every: float) -> None:
    """Calls `beat` at intervals until `stop` is called, in a thread of its own.

    Intervals get longer after a while.

    Args:
      beat: function of the elapsed seconds.
      first: seconds until the first call.
      every: seconds between calls.
    """
    seconds, wait = 0.0, first
    while not self._stopped.wait(wait):  # returns True, without waiting, after `stop`
      seconds += wait
      beat(seconds)
      wait = max(every, SLOW_BEAT_SECONDS) if every > 1 and seconds >= SLOW_BEAT_SECONDS else every

  def stop(self) -> None:
    """Ends the calls, and waits for a running call."""
    self._stopped.set()
    self._thread.join()


@contextlib.contextmanager
def phase(label: str, after: float | None = None) -> Iterator[None]:
  """A context manager that shows how long work of unknown length has been running.

  A terminal shows a bar with the elapsed time. Elsewhere a line with the elapsed seconds is logged
  at intervals, and a line with the duration at the end.

  Args:
    label: name of the work.
    after: seconds until the work is first shown. None stands for `PHASE_SECONDS`.
  """
  bars: list[tqdm] = []  # empty until the bar is drawn
  start, is_terminal, write_line = time.monotonic(), draws_bars(), _line_writer()

  def show(seconds: float) -> None:
    """Shows how long the work has been running, when called at intervals by `Heartbeat`.

    On a terminal it draws the bar at the first call and updates it later; elsewhere it writes a
    line.

    Args:
      seconds: the elapsed time.
    """
    if not is_terminal:
      write_line('%s …%s', label, f' {seconds:.0f} s' if seconds else '')
    elif bars:
      bars[0].refresh()
    else:
      bars.append(tqdm(desc=label, bar_format='{desc} … {elapsed}'))
      bars[0].start_t -= seconds  # the bar also shows the time before it was drawn

  first = PHASE_SECONDS if after is None else after
  heartbeat = Heartbeat(show, first, every=1.0 if is_terminal else BEAT_SECONDS)
  try:
    yield
  finally:
    heartbeat.stop()
    seconds = time.monotonic() - start
    for bar in bars:
      bar.close()
    if not is_terminal and seconds >= PHASE_SECONDS:
      write_line('%s in %.1f s', label, seconds)


class Progress:
  """Shows how much of some work is done, with the rate and the remaining time.

  The caller calls `advance` after each step, such as a batch. On a terminal a bar is drawn.
  Elsewhere a line is logged after a step, at most every `LINE_SECONDS`, and at the end. While a
  step is slow, such as the first step, which compiles, lines show that the work continues. The rate
  leaves out the first step.
  """

  def __init__(self, total: int, label: str, unit: str, initial: int = 0):
    """Starts to count `total` units of work.

    Args:
      total: number of units of all work.
      label: label of the bar or lines.
      unit: plural name of the unit, such as 'images'.
      initial: number of units done by an earlier run. They do not count towards the rate.
    """
    self._total, self._label, self._unit = total, label, unit
    self._initial = self._done = self._done_after_first_step = initial
    self._start = self._last_line = time.monotonic()
    self._end_of_first_step: float | None = None  # a time; None while the first step runs
    self._values = ''  # such as 'loss 0.3', set by `show`
    self._other_work = ''  # the name of work that is done instead, set by `other_work`
    self._write_line = _line_writer()
    self._bar: tqdm | None = None
    is_unfinished = initial < total
    if draws_bars():
      amounts = {'total': total, 'initial': initial}
      self._bar = tqdm(desc=label, unit=f' {unit}', unit_scale=True, dynamic_ncols=True, **amounts)
      self._bar.set_postfix_str('compiling …' if is_unfinished else '')
    elif is_unfinished:
      before = f'{initial}/{total} {unit} done before; ' if initial else ''
      self._write_line('%s: %scompiling …', label, before)
    every = 1.0 if self._bar is not None else BEAT_SECONDS
    self._heartbeat = Heartbeat(self._show_waiting, every, every) if is_unfinished else None

  def advance(self, amount: int) -> None:
    """Counts more units of work as done after a step, and updates the display.

    On a terminal a bar is updated. Elsewhere a line with percentage, speed and time left is written
    every `LINE_SECONDS`. The first step includes compilation and does not count for the speed.

    Args:
      amount: number of units that the step has done, such as images.
    """
    self._done += amount
    is_first_step = self._end_of_first_step is None
    if self._bar is not None:
      if is_first_step:  # replaces 'compiling …'
        self._bar.set_postfix_str(self._values, refresh=False)
      self._bar.update(amount)
    elif time.monotonic() - self._last_line >= LINE_SECONDS:
      self._last_line = time.monotonic()
      if is_first_step:
        speed = f'the first step took {self._last_line - self._start:.0f} s'
      else:
        speed = f'{self._speed()}, {(self._total - self._done) / self.rate:.0f} s left'
      percentage = 100 * self._done / max(self._total, 1)
      self._write_line('%s (%.0f %%), %s', self._head(), percentage, self._with_values(speed))
    if is_first_step:
      self._end_of_first_step, self._done_after_first_step = time.monotonic(), self._done

  @contextlib.contextmanager
  def other_work(self, name: str) -> Iterator[None]:
    """A context manager that shows `name` during other work, such as an evaluation between steps.

    A bar shows `name` in place of its last values, such as the loss. Without a bar, lines with
    `name` and the elapsed time are logged.
    """
    self._other_work = name
    with phase(f'{self._label}: {name}') if self._bar is None else contextlib.nullcontext():
      if self._bar is not None:
        self._bar.set_postfix_str(f'{name} …')
      yield
    self._other_work = ''
    if self._bar is not None:
      self._bar.set_postfix_str(self._values, refresh=False)

  def _show_waiting(self, seconds: float) -> None:
    """Shows that the work continues although no step has ended.

    The heartbeat calls this at intervals. A bar redraws its clock during the first step and during
    `other_work`. Without a bar, a line is logged:

    * during the first step, with the elapsed `seconds`;
    * later, with the work done so far, if no line was logged for `SLOW_BEAT_SECONDS`;
    * not during `other_work`, which logs its own lines.

    Args:
      seconds: seconds since the start.
    """
    if self._bar is not None:
      if self._end_of_first_step is None or self._other_work:
        self._bar.refresh()
    elif self._other_work:
      return
    elif self._end_of_first_step is None:
      self._write_line('%s: the first step, which compiles, has taken %.0f s', self._label, seconds)
    elif time.monotonic() - self._last_line >= SLOW_BEAT_SECONDS:
      self._last_line = time.monotonic()
      self._write_line('%s after %.0f s', self._head(), seconds)

  def show(self, values: Mapping[str, float]) -> None:
    """Sets the values that the bar and later lines end with, such as {'loss': 0.3}."""
    self._values = ', '.join(f'{name} {value:.4g}' for name, value in values.items())
    if self._bar is not None:
      self._bar.set_postfix_str(self._values, refresh=False)

  @property
  def rate(self) -> float:
    """The speed in units of work per second.

    The first step includes compilation and is left out as soon as a second one has ended.
    """
    start, done = self._end_of_first_step, self._done_after_first_step
    if start is None or done == self._done:  # no step has ended after the first
      start, done = self._start, self._initial
    return (self._done - done) / max(time.monotonic() - start, 1e-9)

  def close(self) -> None:
    """Closes the bar, or logs a last line with the finished work, the duration and the rate.

    Examples of the line are 'fog: 100/100 images (20 before) in 8.0 s, 10 images/s' and, if a
    resumed run has nothing left to do, 'fog: 100/100 images, done before'.
    """
    if self._heartbeat is not None:
      self._heartbeat.stop()
    if self._bar is not None:
      self._bar.close()
    elif self._done == self._initial:  # no step has ended here
      is_complete = self._done >= self._total
      self._write_line('%s%s', self._head(), ', done before' if is_complete else ' when it stopped')
    else:
      before = f' ({self._initial} before)' if self._initial else ''
      seconds = time.monotonic() - self._start
      # the rate leaves out the first step, which compiles, if there were later steps
      has_later_steps = self._done_after_first_step < self._done
      suffix = '' if has_later_steps else ' with compilation'
      speed = self._with_values(f'{self._speed()}{suffix}')
      self._write_line('%s%s in %.1f s, %s', self._head(), before, seconds, speed)

  def _head(self) -> str:
    """Returns the label and the number of finished units, such as 'fog: 20/100 images'."""
    return f'{self._label}: {self._done}/{self._total} {self._unit}'

  def _speed(self) -> str:
    """Returns the rate in words, such as '12.5 images/s'."""
    return f'{self.rate:.4g} {self._unit}/s'

  def _with_values(self, speed: str) -> str:
    """Returns the rate followed by the values set by `show`, such as '12.5 images/s; loss 0.3'."""
    return f'{speed}; {self._values}' if self._values else speed

  def __enter__(self) -> Self:
    """Makes this the progress that names of parts of a step are shown in, see `part_of_step`."""
    _OPEN.append(self)
    return self

  def __exit__(self, *unused: object) -> None:
    """Closes the progress."""
    _OPEN.remove(self)
    self.close()
