"""What a piece of work will take, from a short probe of it."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax

PROBE_SECONDS, FEWEST_REPEATS, MOST_REPEATS = 1.0, 2, 20


@dataclasses.dataclass(frozen=True)
class Forecast:
  """What a piece of work will take on these devices.

  Attributes:
    label: of the work, such as 'natural: training'.
    amount: how much it is, in words.
    images: that a network sees in all.
    images_per_second: measured, compilation left out.
    compile_seconds: what the first step took beyond a later one.
    record_bytes: that it leaves on disk as records.
    memory_bytes: of each device at most while a step runs; None where XLA does not say.
  """

  label: str
  amount: str
  images: int
  images_per_second: float
  compile_seconds: float
  record_bytes: int
  memory_bytes: int | None

  @property
  def seconds(self) -> float:
    """How long it will take, compilation included."""
    return self.images / self.images_per_second + self.compile_seconds


def timed(work: Callable[[], Any], most: int = MOST_REPEATS) -> tuple[float, float]:
  """Does some work several times.

  Args:
    work: returns when it is done, or arrays that are waited for.
    most: how often it can be repeated; 0 for work that can be done once only, which then counts as
      both.

  Returns:
    Seconds of the first time beyond a later one, and of a later one: the median of those of about
    `PROBE_SECONDS`, at least `FEWEST_REPEATS` of them.
  """
  times: list[float] = []
  while len(times) <= most and (len(times) <= FEWEST_REPEATS or sum(times[1:]) < PROBE_SECONDS):
    begun = time.perf_counter()
    jax.block_until_ready(work())
    times.append(time.perf_counter() - begun)
  later = statistics.median(times[1:] or times)
  return max(0.0, times[0] - later), later


def memory_of(step: Callable, *arguments: Any) -> int | None:
  """Returns the bytes that a compiled step needs on each device; None if XLA does not say.

  The program is compiled once for this and for the calls that follow.

  Args:
    step: what `Parallel.compile` returned.
    *arguments: of a call.
  """
  if not hasattr(step, 'lower'):
    return None
  sizes = step.lower(*arguments).compile().memory_analysis()
  if sizes is None:
    return None
  return (
    sizes.argument_size_in_bytes
    + sizes.output_size_in_bytes
    + sizes.temp_size_in_bytes
    - sizes.alias_size_in_bytes
  )
