"""What a training will take: how long, and how much memory."""

from __future__ import annotations

import itertools

import jax

from robustness.core.forecast import MOST_REPEATS, Forecast, memory_of, timed
from robustness.parallel import Parallel
from robustness.training import schedule
from robustness.training.feed import open_feed
from robustness.training.loop import compiled_step
from robustness.training.training import Training


def forecast(training: Training, parallel: Parallel, label: str) -> Forecast:
  """Measures the first steps, reading included, from the initial weights; writes nothing.

  Raises:
    InputError: settings or data that do not fit.
  """
  training.check_layout(parallel)
  feed = open_feed(training, parallel, 0)
  step = compiled_step(training, parallel, feed)
  state = parallel.replicate(training.initial_state())
  batches = feed.steps(0)
  first = next(batches)
  memory = memory_of(step, state, feed.resident, first)
  waiting = itertools.chain([first], batches)

  def take() -> jax.Array:
    nonlocal state
    state, metrics = step(state, feed.resident, next(waiting))
    return metrics['loss']

  compiling, seconds = timed(take, min(MOST_REPEATS, training.total_steps - 1))
  size, steps = training.settings.batch_size, training.total_steps
  return Forecast(
    label, f'{steps:,} steps × {size:,} images', steps * size, size / seconds, compiling, 0, memory
  )


def num_evaluations(training: Training) -> int:
  """Returns how often the weights are evaluated during a training, its end included."""
  settings, last = training.settings, training.total_steps
  due = (schedule.is_due(step, settings, training.num_examples) for step in range(1, last))
  return 1 + sum(due)
