"""The report of a run: one HTML file with its figures inside, which needs nothing else."""

from __future__ import annotations

import base64
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.report.css import CSS
from robustness.report.script import SCRIPT
from robustness.results import Number, Results

NAME = 'report.html'
TITLES = {
  'accuracy': 'Accuracy',
  'calibration': 'Confidence against accuracy',
  'battery': 'Several studies of the same classifiers',
  'corruption_error': 'Error under common corruptions',
  'corruption_spectrum': 'Spectra of common corruptions',
  'fourier_table': 'Tables and figures of Yin et al. (2019)',
  'si_score': 'SI-Score: size, location and rotation',
  'tradeoff': 'Robustness by frequency: the trade-off',
  'video_pm_k': 'Accuracy on neighboring video frames (pm-k)',
}
"""Of the page, by study; another study's name is written out."""
_SHOWN = 0.66  # width on the page per pixel: figures keep their relative sizes in print
_LONG = 60  # letters of a cell from which it is broken into lines
_LISTED = 20  # entries of a list that are written out


def write_report(
  directory: str | os.PathLike[str],
  results: Results,
  figures: Sequence[tuple[str | os.PathLike[str], str]],
  environment: Mapping[str, Any],
  config: Mapping[str, Any],
  command: str,
) -> pathlib.Path:
  """Writes `report.html`: figures, numbers, tables, settings and how to repeat the run.

  Args:
    directory: where to write.
    results: what the study found.
    figures: pairs of a PNG file and its caption, in order.
    environment: plain values: versions, devices, seed, git commit.
    config: plain values: the whole configuration.
    command: what to type to repeat the run.

  Returns:
    The file that was written.

  Raises:
    InputError: a figure is missing or not a PNG file.
  """
  path = pathlib.Path(directory) / NAME
  page = render(results, figures, environment, config, command)
  write_atomically(path, page.encode())
  return path


def render(
  results: Results,
  figures: Sequence[tuple[str | os.PathLike[str], str]],
  environment: Mapping[str, Any],
  config: Mapping[str, Any],
  command: str,
) -> str:
  """The page as text; see `write_report`."""
  title = escape(TITLES.get(results.study, _words(results.study).capitalize()))
  described = {'classifier': results.classifier, 'data': results.data}
  parts = [
    f'<header><h1>{title}</h1>{_summary(results)}</header>',
    _section('Figures', ''.join(_figure(path, caption) for path, caption in figures)),
    _section('Numbers', _numbers(results.numbers)),
    *(
      _section(_words(name), _table(table.columns, table.rows))
      for name, table in results.tables.items()
    ),
    _section('Classifier and data', _settings(described)),
    _section('Settings', _settings(results.settings)),
    _section('How to repeat', f'<pre><code>{escape(command)}</code></pre>{_details(config)}'),
    _section('Environment', _settings(environment)),
  ]
  body = '\n'.join(part for part in parts if part)
  return (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n'
    f'{body}\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n'
  )


def _summary(results: Results) -> str:
  return (
    f'<p>Study <code>{escape(results.study)}</code>. The numbers and tables are also in '
    '<code>results.json</code>, the arrays in <code>results.npz</code>. Proportions are '
    'fractions; brackets hold intervals.</p>'
  )


def _section(title: str, content: str) -> str:
  return f'<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>' if content else ''


def _figure(path: str | os.PathLike[str], caption: str) -> str:
  file = pathlib.Path(path)
  if not file.is_file():
    raise InputError(f'figure {file} does not exist: write it before the report.')
  content = file.read_bytes()
  if not content.startswith(b'\x89PNG\r\n\x1a\n'):
    raise InputError(f'figure {file} is not a PNG file: write it with figures.save.')
  data = base64.b64encode(content).decode()
  width = round(_SHOWN * int.from_bytes(content[16:20], 'big'))
  said = escape(caption)
  return (
    f'<figure>\n<img width="{width}" alt="{said}" src="data:image/png;base64,{data}">\n'
    f'<figcaption>{said}</figcaption>\n</figure>\n'
  )


def _numbers(numbers: Mapping[str, Number]) -> str:
  rows = [
    [name, number.value, _interval(number), number.n, number.interval, number.note]
    for name, number in numbers.items()
  ]
  columns = ['number', 'value', 'interval', 'n', 'method and confidence', 'note']
  if not any(number.note for number in numbers.values()):
    columns, rows = columns[:-1], [row[:-1] for row in rows]
  return _table(columns, rows)


def _interval(number: Number) -> str:
  if math.isnan(number.low) and math.isnan(number.high):
    return 'none'
  return f'[{_cell(number.low)}, {_cell(number.high)}]'


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
  """A table that scrolls sideways where it is wider than the page."""
  cells = [list(row) for row in rows]
  if not cells:
    return ''
  numeric = [all(_is_number(row[i]) for row in cells) for i in range(len(columns))]
  head = ''.join(
    _tagged('th scope="col"', _words(column), right)
    for column, right in zip(columns, numeric, strict=True)
  )
  body = '\n'.join(f'<tr>{_row(row, numeric)}</tr>' for row in cells)
  return (
    '<div class="scroll"><table>\n'
    f'<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
  )


def _row(row: Sequence[Any], numeric: Sequence[bool]) -> str:
  tags = ['th scope="row"'] + ['td'] * (len(row) - 1)
  return ''.join(map(_tagged, tags, map(_cell, row), numeric))


def _tagged(tag: str, text: str, right: bool) -> str:
  kind = ' class="number"' if right else ' class="long"' if len(text) > _LONG else ''
  return f'<{tag}{kind}>{escape(text)}</{tag.split()[0]}>'


def _is_number(value: Any) -> bool:
  """Whether a cell belongs in a column of numbers; a missing one does."""
  return value is None or (
    isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
  )


def _cell(value: Any) -> str:
  """A value as a reader wants it: four decimals or significant digits, never 'nan'."""
  if isinstance(value, np.generic):
    value = value.item()
  if value is None or (isinstance(value, float) and math.isnan(value)):
    return 'not available'
  if isinstance(value, float):
    return f'{value:.4f}' if 0.001 <= abs(value) < 1000 or value == 0 else f'{value:.4g}'
  return str(value)


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


def _words(name: str) -> str:
  return name.replace('_', ' ')
