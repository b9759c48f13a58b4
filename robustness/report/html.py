"""The report of a run: one HTML file with its figures inside, which needs nothing else.

What was found comes first, in words; then figures, numbers, tables, settings, how to repeat the run
and how to cite it.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.estimates.table import FILE_NAME
from robustness.present.tables import tables as estimate_tables
from robustness.report import citations
from robustness.report.css import CSS
from robustness.report.script import SCRIPT
from robustness.report.tables import confidences, number_table, table, words
from robustness.results import Results
from robustness.wording.phrases import PERCENT

NAME = 'report.html'
TITLES = {
  'accuracy': 'Accuracy',
  'attack_error': 'Error under attacks',
  'band_noise': 'Error under noise by band of frequencies',
  'battery': 'Several studies of the same classifiers',
  'calibration': 'Confidence against accuracy',
  'comparison': 'Finished runs side by side',
  'corruption_error': 'Error under common corruptions',
  'corruption_spectrum': 'Spectra of common corruptions',
  'detection_pm_k': 'Detection on neighboring video frames (pm-k)',
  'filtered_accuracy': 'Accuracy on low- and high-passed images',
  'flip_rate': 'How often predictions flip as a corruption grows',
  'fourier_attack': 'Attack with single Fourier basis images',
  'fourier_heatmap': 'Fourier heat maps',
  'fourier_preview': 'Preview of a Fourier heat map',
  'fourier_table': 'Tables and figures of Yin et al. (2019)',
  'overview': 'A battery of studies of the same classifiers',
  'si_score': 'SI-Score: size, location and rotation',
  'systematic': 'Systematic robustness',
  'tradeoff': 'Robustness by frequency: the trade-off',
  'video_pm_k': 'Accuracy on neighboring video frames (pm-k)',
}
"""Of the page, by study; another study's name is written out."""
_FORMATS = ('png', 'svg', 'pdf')
_FIRST = 6  # sentences that are shown at once
_SHOWN = 0.66  # width on the page per pixel: figures keep their relative sizes in print
_LISTED = 20  # entries of a list that are written out


class Context(NamedTuple):
  """What a report states beside results and figures.

  Attributes:
    environment: plain values: versions, devices, seed, git commit.
    config: plain values: the whole configuration.
    command: what to type to repeat the run.
    sentences: what was found, in words.
    papers: to cite, keys of `citations.PAPERS`.
  """

  environment: Mapping[str, Any] = {}
  config: Mapping[str, Any] = {}
  command: str = ''
  sentences: Sequence[str] = ()
  papers: Sequence[str] = ()


def write_report(
  directory: str | os.PathLike[str],
  results: Results,
  figures: Sequence[tuple[str | os.PathLike[str], str]],
  context: Context,
) -> pathlib.Path:
  """Writes `report.html`: findings, figures, numbers, tables, settings, how to repeat and cite.

  Figures are inside the page. Links lead to their files beside it, in each format that is there.

  Args:
    directory: where to write.
    results: what the study found.
    figures: pairs of a PNG file and its caption, in order.
    context: what else is stated.

  Returns:
    The file that was written.

  Raises:
    InputError: a figure is missing or not a PNG file.
  """
  path = pathlib.Path(directory) / NAME
  write_atomically(path, render(path.parent, results, figures, context).encode())
  return path


def render(
  folder: pathlib.Path,
  results: Results,
  figures: Sequence[tuple[str | os.PathLike[str], str]],
  context: Context,
) -> str:
  """The page as text, for a folder that links lead out from; see `write_report`."""
  title = escape(TITLES.get(results.study, words(results.study).capitalize()))
  described = {'classifier': results.classifier, 'data': results.data}
  parts = [
    f'<header><h1>{title}</h1></header>',
    _section('What was found', _findings(results, context.sentences)),
    _section('Figures', ''.join(_figure(folder, path, caption) for path, caption in figures)),
    _section('Numbers', number_table(results) if results.numbers else _estimates(results)),
    *(
      _section(words(name), table(entry.columns, entry.rows))
      for name, entry in results.tables.items()
    ),
    _section('Classifier and data', _settings(described)),
    _section('Settings', _settings(results.settings)),
    _section('How to repeat', f'{_copied(context.command)}{_details(context.config)}'),
    _section('How to cite', _copied(citations.bibtex(context.papers))),
    _section('Environment', _settings(context.environment)),
    _section('Files', _files(results)),
  ]
  body = '\n'.join(part for part in parts if part)
  return (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n'
    f'{body}\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n'
  )


def _findings(results: Results, sentences: Sequence[str]) -> str:
  """The sentences, from the seventh on behind a button, and what their brackets hold."""
  if not sentences:
    return ''
  first, rest = sentences[:_FIRST], sentences[_FIRST:]
  more = f'<details><summary>{len(rest)} more</summary>{_list(rest)}</details>' if rest else ''
  return f'{_list(first)}{more}<p class="soft">{_about_brackets(results, sentences)}</p>'


def _list(sentences: Sequence[str]) -> str:
  items = '\n'.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)
  return f'<ul class="findings">\n{items}\n</ul>'


def _about_brackets(results: Results, sentences: Sequence[str]) -> str:
  shares = ' and '.join(f'{100 * value:g}{PERCENT}' for value in confidences(results))
  family = (
    ' “For all of them together”: what is told was chosen as the largest or smallest of so many, '
    'and the interval allows for that.'
  )
  place = 'the table of numbers' if results.numbers else FILE_NAME
  return (
    f'Brackets hold {f"{shares} " if shares else ""}intervals; how each is made stands in '
    f'{place}.{family if any(" together)" in text for text in sentences) else ""}'
  )


def _estimates(results: Results) -> str:
  """The table of results, a table for each quantity and what it is by."""
  shown = (
    f'<h3>{escape(title)}</h3>{table(own.columns, own.rows)}'
    for title, own in estimate_tables(results)
  )
  return ''.join(shown)


def _files(results: Results) -> str:
  return (
    f'<p>Study <code>{escape(results.study)}</code>. Numbers and tables are also in '
    '<code>results.json</code>, arrays in <code>results.npz</code>, figures in '
    '<code>figures/</code>. Proportions are fractions.</p>'
  )


def _section(title: str, content: str) -> str:
  return f'<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>' if content else ''


def _figure(folder: pathlib.Path, path: str | os.PathLike[str], caption: str) -> str:
  file = pathlib.Path(path)
  if not file.is_file():
    raise InputError(f'figure {file} does not exist: write it before the report.')
  content = file.read_bytes()
  if not content.startswith(b'\x89PNG\r\n\x1a\n'):
    raise InputError(f'figure {file} is not a PNG file: write it with figures.save.')
  data = base64.b64encode(content).decode()
  width = round(_SHOWN * int.from_bytes(content[16:20], 'big'))
  alternative = escape(f'{words(file.stem)}: {caption}')
  return (
    f'<figure>\n<img width="{width}" alt="{alternative}" src="data:image/png;base64,{data}">\n'
    f'<figcaption>{escape(caption)} {_links(folder, file)}</figcaption>\n</figure>\n'
  )


def _links(folder: pathlib.Path, png: pathlib.Path) -> str:
  """Links to the formats of a figure that lie beside it."""
  files = [png.with_suffix(f'.{kind}') for kind in _FORMATS]
  links = [
    f'<a href="{escape(urllib.parse.quote(_relative(file, folder)))}" '
    f'aria-label="{escape(words(png.stem))} as {file.suffix[1:].upper()}">'
    f'{file.suffix[1:].upper()}</a>'
    for file in files
    if file.is_file()
  ]
  return f'<span class="links">{" ".join(links)}</span>'


def _relative(file: pathlib.Path, folder: pathlib.Path) -> str:
  return pathlib.Path(os.path.relpath(file, folder)).as_posix()


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
    yield name, _listed(values)
  else:
    yield name, str(values)


def _listed(values: Sequence[Any]) -> str:
  text = ', '.join(str(value) for value in values[:_LISTED])
  return text if len(values) <= _LISTED else f'{text}, … ({len(values)} in all)'


def _details(config: Mapping[str, Any]) -> str:
  text = escape(json.dumps(config, indent=2, default=str, ensure_ascii=False))
  return f'<details><summary>Whole configuration</summary><pre><code>{text}</code></pre></details>'
