"""What a finished run leaves: results first, then the figures drawn from them, then the report."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from robustness.figures import style
from robustness.report.html import write_report
from robustness.results import Results


def publish(
  folder: pathlib.Path,
  results: Results,
  draw: Callable[[Results], Mapping[str, tuple[Figure, str]]],
  environment: Mapping[str, Any],
  config: Mapping[str, Any],
  further: Sequence[tuple[pathlib.Path, str]] = (),
) -> list[tuple[pathlib.Path, str]]:
  """Writes `results.json`, `results.npz`, `figures/<name>.png` and `report.html`.

  Args:
    folder: where they go.
    results: what was found.
    draw: returns {name: (figure, caption)} of results.
    environment: see `robustness.core.workdir.environment`.
    config: what was asked for, plain values.
    further: figures that are drawn already, with captions, which the report shows after its own.

  Returns:
    The files of the figures drawn here, with captions.
  """
  results.write(folder)
  return illustrate(folder, results, draw, environment, config, further)


def illustrate(
  folder: pathlib.Path,
  results: Results,
  draw: Callable[[Results], Mapping[str, tuple[Figure, str]]],
  environment: Mapping[str, Any],
  config: Mapping[str, Any],
  further: Sequence[tuple[pathlib.Path, str]] = (),
) -> list[tuple[pathlib.Path, str]]:
  """Writes the figures and the report of results that are there already; see `publish`."""
  drawn = []
  for name, (figure, caption) in draw(results).items():
    file = folder / 'figures' / f'{name}.png'
    style.save(figure, file)
    drawn.append((file, caption))
  write_report(folder, results, [*drawn, *further], environment, config, environment['command'])
  return drawn
