"""Sends logs of trainings and results of a workdir to experiment trackers, a run per classifier.

The path of the workdir and the label of the classifier identify a run. Sending the same workdir
again, also while it trains, continues after the last step that was sent.
"""

import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from robustness.core.errors import InputError
from robustness.core.typing import Facts

LOG, RESULTS = 'log.jsonl', 'results/'
"""The log of a workdir, and the beginning of the names of estimates in it."""
NOT_METRICS = ('step', 'time', 'classifier')
"""Keys of a line of the log that are no metrics."""
METRICS_PER_REQUEST = 1000
PARAMETERS_PER_REQUEST = 100
MAX_LETTERS = 500
"""Most metrics and parameters in a request, and letters of a parameter's value, in MLflow."""


class Logged(NamedTuple):
  """The log of a classifier, to send to an experiment tracker as one run.

  Attributes:
    identity: id of the tracker's run, the same whenever the log is sent.
    name: name of the tracker's run.
    steps: (step, time in seconds, {metric: value}) of each logged step, in order.
    results: {name of an estimate: its value}; {} for a training without results yet.
  """

  identity: str
  name: str
  steps: list[tuple[int, float, dict[str, float]]]
  results: dict[str, float]


def logged(path: pathlib.Path) -> Iterator[Logged]:
  """Yields the log of each classifier of a workdir.

  Lines of the same step are merged, for instance of a training that was resumed from an earlier
  step. The last value of each metric counts.

  Raises:
    InputError: there is no log, or a line is damaged.
  """
  # {label: {step: (time in seconds, {metric: value})}} and {label: {estimate: value}}
  training_logs: dict[str, dict[int, tuple[float, dict[str, float]]]] = {}
  results: dict[str, dict[str, float]] = {}
  for step, when, line in _lines(path):
    values = {k: v for k, v in line.items() if k not in NOT_METRICS and v is not None}
    # A line of a training names its classifier; a line with estimates is about several.
    if label := line.get('classifier'):
      training_log = training_logs.setdefault(label, {})
      _, metrics = training_log.get(step, (when, {}))  # of an earlier line of the same step
      training_log[step] = when, metrics | values
    for name, value in values.items():
      if name.startswith(RESULTS):
        # The name of an estimate is results/LABEL/…, or results/LABEL minus LABEL/….
        label = name.split('/')[1].partition(' minus ')[0]
        results.setdefault(label, {})[name] = value
  for label in dict.fromkeys((*training_logs, *results)):
    identity = hashlib.sha256(f'{path.resolve()} {label}'.encode()).hexdigest()[:12]
    steps = [(step, *entry) for step, entry in sorted(training_logs.get(label, {}).items())]
    yield Logged(identity, f'{path.name} {label}', steps, results.get(label, {}))


def _lines(path: pathlib.Path) -> Iterator[tuple[int, float, Facts]]:
  """Yields (step, time in seconds, content) for each line of a workdir's log.

  Raises:
    InputError: there is no log, or a line is damaged.
  """
  file = path / LOG
  if not file.is_file():
    raise InputError(f'{path} has no {LOG}: nothing was trained or measured there yet.')
  for number, text in enumerate(file.read_text('utf-8').splitlines(), 1):
    try:
      line = json.loads(text)
      step, when = int(line['step']), float(line['time'])
    except (ValueError, TypeError, KeyError) as error:
      raise InputError(f'{file}: line {number} is damaged: {text[:60]!r}.') from error
    yield step, when, line


def to_wandb(log: Logged, project: str, folder: pathlib.Path, config: Facts) -> str:
  """Sends a log to Weights & Biases and returns the run's URL, or its folder if it is local.

  The environment variable WANDB_MODE decides whether the log goes to a server or to `folder`. If a
  part was sent earlier, the same run is continued.

  Args:
    log: the log of one classifier.
    project: name of the project at Weights & Biases.
    folder: the workdir. Its name groups the runs of its classifiers.
    config: the config of the run, which is shown with it.
  """
  import wandb

  names = {'project': project, 'group': folder.name, 'id': log.identity, 'name': log.name}
  options = {'dir': os.fspath(folder), 'resume': 'allow', 'reinit': 'finish_previous'}
  run = wandb.init(**names, **options, config=dict(config))
  for step, _, values in log.steps:
    if step >= run.step:  # W&B refuses earlier steps, which it has if the log was sent before
      run.log(values, step=step)
  run.summary.update(log.results)
  place = str(run.url or run.dir)
  run.finish()
  return place


def to_mlflow(log: Logged, project: str, folder: pathlib.Path, config: Facts) -> str:
  """Sends a log to the MLflow server at the environment variable MLFLOW_TRACKING_URI.

  If a part was sent earlier, the same MLflow run is continued with later steps. Its tag
  'robustness_step' has the last step that was sent.

  Args:
    log: the log of one classifier.
    project: name of the MLflow experiment, which is created if it does not exist.
    folder: the workdir. Its path becomes a tag of the run.
    config: the config of the run, a nested dictionary that becomes the parameters 'data.split' and
      so on.

  Returns:
    The server, the experiment and the id of the MLflow run, as text.
  """
  import mlflow
  from mlflow.entities import Metric, Param, RunTag

  client = mlflow.MlflowClient()
  experiment_id = mlflow.set_experiment(project).experiment_id
  query = f"tags.robustness_id = '{log.identity}'"
  runs = client.search_runs([experiment_id], query, max_results=1)
  tags = {'robustness_id': log.identity, 'mlflow.runName': log.name, 'workdir': str(folder)}
  run = runs[0] if runs else client.create_run(experiment_id, tags=tags)
  last_sent = int(run.data.tags.get('robustness_step', -1))
  last_step, last_time, _ = log.steps[-1] if log.steps else (0, 0.0, {})  # 0 without a training
  metrics, params = [], []
  for step, time, values in log.steps:
    if step > last_sent:
      milliseconds = int(1000 * time)
      metrics += [Metric(_allowed(k), float(v), milliseconds, step) for k, v in values.items()]
  for name, value in log.results.items():
    if run.data.metrics.get(_allowed(name)) != value:
      metrics.append(Metric(_allowed(name), float(value), int(1000 * last_time), last_step))
  # {'data.split': 'test', …}: json_normalize joins the nested keys by dots.
  for name, value in pd.json_normalize(dict(config)).to_dict('records')[0].items():
    if _allowed(name) not in run.data.params:
      params.append(Param(_allowed(name), str(value)[:MAX_LETTERS]))
  run_id = run.info.run_id
  for start in range(0, len(metrics), METRICS_PER_REQUEST):
    client.log_batch(run_id, metrics=metrics[start : start + METRICS_PER_REQUEST])
  for start in range(0, len(params), PARAMETERS_PER_REQUEST):
    client.log_batch(run_id, params=params[start : start + PARAMETERS_PER_REQUEST])
  client.log_batch(run_id, tags=[RunTag('robustness_step', str(last_step))])
  client.set_terminated(run_id)
  return f'{mlflow.get_tracking_uri()}, experiment {project!r}, run {run_id}'


def _allowed(name: str) -> str:
  """Replaces the characters that MLflow refuses in names by spaces."""
  return re.sub(r'[^\w.\- /]', ' ', name)


TRACKERS = {'wandb': to_wandb, 'mlflow': to_mlflow}
"""Functions that send a log, by the Python package that each needs."""
