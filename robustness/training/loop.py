"""The training loop: restore, read, step, log, evaluate, save."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import numpy as np

from robustness.core.progress import Progress
from robustness.parallel import Parallel
from robustness.parallel.mesh import BATCH, REPLICATED
from robustness.training import batches, preemption, schedule
from robustness.training.checkpoint import Checkpoints
from robustness.training.meter import Meter
from robustness.training.state import TrainState, num_classes
from robustness.training.step import train_step
from robustness.training.task import TrainingTask

Evaluate = Callable[[dict[str, Any]], Mapping[str, float]]


class ScalarWriter(Protocol):
  """What the loop needs of a `clu` metric writer."""

  def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
    """Writes named numbers of a step."""

  def flush(self) -> None:
    """Makes sure that they are on disk."""


def train(
  task: TrainingTask,
  *,
  directory: str | os.PathLike[str],
  parallel: Parallel,
  writer: ScalarWriter,
  evaluate: Evaluate | None = None,
  facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
  """Trains to the end, from the newest checkpoint in `directory` if there is one.

  A call that was killed at any moment and is made again gives the same parameters, bit for bit, on
  the same machine and device layout; a finished training is returned at once. XLA's CPU code adds
  in a fixed order; on a GPU that takes XLA_FLAGS=--xla_gpu_deterministic_ops=true. After a kill the
  log may hold a step twice; the later line counts.

  Args:
    task: what to train.
    directory: holds `classifier.json` and `checkpoints/`; one for each training.
    parallel: how steps run on the devices.
    writer: takes `train/...` (loss, accuracy, gradient_norm, learning_rate, images_per_second,
      epoch) and `evaluation/...`.
    evaluate: from variables to named numbers; must not change or keep the variables.
    facts: more plain values for `classifier.json`, such as the architecture and the class names.

  Returns:
    `{'params', 'batch_stats'}` as numpy arrays.

  Raises:
    InputError: settings, data or directory do not fit, or the training diverged.
    Preempted: SIGTERM came; the state is saved.
  """
  task.check_layout(parallel)
  with Checkpoints(directory, task.facts(facts or {}), {'seed': task.seed}) as checkpoints:
    state = checkpoints.restore(task.state_shapes()) or task.initial_state()
    if int(state.step) < task.total_steps:
      state = _Run(task, parallel, writer, evaluate, checkpoints).steps(state)
    checkpoints.wait()
  return jax.tree.map(np.asarray, state.variables)


class _Run:
  """The steps of one call."""

  def __init__(
    self,
    task: TrainingTask,
    parallel: Parallel,
    writer: ScalarWriter,
    evaluate: Evaluate | None,
    checkpoints: Checkpoints,
  ):
    self._task, self._settings, self._parallel = task, task.settings, parallel
    self._writer, self._evaluate, self._checkpoints = writer, evaluate, checkpoints
    self._meter = Meter(task.settings.batch_size)
    step = functools.partial(train_step, recipe=task.recipe(parallel.axis_name))
    self._step = parallel.compile(step, (REPLICATED, BATCH), (REPLICATED, REPLICATED), donate=(0,))

  def steps(self, state: TrainState) -> TrainState:
    """Takes the steps that are left."""
    task, size, begin = self._task, self._settings.batch_size, int(state.step)
    classes = num_classes(task.model, state, task.image_shape)
    source = iter(task.batches(size, task.seed, begin))
    state = self._parallel.replicate(state)
    with (
      preemption.Notice() as notice,
      Progress(task.total_steps * size, 'training', 'images', initial=begin * size) as progress,
    ):
      for step in range(begin + 1, task.total_steps + 1):
        batch = batches.check(next(source), task.image_shape, classes)
        state, metrics = self._step(state, self._parallel.put_batch(batch))
        self._meter.add(step, self._parallel.unreplicate(metrics))
        progress.advance(size)
        self._log(step)
        self._evaluate_if_due(step, state)
        self._save_if_due(step, state, notice.given)
    return self._parallel.unreplicate(state)

  def _log(self, step: int) -> None:
    if step % self._settings.log_every_steps == 0 or step == self._task.total_steps:
      values = self._meter.summary()
      values['epoch'] = step * self._settings.batch_size / self._task.num_examples
      self._writer.write_scalars(step, {f'train/{name}': value for name, value in values.items()})

  def _evaluate_if_due(self, step: int, state: TrainState) -> None:
    if self._evaluate is not None and (
      step == self._task.total_steps
      or schedule.is_due(step, self._settings, self._task.num_examples)
    ):
      self._meter.flush()
      numbers = self._evaluate(self._parallel.unreplicate(state).variables)
      self._writer.write_scalars(step, {f'evaluation/{name}': x for name, x in numbers.items()})
      self._meter.pause()

  def _save_if_due(self, step: int, state: TrainState, asked: bool) -> None:
    every, last = self._settings.checkpoint_every_steps, step == self._task.total_steps
    if not (asked or last or (every and step % every == 0)):
      return
    self._meter.flush()
    self._writer.flush()
    self._checkpoints.save(self._parallel.unreplicate(state), step * self._settings.batch_size)
    if asked and not last:
      self._checkpoints.wait()
      raise preemption.Preempted(
        f'stopped by SIGTERM after step {step} of '
        f'{self._task.total_steps} and saved; the same command goes on '
        'from there.'
      )
