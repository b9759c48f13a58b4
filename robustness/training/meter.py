"""Collects the metrics of the steps between two log lines and watches that they stay finite."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from robustness.core.errors import InputError

LAG = 2

Metrics = Mapping[str, Any]


class Meter:
  """Leaves metrics on the devices until a log line needs them, all in one transfer.

  The host runs at most `LAG` steps ahead of the devices, which therefore always have work and
  never more batches than a few.
  """

  def __init__(
    self, batch_size: int, fetch: Callable[[Sequence[Metrics]], Sequence[Metrics]] = jax.device_get
  ):
    """Args: batch_size: images a step, for the rate; fetch: brings metrics of steps to the host."""
    self._batch_size, self._fetch = batch_size, fetch
    self._under_way: collections.deque[Metrics] = collections.deque()
    self._kept: list[tuple[int, Metrics]] = []
    self._values: dict[str, list[float]] = collections.defaultdict(list)
    self._begin: float | None = None
    self._images = 0

  def add(self, step: int, metrics: Metrics) -> None:
    """Takes the metrics of a step that may still be under way; waits for the one `LAG` before."""
    self._kept.append((step, metrics))
    self._under_way.append(metrics)
    while len(self._under_way) > LAG:
      self._wait()

  def flush(self) -> None:
    """Waits for every step added and fetches its metrics.

    Raises:
      InputError: the loss or the gradient of one of them is not finite.
    """
    while self._under_way:
      self._wait()
    steps = [step for step, _ in self._kept]
    fetched = self._fetch([metrics for _, metrics in self._kept])
    self._kept.clear()
    for step, metrics in zip(steps, fetched, strict=True):
      self._take(step, {name: float(value) for name, value in metrics.items()})

  def pause(self) -> None:
    """Leaves the time until the next step is done out of the rate."""
    self._begin, self._images = None, 0

  def summary(self) -> dict[str, float]:
    """Returns the means since the last call (of the learning rate, the last) and images a second.

    The rate begins when the first step after the start or a pause is done, so that compilation does
    not count; it is left out as long as there is none.

    Raises:
      InputError: see `flush`.
    """
    self.flush()
    now = time.monotonic()
    means = {name: float(np.mean(values)) for name, values in self._values.items()}
    means['learning_rate'] = self._values['learning_rate'][-1]
    if self._begin is not None and self._images:
      means['images_per_second'] = self._images / (now - self._begin)
    self._values.clear()
    self._begin, self._images = now, 0
    return means

  def _wait(self) -> None:
    jax.block_until_ready(self._under_way.popleft())
    if self._begin is None:
      self._begin = time.monotonic()
    else:
      self._images += self._batch_size

  def _take(self, step: int, values: Mapping[str, float]) -> None:
    for name in ('loss', 'gradient_norm'):
      if not np.isfinite(values[name]):
        raise InputError(
          f'the {name.replace("_", " ")} is {values[name]} at step {step} (learning rate '
          f'{values["learning_rate"]:g}). Lower config.training.learning_rate or raise '
          'config.training.warmup_epochs; checkpoints from before that step are kept.'
        )
    for name, value in values.items():
      self._values[name].append(value)
