"""What heads the findings of a run: its headline quantities, classifiers side by side.

Of a quantity that is declared a headline, the estimates over all of everything are taken, else
those by the facet that has few names (`robustness.present.sentences.leading`). Where there are
many, the worst for each classifier is, with an interval that holds for all of them together.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from robustness.estimates.quantity import SHARE, Quantity
from robustness.estimates.simultaneous import for_all
from robustness.estimates.systematic import SAYS_LITTLE
from robustness.estimates.table import ESTIMATE, SUBJECT, facets_of
from robustness.present import charts, forms, sentences
from robustness.present.notation import Notation, column_name, place_of, says_nothing
from robustness.present.sentences import Finding, leading, level_groups, place_of_alike
from robustness.results import Results, Table

CLASS = 'class'
_ERROR = re.compile(r'\b(error|accuracy)\b')


class Headline(NamedTuple):
  """Estimates of a quantity, classifier by classifier.

  Attributes:
    task: of the battery, '' for one study.
    quantity: of the estimates.
    words: such as 'top-1 error at severity 5'.
    rows: of the table of results, one a classifier; and differences, where none is a choice.
    choices: how many estimates each was chosen from as the worst; 1 for no choice.
    alike: by classifier, how many of these are as bad.
  """

  task: str
  quantity: Quantity
  words: str
  rows: pd.DataFrame
  choices: int = 1
  alike: Mapping[str, int] = {}

  @property
  def name(self) -> str:
    """Words, after the task's name where there are tasks."""
    return ': '.join(filter(None, (self.task.replace('_', ' '), self.words)))

  def widened(self, row: pd.Series, choices: int) -> pd.Series:
    """Returns an estimate with the interval for all it was chosen from, if there is one."""
    if choices == 1:
      return row
    wide = for_all(row, choices, self.quantity)
    return pd.Series({**row, 'low': math.nan, 'high': math.nan}) if wide is None else wide

  def own(self) -> Iterator[pd.Series]:
    """Yields the estimate of each classifier, no differences."""
    for _, row in self.rows[self.rows.versus == ''].iterrows():
      yield row


def headlines(tasks: Mapping[str, Results]) -> list[Headline]:
  """Returns what heads the findings of `Results.by_task`, task after task.

  Of each task these are the quantities that are declared to, then those that they are drawn beside
  (`Quantity.reference`); where none that is declared to was estimated, all. What an earlier task
  has by the same words with the same estimates, such as the error on clean images, is left out.
  """
  found: dict[tuple[str, str], Headline] = {}
  for task, of in tasks.items():
    telling = without_little(of.table)
    known = {*telling['quantity']}
    heading = [own for own in of.quantities if own.headline and own.name in known]
    beside = {quantity.reference for quantity in heading}
    heading += [quantity for quantity in of.quantities if quantity.name in beside]
    for quantity in dict.fromkeys(heading or of.quantities):
      for own in of_quantity(task, telling, quantity):
        estimates = own.rows[['classifier', 'versus', 'value', 'low', 'high', 'n']]
        found.setdefault((own.words, estimates.to_csv(index=False)), own)
  return [*found.values()]


def without_little(table: pd.DataFrame) -> pd.DataFrame:
  """Returns a table without what a classifier has of a quantity where its estimate over all of
  everything is noted to say little, as ρ of networks at chance, or is degenerate."""
  over_all = table[facets_of(table)].isna().all(axis=1)
  little = over_all & (table.note.str.contains(SAYS_LITTLE, regex=False) | says_nothing(table))
  keys = pd.MultiIndex.from_frame(table[['classifier', 'quantity']])
  return table[~keys.isin(keys[little])]


def of_quantity(task: str, table: pd.DataFrame, quantity: Quantity) -> Iterator[Headline]:
  """Yields the headlines of one quantity; see the module."""
  rows = leading(table, quantity.name).dropna(subset=['value'])
  for words, several, _ in level_groups(rows, quantity):
    yield Headline(task, quantity, words, several)
  own = table[(table['quantity'] == quantity.name) & (table.versus == '') & table['value'].notna()]
  if CLASS in own and own[CLASS].isna().any():
    own = own[own[CLASS].isna()]  # of other images each
  count = own[facets_of(own)].notna().sum(axis=1)
  own = own[count == count.min()]
  if rows.empty and quantity.better and len(own):
    bad = own.value if quantity.better == 'lower' else -own.value
    groups = bad.groupby(own.classifier, sort=False)
    extreme = 'largest' if quantity.better == 'lower' else 'smallest'
    choices = int(groups.size().max())
    words = f'{quantity.words}, {extreme} of {choices}'
    if choices == 1:
      places = {place_of(row, facets_of(own)) for _, row in own.iterrows()}
      words = f'{quantity.words} {places.pop()}' if len(places) == 1 else words
    alike = {str(label): len(sentences.alike(values)) for label, values in groups}
    yield Headline(task, quantity, words, own.loc[groups.idxmax()], choices, alike)


def worst(found: Sequence[Headline], label: str) -> list[tuple[Headline, pd.Series]]:
  """Returns in which task a classifier is wrong on the largest share, the worst first.

  Each task's largest error, or 1 − accuracy, with an interval is in, with the one that holds for
  all that were looked through. None is a worst of many, as by class, which is no error like the
  others; nothing is in where fewer than two tasks have one.
  """
  choices, by_task = 0, dict[str, tuple[float, Headline, pd.Series]]()
  for headline in found:
    quantity = headline.quantity
    of_answers = quantity.range == (0, 1) and _ERROR.search(quantity.words)
    rated = headline.choices == 1 and quantity.kind == SHARE and quantity.better and of_answers
    for row in headline.own() if rated else ():
      if row.classifier == label and not math.isnan(row.low):
        choices += 1
        bad = row.value if headline.quantity.better == 'lower' else 1 - row.value
        if bad > by_task.get(headline.task, (-1.0,))[0]:
          by_task[headline.task] = (bad, headline, row)
  ordered = sorted(by_task.values(), key=lambda entry: -entry[0]) if len(by_task) > 1 else []
  return [(headline, headline.widened(row, choices)) for _, headline, row in ordered]


def as_error(headline: Headline, row: pd.Series) -> tuple[str, pd.Series]:
  """Returns the name and the estimate of an error, of an accuracy those of 1 minus it."""
  if headline.quantity.better == 'lower':
    return headline.name, row
  ends = {'value': 1 - row.value, 'low': 1 - row.high, 'high': 1 - row.low}
  words = headline.words.replace('accuracy', 'error')
  return headline._replace(words=words).name, pd.Series({**row, **ends})


def place(headline: Headline, row: pd.Series) -> str:
  """Returns where the worst of many is, such as 'under fog at severity 5'; '' for no choice."""
  if headline.choices == 1:
    return ''
  return place_of_alike(row, facets_of(headline.rows), headline.alike.get(row.classifier, 1))


def labels_of(tasks: Mapping[str, Results]) -> list[str]:
  """Returns the classifiers in order; a task may lack those that it cannot measure."""
  return list(dict.fromkeys(label for of in tasks.values() for label in of.table.classifier))


def with_undefined(headline: Headline, table: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows of a headline, and of those over all of everything, with a note in place of a
  value, such as 'undefined', those of the other classifiers."""
  whole = leading(table, headline.quantity.name)
  if headline.choices > 1 or whole.empty or whole[facets_of(whole)].notna().any(axis=None):
    return headline.rows
  noted = whole['value'].isna() & (whole.versus == '') & (whole.note != '')
  return whole[whole['value'].notna() | noted]


class HeadlineText(NamedTuple):
  """A headline as text: name with unit; values and notes by classifier and `versus`."""

  name: str
  values: dict[tuple[str, str], str]
  notes: dict[tuple[str, str], str]


def cells(tasks: Mapping[str, Results]) -> list[HeadlineText]:
  """Returns the headlines as text. Above several tasks the largest error of each classifier is
  marked, see `worst`, with the interval for all that it was chosen from."""
  found, told = headlines(tasks), []
  marked = {} if '' in tasks else {label: worst(found, label)[:1] for label in labels_of(tasks)}
  for headline in found:
    unit = Notation(headline.quantity).unit
    line = HeadlineText(headline.name + (f' ({unit})' if unit else ''), {}, {})
    for _, row in with_undefined(headline, tasks[headline.task].table).iterrows():
      if math.isnan(row.value):
        line.values[row.classifier, row.versus] = row.note.partition(';')[0]
        continue
      notation = Notation(headline.quantity, difference=bool(row.versus))
      text, where = notation.bare(headline.widened(row, headline.choices)), place(headline, row)
      for of, widest in marked.get(row.classifier, ()) if not row.versus else ():
        text = f'worst: {notation.bare(widest)}' if of is headline else text
      line.values[row.classifier, row.versus] = text + (f' {where}' if where else '')
      if row.note:
        line.notes[row.classifier, row.versus] = row.note
    told.append(line)
  return told


def joined_notes(row: HeadlineText) -> str:
  """Returns each note of a headline behind the columns it is of, alone where it is of all."""
  columns: dict[str, list[str]] = {}
  for key, note in row.notes.items():
    columns.setdefault(note, []).append(column_name(*key))
  return '; '.join(
    note if len(of) == len(row.values) else f'{", ".join(of)}: {note}'
    for note, of in columns.items()
  )


def table(tasks: Mapping[str, Results]) -> Table:
  """Returns a row a headline; columns of classifiers, differences, and notes if there are some."""
  rows = cells(tasks)
  there = dict.fromkeys(key for row in rows for key in row.values)
  known = dict.fromkeys((label, '') for label in labels_of(tasks) if (label, '') in there)
  columns = sorted(known | there, key=lambda column: bool(column[1]))
  heads = [column_name(label, versus) for label, versus in columns]
  lines = [[row.name, *(row.values.get(k, '') for k in columns)] for row in rows]
  if any(row.notes for row in rows):
    heads = [*heads, 'note']
    lines = [[*line, joined_notes(row)] for line, row in zip(lines, rows, strict=True)]
  return Table(('', *heads), lines)


def draw(tasks: Mapping[str, Results]) -> dict[str, charts.Picture]:
  """Returns a picture of points for all headlines of one unit and direction."""
  kinds: dict[Quantity, list[pd.DataFrame]] = {}
  for headline in headlines(tasks):
    quantity = headline.quantity
    rated = f' ({quantity.better} is better)' if quantity.better else ''
    shown = Quantity('overview', f'value{rated}', quantity.kind, quantity.better, quantity.unit)
    rows = [headline.widened(row, headline.choices) for _, row in headline.rows.iterrows()]
    own = pd.DataFrame(rows)[[*SUBJECT, *ESTIMATE]].assign(headline=headline.name)
    kinds.setdefault(shown, []).append(own)
  figures: dict[str, charts.Picture] = {}
  for shown, of_kind in kinds.items():
    rows = pd.concat(of_kind, ignore_index=True)
    columns = charts.columns_of(rows, shown)
    names = list(dict.fromkeys(rows.headline))
    figure = forms.rows_of_points(names, columns, labels_of(tasks), 'headline')
    caption = (
      f'Headline quantities: {shown.words}{charts.sample(rows)}. Of a worst of many the interval '
      'is for all of them together.'
    )
    name = '_'.join(filter(None, (shown.name, shown.kind, shown.unit, shown.better)))
    figures[name.replace(' ', '_')] = figure, caption
  return figures


def findings(tasks: Mapping[str, Results], most: int) -> list[Finding]:
  """Returns in which tasks, of at most so many, each classifier is worst, with intervals for all
  that was tried; then what each task finds, behind its name."""
  found, told = headlines(tasks), []
  for label in labels_of(tasks):
    worst_of = worst(found, label)[:most]
    clauses = []
    for headline, row in worst_of:
      name, error = as_error(headline, row)
      clauses.append(f'{name} {Notation(headline.quantity).full(error)}')
    if clauses:
      text = f'Of all tasks {label} is worst in {"; then ".join(clauses)}.'
      told.append(Finding(text, pd.DataFrame([row for _, row in worst_of])))
  of_tasks = {task: sentences.findings(of) for task, of in tasks.items()}
  return told + [
    finding._replace(text=f'{task}: {finding.text}', task=task)
    for task, several in of_tasks.items()
    for finding in several
  ]
