"""The flags of a run and what it does with them, for `main.py` and `robustness NAME`."""

from __future__ import annotations

import _thread
import json
import os
import pathlib
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

import jax
from absl import app, flags, logging

from robustness import launch
from robustness.building import checks
from robustness.cli import command_line, logs, overview, process
from robustness.cli.explain import explain
from robustness.cli.process import BAD_INPUT, INTERRUPTED, PREEMPTED, exit_with
from robustness.config import experiment as experiments
from robustness.config import packaged
from robustness.config.experiment import Experiment
from robustness.config.recorded import recorded
from robustness.core import compilation_cache, disk, environment_variables, plain_characters
from robustness.core.errors import InputError, causes, error_of_user, exits_refused
from robustness.core.paths import expanded
from robustness.core.precision import in_32_bits
from robustness.core.progress import phase
from robustness.core.rows import Rows
from robustness.core.settings import Section
from robustness.corruptions.textures import PACKAGE
from robustness.corruptions.views import CorruptionViews
from robustness.estimates.jackknife import FEWEST_SEEDS
from robustness.evaluation.study import IMAGES, Study
from robustness.measurement import recording_name
from robustness.parallel import processes as peers
from robustness.present import page, text
from robustness.results import Results, Table
from robustness.training import schedule
from robustness.training.evaluation import split_validation
from robustness.training.preemption import Preempted
from robustness.training.settings import TrainingSettings

INTERRUPT_DELAY = 0.25
"""Seconds before a Ctrl-C that Python swallowed is raised again, see `raise_interrupt_again`."""
NOT_BEGUN = 'interrupted before the run began. Run the same command to begin it.'
"""The message after Ctrl-C before anything was written."""

_HELP = 'What to run: a file of configs/, the name of one (fourier_heatmap:cifar10), or config.json'
flags.DEFINE_string('config', None, f'{_HELP} of a workdir.')
WORKDIR = flags.DEFINE_string('workdir', None, 'Where the run writes everything; resumed if there.')
PRINT_CONFIG = flags.DEFINE_bool('print_config', False, 'Print the config as JSON; run nothing.')
_PLAN = 'Print what would be trained and measured; write nothing.'
DRY_RUN = flags.DEFINE_bool('dry_run', False, _PLAN)
COORDINATOR = flags.DEFINE_string('coordinator', '', 'HOST:PORT of process 0, for several.')
NUM_PROCESSES = flags.DEFINE_integer('num_processes', 1, 'Processes that share the run.', 1)
PROCESS_ID = flags.DEFINE_integer('process_id', 0, "This process's number.", 0)
_DISTRIBUTED_HELP = 'Asks the cluster (SLURM, TPU pod, Kubernetes, Open MPI) for the three above.'
DISTRIBUTED = flags.DEFINE_bool('distributed', False, _DISTRIBUTED_HELP)
JOIN_TIMEOUT = flags.DEFINE_integer('join_timeout', 120, 'Seconds to wait for all processes.', 1)
_CACHE = "Folder that keeps compiled programs; by default in the user's cache folder, '' for none."
COMPILATION_CACHE = flags.DEFINE_string('compilation_cache', None, _CACHE)


def begin(arguments: Sequence[str], typed: Sequence[str]) -> NoReturn:
  """Reads the command line, runs the config that it names, and ends the process.

  Bad flags or a bad config are reported in one line. With a config and `--help`, the process prints
  the settings of the config instead of a run. `--help=WORD` prints only settings with the word, or
  without a config all places where the word occurs.

  Args:
    arguments: name of the process, and the flags.
    typed: the words of the command as the user typed them, for the report.
  """
  plain_characters.use()  # escapes control characters in what is printed
  try:
    with exits_refused():  # a `sys.exit` in the user's files is an error
      config, other_arguments = command_line.read(arguments)
    help_flags = [text for text in other_arguments if text.partition('=')[0] in ('-h', '--help')]
    word = help_flags[0].partition('=')[2] if help_flags else ''
    if help_flags and (config is not None or word):
      print(*_help_lines(config, other_arguments, word), sep='\n')
      sys.exit(0)
    sys.unraisablehook = raise_interrupt_again
    app.run(lambda _: _run(config, typed, arguments), other_arguments, flags_parser=_parse)
  except command_line.InputError as error:
    sys.exit(exit_with(BAD_INPUT, str(error)))
  except KeyboardInterrupt:
    _end_process(exit_with(INTERRUPTED, NOT_BEGUN))
  raise AssertionError('app.run ends the process')


def _help_lines(
  config: command_line.ConfigDict | None, arguments: Sequence[str], word: str
) -> Iterator[str]:
  """Returns the lines of a config's help.

  Without a config they are the places where `word` occurs.

  Args:
    config: the config with the changes on the command line, or None.
    arguments: the command line without changes of the config; it has `--config=FILE`.
    word: if given, only settings with this word are shown.
  """
  if config is None:
    return overview.matching(word)
  reference = str(command_line.reference(arguments))
  run_flags = flags.FLAGS.get_flags_for_module(__name__)
  with exits_refused():
    variants = command_line.variants(str(packaged.find(reference.partition(':')[0])))
  return explain(reference, variants, config, run_flags, word)


def _parse(arguments: list[str]) -> list[str]:
  """Sets absl's flags and returns the arguments that are no flags.

  A bad flag ends the process.
  """
  try:
    unparsed = flags.FLAGS(arguments)
    if len(unparsed) > 1:
      raise flags.Error(f'{unparsed[1]!r} is no flag: give values as --config.KEY=VALUE.')
    if flags.FLAGS.config is None:
      raise flags.Error('give --config=NAME, or a file; `robustness list configs` names them.')
    if WORKDIR.value is None and not (PRINT_CONFIG.value or DRY_RUN.value):
      raise flags.Error('give --workdir=DIR, or --dry_run or --print_config.')
  except flags.Error as error:
    sys.exit(exit_with(BAD_INPUT, str(error).strip()))
  return unparsed


def _run(
  config: command_line.ConfigDict | None, typed: Sequence[str], arguments: Sequence[str]
) -> int:
  """Runs a config, or prints it with `--print_config`, or plans it with `--dry_run`.

  Hints are printed after bad input if the flags seem to lack `train=False` or a data source, and
  after a run if they leave out studies of a battery.

  Args:
    config: the config with all changes.
    typed: the words of the command as the user typed them, for the report.
    arguments: the flags.

  Returns:
    The exit status.
  """
  assert config is not None  # see `_parse`
  if PRINT_CONFIG.value:
    print(json.dumps(recorded(config.to_dict()), indent=2))
    return 0
  status = dry_run(config.to_dict()) if DRY_RUN.value else _run_here(config, shlex.join(typed))
  hints = []
  if status == BAD_INPUT:
    hints = [command_line.training_hint(config, arguments)]
    hints.append(command_line.data_hint(config, arguments))
  elif status == 0:
    hints = [command_line.tasks_hint(config, arguments)]
  for hint in filter(None, hints):
    print(hint, file=sys.stderr)
  return status


def _run_here(config: command_line.ConfigDict, command: str) -> int:
  """Runs a config with the flags of this process, and returns the exit status.

  Ctrl-C ends the process at once.
  """
  processes = peers.Processes(
    COORDINATOR.value, NUM_PROCESSES.value, PROCESS_ID.value, DISTRIBUTED.value, JOIN_TIMEOUT.value
  )
  status = run_command(config, str(WORKDIR.value), command, processes, COMPILATION_CACHE.value)
  if status == INTERRUPTED:
    _end_process(status)
  return status


def run_command(
  config: command_line.ConfigDict,
  directory: str,
  command: str,
  processes: peers.Processes = peers.ALONE,
  compiled: str | None = '',
) -> int:
  """Runs a config, and prints errors that a user can correct without a traceback.

  Args:
    config: the config with all changes.
    directory: the workdir, the folder for results and checkpoints.
    command: the command as the user typed it, for the report.
    processes: the processes that share the run.
    compiled: folder of compiled programs. '' stores none, None takes the default folder.

  Returns:
    The exit status. 0 is success, 2 bad input or a full or read-only disk, 75 the end by SIGTERM or
    by another process, and 130 the end by Ctrl-C. After 75 and 130 the same command resumes the
    run.
  """

  def run() -> None:
    """Runs the config in this process; only the first of several processes logs the summary.

    It raises errors that `run_command` prints and converts to an exit status.
    """
    path = expanded(directory).absolute()
    compilation_cache.use(compiled)
    process.set_devices(processes)
    peers.check_config(config.to_dict())
    peers.check_workdir(path)
    with exits_refused():
      results = launch.run(config.to_dict(), directory, command)
    if jax.process_index() == 0:
      log_summary(results, path)

  logs.set_up()
  return processes.end_together(lambda: _exit_status(run, directory))


def _exit_status(work: Callable[[], None], directory: str = '') -> int:
  """Calls a function and returns the exit status of the command.

  Errors that a user can correct, and the end by a signal, are printed as one message. Other errors
  are raised.

  Args:
    work: the function.
    directory: the workdir that it writes to; '' if it writes nothing.
  """
  try:
    work()
  except InputError as error:
    return exit_with(BAD_INPUT, str(error))
  except Preempted as stop:
    return exit_with(PREEMPTED, str(stop))
  except (Exception, KeyboardInterrupt) as error:
    saved = f' Finished work is saved in {directory}.' if directory else ''
    is_interrupted = any(isinstance(cause, KeyboardInterrupt) for cause in causes(error))
    if is_interrupted and directory:
      return exit_with(INTERRUPTED, f'interrupted.{saved} Run the same command to resume.')
    if peers.peer_is_lost(error):
      raise  # the caller ends all processes together
    if advice := process.memory_advice(error):
      return exit_with(BAD_INPUT, f'{advice}{saved}')
    if advice := environment_variables.advice(error) or disk.advice(error, directory):
      return exit_with(BAD_INPUT, advice)
    if error_in_user_file := error_of_user(error):
      return exit_with(BAD_INPUT, str(error_in_user_file))
    raise
  return 0


def log_summary(results: Results, path: pathlib.Path) -> None:
  """Logs the results as a table, the findings in words, and where results and report are."""
  findings = text.findings(results.findings)
  outputs = f'results in {path}, report: {path / page.NAME}'
  for line in ('', *text.summary(results), '', *findings, '', outputs):
    logging.info('%s', line)


def raise_interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
  """Interrupts the program if Ctrl-C came while Python ran a finalizer.

  In a finalizer, or in JAX's callback of the garbage collector, Python prints a KeyboardInterrupt
  and continues. As `sys.unraisablehook`, this function is called with such errors, and interrupts
  the main thread again a little later.
  """
  if issubclass(unraisable.exc_type, KeyboardInterrupt):
    # An error that is raised here would be lost once more.
    threading.Timer(INTERRUPT_DELAY, _thread.interrupt_main).start()
  else:
    sys.__unraisablehook__(unraisable)


def _end_process(status: int) -> NoReturn:
  """Ends the process at once with an exit status.

  A normal end would wait for XLA's threads, which may still work and fail while Python ends.
  """
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(status)


def dry_run(config: Section) -> int:
  """Prints what a config would train and measure, without running it.

  Returns the exit status, 0 or 2 for bad input.
  """

  def show() -> None:
    """Logs the plan of the config."""
    process.set_devices(peers.ALONE)
    with exits_refused():  # a `sys.exit` in the user's files is an error
      show_plan(config)

  logs.set_up()
  return _exit_status(show)


@in_32_bits()
def show_plan(config: Section) -> None:
  """Logs the settings of a config, and a line for each training and each evaluation.

  Raises:
    InputError: the run would be refused, or it scores predictions from files, for which there is
      nothing to plan.
  """
  if 'predictions' in config:
    raise InputError('--dry_run: a run that scores predictions shows no images; just run it.')
  experiment = experiments.from_config(config)
  seeds = experiment.execution.seeds
  with phase('images and checks of the config'):
    planned = [*planned_work(experiment)]
  lines = text.lines(Table(('work', 'amount', 'images'), planned))
  settings = settings_by_section(recorded(config))
  for line in ('', *settings, '', *lines, '', *shortcomings(experiment)):
    logging.info('%s', line)
  logging.info('%snothing was written', f'for each of {len(seeds)} seeds; ' if seeds else '')


def shortcomings(experiment: Experiment) -> Iterator[str]:
  """Yields sentences on what the results of a run will lack.

  For instance, too few seeds have no intervals. mCE is not comparable with published values if
  frost is not made from photographs.
  """
  seeds = experiment.execution.seeds
  if 0 < len(seeds) < FEWEST_SEEDS:
    yield f'{len(seeds)} seeds give no intervals over seeds; {FEWEST_SEEDS} are the fewest'
  for task, study in experiment.studies.items():
    if isinstance(study, CorruptionViews) and study.has_drawn_frost:
      yield (
        'frost is drawn, not photographed: mCE will not be comparable with published values '
        f'(pip install {PACKAGE}, {experiment.section_of_study(task)}.photographs={PACKAGE})'
      )


def settings_by_section(values: Section, name: str = 'config') -> Iterator[str]:
  """Yields a line for each section of a config with settings: 'config.data: source='tfds', …'.

  Args:
    values: the section; its subsections follow.
    name: name of the section.
  """
  settings = [f'{k}={v!r}' for k, v in values.items() if not isinstance(v, Mapping)]
  if settings:
    yield f'{name}: {", ".join(settings)}'
  for key, section in values.items():
    if isinstance(section, Mapping):
      yield from settings_by_section(section, f'{name}.{key}')


def planned_work(experiment: Experiment) -> Iterator[tuple[str, str, str]]:
  """Yields the cost of each training and each evaluation of a run with one seed.

  A line is (name, amount in words, number of images), such as ('net: fog', '1,000 rows × 5 views',
  '5,000'). A view is one way of perturbing images. Studies of a battery (several studies in a
  config) that share predictions have one line, with the name of the first. Classifiers that a study
  cannot measure are left out. Tables that studies show before a training are logged.

  Args:
    experiment: the parsed config.
  """
  rows = launch.OpenedRows(experiment)
  builder = launch.builder_for(experiment, rows, pathlib.Path())
  recipes = checks.check_studies(builder, rows)
  launch.preview(experiment, rows, recipes, folders=())  # logs the tables
  classifiers = [*builder.checked_classifiers.values()]
  checks.check_measurable(experiment, classifiers, rows)
  for label, recipe in builder.to_train().items():
    # Studies that are measured repeatedly during the training.
    tasks = builder.along_tasks(recipe).items()
    along_training = {name: planned_views(*study_and_rows) for name, study_and_rows in tasks}
    training_rows, evaluated = builder.open_rows(recipe), rows[experiment.data]
    yield from _planned_training(label, recipe.training, training_rows, evaluated, along_training)
  # Evaluations after all trainings.
  names_of_records = set()  # which several tasks may share
  for task, measurement in experiment.measurements.items():
    study = measurement.study
    needed_rows = study.needed_rows(rows[measurement.data])
    name_of_records = recording_name(study, needed_rows)
    if name_of_records in names_of_records:
      continue
    names_of_records.add(name_of_records)
    measured, _ = checks.split_supported(study, classifiers, needed_rows, experiment.is_single)
    labels = [c.name for c in measured] if study.needs_classifier else [IMAGES]
    amount, count = planned_views(study, needed_rows)
    for label in labels:
      yield f'{label}: {study.name if experiment.is_single else task}', amount, f'{count:,}'


def planned_views(study: Study, rows: Rows) -> tuple[str, int]:
  """Returns how many images a study measures, in words and as a number.

  For example ('at most 10,000 rows × 76 views', 760000) for 10,000 images under 76 perturbations.
  'at most' is for studies that may stop early.
  """
  shown_rows = study.needed_rows(rows)
  design, num_views = study.sequential_design, len(study.views(shown_rows.image_shape))
  num_rows = design.most_trials if design else shown_rows.num_examples
  limit = 'at most ' if design else ''
  return f'{limit}{num_rows:,} rows × {num_views:,} views', num_rows * num_views


def _planned_training(
  label: str,
  settings: TrainingSettings,
  rows: Rows,
  evaluated: Rows,
  along_training: Mapping[str, tuple[str, int]],
) -> Iterator[tuple[str, str, str]]:
  """Yields the cost of a training and of the evaluations in between.

  A line is (name, amount in words, number of images), such as ('net: training', '400 steps × 128
  images', '51,200').

  Args:
    label: name of the classifier.
    settings: settings of the training.
    rows: the training images, from which validation images are split off.
    evaluated: the images to evaluate on if there are no validation images.
    along_training: {name of a study that is measured repeatedly during the training: (amount of one
      measurement in words, number of images)}.
  """
  fitted, held_out = split_validation(rows, settings.validation)
  num_fitted, size = len(fitted), settings.batch_size  # training images
  steps = schedule.total_steps(settings, num_fitted)
  yield f'{label}: training', f'{steps:,} steps × {size:,} images', f'{steps * size:,}'
  num_due = sum(schedule.is_evaluated(step, settings, num_fitted) for step in range(1, steps))
  num_evaluations = num_due + 1  # the last step is always evaluated
  num_rows = len(held_out) or evaluated.num_examples
  amount = f'{num_evaluations:,} × {num_rows:,} rows'
  yield f'{label}: evaluations in between', amount, f'{num_evaluations * num_rows:,}'
  num_measured = len(schedule.measured_steps(settings, num_fitted))
  for name, (amount_of_study, num_images) in along_training.items():
    amount = f'{num_measured:,} × {amount_of_study}'
    yield f'{label}: {name} along the training', amount, f'{num_measured * num_images:,}'
