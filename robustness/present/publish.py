"""What a finished run leaves: results first, then the figures drawn from them, then the report."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from robustness.present import failures, style
from robustness.present.page import ENVIRONMENT, Context, write_report
from robustness.present.presented import Presented
from robustness.results import Results

_OF_CODE = ('robustness', 'git_commit', 'python', 'versions')  # alike wherever a run goes on


Drawn = Sequence[tuple[pathlib.Path, str]]
"""The PNG files of figures, with captions."""


def captioned(figures: Mapping[str, Drawn]) -> Drawn:
  """Returns the figures of all tasks of a battery, each task's name before the caption."""
  return [(file, f'{task}: {text}') for task, drawn in figures.items() for file, text in drawn]


def publish(
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  environment: Mapping[str, Any],
  config: Mapping[str, Any],
  further: Drawn = (),
) -> Drawn:
  """Writes `results.json`, `results.npz`, `figures/` (PNG, SVG, PDF) and `report.html`.

  Args:
    folder: where they go.
    results: what was found.
    presented: the study, which draws and tells results.
    environment: see `robustness.workdir.environment`.
    config: what was asked for, plain values.
    further: figures that are drawn already, with captions, which the report shows after its own.

  Returns:
    The PNG files of the figures drawn here, with captions.
  """
  results.environment = {key: environment[key] for key in _OF_CODE if key in environment}
  results.write(folder)
  return illustrate(folder, results, presented, environment, config, further)


def illustrate(
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  environment: Mapping[str, Any],
  config: Mapping[str, Any],
  further: Drawn = (),
) -> Drawn:
  """Writes the figures and the report of results that are there already; see `publish`."""
  drawn = []
  figures = {**presented.figures(results), **failures.draw(results)}
  for name, (figure, caption) in figures.items():
    file = folder / 'figures' / f'{name}.png'
    style.save(figure, file)
    drawn.append((file, caption))
  of_all = (folder / ENVIRONMENT).is_file()
  stated = {k: v for k, v in environment.items() if of_all or k != 'seconds'}
  context = Context(
    presented.title,
    stated,
    config,
    environment['command'],
    presented.findings(results),
    presented.papers,
    stated.get('seconds', 0),
  )
  write_report(folder, results, [*drawn, *further], context)
  return drawn
