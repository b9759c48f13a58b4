"""The quantities that are estimated, declared once for tables, figures and sentences."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np

from robustness.core.errors import InputError
from robustness.estimates.facets import SHARED, Facet

Statistic = Callable[..., np.ndarray]
"""A pure function of recorded fields that returns the value of each row and view, [N, V]: booleans
of a share, floats of an amount. `evaluation.outcomes.Recorded` calls it with a shard of records,
`Outcomes.from_fields` with the arguments that a study passes."""
Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(means of a classifier [..., G], means of the baseline [..., G]) -> value [...] or [..., G]."""
SHARE, RATIO, AMOUNT, COUNT = 'share', 'ratio', 'amount', 'count'
_INFINITY = float('inf')
RANGES = {
  SHARE: (0.0, 1.0),
  RATIO: (0.0, _INFINITY),
  AMOUNT: (-_INFINITY, _INFINITY),
  COUNT: (0.0, _INFINITY),
}
"""The least and the largest value of each kind, where a quantity does not say otherwise."""


@dataclasses.dataclass(frozen=True)
class Quantity:
  """An estimated quantity: a mean of a statistic, or a function of such means.

  Attributes:
    name: key in the column `quantity` of the table of results.
    words: the name in plain words, such as 'top-1 error'.
    kind: 'share' for a fraction of images in [0, 1], printed in percent; 'ratio' for a number
      relative to 1, such as mCE; 'count' for a whole number, such as a rank; 'amount' for any
      other, in `unit`.
    better: 'lower', 'higher', or '' where neither is better.
    unit: unit of an amount, such as 'frames'; '' for none.
    low, high: the least and the largest possible value; None takes the range of the kind.
    headline: whether findings state it first and figures show it.
    drawn: whether figures show it although it is no headline.
    reference: the quantity that figures draw for comparison, such as the error on clean images: by
      the same facets where it has such values, else over all.
    biased: whether chance on the same images adds a bias that is equal in every training, so that
      seeds alone show no difference.
    by: the facets by which the finding at the top of a report divides it, except facets that a
      table lacks; () for the value over everything.
    extreme: the extreme that sentences name if there are many values, 'highest', 'lowest', or ''
      for the worse one; among the values beyond the reference if it has values by the same facets.
    facets: the study's declarations of facets, which put them into words; see
      `robustness.evaluation.study.Study`.
    statistic: function that returns the value of each row and view; None where another estimator
      than a mean is used, and in results that were read.
    function: function of the means of the statistic by group of views; None is the mean itself. See
      `robustness.estimates.of_means`.
  """

  name: str
  words: str
  kind: str = SHARE
  better: str = ''
  unit: str = ''
  low: float | None = None
  high: float | None = None
  headline: bool = False
  drawn: bool = False
  reference: str = ''
  biased: bool = False
  by: tuple[str, ...] = ()
  extreme: str = ''
  facets: tuple[Facet, ...] = dataclasses.field(default=(), compare=False, repr=False)
  statistic: Statistic | None = dataclasses.field(default=None, compare=False, repr=False)
  function: Function | None = dataclasses.field(default=None, compare=False, repr=False)

  def __post_init__(self) -> None:
    if self.extreme not in ('', 'highest', 'lowest'):
      raise InputError(
        f"Quantity {self.name!r} names the end {self.extreme!r}: give 'highest', 'lowest' or ''."
      )
    if not self.name or self.kind not in RANGES or self.better not in ('lower', 'higher', ''):
      raise InputError(
        f'Quantity {self.name!r} is of the kind {self.kind!r}, of which {self.better!r} is better: '
        f"give a name, a kind of {', '.join(RANGES)}, and 'lower', 'higher' or ''."
      )

  def facet(self, name: str) -> Facet:
    """Returns the facet of a name: as declared, a shared one, or one with its name as words."""
    declared = {**SHARED, **{facet.name: facet for facet in self.facets}}
    return declared.get(name) or Facet(name, name.replace('_', ' '), ordered=True)

  @property
  def scale(self) -> float:
    """The factor of values where they are written: 100 for shares, in percent."""
    return 100.0 if self.kind == SHARE else 1.0

  @property
  def end(self) -> str:
    """The end of many values that sentences name, 'highest' or 'lowest'; '' where neither."""
    return self.extreme or {'lower': 'highest', 'higher': 'lowest'}.get(self.better, '')

  @property
  def range(self) -> tuple[float, float]:
    """The least and the largest possible value."""
    low, high = RANGES[self.kind]
    return low if self.low is None else self.low, high if self.high is None else self.high

  @property
  def difference_range(self) -> tuple[float, float]:
    """The least and the largest possible difference of two values."""
    low, high = self.range
    return low - high, high - low


@dataclasses.dataclass(frozen=True)
class Right:
  """The statistic of top-k accuracies: whether the true class is among the k best, bool [N, V]."""

  k: int = 1

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the values of rows with the field `rank`."""
    return np.asarray(fields['rank'] < self.k)


class Wrong(Right):
  """The statistic of top-k errors: whether the true class is not among the k best, bool [N, V]."""

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the values of rows with the field `rank`."""
    return ~super().__call__(fields)


declare_error = functools.partial(Quantity, better='lower', statistic=Wrong())
"""Returns a quantity that is a top-1 error, given its name and words."""
declare_accuracy = functools.partial(Quantity, better='higher', statistic=Right())
"""Returns a quantity that is a top-1 accuracy, given its name and words."""
CLEAN_ERROR = declare_error('clean_error', 'top-1 error on clean images')
ERROR = declare_error('error', 'top-1 error', headline=True, reference=CLEAN_ERROR.name)
CLEAN_ACCURACY = declare_accuracy('clean_accuracy', 'top-1 accuracy on clean images')
ACCURACY = declare_accuracy(
  'accuracy', 'top-1 accuracy', headline=True, reference=CLEAN_ACCURACY.name
)


def errors_at(k: int) -> tuple[Quantity, Quantity]:
  """Returns the top-k errors on corrupted and on clean images."""
  if k == 1:
    return ERROR, CLEAN_ERROR
  clean = declare_error(f'clean_top{k}_error', f'top-{k} error on clean images', statistic=Wrong(k))
  name, words = f'top{k}_error', f'top-{k} error'
  return declare_error(name, words, reference=clean.name, statistic=Wrong(k)), clean
