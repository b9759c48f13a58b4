"""The flags of a run, and the run or its forecast: what `main.py` and `robustness NAME` share."""

from __future__ import annotations

import _thread
import dataclasses
import itertools
import json
import os
import pathlib
import shlex
import statistics
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from absl import app, flags, logging

from robustness import parallel, run
from robustness.classifiers import ClassifierBuilder
from robustness.cli import command_line
from robustness.cli.explain import explain
from robustness.config import experiment as experiments
from robustness.config import packaged
from robustness.config.experiment import Experiment
from robustness.config.recipe import ClassifierSettings
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import Section, without_inherited
from robustness.evaluation.measurements import TOTAL
from robustness.evaluation.records import PREDICTIONS, Layout, Shard
from robustness.evaluation.runner import Evaluator
from robustness.measure import evaluator_for, recording_name
from robustness.models.classifier import Classifier
from robustness.models.projection import match_labels
from robustness.parallel import Parallel
from robustness.parallel.processes import ALONE, Processes
from robustness.present import text
from robustness.results import Table
from robustness.training import schedule
from robustness.training.loop import compiled_step, open_feed
from robustness.training.state import TrainState
from robustness.training.training import Training

SOON = 0.25  # seconds
INTERRUPTED = 'interrupted before the run began; the same command begins it.'

_WHAT = 'What to run: a file of configs/, the name of one (fourier_heatmap:cifar10), or config.json'
flags.DEFINE_string('config', None, f'{_WHAT} of a workdir.')
WORKDIR = flags.DEFINE_string('workdir', None, 'Where the run writes everything; resumed if there.')
PRINT_CONFIG = flags.DEFINE_bool('print_config', False, 'Print the config as JSON; run nothing.')
DRY_RUN = flags.DEFINE_bool(
  'dry_run', False, 'Print rows, views, sizes and a measured estimate of the time; write nothing.'
)
COORDINATOR = flags.DEFINE_string('coordinator', '', 'HOST:PORT of process 0, for several.')
NUM_PROCESSES = flags.DEFINE_integer('num_processes', 1, 'Processes that share the run.', 1)
PROCESS_ID = flags.DEFINE_integer('process_id', 0, "This process's number.", 0)
_ASKED = 'Asks the cluster (SLURM, TPU pod, Kubernetes, Open MPI) for the three above.'
DISTRIBUTED = flags.DEFINE_bool('distributed', False, _ASKED)
JOIN_TIMEOUT = flags.DEFINE_integer('join_timeout', 120, 'Seconds to wait for all processes.', 1)
_KEPT = "Folder that keeps compiled programs; by default in the user's cache folder, '' for none."
COMPILATION_CACHE = flags.DEFINE_string('compilation_cache', None, _KEPT)

UNUSED = pathlib.Path('unused')  # where a training would leave its checkpoints
PROBE_SECONDS, FEWEST_REPEATS, MOST_REPEATS = 0.5, 2, 20
PROBED_VIEWS = 4
_MEMBER_BYTES = 128 + 76 + 20 + 2 * 4  # of an array in an .npz file, beside its values and name


def begin(arguments: Sequence[str], typed: Sequence[str]) -> NoReturn:
  """Reads the process's name and flags and runs, or ends with one line that says what is wrong.

  `typed` are the words of the command as they were typed, for the report.
  """
  try:
    config, rest = command_line.read(arguments)
    if config is not None and {'-h', '--help'} & set(rest):
      reference, own = str(command_line.reference(rest)), flags.FLAGS.get_flags_for_module(__name__)
      variants = command_line.variants(str(packaged.find(reference.partition(':')[0])))
      print(*explain(reference, variants, config, own), sep='\n')
      sys.exit(0)
    sys.unraisablehook = raise_interrupt_again
    app.run(lambda _: _run(config, shlex.join(typed)), rest, flags_parser=_parse)
  except command_line.InputError as error:
    sys.exit(run.exit_with(run.BAD_INPUT, str(error)))
  except KeyboardInterrupt:
    _end(run.exit_with(run.INTERRUPTED, INTERRUPTED))
  raise AssertionError('app.run ends the process')


def _parse(arguments: list[str]) -> list[str]:
  try:
    rest = flags.FLAGS(arguments)
    if len(rest) > 1:
      raise flags.Error(f'{rest[1]!r} is no flag: give values as --config.KEY=VALUE.')
    if flags.FLAGS.config is None:
      raise flags.Error('give --config=NAME, or a file; `robustness list configs` names them.')
    if WORKDIR.value is None and not (PRINT_CONFIG.value or DRY_RUN.value):
      raise flags.Error('give --workdir=DIR, or --dry_run or --print_config.')
  except flags.Error as error:
    sys.exit(run.exit_with(run.BAD_INPUT, str(error).strip()))
  return rest


def _run(config: command_line.ConfigDict | None, command: str) -> int:
  assert config is not None  # see `_parse`
  if PRINT_CONFIG.value:
    print(json.dumps(config.to_dict(), indent=2))
    return 0
  if DRY_RUN.value:
    return dry_run(config.to_dict())
  processes = Processes(
    COORDINATOR.value, NUM_PROCESSES.value, PROCESS_ID.value, DISTRIBUTED.value, JOIN_TIMEOUT.value
  )
  status = run.main(config, str(WORKDIR.value), command, processes, COMPILATION_CACHE.value)
  if status == run.INTERRUPTED:
    _end(status)
  return status


def raise_interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
  """Raises Ctrl-C once more where it came during a function that may raise nothing.

  Python prints what finalizers and JAX's callback of the garbage collector raise, and goes on.
  """
  if issubclass(unraisable.exc_type, KeyboardInterrupt):
    threading.Timer(SOON, _thread.interrupt_main).start()  # here it would be lost once more
  else:
    sys.__unraisablehook__(unraisable)


def _end(status: int) -> NoReturn:
  """Ends the process at once: XLA's threads may still work, and fail where Python ends."""
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(status)


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


def dry_run(config: Section) -> int:
  """Shows what a config would take on this process's devices; returns the exit status."""
  run.set_logging()
  try:
    run.set_devices(ALONE)
    show_forecast(config)
  except InputError as error:
    return run.exit_with(run.BAD_INPUT, str(error))
  except Exception as error:
    if advice := run.memory_advice(error):
      return run.exit_with(run.BAD_INPUT, advice)
    raise
  return 0


def show_forecast(config: Section) -> None:
  """Prints a table with a line for each piece of work, and the sums; refuses what a run does."""
  if 'predictions' in config:
    raise InputError('--dry_run: a run that scores predictions shows no images; just run it.')
  experiment = experiments.from_config(without_inherited(config))
  logging.info('probing: each program is compiled and run for a moment …')
  times = max(1, len(experiment.execution.seeds))
  pieces = []
  for piece in forecasts(experiment):
    logging.info('probed %s', piece.label)
    pieces.append(piece)
  columns = ('work', 'amount', 'images', 'images/s', 'records', 'memory a device', 'time')
  for line in ('', *text.lines(Table(columns, [*map(_row, pieces)])), ''):
    logging.info('%s', line)
  logging.info(
    'in all %s%s, records %s; nothing was written',
    duration(times * sum(piece.seconds for piece in pieces)),
    f' for {times} seeds' if times > 1 else '',
    size(times * sum(piece.record_bytes for piece in pieces)),
  )


def forecasts(experiment: Experiment) -> Iterator[Forecast]:
  """Yields what each training and evaluation of a run takes, in their order; of one seed.

  Tasks of a battery that share a recording count once, under the name of the first, and classifiers
  that a task cannot measure do not.
  """
  rows = run.OpenedRows(experiment)
  run.check_studies(experiment, rows)
  builder = run.builder_for(experiment, rows, UNUSED)
  run.check_measurable(experiment, list(builder.planned.values()), rows)
  classifiers: list[Classifier] = []
  trained, known = builder.to_train(), dict[Hashable, Forecast]()
  for label, classifier in builder.planned.items():
    if label in trained:
      classifier, pieces = _trained(builder, label, trained[label], known)
      yield from pieces
    classifiers.append(classifier)
  execution, recordings = experiment.execution, set()
  ways = parallel.create(execution.parallel)
  for name, task in experiment.measurements.items():
    study, shown = task.study, rows[task.data]
    recording = recording_name(study, shown)
    if recording in recordings:
      continue
    recordings.add(recording)
    used, _ = run.split_supported(study, classifiers, shown, experiment.is_single)
    for measured in used if study.needs_classifier else [None]:
      own = match_labels(shown, measured) if measured else shown
      evaluator = evaluator_for(execution, study, measured, own, ways)
      design = study.sequential_design
      count = design.most_trials if design else own.num_examples
      layout = evaluator.layout(count, execution.batch_size, execution.views_per_step)
      recipe = experiment.classifiers.get(evaluator.name)
      key = (recording, _network(recipe)) if recipe else recording
      piece = _evaluation(evaluator, own, layout, known, key)
      phase = evaluator.phase if experiment.is_single else name
      yield dataclasses.replace(piece, label=f'{evaluator.name}: {phase}')


def _network(recipe: ClassifierSettings) -> Hashable:
  """Returns what the program of a classifier depends on: those of equal ones are measured once."""
  weights = recipe.weights, recipe.initial_weights, recipe.positions, recipe.train
  parts = recipe.input_filter, recipe.probe, recipe.adaptation
  return recipe.name, *weights, recipe.label_space, recipe.merge, *parts


def _trained(
  builder: ClassifierBuilder,
  label: str,
  recipe: ClassifierSettings,
  known: dict[Hashable, Forecast],
) -> tuple[Classifier, list[Forecast]]:
  initial = builder.initial(recipe)
  training, accuracy = builder.training(recipe, initial), builder.accuracy(label, recipe)
  state = training.initial_state()
  weights = jax.tree.map(np.asarray, state.variables)  # a step donates those of the state
  way = builder.parallel(recipe.training)
  steps = _training(training, state, way, f'{label}: training')
  network, shown = dataclasses.replace(accuracy.classifier, variables=weights), accuracy.rows
  evaluator = dataclasses.replace(accuracy.evaluator, classifier=network)
  key, layout = ('training', _network(recipe), recipe.data), evaluator.layout(shown.num_examples)
  once = _evaluation(evaluator, shown, layout, known, key)
  settings, last = training.settings, training.total_steps
  examples = training.rows.num_examples
  times = 1 + sum(schedule.is_due(step, settings, examples) for step in range(1, last))
  between = f'{label}: evaluations in between', f'{times} × {shown.num_examples:,} rows'
  evaluations = dataclasses.replace(
    once, label=between[0], amount=between[1], images=once.images * times, record_bytes=0
  )
  return builder.trained_network(label, recipe, initial, weights), [steps, evaluations]


def _training(training: Training, initial: TrainState, parallel: Parallel, label: str) -> Forecast:
  """Measures the first steps, reading included, from the initial weights."""
  training.check_layout(parallel)
  feed = open_feed(training, parallel, 0)
  step = compiled_step(training, parallel, feed)
  state = parallel.replicate(initial)
  batches = feed.steps(0)
  first = next(batches)
  waiting = itertools.chain([first], batches)

  def take() -> jax.Array:
    nonlocal state
    state, metrics = step(state, feed.resident, next(waiting))
    return metrics['loss']

  size, steps = training.settings.batch_size, training.total_steps
  most = min(MOST_REPEATS, steps - 1)
  probe = measured(take, most, step, (state, feed.resident, first))
  amount, rate = f'{steps:,} steps × {size:,} images', size / probe.seconds
  return Forecast(label, amount, steps * size, rate, probe.compiling, 0, probe.memory)


def _evaluation(
  evaluator: Evaluator, rows: Rows, layout: Layout, known: dict[Hashable, Forecast], key: Hashable
) -> Forecast:
  """Measures one step on the first rows in a few views, spread evenly over all; one that is `known`
  is not measured again, and a run does not compile it again either."""
  if key in known:
    return dataclasses.replace(known[key], compile_seconds=0.0)
  views = evaluator.views
  count = min(PROBED_VIEWS, layout.chunk_views)
  spread = np.linspace(0, len(views) - 1, count).round().astype(int)
  parameters = {name: values[spread] for name, values in views.parameters.items()}
  few = dataclasses.replace(views, ids=views.ids[spread], parameters=parameters)
  probe = dataclasses.replace(evaluator, views=few)
  size = min(evaluator.step_rows(layout), layout.num_rows)
  part = Layout(layout.num_rows, count, size, count)
  blocks = list(probe.placed(rows, part, [0]))
  replicate = probe.parallel.replicate
  variables = replicate(probe.classifier.variables) if probe.classifier else None
  step: Any = None
  given: Sequence[Any] = ()
  if not (probe.classifier and (probe.classifier.host_function or probe.classifier.adaptation)):
    chunk = replicate((few.ids, dict(few.parameters)))
    step, given = probe.compiled, (variables, blocks[0].parts[0], chunk)
  taken = measured(
    lambda: [s for *_, s in probe.shards_of(blocks, part, {0: [0]})], MOST_REPEATS, step, given
  )
  blocks_of_rows = map(layout.rows, range(layout.num_blocks))
  steps = sum(-(-(rows.stop - rows.start) // size) for rows in blocks_of_rows)
  images = layout.num_rows * layout.num_views
  known[key] = Forecast(
    f'{evaluator.name}: {evaluator.phase}',
    f'{layout.num_rows:,} rows × {layout.num_views:,} views',
    images,
    images / (steps * layout.num_views * taken.seconds / count),
    taken.compiling,
    _record_bytes(taken.made[0], layout),
    taken.memory,
  )
  return known[key]


def _record_bytes(shard: Shard, layout: Layout) -> int:
  """Returns the bytes of all shards of a table, from one shard with fewer rows and views."""
  rows, views = (part.stop - part.start for part in (shard.rows, shard.views))
  shards = layout.num_blocks * layout.num_chunks
  total = 0.0
  for name, values in shard.arrays.items():
    if name.startswith(TOTAL):  # for each view of a block
      total += values.nbytes / views * layout.num_views * layout.num_blocks
    elif name in PREDICTIONS or '/' in name:  # for each row and view
      total += values.nbytes / (rows * views) * layout.num_rows * layout.num_views
    else:  # for each row of a chunk of views
      total += values.nbytes / rows * layout.num_rows * layout.num_chunks
    total += shards * (_MEMBER_BYTES + 2 * len(name))
  return round(total)


@dataclasses.dataclass(frozen=True)
class Probe:
  """A program measured: bytes that it needs on each device (None if XLA does not say), seconds that
  the first call takes beyond a later one, seconds of a later one, and what it made."""

  memory: int | None
  compiling: float
  seconds: float
  made: Any


def measured(
  work: Callable[[], Any], most: int, step: Any = None, arguments: Sequence[Any] = ()
) -> Probe:
  """Compiles the program of a `step` of `Parallel.compile` on these arguments, if there is one, and
  then does the work at most `most` times after the first, which compiles nothing (see `timed`)."""
  begun, memory = time.perf_counter(), None
  if step is not None:
    memory = _memory(step.lower(*arguments).compile().memory_analysis())
  compiling = time.perf_counter() - begun
  made: list[Any] = []
  first, later = timed(lambda: made.append(jax.block_until_ready(work())), most)
  return Probe(memory, compiling + first, later, made[0])


def timed(work: Callable[[], Any], most: int = MOST_REPEATS) -> tuple[float, float]:
  """Does some work several times, at most `most` after the first.

  Returns seconds of the first time beyond a later one, and of a later one: the median of those of
  about `PROBE_SECONDS`, at least `FEWEST_REPEATS` of them. Work done once counts as both.
  """
  times: list[float] = []
  while len(times) <= most and (len(times) <= FEWEST_REPEATS or sum(times[1:]) < PROBE_SECONDS):
    begun = time.perf_counter()
    work()
    times.append(time.perf_counter() - begun)
  later = statistics.median(times[1:] or times)
  return max(0.0, times[0] - later), later


def _memory(sizes: Any) -> int | None:
  if sizes is None:
    return None
  held = sizes.argument_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
  return held + sizes.temp_size_in_bytes


def _row(piece: Forecast) -> tuple[str, ...]:
  memory = '-' if piece.memory_bytes is None else size(piece.memory_bytes)
  records = size(piece.record_bytes) if piece.record_bytes else '-'
  counts = (f'{piece.images:,}', f'{piece.images_per_second:,.0f}')
  return piece.label, piece.amount, *counts, records, memory, duration(piece.seconds)


def size(count: float) -> str:
  """Returns bytes as a reader wants them, such as `12.3 MiB`."""
  for unit in ('B', 'KiB', 'MiB', 'GiB'):
    if count < 1024:
      return f'{count:.0f} {unit}' if unit == 'B' else f'{count:.1f} {unit}'
    count /= 1024
  return f'{count:.1f} TiB'


def duration(seconds: float) -> str:
  """Returns a time in seconds, minutes or hours, such as `3 min`."""
  if seconds < 100:
    return f'{seconds:.0f} s'
  return f'{seconds / 60:.0f} min' if seconds < 6000 else f'{seconds / 3600:.1f} h'
