"""Accuracy by properties of each image: pose, background, size, light, place, time, class.

A factor is such a property: a column of the rows with words or numbers (from the sources
`file_list`, `parquet`, `webdataset` and `array_record`), the class, or a measure of the pixels.
Numbers with many values are divided at quantiles. Every image counts once in each factor. Images of
one object, scene or site are not independent: the setting `clusters` names the column that says
which belong together, and intervals are then over clusters.

If images are versions of pictures (`base_id`) at several strengths of a shift, such as CNS-Bench's,
each picture also has a loss of accuracy at each strength and a failure point, the least strength at
which the classifier is wrong.

Reference for the ratio of errors: Idrissi et al. (2023), ImageNet-X: understanding model mistakes
with factor of variation annotations, section 3.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError, for_caller
from robustness.core.registry import are_distinct_and_some, setting
from robustness.core.rows import Batch, Rows, as_float32, with_column
from robustness.core.settings import choice, require
from robustness.estimates.means import Measured, pairs_of, share_difference
from robustness.estimates.of_means import units_of_classifier
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import ACCURACY, Quantity, declare_accuracy, declare_error
from robustness.estimates.relative_error import relative_errors
from robustness.estimates.table import RESERVED
from robustness.evaluation.outcomes import BASE, Recorded
from robustness.evaluation.records import RecordsReader, is_per_view
from robustness.evaluation.study import Evaluation, Findings, ImageShape, Recipes, Study
from robustness.evaluation.views import Views, ViewTable, stored_view

CLASS = 'class'
Measure = Callable[..., np.ndarray]
"""A function from images [B, H, W, C] and the axes to reduce to a value for each image, [B]."""
MEASURED: Mapping[str, Measure] = {'brightness': np.mean, 'contrast': np.std}
"""Factors that are computed from pixels: mean and standard deviation over pixels and channels, in
[0, 1].
"""
Levels = Mapping[str, np.ndarray]
"""{factor: level of each image, [N]}, such as {'class': ['cat', 'dog', 'cat']}."""
OVERALL = declare_accuracy('overall_accuracy', 'top-1 accuracy on all images')
BY_FACTOR = dataclasses.replace(ACCURACY, reference=OVERALL.name)
ERROR_RATIO = declare_error('error_ratio', 'top-1 error relative to that on all images', 'ratio')
DROP = declare_accuracy(
  'accuracy_drop', 'loss of top-1 accuracy', better='lower', low=-1.0, statistic=np.asarray
)
FAILURE_POINT = Quantity(
  'failure_point', 'mean failure point', 'amount', 'higher', headline=True, statistic=np.asarray
)


@dataclasses.dataclass(frozen=True)
class AccuracyByFactor(Study):
  """A study of accuracy by properties of images, called factors, such as class or brightness.

  Attributes:
    factors: names of columns of the data. 'class', 'brightness' and 'contrast' are computed and
      need no column.
    pairs: whether accuracy is also estimated for each pair of factors.
    bins: A numeric factor with more distinct values than this is divided into this number of bins,
      with about equally many images each. 0 never bins.
    clusters: column that says which images belong together, such as 'object'. Confidence intervals
      then resample clusters, not images. Images without a value are clusters of one, and '' treats
      all images as independent.
    fewest: groups with fewer images are left out.
    strength: one of `factors`, the strength of a distribution shift, NaN for images without one.
      Images with the same `base_id` must be versions of a picture at several strengths. The study
      then also reports the drop of accuracy from the least strength, and the failure point: the
      least strength at which a picture is misclassified. '' reports neither.
  """

  title = 'Accuracy by factor'

  factors: tuple[str, ...] = setting(
    (CLASS, 'brightness'), 'not empty, distinct', are_distinct_and_some
  )
  pairs: bool = False
  bins: int = setting(5, '0, or at least 2', lambda x: x == 0 or x > 1)
  clusters: str = ''
  fewest: int = setting(10, 'at least 1', lambda x: x >= 1)
  strength: str = ''
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    """Raises InputError for settings of this study of accuracy by factor that do not fit together.

    Factors are properties of images, such as the class. `pairs` adds accuracy by two factors at
    once, and needs two. `strength` is one of the factors, or ''.
    """
    super().__post_init__()
    self.require(len(self.factors) > 1 or not self.pairs, 'pairs', 'False for a single factor')
    if self.strength:
      choice(self.key('strength'), self.strength, self.factors)

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported quantities: accuracies, error ratio and, with `strength`, two more.

    These are the drop of accuracy and the failure point.
    """
    quantities = (dataclasses.replace(OVERALL, headline=True), BY_FACTOR, ERROR_RATIO)
    return (*quantities, DROP, FAILURE_POINT) if self.strength else quantities

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if the data do not suit the settings, before anything is evaluated.

    The columns that `factors`, `clusters` and `strength` name must exist. Each factor needs at
    least two values with `fewest` images each. `_check_ambiguous` and `_check_strength` raise
    further errors.
    """
    batch = next(rows.batches(1, [0], stored=True))
    # Columns with one value for each image, without those of all data sets, and without names that
    # records have for predictions, such as 'rank'.
    columns = {name for name, x in batch.items() if isinstance(x, np.ndarray) and x.ndim == 1}
    columns -= {'label', 'mask', 'block', 'example_id', *filter(is_per_view, columns)}
    self._check_columns(columns, has_several_labels=batch['label'].ndim > 1)
    if any(name in MEASURED for name in self.factors):
      fewest = max(2, self.bins) * self.fewest
      valid = f'at least {fewest}, for groups of {KEYS.study.fewest} images'
      name = for_caller('config.data.num_images', 'the number of images')
      require(rows.num_examples >= fewest, name, rows.num_examples, valid)
    values = rows.without_images()
    levels = {}
    for name in self.factors:
      if name not in MEASURED:
        column = 'label' if name == CLASS else name
        levels[name] = self._levels(name, values[column], rows.class_names)
    self._check_ambiguous(columns, values, levels)
    most_factors = 2 if self.pairs else 1
    for num_factors in range(1, most_factors + 1):
      for names in itertools.combinations(levels, num_factors):
        self._groups(levels, names)  # raises InputError for fewer than two groups
    if self.strength:
      self._check_strength(values, levels)

  def _check_ambiguous(
    self, columns: set[str], values: Mapping[str, np.ndarray], levels: Levels
  ) -> None:
    """Raises InputError if a column has the name of a computed factor but other values.

    The class is computed from the label; 'brightness' and 'contrast' are computed from pixels.

    Args:
      columns: names of the columns with one value per image.
      values: {column: its value for each image, [N]}.
      levels: {factor: its value or bin for each image, [N]}, without factors of pixels.
    """
    ambiguous = {*MEASURED} & columns & {*self.factors}
    has_class_column = CLASS in columns and CLASS in levels
    if has_class_column and not np.array_equal(values[CLASS].astype(str), levels[CLASS]):
      ambiguous.add(CLASS)
    if ambiguous:
      raise InputError(
        f'{KEYS.study.factors} has {min(ambiguous)!r}, which is the label or measured in the '
        'image, and the data have a column so called: rename it.'
      )

  def _check_strength(self, values: Mapping[str, np.ndarray], levels: Levels) -> None:
    """Raises InputError unless the data have versions of pictures at several strengths.

    The column `strength` must be numeric, and `base_id` must say which picture an image is a
    version of. A picture has at most one image for each strength and combination of other factors.

    Args:
      values: {column: its value for each image, [N]}.
      levels: {factor: its value or bin for each image, [N]}, without factors of pixels.
    """
    strengths = values.get(self.strength)  # None for a factor of pixels
    if BASE not in values or strengths is None or strengths.dtype.kind not in 'iuf':
      raise InputError(
        f'{KEYS.study.strength} is {self.strength!r}, which needs numbers and a column {BASE}, the '
        'picture that an image is a version of: leave it empty.'
      )
    versions = pd.DataFrame({BASE: values[BASE], **levels, self.strength: strengths})
    versions = versions[np.isfinite(strengths)]
    repeated = versions[versions.duplicated()]
    if len(repeated):
      base, strength = repeated.iloc[0][[BASE, self.strength]]
      problem = f'and picture {base:g} has several images of strength {strength:g}'
      fix = f'Add the column in which they differ to {KEYS.study.factors}, or leave it empty.'
      raise self.refused('strength', problem, fix)

  def _check_columns(self, columns: set[str], has_several_labels: bool) -> None:
    """Raises InputError if `factors` or `clusters` name columns that cannot be used.

    The columns must exist. A factor may not be named like a column of the table of results. The
    factor 'class' needs images with a single label.

    Args:
      columns: names of the columns with one value per image.
      has_several_labels: whether images have several labels each.
    """
    for name in self.factors:
      if name in RESERVED:
        raise InputError(
          f'{KEYS.study.factors} has {name!r}, the name of a column of the table of results: '
          f'rename that of the data ({", ".join(RESERVED)} are taken).'
        )
      choice(f'a column in {KEYS.study.factors}', name, sorted({*MEASURED, CLASS, *columns}))
    if self.clusters:
      valid = sorted({*columns, *set(MEASURED).intersection(self.factors)})
      choice(f'a column in {KEYS.study.clusters}', self.clusters, valid)
    if CLASS in self.factors and has_several_labels:
      raise InputError(f"{KEYS.study.factors} has 'class', but images have several labels each.")

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the only way in which images are shown: unchanged.

    'brightness' and 'contrast' are added to the data as columns if they are in `factors`.
    """
    measured = [name for name in MEASURED if name in self.factors]
    add_columns = (lambda rows: _with_measured_columns(rows, measured)) if measured else None
    return dataclasses.replace(stored_view(), add_columns=add_columns)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns accuracy over all images, by factor and by pairs of factors.

    Differences between classifiers are paired. If the setting `strength` names a column, such as
    the strength of a shift, the results also have the drop of accuracy from its lowest value, and
    the failure point, which is the lowest value at which an image is misclassified.

    Args:
      evaluations: for each classifier, its predictions for N images and the columns of the data.
      image_shape: height, width and channels of the images.
    """
    records, recorded = evaluations[0].records, Recorded(evaluations)
    classes = records.identity.get('classes', ())
    columns = {*self.factors, self.clusters, self.strength}
    if self.strength:
      columns.add(BASE)
    # Raises if the columns differ between classifiers. Factors that are computed are no columns,
    # and '' is from a setting that names none.
    recorded.require_equal_columns(sorted(columns - {CLASS, *MEASURED, ''}))
    levels = {}  # {factor: level of each image, [N]}
    for name in self.factors:
      column = 'label' if name == CLASS else name
      levels[name] = self._levels(name, records.column(column), classes)
    # Whether each classifier is right, and whether it is wrong, on each image, [N, 1].
    right, wrong = recorded.outcomes(OVERALL), recorded.outcomes(ERROR_RATIO)
    if self.clusters:
      clusters = self.by_row(records, image_shape).units
      right = dataclasses.replace(right, clusters=clusters)
      wrong = dataclasses.replace(wrong, clusters=clusters)
    estimates = list(self._estimates(right, wrong, levels))
    if self.strength:
      strength = records.column(self.strength).astype(float)
      levels[self.strength] = strength  # without bins
      has_strength = np.isfinite(strength)
      levels = {name: of_images[has_strength] for name, of_images in levels.items()}
      bases = records.column(BASE)[has_strength]
      estimates += self._by_strength(right.of_rows(has_strength), levels, bases)
    return Findings(estimates=estimates)

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """Returns a table of the study's only view, with the cluster of each image as `units`.

    Confidence intervals resample clusters. Images with the same value in the column that the
    setting `clusters` names are one cluster, and an image without a value is one by itself.
    """
    table = super().by_row(records, image_shape)
    if not self.clusters:
      return table
    values = records.column(self.clusters)
    _, numbers = np.unique(values, return_inverse=True)  # the number of each image's value, [N]
    is_missing = pd.isna(values) | (values == '')
    # Each image without a value gets a number that no other image has.
    numbers[is_missing] = len(numbers) + np.flatnonzero(is_missing)
    return dataclasses.replace(table, units=numbers)

  def _levels(self, name: str, values: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Returns the value or bin of a factor for each image, [N]; None or NaN if missing.

    Words are kept, and '' is missing. Numbers are kept if there are at most `self.bins` distinct
    ones. Otherwise they are binned by quantiles and replaced by the rounded median of their bin.
    NaN and infinity are missing. Integers too large for float64, such as identifiers, are treated
    as words. The factor 'class' has the names of classes.

    Args:
      name: name of the factor.
      values: [N], the column of the factor, or the labels for 'class'.
      classes: names of the classes by label. If empty, labels are written as numbers.
    """
    if name == CLASS:
      return np.asarray(classes)[values] if classes else values.astype(str)
    if values.dtype.kind not in 'iuf':
      words = values.astype(str).astype(object)
      words[words == ''] = None
      return words
    is_present = np.isfinite(values)
    distinct = np.unique(values[is_present])
    if self.bins and len(distinct) > self.bins:
      levels = np.full(len(values), np.nan)
      levels[is_present] = _medians_of_bins(values[is_present], self.bins)
      return levels
    if len(np.unique(distinct.astype(float))) < len(distinct):  # too large for float64
      return values.astype(str).astype(object)
    return np.where(is_present, values.astype(float), np.nan)

  def _groups(self, levels: Levels, names: Sequence[str]) -> dict[object, np.ndarray]:
    """Returns {value of a group: indices of its images} for groups of `fewest` images or more.

    A key is the common value, such as 'dog', or for two factors a pair such as ('dog', 0.3).

    Args:
      levels: {factor: its value or bin for each image, [N]}; see `_levels`.
      names: one or two factors; each combination of their values is a group.

    Raises:
      InputError: Fewer than two groups have `fewest` images.
    """
    groups = pd.DataFrame({name: levels[name] for name in names}).groupby([*names]).indices
    large = {key: rows for key, rows in groups.items() if len(rows) >= self.fewest}
    if len(large) < 2:
      raise InputError(
        f'{" × ".join(names)} has {len(large)} groups of at least {self.fewest} images; accuracy '
        f'by it needs two: lower {KEYS.study.fewest}, change {KEYS.study.bins}, or leave the '
        'factor out.'
      )
    return large

  def _estimates(self, right: Outcomes, wrong: Outcomes, levels: Levels) -> Iterator[pd.DataFrame]:
    """Yields tables of accuracy: over all images, by factor and by pairs of factors.

    It also yields error ratios: the error on a group of images divided by the error on all images.

    Args:
      right: whether each classifier is right on each image, [N, 1].
      wrong: whether each classifier is wrong on each image, [N, 1].
      levels: {factor: its value or bin for each image, [N]}.
    """
    yield self.means(OVERALL, right, test=True)
    for name in self.factors:
      yield self.means(BY_FACTOR, self._grouped(right, levels, (name,)), by=(name,), test=True)
      yield from self._error_ratios(wrong, levels, name)
    if self.pairs:
      for pair in itertools.combinations(self.factors, 2):
        yield self.means(BY_FACTOR, self._grouped(right, levels, pair), by=pair)

  def _by_strength(
    self, right: Outcomes, levels: Levels, bases: np.ndarray
  ) -> Iterator[pd.DataFrame]:
    """Yields the drop of accuracy at each strength, and mean failure points, by group.

    Each picture has versions that differ in the factor `self.strength`, such as the amount of blur.
    Images with equal values of all other factors are a group. The drop compares whether a picture
    is right at the least strength and at another one. The failure point of a picture is the least
    strength at which it is wrong. If it is never wrong, the point is one step beyond the largest
    strength.

    Args:
      right: whether each classifier is right on each image, [N, 1].
      levels: {factor: its value or bin for each image, [N]}; strengths are not binned.
      bases: [N], identifies the picture that each image is a version of.
    """
    factors = [name for name in self.factors if name != self.strength]
    # The levels of each image in these factors, such as ('dog',). Images without a level have None,
    # because each NaN would be a group by itself.
    columns = []
    for name in factors:
      columns.append([None if pd.isna(level) else level for level in levels[name]])
    levels_of_image = list(zip(*columns, strict=True)) if factors else [()] * len(bases)
    # `group`, `strength` and `picture` are the indices of each image, [N], in `groups` and so on.
    group, groups = pd.factorize(pd.Series(levels_of_image))
    strength, strengths = pd.factorize(levels[self.strength], sort=True)
    pictures, first_image, picture = np.unique(bases, return_index=True, return_inverse=True)
    clusters = None  # the cluster of each picture
    if self.clusters and right.clusters is not None:
      clusters = right.clusters[first_image]
    beyond_largest = 2 * strengths[-1] - strengths[-2]  # one more step of the last length
    by_group = pd.DataFrame([*groups], columns=factors)
    by_strength = by_group.merge(pd.DataFrame({self.strength: strengths[1:]}), how='cross')
    points: dict[str, np.ndarray] = {}  # {classifier: failure points, [pictures, groups]}
    for label, values in right.values.items():
      # Right 1, wrong 0, and NaN without an image, by picture, group and strength.
      accuracy = np.full((len(pictures), len(groups), len(strengths)), np.nan)
      accuracy[picture, group, strength] = values[:, 0]
      is_wrong, has_image = accuracy == 0, ~np.isnan(accuracy).all(-1)
      # By picture and group: the least strength with a wrong answer, if there is one. It is the
      # first True.
      first_wrong = strengths[is_wrong.argmax(-1)]
      failure_points = np.where(is_wrong.any(-1), first_wrong, beyond_largest)
      points[label] = np.where(has_image, failure_points, np.nan)
      yield self.table_of(label, self._drops(accuracy, by_strength, clusters))
    point = dataclasses.replace(FAILURE_POINT, low=strengths[0], high=beyond_largest)
    is_large = (~np.isnan(points[right.labels[0]])).sum(0) >= self.fewest
    outcomes = Outcomes.from_fields(point, points, by_group, clusters=clusters)
    yield self.means(point, outcomes, where=is_large)
    if factors:
      yield self.means(point, outcomes, factors, where=is_large)

  def _drops(
    self, accuracy: np.ndarray, views: pd.DataFrame, clusters: np.ndarray | None
  ) -> Iterator[Measured]:
    """Yields the drop of a classifier's accuracy from the least strength to each other.

    Args:
      accuracy: [pictures, groups, strengths], 1 if right, 0 if wrong, NaN without an image.
        Strengths ascend.
      views: table that names the group and strength, for each pair of a group and a strength above
        the least.
      clusters: [pictures], the cluster of each picture for resampling; None for no clusters.
    """
    at_least_strength = accuracy[..., :1]
    change = (at_least_strength - accuracy[..., 1:]).reshape(len(accuracy), -1)
    # A drop is the share of pictures that are right at the least strength and wrong at the other,
    # minus the share for which it is the other way round.
    shares = {'dropped': change > 0, 'risen': change < 0}
    counted = ~np.isnan(change)
    drops = Outcomes.from_fields(DROP, shares, views, clusters=clusters).counting(counted)
    for group in drops.groups(list(views), counted.sum(0) >= self.fewest):
      dropped, risen = drops.sums('dropped', group), drops.sums('risen', group)
      yield DROP, group.facets, share_difference(dropped, risen, self.confidence)

  def _grouped(self, outcomes: Outcomes, levels: Levels, names: tuple[str, ...]) -> Outcomes:
    """Splits outcomes [N, 1] into one column per group of images, [N, G].

    Only the images of a group are counted in its column. Images with equal values of the factors
    `names` are a group, if there are at least `fewest`.
    """
    groups = self._groups(levels, names)
    counted = np.zeros((len(levels[names[0]]), len(groups)), bool)
    for index, rows in enumerate(groups.values()):
      counted[rows, index] = True
    return outcomes.in_groups(counted, pd.DataFrame([*groups], columns=[*names]))

  def _error_ratios(self, wrong: Outcomes, levels: Levels, name: str) -> Iterator[pd.DataFrame]:
    """Yields tables of the error on each group of images divided by the error on all images.

    Differences between classifiers follow.

    Args:
      wrong: whether each classifier is wrong on each image, [N, 1].
      levels: {factor: its value or bin for each image, [N]}.
      name: name of the factor; images with equal values are a group.
    """
    grouped = self._grouped(wrong, levels, (name,))
    assert grouped.counted is not None
    # All images are one more group, the last, to which the others are relative.
    counted = np.hstack([grouped.counted[grouped.labels[0]], np.ones((len(levels[name]), 1), bool)])
    with_all = wrong.in_groups(counted, pd.DataFrame({'group': range(counted.shape[1])}))
    groups = list(with_all.groups(('group',)))
    # {classifier: numbers of wrong answers and of images, by cluster of images and by group}
    units = {label: units_of_classifier(with_all, label, groups) for label in with_all.labels}
    for label, versus in pairs_of(with_all.labels):
      # `relative_errors` subtracts the first of two classifiers from the second
      compared = [units[versus], units[label]] if versus else [units[label]]
      ratios = relative_errors(compared, self.confidence)
      measured = []
      for level, estimate in zip(grouped.views[name], ratios, strict=True):
        measured.append((ERROR_RATIO, {name: level}, estimate))
      yield self.table_of(label, measured, versus)


def _medians_of_bins(values: np.ndarray, num_bins: int) -> np.ndarray:
  """Replaces each number by the rounded median of its bin, [N].

  Bins have about equally many numbers each, see `_bin_ends`. Their medians stay distinct.
  """
  ends = _bin_ends(values, num_bins)
  # Bin k has the values in [ends[k], ends[k + 1]), and the last bin its upper end too.
  bin_numbers = np.clip(np.searchsorted(ends, values, side='right') - 1, 0, len(ends) - 2)
  numbers, bin_of_value = np.unique(bin_numbers, return_inverse=True)  # without empty bins
  medians = [np.median(values[bin_numbers == number]) for number in numbers]
  return np.array(_round_distinctly(medians))[bin_of_value]


def _bin_ends(values: np.ndarray, num_bins: int) -> np.ndarray:
  """Returns the edges of bins with about equally many values each, ascending.

  The edges are quantiles. Where quantiles coincide because a value is very common, this value gets
  a bin for itself. Its upper edge is then the next larger float.
  """
  ends = np.unique(np.quantile(values, np.linspace(0, 1, num_bins + 1)))
  if len(ends) > num_bins:  # all quantiles differ
    return ends
  distinct, counts = np.unique(values, return_counts=True)
  # each of these values fills at least a bin of mean size
  common = distinct[counts * num_bins >= counts.sum()].astype(float)
  return np.unique([*ends, *common, *np.nextafter(common, np.inf)])


def _round_distinctly(medians: Sequence[float]) -> list[float]:
  """Rounds distinct numbers to the fewest digits that keep them distinct, at least 4."""
  for digits in range(4, 18):
    rounded = [float(f'{median:.{digits}g}') for median in medians]
    if len({*rounded}) == len(rounded):
      break
  return rounded


def _with_measured_columns(rows: Rows, names: Sequence[str]) -> Rows:
  """Adds the columns `names`, 'brightness' or 'contrast', to the data."""
  for name in names:
    # a default argument, because `name` has another value when the function is called
    def column(batch: Batch, measure: Measure = MEASURED[name]) -> np.ndarray:
      """Returns the mean or standard deviation of each image's pixels, float32 [B]."""
      return np.asarray(measure(as_float32(batch['image']), (1, 2, 3)), np.float32)

    rows = with_column(rows, name, values=column, facts={name: 'of the image'})
  return rows
