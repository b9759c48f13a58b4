"""`robustness report WORKDIR`: figures and reports again, from the results of a finished run."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Sequence

from robustness import summaries, workdir
from robustness.cli import unfinished
from robustness.config import experiment as experiments
from robustness.config.battery import PARTS
from robustness.config.experiment import Experiment
from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.settings import without_inherited
from robustness.evaluation import study as studies
from robustness.evaluation.finished import left_out
from robustness.present import page
from robustness.present.publish import illustrate
from robustness.results import Results
from robustness.summaries.joined import Joined, over_seeds

Leave = Callable[..., list[tuple[pathlib.Path, str]]]


def main(arguments: Sequence[str]) -> int:
  """Draws a workdir again and prints the path of its report.

  Raises:
    InputError: not one workdir, or see `redraw`.
  """
  if len(arguments) != 1:
    raise InputError(f'robustness report takes one workdir; {len(arguments)} words were given.')
  print(redraw(arguments[0]))
  return 0


def redraw(directory: str) -> pathlib.Path:
  """Writes the figures and reports of a run again; results and records are only read.

  Args:
    directory: the workdir of a finished run.

  Returns:
    The report.

  Raises:
    InputError: no workdir, or a run that is not finished: what is missing, and how to finish it.
  """
  path = unfinished.find_workdir(directory)
  config = without_inherited(json_files.read(path / workdir.CONFIG, advice=unfinished.AGAIN))
  environment = json_files.read(
    path / workdir.ENVIRONMENT, workdir.ENVIRONMENT_FORM, unfinished.AGAIN
  )
  leave = functools.partial(illustrate, environment=environment, config=config)
  if 'predictions' in config:
    unfinished.check(path, [path], environment)
    leave(path, Results.read(path), studies.from_config(config.get('study', {})))
    return path / page.NAME
  experiment = experiments.from_config(config)
  seeds = experiment.execution.seeds
  folders = [path / workdir.seed_folder(seed) for seed in seeds] or [path]
  places = [place for folder in folders for place in _places(experiment, folder).values()]
  unfinished.check(path, [*places, *folders, path], environment)
  for folder in folders:
    _redraw_parts(experiment, folder, leave)
  if seeds:
    leave(
      path, Results.read(path), over_seeds(experiment.battery.summary, experiment.battery.studies)
    )
  return path / page.NAME


def _places(experiment: Experiment, folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Returns where the results of each part lie."""
  if experiment.is_single:
    return dict.fromkeys(experiment.measurements, folder)
  absent = left_out(folder)
  return {name: folder / PARTS / name for name in experiment.measurements if name not in absent}


def _redraw_parts(experiment: Experiment, folder: pathlib.Path, leave: Leave) -> None:
  """Draws the parts of one run, and what is reported above them."""
  places = _places(experiment, folder)
  parts = {name: Results.read(place) for name, place in places.items()}
  figures = {
    name: leave(places[name], results, experiment.measurements[name].study)
    for name, results in parts.items()
  }
  if not experiment.is_single:
    presented = Joined(experiment.battery.summary, experiment.battery.studies, parts)
    leave(folder, Results.read(folder), presented, further=summaries.captioned(figures))
