"""Designs of SI-Score's experiments: levels of the factors, and pairs of object and background.

A level is a combination of area, angle and position of the object. A pair is an object with one of
its backgrounds. Every pair is shown at every level, so that levels are compared on the same objects
and backgrounds. The study, the writer and the reader of data sets share this file.

A scene counts only if enough of its object is on the canvas; a released set lists just these, in
any order. Which pairs count, and therefore the mix of objects, differs between levels:
`select_balanced` selects the same pairs at all compared levels.

Reference: Yung et al., SI-Score, 2021, table 2 and appendix B, and the released generator.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError
from robustness.core.settings import choice, require

if TYPE_CHECKING:  # scenes are designed without JAX
  import jax

Alpha = TypeVar('Alpha', np.ndarray, 'jax.Array')
"""An array of NumPy or of JAX."""

SIZE, LOCATION, ROTATION = FACTORS = ('size', 'location', 'rotation')
"""The published factors; each varies in one design."""
PUBLISHED_SCENES = {SIZE: (92_884,), LOCATION: (479_184, 541_548), ROTATION: (39_540,)}
"""{factor: numbers of scenes of the published set}; a location set may hold the filtered scenes
too.
"""
LEVEL = ('area', 'angle', 'x', 'y')
"""The factors of a level; see `Design`."""
BACKGROUNDS_PER_OBJECT = 2
"""Number of backgrounds of each object, as published."""
MAX_ASPECT = 16
"""Largest ratio of the longer side of an object to its shorter side."""


@dataclasses.dataclass(frozen=True)
class Design:
  """The L combinations of factors (levels) at which every pair of object and background is shown.

  Attributes:
    name: 'size', 'location', 'rotation', or another word.
    side: Side of the square canvas in pixels.
    min_inside: A scene counts if at least this fraction of the object's rectangle is on the canvas.
    area: float64 [L], fraction of the canvas that the object's rectangle covers, in (0, 1].
    angle: float64 [L], degrees counter-clockwise.
    x, y: float64 [L], the object's centre, fractions of the side from the left and the top.
  """

  name: str
  side: int
  min_inside: float
  area: np.ndarray
  angle: np.ndarray
  x: np.ndarray
  y: np.ndarray

  def __post_init__(self) -> None:
    """Raises InputError for a value out of range, or factors of unequal lengths."""
    require(self.side >= 1, 'side', self.side, 'at least 1 pixel')
    require(0 <= self.min_inside <= 1, 'min_inside', self.min_inside, 'in [0, 1]')
    for key, values in self.factors.items():
      is_valid = values.shape == self.area.shape and values.ndim == 1 and values.size > 0
      require(is_valid, key, values.shape, 'as many values as there are levels, at least one')
      require(bool(np.isfinite(values).all()), key, values.tolist(), 'finite')
    low, high = float(self.area.min()), float(self.area.max())
    require(low > 0, 'area', low, 'above 0: an object without a size cannot be seen')
    require(high <= 1, 'area', high, 'at most 1, the whole canvas: a fraction, not percent')

  def __len__(self) -> int:
    """Returns L, the number of levels."""
    return len(self.area)

  @property
  def factors(self) -> dict[str, np.ndarray]:
    """{factor: its value at each level, float64 [L]} for area, angle, x and y."""
    return {'area': self.area, 'angle': self.angle, 'x': self.x, 'y': self.y}

  def image_ids(self, num_pairs: int) -> np.ndarray:
    """Returns the number of each scene in the released generator, int64 [num_pairs, L].

    The scene of pair p at level l has the number l · num_pairs + p.
    """
    return np.arange(num_pairs)[:, None] + num_pairs * np.arange(len(self))[None, :]


def num_mask_pixels(alpha: Alpha) -> Alpha:
  """Returns the number of pixels of a cutout's mask: those with at least half of its largest alpha.

  `alpha` is the last channel of the cutout, [h, w], in NumPy or JAX.
  """
  count: Alpha = (alpha >= alpha.max() / 2).sum()
  return count


def published(name: str) -> Design:
  """Returns the published design of one of `FACTORS`.

  'size' has areas of 1 to 100 % in the centre of a canvas of 512 pixels. 'rotation' has 1, 21, ...,
  341 degrees at 20, 50, 80 and 100 % in the centre of 512 pixels. 'location' has an area of 20 % at
  21 × 21 positions on 500 pixels. For 'location' the paper says that no scenes were filtered out,
  but its number of scenes is reached only if scenes with less than half of the object on the canvas
  are left out.
  """
  choice('the design', name, FACTORS)
  if name == SIZE:
    return cross(name, areas=np.arange(1, 101) / 100)
  if name == ROTATION:
    return cross(name, areas=(0.2, 0.5, 0.8, 1.0), angles=np.arange(1, 361, 20))
  steps = np.arange(21) / 20
  return cross(name, xs=steps, ys=steps, side=500)


def grid(cells: int, area: float = 0.2, side: int = 512, min_inside: float | None = None) -> Design:
  """Returns a design of cells² levels: the object is at the centre of each square of a grid.

  The grid divides the canvas into cells × cells squares; the paper compares patches on 56 × 56.

  Args:
    cells: number of squares along a side.
    area: area of the object as a fraction of the canvas.
    side: side of the canvas in pixels.
    min_inside: smallest fraction of the object's rectangle that must be on the canvas for a scene
      to count; None takes .5, or .95 for a single, central square.
  """
  require(cells >= 1, 'cells', cells, 'at least 1')
  steps = (np.arange(cells) + 0.5) / cells
  return cross(f'grid{cells}', areas=(area,), xs=steps, ys=steps, side=side, min_inside=min_inside)


def cross(
  name: str,
  areas: Sequence[float] | np.ndarray = (0.2,),
  angles: Sequence[float] | np.ndarray = (0.0,),
  xs: Sequence[float] | np.ndarray = (0.5,),
  ys: Sequence[float] | np.ndarray = (0.5,),
  side: int = 512,
  min_inside: float | None = None,
) -> Design:
  """Returns the design with all combinations of values.

  The levels are in the order of the released generator: x, y, area, angle (fastest).

  Args:
    name: name of the design.
    areas: areas of the object as fractions of the canvas.
    angles: angles in degrees counter-clockwise.
    xs: horizontal positions of the centre as fractions of the side from the left.
    ys: vertical positions of the centre as fractions of the side from the top.
    side: side of the canvas in pixels.
    min_inside: smallest fraction of the object's rectangle that must be on the canvas for a scene
      to count; None takes .95 if all positions are the centre, else .5, as in the published sets.
  """
  levels = np.array([*itertools.product(xs, ys, areas, angles)], np.float64).reshape(-1, 4)
  x, y, area, angle = levels.T
  design = Design(name, side, min_inside or 0.0, area=area, angle=angle, x=x, y=y)
  if min_inside is None:  # it depends on whether the positions are the centre
    return dataclasses.replace(design, min_inside=0.95 if is_centred(design) else 0.5)
  return design


def is_centred(design: Design) -> bool:
  """Returns whether objects are in the centre at every level."""
  return bool(np.all(design.x == 0.5) and np.all(design.y == 0.5))


def draw_backgrounds(num_objects: int, num_backgrounds: int, seed: int = 0) -> np.ndarray:
  """Draws two backgrounds for each object: their numbers, int64 [num_objects, 2].

  Numbers are in [0, num_backgrounds), and the two of an object differ. They are drawn object by
  object by `np.random.RandomState`, as in the published code. Seed 0 and the same files in the
  same order lead to the published pairs.
  """
  count = BACKGROUNDS_PER_OBJECT
  fix = f'at least {count}, on which each object is shown'
  require(num_backgrounds >= count, 'number of backgrounds', num_backgrounds, fix)
  random = np.random.RandomState(seed)
  pairs = [random.choice(num_backgrounds, count, replace=False) for _ in range(num_objects)]
  return np.array(pairs, np.int64).reshape(-1, count)


FACTOR_COLUMNS = {SIZE: ('area',), ROTATION: ('angle',), LOCATION: ('y', 'x')}
"""{factor: its columns in the levels}."""
LOOP_ORDER = ('x', 'y', 'area', 'angle')
"""Factors in the order of the released generator's loops, the last varying fastest."""
COLUMNS = (*LOOP_ORDER, 'object', 'background', 'fraction_inside')
"""The columns of stored scenes."""


def levels_of(design: Design) -> pd.DataFrame:
  """Returns a table with a row for each level and the columns `area`, `angle`, `x` and `y`.

  Angles are in degrees in (−180, 180]: 341 becomes −19.
  """
  levels = pd.DataFrame(design.factors)
  return levels.assign(angle=180.0 - (180.0 - levels.angle) % 360.0)


def varying_factors(levels: pd.DataFrame) -> dict[str, tuple[str, ...]]:
  """Returns {factor: its columns} of the factors that vary, such as {'size': ('area',)}.

  `levels` has a row for each level and the columns `area`, `angle`, `x` and `y`.
  """
  return {
    factor: keys for factor, keys in FACTOR_COLUMNS.items() if (levels[[*keys]].nunique() > 1).any()
  }


def group_levels(levels: pd.DataFrame, keys: Sequence[str]) -> np.ndarray:
  """Returns the number of the group of each level, int [L]; a group has equal values in `keys`.

  Groups are numbered 0, 1, … in the order of the values: for keys ('angle',) and levels with the
  angles 20, 0, 20 it returns [1, 0, 1]. Without keys all levels are in group 0.
  """
  return np.asarray(levels.groupby(list(keys)).ngroup()) if keys else np.zeros(len(levels), int)


def select_balanced(
  counts: np.ndarray, groups: ArrayLike, strata: ArrayLike, share: float = 0.0
) -> np.ndarray:
  """Selects scenes so that accuracies of groups of levels are compared on the same scenes.

  A scene is one of P pairs of object and background at one of L levels, which are combinations of
  area, position and angle. To compare angles over all areas, for example, the groups are the angles
  and the strata the areas: a pair is then selected at an area for every angle if its scenes count
  at all of them, and for no angle otherwise.

  Args:
    counts: bool [P, L], whether each scene counts.
    groups: int [L], the group of each level; accuracies of groups are compared.
    strata: int [L], the stratum of each level; the accuracy of a group is over all strata.
    share: A group is left out of the comparison if less than this fraction of its scenes counts. A
      larger value leaves out more groups, a smaller one more pairs.

  Returns:
    bool [P, L], whether each scene is selected.
  """
  group, stratum = np.asarray(groups), np.asarray(strata)
  counted_share = {value: counts[:, group == value].mean() for value in np.unique(group)}
  compared_groups = [value for value, mean in counted_share.items() if mean > 0 and mean >= share]
  is_compared = np.isin(group, compared_groups)
  is_selected = np.zeros_like(counts)
  for value in np.unique(stratum):
    levels = is_compared & (stratum == value)
    # a stratum that lacks a group would count for the other groups only
    if len(np.unique(group[levels])) == len(compared_groups):
      is_selected[:, levels] = counts[:, levels].all(1, keepdims=True)
  return is_selected


def divided_by_largest(values: ArrayLike) -> np.ndarray:
  """Returns accuracies [..., G] divided by the largest along the last axis; NaN if that is 0."""
  array = np.asarray(values, float)
  largest = np.max(array, -1, initial=0.0, where=np.isfinite(array), keepdims=True)
  return np.divide(array, largest, out=np.full(array.shape, np.nan), where=largest > 0)


@dataclasses.dataclass(frozen=True)
class SceneTable:
  """The positions of N stored scenes in a table of P pairs (rows) and L levels (columns).

  Attributes:
    design: The levels that occur, in the order of the generator's loop: x, y, area, angle.
    objects: int [P], the number of the object of each pair.
    pair, level: int [N], row and column of each scene in the table.
  """

  design: Design
  objects: np.ndarray
  pair: np.ndarray
  level: np.ndarray

  def spread(self, values: np.ndarray, absent: float | bool = 0) -> np.ndarray:
    """Returns a table [pairs, levels] of one value per stored scene, [N].

    Scenes that are not stored have the value `absent`.
    """
    table = np.full((len(self.objects), len(self.design)), absent, values.dtype)
    table[self.pair, self.level] = values
    return table


def tabulate(columns: Mapping[str, np.ndarray], name: str, side: int) -> SceneTable:
  """Arranges N stored scenes in a table [pairs, levels], and returns the cell of each scene.

  A pair is an object and a background, a level a combination of x, y, area and angle.

  Args:
    columns: arrays [N] by name. `area` is a fraction of the canvas, `angle` in degrees, and `x` and
      `y` are fractions of its side; `object` and `background` are numbers; `fraction_inside` is
      the fraction of the object's rectangle that is on the canvas.
    name: name of the design that the result has.
    side: side of the canvas in pixels.

  Raises:
    InputError: a scene is stored twice, or a number is invalid.
  """
  for key in (*LOOP_ORDER, 'fraction_inside'):
    numbers = columns[key]
    is_valid = numbers.ndim == 1 and numbers.dtype.kind in 'iuf' and np.isfinite(numbers).all()
    require(bool(is_valid), key, numbers.tolist()[:3], 'a finite number for each scene')
  inside = columns['fraction_inside']
  for share in (float(inside.min()), float(inside.max())):
    require(0 <= share <= 1, 'fraction_inside', share, 'a fraction in [0, 1]')
  # Stored factors in single precision, such as 0.2, become the decimals that they stand for.
  factors = np.round(np.stack([columns[factor] for factor in LOOP_ORDER]).astype(np.float64), 7)
  levels, level_of_scene = np.unique(factors, axis=1, return_inverse=True)
  objects_and_backgrounds = np.stack([columns['object'], columns['background']])
  pairs, pair_of_scene = np.unique(objects_and_backgrounds, axis=1, return_inverse=True)
  level, pair = level_of_scene.ravel(), pair_of_scene.ravel()  # [N]
  num_scenes = np.zeros((pairs.shape[1], levels.shape[1]), int)  # of each pair at each level
  np.add.at(num_scenes, (pair, level), 1)
  if num_scenes.max() > 1:
    repeated_pair, repeated_level = np.argwhere(num_scenes > 1)[0]
    values = zip(LOOP_ORDER, levels[:, repeated_level], strict=True)
    place = ', '.join(f'{factor} {value:g}' for factor, value in values)
    raise InputError(
      'object {} on background {} '.format(*pairs[:, repeated_pair])
      + f'is stored more than once at {place}; are several sets mixed?'
    )
  x, y, area, angle = levels  # the order of LOOP_ORDER
  design = Design(name, side, float(inside.min()), area=area, angle=angle, x=x, y=y)
  return SceneTable(design, objects=pairs[0], pair=pair, level=level)
