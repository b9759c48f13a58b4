"""What an estimate is of and what it is by, declared once for tables, figures and sentences."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from robustness.core.errors import InputError

Statistic = Callable[..., np.ndarray]
"""A pure function of recorded fields that returns the value of each row and view, [N, V]: booleans
of a share, floats of an amount. `evaluation.outcomes.Recorded` calls it with a shard of records,
`Outcomes.of` with the arguments that a study gives."""
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
  """What an estimate is of: a mean of a statistic, or a function of such means.

  Attributes:
    name: key in the column `quantity` of the table of results.
    words: the name in plain words, such as 'top-1 error'.
    kind: 'share' for a fraction of images in [0, 1], printed in percent; 'ratio' for a number
      relative to 1, such as mCE; 'count' for a whole number, such as a rank; 'amount' for any
      other, in `unit`.
    better: 'lower', 'higher', or '' where neither is better.
    unit: of an amount, such as 'frames'; '' for none.
    low, high: the least and the largest possible value; None is that of the kind.
    headline: whether it heads the findings of a study, and is drawn.
    drawn: whether it is drawn though it heads none.
    reference: the quantity that is drawn beside, such as that of clean images: its values by the
      same facets where it has some, else those over all.
    biased: whether chance on the same images adds to values what is alike in every training, so
      that seeds alone show no difference.
    by: facets by which it heads a report, those that a table lacks left out; () heads it by its
      value over everything.
    extreme: 'highest' or 'lowest', the end of many values that is told: of those beyond the
      reference, where that has values by the same facets; '' is the worse end.
    statistic: value of each row and view; None where another estimator than a mean is used, and in
      results that were read.
    function: of the means of the statistic by group of views; None is the mean itself. See
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
  statistic: Statistic | None = dataclasses.field(default=None, compare=False, repr=False)
  function: Function | None = dataclasses.field(default=None, compare=False, repr=False)

  def __post_init__(self) -> None:
    if self.extreme not in ('', 'highest', 'lowest'):
      raise InputError(
        f"Quantity {self.name!r} tells the end {self.extreme!r}: give 'highest', 'lowest' or ''."
      )
    if not self.name or self.kind not in RANGES or self.better not in ('lower', 'higher', ''):
      raise InputError(
        f'Quantity {self.name!r} is of the kind {self.kind!r}, of which {self.better!r} is better: '
        f"give a name, a kind of {', '.join(RANGES)}, and 'lower', 'higher' or ''."
      )

  @property
  def scale(self) -> float:
    """What values are multiplied by where they are written: 100 for shares, in percent."""
    return 100.0 if self.kind == SHARE else 1.0

  @property
  def end(self) -> str:
    """The end of many values that is told, 'highest' or 'lowest'; '' where neither is."""
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
class Wrong:
  """The statistic of top-k errors: whether the true class is not among the k best, bool [N, V]."""

  k: int = 1

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the values of rows with the field `rank`."""
    return np.asarray(fields['rank'] >= self.k)


@dataclasses.dataclass(frozen=True)
class Right:
  """The statistic of top-k accuracies: whether the true class is among the k best, bool [N, V]."""

  k: int = 1

  def __call__(self, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the values of rows with the field `rank`."""
    return np.asarray(fields['rank'] < self.k)


def errors_at(k: int) -> tuple[Quantity, Quantity]:
  """Returns the top-k errors on corrupted and on clean images."""
  if k == 1:
    return ERROR, CLEAN_ERROR
  clean = Quantity(
    f'clean_top{k}_error', f'top-{k} error on clean images', better='lower', statistic=Wrong(k)
  )
  error = Quantity(f'top{k}_error', f'top-{k} error', better='lower', reference=clean.name)
  return dataclasses.replace(error, statistic=Wrong(k)), clean


CLEAN_ERROR = Quantity(
  'clean_error', 'top-1 error on clean images', better='lower', statistic=Wrong()
)
ERROR = Quantity(
  'error',
  'top-1 error',
  better='lower',
  headline=True,
  reference=CLEAN_ERROR.name,
  statistic=Wrong(),
)
CLEAN_ACCURACY = Quantity(
  'clean_accuracy', 'top-1 accuracy on clean images', better='higher', statistic=Right()
)
ACCURACY = Quantity(
  'accuracy',
  'top-1 accuracy',
  better='higher',
  headline=True,
  reference=CLEAN_ACCURACY.name,
  statistic=Right(),
)


@dataclasses.dataclass(frozen=True)
class Facet:
  """What estimates are given by: a column of the table of results.

  Attributes:
    name: of the column.
    words: the name in plain words, such as 'bandwidth'.
    unit: of its values; '' for none.
    ordered: whether its values are numbers on an axis, such as severities, and not names.
    place: how a sentence says a value, such as 'under {}'; '' is 'at', of a name 'in', and `words`.
    words_of_many: the plural of the words, where it is not made by its ending.
  """

  name: str
  words: str
  unit: str = ''
  ordered: bool = False
  place: str = ''
  words_of_many: str = ''

  @property
  def plural(self) -> str:
    """The words for several values: 'corruptions', 'severities', 'classes'."""
    endings = ('y', 'ies'), ('ss', 'sses'), ('s', 's'), ('', 's')
    end, ends = next(pair for pair in endings if self.words.endswith(pair[0]))
    return self.words_of_many or f'{self.words.removesuffix(end)}{ends}'


_CYCLES = 'cycles per image'
FACETS = {
  facet.name: facet
  for facet in (
    Facet('corruption', 'corruption', place='under {}'),
    Facet('corruption_set', 'set of corruptions', '', False, 'over the {} corruptions', 'sets'),
    Facet('severity', 'severity', ordered=True),
    Facet('band', 'frequencies', '', False, 'in the {} band', 'bands'),
    Facet(
      'bandwidth',
      'bandwidth B, side of a square of frequencies',
      ordered=True,
      place='at B = {}',
      words_of_many='bandwidths',
    ),
    Facet('frequency_y', 'vertical frequency', _CYCLES, ordered=True),
    Facet(
      'frequency_x',
      'horizontal frequency',
      _CYCLES,
      ordered=True,
      place='and horizontal frequency {}',
    ),
    Facet('radius', 'frequency |f|', _CYCLES, True, 'at |f| = {}', 'values of |f|'),
    Facet('frequency', 'frequency along the diagonal', 'π', True, '', 'frequencies'),
    Facet('layer', 'layer'),
    Facet('attack', 'attack', place='under {}'),
    Facet('stage', 'attack, after those before it', '', False, 'after {}', 'attacks'),
    Facet('epsilon', 'radius ε', '', True, 'at ε = {}', 'radii'),
    Facet('queries', 'queries', '', True, 'after {} queries', 'numbers of queries'),
    Facet('frame', 'place in the sequence', '', True, '', 'places in the sequence'),
    Facet('offset', 'distance from the anchor', 'frames', True, '', 'distances'),
    Facet('k', 'k', 'frames', True, 'at k = {}', 'values of k'),
    Facet('area', 'area of the object', 'share of the image', True, '', 'areas'),
    Facet('x', 'horizontal place', 'share of the width', ordered=True),
    Facet('y', 'vertical place', 'share of the height from the top', ordered=True),
    Facet('angle', 'angle', 'degrees', ordered=True),
    Facet('distance', 'distance of the pixels, in [0, 1]', '', True, '', 'distances'),
    Facet('fps', 'frame rate', 'frames per second', place='at {} frames per second'),
    Facet(
      'without_frame_type',
      'type of frame left out',
      place='without frames of type {}',
      words_of_many='types of frame',
    ),
    Facet('environment', 'environment'),
    Facet('class_group', 'class group'),
    Facet('class', 'class', place='in class {}'),
    Facet('frames', 'frames before and after review', '', False, 'on {} frames', 'sets of frames'),
    Facet('kind', 'kind', place='in {}'),
    Facet('view', 'view', place='in view {}'),
    Facet('coverage', 'share of images answered', '', True, '', 'shares of images'),
    Facet('bin', 'bin of confidence', '', True, '', 'bins'),
    Facet('scaling', 'scaling', place='with {} scaling'),
    Facet('score', 'score', place='by {}'),
    Facet('ood_set', 'images of no known class', '', False, 'against {}', 'sets of images'),
    Facet('id_set', 'images of known classes', '', False, 'from {}', 'sets of images'),
    Facet('reference', 'reference sets', '', False, 'given {}', 'reference sets'),
    Facet('ranked_by', 'quantity', place='by {}'),
    Facet('task', 'task of the battery', '', False, 'in {}', 'tasks'),
    Facet('seed', 'seed', ordered=True),
  )
}
"""The facets that several studies have, by name."""


def facet(name: str, ordered: bool = False) -> Facet:
  """Returns a facet by name; one that is not in `FACETS` has its name as words."""
  return FACETS.get(name) or Facet(name, name.replace('_', ' '), ordered=ordered)
