"""The training loop: restore, read, step, log, evaluate, save.

Rows are read on the host a few steps ahead, or stored on the devices; both ways provide the same
rows in the same order with the same bits.
"""

import collections
import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.precision import in_32_bits
from robustness.core.progress import Progress
from robustness.core.rows import ArrayRows
from robustness.core.sampler import share_of_batch
from robustness.core.typing import Facts, Variables
from robustness.parallel import Parallel, connect
from robustness.parallel.mesh import BATCH, REPLICATED, Compiled
from robustness.training import schedule
from robustness.training.checkpoint import Checkpoints
from robustness.training.preemption import Preempted, StopRequest
from robustness.training.settings import BEST
from robustness.training.state import TrainState, final_variables
from robustness.training.step import TrainStep
from robustness.training.training import Training, check_batch
from robustness.training.writers import ScalarWriter

LAG = 2
AHEAD = 2
Columns = dict[str, jax.Array]

Evaluate = Callable[[Variables], Mapping[str, float]]
Metrics = Mapping[str, jax.Array]


@in_32_bits()
def train(
  training: Training,
  *,
  directory: str | os.PathLike[str],
  parallel: Parallel,
  writer: ScalarWriter,
  evaluate: Evaluate | None = None,
  measure: Callable[[int, Variables], None] | None = None,
  facts: Facts | None = None,
  label: str = 'training',
) -> Variables:
  """Trains to the end, from the newest checkpoint in `directory` if there is one.

  After a kill, the same call returns the same parameters, bit for bit, on the same machine and
  device layout; a finished training is returned at once. XLA's CPU code adds in a fixed order; a
  GPU needs XLA_FLAGS=--xla_gpu_deterministic_ops=true. After a kill the log may hold a step twice;
  the later line counts.

  Args:
    training: the specification of the training.
    directory: folder of `classifier.json` and `checkpoints/` of this training only.
    parallel: layout of the devices.
    writer: writer of `train/...` (loss, accuracy, gradient_norm, learning_rate, images_per_second,
      epoch) and `evaluation/...`.
    evaluate: function from variables to {name: number} with `accuracy`, which must not change or
      store the variables. With `keep='best'` it decides which weights are kept.
    measure: function of step and variables that is called after each evaluation.
    facts: further plain values for `classifier.json`, such as the class names.
    label: label of the progress line.

  Returns:
    `{'params', 'batch_stats'}` as numpy arrays, see `final_variables`.

  Raises:
    InputError: settings, data or directory do not fit, or the training diverged.
    Preempted: a process of the training received SIGTERM; the state is saved.
  """
  training.check_layout(parallel)
  if training.settings.keep == BEST and evaluate is None:
    raise InputError("keep is 'best', and nothing evaluates the weights: give evaluate.")
  if parallel.share[1] != jax.process_count():
    raise InputError('a training takes the devices of all processes of the run.')
  with Checkpoints(directory, training.facts(facts or {})) as checkpoints:
    state = checkpoints.restore(training.state_shapes()) or training.initial_state()
    if int(state.step) < training.total_steps:
      connect(parallel)
      state = _Run(training, parallel, writer, evaluate, measure, checkpoints).steps(state, label)
  return jax.tree.map(np.asarray, final_variables(vars(state)))


@dataclasses.dataclass(frozen=True)
class Feed:
  """The batches of a training, each checked and placed on the devices.

  Attributes:
    batches: function from the first step to an iterator of the batches from there to the last
      step; it raises InputError for a batch that does not fit the training.
    is_resident: whether all rows are held on the devices.
  """

  batches: Callable[[int], Iterator[Columns]]
  is_resident: bool


def open_feed(training: Training, parallel: Parallel, begin: int) -> Feed:
  """Returns the faster feed: rows that are few and read again are held on the devices.

  The conditions are that one process has the whole batch, that `config.training.resident_bytes` has
  room for the rows on every device of a CPU or on one accelerator, and that at least one epoch
  remains from step `begin` on.
  """
  images_left = (training.total_steps - begin) * training.settings.batch_size
  copies = parallel.num_devices if jax.default_backend() == 'cpu' else 1
  if parallel.share[1] == 1 and images_left >= training.rows.num_examples:
    arrays = training.rows.in_memory(training.settings.resident_bytes // copies)
    if arrays is not None:
      return _resident(training, parallel, arrays)
  return _streamed(training, parallel)


def _streamed(training: Training, parallel: Parallel) -> Feed:
  """Returns the batches of the reader, placed `AHEAD` steps before they are needed."""

  def batches(begin: int) -> Iterator[Columns]:
    arguments = (training.settings.batch_size, training.seed, begin, parallel.share)
    read = training.rows.training_batches(*arguments, training.sampler)
    steps_left = itertools.islice(read, training.total_steps - begin)
    return ahead((parallel.put_batch(_checked(training, batch)) for batch in steps_left), AHEAD)

  return Feed(batches, is_resident=False)


def _resident(training: Training, parallel: Parallel, arrays: ArrayRows) -> Feed:
  """Returns batches that the devices gather from all rows, which they hold, checked once.

  A separate small program gathers, so that the training step is compiled for the shape of a batch
  and serves data sets of every size.
  """
  columns = _checked(training, {'image': np.asarray(arrays.images), **arrays.without_images()})
  place = parallel.compile(lambda tree: tree, (REPLICATED,), REPLICATED)
  rows = place(parallel.replicate(columns))
  order, size = training.order, training.settings.batch_size

  def gather(rows: Columns, positions: jax.Array, columns: Columns) -> Columns:
    at = {name: rows[name].at[positions].get(mode='promise_in_bounds') for name in rows}
    return {**at, **columns}

  gathered = parallel.compile(gather, (REPLICATED, BATCH, BATCH), BATCH)

  def batch(step: int) -> Columns:
    span = share_of_batch(step, size)
    positions = order.positions(*span).astype(np.int32)
    return gathered(rows, *parallel.put_batch((positions, order.columns(*span))))

  def batches(begin: int) -> Iterator[Columns]:
    return ahead((batch(step) for step in range(begin, training.total_steps)), AHEAD)

  return Feed(batches, is_resident=True)


def _checked(training: Training, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  columns = check_batch(dict(batch), training.rows.image_shape, training.num_classes)
  training.check_columns(columns)
  return columns


def ahead(source: Iterator[Columns], count: int) -> Iterator[Columns]:
  """Yields the elements of `source`, each taken `count` elements early."""
  waiting = collections.deque(itertools.islice(source, count))
  while waiting:
    yield waiting.popleft()
    waiting.extend(itertools.islice(source, 1))


def compiled_step(training: Training, parallel: Parallel) -> Compiled:
  """Returns the step `(state, batch, scalars) -> (state, metrics)`."""
  step = TrainStep(training, parallel)
  kinds = (REPLICATED, BATCH, REPLICATED)
  return parallel.compile(step, kinds, (REPLICATED, REPLICATED), donate=(0,))


@dataclasses.dataclass
class _Run:
  training: Training
  parallel: Parallel
  writer: ScalarWriter
  evaluate: Evaluate | None
  measure: Callable[[int, Variables], None] | None
  checkpoints: Checkpoints
  newest: dict[str, float] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    self.settings = self.training.settings
    self.meter = Meter(
      self.settings.batch_size, lambda metrics: jax.device_get(self.parallel.unreplicate(metrics))
    )

  def steps(self, state: TrainState, label: str) -> TrainState:
    """Takes the remaining steps, and shows the newest loss and accuracy with the progress."""
    training, size, begin = self.training, self.settings.batch_size, int(state.step)
    feed = open_feed(training, self.parallel, begin)
    take_step = compiled_step(training, self.parallel)
    scalars_at = jax.jit(training.scalars)
    state = self.parallel.replicate(state)
    with (
      StopRequest(self.parallel.share[1]) as stop,
      Progress(training.total_steps * size, label, 'images', initial=begin * size) as progress,
    ):
      for step, batch in enumerate(feed.batches(begin), begin + 1):
        scalars = self.parallel.replicate(scalars_at(np.int32(step - 1)))
        state, metrics = take_step(state, batch, scalars)
        self.meter.add(step, metrics)
        progress.advance(size)
        self._log(step)
        state = self._evaluate_if_due(step, state, progress)
        progress.show(self.newest)
        self._save_if_due(step, state, stop.due(step))
      self.checkpoints.wait()  # before SIGTERM ends the process again
      if stop.received:
        raise self._preempted(training.total_steps)
    return self.parallel.unreplicate(state)

  def _log(self, step: int) -> None:
    if step % self.settings.log_every_steps == 0 or step == self.training.total_steps:
      values = self.meter.summary()
      values['epoch'] = step * self.settings.batch_size / self.training.rows.num_examples
      self.writer.write_scalars(step, {f'train/{name}': value for name, value in values.items()})
      self.newest['loss'] = values['loss']

  def _evaluate_if_due(self, step: int, state: TrainState, progress: Progress) -> TrainState:
    """Evaluates the weights if it is time to; returns the state, with them if they are the best."""
    is_due = step == self.training.total_steps or schedule.is_due(
      step, self.settings, self.training.rows.num_examples
    )
    if self.evaluate is None or not is_due:
      return state
    self.meter.flush()
    single = self.parallel.unreplicate(state)
    with progress.other_work('evaluation'):
      numbers = dict(self.evaluate(single.variables))
      if self.settings.ema_decay:  # after lookahead the raw weights are the slow ones
        raw = self.evaluate(single.raw_variables)
        numbers |= {f'raw_{name}': value for name, value in raw.items()}
      if self.measure:
        self.measure(step, jax.tree.map(np.asarray, single.variables))
    self.writer.write_scalars(step, {f'evaluation/{name}': x for name, x in numbers.items()})
    self.newest.update(numbers)
    self.meter.pause()
    if self.settings.keep != BEST or single.best['score'] >= numbers['accuracy']:
      return state
    copied = jax.tree.map(np.array, single.variables)
    best = {**copied, 'score': np.float32(numbers['accuracy']), 'step': np.int32(step)}
    return state.replace(best=self.parallel.replicate(best))

  def _save_if_due(self, step: int, state: TrainState, is_stopped: bool) -> None:
    period, is_last = self.settings.checkpoint_every_steps, step == self.training.total_steps
    if not (is_stopped or is_last or (period and step % period == 0)):
      return
    self.meter.flush()
    self.writer.flush()
    self.checkpoints.save(self.parallel.unreplicate(state))
    if is_stopped:
      self.checkpoints.wait()
      raise self._preempted(step)

  def _preempted(self, step: int) -> Preempted:
    return Preempted(
      f'stopped by SIGTERM after step {step} of {self.training.total_steps} and saved. Run the '
      'same command to resume.'
    )


class Meter:
  """Collects metrics on the devices until a log line needs them, and fetches all in one transfer.

  The host runs at most `LAG` steps ahead of the devices, so that they always have work and hold
  few batches.
  """

  def __init__(
    self, batch_size: int, fetch: Callable[[Sequence[Metrics]], Sequence[Metrics]] = jax.device_get
  ):
    """Stores the number of images per step, and the function that fetches metrics to the host."""
    self._batch_size, self._fetch = batch_size, fetch
    self._running: collections.deque[Metrics] = collections.deque()
    self._collected: list[tuple[int, Metrics]] = []
    self._values: dict[str, list[float]] = collections.defaultdict(list)
    self._begin: float | None = None
    self._images = 0

  def add(self, step: int, metrics: Metrics) -> None:
    """Adds the metrics of a step that may be running; waits for the step `LAG` before it."""
    self._collected.append((step, metrics))
    self._running.append(metrics)
    while len(self._running) > LAG:
      self._wait()

  def flush(self) -> None:
    """Fetches the metrics of all added steps; raises InputError for a loss or gradient that is not
    finite."""
    while self._running:
      self._wait()
    steps = [step for step, _ in self._collected]
    fetched = self._fetch([metrics for _, metrics in self._collected])
    self._collected.clear()
    for step, metrics in zip(steps, fetched, strict=True):
      values = {name: float(value) for name, value in metrics.items()}
      for name in ('loss', 'gradient_norm'):
        if not np.isfinite(values[name]):
          raise InputError(
            f'the {name.replace("_", " ")} is {values[name]} at step {step} (learning rate '
            f'{values["learning_rate"]:g}). Lower {KEYS.training.learning_rate} or raise '
            f'{KEYS.training.warmup_epochs}; checkpoints from before that step are kept.'
          )
      for name, value in values.items():
        self._values[name].append(value)

  def pause(self) -> None:
    """Excludes the time until the end of the next step from the rate."""
    self._begin, self._images = None, 0

  def summary(self) -> dict[str, float]:
    """Returns means since the previous call, the last learning rate, and the images per second.

    The rate is measured from the end of the first step after the start or a pause, so that
    compilation does not count; it is missing if no further step has ended.
    """
    self.flush()
    end = time.monotonic()
    means = {name: float(np.mean(values)) for name, values in self._values.items()}
    means['learning_rate'] = self._values['learning_rate'][-1]
    if self._begin is not None and self._images:
      means['images_per_second'] = self._images / (end - self._begin)
    self._values.clear()
    self._begin, self._images = end, 0
    return means

  def _wait(self) -> None:
    jax.block_until_ready(self._running.popleft())
    if self._begin is None:
      self._begin = time.monotonic()
    else:
      self._images += self._batch_size
