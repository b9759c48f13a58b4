"""What the columns of records are, where classes and images are looked at over all views."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.evaluation.records import Shard


@dataclasses.dataclass(frozen=True)
class ViewTable:
  """What the columns of records are.

  Attributes:
    names: of the V views.
    clean: place of the view that shows images clean, or None.
    counted: bool [N, V], which images count in which view; None where all do.
    rows: names of what each row shows where rows are stored as views show them, [N]; or None.
    groups: places of views that are averaged over, by what they are together.
    units: int [N], equal for images that are not independent of one another, such as scenes of one
      object; None where all are.
    facets: {name: {facet: value}} of views and groups, see `facets_of`.
  """

  names: Sequence[str]
  clean: int | None = None
  counted: np.ndarray | None = None
  rows: Sequence[str] | None = None
  groups: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
  units: np.ndarray | None = None
  facets: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

  def facets_of(self, name: str) -> Mapping[str, Any]:
    """Returns the facets of a view or group in the table of results, its name where it has none."""
    return self.facets.get(name, {'view': name})

  def of(self, shard: Shard) -> np.ndarray:
    """Returns which images of a shard count in which of its views, bool [n, v]; none when clean."""
    shape = shard['rank'].shape
    counted = np.ones(shape, bool)
    if self.counted is not None:
      counted &= self.counted[shard.rows, shard.views]
    if self.clean is not None and len(self.names) > 1:
      counted &= np.arange(shard.views.start, shard.views.stop) != self.clean
    return counted

  def shown(self, row: int, view: int) -> str:
    """Names what an image is shown as."""
    return self.names[view] if self.rows is None else self.rows[row]
