"""From a config to a finished workdir: rows, classifiers, records, results, figures, report.

The one module of this package that reaches TensorFlow, through `input_pipeline`.
"""

from __future__ import annotations

import dataclasses
import logging as standard_logging
import os
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jax
from absl import logging

import input_pipeline
from robustness import parallel as parallel_package
from robustness.classifiers import side_by_side
from robustness.classifiers.build import ClassifierBuilder, aligned, channels, preparation
from robustness.classifiers.network_training import NetworkTraining
from robustness.config import experiment as experiments
from robustness.config.experiment import Experiment
from robustness.config.recipe import ClassifierSettings
from robustness.core import disk, random_keys, workdir
from robustness.core.cores import usable_cores
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import without_inherited
from robustness.evaluation import study as studies
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import IMAGES, Evaluation, Study
from robustness.figures import seeds as seeds_figure
from robustness.metrics.seeds import over_seeds
from robustness.models import from_file
from robustness.models.classifier import Classifier
from robustness.parallel.agreement import check_config, check_workdir
from robustness.parallel.meeting import RESUMABLE, lost, meet
from robustness.parallel.processes import ALONE, Processes, heed_sigterm
from robustness.report.publish import publish
from robustness.results import Results
from robustness.training.json_lines import JsonLinesWriter
from robustness.training.preemption import Preempted
from robustness.training.writers import training_writer

BAD_INPUT, PREEMPTED, INTERRUPTED = 2, RESUMABLE, 130


def main(config: Any, directory: str, command: str, processes: Processes = ALONE) -> int:
  """Runs a config and turns what the user can fix into one message without a traceback.

  Args:
    config: ConfigDict of a file in `configs/`.
    directory: the workdir.
    command: what was typed, for the report.
    processes: more than one joins `jax.distributed` at the coordinator.

  Returns:
    The exit status: 0, 2 for bad input or a disk that is full or cannot be written to, 75 when
    stopped by SIGTERM or by the end of another process, and 130 by Ctrl-C, both resumable.
  """
  _set_logging()
  return processes.end_together(lambda: _status(config, directory, command, processes))


def _status(config: Any, directory: str, command: str, processes: Processes) -> int:
  try:
    _set_devices(processes)
    check_config(config.to_dict())
    check_workdir(pathlib.Path(directory).expanduser().absolute())
    run(config.to_dict(), directory, command)
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
  return 0


def _set_logging() -> None:
  """Shows this project's own lines and the training's; of all else, warnings and errors.

  A full disk is told once, by `main`, and not by every thread of Orbax that meets it.
  """
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '1')
  os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')  # TensorFlow only reads images here
  logging.set_verbosity(logging.INFO)
  own = (str(pathlib.Path(__file__).parent), str(pathlib.Path(input_pipeline.__file__).parent))
  handler = logging.get_absl_handler()
  assert handler is not None
  handler.addFilter(
    lambda record: (
      (record.levelno >= standard_logging.WARNING and not _is_of_the_disk(record))
      or record.pathname.startswith(own)
    )
  )


def _is_of_the_disk(record: standard_logging.LogRecord) -> bool:
  error = record.exc_info[1] if record.exc_info else None
  return error is not None and disk.advice(error, '') is not None


def complain(message: str, status: int) -> int:
  """Prints a message on stderr and returns the exit status."""
  print(f'error: {message}' if status == BAD_INPUT else message, file=sys.stderr, flush=True)
  return status


def _set_devices(processes: Processes) -> None:
  """One host device a core (used where there is no accelerator), and `jax.distributed`."""
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
  path = workdir.prepare(directory, config)
  environment = workdir.environment(experiment.execution.seed, command)
  if jax.process_index() == 0:
    workdir.write_json(path / workdir.ENVIRONMENT, environment)
  rows = _rows(experiment)
  experiment.study.views(rows.image_shape)
  experiment.study.check_rows(rows)
  seeds = experiment.execution.seeds
  folders = [path / workdir.seed_folder(seed) for seed in seeds] or [path]
  by_seed = [experiment.with_seed(seed) for seed in seeds] or [experiment]
  builders = [
    _builder(seeded, rows, folder) for seeded, folder in zip(by_seed, folders, strict=True)
  ]
  if _side_by_side(experiment):
    side_by_side.train(builders)
  each = []
  for builder, folder in zip(builders, folders, strict=True):
    classifiers = builder.build()
    if builder is builders[-1]:
      heed_sigterm()
    each.append(_evaluated(builder, classifiers, folder))
    _publish(experiment.study.figures, each[-1], folder, environment, config)
  if not seeds:
    return each[0]
  results = over_seeds(dict(zip(seeds, each, strict=True)))
  _publish(seeds_figure.draw, results, path, environment, config)
  return results


def _builder(experiment: Experiment, rows: Rows, path: pathlib.Path) -> ClassifierBuilder:
  """Returns what builds the classifiers in a folder."""
  together = not _side_by_side(experiment)
  training = NetworkTraining(
    experiment,
    rows,
    lambda recipe: _training_rows(experiment, recipe, rows),
    path / 'checkpoints',
    lambda label: training_writer(path, label, not (together and jax.process_index())),
    together,
  )
  return ClassifierBuilder(training)


def _side_by_side(experiment: Experiment) -> bool:
  """Whether each process trains networks of its own."""
  return experiment.execution.parallel_labels and jax.process_count() > 1


def _evaluated(
  builder: ClassifierBuilder, classifiers: list[Classifier], path: pathlib.Path
) -> Results:
  """Records and reduces; leaves all in a folder."""
  experiment, rows = builder.experiment, builder.rows
  parallel = parallel_package.create(experiment.execution.parallel)
  evaluated: list[tuple[Classifier | None, Rows]] = [(c, aligned(rows, c)) for c in classifiers]
  evaluated = evaluated or [(None, rows)]
  evaluations = [_evaluate(experiment, c, own_rows, parallel, path) for c, own_rows in evaluated]
  return _results(experiment, classifiers, evaluated[0][1], evaluations)


def _score_predictions(
  config: Mapping[str, Any], directory: str | os.PathLike[str], command: str
) -> Results:
  """Reduces predictions made elsewhere, or records of an earlier run, without a classifier."""
  sections = dict(config)
  study = studies.from_config(sections.pop('study', {}))
  scores = study.prediction_scores(sections)
  path = workdir.prepare(directory, config)
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
    {**_study_settings(study), **scores.settings()},
    findings.numbers,
    findings.tables,
    findings.arrays,
  )
  _publish(study.figures, results, path, environment, config)
  return results


def _rows(experiment: Experiment) -> Rows:
  """Opens the rows; grey images are repeated over three channels for networks made for colour."""
  classifiers = experiment.classifiers.values()
  rows = input_pipeline.load(experiment.data, experiment.execution.seed, preparation(experiment))
  return rows.with_channels(max([rows.image_shape[2], *map(channels, classifiers)]))


def _training_rows(experiment: Experiment, recipe: ClassifierSettings, rows: Rows) -> Any:
  """Opens the rows that a recipe trains on."""
  loaded = input_pipeline.load(recipe.data, experiment.execution.seed, preparation(experiment))
  return loaded.with_channels(rows.image_shape[2])


def _evaluate(
  experiment: Experiment,
  classifier: Classifier | None,
  rows: Rows,
  parallel: parallel_package.Parallel,
  path: pathlib.Path,
) -> Evaluation:
  execution, study = experiment.execution, experiment.study
  evaluator = Evaluator(
    classifier,
    study.views(rows.image_shape),
    random_keys.stream(execution.seed, study.name),
    parallel,
    classifier.select_layers(study.layers) if classifier else (),
    classifier.select_outputs(study.outputs) if classifier else (),
  )
  layout = evaluator.layout(rows.num_examples, execution.batch_size, execution.views_per_step)
  identity = {
    'classifier': dict(classifier.provenance) if classifier else None,
    'data': dict(rows.description),
    'study': _study_settings(study),
    'seed': execution.seed,
    'classes': list(rows.class_names),
  }
  records = Records(path / 'records' / evaluator.name, layout, identity)
  evaluator.evaluate(rows, records, jax.process_index(), jax.process_count())
  meet(f'the records of {evaluator.name}')
  return Evaluation(evaluator.name, records)


def _study_settings(study: Study) -> dict[str, Any]:
  """Returns the study's settings and its further facts, such as digests of files it draws from."""
  settings = dataclasses.asdict(study)  # type: ignore[call-overload]
  return {'name': study.name, **settings, **study.facts}


def _results(
  experiment: Experiment, classifiers: list[Classifier], rows: Rows, evaluations: list[Evaluation]
) -> Results:
  study, execution = experiment.study, experiment.execution
  findings = study.reduce(evaluations, rows.image_shape)
  key = random_keys.stream(execution.seed, study.name)
  described = [
    {'label': c.name, 'layers': list(c.select_layers(study.layers)), **c.provenance}
    for c in classifiers
  ] or [{'label': IMAGES, 'note': 'no classifier is used'}]
  settings = {**_study_settings(study), **dataclasses.asdict(execution)}
  return Results(
    study.name,
    described[0] if len(described) == 1 else described,
    {
      **rows.description,
      'image_shape': list(rows.image_shape),
      'class_names': list(rows.class_names),
    },
    settings,
    findings.numbers,
    findings.tables,
    {**findings.arrays, **study.sample_arrays(rows, key), **study.finding_arrays(rows, findings)},
  )


def _publish(
  draw: Callable[[Results], Mapping[str, Any]],
  results: Results,
  path: pathlib.Path,
  environment: Mapping[str, Any],
  config: Mapping[str, Any],
) -> None:
  """Writes results, figures and the report, on process 0; logs the numbers."""
  if jax.process_index():
    return
  publish(path, results, draw, environment, config)
  for name, number in results.numbers.items():
    logging.info(
      '%s = %.4f [%.4f, %.4f] (n = %d)%s',
      name,
      number.value,
      number.low,
      number.high,
      number.n,
      f'; {number.note}' if number.note else '',
    )
  values = {f'results/{name}': number.value for name, number in results.numbers.items()}
  JsonLinesWriter(path / 'log.jsonl').write_scalars(0, values)
  logging.info('results in %s', path)
