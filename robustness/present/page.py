"""The report of a run: one HTML file that contains its figures, style and script.

It begins with what was run, one table of classifiers and the main figure. For a battery (several
studies of the same classifiers) the table has the first headlines of each task, and the figure is
the profile. Findings, figures and an appendix follow; the appendix has every table, the settings,
and how to repeat and cite the run.
"""

import base64
import importlib.resources
import json
import os
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple
from urllib.parse import quote, unquote

from robustness import __version__
from robustness.core.atomic_files import write_atomically
from robustness.core.bounded_files import read_bounded
from robustness.core.limits import MAX_BYTES_OF_TEXT
from robustness.core.typing import Facts
from robustness.estimates.intervals import REGRESSION
from robustness.estimates.table import FILE_NAME, OVER_SEEDS
from robustness.present import headlines, tables
from robustness.present.notation import NO_BREAK, enumerated
from robustness.present.phrases import classifier_facts, data_words, plural, source_words, words
from robustness.present.sentences import Finding
from robustness.results import DAMAGED_IMAGES, NO_CLASSIFIER, Results, Table

_PACKAGE = importlib.resources.files('robustness.present')
_BIBTEX = (_PACKAGE / 'papers.bib').read_text('utf-8')
_ENTRIES_AND_KEYS = re.findall(r'(@\w+{(\w+),.*?\n}\n)', _BIBTEX, re.DOTALL)
PAPERS: dict[str, str] = {key: entry for entry, key in _ENTRIES_AND_KEYS}
"""BibTeX entries by key: the papers of CITATION.cff and those that studies are based on."""

SOFTWARE = f"""\
@software{{classifier_robustness,
  author    = {{{{The authors}}}},
  title     = {{classifier-robustness: how robust image classifiers are, measured in {{JAX}}}},
  version   = {{{__version__}}}
}}
"""
NAME = 'report.html'
ENVIRONMENT = 'environment.json'
"""A file of a workdir that states how long the run took. The folders of tasks and seeds have
none.
"""
TASKS = 'tasks'
"""The folder of a workdir with a folder for each task of a battery, which has the task's
figures.
"""
CLASSIFIERS, SETTINGS, VERSIONS = 'Classifiers and data', 'Settings', 'Environment'
FILES = 'Files'
_SCREEN_SECTIONS = (CLASSIFIERS, SETTINGS, VERSIONS, FILES, DAMAGED_IMAGES.capitalize())
"""Sections that are left out when the page is printed. The facts at its top and the gallery have
what matters of these sections.
"""
_SCREEN = ' class="screen"'
"""The HTML attribute of elements that are not printed."""
_FORMATS = ('png', 'svg', 'pdf')
_NUM_OPEN_FINDINGS = 6  # the others are folded
_WIDTH_PER_PIXEL = 0.66  # one scale for all figures, which keeps their relative sizes
_MAX_LISTED = 20  # entries of a list that are written out
_NUMBER = re.compile(r'([−+-]?\d[\d.,]*(e[+-]?\d+)?( \(.*\))?|nan|unknown|)')
_FIRST_TABLE = re.compile('<section><div class="scroll"><table>.*?</table>', re.DOTALL)
_ROWS = re.compile('<h3 id="rows-([^"]*)">.*?</table>', re.DOTALL)
MAX_NAMED = 3  # classifiers and sets of images in a title
MAX_ROWS_OF_FIRST_TABLE = 10
_MAX_UNBROKEN = 28  # letters of a cell that stay on one line
Figures = Sequence[tuple[str | os.PathLike[str], str]]
"""PNG files and their captions."""


class Context(NamedTuple):
  """The content of a report in addition to results and figures.

  Attributes:
    title: the title of the page.
    environment: versions, devices, seed, git commit, start and duration of the run, and the command
      that repeats it.
    config: the configuration of the run.
    findings: sentences on the main results.
    papers: keys of `PAPERS` to cite.
    unverified: a text on the values that the records do not confirm; '' if all are confirmed.
  """

  title: str = ''
  environment: Facts = {}
  config: Facts = {}
  findings: Sequence[Finding] = ()
  papers: Sequence[str] = ()
  unverified: str = ''


def write_report(
  directory: str | os.PathLike[str], results: Results, figures: Figures, context: Context
) -> pathlib.Path:
  """Writes `report.html` to a folder and returns its path.

  Args:
    directory: the folder.
    results: the results.
    figures: (PNG file, caption) of each figure, the main figure first. The page contains the
      figures, with links to their files in each format.
    context: title, environment, config and findings.
  """
  path = pathlib.Path(directory) / NAME
  write_atomically(path, render(path.parent, results, figures, context).encode())
  return path


def shortened_tables(folder: pathlib.Path, results: Results) -> list[str]:
  """Returns the names of tables that would become shorter if a report were written again.

  They have more rows in the folder's `report.html` than in `results`. The table above the main
  figure is called 'headlines'. The result is [] if the folder has no report.
  """
  file = folder / NAME
  if not file.is_file():
    return []
  text = read_bounded(file, MAX_BYTES_OF_TEXT).decode(errors='replace')
  # {name of a table, quoted as in links to it: match of its HTML}
  matches = {'headlines': _FIRST_TABLE.search(text)}
  matches |= {match[1]: match for match in _ROWS.finditer(text)}
  # One line of each table is its head.
  in_report = {name: match[0].count('<tr>') - 1 for name, match in matches.items() if match}
  in_results = {quote(titled.name): len(titled.table.rows) for titled in tables.tables(results)}
  in_results['headlines'] = len(_first_table(results).rows)
  return [unquote(name) for name, count in in_report.items() if count > in_results.get(name, 0)]


def render(folder: pathlib.Path, results: Results, figures: Figures, context: Context) -> str:
  """Returns the page of a report as HTML with links relative to `folder`.

  Args:
    folder: the folder of the page.
    results: the results.
    figures: (PNG file, caption) of each figure, the main figure first.
    context: title, environment, config and findings.
  """
  title = escape(context.title or _title(results))
  captions = {pathlib.Path(path): caption for path, caption in figures}
  paths_of_whole_run = [path for path in captions if not _task_of_figure(folder, path)]
  gallery = [_figure(folder, path, captions[path]) for path in paths_of_whole_run]
  main_figure = gallery[0] if gallery else ''  # is shown above the sections
  # (task, name) of each figure, which findings link to
  figures_on_page = {(_task_of_figure(folder, path), path.stem) for path in captions}
  tables_of_estimates = {table.name: table for table in tables.tables(results)}
  # Other tables, except those named 'TASK: name', which are in the section of the task.
  tables_of_whole_run = {
    words(name).capitalize(): _table(table, words)
    for name, table in results.tables.items()
    if name.partition(': ')[0] not in results.tasks
  }
  command = _copyable(context.environment.get('command', ''))
  config = escape(json.dumps(context.config, indent=2, default=str, ensure_ascii=False))
  # {heading: content as HTML}, in the order of the page; sections without content are left out
  sections = {
    'Findings': _findings(results, context.findings, figures_on_page, set(tables_of_estimates)),
    'Figures': ''.join(gallery[1:]),
    **_task_sections(folder, results, captions),
    'Headlines': _table(headlines.table(results.by_task)) if results.tasks else '',
    'Tables': _estimates(results, tables_of_estimates),
    **tables_of_whole_run,
    CLASSIFIERS: _terms(flattened({'classifiers': results.classifiers, 'data': results.data})),
    SETTINGS: _terms(flattened(results.settings)),
    'How to repeat': f'{command}<details><summary>Whole configuration</summary>'
    f'<pre><code>{config}</code></pre></details>',
    'How to cite': _copyable(bibtex(context.papers)),
    VERSIONS: _terms(flattened(context.environment)),
    FILES: _links_to_files(folder, results),
  }
  sections = {name: content for name, content in sections.items() if content}
  links = ''.join(f'<li><a href="#{quote(name)}">{escape(name)}</a></li>' for name in sections)
  parts = [
    f'<header><h1>{title}</h1>{_card(results, context)}</header>',
    f'<section>{_table(_first_table(results))}{main_figure}</section>',
    f'<nav aria-label="contents"><ul>{links}</ul></nav>',
  ]
  for name, content in sections.items():
    html_class = _SCREEN if name in _SCREEN_SECTIONS else ''  # of sections that are not printed
    opening = f'<section id="{quote(name)}"{html_class}>'
    parts.append(f'{opening}\n<h2>{escape(name)}</h2>\n{content}\n</section>')
  body = '\n'.join(parts)
  style = (_PACKAGE / 'report.css').read_text('utf-8')
  script = (_PACKAGE / 'report.js').read_text('utf-8')
  return (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n'
    f'{body}\n</main>\n<script>{script}</script>\n</body>\n</html>\n'
  )


def _title(results: Results) -> str:
  """Returns the default title of a report.

  It is the name of the study, such as 'Corruption error'. For a run of several studies (tasks) it
  names the classifiers and the images.
  """
  if not results.tasks:
    return words(results.study).capitalize()
  labels = results.classifier_labels or results.labels  # `labels` may also name several together
  names = list(labels[:MAX_NAMED])
  if len(labels) > MAX_NAMED:
    names.append('others')
  classifiers = enumerated(names)
  sources = dict.fromkeys(source_words(data) for data in results.data.values())
  images = f' on {" and ".join([*sources][:MAX_NAMED])}' if sources else ''
  return f'Robustness of {classifiers}{images}'


def _first_table(results: Results) -> Table:
  """Returns the table above the main figure, with the main quantities.

  If a run has several studies, only the first quantities of each are shown.
  """
  return headlines.table(results.by_task, MAX_ROWS_OF_FIRST_TABLE if results.tasks else 0)


def _card(results: Results, context: Context) -> str:
  """Returns the lines at the top of a report as HTML: data, classifiers, seeds, commit, command.

  Args:
    results: the results.
    context: facts about the run, such as its environment (versions, time, devices).
  """
  environment = context.environment
  seeds = results.settings.get('seeds') or [environment.get('seed', '')]
  date = environment.get('started', '')[:10]  # of a time such as 2026-01-31T12:00:00+00:00
  run_facts = date, duration(environment), counted_devices(environment)
  lines = {'data': data_words(results.data)}
  for facts in results.classifiers:
    lines[f'classifier {facts["label"]}'] = ', '.join(filter(None, classifier_facts(facts)))
  lines |= {
    'seed' if len(seeds) == 1 else 'seeds': ', '.join(map(str, seeds)),
    'run': ', '.join(filter(None, run_facts)),
    'commit': str(environment.get('git_commit') or ''),
    'values': context.unverified,
    'command': environment.get('command', ''),
  }
  return _terms(((name, text) for name, text in lines.items() if text), ' class="card"')


def counted_devices(environment: Facts) -> str:
  """Returns the devices of a run, such as '2 × cpu'; '' if they are unknown."""
  # 'cpu cpu' (platform and kind) → 'cpu'
  devices = [' '.join(dict.fromkeys(name.split())) for name in environment.get('devices', ())]
  return ', '.join(f'{devices.count(kind)} × {kind}' for kind in dict.fromkeys(devices))


def duration(environment: Facts) -> str:
  """Returns the duration of a run, such as '40 s'; '' if unknown, as after a resumed run."""
  seconds = environment.get('seconds', 0)
  if not seconds or environment.get('resumed'):
    return ''
  return f'{seconds:.0f} s' if seconds < 120 else f'{seconds / 60:.0f} min'


def _terms(lines: Iterable[tuple[str, str]], attribute: str = '') -> str:
  """Returns names and texts as an HTML description list; '' for no lines.

  Args:
    lines: (name, text) of each line.
    attribute: attributes of the list with a leading space, such as ' class="card"'.
  """
  items = ''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in lines)
  return f'<dl{attribute}>{items}</dl>' if items else ''


def _findings(
  results: Results, findings: Sequence[Finding], figures: set[tuple[str, str]], tables: set[str]
) -> str:
  """Returns the findings as an HTML list, and an explanation of the intervals in brackets.

  Each finding links to a figure of its quantity, if there is one, and to the table of its rows, or
  else to results.csv. Findings from the seventh on are folded.

  Args:
    results: the results.
    findings: sentences on the main results.
    figures: (task, name) of each figure on the page; the task (one of several studies in a run) is
      '' for the whole run.
    tables: names of the tables on the page.
  """
  items = []
  for finding in findings:
    names_in_task = {name for task, name in figures if task == finding.task}
    name = _figure_of(finding, results, names_in_task)
    anchor = quote(f'{finding.task}-{name}' if finding.task else name)
    figure_link = f'<a href="#figure-{anchor}">figure</a> ' if name else ''
    # A table has the name of the figure of the same rows.
    target = f'#rows-{quote(finding.figure)}' if finding.figure in tables else FILE_NAME
    links = f'<span class="rows">{figure_link}<a href="{target}">rows</a></span>'
    items.append(f'<li>{escape(finding.text)} {links}</li>')
  if not items:
    return ''

  def as_list(items: Sequence[str]) -> str:
    """Returns items as an HTML list."""
    return '<ul class="findings">\n{}\n</ul>'.format('\n'.join(items))

  text = as_list(items[:_NUM_OPEN_FINDINGS])
  if folded := items[_NUM_OPEN_FINDINGS:]:
    text += f'<details><summary>{len(folded)} more</summary>{as_list(folded)}</details>'
  return f'{text}<p class="soft">{escape(_about_brackets(results))}</p>'


def _figure_of(finding: Finding, results: Results, names: Collection[str]) -> str:
  """Returns the name of the figure that a finding links to; '' if there is none.

  For a finding with the figure name 'error' it is the figure 'error'. If there is none, it is a
  figure of the same quantity by one more column, such as 'error_corruption'. A figure of another
  quantity, such as 'error_rate', is not used.

  Args:
    finding: the finding.
    results: the results, with all quantities.
    names: names of the figures.
  """
  if finding.figure in names:
    return finding.figure
  prefix = f'{finding.figure}_'  # 'error_'
  # The beginnings of names of figures of other quantities, such as 'error_rate_'.
  prefixes_of_others = tuple(f'{q.name}_' for q in results.quantities if q.name.startswith(prefix))
  by_more_facets = [
    name
    for name in names
    if name.startswith(prefix) and not f'{name}_'.startswith(prefixes_of_others)
  ]
  return min(by_more_facets, default='')


def _about_brackets(results: Results) -> str:
  """Writes the paragraph of a report on what the intervals in brackets include and leave out.

  Most are over images. Intervals over seeds of a training, and of a regression, are named as
  exceptions if the results have them.
  """
  levels = sorted(set(results.table.confidence[results.table.low.notna()]))
  shares = ' and '.join(f'{100 * level:g}{NO_BREAK}%' for level in levels)
  exceptions = []
  if results.table.low[results.table.method == OVER_SEEDS].notna().any():
    exceptions.append('Those over seeds hold for trainings like these on the same images. ')
  if (results.table.method == REGRESSION).any():
    exceptions.append('Those of a regression hold for other points, corruptions or classifiers. ')
  subject = 'All others' if exceptions else 'They'
  has_classifiers = any(facts.get('note') != NO_CLASSIFIER for facts in results.classifiers)
  owners = ' of these classifiers' if has_classifiers else ''
  training = 'another training of the same kind, or ' if has_classifiers else ''
  return (
    f'Brackets hold {shares} intervals. {"".join(exceptions)}{subject} say how the numbers{owners} '
    f'would vary over other images of the same kind; they leave out what {training}images of '
    'another kind would change. Simultaneous ones allow for the choice of the largest or smallest '
    'of many, and for several comparisons. Which of many conditions differ is tested at the '
    'false-discovery rate in the captions. The column method of results.csv names each interval.'
  )


def _task_sections(
  folder: pathlib.Path, results: Results, captions: Mapping[pathlib.Path, str]
) -> dict[str, str]:
  """Returns the figures and tables of each study (task) of a run, as {'Task NAME': HTML}.

  A section is folded until the reader opens it.

  Args:
    folder: the folder of the page.
    results: the results.
    captions: {path of a figure in `folder`: caption}.
  """
  contents: dict[str, list[str]] = {}
  for path, caption in captions.items():
    if task := _task_of_figure(folder, path):
      contents.setdefault(task, []).append(_figure(folder, path, caption, task))
  num_figures = {task: len(figures) for task, figures in contents.items()}
  for name, table in results.tables.items():
    task, _, title = name.partition(': ')  # tables of a task are named 'TASK: title'
    if task in results.tasks and table.rows:
      heading = f'<h3>{escape(words(title).capitalize())}</h3>'
      contents.setdefault(task, []).append(f'{heading}{_table(table, words)}')
  sections = {}
  for task, content in contents.items():
    summary = f'<summary>{plural(num_figures.get(task, 0), "figure")} and tables</summary>'
    sections[f'Task {task}'] = f'<details class="task">{summary}{"".join(content)}</details>'
  return sections


def _task_of_figure(folder: pathlib.Path, path: pathlib.Path) -> str:
  """Returns the task that a figure belongs to; '' if it is of the whole run.

  Args:
    folder: the folder of the page.
    path: the figure's file, such as FOLDER/tasks/TASK/figures/NAME.png.
  """
  # ('tasks', TASK, 'figures', 'error.png') or ('figures', 'error.png')
  parts = pathlib.Path(os.path.relpath(path, folder)).parts
  return parts[1] if parts[0] == TASKS and len(parts) > 2 else ''


def _estimates(results: Results, titled: Mapping[str, tables.Titled]) -> str:
  """Returns the tables of estimates as HTML.

  A line below names the estimates that are too many for a table and are only in results.csv.

  Args:
    results: the results.
    titled: {name of a table: the table and its title}.
  """
  parts = [
    f'<h3 id="rows-{quote(name)}">{escape(table.title)}</h3>{_table(table.table)}'
    for name, table in titled.items()
  ]
  if omitted := tables.left_out(results, titled):
    parts.append(f'<p class="soft">In results.csv alone: {escape("; ".join(omitted))}.</p>')
  return ''.join(parts)


def _links_to_files(folder: pathlib.Path, results: Results) -> str:
  """Returns links to the files in the folder as HTML."""
  names = ('results.csv', 'results.json', 'results.npz', 'config.json', ENVIRONMENT, 'figures/')
  links = ', '.join(f'<a href="{name}">{name}</a>' for name in names if (folder / name).exists())
  return (
    f'<p>Study <code>{escape(results.study)}</code>. {links}. Every number is a row of '
    'results.csv, where shares are fractions.</p>'
  )


def _figure(folder: pathlib.Path, file: pathlib.Path, caption: str, task: str = '') -> str:
  """Returns a figure as HTML: the embedded PNG file, its caption, and links to its files.

  Args:
    folder: the folder of the page.
    file: the PNG file.
    caption: the caption.
    task: the task (one of several studies in a run) of a battery that the figure belongs to; '' for
      none.
  """
  content = file.read_bytes()
  data = base64.b64encode(content).decode()
  width_in_pixels = int.from_bytes(content[16:20], 'big')  # where the header of a PNG file has it
  width = round(_WIDTH_PER_PIXEL * width_in_pixels)
  alternative = escape(f'{words(file.stem)}: {caption}')
  anchor = quote(f'{task}-{file.stem}' if task else file.stem)
  links = []
  for kind in _FORMATS:
    path = file.with_suffix(f'.{kind}')
    if path.is_file():
      target = pathlib.Path(os.path.relpath(path, folder)).as_posix()
      label = f'aria-label="{escape(words(file.stem))} as {kind.upper()}"'
      links.append(f'<a href="{escape(quote(target))}" {label}>{kind.upper()}</a>')
  return (
    f'<figure id="figure-{anchor}">\n'
    f'<img width="{width}" alt="{alternative}" src="data:image/png;base64,{data}">\n'
    f'<figcaption>{escape(caption)} <span class="links">{" ".join(links)}</span></figcaption>\n'
    '</figure>\n'
  )


def _table(table: Table, head: Callable[[str], str] = str) -> str:
  """Returns a table as HTML, with copies as text in other formats; '' for a table without rows.

  The table scrolls sideways if it is wider than the page.

  Args:
    table: the table.
    head: function that converts the name of a column for display.
  """
  if not table.rows:
    return ''
  columns = zip(*table.rows, strict=True)
  is_numeric = [all(map(_is_number, column)) for column in columns]

  def line_of(cells: Sequence[object], tags: Sequence[str]) -> str:
    """Returns a row of the table as HTML; `tags` has the tag of each cell, such as 'td'."""
    return f'<tr>{"".join(map(_cell, tags, cells, is_numeric))}</tr>'

  num_columns = len(table.columns)
  top = line_of([head(name) for name in table.columns], ['th scope="col"'] * num_columns)
  row_tags = ['th scope="row"', *['td'] * (num_columns - 1)]
  body = '\n'.join(line_of(row, row_tags) for row in table.rows)
  kinds = {'CSV': tables.to_csv, 'LaTeX': tables.to_latex, 'Markdown': tables.to_markdown}
  copies = [f'<h4>{kind}</h4>{_copyable(as_text(table))}' for kind, as_text in kinds.items()]
  return (
    '<div class="scroll"><table>\n'
    f'<thead>{top}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    f'<details class="copies"><summary>as text</summary>{"".join(copies)}</details>'
  )


def _cell(tag: str, value: object, is_numeric: bool) -> str:
  """Returns a table cell as HTML.

  Args:
    tag: 'td', or 'th' with HTML attributes.
    value: the content; a missing value is shown as '–'.
    is_numeric: whether the column has numbers, which are aligned to the right.
  """
  text = tables.cell_text(value, '–')
  long = ' class="long"' if len(text) > _MAX_UNBROKEN else ''  # may be broken into lines
  attribute = ' class="number"' if is_numeric else long
  return f'<{tag}{attribute}>{escape(text)}</{tag.split()[0]}>'


def _is_number(value: object) -> bool:
  """Returns whether a table cell has a number, such as '3.1 (2 to 4)', or no value."""
  return value is None or (not isinstance(value, bool) and bool(_NUMBER.fullmatch(str(value))))


def _copyable(text: str) -> str:
  """Returns a text as an HTML block with a button to copy it, which the page's script adds."""
  return f'<pre class="copied"><code>{escape(text)}</code></pre>'


def flattened(values: object, name: str = '') -> Iterable[tuple[str, str]]:
  """Flattens nested values: yields (dotted name, text), such as ('data.split', 'test').

  Args:
    values: nested dictionaries and lists.
    name: dotted name of `values`; '' at the top.
  """
  if isinstance(values, Mapping):
    for key, value in values.items():
      yield from flattened(value, f'{name}.{key}' if name else str(key))
  elif isinstance(values, (list, tuple)) and any(isinstance(v, Mapping) for v in values):
    for index, value in enumerate(values):
      yield from flattened(value, f'{name}[{index}]')
  elif isinstance(values, (list, tuple)):
    text = ', '.join(str(value) for value in values[:_MAX_LISTED])
    yield name, text if len(values) <= _MAX_LISTED else f'{text}, … ({len(values)} in all)'
  else:
    yield name, str(values)


def bibtex(papers: Iterable[str]) -> str:
  """Returns the BibTeX entries of papers and of this software.

  Args:
    papers: keys of `PAPERS`.
  """
  return '\n'.join([*(PAPERS[key] for key in papers), SOFTWARE])
