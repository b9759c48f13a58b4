"""Outcomes: a statistic, such as right or wrong, of every row and view for several classifiers.

A row is a stored image. A view is one way of showing all rows, such as fog at severity 3.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from robustness.core.errors import InputError, nearest
from robustness.estimates.fixed_width import FixedWidth
from robustness.estimates.jackknife import effective_units
from robustness.estimates.quantity import Quantity, Statistic
from robustness.estimates.table import RESERVED

_MAX_VALUES_PER_SUM = 2**22
"""Most values that are copied at once when sums are taken, which limits memory."""


class Group(NamedTuple):
  """A group of views (ways of perturbing every image) that are averaged over.

  Attributes:
    facets: the facets that the views share, for instance {'corruption': 'fog'}.
    views: int [v], the indices of the views.
    weight: float [v], the weight of each view in the mean.
  """

  facets: dict[str, object]
  views: np.ndarray
  weight: np.ndarray

  @classmethod
  def of_view(cls, view: int) -> Self:
    """Returns a group of only the view with the index `view`, without facets."""
    return cls({}, np.array([view]), np.ones(1))

  @property
  def trials(self) -> float:
    """The effective number of views, (Σw)² / Σw² for the weights w (Kish 1965, section 11.2).

    A mean over this number of views of equal weight has the same variance.
    """
    return float(effective_units(self.weight))


def joined_views(groups: Sequence[Group]) -> np.ndarray:
  """Returns the concatenated indices of the views of all groups, int [total number of views]."""
  return np.concatenate([group.views for group in groups])


class Sums(NamedTuple):
  """Weighted sums of a statistic in K independent clusters of images.

  A cluster is a set of images that are resampled together, such as the frames of a video. By
  default each image is a cluster. The statistic of an image in a view is x, and the weight of the
  view is w. Values that do not count (`Outcomes.counted`) are left out.

  Attributes:
    total: Σ w x over the images and views of each cluster, [K].
    weight: Σ w over the same images and views, [K], above 0.
    n: number of images; number of values if clusters hold several images.
    trials: effective number of values. A mean over this number of values of equal weight has the
      same variance as the weighted mean.
  """

  total: np.ndarray
  weight: np.ndarray
  n: int
  trials: float

  @property
  def clusters(self) -> float:
    """The effective number of clusters, (Σm)² / Σm² for the weights m (Kish 1965, section 11.2).

    A mean over this number of clusters of equal weight has the same variance.
    """
    return float(effective_units(self.weight))


def statistic_of(quantity: Quantity) -> Statistic:
  """Returns the function that computes a quantity's value for each image and view.

  Raises:
    InputError: the quantity is declared without a statistic.
  """
  if quantity.statistic is None:
    raise InputError(
      f'the quantity {quantity.name} has no statistic: declare it with statistic=FUNCTION, the '
      'function that it is a mean of.'
    )
  return quantity.statistic


@dataclasses.dataclass(frozen=True)
class Outcomes:
  """Values of a statistic for N images in V views, for several classifiers.

  A view is one way of perturbing all images, such as fog at severity 3. A statistic is, for
  example, whether the prediction is wrong. All classifiers were shown the same images.

  Attributes:
    values: {label of the classifier: [N, V]}, booleans or floats. The first classifier is the
      baseline that all others are compared with.
    views: table with a row per view and a column per facet, such as 'corruption'. A single view may
      have no columns.
    counted: {label: bool [N, V]}, the values that count; None counts all. NaN never counts.
    clusters: int [N], the independent unit of each image, such as a video. None makes each image a
      unit.
    weight: [V], the weight of each view in a mean over views; None weighs all equally.
    design: the sequential design, if each view was shown only as many images as its interval needs.
      None if all images were shown in all views.
    statistic: the function that computed the values. `require` refuses quantities with another
      function. None accepts all quantities.
  """

  values: Mapping[str, np.ndarray]
  views: pd.DataFrame
  counted: Mapping[str, np.ndarray] | None = None
  clusters: np.ndarray | None = None
  weight: np.ndarray | None = None
  design: FixedWidth | None = None
  statistic: Statistic | None = None

  @classmethod
  def from_fields(
    cls, quantity: Quantity, fields: Mapping[str, Any], views: pd.DataFrame, **attributes: Any
  ) -> Self:
    """Returns the outcomes of a quantity, by calling its statistic for each classifier.

    Args:
      quantity: a quantity with a statistic.
      fields: {label of the classifier: argument of the statistic}. A tuple is passed as several
        arguments.
      views: table of the V views (ways of perturbing images), see `Outcomes`. The statistic returns
        V values per image, [N, ...], which are reshaped to [N, V].
      **attributes: other attributes of `Outcomes`.

    Raises:
      InputError: the quantity has no statistic, or the shapes of the values differ.
    """
    statistic = statistic_of(quantity)
    values = {}
    for label, arguments in fields.items():
      computed = statistic(*(arguments if isinstance(arguments, tuple) else (arguments,)))
      values[label] = np.asarray(computed).reshape(len(computed), len(views))
    return cls(values, views, statistic=statistic, **attributes)

  def require(self, quantity: Quantity) -> None:
    """Raises InputError if the values are not of the statistic that a quantity is a mean of.

    A statistic maps records to a value for each image and view (a way of perturbing images). `self`
    has such values; `self.statistic` is None if it is not known where they are from.
    """
    if self.statistic is not None and self.statistic != quantity.statistic:
      raise InputError(
        f'{quantity.name} is of the statistic {quantity.statistic}, and these outcomes are of '
        f'{self.statistic}: ask for the outcomes of {quantity.name}.'
      )

  def __post_init__(self) -> None:
    """Raises InputError unless all arrays have the same shape [N, V] with V rows in `views`.

    The arrays are the values of each classifier for N images in V views (ways of perturbing images)
    and, in `counted`, which of them count.
    """
    first, *_ = self.values.values()
    num_rows, num_views = len(first), len(self.views)
    for label, values in (*self.values.items(), *(self.counted or {}).items()):
      if values.shape != (num_rows, num_views):
        raise InputError(
          f'outcomes of {label} have shape {values.shape}; give [{num_rows} rows, '
          f'{num_views} views] for every classifier.'
        )

  @property
  def labels(self) -> list[str]:
    """The labels of the classifiers, the baseline first."""
    return list(self.values)

  @property
  def is_share(self) -> bool:
    """Whether the values are booleans, so that their mean is a share."""
    return next(iter(self.values.values())).dtype.kind == 'b'

  def combined(self, by: Sequence[str], combine: Callable[[np.ndarray], Any]) -> Self:
    """Returns outcomes in which views with equal values of some facets are merged into one view.

    A view is a way of perturbing images, and its facets are columns that describe it, such as
    corruption and severity.

    Args:
      by: the facets of the merged views, such as ('corruption',) to merge severities.
      combine: called with the values [N, v] of v views that are merged, for all N images. It
        returns the values [N] of the merged view. For errors, `any` along the last axis is the
        worst case.
    """
    groups = list(self.groups(by))
    merged = {}
    for label, values in self.values.items():
      merged[label] = np.stack([combine(values[:, group.views]) for group in groups], 1)
    views = pd.DataFrame([group.facets for group in groups])
    return dataclasses.replace(self, values=merged, views=views)

  def in_groups(self, counted: np.ndarray, groups: pd.DataFrame) -> Self:
    """Returns outcomes with a view for each group of images, such as a class.

    The outcomes must have a single view. Each of the G new views has the same values, but only the
    images of one group count.

    Args:
      counted: bool [N, G], the images in each of G groups.
      groups: table with a row per group and a column per facet, which describes the new views.
    """
    values = {label: np.broadcast_to(v, counted.shape) for label, v in self.values.items()}
    return dataclasses.replace(self, values=values, views=groups, counted=None).counting(counted)

  def counting(self, counted: np.ndarray) -> Self:
    """Returns the outcomes with other values that count, the same for all classifiers.

    Args:
      counted: bool [N, V], the values that count.
    """
    return dataclasses.replace(self, counted=dict.fromkeys(self.values, counted))

  def of_rows(self, rows: np.ndarray) -> Self:
    """Returns the outcomes of selected images, without those of the others.

    Args:
      rows: the images, as bool [N] or as indices.
    """
    values = {label: x[rows] for label, x in self.values.items()}
    counted = None if self.counted is None else {k: x[rows] for k, x in self.counted.items()}
    clusters = None if self.clusters is None else self.clusters[rows]
    return dataclasses.replace(self, values=values, counted=counted, clusters=clusters)

  def with_rows_counted_in(self, views: np.ndarray) -> Self:
    """Returns the outcomes of the images that count in at least one of the given views.

    An image counts if the value of any classifier counts, see `counted`. If no image does, the
    outcomes are returned unchanged.

    Args:
      views: int [v], indices of the views.
    """
    is_counted = np.any([self._is_counted(label, views).any(1) for label in self.values], 0)
    return self.of_rows(is_counted) if is_counted.any() else self

  @property
  def common(self) -> Self:
    """The outcomes of the images that all classifiers were shown in all views.

    Only a sequential design shows fewer images in some views. Without one, all images are returned.
    """
    if self.design is None or self.counted is None:
      return self
    return dataclasses.replace(self.of_rows(self._in_all_views()), counted=None, design=None)

  def pair(self, first: str, second: str) -> Self:
    """Returns the paired difference between two classifiers as outcomes 'gained' and 'lost'.

    `values` of the result has the following keys in place of labels. Images that were not shown to
    all classifiers in all views (ways of perturbing images) are left out, see `common`.

    * For booleans, 'gained' is true where only the second classifier's value is true, and 'lost'
      where only the first's is.
    * For floats, 'gained' is the second value minus the first, and there is no 'lost'.

    Args:
      first: label of the classifier that is subtracted.
      second: label of the other classifier.

    Raises:
      InputError: the values that count differ between the two classifiers.
    """
    common = self.common
    a, b = common.values[first], common.values[second]
    if self.is_share:
      values = {'gained': b & ~a, 'lost': a & ~b}
    else:  # in floats, because a difference of unsigned integers would wrap around
      values = {'gained': np.subtract(b, a, dtype=np.result_type(a, b, np.float32))}
    if common.counted is None:
      return dataclasses.replace(common, values=values)
    # There is no sequential design, and `counted` is the choice of values by the caller.
    if not np.array_equal(common.counted[first], common.counted[second]):
      raise InputError(f'{first} and {second} were shown different rows: evaluate them together.')
    return dataclasses.replace(common, values=values).counting(common.counted[first])

  def groups(self, by: Sequence[str] = (), where: np.ndarray | None = None) -> Iterator[Group]:
    """Yields a group of views for each combination of values of some facets.

    Groups are in the order of their first views. A view that is alone in its group has the weight
    1, so that its sums are whole numbers.

    Args:
      by: columns of `views`, such as ('corruption', 'severity'). () yields one group of all views.
        Views that lack one of the facets are in no group.
      where: bool [V], the views to group; None takes all.

    Raises:
      InputError: there is no such facet, or the name is reserved in the table of results.
    """
    for name in by:
      if name in RESERVED:
        raise InputError(
          f'facet {name!r} has the name of a column of the table of results: give it another name '
          f'than {", ".join(RESERVED)}.'
        )
      if name not in self.views.columns:
        raise InputError(f'views have no facet {name!r}; {nearest(name, self.views.columns)}.')
    is_grouped = np.ones(len(self.views), bool) if where is None else np.asarray(where, bool)
    weight = np.ones(len(self.views)) if self.weight is None else np.asarray(self.weight, float)
    views_by_values: dict[tuple[object, ...], list[int]] = {}
    columns = [self.views[name] for name in by]
    for view in np.flatnonzero(is_grouped):
      facet_values = tuple(column.iloc[view] for column in columns)
      if not any(pd.isna(value) for value in facet_values):
        views_by_values.setdefault(facet_values, []).append(int(view))
    for facet_values, views in views_by_values.items():
      facets = dict(zip(by, facet_values, strict=True))
      yield Group(facets, np.array(views), weight[views] if len(views) > 1 else np.ones(1))

  def sums(self, label: str, group: Group) -> Sums:
    """Returns a classifier's weighted sums of the statistic over a group of views, by cluster.

    A view is a way of perturbing images, with a weight in the mean over the group. A cluster is an
    image, or a set of dependent images. Clusters without a value that counts are left out.

    Args:
      label: label of the classifier.
      group: the views and their weights.
    """
    is_counted = self._is_counted(label, group.views)
    total, weight = self.weighted_totals(label, group)
    has_values = weight > 0
    n = self.observations(label, group.views)
    # Unequal weights of the views reduce the effective number of values in proportion.
    trials = is_counted.sum() * group.trials / len(group.views)
    return Sums(total[has_values], weight[has_values], n, float(trials))

  def weighted_totals(self, label: str, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for each of K clusters, the weighted sum of values and the sum of weights.

    Values that do not count are left out. Clusters without any value have zeros; `sums` leaves them
    out.

    Args:
      label: label of the classifier.
      group: v views (ways of perturbing images) and their weights.

    Returns:
      Σ w x and Σ w over the images of a cluster and the views of the group, two arrays [K]. Here x
      is the value of an image in a view and w the weight of the view.
    """
    is_counted = self._is_counted(label, group.views)
    values = self.values[label]
    total, weight = np.zeros(len(values)), np.zeros(len(values))
    batch_size = max(1, _MAX_VALUES_PER_SUM // len(group.views))
    for start in range(0, len(values), batch_size):
      rows = slice(start, start + batch_size)
      total[rows] = np.where(is_counted[rows], values[rows, group.views], 0) @ group.weight
      weight[rows] = is_counted[rows] @ group.weight
    if self.clusters is None:  # each row is a cluster
      return total, weight
    # The sums over the rows of each cluster.
    names, cluster = np.unique(self.clusters, return_inverse=True)
    return np.bincount(cluster, total, len(names)), np.bincount(cluster, weight, len(names))

  def observations(self, label: str, views: np.ndarray) -> int:
    """Returns the number n of observations in an estimate over views.

    It is the number of images with a value that counts in at least one of the views. If the images
    are in clusters, it is the number of values that count.

    Args:
      label: label of the classifier.
      views: int [v], indices of the views.
    """
    is_counted = self._is_counted(label, views)
    return int(is_counted.any(1).sum() if self.clusters is None else is_counted.sum())

  def _is_counted(self, label: str, views: np.ndarray) -> np.ndarray:
    """Returns which values of a classifier count in its means, bool [N, v].

    Values count where `counted` is true and the value is not NaN. In a mean over several views
    (ways of perturbing images) of a sequential design, only the images count that were shown to all
    classifiers in all V views.

    Args:
      label: label of the classifier.
      views: int [v], indices of the views.
    """
    is_counted = ~np.isnan(self.values[label][:, views])
    if self.counted is not None:
      is_counted &= self.counted[label][:, views]
      if self.design is not None and len(views) > 1:
        is_counted &= self._in_all_views()[:, None]
    return np.asarray(is_counted)

  def _in_all_views(self) -> np.ndarray:
    """Returns which images were shown to all classifiers in all views, bool [N]."""
    assert self.counted is not None
    return np.asarray(np.all([counts.all(1) for counts in self.counted.values()], 0))
