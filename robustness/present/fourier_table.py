"""The tables of Yin et al. (2019), measured beside published: table 1 and 3, or table 4.

They are read from the task with the study `corruption_error`; its baseline is the naturally trained
classifier. Classifiers are matched by label: natural, gaussian, adversarial, low_pass, high_pass,
auto_augment and fog_noise; of one of another label nothing is published. What is printed are rows
of the table of results too, errors as measured ones are, with the facet `source`.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.registry import word
from robustness.core.typing import Facts
from robustness.estimates.means import Estimate, part, row
from robustness.estimates.published import TABLE_1, TABLE_3, TABLE_4, PublishedTable
from robustness.estimates.table import assemble, facets_of, select
from robustness.present import charts
from robustness.present.forms import NamedPoints, named_points
from robustness.present.notation import Notation, place_words
from robustness.results import Findings, Results, Summary, Table

STUDY, PUBLISHED = 'corruption_error', 'published'
TABLES = {'cifar': (TABLE_3, 'fourier_cifar'), 'imagenet': (TABLE_4, 'fourier_imagenet')}


@dataclasses.dataclass(frozen=True)
class FourierTable(Summary):
  """The section `config.battery.summary.fourier_table`.

  Attributes:
    data: 'cifar' (tables 1 and 3) or 'imagenet' (table 4).
    baseline: label of the classifier that mCE and changes are from; the first of the config.
  """

  title = 'Tables and figures of Yin et al. (2019)'
  data: str = word('cifar', TABLES)
  baseline: str = 'natural'

  @property
  def published_table(self) -> PublishedTable:
    """The table of the paper."""
    return TABLES[self.data][0]

  def check(self, labels: Sequence[str], studies: Mapping[str, Facts]) -> None:
    """Refuses a run whose mCE would have another baseline than the paper's, or none."""
    where = f'{self.section}.{self.name}.baseline'
    for name, study in studies.items():
      if study['name'] != STUDY:
        continue
      if self.baseline not in labels:
        raise InputError(
          f'{where} is {self.baseline!r}, by whose errors mCE divides, but config.classifiers '
          f'are {", ".join(labels)}: add it, or name one of these.'
        )
      divides_by = labels[0] if study['baseline'] == 'first' else study['baseline']
      if self.baseline != divides_by or study['baseline'] != 'first':
        raise InputError(
          f'{where} is {self.baseline!r}, but config.battery.{name} divides by {divides_by!r}: '
          "put it first in config.classifiers, with config.battery.<task>.study.baseline='first'."
        )

  def summarise(self, tasks: Mapping[str, Results]) -> Findings:
    """Returns what is printed as rows, and tables: measured beside printed, and for each classifier
    under which corruptions the printed change has the sign of the measured one."""
    results = _errors(tasks)
    if results is None:
      return Findings()
    printed = self.published(results)
    by_severity = printed.get('severity', pd.Series(np.nan, printed.index)).notna()
    tables = {
      self.published_table.name: _beside(results, printed[~by_severity]),
      **({'table 1': _beside(results, printed[by_severity])} if by_severity.any() else {}),
      'agreement': _agreement(self.changes(results)),
    }
    return Findings(tables=tables, estimates=[printed])

  def draw(self, tasks: Mapping[str, Results]) -> dict[str, charts.Picture]:
    """Returns {'agreement': (figure, caption)}: changes of the error, measured against printed."""
    results = _errors(tasks)
    both = self.changes(results) if results else pd.DataFrame()
    if both.empty:
      return {}
    panels = []
    for label, own in both.groupby('classifier', sort=False):
      y = own.set_index('corruption')
      panels.append(
        NamedPoints((str(label),), y.assign(value=y.printed, low=np.nan, high=np.nan), y)
      )
    caption = (
      f'Error minus that of {self.baseline} under each corruption, on {both.n.max():,} images with '
      f'paired intervals, against the same in {self.published_table.name} of Yin et al. (2019).'
    )
    x, y = 'published change of error (points)', 'measured change (points)'
    return {'agreement': (named_points(panels, x, y), caption)}

  def published(self, results: Results) -> pd.DataFrame:
    """Returns what is printed of the classifiers of results, with differences from the baseline."""
    table, declared = self.published_table, {q.name: q for q in results.quantities}

    def estimate(label: str, name: str, value: float, versus: str = '', **facets: Any) -> Any:
      n, places = table.images, {**facets, 'source': PUBLISHED}
      stated = Estimate(round(value, 4), np.nan, np.nan, n, n, '')
      return row(label, versus, declared[name], places, stated, np.nan)

    def rows() -> Iterator[Any]:
      for label in results.labels:
        for severity, accuracy in enumerate(TABLE_1.get(label, ()), 1):
          if self.data == 'cifar' and 'fog_noise' in results.labels:
            yield estimate(label, 'error', 1 - accuracy, corruption='fog', severity=severity)
        if label not in table.clean:
          continue
        yield estimate(label, 'clean_error', 1 - table.clean[label])
        for name, accuracy in table.corrupted[label].items():
          yield estimate(label, 'error', 1 - accuracy, corruption=name)
          if label != self.baseline and self.baseline in table.corrupted:
            change = table.corrupted[self.baseline][name] - accuracy
            yield estimate(label, 'error', change, self.baseline, corruption=name)
        mean = 1 - table.average[label]
        yield estimate(label, 'error', mean, corruption_set=TABLES[self.data][1])
        if label in table.mce and self.baseline == 'natural':  # by whose errors the paper divides
          yield estimate(label, 'mCE', table.mce[label], corruption_set=TABLES[self.data][1])

    return assemble([part(list(rows()))])

  def changes(self, results: Results) -> pd.DataFrame:
    """Returns the differences of errors from the baseline by corruption that are printed too: rows
    of the table of results with the column `printed`."""
    measured, stated = (
      select(table, 'error', self.baseline, corruption=..., **facets)
      for table, facets in ((results.table, {}), (self.published(results), {'source': PUBLISHED}))
    )
    keys = ['classifier', 'corruption']
    return measured.merge(stated[[*keys, 'value']].rename(columns={'value': 'printed'}), on=keys)


def _errors(tasks: Mapping[str, Results]) -> Results | None:
  """Returns the results of the task with errors by corruption, if it was run."""
  return next((results for results in tasks.values() if results.study == STUDY), None)


def _beside(results: Results, printed: pd.DataFrame) -> Table:
  """Returns a row for each estimate that is measured and printed, two columns a classifier."""
  facets = [name for name in facets_of(printed) if name != 'source']
  declared, rows = {q.name: q for q in results.quantities}, []
  own = printed[printed.versus == '']
  for (name, *values), several in own.groupby(['quantity', *facets], sort=False, dropna=False):
    given = {k: value for k, value in zip(facets, values, strict=True) if not pd.isna(value)}
    measured = select(results.table, name, **given).set_index('classifier')
    if measured.empty:
      continue
    notation, stated = Notation(declared[name]), several.set_index('classifier').value
    cells = []
    for label in results.labels:
      known = stated.get(label, np.nan)
      cells.append(notation.bare(measured.loc[label]) if label in measured.index else '')
      cells.append('' if np.isnan(known) else notation.number(known, 2 if notation.unit else 4))
    head = ' '.join([declared[name].words, place_words([*given], [*given.values()])]).rstrip()
    rows.append([f'{head} ({notation.unit})' if notation.unit else head, *cells])
  columns = [text for label in results.labels for text in (label, f'{label}, {PUBLISHED}')]
  return Table(('', *columns), rows)


def _agreement(both: pd.DataFrame) -> Table:
  """Returns for each classifier under which corruptions the change has the printed sign, if any."""
  rows = []
  for label, own in both.groupby('classifier', sort=False):
    shown, same = (own.low > 0) | (own.high < 0), (own.value > 0) == (own.printed > 0)
    kinds = shown & same, shown & ~same, ~shown
    rows.append([label, *(', '.join(own.corruption[kind]) or 'none' for kind in kinds)])
  return Table(('classifier', 'same sign as published', 'opposite sign', 'no sign shown'), rows)
