"""The report of a run: one HTML file with its figures inside, which needs nothing else.

The first screen has what was run, one table of classifiers and the main figure, of a battery the
foremost headlines and the profile; then come findings, figures, and an appendix with every table,
the settings, how to repeat the run and to cite it.
"""

import base64
import importlib.resources
import itertools
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple
from urllib.parse import quote, unquote

from robustness import __version__
from robustness.core.atomic_files import write_atomically
from robustness.core.bounded_files import read_bounded
from robustness.core.errors import InputError
from robustness.core.limits import MAX_BYTES_OF_TEXT
from robustness.core.typing import Facts
from robustness.estimates.intervals import REGRESSION
from robustness.estimates.table import FILE_NAME
from robustness.present import headlines, tables
from robustness.present.notation import NO_BREAK
from robustness.present.sentences import Finding
from robustness.results import DAMAGED_IMAGES, NO_CLASSIFIER, Results, Table

_OWN = importlib.resources.files('robustness.present')
PAPERS: dict[str, str] = {
  key: entry
  for entry, key in re.findall(
    r'(@\w+{(\w+),.*?\n}\n)', (_OWN / 'papers.bib').read_text('utf-8'), re.DOTALL
  )
}
"""The BibTeX entry of each paper by its key; those of CITATION.cff and what studies build on."""

SOFTWARE = f"""\
@software{{classifier_robustness,
  author    = {{{{The authors}}}},
  title     = {{classifier-robustness: how robust image classifiers are, measured in {{JAX}}}},
  version   = {{{__version__}}}
}}
"""
NAME = 'report.html'
ENVIRONMENT = 'environment.json'
"""Of a workdir, which alone states how long the run took; its tasks and seeds have none."""
TASKS = 'tasks'
"""The folder of a workdir that has a folder for each task of a battery, with figures of its own."""
CLASSIFIERS, SETTINGS, VERSIONS = 'Classifiers and data', 'Settings', 'Environment'
FILES = 'Files'
_SETTINGS = (CLASSIFIERS, SETTINGS, VERSIONS, FILES, DAMAGED_IMAGES.capitalize())
"""Sections that print leaves out: the card and the gallery say what matters of them."""
_SCREEN = ' class="screen"'
_FORMATS = ('png', 'svg', 'pdf')
_FIRST = 6  # findings that are shown at once
_SHOWN = 0.66  # width on the page per pixel: figures keep their relative sizes in print
_LISTED = 20  # entries of a list that are written out
_NUMBER = re.compile(r'([−+-]?\d[\d.,]*(e[+-]?\d+)?( \(.*\))?|nan|unknown|)')
_ROWS_FIRST = re.compile('<table>.*?</table>', re.DOTALL)
_ROWS = re.compile('<h3 id="rows-([^"]*)">.*?</table>', re.DOTALL)
_MOST_DATA = 3  # data of a battery that are written out
MAX_NAMED = 3  # classifiers and sets of images in a title
MAX_ROWS_OF_FIRST_TABLE = 10
DATA_SETS = {
  'cifar10': 'CIFAR-10',
  'cifar100': 'CIFAR-100',
  'imagenet2012': 'ImageNet',
  'mnist': 'MNIST',
}
"""Sets of TFDS as papers name them."""
_LONG = 28  # letters of a cell from which it is broken into lines
Figures = Sequence[tuple[str | os.PathLike[str], str]]


class Context(NamedTuple):
  """What a report states beside results and figures.

  Attributes:
    title: of the page, in plain words.
    environment: plain values: versions, devices, seed, git commit, when the run began, its seconds,
      and the command that repeats it.
    config: plain values: the whole configuration.
    findings: what was found, in words.
    papers: to cite, keys of `PAPERS`.
    unverified: which values records do not give, in words; '' for none.
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
  """Writes `report.html`, and returns its path.

  Figures, pairs of a PNG file and its caption, the main one first, are inside the page, with links
  to their files in each format. Those below the folder `tasks` are in the appendix, task by task.
  """
  path = pathlib.Path(directory) / NAME
  write_atomically(path, render(path.parent, results, figures, context).encode())
  return path


def lost(folder: pathlib.Path, results: Results) -> list[str]:
  """Returns which tables of the page in a folder have more rows than those of the results."""
  file = folder / NAME
  if not file.is_file():
    return []
  text = read_bounded(file, MAX_BYTES_OF_TEXT).decode(errors='replace')
  before = {'headlines': _ROWS_FIRST.search(text), **{m[1]: m for m in _ROWS.finditer(text)}}
  now = {quote(of.name): len(of.table.rows) for of in tables.tables(results)}
  now['headlines'] = len(_first_table(results).rows)
  # a table has one row more, its head
  counts = {name: found[0].count('<tr>') - 1 for name, found in before.items() if found}
  return [unquote(name) for name, count in counts.items() if count > now.get(name, 0)]


def render(folder: pathlib.Path, results: Results, figures: Figures, context: Context) -> str:
  """Returns the page as text, for a folder that links lead out from; see `write_report`."""
  title = escape(context.title or _title(results))
  drawn = {pathlib.Path(path): caption for path, caption in figures}
  own = {path: text for path, text in drawn.items() if not _task(folder, path)}
  main, others = (list(own)[:1], list(own)[1:])
  anchors = {(_task(folder, path), path.stem) for path in drawn}
  tabled = {own.name: own for own in tables.tables(results)}
  config = escape(json.dumps(context.config, indent=2, default=str, ensure_ascii=False))
  whole = (
    f'<details><summary>Whole configuration</summary><pre><code>{config}</code></pre></details>'
  )
  sections = {
    'Findings': _findings(results, context.findings, anchors, set(tabled)),
    'Figures': ''.join(_figure(folder, path, own[path]) for path in others),
    **_tasks(folder, results, drawn),
    'Headlines': _table(headlines.table(results.by_task)) if results.tasks else '',
    'Tables': _estimates(results, tabled),
    **{
      words(name).capitalize(): _table(entry, words)
      for name, entry in results.tables.items()
      if name.partition(': ')[0] not in results.tasks
    },
    CLASSIFIERS: _terms(_flattened({'classifiers': results.classifiers, 'data': results.data})),
    SETTINGS: _terms(_flattened(results.settings)),
    'How to repeat': f'{_copied(context.environment.get("command", ""))}{whole}',
    'How to cite': _copied(bibtex(context.papers)),
    VERSIONS: _terms(_flattened(context.environment)),
    FILES: _files(folder, results),
  }
  shown = {name: content for name, content in sections.items() if content}
  links = ''.join(f'<li><a href="#{quote(name)}">{escape(name)}</a></li>' for name in shown)
  first = _table(_first_table(results))
  body = '\n'.join(
    (
      f'<header><h1>{title}</h1>{_card(results, context)}</header>',
      f'<section>{first}{"".join(_figure(folder, path, own[path]) for path in main)}</section>',
      f'<nav aria-label="contents"><ul>{links}</ul></nav>',
      *(
        f'<section id="{quote(name)}"{_SCREEN if name in _SETTINGS else ""}>\n'
        f'<h2>{escape(name)}</h2>\n{content}\n</section>'
        for name, content in shown.items()
      ),
    )
  )
  look, script = ((_OWN / name).read_text('utf-8') for name in ('report.css', 'report.js'))
  return (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<title>{title}</title>\n<style>{look}</style>\n</head>\n<body>\n<main>\n'
    f'{body}\n</main>\n<script>{script}</script>\n</body>\n</html>\n'
  )


def _title(results: Results) -> str:
  """Returns the name of a page: of a battery the classifiers and the images, else the study."""
  if not results.tasks:
    return words(results.study).capitalize()
  labels = [*results.labels[:MAX_NAMED], *(['others'] if results.labels[MAX_NAMED:] else [])]
  named = f'{", ".join(labels[:-1])} and {labels[-1]}' if labels[1:] else ''.join(labels)
  sources = dict.fromkeys(source_words(data) for data in results.data.values())
  shown = f' on {", ".join([*sources][:MAX_NAMED])}' if sources else ''
  return f'Robustness of {named}{shown}'


def _first_table(results: Results) -> Table:
  """Returns the table above the main figure: all headlines, of a battery the foremost."""
  return headlines.table(results.by_task, MAX_ROWS_OF_FIRST_TABLE if results.tasks else 0)


def _card(results: Results, context: Context) -> str:
  environment = context.environment
  seeds = results.settings.get('seeds') or [environment.get('seed', '')]
  when = environment.get('started', '')[:10], taken(environment), counted_devices(environment)
  lines = {
    'data': data_words(results.data),
    **{
      f'classifier {each["label"]}': ', '.join(filter(None, classifier_facts(each)))
      for each in results.classifiers
    },
    'seed' if len(seeds) == 1 else 'seeds': ', '.join(map(str, seeds)),
    'run': ', '.join(filter(None, when)),
    'commit': str(environment.get('git_commit') or ''),
    'values': context.unverified,
    'command': environment.get('command', ''),
  }
  return _terms(((name, text) for name, text in lines.items() if text), ' class="card"')


def counted_devices(environment: Facts) -> str:
  """Returns the devices of a run, such as '2 × cpu'; '' if they are not known."""
  devices = [' '.join(dict.fromkeys(name.split())) for name in environment.get('devices', ())]
  return ', '.join(f'{devices.count(kind)} × {kind}' for kind in dict.fromkeys(devices))


def taken(environment: Facts) -> str:
  """Returns how long a run took, such as '40 s'; '' if it is not known, as of a resumed one."""
  seconds = environment.get('seconds', 0)
  told = f'{seconds:.0f} s' if seconds < 120 else f'{seconds / 60:.0f} min'
  return told if seconds and not environment.get('resumed') else ''


def _terms(lines: Iterable[tuple[str, str]], kind: str = '') -> str:
  items = ''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in lines)
  return f'<dl{kind}>{items}</dl>' if items else ''


def _findings(
  results: Results, findings: Sequence[Finding], figures: set[tuple[str, str]], tabled: set[str]
) -> str:
  """The findings, from the seventh on behind a button, and what their brackets hold.

  Each has links to its figure, or one of its quantity by more facets, and to its rows.
  """
  items = []
  for finding in findings:
    own, task = finding.figure, finding.task
    others = tuple(f'{of.name}_' for of in results.quantities if of.name.startswith(f'{own}_'))
    near = sorted(
      name
      for of, name in figures
      if of == task
      and (name == own or name.startswith(f'{own}_') and not f'{name}_'.startswith(others))
    )
    place = quote(f'{task}-{near[0]}' if task else near[0]) if near else ''
    figure = f'<a href="#figure-{place}">figure</a> ' if near else ''
    rows = f'#rows-{quote(own)}' if own in tabled else FILE_NAME
    told = f'<span class="rows">{figure}<a href="{rows}">rows</a></span>'
    items.append(f'<li>{escape(finding.text)} {told}</li>')
  lists = [
    '<ul class="findings">\n{}\n</ul>'.format('\n'.join(some))
    for some in (items[:_FIRST], items[_FIRST:])
    if some
  ]
  more = (
    f'<details><summary>{len(items) - _FIRST} more</summary>{lists[1]}</details>'
    if lists[1:]
    else ''
  )
  return f'{lists[0]}{more}<p class="soft">{escape(_about_brackets(results))}</p>' if items else ''


def _about_brackets(results: Results) -> str:
  known = results.table.confidence[results.table.low.notna()]
  shares = ' and '.join(f'{100 * value:g}{NO_BREAK}%' for value in sorted(set(known)))
  apart = []
  if 'seed' in results.table.columns:
    apart.append('Those over seeds hold for trainings like these on the same images. ')
  if (results.table.method == REGRESSION).any():
    apart.append('Those of a regression hold for other points, corruptions or classifiers. ')
  they = 'All others' if apart else 'They'
  used = any(own.get('note') != NO_CLASSIFIER for own in results.classifiers)
  of, training = (
    (' of these classifiers', 'another training of the same kind, or ') if used else ('', '')
  )
  return (
    f'Brackets hold {shares} intervals. {"".join(apart)}{they} say how the numbers{of} would vary '
    f'over other images of the same kind; they leave out what {training}images of another kind '
    'would change. Simultaneous ones allow for the choice of the largest or smallest of many, and '
    'for several comparisons. Which of many places differ holds at the false-discovery rate of the '
    'figures. How each interval is made stands in results.csv.'
  )


def _tasks(
  folder: pathlib.Path, results: Results, drawn: Mapping[pathlib.Path, str]
) -> dict[str, str]:
  """Returns the figures and tables of each task of a battery, folded until they are printed."""
  contents: dict[str, list[str]] = {}
  for path, caption in drawn.items():
    if task := _task(folder, path):
      contents.setdefault(task, []).append(_figure(folder, path, caption, task))
  counts = {task: len(figures) for task, figures in contents.items()}
  for name, entry in results.tables.items():
    task, _, title = name.partition(': ')
    if task in results.tasks and entry.rows:
      table = f'<h3>{escape(words(title).capitalize())}</h3>{_table(entry, words)}'
      contents.setdefault(task, []).append(table)
  return {
    f'Task {task}': (
      f'<details class="task"><summary>{plural(counts.get(task, 0), "figure")} and tables</summary>'
      f'{"".join(content)}</details>'
    )
    for task, content in contents.items()
  }


def _task(folder: pathlib.Path, path: pathlib.Path) -> str:
  """Returns the task of a battery that a figure is of, '' for none."""
  inside = pathlib.Path(os.path.relpath(path, folder)).parts
  return inside[1] if inside[0] == TASKS and len(inside) > 2 else ''


def _estimates(results: Results, tabled: Mapping[str, tables.Titled]) -> str:
  shown = (
    f'<h3 id="rows-{quote(own.name)}">{escape(own.title)}</h3>{_table(own.table)}'
    for own in tabled.values()
  )
  more = tables.left_out(results, tabled)
  rest = f'<p class="soft">In results.csv alone: {escape("; ".join(more))}.</p>' if more else ''
  return f'{"".join(shown)}{rest}'


def _files(folder: pathlib.Path, results: Results) -> str:
  """Links to what lies beside the page; tasks and seeds of a run have no config of their own."""
  names = ('results.csv', 'results.json', 'results.npz', 'config.json', ENVIRONMENT, 'figures/')
  told = ', '.join(f'<a href="{name}">{name}</a>' for name in names if (folder / name).exists())
  return (
    f'<p>Study <code>{escape(results.study)}</code>. {told}. Every number is a row of results.csv, '
    'where shares are fractions.</p>'
  )


def _figure(folder: pathlib.Path, file: pathlib.Path, caption: str, task: str = '') -> str:
  if not file.is_file():
    raise InputError(f'figure {file} does not exist: write it before the report.')
  content = file.read_bytes()
  if not content.startswith(b'\x89PNG\r\n\x1a\n'):
    raise InputError(f'figure {file} is not a PNG file: write it with figures.save.')
  data = base64.b64encode(content).decode()
  width = round(_SHOWN * int.from_bytes(content[16:20], 'big'))
  alternative = escape(f'{words(file.stem)}: {caption}')
  anchor = quote(f'{task}-{file.stem}' if task else file.stem)
  links = []
  for beside in (file.with_suffix(f'.{kind}') for kind in _FORMATS):
    if beside.is_file():
      place = pathlib.Path(os.path.relpath(beside, folder)).as_posix()
      kind = beside.suffix[1:].upper()
      label = f'aria-label="{escape(words(file.stem))} as {kind}"'
      links.append(f'<a href="{escape(quote(place))}" {label}>{kind}</a>')
  return (
    f'<figure id="figure-{anchor}">\n'
    f'<img width="{width}" alt="{alternative}" src="data:image/png;base64,{data}">\n'
    f'<figcaption>{escape(caption)} <span class="links">{" ".join(links)}</span></figcaption>\n'
    '</figure>\n'
  )


def _table(table: Table, head: Callable[[str], str] = str) -> str:
  """A table that scrolls sideways where it is wider than the page, its heads in words where these
  are no labels, and its text to copy."""
  if not table.rows:
    return ''
  numeric = [all(map(_is_number, column)) for column in zip(*table.rows, strict=True)]
  heads, tags = itertools.repeat('th scope="col"'), itertools.repeat('td')
  top = ''.join(map(_cell, heads, map(head, table.columns), numeric))
  lines = (
    _cell('th scope="row"', row[0], numeric[0]) + ''.join(map(_cell, tags, row[1:], numeric[1:]))
    for row in table.rows
  )
  body = '\n'.join(f'<tr>{line}</tr>' for line in lines)
  kinds = {'CSV': tables.to_csv, 'LaTeX': tables.to_latex, 'Markdown': tables.to_markdown}
  copies = ''.join(f'<h4>{kind}</h4>{_copied(of(table))}' for kind, of in kinds.items())
  return (
    '<div class="scroll"><table>\n'
    f'<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    f'<details class="copies"><summary>as text</summary>{copies}</details>'
  )


def _cell(tag: str, value: object, right: bool) -> str:
  text = tables.cell_text(value, '–')
  kind = ' class="number"' if right else ' class="long"' if len(text) > _LONG else ''
  return f'<{tag}{kind}>{escape(text)}</{tag.split()[0]}>'


def _is_number(value: object) -> bool:
  """Whether a cell belongs in a column of numbers: one, perhaps with its interval, or none."""
  return value is None or (not isinstance(value, bool) and bool(_NUMBER.fullmatch(str(value))))


def _copied(text: str) -> str:
  """Text to be copied; the page's script adds the button."""
  return f'<pre class="copied"><code>{escape(text)}</code></pre>'


def _flattened(values: object, name: str = '') -> Iterable[tuple[str, str]]:
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


def bibtex(papers: Iterable[str]) -> str:
  """Returns the entries of papers by key, and below them that of this software."""
  return '\n'.join([*(PAPERS[key] for key in papers), SOFTWARE])


def words(name: str) -> str:
  """Returns a name as it is spoken: 'gaussian_noise' is 'gaussian noise'."""
  return name.replace('_', ' ')


def plural(count: int, noun: str) -> str:
  """Returns '1 figure' or '3 figures'."""
  return f'{count:,} {noun}{"" if count == 1 else "s"}'


def data_words(data: Facts) -> str:
  """Returns the images in words, of a battery by task: '100 images of digits, split test'."""
  if 'num_examples' not in data:
    parts = list(dict.fromkeys(data_words(of) for of in data.values() if isinstance(of, Mapping)))
    more = f'; {len(parts) - _MOST_DATA} further' if len(parts) > _MOST_DATA else ''
    return '; '.join(parts[:_MOST_DATA]) + more
  split = f', split {data["split"]}' if data.get('split') else ''
  shape = list(data.get('image_shape') or [])
  size = f', {shape[0]} × {shape[1]} pixels' if len(shape) > 1 else ''
  unit, source = 'frame' if data.get('perturbations') else 'image', source_words(data)
  if data.get('num_backgrounds'):  # each is a scene at every level of the study
    unit, source = 'pair', 'an object and a background'
  return f'{plural(int(data["num_examples"]), unit)} of {source}{split}{size}'


def source_words(data: Facts) -> str:
  """Returns the name of a set of images: 'CIFAR-10', 'folder photos'."""
  name = str(data.get('name') or '')
  if data.get('source') == 'tfds' and name.partition('/')[0] in DATA_SETS:
    return DATA_SETS[name.partition('/')[0]]
  source = words(' '.join(str(data[key]) for key in ('source', 'name') if data.get(key)))
  return str(data.get('dataset', source))


def classifier_facts(classifier: Facts) -> list[str]:
  """Returns what a classifier is, the file that it comes from, its parameters and its digest."""
  classifier = next(iter(classifier.get('seeds', {}).values()), classifier)
  facts = [classifier_words(classifier)]
  if file := classifier.get('file'):
    facts.append(f'{classifier.get("object", "")} of {file}'.removeprefix(' of '))
  if count := classifier.get('parameters'):
    facts.append(f'{count:,} parameters')
  if digest := classifier.get('sha256') or classifier.get('file_sha256'):
    facts.append(f'SHA-256 {digest[:12]}')
  return facts


def classifier_words(classifier: Facts) -> str:
  """Returns a classifier, of several seeds the first, in words: 'small cnn, trained here'."""
  classifier = next(iter(classifier.get('seeds', {}).values()), classifier)
  name = words(str(classifier.get('architecture') or classifier.get('name') or ''))
  behind = f' behind {_named_part(of)}' if (of := classifier.get('input_filter')) else ''
  told = [name + behind] if name else []
  if classifier.get('weights') == 'trained here':
    told.append(_training(classifier))
  elif classifier.get('weights'):
    told.append(f'weights {classifier["weights"]}')
  if of := classifier.get('adaptation'):
    told.append(f'adapting by {_named_part(of)}')
  if 'note' in classifier:
    told.append(str(classifier['note']))
  return ', '.join(told)


def _training(classifier: Facts) -> str:
  parts = [*(classifier.get('augment') or ()), classifier.get('attack')]
  objective = classifier.get('objective')
  if objective and objective.get('name') != 'cross_entropy':
    parts.append(objective)
  named = [_named_part(part) for part in parts if part]
  if column := classifier.get('balanced'):
    named.append(f'batches balanced by {words(column)}')
  steps = f' {classifier["step"]:,} steps' if classifier.get('step') else ''
  split = f' on {classifier["training_split"]}' if classifier.get('training_split') else ''
  return f'trained here{steps}{split}' + (f' with {", ".join(named)}' if named else '')


def _named_part(part: Facts) -> str:
  """Returns a named part of a training with its numbers: 'gaussian (sigma 0.4)'."""
  numbers = [
    f'{words(key)} {value:g}'
    for key, value in part.items()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value
  ]
  return words(str(part['name'])) + (f' ({", ".join(numbers)})' if numbers else '')
