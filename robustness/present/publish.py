"""Writes the results of a finished run, the figures drawn from them, and the report."""

import base64
import contextlib
import dataclasses
import functools
import hashlib
import json
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Protocol, Self

import pandas as pd
from matplotlib.figure import Figure

from robustness.core import json_files
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.core.typing import Facts
from robustness.estimates.table import FILE_NAME
from robustness.present import charts, failures, headlines, sentences, side_by_side, style, tables
from robustness.present.page import ENVIRONMENT, NAME, Context, write_report
from robustness.present.sentences import Finding
from robustness.present.text import summary
from robustness.results import ARRAYS_NAME, JSON_NAME, Results

_CODE_FACTS = ('robustness', 'git_commit', 'python', 'versions')
"""Entries of environment.json about the code, which results.json states too."""
_DRAWN = 'drawn.json'
"""A file next to the figures: their captions, and the `_digest` of what they were drawn from."""


class Presented(Protocol):
  """Interface of what determines a report's title, papers, figures and findings.

  Studies implement it. Reports on several tasks or seeds use a `Presentation`.
  """

  @property
  def title(self) -> str:
    """The title of the report; '' for the name of the study."""

  @property
  def papers(self) -> tuple[str, ...]:
    """The papers to cite, as keys of `robustness.present.page.PAPERS`."""

  def figures(self, results: Results, /) -> Mapping[str, tuple[Figure, str]]:
    """Returns {file name without suffix: (figure, caption)}, the main figure first."""

  def findings(self, results: Results, /) -> list[Finding]:
    """Returns the findings in words."""


@dataclasses.dataclass(frozen=True)
class Presentation:
  """Title, papers, figures and findings of a report, chosen independently of a study.

  Attributes:
    title: the title of the report; '' for the name of the study.
    papers: keys of `robustness.present.page.PAPERS` to cite.
    figures: function of the results that returns {file name without suffix: (figure, caption)}.
    findings: function of the results that returns the findings.
  """

  title: str
  papers: tuple[str, ...] = ()
  figures: Callable[[Results], Mapping[str, tuple[Figure, str]]] = charts.draw
  findings: Callable[[Results], list[Finding]] = sentences.findings

  @classmethod
  def of_study(cls, study: Presented) -> Self:
    """Returns a study's title, papers, figures and findings."""
    return cls(study.title, study.papers, study.figures, study.findings)

  def displayed_figures(self, results: Results) -> Mapping[str, tuple[Figure, str]]:
    """Returns the figures of the results for a notebook, as {name: (figure, caption)}.

    A notebook displays each as the PNG that a report would have.
    """
    figures = figures_of(self, results)
    for figure, _ in figures.values():
      # IPython calls `_repr_png_`. Set through __dict__, since Figure declares no such attribute.
      figure.__dict__['_repr_png_'] = functools.partial(style.displayed, figure)
    return figures

  def report(self, results: Results) -> bytes:
    """Returns the report as one HTML file without links to other files of a run."""
    with tempfile.TemporaryDirectory() as name:
      folder = pathlib.Path(name)
      illustrate(folder, results, self, environment={}, config=results.settings)
      text = (folder / NAME).read_text('utf-8')
    links = r'<span class="links">.*?</span>| ?<a href="(results\.csv|figures/)">.*?</a>\.?'
    return re.sub(links, '', text).encode()

  def latex(self, results: Results) -> str:
    """Returns the headlines (main quantities) as a LaTeX table."""
    return tables.to_latex(*side_by_side.arrange(results.by_task))

  def text(self, results: Results) -> str:
    """Returns the headlines (main quantities) as lines of text, as a run prints them."""
    return '\n'.join(summary(results))

  def html(self, results: Results) -> str:
    """Returns a short report as HTML, for the display of results in a notebook.

    It has the title, a table of the main quantities, and the first figure.
    """
    table = headlines.table(results.by_task)
    rows = pd.DataFrame(table.rows, columns=list(table.columns)).to_html(index=False)
    picture = ''
    if figures := figures_of(self, results):
      main_figure, _caption = next(iter(figures.values()))
      png, size = style.displayed(main_figure)
      data = base64.b64encode(png).decode()
      picture = f'<img width="{size["width"]}" src="data:image/png;base64,{data}">'
    return f'<h3>{escape(self.title or results.study)}</h3>{rows}{picture}'


Drawn = Sequence[tuple[pathlib.Path, str]]
"""PNG files of figures, with captions."""


def figures_of(presented: Presented, results: Results) -> Mapping[str, charts.Picture]:
  """Draws the figures of a study or page, as {file name without suffix: (figure, caption)}.

  Args:
    presented: the study, or another object with a method `figures`.
    results: its results.

  Raises:
    InputError: the method, which may be a user's, returns something else.
  """
  figures = presented.figures(results)
  try:
    pairs = [(figure, caption) for figure, caption in figures.values()]
    are_drawn = all(isinstance(f, Figure) and isinstance(caption, str) for f, caption in pairs)
  except (AttributeError, TypeError, ValueError):  # no mapping, or no pairs
    are_drawn = False
  if not are_drawn:
    raise InputError(
      f'figures of {results.study} returned {figures!r}; it must return {{file name without '
      'suffix: (figure, caption)}, where a figure is a matplotlib.figure.Figure.'
    )
  return figures


def with_task_captions(figures: Mapping[str, Drawn]) -> Drawn:
  """Puts the name of the task before the caption of each figure of a battery (several studies).

  Args:
    figures: {task: (PNG file, caption) of each figure}.

  Returns:
    (PNG file, new caption) of all figures.
  """
  return [(file, f'{task}: {text}') for task, drawn in figures.items() for file, text in drawn]


def publish(
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  environment: Facts,
  config: Facts,
  figures_of_tasks: Drawn = (),
  pdf: bool = False,
) -> Drawn:
  """Writes results, figures and the report to a folder.

  The files are `results.json`, `results.npz`, `results.csv`, `figures/` and `report.html`. Figures
  are not drawn again if the code and the results are unchanged.

  Args:
    folder: the folder.
    results: the results.
    presented: title, papers, figures and findings of the report.
    environment: versions, devices, seed, git commit and command of the run.
    config: the config of the run as a dictionary.
    figures_of_tasks: (PNG file, caption) of figures of single tasks, if there are several studies.
      The report shows them last.
    pdf: whether figures are written as PDF too, besides PNG and SVG.

  Returns:
    (PNG file, caption) of each figure.
  """
  # `reduced_by` has the versions that computed these results, if others computed the records.
  code = environment.get('reduced_by', environment)
  results.environment = {key: code[key] for key in _CODE_FACTS if key in code}
  results.write(folder)
  reused = () if pdf else _drawn_before(folder, presented)
  return illustrate(
    folder, results, presented, environment, config, figures_of_tasks, pdf=pdf, reused=reused
  )


def illustrate(
  folder: pathlib.Path,
  results: Results,
  presented: Presented,
  environment: Facts,
  config: Facts,
  figures_of_tasks: Drawn = (),
  unverified: str = '',
  pdf: bool = False,
  reused: Drawn = (),
) -> Drawn:
  """Writes figures and the report for results that a folder already has.

  Args:
    folder: the folder.
    results: the results in the folder.
    presented: title, papers, figures and findings of the report.
    environment: versions, devices, seed, git commit and command of the run.
    config: the config of the run as a dictionary.
    figures_of_tasks: (PNG file, caption) of figures of single tasks, if there are several studies.
      The report shows them last.
    unverified: text on values that the records do not confirm; '' if all are confirmed.
    pdf: whether figures are written as PDF too, besides PNG and SVG.
    reused: (PNG file, caption) of figures that need not be drawn again.

  Returns:
    (PNG file, caption) of each figure.
  """
  figures = reused or _draw(folder, results, presented, pdf)
  is_workdir = (folder / ENVIRONMENT).is_file()  # and not the folder of a task or seed in it
  # The duration is of the whole run.
  facts = {key: value for key, value in environment.items() if is_workdir or key != 'seconds'}
  findings = presented.findings(results)
  results.findings = [finding.text for finding in findings]
  context = Context(presented.title, facts, config, findings, presented.papers, unverified)
  write_report(folder, results, [*figures, *figures_of_tasks], context)
  return figures


def _draw(folder: pathlib.Path, results: Results, presented: Presented, pdf: bool) -> Drawn:
  """Writes the figures to a folder, and a file by which a later call recognises them.

  Args:
    folder: the folder of the report.
    results: the results.
    presented: the study or page that draws them.
    pdf: whether to write PDF files too.

  Returns:
    (PNG file, caption) of each figure.
  """
  figures = {**figures_of(presented, results), **failures.draw(results)}
  for name, (figure, _) in figures.items():
    style.save(figure, folder / 'figures' / f'{name}.png', pdf)
  captions = {name: caption for name, (_, caption) in figures.items()}
  # By this digest, `_drawn_before` recognises figures that need not be drawn again.
  content = json.dumps({'sha256': _digest(folder, captions, presented), 'captions': captions})
  write_atomically(folder / 'figures' / _DRAWN, content.encode())
  return _files_and_captions(folder, captions)


def _drawn_before(folder: pathlib.Path, presented: Presented) -> Drawn:
  """Returns (PNG file, caption) of the figures in a folder if they need not be drawn again.

  The result is () if the code, the results or a figure has changed. It is also () if code outside
  this package draws the figures, since its changes would not be noticed.
  """
  with contextlib.suppress(InputError):
    drawn = json_files.read(folder / 'figures' / _DRAWN, {'sha256': str, 'captions': {str: str}})
    if drawn['sha256'] and drawn['sha256'] == _digest(folder, drawn['captions'], presented):
      return _files_and_captions(folder, drawn['captions'])
  return ()


def _files_and_captions(folder: pathlib.Path, captions: Mapping[str, str]) -> Drawn:
  """Returns (PNG file, caption) of each figure.

  Args:
    folder: the folder with `figures/`.
    captions: {file name without suffix: caption}.
  """
  return [(folder / 'figures' / f'{name}.png', caption) for name, caption in captions.items()]


def _digest(folder: pathlib.Path, names: Iterable[str], presented: Presented) -> str:
  """Returns a SHA-256 that stays equal as long as figures need not be drawn again.

  It is computed from this package's code, the results, and the figures' files. It is '' if code
  outside this package draws the figures.

  Args:
    folder: folder with results.json, results.npz, results.csv and `figures/`.
    names: file names of the figures without suffix.
    presented: the object that draws the figures.
  """
  modules = type(presented).__module__, presented.figures.__module__
  if not all(module.startswith('robustness.') for module in modules):
    return ''
  figures = [f'figures/{name}.{kind}' for name in names for kind in ('png', *style.VECTOR_FORMATS)]
  files = [folder / name for name in (JSON_NAME, ARRAYS_NAME, FILE_NAME, *figures)]
  contents = (file.read_bytes() if file.is_file() else b'' for file in files)
  digests = [hashlib.sha256(content).digest() for content in (_source_files(), *contents)]
  return hashlib.sha256(b''.join(digests)).hexdigest()


@functools.cache
def _source_files() -> bytes:
  """Returns the source files of this package, one after another."""
  folder = pathlib.Path(__file__).parents[1]
  files = sorted([*folder.rglob('*.py'), *folder.rglob('*.toml')])
  return b''.join(file.read_bytes() for file in files)
