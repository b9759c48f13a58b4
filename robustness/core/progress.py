"""Progress of long work, with rate and time left: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from absl import logging
from tqdm import tqdm

LINE_SECONDS = 20.0


class Progress:
  """Counts work done and tells how fast it goes and how long it will take.

  Draws a bar on a terminal; elsewhere logs a line at most every `LINE_SECONDS`, and at the end.
  """

  def __init__(self, total: int, label: str, unit: str, initial: int = 0):
    """Starts counting.

    Args:
      total: amount of work in all.
      label: what is being done, for example 'natural: training'.
      unit: what is counted, for example 'images'.
      initial: work found done already; it does not count for the rate.
    """
    self._total, self._label, self._unit = total, label, unit
    self._initial = self._done = initial
    self._start = self._last_line = time.monotonic()
    self._first: tuple[float, int] | None = None
    self._shown = ''
    self._bar: tqdm | None = None
    if sys.stderr.isatty():
      self._bar = tqdm(
        desc=label,
        total=total,
        initial=initial,
        unit=f' {unit}',
        unit_scale=True,
        dynamic_ncols=True,
      )

  def advance(self, amount: int) -> None:
    """Adds work done."""
    self._done += amount
    if self._bar is not None:
      self._bar.update(amount)
    elif time.monotonic() - self._last_line >= LINE_SECONDS:
      self._last_line = time.monotonic()
      logging.info('%s', self._line())
    if self._first is None:
      self._first = time.monotonic(), self._done

  def show(self, values: Mapping[str, float]) -> None:
    """Sets numbers that stand at the end of the line from now on, such as a training's loss."""
    self._shown = ', '.join(f'{name} {value:.4g}' for name, value in values.items())
    if self._bar is not None:
      self._bar.set_postfix_str(self._shown, refresh=False)

  @property
  def rate(self) -> float:
    """Units a second, work found done already left out.

    It counts from the first call of `advance` on, when what is compiled has been compiled; before
    the second call, from the start.
    """
    start, done = self._first or (self._start, self._initial)
    if done == self._done:
      start, done = self._start, self._initial
    return (self._done - done) / max(time.monotonic() - start, 1e-9)

  def close(self) -> None:
    """Ends the bar, or logs the closing line."""
    if self._bar is not None:
      self._bar.close()
    else:
      logging.info('%s', self._closing_line())

  def _line(self) -> str:
    rate, share = self.rate, 100 * self._done / max(self._total, 1)
    left = (self._total - self._done) / rate if rate else float('inf')
    return (
      f'{self._head()} ({share:.0f} %), {rate:.4g} {self._unit}/s, {left:.0f} s left{self._tail()}'
    )

  def _closing_line(self) -> str:
    if self._done == self._initial:
      return self._head() + (', done before' if self._done >= self._total else ' when it stopped')
    seconds = time.monotonic() - self._start
    return f'{self._head()} in {seconds:.1f} s, {self.rate:.4g} {self._unit}/s{self._tail()}'

  def _head(self) -> str:
    return f'{self._label}: {self._done}/{self._total} {self._unit}'

  def _tail(self) -> str:
    return f'; {self._shown}' if self._shown else ''

  def __enter__(self) -> Progress:
    return self

  def __exit__(self, *unused: object) -> None:
    self.close()
