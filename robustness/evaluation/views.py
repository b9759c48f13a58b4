"""Views: the ways in which a study shows every image, and their names.

A row is a stored image with its label and further columns. A view, such as fog at severity 3,
computes from it, on the device, the image that the classifier predicts.
"""

import dataclasses
import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.evaluation.records import Shard

Arrays = Mapping[str, jax.Array]
"""The columns of a row, or the parameters of a view, by name."""
Show = Callable[..., Any]
"""A function that shows a row in a view, see `Views.show`."""
Observe = Callable[..., Mapping[str, jax.Array]]
"""A function that measures a shown image, see `Views.measure`."""

ALL_VIEWS = 'all views'
"""Name of the group of all views."""
MAX_NAMED_VIEWS = 100
"""Largest number of views that are reported one by one."""
DRAWS = 'draws'
"""Name of a parameter of views, or column of rows, that replaces the view's id in random keys."""


STAGED = 'staged'
"""Prefix of columns of rows, and name of a parameter of views, for views with `Views.stages`. State
number k, the results of all steps of one view, is in the columns `staged/<k>/<name>`, and the view
has the parameter `staged` = k."""


@dataclasses.dataclass(frozen=True)
class Stages:
  """A long attack, such as AutoAttack, divided into runs of compiled programs.

  Progress is shown between runs. A run is, for example, one restart of one of AutoAttack's attacks.
  The state of a batch, such as adversarial images, is passed from run to run.

  Attributes:
    steps: called with the parameters of a view and the classifier's number of classes. It returns
      the runs of the view as [(name, program, run)], or [] for a view without. `name` is shown to
      the user. `program` identifies a compiled program, such as (index of the ensemble, index of an
      attack in it). `run` counts runs of this program, such as restarts.
    begin: pure function `(rows, logits) -> state`, {name: [B, ...]}, before the first run.
      `state['is_right']`, bool [B], says which images need further runs.
    advance: pure function `(program, keys, rows, view, logits, state, run) -> state` for one run.
      It is compiled once for each `program`; `run` is a traced integer.
  """

  steps: Callable[[Mapping[str, Any], int], Sequence[tuple[str, Hashable, int]]]
  begin: Callable[..., Mapping[str, jax.Array]]
  advance: Callable[..., Mapping[str, jax.Array]]


def state_after_stages(rows: Arrays, view: Arrays) -> dict[str, jax.Array]:
  """Returns the result of the attack runs in `Views.stages` for one view, {name: [B, ...]}.

  `Views.show` calls it, for example to read the images that AutoAttack found. The result is {} if
  there were no runs, as for a single image in a report.

  Args:
    rows: columns of B images, [B, ...]. 'staged/k/NAME' (`STAGED`) are the arrays of result number
      k.
    view: parameters of the view; 'staged' is the number of its result.
  """
  arrays_by_name: dict[str, list[jax.Array]] = {}  # the array of each state, in order
  for column, values in rows.items():
    if column.startswith(f'{STAGED}/'):
      _, _number, name = column.split('/', 2)
      arrays_by_name.setdefault(name, []).append(values)
  return {name: jnp.stack(arrays)[view[STAGED]] for name, arrays in arrays_by_name.items()}


@dataclasses.dataclass(frozen=True)
class Views:
  """V ways to perturb every image, such as corruptions at several severities.

  Attributes:
    show: pure function `(key, row, view) -> image` of one image and one view. `row` is a dict with
      `image` [H, W, C] in [0, 1] and the study's columns. `view` holds the view's entries of
      `parameters`. The result is an image for the classifier. With `uses_classifier` there is a
      fourth argument, for attacks: `logits(images [B, H, W, C]) -> [B, classes]`.
    ids: distinct int32 [V]. A view's random keys depend on its id, so an id must not depend on the
      other views of a run.
    parameters: {name: array [V, ...]}. They are traced, so that all views share one compiled
      program. Views with equal values of a parameter 'draws' (`DRAWS`), int32 [V], use the same
      random numbers: keys then depend on it instead of the id. A column 'draws' of the data takes
      precedence over both.
    uses_classifier: whether `show`, `measure` and `total` take `logits`.
    together: whether `show` takes all B images of a device at once, keys [B] and columns [B, ...].
      It then returns images [B, H, W, C], and {name: [B, ...]}, which are recorded as
      `measure/<name>`. Attacks need this to skip images that are misclassified already. It requires
      `uses_classifier`.
    stages: runs of a long attack before `show`, such as AutoAttack, with progress between them;
      None for none. It requires `together`. `show` reads their result by `state_after_stages(rows,
      view)`. If that is {}, as for a single image in a report, `show` computes everything itself.
    image_shape: height, width and channels of perturbed images if they differ from the stored
      images'. They are then resized to the classifier's input. A study without a classifier always
      sets it.
    measure: pure function `(row, shown image, view) -> {name: array}`, recorded for every image and
      view as `measure/<name>` [rows, views, ...]. With `uses_classifier`, `logits` is its fourth
      argument.
    total: like `measure`, for values in [0, 2048). They are rounded to multiples of 2⁻²⁰, summed
      exactly over the images, and recorded for every view as `total/<name>` [views, ...].
    prepare: pure function from a row to a row with the computations that all views share, or None.
    add_columns: function from `Rows` to the same data with further columns that the views need,
      such as each image's clean version, read on the host; or None.
    composes: whether a view composes its image from several stored images, such as a foreground and
      a background, which are not shown by themselves.
    sequential: whether a CPU perturbs images one after another. It suits large images and functions
      with branches (`lax.cond`), because `vmap` would compute all branches.
  """

  show: Show
  ids: np.ndarray
  parameters: Mapping[str, np.ndarray]
  uses_classifier: bool = False
  together: bool = False
  stages: Stages | None = None
  image_shape: tuple[int, int, int] | None = None
  measure: Observe | None = None
  total: Observe | None = None
  prepare: Callable[[Mapping[str, jax.Array]], dict[str, jax.Array]] | None = None
  add_columns: Callable[[Rows], Rows] | None = None
  composes: bool = False
  sequential: bool = False

  def __post_init__(self) -> None:
    """Raises InputError unless ids are distinct integers and parameters have a value for each view.

    A view is one way of perturbing images, with an id that random numbers depend on, and parameters
    {name: [V, ...]} that say how.
    """
    ids = np.asarray(self.ids)
    if ids.ndim != 1 or ids.dtype.kind not in 'iu' or len(np.unique(ids)) < len(ids):
      raise InputError(
        f'ids of views are {self.ids!r}: give an array [V] of distinct integers, because views '
        f'with equal ids draw equal random numbers (which a parameter {DRAWS!r} is for).'
      )
    for name, values in self.parameters.items():
      if np.shape(values)[:1] != ids.shape:
        raise InputError(
          f'the parameter {name!r} of views has shape {np.shape(values)}: give an array with a '
          f'value for each of the {len(ids)} views.'
        )

  def __len__(self) -> int:
    """Returns V, the number of views."""
    return len(self.ids)

  def at(self, index: int | np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns ids and parameters of one view (an index) or several views (indices [v])."""
    return self.ids[index], {name: values[index] for name, values in self.parameters.items()}

  def describe(self, index: int) -> str:
    """Returns a view's name for messages, such as 'view 3 (fy=-2, fx=5)', given its index."""
    return f'view {index} ({self.values(index)})'

  def values(self, index: int) -> str:
    """Returns a view's parameters as text, such as 'fy=-2, fx=5', given its index.

    Only parameters that are single numbers are included.
    """
    return ', '.join(f'{k}={v[index]!s}' for k, v in self.parameters.items() if v.ndim == 1)


ONLY = 'identity'
"""Name of the parameter, always 0, of the view in `stored_view`."""


def id_of(words: str) -> int:
  """Returns an id for the view with a description such as 'pgd 0.03', in [0, 2³¹ − 2].

  It is a digest of the words, and therefore the same in all runs.
  """
  return zlib.crc32(words.encode()) % (2**31 - 1)


def view_key(root: jax.Array, row: Arrays, view_id: jax.Array, view: Arrays) -> jax.Array:
  """Returns the random key of one image in one view.

  The key depends on `root`, the image's id and the view's id. A value 'draws' (`DRAWS`) of the
  image, or else of the view, takes the place of the view's id. Images or views with equal values
  then use the same random numbers.

  Args:
    root: root key of the study.
    row: columns of the image.
    view_id: id of the view, int32.
    view: parameters of the view.
  """
  draws = row.get(DRAWS, view.get(DRAWS, view_id))
  return random_keys.for_example(root, row['example_id'], draws)


def stored_view() -> Views:
  """Returns a single view that shows every image as it is stored."""
  return Views(
    show=lambda key, row, view: row['image'],
    ids=np.zeros(1, np.int32),
    parameters={ONLY: np.zeros(1, np.int32)},  # not used; views have at least one parameter
  )


@dataclasses.dataclass(frozen=True)
class ViewTable:
  """Names of the V views of a study, and the groups of views that results are averaged over.

  Attributes:
    names: the names of the views.
    clean: index of the view that shows images unchanged; None without such a view.
    counted: bool [N, V], whether an image counts in the results of a view; None if all do.
    rows: for images that are stored corrupted, as in ImageNet-C, what each image shows, such as
      'fog 3', [N]. Reports print it in place of the view's name. None for other images.
    groups: {name of the group: indices of its views}, such as the five severities of a corruption.
    units: int [N], equal for images that depend on one another, such as scenes with the same
      object; None if all are independent.
    facets: {name of a view or group: {column of the results: value}}, such as {'fog 3':
      {'corruption': 'fog', 'severity': 3}}.
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
    """Returns a table of views from their names and groups.

    Args:
      names: distinct names of the views.
      groups: {name of the group: indices of its views}. A group 'clean' holds the clean view. By
        default there is a group of all views, and a group for each view if there are at most
        `MAX_NAMED_VIEWS`.
    """
    if groups is None:
      reported_views = enumerate(names) if len(names) <= MAX_NAMED_VIEWS else ()
      groups = {name: [view] for view, name in reported_views}
      if len(names) > 1:
        groups[ALL_VIEWS] = list(range(len(names)))
    clean_views = groups.get('clean')
    clean = clean_views[0] if clean_views else None  # the only view of its group
    return cls(names, clean, groups=groups)

  def facets_of(self, name: str) -> Mapping[str, object]:
    """Returns the columns that identify a view or group in results, such as {'severity': 3}.

    A name without an entry in `facets` has {'view': name}.
    """
    return self.facets.get(name, {'view': name})

  def counted_in(self, shard: Shard) -> np.ndarray:
    """Returns which of a shard's images count in which views, bool [n, v].

    Images do not count in the clean view if there are other views, because results are about these.

    Args:
      shard: records of n images in v views.
    """
    counted = np.ones(shard['rank'].shape, bool)
    if self.counted is not None:
      counted &= self.counted[shard.rows, shard.views]
    if self.clean is not None and len(self.names) > 1:
      counted &= np.arange(shard.views.start, shard.views.stop) != self.clean
    return counted
