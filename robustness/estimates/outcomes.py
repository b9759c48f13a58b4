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

_AT_ONCE = 2**22  # values that are summed together, for their copies take memory


class Group(NamedTuple):
  """Views that are averaged over: the facets that they share, their places [v] and weights [v]."""

  facets: dict[str, object]
  views: np.ndarray
  weight: np.ndarray

  @property
  def trials(self) -> float:
    """How many trials of one weight vary as much as these: (Σw)² / Σw² (Kish 1965, 11.2)."""
    return float(effective_units(self.weight))


def joined_views(groups: Sequence[Group]) -> np.ndarray:
  """Returns the places of the views of all groups."""
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
    """How many clusters of one size vary as much as these: (Σm)² / Σm² (Kish 1965, 11.2)."""
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
    values: by classifier [N, V]: booleans of a share, floats of an amount, the baseline's first.
    views: facets of the views, a row a view; no column where there is one view.
    shown: by classifier bool [N, V], what counts beside NaN of an amount; None where all does.
    clusters: int [N], the independent unit of each row, such as an object; None: each row is one.
    weight: [V], how much a view counts in a mean over views; None: each once.
    design: of a sequential design, where classifiers may be shown different numbers of rows.
    statistic: what the values are, which quantities of them must have; None is not checked.
  """

  values: Mapping[str, np.ndarray]
  views: pd.DataFrame
  shown: Mapping[str, np.ndarray] | None = None
  clusters: np.ndarray | None = None
  weight: np.ndarray | None = None
  design: FixedWidth | None = None
  statistic: Statistic | None = None

  @classmethod
  def of(
    cls, quantity: Quantity, fields: Mapping[str, Any], views: pd.DataFrame, **given: Any
  ) -> Self:
    """Returns the outcomes of a quantity: its statistic of the fields of each classifier.

    Args:
      quantity: with a statistic.
      fields: by classifier the argument of the statistic, or a tuple of several.
      views: see `Outcomes`; what the statistic returns, [N, ...], is reshaped to these.
      **given: other attributes of `Outcomes`.
    """
    statistic = statistic_of(quantity)
    values = {
      label: np.asarray(statistic(*(own if isinstance(own, tuple) else (own,))))
      for label, own in fields.items()
    }
    shaped = {label: own.reshape(len(own), len(views)) for label, own in values.items()}
    return cls(shaped, views, statistic=statistic, **given)

  def require(self, quantity: Quantity) -> None:
    """Raises InputError unless the quantity is of the statistic that the values are."""
    if self.statistic is not None and self.statistic != quantity.statistic:
      raise InputError(
        f'{quantity.name} is of the statistic {quantity.statistic}, and these outcomes are of '
        f'{self.statistic}: ask for the outcomes of {quantity.name}.'
      )

  def __post_init__(self) -> None:
    expected = next(iter(self.values.values())).shape
    for label, values in (*self.values.items(), *(self.shown or {}).items()):
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
      label: np.stack([combine(own[:, group.views]) for group in groups], 1)
      for label, own in self.values.items()
    }
    return dataclasses.replace(
      self, values=values, views=pd.DataFrame([group.facets for group in groups])
    )

  def of_rows(self, chosen: np.ndarray) -> Self:
    """Returns the outcomes of some rows, bool [N] or places."""
    return dataclasses.replace(
      self,
      values={label: values[chosen] for label, values in self.values.items()},
      shown=None if self.shown is None else {k: v[chosen] for k, v in self.shown.items()},
      clusters=None if self.clusters is None else self.clusters[chosen],
    )

  def counting_in(self, views: np.ndarray) -> Self:
    """Returns the outcomes of the rows that count in any of some views [v] with any classifier,
    all where none does."""
    counts = np.any([self._counts(label, views).any(1) for label in self.values], 0)
    return self.of_rows(counts) if counts.any() else self

  @property
  def common(self) -> Self:
    """Of a sequential design the rows that all views were shown to with all classifiers."""
    if self.design is None or self.shown is None:
      return self
    in_all = np.all([shown.all(1) for shown in self.shown.values()], 0)
    return dataclasses.replace(self.of_rows(in_all), shown=None, design=None)

  def pair(self, first: str, second: str) -> Self:
    """Returns what two classifiers are compared on, under the names `'gained'` and `'lost'`.

    Of a share these are the trials that succeed with the second only, and with the first only; of
    an amount `'gained'` is the second's minus the first's. They are of `common` rows.

    Raises:
      InputError: the classifiers were shown different rows.
    """
    own = self.common
    a, b = own.values[first], own.values[second]
    if own.shown is not None and not np.array_equal(own.shown[first], own.shown[second]):
      raise InputError(f'{first} and {second} were shown different rows: evaluate them together.')
    values = {'gained': b & ~a, 'lost': a & ~b} if self.is_share else {'gained': b - a}
    shown = None if own.shown is None else dict.fromkeys(values, own.shown[first])
    return dataclasses.replace(own, values=values, shown=shown)

  def groups(self, by: Sequence[str] = (), where: np.ndarray | None = None) -> Iterator[Group]:
    """Yields the groups of views that share the facets `by`, in the order of their first views.

    Args:
      by: columns of `views`; views that lack one of them are in no group. () is one group.
      where: bool [V], which views to group; None: all.

    Raises:
      InputError: there is no such facet, or the table of results has a column of its own so named.
    """
    for name in by:
      if name in RESERVED:
        raise InputError(
          f'facet {name!r} has the name of a column of the table of results: give it another name '
          f'than {", ".join(RESERVED)}.'
        )
      if name not in self.views.columns:
        raise InputError(f'views have no facet {name!r}; {nearest(name, self.views.columns)}.')
    chosen = np.ones(len(self.views), bool) if where is None else np.asarray(where, bool)
    weight = np.ones(len(self.views)) if self.weight is None else np.asarray(self.weight, float)
    members: dict[tuple[object, ...], list[int]] = {}
    columns = [self.views[name] for name in by]
    for place in np.flatnonzero(chosen):
      key = tuple(column.iloc[place] for column in columns)
      if not any(pd.isna(value) for value in key):
        members.setdefault(key, []).append(int(place))
    for key, several in members.items():
      places = np.array(several)
      counted = weight[places] if len(places) > 1 else np.ones(1)
      yield Group(dict(zip(by, key, strict=True)), places, counted)

  def sums(self, label: str, group: Group) -> Sums:
    """Returns the sums of a classifier's statistic over a group of views, unit by unit."""
    counts = self._counts(label, group.views)
    total, weight = self._by_unit(label, group, counts)
    some = weight > 0
    n = int(counts.any(1).sum()) if self.clusters is None else int(counts.sum())
    trials = counts.sum() * group.trials / len(group.views)
    return Sums(total[some], weight[some], n, float(trials))

  def columns(self, label: str, group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Returns Σ w x and Σ w of a group over what counts, for every unit, [K] each."""
    return self._by_unit(label, group, self._counts(label, group.views))

  def _by_unit(self, label: str, group: Group, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = self.values[label]
    total, weight = np.zeros(len(values)), np.zeros(len(values))
    step = max(1, _AT_ONCE // len(group.views))
    for start in range(0, len(values), step):
      rows = slice(start, start + step)
      total[rows] = np.where(counts[rows], values[rows, group.views], 0) @ group.weight
      weight[rows] = counts[rows] @ group.weight
    if self.clusters is None:
      return total, weight
    known, place = np.unique(self.clusters, return_inverse=True)
    return np.bincount(place, total, len(known)), np.bincount(place, weight, len(known))

  def observations(self, label: str, views: np.ndarray) -> int:
    """Returns the rows that count in some views [v], or what counts of rows × views where units
    hold several rows."""
    counts = self._counts(label, views)
    return int(counts.any(1).sum() if self.clusters is None else counts.sum())

  def _counts(self, label: str, views: np.ndarray) -> np.ndarray:
    """Returns what counts of views, bool [N, v]; of several in a sequential design, rows of all."""
    values = self.values[label]
    if self.shown is None:
      counts = np.ones((len(values), len(views)), bool)
    else:
      counts = self.shown[label][:, views]
      if self.design is not None and len(views) > 1:
        common = np.all([shown.all(1) for shown in self.shown.values()], 0)
        counts = counts & common[:, None]
    return counts & ~np.isnan(values[:, views]) if values.dtype.kind == 'f' else counts
