"""`robustness report WORKDIR`: figures and reports again, from the results of a finished run.

Of a run that was stopped it lists what is missing, and the command that goes on with it.
"""

import functools
import pathlib
from collections.abc import Sequence

from robustness import workdir
from robustness.config import experiment as experiments
from robustness.core.errors import InputError
from robustness.evaluation import study as studies
from robustness.present import page, summary
from robustness.present.publish import captioned, illustrate
from robustness.results import Results


def main(arguments: Sequence[str]) -> int:
  """Draws a workdir again and prints the path of its report."""
  if len(arguments) != 1:
    raise InputError(f'robustness report takes one workdir; {len(arguments)} words were given.')
  print(redraw(arguments[0]))
  return 0


def redraw(directory: str) -> pathlib.Path:
  """Writes the figures and reports of a finished run again, and returns the report.

  Of a run that is not finished the message says what is missing, and how to finish it.
  """
  path, config, environment = workdir.find(directory)
  draw = functools.partial(illustrate, environment=environment, config=config)
  if 'predictions' in config:
    workdir.refuse_unfinished(path, [path], environment['command'])
    draw(path, Results.read(path), studies.from_config(config.get('study', {})))
    return path / page.NAME
  experiment = experiments.from_config(config)
  seeds = experiment.execution.seeds
  folders = [path / workdir.seed_folder(seed) for seed in seeds] or [path]
  tasks = {
    folder: {
      name: workdir.task_folder(folder, name)
      for name in experiment.measurements
      if name not in workdir.left_out(folder)
    }
    for folder in folders
  }
  places = [place for of in tasks.values() for place in of.values()]
  workdir.refuse_unfinished(path, [*places, *folders, path], environment['command'])
  for folder, of in tasks.items():
    figures = {
      name: draw(place, Results.read(place), experiment.studies[name]) for name, place in of.items()
    }
    if not experiment.is_single:
      presented = summary.of_battery(experiment.summary, experiment.studies)
      draw(folder, Results.read(folder), presented, further=captioned(figures))
  if seeds:
    presented = summary.of_seeds(experiment.summary, experiment.studies)
    draw(path, Results.read(path), presented)
  return path / page.NAME
