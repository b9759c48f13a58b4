"""The report of a run: one HTML file with its figures inside, which needs nothing else.

The first screen has what was run, one table of classifiers and the main figure; then come the
findings, the figures, and an appendix with every table, the settings, how to repeat the run and how
to cite it.
"""

from __future__ import annotations

import base64
import importlib.resources
import json
import os
import pathlib
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import FILE_NAME
from robustness.present import citations, headlines, tables
from robustness.present.described import classifier_words, data_words, plural, words
from robustness.present.notation import NO_BREAK
from robustness.present.sentences import Finding
from robustness.results import DAMAGED_IMAGES, Results, Table

NAME = 'report.html'
ENVIRONMENT = 'environment.json'
"""Of a workdir, which alone states how long the run took; its parts and seeds have none."""
PARTS = 'parts'
"""The folder of a workdir that has a folder for each part of a battery, with figures of its own."""
CLASSIFIERS, SETTINGS, VERSIONS = 'Classifiers and data', 'Settings', 'Environment'
FILES = 'Files'
_SETTINGS = (CLASSIFIERS, SETTINGS, VERSIONS, FILES, DAMAGED_IMAGES.capitalize())
"""Sections that print leaves out: the card and the gallery say what matters of them."""
_FORMATS = ('png', 'svg', 'pdf')
_FIRST = 6  # findings that are shown at once
_SHOWN = 0.66  # width on the page per pixel: figures keep their relative sizes in print
_LISTED = 20  # entries of a list that are written out
_NUMBER = re.compile(r'([−+-]?\d[\d.,]*(e[+-]?\d+)?( \(.*\))?|nan|unknown|)')
_LONG = 28  # letters of a cell from which it is broken into lines
Figures = Sequence[tuple[str | os.PathLike[str], str]]


class Context(NamedTuple):
  """What a report states beside results and figures.

  Attributes:
    title: of the page, in plain words.
    environment: plain values: versions, devices, seed, git commit, when the run began.
    config: plain values: the whole configuration.
    command: what to type to repeat the run.
    findings: what was found, in words.
    papers: to cite, keys of `citations.PAPERS`.
    seconds: that the run took; 0 where it is not known.
  """

  title: str = ''
  environment: Mapping[str, Any] = {}
  config: Mapping[str, Any] = {}
  command: str = ''
  findings: Sequence[Finding] = ()
  papers: Sequence[str] = ()
  seconds: float = 0.0


def write_report(
  directory: str | os.PathLike[str], results: Results, figures: Figures, context: Context
) -> pathlib.Path:
  """Writes `report.html`.

  Figures are inside the page. Links lead to their files beside it, in each format that is there.
  Those below the folder `parts` are grouped by part, in the appendix.

  Args:
    directory: where to write.
    results: what the study found.
    figures: pairs of a PNG file and its caption, the main one first.
    context: what else is stated.

  Returns:
    The file that was written.

  Raises:
    InputError: a figure is missing or not a PNG file.
  """
  path = pathlib.Path(directory) / NAME
  write_atomically(path, render(path.parent, results, figures, context).encode())
  return path


def render(folder: pathlib.Path, results: Results, figures: Figures, context: Context) -> str:
  """Returns the page as text, for a folder that links lead out from; see `write_report`."""
  title = escape(context.title or words(results.study).capitalize())
  drawn = {pathlib.Path(path): caption for path, caption in figures}
  own = {path: text for path, text in drawn.items() if not _part(folder, path)}
  main, others = (list(own)[:1], list(own)[1:])
  anchors = {(_part(folder, path), path.stem) for path in drawn}
  tabled = {own.name: own for own in tables.tables(results)}
  sections = {
    'Findings': _findings(results, context.findings, anchors, set(tabled)),
    'Figures': ''.join(_figure(folder, path, own[path]) for path in others),
    **_parts(folder, results, drawn),
    'Tables': _estimates(results, tabled),
    **{
      words(name).capitalize(): _table(entry)
      for name, entry in results.tables.items()
      if name.partition(': ')[0] not in results.parts
    },
    CLASSIFIERS: _settings({'classifier': results.classifier, 'data': results.data}),
    SETTINGS: _settings(results.settings),
    'How to repeat': f'{_copied(context.command)}{_details(context.config)}',
    'How to cite': _copied(citations.bibtex(context.papers)),
    VERSIONS: _settings(context.environment),
    FILES: _files(folder, results),
  }
  shown = {name: content for name, content in sections.items() if content}
  first = _table(headlines.table(results.by_part))
  body = '\n'.join(
    (
      f'<header><h1>{title}</h1>{_card(results, context)}</header>',
      f'<section>{first}{"".join(_figure(folder, path, own[path]) for path in main)}</section>',
      _contents(shown),
      *(_section(name, content, name in _SETTINGS) for name, content in shown.items()),
    )
  )
  return (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<title>{title}</title>\n<style>{_asset("report.css")}</style>\n</head>\n<body>\n<main>\n'
    f'{body}\n</main>\n<script>{_asset("report.js")}</script>\n</body>\n</html>\n'
  )


def _asset(name: str) -> str:
  return (importlib.resources.files('robustness.present') / name).read_text('utf-8')


def _card(results: Results, context: Context) -> str:
  """Returns what was run: data, classifiers, n, seeds, date, time, hardware, commit, command."""
  environment = context.environment
  described = results.classifier if isinstance(results.classifier, list) else [results.classifier]
  seeds = results.settings.get('seeds') or [environment.get('seed', '')]
  devices = [' '.join(dict.fromkeys(name.split())) for name in environment.get('devices', ())]
  counted = ', '.join(f'{devices.count(kind)} × {kind}' for kind in dict.fromkeys(devices))
  lines = {
    'data': data_words(results.data),
    **{f'classifier {own["label"]}': classifier_words(own) for own in described if 'label' in own},
    'seed' if len(seeds) == 1 else 'seeds': ', '.join(map(str, seeds)),
    'run': ', '.join(filter(None, (_when(context), counted))),
    'commit': str(environment.get('git_commit') or ''),
    'command': context.command,
  }
  items = ''.join(
    f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in lines.items() if text
  )
  return f'<dl class="card">{items}</dl>'


def _when(context: Context) -> str:
  """Returns the day on which a run began, and how long it took."""
  seconds = context.seconds
  spent = f'{seconds:.0f} s' if seconds < 120 else f'{seconds / 60:.0f} min'
  return ', '.join(
    filter(None, (context.environment.get('started', '')[:10], spent if seconds else ''))
  )


def _contents(sections: Mapping[str, str]) -> str:
  links = ''.join(f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in sections)
  return f'<nav aria-label="contents"><ul>{links}</ul></nav>'


def _anchor(text: str) -> str:
  return urllib.parse.quote(text)


def _section(title: str, content: str, on_screen: bool = False) -> str:
  kind = ' class="screen"' if on_screen else ''
  return f'<section id="{_anchor(title)}"{kind}>\n<h2>{escape(title)}</h2>\n{content}\n</section>'


def _findings(
  results: Results, findings: Sequence[Finding], figures: set[tuple[str, str]], tabled: set[str]
) -> str:
  """The findings, from the seventh on behind a button, and what their brackets hold."""
  if not findings:
    return ''
  items = [
    _finding(finding, _near(finding, figures, results.quantities), tabled) for finding in findings
  ]
  rest = items[_FIRST:]
  more = f'<details><summary>{len(rest)} more</summary>{_list(rest)}</details>' if rest else ''
  return f'{_list(items[:_FIRST])}{more}<p class="soft">{escape(_about_brackets(results))}</p>'


def _list(items: Sequence[str]) -> str:
  return '<ul class="findings">\n{}\n</ul>'.format('\n'.join(items))


def _near(
  finding: Finding, figures: set[tuple[str, str]], quantities: Sequence[Quantity]
) -> list[str]:
  """Returns the figure of the rows of a finding, and those of its quantity by more facets."""
  own = finding.figure
  others = tuple(f'{of.name}_' for of in quantities if of.name.startswith(f'{own}_'))
  return sorted(
    name
    for part, name in figures
    if part == finding.part
    and (name == own or name.startswith(f'{own}_') and not f'{name}_'.startswith(others))
  )


def _finding(finding: Finding, near: Sequence[str], tabled: set[str]) -> str:
  """A finding with links to its figure and rows, which are in a table or in the file alone."""
  name = finding.figure
  links = [('rows', f'#rows-{_anchor(name)}' if name in tabled else FILE_NAME)]
  if near:
    place = f'{finding.part}-{near[0]}' if finding.part else near[0]
    links.insert(0, ('figure', f'#figure-{_anchor(place)}'))
  told = ' '.join(f'<a href="{target}">{text}</a>' for text, target in links)
  return f'<li>{escape(finding.text)} <span class="rows">{told}</span></li>'


def _about_brackets(results: Results) -> str:
  known = results.table.confidence[results.table.low.notna()]
  shares = ' and '.join(f'{100 * value:g}{NO_BREAK}%' for value in sorted(set(known)))
  over_seeds = 'seed' in results.table.columns
  left_out = (
    'Those over seeds hold for trainings like these on the same images; all others'
    if over_seeds
    else 'They'
  )
  return (
    f'Brackets hold {shares} intervals. {left_out} say how the numbers of these classifiers '
    'would vary over other images of the same kind; they leave out what another training of the '
    'same kind, or images of another kind, would change. “For all together”: the largest or '
    'smallest of many was chosen, and the interval allows for that. How each is made stands in '
    'results.csv.'
  )


def _parts(
  folder: pathlib.Path, results: Results, drawn: Mapping[pathlib.Path, str]
) -> dict[str, str]:
  """Returns the figures and tables of each part of a battery, folded until they are printed."""
  contents: dict[str, list[str]] = {}
  for path, caption in drawn.items():
    if part := _part(folder, path):
      contents.setdefault(part, []).append(_figure(folder, path, caption, part))
  counts = {part: len(figures) for part, figures in contents.items()}
  for name, entry in results.tables.items():
    part, _, title = name.partition(': ')
    if part in results.parts and entry.rows:
      table = f'<h3>{escape(words(title).capitalize())}</h3>{_table(entry)}'
      contents.setdefault(part, []).append(table)
  return {
    f'Part {part}': (
      f'<details class="part"><summary>{plural(counts.get(part, 0), "figure")} and tables</summary>'
      f'{"".join(content)}</details>'
    )
    for part, content in contents.items()
  }


def _part(folder: pathlib.Path, path: pathlib.Path) -> str:
  """Returns the part of a battery that a figure is of, '' for none."""
  inside = pathlib.Path(os.path.relpath(path, folder)).parts
  return inside[1] if inside[0] == PARTS and len(inside) > 2 else ''


def _estimates(results: Results, tabled: Mapping[str, tables.Titled]) -> str:
  """The table of results, a table for each quantity and what it is by."""
  shown = (
    f'<h3 id="rows-{_anchor(own.name)}">{escape(own.title)}</h3>{_table(own.table)}'
    for own in tabled.values()
  )
  more = tables.left_out(results, tabled)
  rest = f'<p class="soft">In results.csv alone: {escape("; ".join(more))}.</p>' if more else ''
  return f'{"".join(shown)}{rest}'


def _files(folder: pathlib.Path, results: Results) -> str:
  """Links to what lies beside the page; parts and seeds of a run have no config of their own."""
  names = ('results.csv', 'results.json', 'results.npz', 'config.json', ENVIRONMENT, 'figures/')
  told = ', '.join(f'<a href="{name}">{name}</a>' for name in names if (folder / name).exists())
  return (
    f'<p>Study <code>{escape(results.study)}</code>. {told}. Every number is a row of results.csv, '
    'where shares are fractions.</p>'
  )


def _figure(folder: pathlib.Path, file: pathlib.Path, caption: str, part: str = '') -> str:
  if not file.is_file():
    raise InputError(f'figure {file} does not exist: write it before the report.')
  content = file.read_bytes()
  if not content.startswith(b'\x89PNG\r\n\x1a\n'):
    raise InputError(f'figure {file} is not a PNG file: write it with figures.save.')
  data = base64.b64encode(content).decode()
  width = round(_SHOWN * int.from_bytes(content[16:20], 'big'))
  alternative = escape(f'{words(file.stem)}: {caption}')
  anchor = _anchor(f'{part}-{file.stem}' if part else file.stem)
  return (
    f'<figure id="figure-{anchor}">\n'
    f'<img width="{width}" alt="{alternative}" src="data:image/png;base64,{data}">\n'
    f'<figcaption>{escape(caption)} {_links(folder, file)}</figcaption>\n</figure>\n'
  )


def _links(folder: pathlib.Path, png: pathlib.Path) -> str:
  """Links to the formats of a figure that lie beside it."""
  files = [png.with_suffix(f'.{kind}') for kind in _FORMATS]
  base = pathlib.Path(os.path.relpath(png.parent, folder)).as_posix()
  links = [
    f'<a href="{escape(urllib.parse.quote(f"{base}/{file.name}"))}" '
    f'aria-label="{escape(words(png.stem))} as {file.suffix[1:].upper()}">'
    f'{file.suffix[1:].upper()}</a>'
    for file in files
    if file.is_file()
  ]
  return f'<span class="links">{" ".join(links)}</span>'


def _table(table: Table) -> str:
  """A table that scrolls sideways where it is wider than the page, and its text to copy."""
  if not table.rows:
    return ''
  numeric = [
    all(_is_number(row[place]) for row in table.rows) for place in range(len(table.columns))
  ]
  head = ''.join(
    _cell('th scope="col"', words(column), right)
    for column, right in zip(table.columns, numeric, strict=True)
  )
  body = '\n'.join(
    '<tr>{}</tr>'.format(
      ''.join(
        _cell('th scope="row"' if place == 0 else 'td', cell, numeric[place])
        for place, cell in enumerate(row)
      )
    )
    for row in table.rows
  )
  kinds = {'CSV': tables.to_csv, 'LaTeX': tables.to_latex, 'Markdown': tables.to_markdown}
  copies = ''.join(f'<h4>{kind}</h4>{_copied(of(table))}' for kind, of in kinds.items())
  return (
    '<div class="scroll"><table>\n'
    f'<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    f'<details class="copies"><summary>as text</summary>{copies}</details>'
  )


def _cell(tag: str, value: Any, right: bool) -> str:
  text = tables.cell_text(value, '–')
  kind = ' class="number"' if right else ' class="long"' if len(text) > _LONG else ''
  return f'<{tag}{kind}>{escape(text)}</{tag.split()[0]}>'


def _is_number(value: Any) -> bool:
  """Whether a cell belongs in a column of numbers: one, perhaps with its interval, or none."""
  return value is None or (not isinstance(value, bool) and bool(_NUMBER.fullmatch(str(value))))


def _copied(text: str) -> str:
  """Text to be copied; the page's script adds the button."""
  return f'<pre class="copied"><code>{escape(text)}</code></pre>'


def _settings(values: Any) -> str:
  """Nested plain values as a list of names and values, one line each."""
  lines = ''.join(
    f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in _flattened(values, '')
  )
  return f'<dl>{lines}</dl>' if lines else ''


def _flattened(values: Any, name: str) -> Iterable[tuple[str, str]]:
  if isinstance(values, Mapping):
    for key, value in values.items():
      yield from _flattened(value, f'{name}.{key}' if name else str(key))
  elif isinstance(values, (list, tuple)) and any(isinstance(v, Mapping) for v in values):
    for index, value in enumerate(values):
      yield from _flattened(value, f'{name}[{index}]')
  elif isinstance(values, (list, tuple)):
    text = ', '.join(str(value) for value in values[:_LISTED])
    yield name, text if len(values) <= _LISTED else f'{text}, … ({len(values)} in all)'
  else:
    yield name, str(values)


def _details(config: Mapping[str, Any]) -> str:
  text = escape(json.dumps(config, indent=2, default=str, ensure_ascii=False))
  return f'<details><summary>Whole configuration</summary><pre><code>{text}</code></pre></details>'
