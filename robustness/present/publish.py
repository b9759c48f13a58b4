"""What a finished run leaves: results, the figures drawn from them, and the report."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from matplotlib.figure import Figure

from robustness.core.typing import Facts
from robustness.present import charts, failures, sentences, style
from robustness.present.page import ENVIRONMENT, Context, write_report
from robustness.present.sentences import Finding
from robustness.results import Results

_OF_CODE = ('robustness', 'git_commit', 'python', 'versions')  # alike wherever a run goes on


class Presented(Protocol):
  """A study, or what stands for one above several."""

  @property
  def title(self) -> str:
    """What was measured, in plain words; '' takes the study's name."""

  @property
  def papers(self) -> tuple[str, ...]:
    """Keys of `robustness.present.page.PAPERS`."""

  def figures(self, results: Results, /) -> Mapping[str, tuple[Figure, str]]:
    """Returns {file name without suffix: (matplotlib figure, caption)}, the main one first."""

  def findings(self, results: Results, /) -> list[Finding]:
    """Returns what was found, in words."""


@dataclasses.dataclass(frozen=True)
class Presentation:
  """A `Presented` that is no study."""

  title: str
  papers: tuple[str, ...] = ()
  figures: Callable[[Results], Mapping[str, tuple[Figure, str]]] = charts.draw
  findings: Callable[[Results], list[Finding]] = sentences.findings


Drawn = Sequence[tuple[pathlib.Path, str]]
"""The PNG files of figures, with captions."""


def captioned(figures: Mapping[str, Drawn]) -> Drawn:
  """Returns the figures of all tasks of a battery, each task's name before the caption."""
  return [(file, f'{task}: {text}') for task, drawn in figures.items() for file, text in drawn]


def publish(
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  environment: Facts,
  config: Facts,
  further: Drawn = (),
  pdf: bool = False,
) -> Drawn:
  """Writes `results.json`, `results.npz`, `figures/` (PNG, SVG, with `pdf` PDF) and `report.html`.

  The report shows `further` figures, which are drawn already, after its own. For `environment` see
  `robustness.workdir.environment`. Returns the PNG files of the figures drawn here, with captions.
  """
  code = environment.get('reduced_by', environment)
  results.environment = {key: code[key] for key in _OF_CODE if key in code}
  results.write(folder)
  return illustrate(folder, results, presented, environment, config, further, pdf=pdf)


def illustrate(
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  environment: Facts,
  config: Facts,
  further: Drawn = (),
  unverified: str = '',
  pdf: bool = False,
) -> Drawn:
  """Writes the figures and the report of results that are there already; see `publish`.

  `unverified` says in words which values records do not give.
  """
  drawn = []
  figures = {**presented.figures(results), **failures.draw(results)}
  for name, (figure, caption) in figures.items():
    file = folder / 'figures' / f'{name}.png'
    style.save(figure, file, pdf)
    drawn.append((file, caption))
  of_all = (folder / ENVIRONMENT).is_file()
  stated = {k: v for k, v in environment.items() if of_all or k != 'seconds'}
  findings = presented.findings(results)
  context = Context(presented.title, stated, config, findings, presented.papers, unverified)
  write_report(folder, results, [*drawn, *further], context)
  return drawn
