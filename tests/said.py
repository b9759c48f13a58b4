"""Checks of what people see of results: sentences, tables and figures say what the rows say.

Each check returns complaints in words, none where all is well, and reads text and pictures as a
reader does: it shares no code with what wrote them.
"""

import contextlib
import itertools
import math
import pathlib
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from robustness.estimates.table import facets_of
from robustness.present import style, tables
from robustness.present.sentences import Finding, findings
from robustness.results import Results

_NUMBER = r'[−+]?\d[\d.]*'
_TOLD = re.compile(rf'({_NUMBER})(?: %| [a-z]+)? \(({_NUMBER}) to ({_NUMBER})([^)]*)\)')
_DIFFERENCE = re.compile(
  rf'minus (?P<versus>[^;]+?) (?P<told>{_NUMBER}(?: [a-z]+)? \({_NUMBER} to {_NUMBER}\)): '
  r'(?P<verdict>[a-z, ]+)'
)
_ROUNDING = 1e-9
_TOUCHING = 1.0  # pixels by which boxes of letters may overlap


def complaints(results: Results) -> list[str]:
  """Returns what is wrong in the rows, sentences and tables of results."""
  found = findings(results)
  texts = [finding.text for finding in found]
  return [
    *rows(results),
    *itertools.chain(*(sentence(text) for text in texts)),
    *itertools.chain(*(verdicts(finding, results) for finding in found)),
    *told_twice(texts),
    *silently_left_out(results),
  ]


def rows(results: Results) -> Iterator[str]:
  quantities = {quantity.name: quantity for quantity in results.presented}
  for row in results.table.itertuples() if quantities else ():
    if row.quantity not in quantities:
      yield f'{row.quantity} is not declared'
      continue
    quantity = quantities[row.quantity]
    least, most = quantity.difference_range if row.versus else quantity.range
    ends = [row.low, row.value, row.high]
    known = [end for end in (least, *ends, most) if not math.isnan(end)]
    if any(second < first - _ROUNDING for first, second in itertools.pairwise(known)):
      yield f'{row.quantity} of {row.classifier}: {ends} do not ascend in [{least}, {most}]'


BY_SEEDS = 'not told by seeds alone'


def sentence(text: str) -> Iterator[str]:
  if re.search(r'\b(nan|None|NaN|unknown|<NA>)\b', text) or not text.endswith('.'):
    yield f'no sentence: {text}'
  intervals = [_numbers(*match[:3]) for match in _TOLD.findall(_plain(text))]
  if not intervals:
    yield f'a sentence without an interval: {text}'
  if any(not low <= value <= high for value, low, high in intervals):
    yield f'an interval without its value: {text}'


def verdicts(finding: Finding, results: Results) -> Iterator[str]:
  better = {quantity.name: quantity.better for quantity in results.presented}
  scale = {quantity.name: quantity.scale for quantity in results.presented}
  differences = finding.rows[finding.rows.versus != '']
  told = list(_DIFFERENCE.finditer(_plain(finding.text).rstrip('.')))
  for match in told:
    [(value, low, high)] = (_numbers(*one[:3]) for one in _TOLD.findall(match['told']))
    for row in differences[differences.versus == match['versus']].itertuples():
      ends = [scale[row.quantity] * end for end in (row.value, row.low, row.high)]
      digits = 10.0 ** -len(match['told'].split()[0].partition('.')[2])
      near = [abs(own - said) <= digits for own, said in zip(ends, (value, low, high), strict=True)]
      shown = 'no' in match['verdict'] or not low <= 0 <= high
      right = match['verdict'].strip() in (_verdict(row, better[row.quantity]), BY_SEEDS)
      if all(near) and right and shown:
        break
    else:
      yield f'no row shows “{match[0]}”'
  if told and len(told) != len(differences):
    yield f'{len(differences)} differences are told as {len(told)}: {finding.text}'


def _verdict(row: Any, better: str) -> str:
  if row.low <= 0 <= row.high:
    return 'no difference shown'
  way = 'lower' if row.high < 0 else 'higher'
  return f'{way}, {"better" if way == better else "worse"}' if better else way


def told_twice(texts: list[str]) -> Iterator[str]:
  known: dict[str, tuple[str, ...]] = {}
  for text in texts:
    head, _, clauses = _plain(text).rstrip('.').partition(': ')
    for clause in re.split(r';\s', clauses):
      match = _TOLD.search(clause)
      if match:
        subject = f'{head}: {clause[: match.start()]}{match[4]}'
        if known.setdefault(subject, match.groups()) != match.groups():
          yield f'told twice: {subject}'


def silently_left_out(results: Results) -> Iterator[str]:
  """Yields groups of rows of declared quantities that no table has, and no line names."""
  shown = {titled.name for titled in tables.tables(results)}
  named = tables.left_out(results, shown)
  facets = facets_of(results.table)
  for quantity in results.presented:
    own = results.table[results.table['quantity'] == quantity.name]
    for has in set(map(tuple, own[facets].notna().to_numpy().tolist())):
      name = '_'.join([quantity.name, *itertools.compress(facets, has)])
      if name not in shown and not any(line.startswith(quantity.words) for line in named):
        yield f'{name} is in no table'


def page(html: str) -> Iterator[str]:
  """Yields what is wrong on a page: links within it that lead nowhere, values that are none but in
  settings."""
  ids = set(re.findall(r'id="([^"]+)"', html))
  for target in sorted(set(re.findall(r'href="#([^"]+)"', html)) - ids):
    yield f'a link leads to #{target}, which is not there'
  visible = re.sub(r'<(script|style|dl|pre)\b.*?</\1>|<[^>]+>', ' ', html, flags=re.S)
  if re.search(r'\b(nan|NaN|None|<NA>)\b', visible):
    yield 'the page has a value that is none'


def overlaps(figure: Figure) -> Iterator[str]:
  """Yields pairs of texts of a figure that lie over each other."""
  figure.draw_without_rendering()
  renderer = FigureCanvasAgg(figure).get_renderer()
  boxes = [(text, _inner(text.get_window_extent(renderer))) for text in _texts(figure)]
  for (one, box), (other, second) in itertools.combinations(boxes, 2):
    slanted = one.get_rotation() % 90 and other.get_rotation() % 90
    if not slanted and box.overlaps(second) and box.width > 0 and second.width > 0:
      yield f'“{one.get_text()}” and “{other.get_text()}” overlap'


def _inner(box: Bbox) -> Bbox:
  return Bbox([[box.x0 + _TOUCHING, box.y0 + _TOUCHING], [box.x1 - _TOUCHING, box.y1 - _TOUCHING]])


def _texts(figure: Figure) -> Iterator[Text]:
  found: list[Text] = [*figure.texts]
  found += [text for legend in figure.legends for text in legend.get_texts()]
  for axes in figure.axes:
    if axes.get_visible():
      found += [axes.title, *axes.texts]
      found += [text for legend in [axes.get_legend()] if legend for text in legend.get_texts()]
      for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
        low, high = sorted(axis.get_view_interval())
        reach = 1e-9 * (high - low)
        ticks = [t for t in axis.get_major_ticks() if low - reach <= t.get_loc() <= high + reach]
        labels = [label for tick in ticks for label in (tick.label1, tick.label2)]
        found += [axis.label, *(label for label in labels if label.get_visible())]
  # The titles of a figure are among its texts.
  yield from (text for text in found if text.get_visible() and text.get_text().strip())


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
  """Yields complaints, which grow by those of every figure that is saved meanwhile."""
  found: list[str] = []
  save = style.save

  def checked(figure: Figure, path: Any) -> None:
    save(figure, path)
    found.extend(f'{pathlib.Path(path).stem}: {text}' for text in overlaps(figure))

  with mock.patch.object(style, 'save', checked):
    yield found


def _plain(text: str) -> str:
  return text.replace('\N{NO-BREAK SPACE}', ' ')


def _numbers(*texts: str) -> tuple[float, ...]:
  return tuple(float(text.replace('−', '-').rstrip('.')) for text in texts)
