"""Error under the corruption that a training left out (Yin et al. 2019, table 3, last column).

Of every corruption and severity there is a network that was trained on all other corruptions at
that severity. The networks are one classifier here, `all_but_one`: under a corruption at a severity
it answers as the network that left this corruption out does.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import pandas as pd

from robustness.augment.corruption import Corruption
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.typing import Facts
from robustness.corruptions.stored import GENERATED, StoredOrMade
from robustness.estimates.means import Estimate, part, row
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.published import ALL_BUT_ONE, TABLE_3
from robustness.estimates.quantity import CLEAN_ERROR, ERROR
from robustness.evaluation.outcomes import Recorded, wrong
from robustness.evaluation.study import Recipes

COMPOSED, PUBLISHED = 'all_but_one', 'Yin et al. (2019)'
Cell = tuple[str, int]
"""The corruption that a training left out, and its severity."""


@dataclasses.dataclass(frozen=True)
class AllButOne(StoredOrMade):
  """Settings are those of `StoredOrMade`; each network is trained with the part `corruption`, one
  of whose corruptions is left out, at one severity.

  A corruption has a mean where the networks of all its five severities are there. The error on
  clean images is the mean over the networks. The published column is beside where it has one.
  """

  title: ClassVar[str] = 'Error under the corruption that training left out'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier',)
  lists_failures: ClassVar[bool] = False
  quantities = (ERROR, CLEAN_ERROR)

  source: str = GENERATED

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """See `StoredOrMade`; refuses a network that leaves no corruption, or several, out."""
    super().check(rows, recipes)
    self._cells(recipes)

  def _cells(self, classifiers: Mapping[str, Facts]) -> dict[Cell, str]:
    """Returns the network of each corruption and severity."""
    cells: dict[Cell, str] = {}
    for label, facts in classifiers.items():
      policy = facts.get('augment') or ()
      drawn = [own for own in policy if own['name'] == Corruption.name] or [{}]
      left_out, severities = drawn[0].get('left_out', ()), drawn[0].get('severities', ())
      where = f'the classifier {label}'
      if len(drawn) > 1 or len(left_out) != 1 or len(severities) != 1:
        raise InputError(
          f'{where} leaves out the corruptions {tuple(left_out)} at the severities '
          f'{tuple(severities)}: train it with the part corruption once, with one corruption in '
          'left_out and one severity.'
        )
      cell = left_out[0], int(severities[0])
      if cell[0] not in self.names or cell[1] not in self.severities:
        raise InputError(
          f'{where} leaves out {cell[0]} at severity {cell[1]}, which is not shown: add them to '
          'config.study.corruptions and config.study.severities.'
        )
      if cell in cells:
        raise InputError(
          f'{where} leaves out {cell[0]} at severity {cell[1]}, as {cells[cell]} does: take one.'
        )
      cells[cell] = label
    return cells

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields errors by corruption and severity, by corruption and on clean images; and published
    ones."""
    facts = {e.label: e.records.identity.get('classifier') or {} for e in recorded.evaluations}
    cells, views = self._cells(facts), recorded.views
    errors = recorded.outcomes(wrong).values
    shown = list(zip(views.corruption, views.severity, strict=True))
    clean = np.flatnonzero(views.corruption.isna())
    table = pd.DataFrame(list(cells), columns=['corruption', 'severity'])

    own = np.stack([errors[label][:, shown.index(cell)] for cell, label in cells.items()], 1)
    outcomes = Outcomes({COMPOSED: own}, table)
    yield self.means(ERROR, outcomes, ('corruption', 'severity'))
    whole = table.groupby('corruption').severity.transform('size') == len(self.severities)
    yield self.means(ERROR, outcomes, ('corruption',), where=whole.to_numpy())
    if len(clean):
      of_clean = np.concatenate([errors[label][:, clean] for label in cells.values()], 1)
      yield self.means(CLEAN_ERROR, Outcomes({COMPOSED: of_clean}, table))
    yield self._published(set(table.corruption))

  def _published(self, corruptions: set[str]) -> pd.DataFrame:
    """Returns the column of table 3, without intervals."""
    rows = []
    for name, accuracy in ALL_BUT_ONE.items():
      quantity = CLEAN_ERROR if name == 'clean' else ERROR
      facets = {} if name == 'clean' else {'corruption': name}
      if name == 'clean' or name in corruptions:
        stated = Estimate(
          round(1 - accuracy, 4), np.nan, np.nan, TABLE_3.images, TABLE_3.images, ''
        )
        rows.append(row(PUBLISHED, '', quantity, facets, stated, np.nan))
    return part(rows)
