"""Runs a config to a finished workdir with records, results, figures and a report.

It is the only module of the package that loads rows with TensorFlow, through `input_pipeline`.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence

import jax
from absl import logging

import input_pipeline
from input_pipeline.settings import DataSettings
from robustness.building import along_training
from robustness.building.builder import ClassifierBuilder
from robustness.building.checks import check_measurable, check_studies, split_supported
from robustness.classifiers import from_file, network
from robustness.combined import join_tasks, mean_over_seeds
from robustness.config import experiment as experiments
from robustness.config.experiment import Execution, Experiment
from robustness.config.recorded import recorded
from robustness.core.errors import WORKDIR, InputError, renaming_section
from robustness.core.precision import in_32_bits
from robustness.core.progress import phase
from robustness.core.rows import Rows
from robustness.core.settings import Section
from robustness.environments import class_groups
from robustness.estimates.table import assemble, named_values
from robustness.evaluation import study as studies
from robustness.evaluation.study import IMAGES, Recipes, StudiesTrainings, Study
from robustness.measurement import measure, recording_name
from robustness.models.classifier import Classifier
from robustness.parallel.processes import restore_sigterm
from robustness.present import fourier_table, page, style, summary, text
from robustness.present.publish import Drawn, Presentation, Presented, publish, with_task_captions
from robustness.results import FOURIER_TABLE, SINGLE, Results, Table
from robustness.training.writers import NO_WRITER, JsonLinesWriter, training_writer
from robustness.workdirs import workdir


class OpenedRows(dict[DataSettings, Rows]):
  """The images of an experiment, {settings of data: images}, which are opened at first use.

  Grey images are repeated over three channels if a network takes colour images. The images for
  training are separate, see `training`.
  """

  def __init__(self, experiment: Experiment):
    """Stores the experiment; no images are opened yet."""
    super().__init__()
    self._experiment = experiment
    self._preparation = experiment.preparation()
    self._training: dict[DataSettings, Rows] = {}

  def training(self, data: DataSettings) -> Rows:
    """Returns the images on which a classifier is trained, opened at first use.

    Grey images are repeated over all channels that the evaluated images have. If `data` defines
    class groups, the column `class_group` has the number of each image's group.
    """
    if data not in self._training:
      evaluated = self[self._experiment.data]
      self._training[data] = self._loaded(data).with_channels(evaluated.image_shape[2])
    return self._training[data]

  def __missing__(self, data: DataSettings) -> Rows:
    """Opens the images of the settings `data` when `self[data]` is first used.

    Grey images are repeated over the largest number of channels that a classifier takes. If several
    evaluations read the images, they are cached in memory.
    """
    experiment, rows = self._experiment, self._loaded(data)
    channels = [classifier.channels for classifier in experiment.classifiers.values()]
    rows = rows.with_channels(max([rows.image_shape[2], *channels]))
    has_several_readers = len(experiment.measurements) * len(experiment.classifiers) > 1
    self[data] = rows.cached() if has_several_readers else rows
    return self[data]

  def _loaded(self, data: DataSettings) -> Rows:
    """Loads the images of the settings `data`, with a column for class groups if these are defined.

    Raises:
      InputError: a setting is not valid. The message names it by its section, such as
        'config.data'.
    """
    with renaming_section('config.data', self._experiment.section_of(data)):
      rows = input_pipeline.load(data, self._experiment.execution.seed, self._preparation)
    groups = class_groups.from_settings(data, rows.class_names)
    return class_groups.with_groups(rows, groups)


@in_32_bits()
def run(config: Section, directory: str | os.PathLike[str], command: str = '') -> Results:
  """Runs an experiment and returns its results.

  Work that is already saved in the folder is not repeated.

  Args:
    config: nested plain values; see `configs/`.
    directory: folder for config, records, checkpoints, results and report (workdir). It is new,
      empty, or from an earlier run of the same config.
    command: the command as it was typed, for environment.json and the report.

  Returns:
    The contents of `results.json` and `results.npz`, with the findings of the report.

  Raises:
    InputError: the config, the data or the folder is not valid.
  """
  if 'predictions' in config:
    return _score_predictions(config, directory, command)
  from_file.forget()  # files of an earlier run in this process may have changed
  network.warn_once.cache_clear()  # each run warns again
  experiment = experiments.from_config(config)
  config = recorded(config)
  seeds = experiment.execution.seeds
  with workdir.locked(directory):
    log = workdir.RunLog.begin(directory, config, experiment.execution.seed, command)
    rows = OpenedRows(experiment)
    devices = page.counted_devices(log.environment)
    logging.info('%s on %s', ', '.join(experiment.classifiers) or IMAGES, devices)
    experiment_by_folder = {log.path: experiment}
    if seeds:  # each has a folder in the workdir
      seed_folders = [log.path / workdir.seed_folder(seed) for seed in seeds]
      experiment_by_folder = dict(zip(seed_folders, map(experiment.with_seed, seeds), strict=True))
    with phase('images and checks of the config'):
      builder_by_folder = {
        folder: builder_for(seeded, rows, folder, log.path / 'features')
        for folder, seeded in experiment_by_folder.items()
      }
      first_builder, *_ = builder_by_folder.values()
      recipes = check_studies(first_builder, rows)  # the checks are the same for all seeds
      adapts = any(recipe.adaptation for recipe in experiment.classifiers.values())
      if first_builder.needs_training or adapts:
        check_measurable(experiment, list(first_builder.checked_classifiers.values()), rows)
    log.write_config_and_environment()
    if jax.process_index() == 0:
      preview(experiment, rows, recipes, list(builder_by_folder))
    results_of_seeds = []
    for number, (folder, builder) in enumerate(builder_by_folder.items(), 1):
      if seeds:
        logging.info('seed %d, %d of %d', seeds[number - 1], number, len(seeds))
      classifiers = builder.build()  # trains, or reads weights
      if number == len(builder_by_folder):  # no training follows
        restore_sigterm()
      _write_along_training(builder, folder, log)
      results_of_seeds.append(_measure_tasks(builder, classifiers, rows, folder, log))
    if not seeds:
      return results_of_seeds[0]
    results = mean_over_seeds(dict(zip(seeds, results_of_seeds, strict=True)))
    presented = summary.present_run(experiment.summary, experiment.studies, has_seeds=True)
    write_results(log, log.path, results, presented)
    return results


def _write_along_training(
  builder: ClassifierBuilder, folder: pathlib.Path, log: workdir.RunLog
) -> None:
  """Writes what was measured between the steps of the trainings to `folder`."""
  experiment = builder.experiment
  for name, results in builder.along_training().items():
    study = experiment.measurements[SINGLE if experiment.is_single else name].study
    presented = Presentation(f'{study.title or study.name}, along the training', study.papers)
    write_results(log, folder / along_training.FOLDER / name, results, presented)


def _measure_tasks(
  builder: ClassifierBuilder,
  classifiers: Sequence[Classifier],
  rows: OpenedRows,
  folder: pathlib.Path,
  log: workdir.RunLog,
) -> Results:
  """Measures all studies of an experiment, and writes their results and reports.

  A config with several studies is called a battery, and each study with its data a task.
  Classifiers that a task cannot measure are left out of it, and listed in the results.

  Args:
    builder: the builder of the classifiers.
    classifiers: the classifiers, in the order of the config.
    rows: the images of all tasks.
    folder: folder for records and results: the workdir, or the folder of a seed in it.
    log: the log of the run.

  Returns:
    The results of the single study, or of all tasks together.

  Raises:
    InputError: no task can measure any of the classifiers.
  """
  experiment = builder.experiment
  is_battery = not experiment.is_single
  results_by_task, figures_by_task, left_out = {}, {}, []
  for name, task in experiment.measurements.items():
    study, records_folder = task.study, folder / workdir.RECORDS
    task_rows = study.needed_rows(rows[task.data])
    measured, excluded = split_supported(study, classifiers, task_rows, experiment.is_single)
    if is_battery:
      logging.info('task %s: %s on %d images', name, study.name, task_rows.num_examples)
      records_folder /= recording_name(study, task_rows)  # records/STUDY-DIGEST
    for label, reason in excluded.items():
      logging.info('task %s leaves out %s: %s', name, label, reason)
      left_out.append([name, label, reason])
    if classifiers and not measured:
      continue
    needs_training_rows = isinstance(study, StudiesTrainings) and study.compares_training_rows
    training = builder.training_rows() if needs_training_rows else None
    results = measure(study, experiment.execution, measured, task_rows, records_folder, training)
    figures_by_task[name] = write_results(log, workdir.task_folder(folder, name), results, study)
    results_by_task[name] = results
  if not is_battery:
    return results_by_task[SINGLE]
  if not results_by_task:
    _name, _label, reason = left_out[0]
    raise InputError(f'no task of the battery can be measured: {reason}.')
  has_fourier_table = experiment.summary == FOURIER_TABLE
  findings = fourier_table.summarise(results_by_task) if has_fourier_table else None
  settings = dataclasses.asdict(experiment.execution)
  results = join_tasks(results_by_task, settings, experiment.summary or 'battery', findings)
  if left_out:
    results.tables[workdir.LEFT_OUT] = Table(('task', 'classifier', 'why'), left_out)
  for title, table in results.tables.items():
    task_of_table = title.partition(': ')[0]  # the table of a task is called 'TASK: TITLE'
    if task_of_table not in results_by_task:  # a table of the battery as a whole
      _log_table(title, table)
  presented = summary.present_run(experiment.summary, experiment.studies)
  write_results(log, folder, results, presented, with_task_captions(figures_by_task))
  return results


def write_results(
  log: workdir.RunLog,
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  figures_of_tasks: Drawn = (),
) -> Drawn:
  """Writes results, figures and a report to a folder, and returns the figures.

  Only process 0 writes; the other processes return [].

  Args:
    log: the log of the run.
    folder: the folder to write to.
    results: the results.
    presented: the study, or another object with title, figures and findings of the report.
    figures_of_tasks: figures of single studies, which the report of a battery (several studies)
      shows too.
  """
  if jax.process_index():
    return []
  environment = log.current_environment()
  if folder == log.path:  # the results of the whole run, not of a task or seed
    workdir.write_json(folder / workdir.ENVIRONMENT, environment)
  with phase('figures and report'):
    figures = publish(folder, results, presented, environment, log.config, figures_of_tasks)
  values = named_values(results.over_seeds.table, 'results')
  JsonLinesWriter(folder / 'log.jsonl').write_scalars(0, values)
  return figures


def measure_in_workdir(
  study: Study,
  execution: Execution,
  classifiers: Sequence[Classifier],
  rows: Rows,
  directory: str | os.PathLike[str],
  devices: Sequence[jax.Device] | None = None,
) -> Results:
  """Measures classifiers and images from Python, and writes results and a report to a folder.

  There is no config that states the classifiers and images. The records identify them instead.

  Args:
    study: what is measured.
    execution: seed, batch size and other settings of the run.
    classifiers: the classifiers, the baseline first.
    rows: the images.
    directory: the folder (workdir): new, empty, or from an earlier, equal call.
    devices: devices to run on; None takes all.

  Raises:
    InputError: the folder has a run of another study, classifier, seed or images.
  """
  # facts follow from the settings, and are no keys that a config may have
  facts = {**study.facts, **study.file, **study.files}
  section = {key: value for key, value in study.describe().items() if key not in facts}
  # a config names a user's study by its file
  if studies.STUDIES.classes().get(study.name) is not type(study):
    file = study.file.get('file', f'{type(study).__module__}.py')
    section['name'] = f'{file}:{study.name}'
  config = {'study': section, 'seed': execution.seed, 'batch_size': execution.batch_size}
  config = json.loads(json.dumps(config))  # lists for tuples, as in a file
  with workdir.locked(directory):
    command = f'robustness.measure({study.name!r}, ..., workdir={os.fspath(directory)!r})'
    log = workdir.RunLog.begin(directory, config, execution.seed, command)
    folder = log.path / workdir.RECORDS
    labels = [classifier.name for classifier in classifiers] or [IMAGES]
    recorded_labels = {path.relative_to(folder).parts[0] for path in folder.glob('**/*.npz')}
    if unmeasured := sorted(recorded_labels.difference(labels)):
      raise InputError(
        f'workdir {log.path} holds records of {", ".join(unmeasured)}, and the models are '
        f'called {", ".join(labels)}: give another {WORKDIR:--}, or these models too.'
      )
    log.write_config_and_environment()
    results = measure(study, execution, classifiers, rows, folder, devices=devices)
    write_results(log, log.path, results, study)
  return results


def _score_predictions(config: Section, directory: str | os.PathLike[str], command: str) -> Results:
  """Computes a study from predictions of other software, or from records of an earlier run.

  No classifier is run, and no images are read.

  Args:
    config: nested plain values. The key `study` is the study; all other keys, such as
      `predictions`, say where the predictions are and how they are evaluated.
    directory: the folder for results and report (workdir).
    command: the command as it was typed.
  """
  prediction_settings = dict(config)
  study = studies.from_config(prediction_settings.pop('study', {}))
  # A function of the folder for records, which checks and scores the predictions.
  score_predictions = studies.scores_of(study, prediction_settings)
  with workdir.locked(directory):
    log = workdir.RunLog.begin(directory, config, prediction_settings.get('seed', 0), command)
    with phase(f'{study.name}: estimates'):
      scored = score_predictions(log.path / workdir.RECORDS)
    log.write_config_and_environment()
    identity = scored.evaluations[0].records.identity
    description = scored.data or identity['data']  # the study's or the records' facts on images
    data = {**description, 'class_names': identity.get('classes', [])}
    results = Results(
      study.name,
      classifiers=[
        {'layers': [], **evaluation.records.identity['classifier'], 'label': evaluation.label}
        for evaluation in scored.evaluations
      ],
      data=data,
      settings=scored.settings,
      tables=scored.findings.tables,
      arrays=scored.findings.arrays,
      table=assemble(scored.findings.estimates),
      quantities=study.described_quantities,
    )
    write_results(log, log.path, results, study)
  return results


def preview(
  experiment: Experiment, rows: OpenedRows, recipes: Recipes, folders: Sequence[pathlib.Path]
) -> None:
  """Logs tables and draws figures about the data before training, such as images to be held out.

  Args:
    experiment: the experiment with its studies.
    rows: the images of all studies.
    recipes: {label of the classifier: facts about the classifier and its training}.
    folders: the folders of all seeds; each gets the figures. () only logs the tables.
  """
  for name, task in experiment.measurements.items():
    if not isinstance(task.study, StudiesTrainings):
      continue
    overview = task.study.preview(rows[task.data], recipes)
    for title, table in overview.tables.items():
      _log_table(title, table)
    for folder in folders:
      for file, figure in overview.figures.items():
        style.save(figure, workdir.task_folder(folder, name) / 'figures' / f'{file}.png')


def _log_table(title: str, table: Table) -> None:
  """Logs the title and the rows of a table, one line each."""
  for line in (title, *text.lines(table)):
    logging.info('%s', line)


def builder_for(
  experiment: Experiment, rows: OpenedRows, path: pathlib.Path, features: pathlib.Path | None = None
) -> ClassifierBuilder:
  """Returns the builder that trains or loads an experiment's classifiers.

  Missing weights are reported first, before any image is read.

  Args:
    experiment: the experiment.
    rows: the images of the experiment.
    path: the folder of checkpoints and logs.
    features: folder for the network features that linear probes are trained on; None takes the
      folder `features` in `path`.

  Raises:
    InputError: weights of a classifier are missing.
  """
  for label, recipe in experiment.classifiers.items():
    # errors about weights name this classifier's section of the config
    with renaming_section('config.classifier', experiment.section_of_classifier(label)):
      recipe.fetch()
  return ClassifierBuilder(
    experiment,
    rows[experiment.data],
    open_rows=lambda recipe: rows.training(recipe.data),
    directory=path / 'checkpoints',
    # of the metrics of a training; only process 0 writes
    writer=lambda label: NO_WRITER if jax.process_index() else training_writer(path, label),
    opened=rows,
    features=features,
  )
