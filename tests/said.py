"""Checks of what people see of results: sentences, tables and figures say what the rows say.

Each check returns complaints in words, none where all is well, and reads text and pictures as a
reader does: it shares no code with what wrote them.
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
from robustness.present.sentences import Finding, findings
from robustness.results import Results

_NUMBER = r'[−+]?\d[\d.]*'
_ESTIMATE = rf'({_NUMBER})(?: %| [a-z]+)? \(({_NUMBER}) to ({_NUMBER})\)'
_TOLD = re.compile(_ESTIMATE)
_SHOWN = re.compile(
  rf'^(?P<label>.+?)(?: {_ESTIMATE})?(?:,| is) (?P<way>better|worse|lower|higher) than '
  rf'(?P<versus>.+?) by {_ESTIMATE}$'
)
_NOT_SHOWN = re.compile(
  rf'^(?P<label>.+?)(?: {_ESTIMATE})?, no difference from (?P<versus>.+?) is shown: {_ESTIMATE}$'
)
_BY_SEEDS = re.compile(
  rf'^(?P<label>.+?)(?: {_ESTIMATE})?, minus (?P<versus>.+?) {_ESTIMATE}, which seeds alone'
)
_WAYS = 'less often|more often|less|more|better|worse|lower|higher'
_COMPARED = re.compile(
  rf'^(?:of [^,]*, )?(?P<label>.+?) (?:(?:errs|is(?: right)?) (?P<first>{_WAYS}) than '
  rf'(?P<versus>.+?) (?P<where>.+?)(?: and (?P<second>{_WAYS}) (?P<elsewhere>.+?))?'
  r'|is not shown to differ from (?P<none>.+) \w+ any)'
  rf'; the largest difference, {_ESTIMATE}, is (?P<place>.+)$'
)
_HIGHER = {'more', 'more often', 'higher'}
_LOWER = {'less', 'less often', 'lower'}
_TOGETHER = re.compile(r' (Intervals|Differences) are simultaneous over (\d+) ([^.]*)\.$')
_ROUNDING = 1e-9
_TOUCHING = 1.0  # largest overlap of the boxes of two texts, pixels


def complaints(results: Results) -> list[str]:
  """Returns the faults in the rows, sentences and tables of results."""
  findings_of_results = findings(results)
  texts = [finding.text for finding in findings_of_results]
  table = results.over_seeds.table
  names = {str(value) for facet in facets_of(table) for value in table[facet].dropna().unique()}
  return [
    *rows(results),
    *itertools.chain(*(sentence(text, names) for text in texts)),
    *itertools.chain(*(verdicts(finding, results) for finding in findings_of_results)),
    *itertools.chain(*(extremes(finding, results) for finding in findings_of_results)),
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
    smallest, largest = quantity.difference_range if row.versus else quantity.range
    ends = [row.low, row.value, row.high]
    finite = [end for end in (smallest, *ends, largest) if not math.isnan(end)]
    if any(second < first - _ROUNDING for first, second in itertools.pairwise(finite)):
      yield f'{row.quantity} of {row.classifier}: {ends} do not ascend in [{smallest}, {largest}]'


def sentence(text: str, names: Collection[str] = ()) -> Iterator[str]:
  """Yields the faults of a sentence; `names` are values of facets, such as a set of images that is
  called 'unknown'."""
  undefined = {'nan', 'None', 'NaN', 'unknown', 'NA'} - set(names)
  if undefined & set(re.findall(r'\w+', text)) or not text.endswith('.'):
    yield f'no sentence: {text}'
  intervals = [_numbers(*match) for match in _TOLD.findall(_plain(text))]
  if not intervals:
    yield f'a sentence without an interval: {text}'
  if any(not low <= value <= high for value, low, high in intervals):
    yield f'an interval without its value: {text}'


def verdicts(finding: Finding, results: Results) -> Iterator[str]:
  """Yields the differences in a finding that no row of the table shows.

  Rows are looked up by their labels and values in the table of results, not in the finding.
  """
  text, together = _parted(finding.text)
  clauses = text.partition(': ' if ': ' in text else ', ')[2]
  quantity = _quantity_of(finding, results)
  table = results.over_seeds.table
  bounded = table[(table['quantity'] == quantity.name) & table['low'].notna()]
  differences = bounded[bounded.versus != '']
  stated = 0
  for clause in re.split(r';\s+(?!the largest difference)', clauses):
    if match := _NOT_SHOWN.match(clause) or _SHOWN.match(clause) or _BY_SEEDS.match(clause):
      stated += 1
      yield from _level(match, clause, differences, quantity, together)
    elif match := _COMPARED.search(clause):
      stated += 1
      yield from _compared(match, clause, finding, results, together)
    elif 'than' in clause.split() or 'difference' in clause:
      yield f'a difference that cannot be read: {clause}'
  rows = finding.rows[finding.rows.versus != '']
  pairs = len(set(zip(rows.classifier, rows.versus, strict=True)))
  if stated != pairs:
    yield f'{pairs} differences are stated as {stated}: {finding.text}'


def _quantity_of(finding: Finding, results: Results) -> Any:
  name = finding.rows['quantity'].iloc[0]
  return next(quantity for quantity in results.presented if quantity.name == name)


def _rows_of(finding: Finding, results: Results) -> Any:
  """Returns the rows of the table of results that have the finding's quantity and facets."""
  table = results.over_seeds.table
  rows = table[(table['quantity'] == _quantity_of(finding, results).name) & table['low'].notna()]
  for name in facets_of(table):
    rows = rows[rows[name].notna() == (name in finding.facets)]
  return rows


def _parted(text: str) -> tuple[str, int]:
  """Returns the statement of a text, and the number of estimates that its intervals cover."""
  text = ' '.join(_plain(text).split())
  match = _TOGETHER.search(text)
  count = 1
  if match:
    networks = re.search(r' and (\d+) networks$', match[3])
    count = int(match[2]) * (int(networks[1]) if networks else 1)
  return text[: match.start() if match else None].rstrip('.'), count


def _level(match: Any, clause: str, rows: Any, quantity: Any, together: int) -> Iterator[str]:
  """Checks a difference against a row; its interval may be wider if `together` exceeds 1."""
  *_, value, low, high = (text for text in match.groups() if text and re.fullmatch(_NUMBER, text))
  stated, digits = _numbers(value, low, high), 0.51 * 10.0 ** -len(value.partition('.')[2])
  verdict = match.groupdict().get('way')
  mine = (rows.classifier == match['label']) & (rows.versus == match['versus'])
  for row in rows[mine].itertuples():
    ends = [quantity.scale * end for end in (row.value, row.low, row.high)]
    if verdict and ends[0] < 0:
      ends = [-ends[0], -ends[2], -ends[1]]
    slack = digits if together == 1 else math.inf
    near = abs(ends[0] - stated[0]) <= digits
    near &= -slack <= stated[1] - ends[1] <= digits and -digits <= stated[2] - ends[2] <= slack
    better = 'better' if (row.value < 0) == (quantity.better == 'lower') else 'worse'
    right = {better} if quantity.better else {'lower' if row.value < 0 else 'higher'}
    if verdict:
      if near and verdict in right and stated[1] > 0:
        return
    elif near and (stated[1] <= 0 <= stated[2] or 'seeds alone' in clause):
      return
  yield f'no row shows “{clause}”'


def _compared(
  match: Any, clause: str, finding: Finding, results: Results, together: int
) -> Iterator[str]:
  """Checks counts of lower and higher differences, and the largest one, against the table.

  The counts follow from p-values if the table has them, else separate intervals limit them.
  """
  quantity = _quantity_of(finding, results)
  differences = _rows_of(finding, results)
  differences = differences[differences.versus != '']
  versus = match['versus'] or match['none']
  rows = differences[(differences.classifier == match['label']) & (differences.versus == versus)]
  if rows.empty:
    yield f'no rows of “{clause}”'
    return
  if together != len(differences):
    yield f'intervals of {len(differences)} are said to be simultaneous over {together}: {clause}'
  counts = {True: 0, False: 0}
  for verdict, places in ((match['first'], match['where']), (match['second'], match['elsewhere'])):
    if verdict:
      lower = verdict in _LOWER or (verdict == 'better') == (quantity.better == 'lower')
      is_higher = verdict in _HIGHER or (verdict not in _LOWER and not lower)
      counts[is_higher] += _count(places, len(rows))
  p = differences.p
  is_rejected = _benjamini_hochberg(p.tolist(), 0.05) if p.notna().all() else None
  for is_higher, count in counts.items():
    of_sign = (differences['value'] > 0) == is_higher
    mine = (differences.classifier == match['label']) & (differences.versus == versus) & of_sign
    if is_rejected is not None:
      exact = sum(flag for flag, of_row in zip(is_rejected, mine, strict=True) if of_row)
      if abs(exact - count) > (0.006 * len(rows) if '%' in clause else 0):
        yield f'{exact} of {len(rows)} are {"higher" if is_higher else "lower"}: {clause}'
    else:
      outside = ((differences.low > 0) | (differences.high < 0)) & mine
      if count > outside.sum() + (0.006 * len(rows) if '%' in clause else 0):
        yield f'own intervals show {outside.sum()} alone: {clause}'
  value, low, high = match.groups()[-4:-1]
  yield from _check_largest((value, low, high), rows, rows['value'].abs(), quantity.scale, clause)


def extremes(finding: Finding, results: Results) -> Iterator[str]:
  """Yields highest and lowest values that no row of the table is, or that are not the highest."""
  text, together = _parted(finding.text)
  if not re.search('^(Highest|Lowest) |, clearest of ', text) or (finding.rows.versus != '').any():
    return
  sign = -1 if text.startswith('Lowest') else 1
  scale = _quantity_of(finding, results).scale
  rows = _rows_of(finding, results)
  rows = rows[rows.versus == '']
  if 'where the' not in text and together != len(rows):
    yield f'intervals of {len(rows)} are said to be simultaneous over {together}: {text}'
  for clause in re.split(r';\s', text.partition(': ')[2]):
    match = _TOLD.search(clause)
    of_label = rows[rows.classifier == clause[: match.start()].strip()] if match else rows[:0]
    if of_label.empty or match is None:
      yield f'no rows of “{clause}”'
    elif 'where the' not in clause:
      size = sign * of_label['value']
      yield from _check_largest(match.groups(), of_label, size, scale, clause)


def _check_largest(texts: Any, rows: Any, size: Any, scale: float, clause: str) -> Iterator[str]:
  value, low, high = _numbers(*texts)
  digits = 0.51 * 10.0 ** -len(texts[0].partition('.')[2])
  for row in rows[size >= size.max() - 1e-9].itertuples():
    ends = [scale * end for end in (row.value, row.low, row.high)]
    if abs(ends[0] - value) <= digits and low <= ends[1] + digits and high >= ends[2] - digits:
      return
  yield f'no row is the largest of “{clause}”'


def _count(places: str, total: int) -> float:
  """Returns the number of places in a text: all, a number, a share, or a list of names."""
  if re.fullmatch(r'\w+ all', places):
    return total
  if share := re.fullmatch(r'\w+ (\d+) %', places):
    return int(share[1]) / 100 * total
  if number := re.fullmatch(r'\w+ (\d+)', places):
    return int(number[1])
  return len(re.split(', | and ', re.sub(r'\([^)]*\)', '', places)))


def _benjamini_hochberg(p: list[float], rate: float) -> list[bool]:
  order = sorted(range(len(p)), key=p.__getitem__)
  last = max((k for k, i in enumerate(order, 1) if p[i] <= rate * k / len(p)), default=0)
  rejected = set(order[:last])
  return [i in rejected for i in range(len(p))]


def told_twice(texts: list[str]) -> Iterator[str]:
  numbers_by_subject: dict[str, tuple[str, ...]] = {}
  for text in texts:
    statement, together = _parted(text)
    head, _, clauses = statement.partition(': ')
    for clause in re.split(r';\s', clauses):
      match = _TOLD.search(clause)
      if match:
        subject = f'{head}: {clause[: match.start()]}{clause[match.end() :]} {together}'
        if numbers_by_subject.setdefault(subject, match.groups()) != match.groups():
          yield f'told twice: {subject}'


def silently_left_out(results: Results) -> Iterator[str]:
  """Yields groups of rows of declared quantities that no table has, and no line names."""
  titles = {titled.name for titled in tables.tables(results)}
  named = tables.left_out(results, titles)
  facets = facets_of(results.table)
  for quantity in results.presented:
    rows = results.table[results.table['quantity'] == quantity.name]
    for has in set(map(tuple, rows[facets].notna().to_numpy().tolist())):
      name = '_'.join([quantity.name, *itertools.compress(facets, has)])
      if name not in titles and not any(line.startswith(quantity.words) for line in named):
        yield f'{name} is in no table'


def page(html: str) -> Iterator[str]:
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
  return Bbox([[box.x0 + _TOUCHING, box.y0 + _TOUCHING], [box.x1 - _TOUCHING, box.y1 - _TOUCHING]])


def _texts(figure: Figure) -> Iterator[Text]:
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
def watched() -> Iterator[list[str]]:
  """Yields a list of complaints, to which every figure adds its own when it is saved."""
  complaints_of_figures: list[str] = []
  save = style.save

  def checked(figure: Figure, path: Any, pdf: bool = False) -> None:
    save(figure, path, pdf)
    complaints_of_figures.extend(f'{pathlib.Path(path).stem}: {text}' for text in overlaps(figure))

  with mock.patch.object(style, 'save', checked):
    yield complaints_of_figures


def _plain(text: str) -> str:
  return text.replace('\N{NO-BREAK SPACE}', ' ')


def _numbers(*texts: str) -> tuple[float, ...]:
  return tuple(float(text.replace('−', '-').rstrip('.')) for text in texts)
