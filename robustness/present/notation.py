"""Text for numbers, intervals and facets in figures, sentences and tables."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.estimates.facets import Facet
from robustness.estimates.intervals import decimals
from robustness.estimates.jackknife import TOO_FEW, TOO_FEW_SEEDS
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import COUNT, RATIO, SHARE, Quantity
from robustness.estimates.systematic import DEGENERATE

MINUS, NO_BREAK = '−', '\N{NO-BREAK SPACE}'
"""The minus sign and the space that text in figures and reports uses."""
FREQUENCIES = ('frequency_y', 'frequency_x')
"""The facets of a Fourier heatmap. A frequency and its mirror image through 0 are the same plane
wave: the table has one row for both, and the heatmap two cells.
"""
PAPER_NAMES: dict[str, dict[str, str]] = {
  'attack': {
    **{name: name.upper() for name in ('ddn', 'fab', 'fgsm', 'fmn', 'pgd')},
    'auto_attack': 'AutoAttack',
    'auto_pgd': 'Auto-PGD',
    'square': 'Square',
  },
  'score': {name: name.upper() for name in ('aps', 'gen', 'lac', 'mds', 'msp', 'raps', 'rmds')},
  'corruption_set': {
    'all': '19 common',
    'extra': 'four extra',
    'c_bar_cifar': 'CIFAR-10-C-bar',
    'c_bar_imagenet': 'ImageNet-C-bar',
    'fourier_cifar': 'Yin et al. (2019) CIFAR-10-C',
    'fourier_imagenet': 'Yin et al. (2019) ImageNet-C',
    'imagenet_3dcc': 'ImageNet-3DCC',
    'laion_c': 'LAION-C',
  },
}
"""Names of facet values as papers write them, {facet: {value: name}}."""
MAX_NAMED = 3
"""Most conditions that a sentence lists one by one; the others are counted."""


@dataclasses.dataclass(frozen=True)
class Notation:
  """How values of a quantity, or differences between classifiers, are written.

  Attributes:
    quantity: the quantity, such as the top-1 error.
    difference: whether the values are differences.
    versus: for differences, the label of the classifier that is subtracted; '' if there are
      several.
  """

  quantity: Quantity
  difference: bool = False
  versus: str = ''

  @property
  def scale(self) -> float:
    """The factor that values are multiplied by: 100 if they are written in percent, else 1."""
    return self.quantity.scale

  @property
  def signed(self) -> bool:
    """Whether positive values get a plus sign, and percentages the unit 'points'.

    This holds for differences, and for fractions that may be negative.
    """
    return self.difference or (self.quantity.kind == SHARE and self.quantity.range[0] < 0)

  @property
  def unit(self) -> str:
    """The unit of the text: '%', 'points', the unit of the quantity, or ''."""
    if self.scale > 1:  # in percent; `signed` is for differences
      return 'points' if self.signed else '%'
    return self.quantity.unit

  @property
  def head(self) -> str:
    """The head of an axis or column, with the unit: 'top-1 error (%)'."""
    words = f'difference in {self.quantity.words}' if self.difference else self.quantity.words
    words = f'{self.quantity.words} minus that of {self.versus}' if self.versus else words
    return f'{words} ({self.unit})' if self.unit else words

  def digits(self, width: float) -> int:
    """Returns the number of decimals for a value with an interval; 0 for a count.

    Args:
      width: width of the interval before scaling, such as 0.02 for 2 %. If it is 0 or NaN,
        percentages get 1 decimal and other values 2.
    """
    if self.quantity.kind == COUNT and not self.difference:
      return 0
    scaled = self.scale * width
    if not scaled > 1e-12:  # NaN, zero, or a width that is due to the rounding of floats
      return 1 if self.scale > 1 else 2  # the scale is 100 for percentages
    return decimals(scaled)

  def plain_digits(self, largest: float) -> int:
    """Returns the number of decimals for a set of values without intervals.

    * Counts have none.
    * Percentages show two significant digits of the largest value and at least one decimal, such as
      3 decimals for 0.052 %. Differences of percentages have one decimal.
    * Other values show three significant digits of the largest value, such as 2 decimals for 1.23.
      Ratios have at least three decimals.

    Args:
      largest: the largest absolute value, before scaling.
    """
    largest = self.scale * largest
    if self.quantity.kind == COUNT and not self.difference:
      return 0
    # The power of ten of the first significant digit: 1 for 31.2, −2 for 0.05.
    exponent = math.floor(math.log10(largest)) if largest > 1e-12 else 0
    if self.scale > 1 and self.signed:
      return 1
    significant, fewest_decimals = 3, 3 if self.quantity.kind == RATIO else 0
    if self.scale > 1:
      significant, fewest_decimals = 2, 1
    return min(12, max(fewest_decimals, significant - 1 - exponent))

  def number(self, value: float, digits: int) -> str:
    """Formats a value of the quantity without its unit; NaN becomes 'unknown'.

    `self.scale` converts a value to the unit, such as a share to percent. Differences have a sign
    unless they round to zero.

    Args:
      value: the value, as in the table of results.
      digits: number of decimals.
    """
    if math.isnan(value):
      return 'unknown'
    # 12 digits leave out rounding errors of floats: .075 and 1 − .925 are both 8 %.
    magnitude = float(f'{abs(self.scale * value):.12g}')
    text = f'{magnitude:.{digits}f}'
    if not float(text):  # a value that rounds to zero
      return text
    plus = '+' if self.signed else ''
    return f'{MINUS if value < 0 else plus}{text}'

  def bare(self, row: Any) -> str:
    """Formats an estimate with its interval but without its unit: '31.2 (30.1 to 32.4)'.

    If the interval of a difference excludes 0, its ends have enough decimals to show this. An
    estimate without an interval is a single number. It is followed by the reason if there were too
    few clusters or seeds.

    Args:
      row: row of the table of results, with the columns value, low, high and note.
    """
    if ITSELF in row.note:  # the ratio of the baseline to itself: exactly 100 %
      return f'{self.scale * row.value:g}'
    width = row.high - row.low
    has_width = width > 1e-12 * abs(row.value)  # more than floating-point rounding
    digits = self.digits(width) if has_width else self.plain_digits(abs(row.value))
    if self.difference and (row.low > 0 or row.high < 0):
      end_nearest_to_zero = self.scale * min(abs(row.low), abs(row.high))
      # A number of at least half a unit of the last decimal is not rounded to zero.
      digits = min(12, max(digits, math.ceil(-math.log10(2 * end_nearest_to_zero))))
    value = self.number(row.value, digits)
    if math.isnan(row.low + row.high):  # no interval
      parts_of_note = row.note.split('; ')
      reasons = [part for part in parts_of_note if part.startswith((TOO_FEW, TOO_FEW_SEEDS))]
      return ' '.join([value, *(f'({reason})' for reason in reasons)])
    return f'{value} ({self.number(row.low, digits)} to {self.number(row.high, digits)})'

  def full(self, row: Any) -> str:
    """Formats an estimate with its unit and interval: '31.2 % (30.1 to 32.4)'."""
    value, space, interval = self.bare(row).partition(' ')
    unit = f'{NO_BREAK}{self.unit}' if self.unit else ''
    return f'{value}{unit}{space}{interval}'


def are_degenerate(rows: pd.DataFrame) -> np.ndarray:
  """Returns which estimates are marked as degenerate in the column `note`, bool [n].

  For instance, a ratio of two gains in accuracy is degenerate if a training gained nothing.
  """
  return rows['note'].str.fullmatch(f'{DEGENERATE}(;.*)?').to_numpy(bool)


def is_axis(quantity: Quantity, rows: pd.DataFrame, name: str) -> bool:
  """Returns whether a grouping column, such as 'severity', has ordered numbers.

  Figures then draw it on a numeric axis.

  Args:
    quantity: the quantity, which declares its grouping columns.
    rows: rows of the table of results with values in this column.
    name: name of the column.
  """
  return not pd.api.types.is_string_dtype(rows[name].dtype) and quantity.facet(name).ordered


def number(value: Any) -> str:
  """Formats a number with a typographic minus: '3' for 3.0, '−0.5' for −0.5.

  Integers have all their digits, other numbers six significant ones.
  """
  return (str(int(value)) if float(value).is_integer() else f'{value:g}').replace('-', MINUS)


def rounded(facet: Facet, value: float) -> str:
  """Formats a number of a grouping column as in papers, such as '0.031' or '8/255'.

  Multiples of 1/`facet.steps` become fractions, except numbers with at most two decimals. Whole
  numbers, and numbers below 10 with at most three decimals, have all digits: severities 2.99 and 3
  differ. Other numbers are rounded within 1 % of the value, to at least two significant digits.

  Args:
    facet: the column, such as severity.
    value: the number.
  """
  steps = facet.steps * value
  is_fraction = facet.steps and abs(steps - round(steps)) < 1e-6
  has_two_decimals = value == round(value, 2)
  if is_fraction and not has_two_decimals:
    return f'{round(steps)}/{facet.steps}'
  if float(value).is_integer() or (abs(value) < 10 and value == round(value, 3)):
    return number(value)
  digits_before_point = int(math.log10(abs(value))) + 1 if abs(value) >= 10 else 0
  for digits in range(max(2, digits_before_point), 10):  # significant digits
    text = f'{value:.{digits}g}'
    if abs(float(text) - value) <= 0.01 * abs(value):
      return number(float(text))
  return number(value)


def value_text(facet: Facet, value: Any) -> str:
  """Returns a value of a grouping column as in papers: 'AutoAttack', '8/255', 'gaussian noise'."""
  if not isinstance(value, str):
    return rounded(facet, value)
  return PAPER_NAMES.get(facet.name, {}).get(value, value.replace('_', ' '))


def label_of(facet: Facet, value: Any) -> str:
  """Labels a value of a grouping column: 'fog', 'severity 3', 'class 7'.

  Numbers follow the name of the column.
  """
  text = value_text(facet, value)
  is_name = isinstance(value, str) and not value.isdigit()
  return text if is_name else f'{facet.words} {text}'


def _value_template(facet: Facet, value: Any) -> str:
  """Returns a template for conditions by a grouping column, such as 'under {}' for corruptions.

  Args:
    facet: the column.
    value: an example of its values; texts and numbers may have different templates.
  """
  preposition = 'in' if isinstance(value, str) else 'at'
  return facet.place or f'{preposition} {facet.words} {{}}'


def value_words(facet: Facet, value: Any) -> str:
  """Puts a value of a grouping column into words: 'under fog', 'at severity 3', 'in class 7'."""
  template = facet.places.get(value) or _value_template(facet, value)  # such as 'under {}'
  return template.replace('{}', value_text(facet, value))


def condition_words(quantity: Quantity, facets: Sequence[str], values: Sequence[Any]) -> str:
  """Returns a condition as a phrase, such as 'under fog at severity 3'.

  The Fourier frequencies of both axes are written as one vector: 'at frequency ±(3, −1)'.

  Args:
    quantity: the quantity, which declares its grouping columns.
    facets: names of the columns, such as ('corruption', 'severity').
    values: the value of each column.
  """
  by_name = dict(zip(facets, values, strict=True))
  if not {*FREQUENCIES} <= by_name.keys():
    return _phrase([value_words(quantity.facet(name), value) for name, value in by_name.items()])
  y, x = (by_name.pop(name) for name in FREQUENCIES)
  if (y, x) < (0, 0):  # of a frequency and its mirror image, the upper one is stated
    y, x = -y, -x
  sign = '±' if y or x else ''
  wave = f'at frequency {sign}({number(y)}, {number(x)})'
  words = [value_words(quantity.facet(name), value) for name, value in by_name.items()]
  return ' '.join([*words, wave])


def _phrase(conditions: Sequence[str]) -> str:
  """Joins conditions to one phrase, with 'and' in place of a repeated 'at'.

  For example, ['at area 0.1', 'at angle 30'] becomes 'at area 0.1 and angle 30'.
  """
  parts = []
  for before, condition in itertools.pairwise(['', *conditions]):
    is_repeated = before.startswith('at ') and condition.startswith('at ')
    parts.append(f'and {condition.removeprefix("at ")}' if is_repeated else condition)
  return ' '.join(parts)


def condition_of(quantity: Quantity, row: pd.Series, facets: Sequence[str]) -> str:
  """Returns the condition of an estimate as a phrase, such as 'under fog at severity 3'.

  Args:
    quantity: the quantity, which declares its grouping columns.
    row: the row of the estimate in the table of results.
    facets: names of the columns, such as ('corruption', 'severity'). Columns without a value are
      left out.
  """
  names = [name for name in facets if not pd.isna(row[name])]
  return condition_words(quantity, names, [row[name] for name in names])


def words_with_condition(quantity: Quantity, row: pd.Series, facets: Sequence[str]) -> str:
  """Returns the name of a quantity with the condition of a row: 'top-1 error under fog'."""
  return f'{quantity.words} {condition_of(quantity, row, facets)}'.rstrip()


def conditions_of(quantity: Quantity, rows: pd.DataFrame, facets: Sequence[str]) -> str:
  """Returns the conditions of several estimates as a phrase, such as 'under fog, snow and frost'.

  Only the first `MAX_NAMED` conditions are named if there are at least two more: 'under fog, snow,
  frost and 4 others'. If only one column varies, the values of the other columns are stated once:
  'at severities 1 and 2 under fog'.

  Args:
    quantity: the quantity, which declares its grouping columns.
    rows: the rows of the estimates in the table of results.
    facets: names of the columns, such as ('corruption', 'severity').
  """
  listed = rows.head(MAX_NAMED)
  if len(rows) == MAX_NAMED + 1:  # 'and 1 other' would be no shorter than the condition itself
    listed = rows
  varying = [name for name in facets if rows[name].nunique() > 1]
  template, noun_of_rest = '{}', 'others'
  if len(varying) == 1:
    # Such as 'at severities {} under fog', with the texts '1' and '2'.
    template = _plural_phrase(quantity, rows.iloc[0], facets, varying[0])
    facet, values = quantity.facet(varying[0]), listed[varying[0]]
    texts = [value_text(facet, value) for value in values]
    if not _value_template(facet, values.iloc[0]).endswith('{}'):
      noun_of_rest = 'other'  # a noun follows: 'after 1, 2, 3 and 6 other queries'
  else:
    first, *later = [condition_of(quantity, row, facets) for _, row in listed.iterrows()]
    # 'at frequency (3, 1) and (4, 0)': the words are not repeated
    texts = [first, *(text.removeprefix('at frequency ') for text in later)]
  if len(rows) > len(listed):
    texts.append(f'{len(rows) - len(listed)} {noun_of_rest}')
  return template.replace('{}', enumerated(texts))


def enumerated(texts: Sequence[str]) -> str:
  """Joins texts as in a sentence: 'fog, snow and frost'; '' without texts."""
  *before, last = texts or ['']
  return f'{", ".join(before)} and {last}' if before else last


def _plural_phrase(quantity: Quantity, row: pd.Series, facets: Sequence[str], varying: str) -> str:
  """Returns a template for several conditions, such as 'at severities {} under fog'.

  Args:
    quantity: the quantity, which declares its grouping columns.
    row: a row of the table of results, with the values of all columns but `varying`.
    facets: names of the columns, such as ('corruption', 'severity').
    varying: the column with several values, for which '{}' stands.
  """
  phrases = []
  for name in facets:
    facet = quantity.facet(name)
    if name == varying:  # 'at severity {}' → 'at severities {}'
      template = _value_template(facet, row[name])
      phrases.append(template.replace(f'{facet.words} {{}}', f'{facet.plural} {{}}'))
    else:
      phrases.append(value_words(facet, row[name]))
  return _phrase(phrases)


def preposition(quantity: Quantity, rows: pd.DataFrame, facets: Sequence[str]) -> str:
  """Returns the preposition of conditions, such as 'under' in 'under 12 of 19 corruptions'.

  It is 'in' for conditions by several columns, but 'at' for Fourier frequencies.

  Args:
    quantity: the quantity, which declares its grouping columns.
    rows: rows of the table of results with values in all columns.
    facets: names of the columns, such as ('corruption', 'severity').
  """
  if {*facets} == {*FREQUENCIES}:
    return 'at'
  if len(facets) > 1:
    return 'in'
  [name] = facets
  return _value_template(quantity.facet(name), rows.iloc[0][name]).partition(' ')[0]


def plural(quantity: Quantity, facets: Sequence[str]) -> str:
  """Returns the plural of a combination of columns, such as 'pairs of attacks and radii'.

  For one column it is 'corruptions', for instance.

  Args:
    quantity: the quantity, which names the values of its columns.
    facets: names of the columns, such as ('attack', 'epsilon').
  """
  if {*facets} == {*FREQUENCIES}:
    return 'frequencies'
  words = ' and '.join(quantity.facet(name).plural for name in facets)
  if len(facets) == 1:
    return words
  return f'{"pairs" if len(facets) == 2 else "combinations"} of {words}'


def joined_words(quantity: Quantity, facets: Sequence[str]) -> str:
  """Returns the names of grouping columns in words: 'corruption and severity'."""
  return ' and '.join(quantity.facet(name).words for name in facets)


def span(counts: Iterable[int]) -> str:
  """Returns the smallest and the largest count as text: '10' or '10 to 1,000'; '' without any."""
  counts = list(counts)
  if not counts:
    return ''
  smallest, largest = min(counts), max(counts)
  return f'{smallest:,}' if smallest == largest else f'{smallest:,} to {largest:,}'


def name_of(quantity: str, facets: Sequence[str]) -> str:
  """Returns the file name of a figure or table, such as 'error_corruption'.

  Args:
    quantity: name of the quantity.
    facets: names of the grouping columns of its estimates.
  """
  return '_'.join((quantity, *facets))


def column_name(label: str, versus: str) -> str:
  """Returns the head of a column: 'classifier', or 'classifier − versus' for a difference."""
  return f'{label} − {versus}' if versus else label


def sentence(text: str) -> str:
  """Returns a text with a capital first letter and a full stop."""
  return f'{text[0].upper()}{text[1:]}.'
