"""Quantities: what is estimated, declared once for tables, figures and sentences."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np

from robustness.core.settings import choice, require
from robustness.estimates.facets import SHARED, Facet

Statistic = Callable[..., np.ndarray]
"""A pure function that returns a value for each row and view, [N, V]: booleans for a share, floats
for an amount. `evaluation.outcomes.Recorded` calls it with the records of some rows,
`Outcomes.from_fields` with the arguments that a study passes.
"""
Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""A function of a classifier's and the baseline's means over G groups of views, [..., G] each, that
returns one value [...] or a value for each group [..., G].
"""
SHARE, RATIO, AMOUNT, COUNT = 'share', 'ratio', 'amount', 'count'
"""The kinds of quantities, see `Quantity`."""
_INFINITY = float('inf')
RANGES = {
  SHARE: (0.0, 1.0),
  RATIO: (0.0, _INFINITY),
  AMOUNT: (-_INFINITY, _INFINITY),
  COUNT: (0.0, _INFINITY),
}
"""The smallest and largest value of each kind, unless a quantity declares others."""


@dataclasses.dataclass(frozen=True)
class Quantity:
  """A quantity that is estimated, such as the top-1 error, with its name in reports and its range.

  Attributes:
    name: value of the column `quantity` in the table of results, such as 'error'.
    words: the name in reports and figures, such as 'top-1 error'.
    kind: 'share', a fraction in [0, 1] that is printed in percent; 'ratio', a number compared with
      1, such as mCE; 'count', a whole number, such as a rank; or 'amount', any other number.
    better: 'lower', 'higher', or '' if neither is better.
    unit: unit of an amount, such as 'frames'. '%' prints a ratio or an amount in percent, as papers
      print mCE. '' for none.
    low, high: the smallest and largest possible value; None takes the range of the kind.
    headline: whether reports state the quantity first; figures show it too.
    drawn: whether figures show the quantity although reports do not state it first.
    reference: name of another quantity that figures draw for comparison, such as the error on clean
      images; '' for none. Figures draw its values by the same facets if there are any, else its
      value over all conditions.
    biased: whether the choice of test images biases the estimate, as in calibration errors.
      Trainings with other seeds share this bias. Their spread alone then does not show whether two
      classifiers differ.
    by: names of facets (columns of the table), such as ('corruption',). Reports first state the
      quantity for each of their values; () states its value over all conditions. Facets that a
      table lacks are ignored.
    extreme: 'highest' or 'lowest', the extreme of many values that a sentence names; '' names the
      worst. If the reference quantity has values by the same facets, they are subtracted before the
      comparison.
    facets: declarations of the columns that group the estimates, such as `severity`.
    statistic: function that returns the value of each image and view, [N, V]. The quantity is a
      mean of these values. None if it is no mean, and in results that were read from a file.
    function: function of the means of the statistic over groups of views, such as the ratio to a
      baseline (`robustness.estimates.of_means`); None takes the mean itself.
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
    """Raises InputError if the declaration of a quantity, such as the error, is not valid.

    It must have a name. `kind` decides on its range, `better` says whether lower or higher values
    are better, and `extreme` which of several values a report states.
    """
    subject = f'of the quantity {self.name!r}'
    require(bool(self.name), 'name of a quantity', self.name, 'not empty')
    choice(f'kind {subject}', self.kind, RANGES)
    choice(f'better {subject}', self.better, ('lower', 'higher', ''))
    choice(f'extreme {subject}', self.extreme, ('highest', 'lowest', ''))

  def facet(self, name: str) -> Facet:
    """Returns the declaration of the table's column `name`.

    It comes from `facets`, else from the columns that many studies share (`facets.SHARED`). Any
    other name becomes an ordered column, and is printed with spaces in place of '_'.
    """
    declared = {**SHARED, **{facet.name: facet for facet in self.facets}}
    return declared.get(name) or Facet(name, name.replace('_', ' '), ordered=True)

  @property
  def scale(self) -> float:
    """The factor of printed values: 100 if they are in percent, otherwise 1."""
    return 100.0 if self.kind == SHARE or self.unit == '%' else 1.0

  @property
  def named_extreme(self) -> str:
    """The extreme that reports name among many values, 'highest' or 'lowest'.

    Unless `extreme` is set, it is the worst value, for instance 'highest' for errors. It is '' if
    neither direction is better.
    """
    return self.extreme or {'lower': 'highest', 'higher': 'lowest'}.get(self.better, '')

  @property
  def range(self) -> tuple[float, float]:
    """The smallest and largest possible value."""
    low, high = RANGES[self.kind]
    return low if self.low is None else self.low, high if self.high is None else self.high

  @property
  def difference_range(self) -> tuple[float, float]:
    """The smallest and largest possible difference of two values."""
    low, high = self.range
    return low - high, high - low


@dataclasses.dataclass(frozen=True)
class Right:
  """Computes whether each prediction is right: the true class is among the k largest logits.

  The mean over images is the top-k accuracy.

  Attributes:
    k: the number of classes; 1 for top-1.
  """

  k: int = 1

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns whether the true class is among the k largest logits, bool [N, V].

    Args:
      fields: {'rank': rank of the true class for N images in V views, int [N, V]}. The largest
        logit has the rank 0.
    """
    return np.asarray(fields['rank'] < self.k)


class Wrong(Right):
  """Computes whether each prediction is wrong: the true class is not among the k largest logits.

  The mean over images is the top-k error.

  Attributes:
    k: the number of classes; 1 for top-1.
  """

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns whether the true class is not among the k largest logits, bool [N, V].

    Args:
      fields: {'rank': rank of the true class for N images in V views, int [N, V]}. The largest
        logit has the rank 0.
    """
    return ~super().__call__(fields)


declare_error = functools.partial(Quantity, better='lower', statistic=Wrong())
"""Returns a quantity that is a mean of top-1 errors, given its name and words."""
declare_accuracy = functools.partial(Quantity, better='higher', statistic=Right())
"""Returns a quantity that is a mean of top-1 accuracies, given its name and words."""
declare_amount = functools.partial(Quantity, kind=AMOUNT, low=0)
"""Returns a quantity that is an amount of at least 0, given its name and words."""
CLEAN_ERROR = declare_error('clean_error', 'top-1 error on clean images')
ERROR = declare_error('error', 'top-1 error', headline=True, reference=CLEAN_ERROR.name)
CLEAN_ACCURACY = declare_accuracy('clean_accuracy', 'top-1 accuracy on clean images')
ACCURACY = declare_accuracy(
  'accuracy', 'top-1 accuracy', headline=True, reference=CLEAN_ACCURACY.name
)


def errors_at(k: int) -> tuple[Quantity, Quantity]:
  """Returns the quantities top-k error under corruptions and top-k error on clean images.

  Figures draw the second for comparison with the first (`Quantity.reference`).
  """
  if k == 1:
    return ERROR, CLEAN_ERROR
  clean = declare_error(f'clean_top{k}_error', f'top-{k} error on clean images', statistic=Wrong(k))
  name, words = f'top{k}_error', f'top-{k} error'
  return declare_error(name, words, reference=clean.name, statistic=Wrong(k)), clean
