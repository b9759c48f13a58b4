"""Views: the ways in which a study shows every row, and what they are called."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax
import numpy as np

from robustness.core import random_keys
from robustness.core.rows import Rows
from robustness.evaluation.records import Shard

Arrays = Mapping[str, jax.Array]
"""Columns of a row, or parameters of a view."""
Show = Callable[..., Any]
Observe = Callable[..., Mapping[str, jax.Array]]

ALL_VIEWS = 'all views'
"""The name of the group of all of them."""
MOST_NAMED = 100
"""Views that are reported one by one."""
DRAWS = 'draws'
"""The parameter of views that random keys follow from in place of the id."""


@dataclasses.dataclass(frozen=True)
class Views:
  """V ways of showing every row, as data.

  Attributes:
    show: pure function `(key, row, view) -> image` of one row and one view; `row` is a dict with
      `image` [H, W, C] in [0, 1] and the study's columns, `view` one entry of `parameters`, the
      result an image the classifier takes. With `uses_classifier` it is called with a fourth
      argument `logits(images [B, H, W, C]) -> [B, classes]`, for attacks.
    ids: int32 [V], distinct; a view's random keys depend on its id alone, so an id must not
      depend on which other views a run holds.
    parameters: arrays [V, ...]; traced, so that all views share one compilation. Keys depend on the
      parameter `DRAWS`, int32 [V], in place of the id where there is one: equal values draw the
      same. A column `DRAWS` of the rows comes before both.
    uses_classifier: whether `show`, `measure` and `total` take `logits`.
    together: whether `show` takes all rows of a device at once, keys [B] and columns [B, ...], so
      that it can leave out finished rows; it returns images [B, H, W, C] and {name: [B, ...]},
      recorded as `measure/<name>`. Views with `uses_classifier` only.
    image_shape: of shown images where rows have another one; the runner then resizes them to what
      the classifier takes. A study without a classifier always sets it.
    measure: pure function `(row, shown image, view) -> {name: array}`, recorded for every row and
      view as `measure/<name>` [rows, views, ...]; where `show` has `logits`, they are the fourth.
    total: the same for values in [0, 2048), which are summed over the rows and recorded for every
      view as `total/<name>` [views, ...]; sums are exact, of multiples of 2⁻²⁰.
    prepare: pure function from a row to a row, or None: what all views of a row share.
    add_columns: function from `Rows` to the same rows with further columns that the views need,
      such as each row's clean image, read on the host; or None.
    composes: whether a view makes its picture of several images that are not shown alone.
    sequential: whether rows are shown one after another where the device is a CPU: it suits large
      images that are made with choices, as all branches of a choice would be computed at once.
  """

  show: Show
  ids: np.ndarray
  parameters: Mapping[str, np.ndarray]
  uses_classifier: bool = False
  together: bool = False
  image_shape: tuple[int, int, int] | None = None
  measure: Observe | None = None
  total: Observe | None = None
  prepare: Callable[[Mapping[str, jax.Array]], dict[str, jax.Array]] | None = None
  add_columns: Callable[[Rows], Rows] | None = None
  composes: bool = False
  sequential: bool = False

  def __len__(self) -> int:
    return len(self.ids)

  def describe(self, index: int) -> str:
    """Names a view in messages, for example `view 3 (fy=-2, fx=5)`."""
    return f'view {index} ({self.values(index)})'

  def values(self, index: int) -> str:
    """Returns the plain parameters of a view, for example `fy=-2, fx=5`."""
    return ', '.join(f'{k}={v[index]!s}' for k, v in self.parameters.items() if v.ndim == 1)


ONLY = 'identity'
"""The parameter of a view that is alone."""


def key_of(root: jax.Array, row: Arrays, view_id: jax.Array, view: Arrays) -> jax.Array:
  """Returns the random key of one row in one view, from the root key of the study; see `DRAWS`."""
  draws = row.get(DRAWS, view.get(DRAWS, view_id))
  return random_keys.for_example(root, row['example_id'], draws)


def identity() -> Views:
  """Returns the single view that shows every row as it is stored."""
  return Views(
    show=lambda key, row, view: row['image'],
    ids=np.zeros(1, np.int32),
    parameters={ONLY: np.zeros(1, np.int32)},
  )


@dataclasses.dataclass(frozen=True)
class ViewTable:
  """Names and groups of the views, the columns of records.

  Attributes:
    names: of the V views.
    clean: place of the view that shows images clean, or None.
    counted: bool [N, V], which images count in which view; None where all do.
    rows: names of what each row shows where rows are stored as views show them, [N]; or None.
    groups: places of views that are averaged over, by what they are together.
    units: int [N], equal for images that depend on one another, such as scenes of one object.
    facets: {name: {facet: value}} of views and groups, see `facets_of`.
  """

  names: Sequence[str]
  clean: int | None = None
  counted: np.ndarray | None = None
  rows: Sequence[str] | None = None
  groups: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)
  units: np.ndarray | None = None
  facets: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)

  @classmethod
  def of(cls, names: Sequence[str], groups: Mapping[str, Sequence[int]] | None = None) -> Self:
    """Returns the table of views by their distinct names.

    `groups` are as in `ViewTable`, with the clean view as 'clean'; by default each of up to
    `MOST_NAMED` views is alone, and all are together.
    """
    if groups is None:
      groups = {name: [view] for view, name in enumerate(names) if len(names) <= MOST_NAMED}
      groups |= {ALL_VIEWS: list(range(len(names)))} if len(names) > 1 else {}
    clean = groups.get('clean')
    return cls(names, clean[0] if clean else None, groups=groups)

  def facets_of(self, name: str) -> Mapping[str, object]:
    """Returns the facets of a view or group in the table of results, its name where it has none."""
    return self.facets.get(name, {'view': name})

  def counted_in(self, shard: Shard) -> np.ndarray:
    """Returns which images of a shard count in which of its views, bool [n, v]; none when clean."""
    shape = shard['rank'].shape
    counted = np.ones(shape, bool)
    if self.counted is not None:
      counted &= self.counted[shard.rows, shard.views]
    if self.clean is not None and len(self.names) > 1:
      counted &= np.arange(shard.views.start, shard.views.stop) != self.clean
    return counted
