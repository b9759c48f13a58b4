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
  """Views that are averaged over.

  Attributes:
    facets: the facets that the views share, {facet: value}.
    views: int [v], the indices of the views.
    weight: float [v], the weight of each view in the mean.
  """

  facets: dict[str, object]
  views: np.ndarray
  weight: np.ndarray

  @classmethod
  def of_view(cls, view: int) -> Self:
    """Returns the group of the single view with the index `view`, without facets."""
    return cls({}, np.array([view]), np.ones(1))

  @property
  def trials(self) -> float:
    """The effective number of views, (Σw)² / Σw² (Kish 1965, section 11.2).

    The mean over this number of views of equal weight would vary as much as the weighted mean.
    """
    return float(effective_units(self.weight))


def joined_views(groups: Sequence[Group]) -> np.ndarray:
  """Returns the indices of the views of all groups, int [sum of the groups' numbers of views]."""
  return np.concatenate([group.views for group in groups])


class Sums(NamedTuple):
  """Weighted sums of a statistic in K independent clusters.

  A row is an image, and has a value x of the statistic in each view; w is the weight of the view. A
  cluster is a set of rows that are resampled together, such as the frames of a video; by default
  each row is a cluster.

  Attributes:
    total: [K], Σ w x over the counted values of a cluster.
    weight: [K], Σ w over the counted values of a cluster, above 0.
    n: number of counted rows, or of counted values if clusters hold several rows.
    trials: effective number of counted values: the mean over this number of values of equal weight
      would vary as much as the weighted mean.
  """

  total: np.ndarray
  weight: np.ndarray
  n: int
  trials: float

  @property
  def clusters(self) -> float:
    """The effective number of clusters, (Σm)² / Σm² for the weights m (Kish 1965, section 11.2).

    The mean over this number of clusters of equal weight would vary as much.
    """
    return float(effective_units(self.weight))


def statistic_of(quantity: Quantity) -> Statistic:
  """Returns the statistic of a quantity; raises InputError if it declares none."""
  if quantity.statistic is None:
    raise InputError(
      f'the quantity {quantity.name} has no statistic: declare it with statistic=FUNCTION, the '
      'function that it is a mean of.'
    )
  return quantity.statistic


@dataclasses.dataclass(frozen=True)
class Outcomes:
  """A statistic of N rows in V views, for several classifiers that were shown the same images.

  Attributes:
    values: {label of the classifier: [N, V]}: booleans for a share, floats for an amount. The first
      classifier is the baseline that all other classifiers are compared with.
    views: table with a row per view and a column per facet; a single view may have no columns.
    counted: {label: bool [N, V]}, the values that count; None counts all. NaN never counts.
    clusters: int [N], the independent unit that each row belongs to, such as a video; None makes
      each row a unit.
    weight: [V], the weight of each view in a mean over views; None weighs all equally.
    design: the sequential design, in which the number of rows that are shown differs between views;
      None if all rows are shown in all views.
    statistic: the function that computed the values; `require` refuses quantities of another
      statistic. None accepts all quantities.
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
    """Returns the outcomes of a quantity: its statistic applied to the records of each classifier.

    Args:
      quantity: a quantity with a statistic.
      fields: {label: argument of the statistic, or tuple of its arguments}.
      views: table of the V views, see `Outcomes`. The statistic returns [N, ...] with V values per
        row, which are reshaped to [N, V].
      **attributes: other attributes of `Outcomes`.
    """
    statistic = statistic_of(quantity)
    values = {}
    for label, arguments in fields.items():
      computed = statistic(*(arguments if isinstance(arguments, tuple) else (arguments,)))
      values[label] = np.asarray(computed).reshape(len(computed), len(views))
    return cls(values, views, statistic=statistic, **attributes)

  def require(self, quantity: Quantity) -> None:
    """Raises InputError if the values were computed by a statistic that is not the quantity's."""
    if self.statistic is not None and self.statistic != quantity.statistic:
      raise InputError(
        f'{quantity.name} is of the statistic {quantity.statistic}, and these outcomes are of '
        f'{self.statistic}: ask for the outcomes of {quantity.name}.'
      )

  def __post_init__(self) -> None:
    """Raises InputError unless all arrays have the same shape [N, V], with V the length of
    `views`.
    """
    expected = next(iter(self.values.values())).shape
    for label, values in (*self.values.items(), *(self.counted or {}).items()):
      if values.shape != expected or len(expected) != 2 or expected[1] != len(self.views):
        raise InputError(
          f'outcomes of {label} have shape {values.shape}; give [{expected[0]} rows, '
          f'{len(self.views)} views] for every classifier.'
        )

  @property
  def labels(self) -> list[str]:
    """The labels of the classifiers, the baseline first."""
    return list(self.values)

  @property
  def is_share(self) -> bool:
    """Whether the statistic is boolean, so that its mean is a share."""
    return next(iter(self.values.values())).dtype.kind == 'b'

  def combined(self, by: Sequence[str], combine: Callable[[np.ndarray], Any]) -> Self:
    """Returns outcomes in which the views with equal values of the facets `by` are combined into
    one.

    Args:
      by: the facets of the new views.
      combine: maps the values [N, v] of the v views of a group to the values [N] of the new view.
        For errors, `any` along the last axis is the worst case.
    """
    groups = list(self.groups(by))
    values = {
      label: np.stack([combine(by_view[:, group.views]) for group in groups], 1)
      for label, by_view in self.values.items()
    }
    views = pd.DataFrame([group.facets for group in groups])
    return dataclasses.replace(self, values=values, views=views)

  def in_groups(self, counted: np.ndarray, groups: pd.DataFrame) -> Self:
    """Returns outcomes in which each view is a group of rows, such as a class.

    These outcomes have a single view. Each of the G new views has its values, but only the rows of
    one group count in it.

    Args:
      counted: bool [N, G], which rows are in each of G groups.
      groups: table with a row per group and a column per facet.
    """
    values = {label: np.broadcast_to(v, counted.shape) for label, v in self.values.items()}
    counted_by_label = dict.fromkeys(self.values, counted)
    return dataclasses.replace(self, values=values, views=groups, counted=counted_by_label)

  def of_rows(self, rows: np.ndarray) -> Self:
    """Returns the outcomes of selected rows, given as bool [N] or as indices."""
    return dataclasses.replace(
      self,
      values={label: values[rows] for label, values in self.values.items()},
      counted=None if self.counted is None else {k: v[rows] for k, v in self.counted.items()},
      clusters=None if self.clusters is None else self.clusters[rows],
    )

  def with_rows_counted_in(self, views: np.ndarray) -> Self:
    """Returns the outcomes of the rows that count in `views`.

    A row counts if any classifier has a counted value in one of the views. If there is no such row,
    the outcomes are returned unchanged.

    Args:
      views: int [v], indices of views.
    """
    is_counted = np.any([self._is_counted(label, views).any(1) for label in self.values], 0)
    return self.of_rows(is_counted) if is_counted.any() else self

  @property
  def common(self) -> Self:
    """The outcomes of the rows that a sequential design showed to all classifiers in all views.

    Without a sequential design these are all rows.
    """
    if self.design is None or self.counted is None:
      return self
    return dataclasses.replace(self.of_rows(self._in_all_views()), counted=None, design=None)

  def pair(self, first: str, second: str) -> Self:
    """Returns the differences between two classifiers, as outcomes 'gained' and 'lost'.

    These are in place of the labels of classifiers. For a share, 'gained' is true where only the
    value of the second classifier is true, and 'lost' where only the value of the first classifier
    is true. For an amount, 'gained' is the second value minus the first, and there is no 'lost'.
    Only the rows of `common` are compared.

    Args:
      first: label of the classifier that is subtracted.
      second: label of the other classifier.

    Raises:
      InputError: different values count for the two classifiers.
    """
    common = self.common
    a, b = common.values[first], common.values[second]
    if self.is_share:
      values = {'gained': b & ~a, 'lost': a & ~b}
    else:  # in floats, because a difference of unsigned integers would wrap around
      values = {'gained': np.subtract(b, a, dtype=np.result_type(a, b, np.float32))}
    if common.counted is None:
      return dataclasses.replace(common, values=values)
    if not np.array_equal(common.counted[first], common.counted[second]):
      raise InputError(f'{first} and {second} were shown different rows: evaluate them together.')
    counted = dict.fromkeys(values, common.counted[first])
    return dataclasses.replace(common, values=values, counted=counted)

  def groups(self, by: Sequence[str] = (), where: np.ndarray | None = None) -> Iterator[Group]:
    """Yields a group of views for each combination of values of the facets `by`.

    Groups are in the order of their first views. The view of a group of one view has the weight 1,
    so that its sums are whole numbers.

    Args:
      by: columns of `views`; () yields one group of all views. Views that lack one of the facets
        are in no group.
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
    """Returns the weighted sums of a classifier's statistic over a group of views, by cluster.

    Clusters without a counted value are left out.
    """
    is_counted = self._is_counted(label, group.views)
    total, weight = self.weighted_totals(label, group)
    has_values = weight > 0
    n = self.observations(label, group.views)
    # Unequal weights of the views reduce the effective number of values in proportion.
    trials = is_counted.sum() * group.trials / len(group.views)
    return Sums(total[has_values], weight[has_values], n, float(trials))

  def weighted_totals(self, label: str, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Returns Σ w x and Σ w over a group's counted values for each cluster, two arrays [K].

    x is the value of a row in a view and w the weight of the view. Clusters without counted values
    are included, with zeros; `sums` leaves them out.

    Args:
      label: label of the classifier.
      group: v views and their weights.
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
    """Returns the number `n` of observations that an estimate over views states.

    It is the number of rows with a counted value in at least one of the views; if the rows are in
    clusters, the number of counted values.

    Args:
      label: label of the classifier.
      views: int [v], indices of views.
    """
    is_counted = self._is_counted(label, views)
    return int(is_counted.any(1).sum() if self.clusters is None else is_counted.sum())

  def _is_counted(self, label: str, views: np.ndarray) -> np.ndarray:
    """Returns which values of a classifier count in its means and in n, bool [N, v].

    They are true in `counted` and not NaN. In a mean over several views of a sequential design,
    only the rows count that were shown to all classifiers in all V views.

    Args:
      label: label of the classifier.
      views: int [v], indices of views.
    """
    values = self.values[label]
    is_counted = np.ones((len(values), len(views)), bool)
    if self.counted is not None:
      is_counted = self.counted[label][:, views]
      if self.design is not None and len(views) > 1:
        is_counted = is_counted & self._in_all_views()[:, None]
    return is_counted & ~np.isnan(values[:, views]) if values.dtype.kind == 'f' else is_counted

  def _in_all_views(self) -> np.ndarray:
    """Returns which rows were shown to all classifiers in all views, bool [N]."""
    assert self.counted is not None
    return np.asarray(np.all([counts.all(1) for counts in self.counted.values()], 0))
