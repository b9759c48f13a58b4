"""Outcomes: a statistic of every row and view for several classifiers, with facets to group by."""

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

_MAX_VALUES_PER_SUM = 2**22  # limits the memory that copies of values take


class Group(NamedTuple):
  """Views that are averaged over: the facets that they share, their indices [v] and weights [v]."""

  facets: dict[str, object]
  views: np.ndarray
  weight: np.ndarray

  @property
  def trials(self) -> float:
    """The number of trials of equal weight that vary as much: (Σw)² / Σw² (Kish 1965, 11.2)."""
    return float(effective_units(self.weight))


def joined_views(groups: Sequence[Group]) -> np.ndarray:
  """Returns the indices of the views of all groups."""
  return np.concatenate([group.views for group in groups])


class Sums(NamedTuple):
  """Weighted sums of a statistic in K independent clusters.

  Attributes:
    total, weight: [K], Σ w x and Σ w over what counts.
    n: observations that count: rows, or rows × views where clusters hold several rows.
    trials: Kish's number of trials of all clusters together.
  """

  total: np.ndarray
  weight: np.ndarray
  n: int
  trials: float

  @property
  def clusters(self) -> float:
    """The number of clusters of equal size that vary as much: (Σm)² / Σm² (Kish 1965, 11.2)."""
    return float(effective_units(self.weight))


def statistic_of(quantity: Quantity) -> Statistic:
  """Returns the statistic of a quantity; raises InputError for one without."""
  if quantity.statistic is None:
    raise InputError(
      f'the quantity {quantity.name} has no statistic: declare it with statistic=FUNCTION, the '
      'function that it is a mean of.'
    )
  return quantity.statistic


@dataclasses.dataclass(frozen=True)
class Outcomes:
  """A statistic of N rows in V views, for classifiers that were shown the same.

  Attributes:
    values: by classifier, [N, V]: booleans of a share, floats of an amount; the baseline is first.
    views: facets of the views, one row per view; it has no column if there is one view.
    counted: by classifier, bool [N, V], which values count; None counts all. NaN never counts.
    clusters: int [N], the independent unit of each row, such as an object; None takes each row as
      one.
    weight: [V], the weight of each view in a mean over views; None weighs all equally.
    design: the sequential design, if views were shown different numbers of rows.
    statistic: the statistic that the values are; quantities with another one are refused, unless it
      is None.
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
    """Returns the outcomes of a quantity: its statistic, applied to the fields of each classifier.

    Args:
      quantity: a quantity with a statistic.
      fields: the argument of the statistic, or a tuple of arguments, by classifier.
      views: see `Outcomes`; the values of the statistic, [N, ...], are reshaped to these.
      **attributes: other attributes of `Outcomes`.
    """
    statistic = statistic_of(quantity)
    values = {}
    for label, arguments in fields.items():
      rows = statistic(*(arguments if isinstance(arguments, tuple) else (arguments,)))
      values[label] = np.asarray(rows).reshape(len(rows), len(views))
    return cls(values, views, statistic=statistic, **attributes)

  def require(self, quantity: Quantity) -> None:
    """Raises InputError unless the quantity is of the statistic that the values are."""
    if self.statistic is not None and self.statistic != quantity.statistic:
      raise InputError(
        f'{quantity.name} is of the statistic {quantity.statistic}, and these outcomes are of '
        f'{self.statistic}: ask for the outcomes of {quantity.name}.'
      )

  def __post_init__(self) -> None:
    expected = next(iter(self.values.values())).shape
    for label, values in (*self.values.items(), *(self.counted or {}).items()):
      if values.shape != expected or len(expected) != 2 or expected[1] != len(self.views):
        raise InputError(
          f'outcomes of {label} have shape {values.shape}; give [{expected[0]} rows, '
          f'{len(self.views)} views] for every classifier.'
        )

  @property
  def labels(self) -> list[str]:
    """The classifiers, the baseline first."""
    return list(self.values)

  @property
  def is_share(self) -> bool:
    """Whether the statistic is a boolean, whose mean is a share."""
    return next(iter(self.values.values())).dtype.kind == 'b'

  def combined(self, by: Sequence[str], combine: Callable[[np.ndarray], Any]) -> Self:
    """Returns one view for each value of the facets `by`, which combines the values [N, v] of the
    views with that value to [N], such as `np.any` along the last axis for the worst of them."""
    groups = list(self.groups(by))
    values = {
      label: np.stack([combine(of_views[:, group.views]) for group in groups], 1)
      for label, of_views in self.values.items()
    }
    return dataclasses.replace(
      self, values=values, views=pd.DataFrame([group.facets for group in groups])
    )

  def of_rows(self, rows: np.ndarray) -> Self:
    """Returns the outcomes of some rows, given as bool [N] or as indices."""
    return dataclasses.replace(
      self,
      values={label: values[rows] for label, values in self.values.items()},
      counted=None if self.counted is None else {k: v[rows] for k, v in self.counted.items()},
      clusters=None if self.clusters is None else self.clusters[rows],
    )

  def counting_in(self, views: np.ndarray) -> Self:
    """Returns the outcomes of the rows that count in any of some views [v] with any classifier,
    all where none does."""
    counts = np.any([self._counts(label, views).any(1) for label in self.values], 0)
    return self.of_rows(counts) if counts.any() else self

  @property
  def common(self) -> Self:
    """The rows that a sequential design showed to all classifiers in all views; else all rows."""
    if self.design is None or self.counted is None:
      return self
    return dataclasses.replace(self.of_rows(self._in_all_views()), counted=None, design=None)

  def pair(self, first: str, second: str) -> Self:
    """Returns what two classifiers are compared on, under the names `'gained'` and `'lost'`.

    For a share these are the trials that succeed with the second only, and with the first only; for
    an amount `'gained'` is the second value minus the first. Only `common` rows are compared.

    Raises:
      InputError: the classifiers were shown different rows.
    """
    common = self.common
    a, b = common.values[first], common.values[second]
    if common.counted is not None and not np.array_equal(
      common.counted[first], common.counted[second]
    ):
      raise InputError(f'{first} and {second} were shown different rows: evaluate them together.')
    values = {'gained': b & ~a, 'lost': a & ~b} if self.is_share else {'gained': b - a}
    counted = None if common.counted is None else dict.fromkeys(values, common.counted[first])
    return dataclasses.replace(common, values=values, counted=counted)

  def groups(self, by: Sequence[str] = (), where: np.ndarray | None = None) -> Iterator[Group]:
    """Yields the groups of views that share the facets `by`, in the order of their first views.

    Args:
      by: columns of `views`; views that lack one of them are in no group. () is one group.
      where: bool [V], which views to group; None: all.

    Raises:
      InputError: there is no such facet, or the table of results reserves the name.
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
    members: dict[tuple[object, ...], list[int]] = {}
    columns = [self.views[name] for name in by]
    for place in np.flatnonzero(is_grouped):
      key = tuple(column.iloc[place] for column in columns)
      if not any(pd.isna(value) for value in key):
        members.setdefault(key, []).append(int(place))
    for key, places in members.items():
      counted = weight[places] if len(places) > 1 else np.ones(1)
      yield Group(dict(zip(by, key, strict=True)), np.array(places), counted)

  def sums(self, label: str, group: Group) -> Sums:
    """Returns the sums of a classifier's statistic over a group of views, unit by unit."""
    counts = self._counts(label, group.views)
    total, weight = self.columns(label, group, counts)
    is_counted = weight > 0
    n = int(counts.any(1).sum()) if self.clusters is None else int(counts.sum())
    trials = counts.sum() * group.trials / len(group.views)
    return Sums(total[is_counted], weight[is_counted], n, float(trials))

  def columns(
    self, label: str, group: Group, counts: np.ndarray | None = None
  ) -> tuple[np.ndarray, np.ndarray]:
    """Returns Σ w x and Σ w of a group over the values that count, for every unit, [K] each."""
    if counts is None:
      counts = self._counts(label, group.views)
    values = self.values[label]
    total, weight = np.zeros(len(values)), np.zeros(len(values))
    step = max(1, _MAX_VALUES_PER_SUM // len(group.views))
    for start in range(0, len(values), step):
      rows = slice(start, start + step)
      total[rows] = np.where(counts[rows], values[rows, group.views], 0) @ group.weight
      weight[rows] = counts[rows] @ group.weight
    if self.clusters is None:
      return total, weight
    units, place = np.unique(self.clusters, return_inverse=True)
    return np.bincount(place, total, len(units)), np.bincount(place, weight, len(units))

  def observations(self, label: str, views: np.ndarray) -> int:
    """Returns the number of rows that count in views [v]; of values if units hold several rows."""
    counts = self._counts(label, views)
    return int(counts.any(1).sum() if self.clusters is None else counts.sum())

  def _counts(self, label: str, views: np.ndarray) -> np.ndarray:
    """Returns the values that count in views, bool [N, v].

    In a sequential design with more than one view, only rows count that were shown in all views.
    """
    values = self.values[label]
    if self.counted is None:
      counts = np.ones((len(values), len(views)), bool)
    else:
      counts = self.counted[label][:, views]
      if self.design is not None and len(views) > 1:
        counts = counts & self._in_all_views()[:, None]
    return counts & ~np.isnan(values[:, views]) if values.dtype.kind == 'f' else counts

  def _in_all_views(self) -> np.ndarray:
    """Returns the rows that were shown to all classifiers in all views, bool [N]."""
    assert self.counted is not None
    return np.asarray(np.all([counts.all(1) for counts in self.counted.values()], 0))
