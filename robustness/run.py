"""From a config to a finished workdir: rows, classifiers, records, results, figures, report.

The one module of this package that reaches TensorFlow, through `input_pipeline`.
"""

from __future__ import annotations

import datetime
import functools
import logging as standard_logging
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from absl import logging

import input_pipeline
from input_pipeline.settings import DataSettings
from robustness import workdir
from robustness.battery import check_parts, measure_parts
from robustness.classifiers import side_by_side
from robustness.classifiers.build import ClassifierBuilder, channels, preparation
from robustness.classifiers.network_training import NetworkTraining
from robustness.config import experiment as experiments
from robustness.config.battery import PARTS
from robustness.config.experiment import SINGLE, Experiment
from robustness.core import allocator, compilation_cache, disk, terminal
from robustness.core.cores import usable_cores
from robustness.core.errors import InputError, naming
from robustness.core.kept_rows import KeptRows
from robustness.core.paths import expanded
from robustness.core.rows import Rows
from robustness.core.settings import without_inherited
from robustness.environments.rows import with_groups
from robustness.estimates.table import assemble, named_values
from robustness.evaluation import study as studies
from robustness.evaluation.study import IMAGES, Findings, PredictionScores, StudiesTrainings, Study
from robustness.models import from_file
from robustness.parallel.agreement import check_config, check_workdir
from robustness.parallel.meeting import RESUMABLE, lost
from robustness.parallel.processes import ALONE, Processes, heed_sigterm
from robustness.present import page, style, text
from robustness.present.presented import Presented
from robustness.present.publish import publish
from robustness.results import Results
from robustness.summaries.joined import Joined
from robustness.summaries.joined import over_seeds as over_seeds_of
from robustness.summaries.seeds import over_seeds
from robustness.training.json_lines import JsonLinesWriter
from robustness.training.preemption import Preempted
from robustness.training.writers import training_writer

BAD_INPUT, PREEMPTED, INTERRUPTED = 2, RESUMABLE, 130


def main(
  config: Any, directory: str, command: str, processes: Processes = ALONE, compiled: str | None = ''
) -> int:
  """Runs a config and turns what the user can fix into one message without a traceback.

  Args:
    config: ConfigDict of a file in `configs/`.
    directory: the workdir.
    command: what was typed, for the report.
    processes: more than one joins `jax.distributed` at the coordinator.
    compiled: the folder that keeps compiled programs; see `compilation_cache.use`.

  Returns:
    The exit status: 0, 2 for bad input or a disk that is full or cannot be written to, 75 when
    stopped by SIGTERM or by the end of another process, and 130 by Ctrl-C, both resumable.
  """
  set_logging()
  return processes.end_together(lambda: _status(config, directory, command, processes, compiled))


def _status(
  config: Any, directory: str, command: str, processes: Processes, compiled: str | None
) -> int:
  try:
    compilation_cache.use(compiled)
    set_devices(processes)
    check_config(config.to_dict())
    check_workdir(expanded(directory).absolute())
    results = run(config.to_dict(), directory, command)
  except InputError as error:
    return complain(str(error), BAD_INPUT)
  except Preempted as stop:
    return complain(str(stop), PREEMPTED)
  except KeyboardInterrupt:
    return complain(
      f'interrupted. What was computed is kept in {directory}: the same command goes on.',
      INTERRUPTED,
    )
  except Exception as error:
    advice = None if lost(error) else disk.advice(error, directory)
    if advice is None:
      raise
    return complain(advice, BAD_INPUT)
  if jax.process_index() == 0:
    _tell(results, presented_of(config.to_dict()), expanded(directory).absolute())
  return 0


def _tell(results: Results, presented: Presented, path: pathlib.Path) -> None:
  """Ends what is printed with the numbers, what they say, and where all else lies."""
  for line in (
    '',
    *text.summary(results),
    '',
    *text.findings([finding.text for finding in presented.findings(results)]),
    '',
    f'results in {path}, report: {path / page.NAME}',
  ):
    logging.info('%s', line)


def presented_of(config: Mapping[str, Any]) -> Presented:
  """Returns what draws and tells the results of a config as a whole."""
  if 'predictions' in config:
    return studies.from_config(config['study'])
  experiment = experiments.from_config(without_inherited(config))
  battery = experiment.battery
  if experiment.execution.seeds:
    return over_seeds_of(battery.summary, battery.studies)
  return (
    battery.studies[SINGLE] if experiment.is_single else Joined(battery.summary, battery.studies)
  )


def set_logging() -> None:
  """Shows this project's own lines, and of all else what a user can act on.

  A full disk, or the end of another process, is told once, by `main`, and not by every thread of
  Orbax that meets it.
  """
  own = (pathlib.Path(__file__).parent, pathlib.Path(input_pipeline.__file__).parent)
  terminal.set_up([f'{folder}{os.sep}' for folder in own], _is_told_by_main)


def _is_told_by_main(record: standard_logging.LogRecord) -> bool:
  error = record.exc_info[1] if record.exc_info else None
  return error is not None and bool(disk.advice(error, '') or lost(error))


def complain(message: str, status: int) -> int:
  """Prints a message on stderr and returns the exit status."""
  print(f'error: {message}' if status == BAD_INPUT else message, file=sys.stderr, flush=True)
  return status


def set_devices(processes: Processes) -> None:
  """One host device a core (used where there is no accelerator), its memory, `jax.distributed`.

  A number of host devices that the environment asks for, in JAX's or XLA's words, is kept.
  """
  allocator.keep_freed_memory()
  asked = {'JAX_NUM_CPU_DEVICES': '', 'XLA_FLAGS': 'xla_force_host_platform_device_count'}
  if not any(name in os.environ and word in os.environ[name] for name, word in asked.items()):
    jax.config.update('jax_num_cpu_devices', usable_cores())
  processes.join()


def run(config: Mapping[str, Any], directory: str | os.PathLike[str], command: str = '') -> Results:
  """Runs an experiment in a workdir; what the workdir holds already is not computed again.

  Args:
    config: nested plain values; see `configs/`.
    directory: the workdir, new or of the same config.
    command: for environment.json and the report.

  Returns:
    What `results.json` and `results.npz` hold.

  Raises:
    InputError: anything the user can fix.
  """
  if 'predictions' in config:
    return _score_predictions(config, directory, command)
  config = without_inherited(config)
  experiment = experiments.from_config(config)
  from_file.forget()
  with workdir.locked(directory):
    return _run(experiment, config, workdir.prepare(directory, config), command)


def _run(
  experiment: Experiment, config: Mapping[str, Any], path: pathlib.Path, command: str
) -> Results:
  """Runs a checked config in its workdir."""
  environment = workdir.environment(experiment.execution.seed, command)
  if jax.process_index() == 0:
    workdir.write_json(path / workdir.ENVIRONMENT, environment)
  rows = OpenedRows(experiment)
  devices = [device.device_kind for device in jax.devices()]
  counted = ', '.join(f'{devices.count(kind)} × {kind}' for kind in dict.fromkeys(devices))
  logging.info('%s on %s', ', '.join(experiment.classifiers) or IMAGES, counted)
  check_studies(experiment, rows)
  leave = functools.partial(_publish, environment=environment, config=config)
  seeds = experiment.execution.seeds
  folders = [path / workdir.seed_folder(seed) for seed in seeds] or [path]
  by_seed = [experiment.with_seed(seed) for seed in seeds] or [experiment]
  builders = [
    builder_for(seeded, rows, folder) for seeded, folder in zip(by_seed, folders, strict=True)
  ]
  if builders[0].begins:
    check_parts(experiment, list(builders[0].planned.values()), rows)
  _preview(experiment, rows, folders)
  if _side_by_side(experiment):
    side_by_side.train(builders)
  each = []
  for builder, folder in zip(builders, folders, strict=True):
    classifiers = builder.build()
    if builder is builders[-1]:
      heed_sigterm()
    compare = functools.partial(_compared_with_training, builder)
    each.append(measure_parts(builder.experiment, classifiers, rows, folder, leave, compare))
  if not seeds:
    return each[0]
  results = over_seeds(dict(zip(seeds, each, strict=True)))
  leave(results, path, over_seeds_of(experiment.battery.summary, experiment.battery.studies))
  return results


def check_studies(experiment: Experiment, rows: OpenedRows) -> None:
  """Refuses what the rows of a study, or what trainings will show, do not allow, naming the section
  that the study is in."""
  recipes = shown_in_training(experiment, rows)
  for name, part in experiment.measurements.items():
    section = 'config' if experiment.is_single else f'config.battery.{name}'
    with naming('config.study', f'{section}.study'):
      image_shape = rows[part.data].image_shape
      experiments.refuse_what_is_lost(part.study, experiment.execution, image_shape)
      part.study.views(image_shape)
      part.study.check(rows[part.data], recipes)


def shown_in_training(experiment: Experiment, rows: OpenedRows) -> dict[str, dict[str, Any]]:
  """Returns by label what a training will show; empty of what is not trained here."""
  if not experiment.classifiers:
    return {}
  training = builder_for(experiment, rows, pathlib.Path()).training
  return {
    label: {**recipe.shown_in_training, **training.class_groups(recipe)}
    if recipe.is_trained_here
    else {}
    for label, recipe in experiment.classifiers.items()
  }


def _preview(experiment: Experiment, rows: OpenedRows, folders: Sequence[pathlib.Path]) -> None:
  """Logs and draws, on process 0, what the studies show before anything is trained."""
  if jax.process_index():
    return
  recipes = shown_in_training(experiment, rows)
  for name, part in experiment.measurements.items():
    if not isinstance(part.study, StudiesTrainings):
      continue
    preview = part.study.preview(rows[part.data], recipes)
    for title, table in preview.tables.items():
      for line in (title, *text.lines(table)):
        logging.info('%s', line)
    for folder in folders:
      own = folder if experiment.is_single else folder / PARTS / name
      for file, figure in preview.figures.items():
        style.save(figure, own / 'figures' / f'{file}.png')


class OpenedRows(dict[DataSettings, Rows]):
  """The rows of an experiment by their settings, each opened once; grey images are repeated over
  three channels for networks made for colour. Those of the trainings are kept beside."""

  def __init__(self, experiment: Experiment):
    super().__init__()
    self._experiment = experiment
    self._preparation = preparation(experiment)
    self._training: dict[DataSettings, Any] = {}

  def training(self, data: DataSettings) -> Any:
    """Returns the rows that a recipe trains on."""
    if data not in self._training:
      experiment, evaluated = self._experiment, self[self._experiment.data]
      rows = input_pipeline.load(data, experiment.execution.seed, self._preparation)
      rows = rows.with_channels(evaluated.image_shape[2])
      self._training[data] = with_groups(rows, data)
    return self._training[data]

  def __missing__(self, data: DataSettings) -> Rows:
    experiment = self._experiment
    with naming('config.data', experiment.section_of(data)):
      rows = input_pipeline.load(data, experiment.execution.seed, self._preparation)
    networks = map(channels, experiment.classifiers.values())
    rows = rows.with_channels(max([rows.image_shape[2], *networks]))
    grouped = with_groups(rows, data)
    shown_once = len(experiment.measurements) * len(experiment.classifiers) <= 1
    self[data] = grouped if shown_once else KeptRows(grouped)
    return self[data]


def builder_for(experiment: Experiment, rows: OpenedRows, path: pathlib.Path) -> ClassifierBuilder:
  """Returns what builds the classifiers in a folder."""
  together = not _side_by_side(experiment)
  training = NetworkTraining(
    experiment,
    rows[experiment.data],
    lambda recipe: rows.training(recipe.data),
    path / 'checkpoints',
    lambda label: training_writer(path, label, not (together and jax.process_index())),
    together,
  )
  return ClassifierBuilder(training, rows)


def _side_by_side(experiment: Experiment) -> bool:
  """Whether each process trains networks of its own."""
  return experiment.execution.parallel_labels and jax.process_count() > 1


def _score_predictions(
  config: Mapping[str, Any], directory: str | os.PathLike[str], command: str
) -> Results:
  """Reduces predictions made elsewhere, or records of an earlier run, without a classifier."""
  sections = dict(config)
  study = studies.from_config(sections.pop('study', {}))
  scores = studies.scores_of(study, sections)
  with workdir.locked(directory):
    return _score(study, scores, config, workdir.prepare(directory, config), command)


def _score(
  study: Study,
  scores: PredictionScores,
  config: Mapping[str, Any],
  path: pathlib.Path,
  command: str,
) -> Results:
  """Reduces checked predictions in their workdir."""
  environment = workdir.environment(scores.seed, command)
  workdir.write_json(path / workdir.ENVIRONMENT, environment)
  evaluations = scores.evaluations(path / 'records')
  findings = scores.findings(evaluations, path / 'records')
  identities = [evaluation.records.identity for evaluation in evaluations]
  classifiers = [
    {'layers': [], **identity['classifier'], 'label': evaluation.label}
    for evaluation, identity in zip(evaluations, identities, strict=True)
  ]
  data = {**identities[0]['data'], 'class_names': identities[0].get('classes', [])}
  results = Results(
    study.name,
    classifiers[0] if len(classifiers) == 1 else classifiers,
    data,
    scores.settings(),
    findings.tables,
    findings.arrays,
    assemble(findings.estimates),
    study.quantities,
  )
  _publish(results, path, study, environment=environment, config=config)
  return results


def _compared_with_training(builder: ClassifierBuilder, study: Study, rows: Rows) -> Findings:
  """Returns what a study finds of its rows and those of the trainings, if it asks for these."""
  if not (isinstance(study, StudiesTrainings) and study.compares_training_rows):
    return Findings()
  training = {
    label: builder.training.open_rows(recipe)
    for label, recipe in builder.experiment.classifiers.items()
    if recipe.is_trained_here
  }
  return study.training_findings(rows, training)


def _publish(
  results: Results,
  path: pathlib.Path,
  presented: Presented,
  further: Sequence[tuple[pathlib.Path, str]] = (),
  *,
  environment: Mapping[str, Any],
  config: Mapping[str, Any],
) -> list[tuple[pathlib.Path, str]]:
  """Writes results, figures and the report, on process 0; returns the figures."""
  if jax.process_index():
    return []
  if (path / workdir.ENVIRONMENT).is_file():
    began = datetime.datetime.fromisoformat(environment['started'])
    seconds = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
    environment = {**environment, 'seconds': round(seconds)}
    workdir.write_json(path / workdir.ENVIRONMENT, environment)
  figures = publish(path, results, presented, environment, config, further)
  JsonLinesWriter(path / 'log.jsonl').write_scalars(
    0, named_values(results.over_seeds.table, 'results')
  )
  return figures
