"""From a config to a finished workdir: rows, classifiers, records, results, figures, report.

The one module of this package that reaches TensorFlow for rows, through `input_pipeline`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging as standard_logging
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax
from absl import logging
from ml_collections import ConfigDict

import input_pipeline
from input_pipeline.settings import DataSettings
from robustness import parallel, workdir
from robustness.classifiers import ClassifierBuilder, channels, preparation
from robustness.config import experiment as experiments
from robustness.config.experiment import Experiment
from robustness.core import compilation_cache, disk, host, json_files, terminal
from robustness.core.errors import InputError, causes, naming
from robustness.core.paths import expanded
from robustness.core.rows import Rows, refuse_unknown_classes
from robustness.core.settings import Section, without_inherited
from robustness.environments.class_groups import from_settings, with_groups
from robustness.estimates.table import assemble, named_values
from robustness.evaluation import study as studies
from robustness.evaluation.study import IMAGES, Recipes, StudiesTrainings, Study
from robustness.measure import evaluator_for, measure, recording_name
from robustness.models import from_file
from robustness.models.classifier import Classifier
from robustness.models.projection import match_labels
from robustness.parallel import processes as peers
from robustness.present import page, style, summary, text
from robustness.present.publish import Drawn, Presented, captioned, publish
from robustness.results import JSON_NAME, SINGLE, Results, Table, joined, over_seeds
from robustness.training.preemption import Preempted
from robustness.training.writers import NO_WRITER, JsonLinesWriter, ScalarWriter, training_writer

BAD_INPUT, PREEMPTED, INTERRUPTED = 2, peers.RESUMABLE, 130


def main(
  config: ConfigDict,
  directory: str,
  command: str,
  processes: peers.Processes = peers.ALONE,
  compiled: str | None = '',
) -> int:
  """Runs a config (see `run`; `compiled` in `compilation_cache.use`) and turns what the user can
  fix into one message without a traceback.

  Returns:
    The exit status: 0, 2 for bad input or a disk that is full or cannot be written to, 75 when
    stopped by SIGTERM or by the end of another process, and 130 by Ctrl-C, both resumable.
  """
  set_logging()
  return processes.end_together(lambda: _status(config, directory, command, processes, compiled))


def _status(
  config: ConfigDict, directory: str, command: str, processes: peers.Processes, compiled: str | None
) -> int:
  try:
    compilation_cache.use(compiled)
    set_devices(processes)
    peers.check_config(config.to_dict())
    peers.check_workdir(expanded(directory).absolute())
    results, presented = _run(config.to_dict(), directory, command)
  except InputError as error:
    return exit_with(BAD_INPUT, str(error))
  except Preempted as stop:
    return exit_with(PREEMPTED, str(stop))
  except (Exception, KeyboardInterrupt) as error:
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes(error)):
      kept = f'What was computed is kept in {directory}: the same command goes on.'
      return exit_with(INTERRUPTED, f'interrupted. {kept}')
    if peers.peer_is_lost(error):
      raise
    if advice := memory_advice(error):
      return exit_with(BAD_INPUT, f'{advice} {directory} keeps what was computed.')
    if advice := disk.advice(error, directory):
      return exit_with(BAD_INPUT, advice)
    raise
  if jax.process_index() == 0:
    log_summary(results, presented, expanded(directory).absolute())
  return 0


def run(config: Section, directory: str | os.PathLike[str], command: str = '') -> Results:
  """Runs an experiment in a workdir; what the workdir holds already is not computed again.

  Args:
    config: nested plain values; see `configs/`.
    directory: the workdir, new or of the same config.
    command: for environment.json and the report.

  Returns:
    What `results.json` and `results.npz` hold.
  """
  return _run(config, directory, command)[0]


def _run(
  config: Section, directory: str | os.PathLike[str], command: str
) -> tuple[Results, Presented]:
  if 'predictions' in config:
    return _score_predictions(config, directory, command)
  config = without_inherited(config)
  experiment = experiments.from_config(config)
  from_file.forget()
  with workdir.locked(directory):
    report = Report.begin(directory, config, experiment.execution.seed, command)
    path = report.path
    rows = OpenedRows(experiment)
    devices = page.counted_devices(report.environment)
    logging.info('%s on %s', ', '.join(experiment.classifiers) or IMAGES, devices)
    recipes = check_studies(experiment, rows)
    seeds = experiment.execution.seeds
    folders = [path / workdir.seed_folder(seed) for seed in seeds] or [path]
    by_seed = [experiment.with_seed(seed) for seed in seeds] or [experiment]
    builders = [
      builder_for(seeded, rows, folder, path / 'features')
      for seeded, folder in zip(by_seed, folders, strict=True)
    ]
    if builders[0].begins:
      check_measurable(experiment, list(builders[0].planned.values()), rows)
    report.note()
    if jax.process_index() == 0:
      preview(experiment, rows, recipes, folders)
    each = []
    for place, (builder, folder) in enumerate(zip(builders, folders, strict=True)):
      if seeds:
        logging.info('seed %d, %d of %d', seeds[place], place + 1, len(seeds))
      classifiers = builder.build()
      if builder is builders[-1]:
        peers.restore_sigterm()
      each.append(_measure_tasks(builder, classifiers, rows, folder, report))
    if not seeds:
      return each[0]
    results = over_seeds(dict(zip(seeds, (of for of, _ in each), strict=True)))
    presented = summary.of_seeds(experiment.summary, experiment.studies)
    report.write(path, results, presented)
    return results, presented


def _measure_tasks(
  builder: ClassifierBuilder,
  classifiers: Sequence[Classifier],
  rows: OpenedRows,
  folder: pathlib.Path,
  report: Report,
) -> tuple[Results, Presented]:
  """Measures one study, or the tasks of a battery one after another, and reports each at once;
  returns the results of the one study, or those above all tasks, and what presents them."""
  experiment, tasks, figures, left_out = builder.experiment, {}, {}, []
  for name, task in experiment.measurements.items():
    study, data, records = task.study, rows[task.data], folder / workdir.RECORDS
    used, excluded = split_supported(study, classifiers, data, experiment.is_single)
    if not experiment.is_single:
      logging.info('task %s: %s on %d images', name, study.name, data.num_examples)
      records /= recording_name(study, data)
    for label, why in excluded.items():
      logging.info('task %s leaves out %s: %s', name, label, why)
      left_out.append([name, label, why])
    if classifiers and not used:
      continue
    compares = isinstance(study, StudiesTrainings) and study.compares_training_rows
    training = builder.training_rows() if compares else None
    tasks[name] = measure(study, experiment.execution, used, data, records, training)
    figures[name] = report.write(workdir.task_folder(folder, name), tasks[name], study)
  if experiment.is_single:
    return tasks[SINGLE], experiment.studies[SINGLE]
  if not tasks:
    raise InputError(f'no task of the battery can be measured: {left_out[0][2]}.')
  settings, chosen = dataclasses.asdict(experiment.execution), experiment.summary
  own = (chosen.name, chosen.summarise(tasks)) if chosen else ()
  results = joined(tasks, settings, *own)
  if left_out:
    results.tables[workdir.LEFT_OUT] = Table(('task', 'classifier', 'why'), left_out)
  for title, table in results.tables.items():
    for line in (title, *text.lines(table)) if title.partition(': ')[0] not in tasks else ():
      logging.info('%s', line)
  presented = summary.of_battery(chosen, experiment.studies)
  report.write(folder, results, presented, captioned(figures))
  return results, presented


def _score_predictions(
  config: Section, directory: str | os.PathLike[str], command: str
) -> tuple[Results, Presented]:
  """Reduces predictions made elsewhere, or records of an earlier run, without a classifier."""
  sections = dict(config)
  study = studies.from_config(sections.pop('study', {}))
  score = studies.scores_of(study, sections)
  with workdir.locked(directory):
    report = Report.begin(directory, config, sections.get('seed', 0), command)
    evaluations, findings, settings, data = score(report.path / workdir.RECORDS)
    report.note()
    identities = [evaluation.records.identity for evaluation in evaluations]
    classifiers = [
      {'layers': [], **identity['classifier'], 'label': evaluation.label}
      for evaluation, identity in zip(evaluations, identities, strict=True)
    ]
    results = Results(
      study.name,
      classifiers,
      {**(data or identities[0]['data']), 'class_names': identities[0].get('classes', [])},
      settings,
      findings.tables,
      findings.arrays,
      assemble(findings.estimates),
      study.quantities,
    )
    report.write(report.path, results, study)
  return results, study


@dataclasses.dataclass(frozen=True)
class Report:
  """Writes results, figures and reports of a run, on process 0.

  Attributes:
    path: the workdir.
    config: of the run.
    environment: what it is carried out on.
    before: of a finished run, what it was carried out on, which holds until this one computes
      anything; else empty.
    work: what the workdir of a finished run held, see `workdir.work`.
  """

  path: pathlib.Path
  config: Section
  environment: Section
  before: dict[str, Any]
  work: frozenset[tuple[str, int]]

  @classmethod
  def begin(
    cls, directory: str | os.PathLike[str], config: Section, seed: int, command: str
  ) -> Report:
    """Makes a workdir, or continues one of the same config, and writes nothing yet."""
    path, before = workdir.continued(directory, config), dict[str, Any]()
    environment, noted = workdir.environment(command, seed), path / workdir.ENVIRONMENT
    if noted.is_file():
      environment['resumed'] = True  # the seconds are those since then
      with contextlib.suppress(InputError):  # a damaged one is written anew
        before = json_files.read(noted) if (path / JSON_NAME).is_file() else {}
    work = workdir.work(path) if before else frozenset[tuple[str, int]]()
    return cls(path, config, environment, before, work)

  def note(self) -> None:
    """Writes the config, and what the run is carried out on: of a run that is refused before, the
    workdir keeps those of its results."""
    file = self.path / workdir.CONFIG
    asked = file.read_bytes() if file.is_file() else b''
    workdir.write_config(self.path, self.config)
    if self.before and asked != file.read_bytes():
      self.before['command'] = self.environment['command']
    if jax.process_index() == 0 and not self.before:
      workdir.write_json(self.path / workdir.ENVIRONMENT, self.environment)

  def write(
    self, folder: pathlib.Path, results: Results, presented: Presented, further: Drawn = ()
  ) -> Drawn:
    """Writes one set of results; returns its figures."""
    if jax.process_index():
      return []
    environment = dict(self.before)
    if not environment or workdir.work(self.path) != self.work:
      environment = dict(self.environment)
      began = datetime.datetime.fromisoformat(environment['started'])
      seconds = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
      environment['seconds'] = round(seconds)
    else:
      code = {k: self.environment[k] for k in ('robustness', 'git_commit', 'python', 'versions')}
      if any(environment.get(k) != v for k, v in code.items()):
        environment['reduced_by'] = code
    if folder == self.path:
      workdir.write_json(folder / workdir.ENVIRONMENT, environment)
    figures = publish(folder, results, presented, environment, self.config, further)
    values = named_values(results.over_seeds.table, 'results')
    JsonLinesWriter(folder / 'log.jsonl').write_scalars(0, values)
    return figures


def check_studies(experiment: Experiment, rows: OpenedRows) -> Recipes:
  """Refuses what the rows of a study, or what trainings will show, do not allow, naming the section
  that the study is in; returns what the trainings will show."""
  recipes: dict[str, Section] = {}
  if experiment.classifiers:
    builder = builder_for(experiment, rows, pathlib.Path())
    for label, recipe in experiment.classifiers.items():
      shown = builder.shown_in_training(recipe)
      recipes[label] = shown if recipe.is_trained_here else {}
  for name, task in experiment.measurements.items():
    section = 'config' if experiment.is_single else f'{experiments.BATTERY}.{name}'
    with naming('config.study', f'{section}.study'):
      image_shape = rows[task.data].image_shape
      if task.study.needs_labels:
        refuse_unknown_classes(rows[task.data].description, f'the study {task.study.name}')
      experiments.refuse_what_is_lost(task.study, experiment.execution, image_shape)
      task.study.views(image_shape)
      task.study.check(rows[task.data], recipes)
  return recipes


def check_measurable(
  experiment: Experiment, classifiers: Sequence[Classifier], rows: OpenedRows
) -> None:
  """Refuses, before anything is trained, rows that a study cannot show and classifiers that cannot
  be measured; those that are not trained yet have shapes for weights."""
  ways = parallel.create(experiment.execution.parallel)
  for task in experiment.measurements.values():
    used, _ = split_supported(task.study, classifiers, rows[task.data], experiment.is_single)
    strictest = sorted(used, key=lambda classifier: not classifier.host_function)[:1]
    for classifier in strictest if task.study.needs_classifier else ():
      own = match_labels(rows[task.data], classifier)
      evaluator_for(experiment.execution, task.study, classifier, own, ways).check(own)


def split_supported(
  study: Study, classifiers: Sequence[Classifier], rows: Rows, is_single: bool
) -> tuple[list[Classifier], dict[str, str]]:
  """Returns the classifiers that a task can measure, and why not the others, by their names.

  A callable has no gradient: an attack of it alone is refused, in a battery it is passed over.
  """
  if is_single or not study.views(rows.image_shape).uses_classifier:
    return list(classifiers), {}
  why = 'it is a callable, of which there is no gradient'
  used = [classifier for classifier in classifiers if not classifier.host_function]
  return used, {classifier.name: why for classifier in classifiers if classifier.host_function}


def preview(
  experiment: Experiment, rows: OpenedRows, recipes: Recipes, folders: Sequence[pathlib.Path]
) -> None:
  """Logs and draws what the studies show before anything is trained."""
  for name, task in experiment.measurements.items():
    if not isinstance(task.study, StudiesTrainings):
      continue
    shown = task.study.preview(rows[task.data], recipes)
    for title, table in shown.tables.items():
      for line in (title, *text.lines(table)):
        logging.info('%s', line)
    for folder in folders:
      for file, figure in shown.figures.items():
        style.save(figure, workdir.task_folder(folder, name) / 'figures' / f'{file}.png')


class OpenedRows(dict[DataSettings, Rows]):
  """The rows of an experiment by their settings, each opened once; grey images are repeated over
  three channels for networks made for colour. Those of the trainings are kept beside."""

  def __init__(self, experiment: Experiment):
    super().__init__()
    self._experiment = experiment
    self._preparation = preparation(experiment)
    self._training: dict[DataSettings, Rows] = {}

  def training(self, data: DataSettings) -> Rows:
    """Returns the rows that a recipe trains on."""
    if data not in self._training:
      evaluated = self[self._experiment.data]
      rows = self._loaded(data).with_channels(evaluated.image_shape[2])
      self._training[data] = with_groups(rows, from_settings(data, rows.class_names))
    return self._training[data]

  def __missing__(self, data: DataSettings) -> Rows:
    experiment, rows = self._experiment, self._loaded(data)
    networks = map(channels, experiment.classifiers.values())
    rows = rows.with_channels(max([rows.image_shape[2], *networks]))
    if len(experiment.measurements) * len(experiment.classifiers) > 1:
      rows = rows.kept()
    self[data] = with_groups(rows, from_settings(data, rows.class_names))
    return self[data]

  def _loaded(self, data: DataSettings) -> Rows:
    with naming('config.data', self._experiment.section_of(data)):
      return input_pipeline.load(data, self._experiment.execution.seed, self._preparation)


def builder_for(
  experiment: Experiment, rows: OpenedRows, path: pathlib.Path, features: pathlib.Path | None = None
) -> ClassifierBuilder:
  """Returns what builds the classifiers in a folder; `features` is that of what probes see."""

  def writer(label: str) -> ScalarWriter:
    return NO_WRITER if jax.process_index() else training_writer(path, label)

  return ClassifierBuilder(
    experiment,
    rows[experiment.data],
    lambda recipe: rows.training(recipe.data),
    path / 'checkpoints',
    writer,
    rows,
    features,
  )


def memory_advice(error: BaseException) -> str | None:
  """Returns what to do where memory was too small for an array or a program; None of other
  errors."""
  if isinstance(error, MemoryError):  # of NumPy, which says how much it asked for
    return f'not enough memory ({error}): give smaller numbers or fewer images.'
  if any(
    isinstance(cause, jax.errors.JaxRuntimeError) and 'RESOURCE_EXHAUSTED' in str(cause)
    for cause in causes(error)
  ):
    return (
      'not enough memory on the device: give a smaller --config.batch_size or '
      '--config.views_per_step=1 for an evaluation, a smaller --config.training.batch_size or a '
      'larger --config.training.accumulate for a training.'
    )
  return None


def set_devices(processes: peers.Processes) -> None:
  """One host device a core (used where there is no accelerator), its memory, `jax.distributed`.

  A number of host devices that the environment asks for, in JAX's or XLA's words, is kept.
  """
  host.keep_freed_memory()
  asked = {'JAX_NUM_CPU_DEVICES': '', 'XLA_FLAGS': 'xla_force_host_platform_device_count'}
  if not any(name in os.environ and word in os.environ[name] for name, word in asked.items()):
    jax.config.update('jax_num_cpu_devices', host.usable_cores())
  processes.join()


def set_logging() -> None:
  """Shows this project's own lines, and of all else what a user can act on.

  `main` reports a full disk or the end of another process once; the lines of Orbax's threads about
  it are left out.
  """
  own = (pathlib.Path(__file__).parent, pathlib.Path(input_pipeline.__file__).parent)
  terminal.set_up([f'{folder}{os.sep}' for folder in own], _is_reported_by_main)


def _is_reported_by_main(record: standard_logging.LogRecord) -> bool:
  error = record.exc_info[1] if record.exc_info else None
  return error is not None and bool(disk.advice(error, '') or peers.peer_is_lost(error))


def exit_with(status: int, message: str) -> int:
  """Prints a message on stderr and returns the exit status."""
  print(f'error: {message}' if status == BAD_INPUT else message, file=sys.stderr, flush=True)
  return status


def log_summary(results: Results, presented: Presented, path: pathlib.Path) -> None:
  """Logs the numbers, the findings and the output paths."""
  findings = text.findings([finding.text for finding in presented.findings(results)])
  where = f'results in {path}, report: {path / page.NAME}'
  for line in ('', *text.summary(results), '', *findings, '', where):
    logging.info('%s', line)
