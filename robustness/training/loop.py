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
"""Largest number of steps that the host runs ahead of the devices."""
AHEAD = 2
"""Number of batches that are copied to the devices before they are needed."""
Columns = dict[str, jax.Array]
"""The columns of a batch on the devices."""
Evaluate = Callable[[Variables], Mapping[str, float]]
"""A function from variables to {name: number}, such as {'accuracy': 0.9}."""
Metrics = Mapping[str, jax.Array]
"""{name: scalar} of a step on the devices, such as its loss; see `TrainStep`."""


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
  """Trains a network to the last step, resuming from the newest checkpoint if there is one.

  A resumed training ends with the same parameters, bit for bit, on the same machine and device
  layout. On a GPU this needs XLA_FLAGS=--xla_gpu_deterministic_ops=true. After a kill the log may
  contain a step twice; the later line is valid. A finished training returns at once.

  Args:
    training: the specification of the training.
    directory: folder for `classifier.json` and `checkpoints/`, used by no other training.
    parallel: layout of the devices.
    writer: writer of metrics: `train/...` (loss, accuracy, gradient_norm, learning_rate,
      images_per_second, epoch) and `evaluation/...`.
    evaluate: function from variables to {name: number} with the key `accuracy`. It must not change
      or store the variables. With `keep='best'` it selects the weights to keep.
    measure: function of step and variables, called at the steps of the setting `measure_at`; None
      for none.
    facts: further JSON values for `classifier.json`, such as the class names.
    label: title of the progress line.

  Returns:
    {'params': ..., 'batch_stats': ...} as NumPy arrays: the best if `keep` is 'best', else the
    averaged ones if there are any, else the last.

  Raises:
    InputError: Settings, data or directory do not fit, or the training diverged.
    Preempted: A process of the training received SIGTERM; the state is saved.
  """
  training.check_layout(parallel)
  if training.settings.keep == BEST and evaluate is None:
    raise InputError("keep is 'best', and nothing evaluates the weights: give evaluate.")
  with Checkpoints(directory, training.facts(facts or {})) as checkpoints:
    state = checkpoints.restore(training.state_shapes()) or training.initial_state()
    if int(state.step) < training.total_steps:
      connect(parallel)  # waits for the other processes of the training
      state = _Run(training, parallel, writer, evaluate, measure, checkpoints).steps(state, label)
  return jax.tree.map(np.asarray, final_variables(vars(state)))


def batches(training: Training, parallel: Parallel, begin: int) -> Iterator[Columns]:
  """Returns the batches of a training on the devices, from step `begin` to the last one.

  The iterator raises InputError for a batch that does not fit the training.
  """
  arrays = resident_rows(training, parallel, begin)
  if arrays is not None:
    return read_ahead(_gathered_batches(training, parallel, arrays, begin))
  size, read = training.settings.batch_size, training.rows.training_batches
  endless = read(size, training.seed, begin, parallel.share, training.sampler)
  on_host = itertools.islice(endless, training.total_steps - begin)
  return read_ahead(parallel.put_batch(_check_batch(training, batch)) for batch in on_host)


def resident_rows(training: Training, parallel: Parallel, begin: int) -> ArrayRows | None:
  """Returns the training data if they should stay on the devices, else None.

  This is faster than reading batches on the host. It needs a single process, at least one remaining
  epoch, and data that fit into `config.training.resident_bytes`. Every device holds a copy. On a
  CPU, where devices share the memory, all copies together must fit.

  Args:
    training: the training.
    parallel: layout of the devices.
    begin: first step to take.
  """
  images_left = (training.total_steps - begin) * training.settings.batch_size
  if parallel.num_processes > 1 or images_left < training.rows.num_examples:
    return None
  # the devices of a CPU share its memory, while each accelerator has a separate one
  num_copies = parallel.num_devices if jax.default_backend() == 'cpu' else 1
  return training.rows.in_memory(training.settings.resident_bytes // num_copies)


def _gathered_batches(
  training: Training, parallel: Parallel, arrays: ArrayRows, begin: int
) -> Iterator[Columns]:
  """Copies all training data to the devices, and returns the batches from step `begin` on.

  A separate program gathers each batch on the devices. The training step is therefore compiled for
  the shape of a batch, whatever the number of images.
  """
  columns = _check_batch(training, {'image': np.asarray(arrays.images), **arrays.without_images()})
  copy_to_devices = parallel.compile(lambda tree: tree, (REPLICATED,), REPLICATED)
  rows = copy_to_devices(parallel.replicate(columns))
  order, size = training.order, training.settings.batch_size

  def gather(rows: Columns, indices: jax.Array, sampler_columns: Columns) -> Columns:
    """Selects rows of the data by index, and adds the columns of the sampler."""
    # every index is the index of a row, so that XLA need not clip them
    selected = {name: rows[name].at[indices].get(mode='promise_in_bounds') for name in rows}
    return {**selected, **sampler_columns}

  compiled_gather = parallel.compile(gather, (REPLICATED, BATCH, BATCH), BATCH)

  def batch(step: int) -> Columns:
    """Returns the batch of a step, as arrays on the devices."""
    first, end = share_of_batch(step, size)  # of the endless sequence of rows that `order` draws
    indices = order.positions(first, end).astype(np.int32)
    return compiled_gather(rows, *parallel.put_batch((indices, order.columns(first, end))))

  return (batch(step) for step in range(begin, training.total_steps))


def _check_batch(training: Training, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns the checked columns of a batch; raises InputError if they do not fit the training."""
  columns = check_batch(dict(batch), training.rows.image_shape, training.num_classes)
  training.check_columns(columns)
  return columns


def read_ahead(source: Iterator[Columns]) -> Iterator[Columns]:
  """Prefetches: yields the elements of `source`, but takes each `AHEAD` elements earlier.

  Taking a batch starts its copy to the devices, which then overlaps with the steps before it.
  """
  buffer = collections.deque(itertools.islice(source, AHEAD))
  while buffer:
    yield buffer.popleft()
    buffer.extend(itertools.islice(source, 1))


def compiled_step(training: Training, parallel: Parallel) -> Compiled:
  """Compiles the training step `(state, batch, scalars) -> (state, metrics)` for all devices."""
  # each device has a copy of the state, scalars and metrics, and a part of the batch
  inputs, outputs = (REPLICATED, BATCH, REPLICATED), (REPLICATED, REPLICATED)
  # the new state may take the memory of the old one
  return parallel.compile(TrainStep(training, parallel), inputs, outputs, donate=(0,))


@dataclasses.dataclass
class _Run:
  """The training loop over steps, with logs, evaluations and checkpoints.

  Attributes:
    training: the specification of the training.
    parallel: layout of the devices.
    writer: writer of metrics.
    evaluate: function from variables to {name: number}, or None.
    measure: function of step and variables, or None.
    checkpoints: the checkpoints of the training.
    newest: {name: number}, the newest loss and evaluation, shown in the progress line.
  """

  training: Training
  parallel: Parallel
  writer: ScalarWriter
  evaluate: Evaluate | None
  measure: Callable[[int, Variables], None] | None
  checkpoints: Checkpoints
  newest: dict[str, float] = dataclasses.field(default_factory=dict)

  def __post_init__(self) -> None:
    """Sets two attributes that a training loop needs besides its fields.

    They are `settings`, the section `config.training`, and `meter`, which collects the metrics of
    steps on the devices until they are written.
    """
    self.settings = self.training.settings
    self.meter = Meter(
      self.settings.batch_size, lambda metrics: jax.device_get(self.parallel.unreplicate(metrics))
    )

  def steps(self, state: TrainState, label: str) -> TrainState:
    """Takes the remaining steps of the training and shows a progress line.

    Args:
      state: the state to start from.
      label: title of the progress line.

    Returns:
      The last state, with one copy of each replicated array.

    Raises:
      Preempted: The run received SIGTERM; the state is saved.
    """
    training, size, begin = self.training, self.settings.batch_size, int(state.step)
    on_devices = batches(training, self.parallel, begin)
    take_step = compiled_step(training, self.parallel)
    scalars_at = jax.jit(training.scalars)
    state = self.parallel.replicate(state)
    with (
      StopRequest(self.parallel.num_processes) as stop,
      Progress(training.total_steps * size, label, 'images', initial=begin * size) as progress,
    ):
      # `step` is the number of steps taken, 1 after the first one; scalars count steps from 0
      for step, batch in enumerate(on_devices, start=begin + 1):
        scalars = self.parallel.replicate(scalars_at(np.int32(step - 1)))
        state, metrics = take_step(state, batch, scalars)
        self.meter.add(step, metrics)
        progress.advance(size)
        self._log(step)
        state = self._evaluate_if_due(step, state, progress)
        self._measure_if_due(step, state, progress)
        progress.show(self.newest)
        self._save_if_due(step, state, stop.must_stop(step))
      self.checkpoints.wait()  # while SIGTERM is still deferred
      if stop.received:
        raise self._preempted(training.total_steps)
    return self.parallel.unreplicate(state)

  def _log(self, step: int) -> None:
    """Writes mean metrics every `log_every_steps` steps and after the last step.

    Means are over the steps since the previous log line.
    """
    if step % self.settings.log_every_steps == 0 or step == self.training.total_steps:
      values = self.meter.summary()
      values['epoch'] = step * self.settings.batch_size / self.training.rows.num_examples
      self.writer.write_scalars(step, {f'train/{name}': value for name, value in values.items()})
      self.newest['loss'] = values['loss']

  def _evaluate_if_due(self, step: int, state: TrainState, progress: Progress) -> TrainState:
    """Evaluates the weights every `evaluate_every_epochs` epochs and after the last step.

    Args:
      step: number of steps taken.
      state: the state after them.
      progress: the progress line, which shows that an evaluation runs.

    Returns:
      The state. With `keep='best'` its `best` is replaced if the accuracy is the highest so far.
    """
    is_last = step == self.training.total_steps
    is_due = is_last or schedule.is_evaluated(step, self.settings, self.training.rows.num_examples)
    if self.evaluate is None or not is_due:
      return state
    self.meter.flush()  # raises before weights that are not finite are evaluated
    single = self.parallel.unreplicate(state)
    with progress.other_work('evaluation'):
      # the averaged weights, if the training has an average
      numbers = dict(self.evaluate(single.variables))
      # the weights of the optimizer; with `lookahead` they are not evaluated
      if self.settings.ema_decay:
        raw = self.evaluate(single.raw_variables)
        numbers |= {f'raw_{name}': value for name, value in raw.items()}
    self.writer.write_scalars(step, {f'evaluation/{name}': x for name, x in numbers.items()})
    self.newest.update(numbers)
    self.meter.pause()
    if self.settings.keep != BEST or single.best['score'] >= numbers['accuracy']:
      return state
    copied = jax.tree.map(np.array, single.variables)
    best = {**copied, 'score': np.float32(numbers['accuracy']), 'step': np.int32(step)}
    return state.replace(best=self.parallel.replicate(best))

  def _measure_if_due(self, step: int, state: TrainState, progress: Progress) -> None:
    """Calls `measure` after the steps that `measure_at` selects and after the last step.

    Args:
      step: number of steps taken.
      state: the state after them.
      progress: the progress line, which shows that studies are measured.
    """
    is_last = step == self.training.total_steps
    is_due = is_last or schedule.is_measured(step, self.settings, self.training.rows.num_examples)
    if self.measure and is_due:
      self.meter.flush()  # raises InputError if the training has diverged, before it is measured
      variables = self.parallel.unreplicate(state).variables
      with progress.other_work('evaluation'):
        self.measure(step, jax.tree.map(np.asarray, variables))
      self.meter.pause()  # the images per second leave out this time

  def _save_if_due(self, step: int, state: TrainState, is_stopped: bool) -> None:
    """Saves a checkpoint every `checkpoint_every_steps` steps, after the last, and on SIGTERM.

    Args:
      step: number of steps taken.
      state: the state after them.
      is_stopped: whether the run received SIGTERM.

    Raises:
      Preempted: `is_stopped` is True, and the state is saved.
    """
    is_last = step == self.training.total_steps
    if not (is_stopped or is_last or schedule.is_saved(step, self.settings)):
      return
    self.meter.flush()  # raises before a state that is not finite is saved
    self.writer.flush()
    self.checkpoints.save(self.parallel.unreplicate(state))
    if is_stopped:
      self.checkpoints.wait()
      raise self._preempted(step)

  def _preempted(self, step: int) -> Preempted:
    """Returns the error that ends a run on SIGTERM, once the state after `step` is saved."""
    event = f'stopped by SIGTERM after step {step} of {self.training.total_steps} and saved'
    return Preempted(f'{event}. Run the same command to resume.')


class Meter:
  """Collects metrics of training steps on the devices, and averages them for log lines.

  Metrics are copied to the host in one transfer for a log line. The meter also keeps the host at
  most `LAG` steps ahead of the devices, so that few batches are held in memory.
  """

  def __init__(
    self, batch_size: int, fetch: Callable[[Sequence[Metrics]], Sequence[Metrics]] = jax.device_get
  ):
    """Starts without metrics.

    Args:
      batch_size: number of images per step.
      fetch: function that copies the metrics of several steps to the host.
    """
    self._batch_size, self._fetch = batch_size, fetch
    self._running: collections.deque[Metrics] = collections.deque()  # of steps that may still run
    self._collected: list[tuple[int, Metrics]] = []  # (step, metrics) that are not fetched yet
    self._values: dict[str, list[float]] = collections.defaultdict(list)  # fetched, by metric
    # images per second are `_rate_images` / (now − `_rate_begin`); None before the first step ended
    self._rate_begin: float | None = None
    self._rate_images = 0

  def add(self, step: int, metrics: Metrics) -> None:
    """Adds the metrics of a step that may still run, and waits for the step `LAG` earlier.

    The first step, and the first after a pause, is waited for itself. Its end starts the clock for
    images per second.

    Args:
      step: number of steps taken.
      metrics: {name: scalar} on the devices.
    """
    self._collected.append((step, metrics))
    self._running.append(metrics)
    while len(self._running) > (0 if self._rate_begin is None else LAG):
      self._wait_for_oldest()

  def flush(self) -> None:
    """Copies the metrics of all added steps to the host, after the steps have ended.

    The meter holds metrics on the devices (`_collected`) until a log line needs them.

    Raises:
      InputError: The loss or the norm of the gradient is not finite at some step.
    """
    while self._running:
      self._wait_for_oldest()
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
    """Stops the clock for images per second until the end of the next step."""
    self._rate_begin, self._rate_images = None, 0

  def summary(self) -> dict[str, float]:
    """Returns {name: mean since the previous call}, with `images_per_second`.

    `learning_rate` is from the last step, not a mean. Images per second leave out the first step
    and the first after a pause, because of compilation. They are missing if no other step has
    ended.
    """
    self.flush()
    end = time.monotonic()
    means = {name: float(np.mean(values)) for name, values in self._values.items()}
    means['learning_rate'] = self._values['learning_rate'][-1]
    if self._rate_begin is not None and self._rate_images:
      means['images_per_second'] = self._rate_images / (end - self._rate_begin)
    self._values.clear()
    self._rate_begin, self._rate_images = end, 0
    return means

  def _wait_for_oldest(self) -> None:
    """Waits until the oldest running step has ended, and counts its images.

    The images per second leave out the first step and the first after a pause. The end of such a
    step only starts the clock.
    """
    jax.block_until_ready(self._running.popleft())
    if self._rate_begin is None:
      self._rate_begin = time.monotonic()
    else:
      self._rate_images += self._batch_size
