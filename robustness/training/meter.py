"""Collects the metrics of the steps between two log lines and watches that they stay finite."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping

import jax
import numpy as np

from robustness.core.errors import InputError

LAG = 2


class Meter:
  """Reads metrics `LAG` steps late: the device stays busy, and the host never runs far ahead."""

  def __init__(self, batch_size: int):
    """Args: batch_size: images a step, for the rate."""
    self._batch_size = batch_size
    self._waiting: collections.deque[tuple[int, Mapping[str, jax.Array]]] = collections.deque()
    self._values: dict[str, list[float]] = collections.defaultdict(list)
    self._begin: float | None = None
    self._images = 0

  def add(self, step: int, metrics: Mapping[str, jax.Array]) -> None:
    """Takes the metrics of a step, which may still be under way.

    Raises:
      InputError: the loss or the gradient of one of the last steps is not finite.
    """
    self._waiting.append((step, metrics))
    while len(self._waiting) > LAG:
      self._read()

  def flush(self) -> None:
    """Waits for every step added; raises as `add` does."""
    while self._waiting:
      self._read()

  def pause(self) -> None:
    """Leaves the time until the next step is done out of the rate."""
    self._begin, self._images = None, 0

  def summary(self) -> dict[str, float]:
    """Returns the means since the last call (of the learning rate, the last) and images a second.

    The rate begins when the first step after the start or a pause is done, so that compilation does
    not count; it is left out as long as there is none.
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

  def _read(self) -> None:
    step, metrics = self._waiting.popleft()
    values = {name: float(value) for name, value in metrics.items()}
    for name in ('loss', 'gradient_norm'):
      if not np.isfinite(values[name]):
        raise InputError(
          f'the {name.replace("_", " ")} is {values[name]} at step {step} (learning rate '
          f'{values["learning_rate"]:g}). Lower config.training.learning_rate or raise '
          'config.training.warmup_epochs; checkpoints from before that step are kept.'
        )
    for name, value in values.items():
      self._values[name].append(value)
    if self._begin is None:
      self._begin = time.monotonic()
    else:
      self._images += self._batch_size
