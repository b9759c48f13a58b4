"""Writing the results of a finished run, the figures drawn from them, and the report."""

import base64
import dataclasses
import pathlib
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Protocol, Self

import pandas as pd
from matplotlib.figure import Figure

from robustness.core.typing import Facts
from robustness.present import charts, failures, headlines, sentences, side_by_side, style, tables
from robustness.present.page import ENVIRONMENT, NAME, Context, write_report
from robustness.present.sentences import Finding
from robustness.results import Results

_CODE_FACTS = ('robustness', 'git_commit', 'python', 'versions')  # equal after a resumption


class Presented(Protocol):
  """A study, or a `Presentation` of joined tasks or seeds."""

  @property
  def title(self) -> str:
    """The title of the report, in plain words; '' takes the name of the study."""

  @property
  def papers(self) -> tuple[str, ...]:
    """Keys of `robustness.present.page.PAPERS`."""

  def figures(self, results: Results, /) -> Mapping[str, tuple[Figure, str]]:
    """Returns {file name without suffix: (figure, caption)}, the main figure first."""

  def findings(self, results: Results, /) -> list[Finding]:
    """Returns the findings in words."""


@dataclasses.dataclass(frozen=True)
class Presentation:
  """A `Presented` that is not a study."""

  title: str
  papers: tuple[str, ...] = ()
  figures: Callable[[Results], Mapping[str, tuple[Figure, str]]] = charts.draw
  findings: Callable[[Results], list[Finding]] = sentences.findings

  @classmethod
  def of_study(cls, study: Presented) -> Self:
    """Returns the presentation of a study."""
    return cls(study.title, study.papers, study.figures, study.findings)

  def report(self, results: Results) -> bytes:
    """Returns the report as one HTML file without links to other files."""
    with tempfile.TemporaryDirectory() as name:
      folder = pathlib.Path(name)
      illustrate(folder, results, self, {}, results.settings)
      text = (folder / NAME).read_text('utf-8')
    return re.sub('<span class="links">.*?</span>', '', text).encode()

  def latex(self, results: Results) -> str:
    """Returns the headlines as a LaTeX table."""
    return tables.to_latex(*side_by_side.arranged(results.by_task))

  def html(self, results: Results) -> str:
    """Returns title, headlines and main figure for a notebook."""
    table = headlines.table(results.by_task)
    rows = pd.DataFrame(table.rows, columns=list(table.columns)).to_html(index=False)
    picture = ''
    for figure, _ in [*self.figures(results).values()][:1]:
      png, size = style.displayed(figure)
      data = base64.b64encode(png).decode()
      picture = f'<img width="{size["width"]}" src="data:image/png;base64,{data}">'
    return f'<h3>{escape(self.title or results.study)}</h3>{rows}{picture}'


Drawn = Sequence[tuple[pathlib.Path, str]]
"""The PNG files of figures, with captions."""


def captioned(figures: Mapping[str, Drawn]) -> Drawn:
  """Returns the figures of all tasks of a battery, with the name of the task in the caption."""
  return [(file, f'{task}: {text}') for task, drawn in figures.items() for file, text in drawn]


def publish(
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  environment: Facts,
  config: Facts,
  appended: Drawn = (),
  pdf: bool = False,
) -> Drawn:
  """Writes `results.json`, `results.npz`, `figures/` (PNG, SVG, with `pdf` PDF) and `report.html`.

  `appended` are files of figures that follow the figures of the results in the report. For
  `environment` see `robustness.workdir.environment`. Returns the PNG files of the figures of the
  results, with captions.
  """
  code = environment.get('reduced_by', environment)
  results.environment = {key: code[key] for key in _CODE_FACTS if key in code}
  results.write(folder)
  return illustrate(folder, results, presented, environment, config, appended, pdf=pdf)


def illustrate(
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  environment: Facts,
  config: Facts,
  appended: Drawn = (),
  unverified: str = '',
  pdf: bool = False,
) -> Drawn:
  """Writes the figures and the report of results that are in the folder already; see `publish`.

  `unverified` describes the values that records do not confirm.
  """
  drawn = []
  figures = {**presented.figures(results), **failures.draw(results)}
  for name, (figure, caption) in figures.items():
    file = folder / 'figures' / f'{name}.png'
    style.save(figure, file, pdf)
    drawn.append((file, caption))
  is_workdir = (folder / ENVIRONMENT).is_file()
  facts = {k: v for k, v in environment.items() if is_workdir or k != 'seconds'}
  findings = presented.findings(results)
  context = Context(presented.title, facts, config, findings, presented.papers, unverified)
  write_report(folder, results, [*drawn, *appended], context)
  return drawn
