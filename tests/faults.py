"""Finds faults in what readers see of results: sentences, tables, figures and pages.

Each function yields the faults in words, and none if all is right. It reads texts and pictures as a
reader does and shares no code with the package that writes them.
"""

import contextlib
import itertools
import math
import pathlib
import re
from collections.abc import Collection, Iterator
from typing import Any
from unittest import mock

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from robustness.estimates.table import facets_of
from robustness.present import style, tables
from robustness.present.sentences import findings
from robustness.results import Results

_NUMBER = r'[−+]?\d[\d.]*'
_ESTIMATE = rf'({_NUMBER})(?: %| [a-z]+)? \(({_NUMBER}) to ({_NUMBER})\)'
_ESTIMATES = re.compile(_ESTIMATE)
_TOGETHER = re.compile(r' (Intervals|Differences) are simultaneous over (\d+) ([^.]*)\.$')
_ROUNDING = 1e-9
_TOUCHING = 1.0  # largest overlap of the boxes of two texts, pixels


def in_results(results: Results) -> list[str]:
  """Returns the faults in the rows, sentences and tables of results."""
  texts = [finding.text for finding in findings(results)]
  table = results.over_seeds.table
  names = {str(value) for facet in facets_of(table) for value in table[facet].dropna().unique()}
  return [
    *in_rows(results),
    *itertools.chain(*(in_sentence(text, names) for text in texts)),
    *contradictions(texts),
    *missing_rows(results),
  ]


def in_rows(results: Results) -> Iterator[str]:
  """Yields rows of undeclared quantities, and values outside of their interval or range."""
  quantities = {quantity.name: quantity for quantity in results.presented}
  for row in results.table.itertuples() if quantities else ():
    if row.quantity not in quantities:
      yield f'{row.quantity} is not declared'
      continue
    quantity = quantities[row.quantity]
    smallest, largest = quantity.difference_range if row.versus else quantity.range
    ends = [row.low, row.value, row.high]
    finite = [end for end in (smallest, *ends, largest) if not math.isnan(end)]
    if any(second < first - _ROUNDING for first, second in itertools.pairwise(finite)):
      yield f'{row.quantity} of {row.classifier}: {ends} do not ascend in [{smallest}, {largest}]'


def in_sentence(text: str, names: Collection[str] = ()) -> Iterator[str]:
  """Yields the faults of a sentence.

  Args:
    text: the sentence.
    names: values of facets, which may be words such as 'unknown'.
  """
  undefined = {'nan', 'None', 'NaN', 'unknown', 'NA'} - set(names)
  if undefined & set(re.findall(r'\w+', text)) or not text.endswith('.'):
    yield f'no sentence: {text}'
  intervals = [_numbers(*match) for match in _ESTIMATES.findall(_plain(text))]
  if not intervals:
    yield f'a sentence without an interval: {text}'
  if any(not low <= value <= high for value, low, high in intervals):
    yield f'an interval without its value: {text}'


def _statement(text: str) -> tuple[str, int]:
  """Returns a text without its last sentence about simultaneous intervals, and their number."""
  text = ' '.join(_plain(text).split())
  match = _TOGETHER.search(text)
  count = 1
  if match:
    networks = re.search(r' and (\d+) networks$', match[3])
    count = int(match[2]) * (int(networks[1]) if networks else 1)
  return text[: match.start() if match else None].rstrip('.'), count


def contradictions(texts: list[str]) -> Iterator[str]:
  """Yields subjects to which texts give different numbers."""
  numbers_by_subject: dict[str, tuple[str, ...]] = {}
  for text in texts:
    statement, together = _statement(text)
    head, _, clauses = statement.partition(': ')
    for clause in re.split(r';\s', clauses):
      match = _ESTIMATES.search(clause)
      if match:
        subject = f'{head}: {clause[: match.start()]}{clause[match.end() :]} {together}'
        if numbers_by_subject.setdefault(subject, match.groups()) != match.groups():
          yield f'two values: {subject}'


def missing_rows(results: Results) -> Iterator[str]:
  """Yields the groups of rows that no table has and no line lists as left out."""
  titles = {titled.name for titled in tables.tables(results)}
  listed = tables.left_out(results, titles)
  facets = facets_of(results.table)
  for quantity in results.presented:
    rows = results.table[results.table['quantity'] == quantity.name]
    for has in set(map(tuple, rows[facets].notna().to_numpy().tolist())):
      name = '_'.join([quantity.name, *itertools.compress(facets, has)])
      if name not in titles and not any(line.startswith(quantity.words) for line in listed):
        yield f'{name} is in no table'


def in_page(html: str) -> Iterator[str]:
  """Yields the faults of a page: links to missing anchors, and missing values outside settings."""
  ids = set(re.findall(r'id="([^"]+)"', html))
  for target in sorted(set(re.findall(r'href="#([^"]+)"', html)) - ids):
    yield f'a link leads to #{target}, which is not there'
  visible = re.sub(r'<(script|style|dl|pre)\b.*?</\1>|<[^>]+>', ' ', html, flags=re.S)
  if re.search(r'\b(nan|NaN|None|<NA>)\b', visible):
    yield 'the page has a value that is none'


def overlaps(figure: Figure) -> Iterator[str]:
  """Yields pairs of texts of a figure that overlap."""
  figure.draw_without_rendering()
  renderer = FigureCanvasAgg(figure).get_renderer()
  boxes = [(text, _inner(text.get_window_extent(renderer))) for text in _texts(figure)]
  for (text, box), (other, second) in itertools.combinations(boxes, 2):
    slanted = text.get_rotation() % 90 and other.get_rotation() % 90
    if not slanted and box.overlaps(second) and box.width > 0 and second.width > 0:
      yield f'“{text.get_text()}” and “{other.get_text()}” overlap'


def _inner(box: Bbox) -> Bbox:
  """Returns a box without a margin of `_TOUCHING`."""
  return Bbox([[box.x0 + _TOUCHING, box.y0 + _TOUCHING], [box.x1 - _TOUCHING, box.y1 - _TOUCHING]])


def _texts(figure: Figure) -> Iterator[Text]:
  """Yields the visible texts of a figure."""
  texts: list[Text] = [*figure.texts]
  texts += [text for legend in figure.legends for text in legend.get_texts()]
  for axes in figure.axes:
    if axes.get_visible():
      texts += [axes.title, *axes.texts]
      texts += [text for legend in [axes.get_legend()] if legend for text in legend.get_texts()]
      for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
        low, high = sorted(axis.get_view_interval())
        reach = 1e-9 * (high - low)
        ticks = [t for t in axis.get_major_ticks() if low - reach <= t.get_loc() <= high + reach]
        labels = [label for tick in ticks for label in (tick.label1, tick.label2)]
        texts += [axis.label, *(label for label in labels if label.get_visible())]
  # The titles of a figure are among its texts.
  yield from (text for text in texts if text.get_visible() and text.get_text().strip())


@contextlib.contextmanager
def in_saved_figures() -> Iterator[list[str]]:
  """Yields a list to which each figure that is saved adds its overlapping texts."""
  overlapping: list[str] = []
  save = style.save

  def checked(figure: Figure, path: Any, pdf: bool = False) -> None:
    save(figure, path, pdf)
    overlapping.extend(f'{pathlib.Path(path).stem}: {text}' for text in overlaps(figure))

  with mock.patch.object(style, 'save', checked):
    yield overlapping


def _plain(text: str) -> str:
  return text.replace('\N{NO-BREAK SPACE}', ' ')


def _numbers(*texts: str) -> tuple[float, ...]:
  return tuple(float(text.replace('−', '-').rstrip('.')) for text in texts)
