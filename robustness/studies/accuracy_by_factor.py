"""Accuracy by facts about each image: pose, background, size, light, place, time, class.

The factors are columns of the rows, of words or of numbers, which the sources `file_list`,
`parquet`, `webdataset` and `array_record` take from the data set, the class, and measures of any
image. A number with many values is cut at quantiles. Every image counts once in each factor. Images
of one object, scene or site depend on one another: `clusters` names the column that says which
belong together, and intervals are then over clusters.

Reference for the ratio of errors: Idrissi et al. (2023), ImageNet-X: understanding model mistakes
with factor of variation annotations, section 3.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting
from robustness.core.rows import Batch, Rows, as_float32, with_column
from robustness.core.settings import choice, require
from robustness.estimates.means import part, row
from robustness.estimates.of_means import units
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, RATIO, Quantity, Wrong, declare_accuracy
from robustness.estimates.relative_error import relative_errors
from robustness.estimates.table import RESERVED
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.records import RecordsReader, is_of_views
from robustness.evaluation.study import Evaluation, Findings, ImageShape, Recipes, Study
from robustness.evaluation.views import Views, ViewTable, identity

CLASS = 'class'
Measure = Callable[..., np.ndarray]
MEASURED: Mapping[str, Measure] = {'brightness': np.mean, 'contrast': np.std}
"""Factors of the image itself: mean and standard deviation over pixels and channels, in [0, 1]."""
ALL = 'all images'
OVERALL = declare_accuracy('overall_accuracy', 'top-1 accuracy on all images')
BY_FACTOR = dataclasses.replace(ACCURACY, reference=OVERALL.name)
ERROR_RATIO = Quantity(
  'error_ratio',
  'top-1 error relative to that on all images',
  kind=RATIO,
  better='lower',
  statistic=Wrong(),
)


@dataclasses.dataclass(frozen=True)
class AccuracyByFactor(Study):
  """Settings.

  Attributes:
    factors: columns of the rows, 'class', 'brightness' or 'contrast'.
    pairs: whether accuracy is estimated for each pair of factors too.
    bins: number of bins of a factor with more values than that, with equal numbers of images; 0
      takes every value.
    clusters: the column in which equal values are one independent unit, such as an object; '' for
      images that are independent, as images without a value are.
    fewest: smallest number of images in a group; smaller groups are left out.
  """

  title: ClassVar[str] = 'Accuracy by factor'
  quantities = (dataclasses.replace(OVERALL, headline=True), BY_FACTOR, ERROR_RATIO)

  factors: tuple[str, ...] = setting((CLASS, 'brightness'), 'not empty', bool)
  pairs: bool = False
  bins: int = setting(5, '0, or at least 2', lambda x: x == 0 or x > 1)
  clusters: str = ''
  fewest: int = setting(10, 'at least 1', lambda x: x >= 1)
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require_no_repeats('factors')

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Refuses columns that the rows lack, and factors of fewer than two groups."""
    batch = next(rows.batches(1, [0], stored=True))
    columns = {name for name, x in batch.items() if isinstance(x, np.ndarray) and x.ndim == 1}
    columns -= {'label', 'mask', 'block', 'example_id', *filter(is_of_views, columns)}
    for key, names, valid in (
      ('factors', self.factors, {*MEASURED, CLASS, *columns}),
      ('clusters', (self.clusters,), {*columns, *set(MEASURED).intersection(self.factors)}),
    ):
      for name in filter(None, names):
        if key == 'factors' and name in RESERVED:
          raise InputError(
            f'{KEYS.study.factors} has {name!r}, the name of a column of the table of results: '
            f'rename that of the data ({", ".join(RESERVED)} are taken).'
          )
        choice(f'a column in {KEYS.study}.{key}', name, sorted(valid))
    if CLASS in self.factors and batch['label'].ndim > 1:
      raise InputError(f"{KEYS.study.factors} has 'class', but images have several labels each.")
    if any(name in MEASURED for name in self.factors):
      least = max(2, self.bins) * self.fewest
      enough = f'at least {least}, for groups of {KEYS.study.fewest} images'
      count = rows.num_examples
      require(count >= least, 'config.data.num_images', count, enough)
    values = rows.without_images()
    taken = {*MEASURED} & columns & {*self.factors}
    if CLASS in columns & {*self.factors}:
      of_label = self._levels(CLASS, values['label'], rows.class_names)
      taken |= set() if np.array_equal(values[CLASS].astype(str), of_label) else {CLASS}
    if taken:
      raise InputError(
        f'{KEYS.study.factors} has {min(taken)!r}, which is the label or measured in the image, '
        'and the data have a column so called: rename it.'
      )
    levels = {
      name: self._levels(name, values['label' if name == CLASS else name], rows.class_names)
      for name in self.factors
      if name not in MEASURED
    }
    for size in (1, 2) if self.pairs else (1,):
      for names in itertools.combinations(levels, size):
        self._groups(levels, names)

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the images as they are, with the columns that are measured in them."""
    measured = [name for name in MEASURED if name in self.factors]
    return dataclasses.replace(
      identity(), add_columns=(lambda rows: _measured(rows, measured)) if measured else None
    )

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns accuracy over all, by factor and by pairs of factors, with differences."""
    records = evaluations[0].records
    classes = records.identity.get('classes', ())
    columns = {
      name: self._levels(name, records.column('label' if name == CLASS else name), classes)
      for name in self.factors
    }
    recorded = Recorded(evaluations)
    right, wrong = (recorded.outcomes(quantity) for quantity in (OVERALL, ERROR_RATIO))
    if self.clusters:
      units = self.by_row(records, image_shape).units
      right = dataclasses.replace(right, clusters=units)
      wrong = dataclasses.replace(wrong, clusters=units)
    return Findings(estimates=list(self._estimates(right, wrong, columns)))

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """See `Study`; images of one cluster depend on one another."""
    table = super().by_row(records, image_shape)
    if not self.clusters:
      return table
    values = records.column(self.clusters)
    _, units = np.unique(values, return_inverse=True)
    alone = pd.isna(values) | (values == '')  # nobody says that they belong together
    units[alone] = len(units) + np.flatnonzero(alone)
    return dataclasses.replace(table, units=units)

  def _levels(self, name: str, values: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Returns the level of every image: words, None for '', or numbers, cut at quantiles if there
    are many; labels are words."""
    if name == CLASS:
      return np.asarray(classes)[values] if classes else values.astype(str)
    if values.dtype.kind not in 'iuf':
      words = values.astype(str).astype(object)
      words[words == ''] = None
      return words
    distinct, times = np.unique(values, return_counts=True)
    distinct, times = (x[~np.isnan(distinct)] for x in (distinct, times))
    if not self.bins or len(distinct) <= self.bins:
      return values.astype(float)
    present = np.isin(values, distinct)
    ends = np.unique(np.quantile(values[present], np.linspace(0, 1, self.bins + 1)))
    if len(ends) <= self.bins:  # a value that fills a bin is a group
      common = distinct[times * self.bins >= times.sum()].astype(float)
      ends = np.unique([*ends, *common, *np.nextafter(common, np.inf)])
    bin_of = np.clip(np.searchsorted(ends, values, side='right') - 1, 0, len(ends) - 2)
    bins = [present & (bin_of == number) for number in np.unique(bin_of[present])]
    medians = [np.median(values[is_in]) for is_in in bins]
    rounded = ([float(f'{median:.{digits}g}') for median in medians] for digits in range(4, 18))
    numbers = next(candidates for candidates in rounded if len({*candidates}) == len(bins))
    levels = np.full(len(values), np.nan)
    for is_in, number in zip(bins, numbers, strict=True):
      levels[is_in] = number
    return levels

  def _groups(
    self, columns: Mapping[str, np.ndarray], names: Sequence[str]
  ) -> dict[object, np.ndarray]:
    """Returns the images of each group that has enough of them; refuses fewer than two groups."""
    groups = pd.DataFrame({name: columns[name] for name in names}).groupby([*names]).indices
    large = {key: rows for key, rows in groups.items() if len(rows) >= self.fewest}
    if len(large) < 2:
      raise InputError(
        f'{" × ".join(names)} has {len(large)} groups of at least {self.fewest} images; accuracy '
        f'by it needs two: lower {KEYS.study.fewest}, change {KEYS.study.bins}, or leave the '
        'factor out.'
      )
    return large

  def _estimates(
    self, right: Outcomes, wrong: Outcomes, columns: dict[str, np.ndarray]
  ) -> Iterator[pd.DataFrame]:
    """Yields accuracies and ratios of errors over all, by factor and by pairs of factors."""
    yield self.means(OVERALL, right, test=True)
    for name in self.factors:
      yield self.means(BY_FACTOR, self._grouped(right, columns, (name,)), by=(name,), test=True)
      yield self._error_ratios(wrong, self._grouped(wrong, columns, (name,)), name)
    for pair in itertools.combinations(self.factors, 2) if self.pairs else ():
      yield self.means(BY_FACTOR, self._grouped(right, columns, pair), by=pair)

  def _grouped(
    self, outcomes: Outcomes, columns: dict[str, np.ndarray], names: tuple[str, ...]
  ) -> Outcomes:
    """Returns the outcomes with a view a group of images, in which its images alone count."""
    large = self._groups(columns, names)
    counted = np.zeros((len(columns[names[0]]), len(large)), bool)
    for place, rows in enumerate(large.values()):
      counted[rows, place] = True
    spread = {k: np.broadcast_to(v, counted.shape) for k, v in outcomes.values.items()}
    return dataclasses.replace(
      outcomes,
      values=spread,
      views=pd.DataFrame([*large], columns=[*names]),
      counted=dict.fromkeys(spread, counted),
    )

  def _error_ratios(self, outcomes: Outcomes, grouped: Outcomes, name: str) -> pd.DataFrame:
    """Returns the error of each group relative to that on all images, and its differences."""
    levels = grouped.views[name]
    assert grouped.counted is not None
    wrong = {k: np.concatenate([v, outcomes.values[k]], 1) for k, v in grouped.values.items()}
    everywhere = np.ones((len(outcomes.values[outcomes.labels[0]]), 1), bool)
    with_all = dataclasses.replace(
      grouped,
      values=wrong,
      views=pd.DataFrame({name: [*levels, ALL]}, dtype=object),
      counted={k: np.concatenate([v, everywhere], 1) for k, v in grouped.counted.items()},
    )
    groups, first = list(with_all.groups((name,))), with_all.labels[0]
    by_label = {label: units(with_all, label, groups) for label in with_all.labels}
    alone = [(label, '', [wrongs]) for label, wrongs in by_label.items()]
    pairs = [(k, first, [by_label[first], wrongs]) for k, wrongs in by_label.items() if k != first]
    return part(
      [
        row(label, versus, ERROR_RATIO, {name: level}, estimate, self.confidence)
        for label, versus, compared in (*alone, *pairs)
        for level, estimate in zip(levels, relative_errors(compared, self.confidence), strict=True)
      ]
    )


def _measured(rows: Rows, names: Sequence[str]) -> Rows:
  """Returns the rows with columns that are measured in their images."""
  for name in names:

    def column(batch: Batch, measure: Measure = MEASURED[name]) -> np.ndarray:
      return np.asarray(measure(as_float32(batch['image']), (1, 2, 3)), np.float32)

    rows = with_column(rows, name, column, {name: 'of the image'})
  return rows
