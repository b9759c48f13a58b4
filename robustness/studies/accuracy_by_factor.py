"""Accuracy by what is known of each image: pose, background, size, light, place, time, class.

The factors are columns of the rows, of words or of numbers, which the sources `file_list`,
`parquet`, `webdataset` and `array_record` take from the data set, beside the class and what can be
measured in any image. A number with many values is cut at quantiles. Every image counts once in
each factor. Images of one object, scene or site are alike: `clusters` names the column that says
which belong together, and intervals are then over these.

Reference for the ratio of errors: Idrissi et al. (2023), ImageNet-X: understanding model mistakes
with factor of variation annotations, section 3.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd

from robustness.core.errors import InputError, nearest
from robustness.core.registry import setting
from robustness.core.rows import Batch, Rows, as_float32, with_column
from robustness.estimates.of_means import of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, RATIO, Quantity
from robustness.evaluation.outcomes import Recorded, right
from robustness.evaluation.study import Evaluation, Findings, ImageShape, Recipes, Study
from robustness.evaluation.views import Views, identity

CLASS = 'class'
MEASURED = ('brightness', 'contrast')
"""Factors of the image itself: mean and standard deviation over pixels and channels, in [0, 1]."""
ALL = 'all images'
LEAST_LEVELS = 2
OVERALL = Quantity('overall_accuracy', 'top-1 accuracy on all images', better='higher')
BY_FACTOR = dataclasses.replace(ACCURACY, reference=OVERALL.name)
ERROR_RATIO = Quantity(
  'error_ratio', 'top-1 error relative to that on all images', kind=RATIO, better='lower'
)


@dataclasses.dataclass(frozen=True)
class AccuracyByFactor(Study):
  """Settings.

  Attributes:
    factors: columns of the rows, 'class', 'brightness' or 'contrast'.
    pairs: whether accuracy is given for each pair of factors too.
    bins: of a number with more values than that, in each of which are as many images; 0 takes every
      value.
    clusters: the column whose equal values are one independent unit, such as an object; '' for
      images that are independent.
    fewest: images that a group has at least; others are left out.
  """

  title: ClassVar[str] = 'Accuracy by factor'
  quantities = (dataclasses.replace(OVERALL, headline=True), BY_FACTOR, ERROR_RATIO)

  factors: tuple[str, ...] = (CLASS, 'brightness')
  pairs: bool = False
  bins: int = setting(5, '0, or at least 2', lambda x: x == 0 or x > 1)
  clusters: str = ''
  fewest: int = setting(10, 'at least 1', lambda x: x >= 1)
  confidence: float = 0.95
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    distinct = bool(self.factors) and len(set(self.factors)) == len(self.factors)
    self.require(distinct, 'factors', 'names of factors, each once')

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Refuses columns that the rows lack."""
    batch = next(rows.batches(1, [0], stored=True))
    known = {name for name, x in batch.items() if isinstance(x, np.ndarray) and x.ndim == 1}
    known = {*MEASURED, CLASS, *known} - {'label', 'mask', 'block', 'example_id'}
    for key, names in (('factors', self.factors), ('clusters', (self.clusters,))):
      for name in filter(None, names):
        if name not in known:
          raise InputError(
            f'config.study.{key} has {name!r}, which is no column of the data: '
            f'{nearest(name, sorted(known))}.'
          )
    if CLASS in self.factors and batch['label'].ndim > 1:
      raise InputError("config.study.factors has 'class', but images have several labels each.")

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the images as they are, with the columns that are measured in them."""
    measured = [name for name in MEASURED if name in self.factors]
    return dataclasses.replace(
      identity(), add_columns=(lambda rows: _measured(rows, measured)) if measured else None
    )

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns accuracy over all, by factor and by pairs of factors, with differences."""
    records = evaluations[0].records
    columns = {name: self._levels(name, evaluations[0]) for name in self.factors}
    recorded = Recorded(evaluations)
    outcomes = recorded.outcomes(right)
    if self.clusters:
      _, clusters = np.unique(records.column(self.clusters), return_inverse=True)
      outcomes = dataclasses.replace(outcomes, clusters=clusters)
    return Findings(estimates=list(self._estimates(outcomes, columns)))

  def _levels(self, name: str, evaluation: Evaluation) -> np.ndarray:
    """Returns the level of every image: words, or numbers, cut at quantiles if there are many."""
    if name == CLASS:
      names = evaluation.records.identity.get('classes', ())
      labels = evaluation.records.column('label')
      return np.asarray(names)[labels] if names else labels.astype(str)
    values = evaluation.records.column(name)
    if values.dtype.kind not in 'iuf':
      return values.astype(str)
    known = np.unique(values[~np.isnan(values)] if values.dtype.kind == 'f' else values)
    if not self.bins or len(known) <= self.bins:
      return values.astype(float)
    present = np.isin(values, known)
    ends = np.unique(np.quantile(values[present], np.linspace(0, 1, self.bins + 1)))
    bin_of = np.clip(np.searchsorted(ends, values, side='right') - 1, 0, len(ends) - 2)
    levels = np.full(len(values), np.nan)
    for number in np.unique(bin_of[present]):
      own = present & (bin_of == number)
      levels[own] = float(f'{np.median(values[own]):.4g}')
    return levels

  def _estimates(
    self, outcomes: Outcomes, columns: dict[str, np.ndarray]
  ) -> Iterator[pd.DataFrame]:
    yield self.means(OVERALL, outcomes, test=True)
    for name in self.factors:
      grouped = self._grouped(outcomes, columns, (name,))
      yield self.means(BY_FACTOR, grouped, by=(name,), test=True)
      yield self._error_ratios(outcomes, grouped, name)
    for pair in itertools.combinations(self.factors, 2) if self.pairs else ():
      yield self.means(BY_FACTOR, self._grouped(outcomes, columns, pair), by=pair)

  def _grouped(
    self, outcomes: Outcomes, columns: dict[str, np.ndarray], names: tuple[str, ...]
  ) -> Outcomes:
    """Returns the outcomes with a view a group of images, in which its images alone count.

    Raises:
      InputError: fewer than two groups have enough images.
    """
    table = pd.DataFrame({name: columns[name] for name in names})
    groups = table.groupby(list(names), sort=True).indices  # without missing values
    large = {key: rows for key, rows in groups.items() if len(rows) >= self.fewest}
    if len(large) < LEAST_LEVELS:
      raise InputError(
        f'{" × ".join(names)} has {len(large)} groups of at least {self.fewest} images; accuracy '
        'by it needs two: lower config.study.fewest, or leave the factor out.'
      )
    counted = np.zeros((len(table), len(large)), bool)
    for place, rows in enumerate(large.values()):
      counted[rows, place] = True
    spread = {k: np.broadcast_to(v, counted.shape) for k, v in outcomes.values.items()}
    return dataclasses.replace(
      outcomes,
      values=spread,
      views=pd.DataFrame([*large], columns=[*names]),
      shown=dict.fromkeys(spread, counted),
    )

  def _error_ratios(self, outcomes: Outcomes, grouped: Outcomes, name: str) -> pd.DataFrame:
    """Returns the error of each group relative to that on all images."""
    levels = grouped.views[name]
    assert grouped.shown is not None
    wrong = {k: ~np.concatenate([v, outcomes.values[k]], 1) for k, v in grouped.values.items()}
    everywhere = np.ones((len(outcomes.values[outcomes.labels[0]]), 1), bool)
    whole = dataclasses.replace(
      grouped,
      values=wrong,
      views=pd.DataFrame({name: [*levels, ALL]}, dtype=object),
      shown={k: np.concatenate([v, everywhere], 1) for k, v in grouped.shown.items()},
    )
    ratios = of_means(ERROR_RATIO, whole, _to_last, (name,), confidence=self.confidence, each=True)
    return ratios[ratios[name] != ALL].astype({name: levels.dtype})


def _to_last(errors: np.ndarray, _: np.ndarray) -> np.ndarray:
  """Returns errors by group [..., G] relative to the last; NaN where that is 0."""
  whole = errors[..., -1:]
  return errors / np.where(whole > 0, whole, np.nan)


def _measured(rows: Rows, names: Sequence[str]) -> Rows:
  """Returns the rows with columns that are measured in their images."""
  for name in names:
    rows = with_column(rows, name, functools.partial(_of_images, name), {name: 'of the image'})
  return rows


def _of_images(name: str, batch: Batch) -> np.ndarray:
  statistic = np.mean if name == 'brightness' else np.std
  return np.asarray(statistic(as_float32(batch['image']), (1, 2, 3)), np.float32)
