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
"""{factor: possible numbers of scenes of the published set}. A location set may have all scenes, or
only those with at least half of the object on the canvas.
"""
LEVEL = ('area', 'angle', 'x', 'y')
"""The factors of a level; see `Design`."""
BACKGROUNDS_PER_OBJECT = 2
"""Number of backgrounds of each object, as published."""
MAX_ASPECT = 16
"""Largest ratio of the longer side of an object to its shorter side."""


@dataclasses.dataclass(frozen=True)
class Design:
  """L ways to place an object in a scene, each a combination of area, angle and centre.

  A combination is called a level. In an experiment each pair of object and background is shown at
  every level.

  Attributes:
    name: name of the design, such as 'size', 'location' or 'rotation'.
    side: side of the square canvas in pixels.
    min_inside: scenes with a smaller fraction of the object's rectangle on the canvas are left out.
    area: float64 [L], fraction of the canvas that the object's rectangle covers, in (0, 1].
    angle: float64 [L], degrees counter-clockwise.
    x, y: float64 [L], the object's centre as fractions of the side, from the left and the top.
  """

  name: str
  side: int
  min_inside: float
  area: np.ndarray
  angle: np.ndarray
  x: np.ndarray
  y: np.ndarray

  def __post_init__(self) -> None:
    """Raises InputError for a value out of range, or factors of unequal lengths.

    A design lists the levels at which objects are shown: `factors` are area, angle and position (x,
    y), each an array with a value for each level.
    """
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
    """{factor: its value at each of L levels, float64 [L]}, for area, angle, x and y.

    A level is a combination of the four factors at which objects are shown.
    """
    return {'area': self.area, 'angle': self.angle, 'x': self.x, 'y': self.y}

  def image_ids(self, num_pairs: int) -> np.ndarray:
    """Returns the numbers of the scenes in SI-Score's generator, int64 [num_pairs, L].

    The scene of pair p (an object and a background) at combination l of factors is number l ·
    num_pairs + p.

    Args:
      num_pairs: number of pairs.
    """
    return np.arange(num_pairs)[:, None] + num_pairs * np.arange(len(self))[None, :]


def num_mask_pixels(alpha: Alpha) -> Alpha:
  """Counts the pixels of a cutout's mask, where alpha is at least half of its maximum.

  Args:
    alpha: the last channel of the cutout, [h, w], in NumPy or JAX.
  """
  count: Alpha = (alpha >= alpha.max() / 2).sum()
  return count


def published(name: str) -> Design:
  """Returns one of the three designs of the SI-Score paper.

  * 'size' has areas of 1 to 100 % at the centre of a canvas of 512 pixels.
  * 'rotation' has 1, 21, ..., 341 degrees at areas of 20, 50, 80 and 100 %, at the centre of 512
    pixels.
  * 'location' has an area of 20 % at 21 × 21 positions on 500 pixels.

  For 'location', the published number of scenes is reached only if scenes with less than half of
  the object on the canvas are left out. The paper says that none were.
  """
  choice('the design', name, FACTORS)
  if name == SIZE:
    return cross(name, areas=np.arange(1, 101) / 100)
  if name == ROTATION:
    return cross(name, areas=(0.2, 0.5, 0.8, 1.0), angles=np.arange(1, 361, 20))
  steps = np.arange(21) / 20
  return cross(name, xs=steps, ys=steps, side=500)


def grid(cells: int, area: float = 0.2, side: int = 512, min_inside: float | None = None) -> Design:
  """Returns a design that shows the object at the centre of each square of a grid.

  The grid divides the canvas into cells × cells squares.

  Args:
    cells: number of squares along a side.
    area: area of the object as a fraction of the canvas.
    side: side of the canvas in pixels.
    min_inside: scenes with a smaller fraction of the object's rectangle on the canvas are left out.
      None takes .5, or .95 if `cells` is 1.
  """
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
  """Returns a design with all combinations of the given areas, angles and positions.

  The combinations are in the order of the released generator: x, y, area, angle (fastest).

  Args:
    name: name of the design.
    areas: areas of the object as fractions of the canvas.
    angles: angles in degrees counter-clockwise.
    xs: horizontal positions of the object's centre, from 0 (left edge) to 1 (right edge).
    ys: vertical positions of the object's centre, from 0 (top edge) to 1 (bottom edge).
    side: side of the square canvas in pixels.
    min_inside: scenes with a smaller fraction of the object's rectangle on the canvas are left out.
      None takes the published values: .95 if the object is always at the centre, else .5.
  """
  levels = np.array([*itertools.product(xs, ys, areas, angles)], np.float64).reshape(-1, 4)
  x, y, area, angle = levels.T
  design = Design(name, side, min_inside or 0.0, area=area, angle=angle, x=x, y=y)
  if min_inside is None:  # it depends on whether the positions are the centre
    return dataclasses.replace(design, min_inside=0.95 if is_centred(design) else 0.5)
  return design


def is_centred(design: Design) -> bool:
  """Returns whether the design always shows objects at the centre of the canvas."""
  return bool(np.all(design.x == 0.5) and np.all(design.y == 0.5))


def draw_backgrounds(num_objects: int, num_backgrounds: int, seed: int = 0) -> np.ndarray:
  """Draws two different backgrounds for each object, int64 [num_objects, 2].

  Entries are indices in [0, num_backgrounds). They are drawn object by object by
  `np.random.RandomState`, as in SI-Score's code. With seed 0 and the published files in the same
  order, the pairs are the published ones.
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
  """Returns the design as a table with the columns `area`, `angle`, `x` and `y`.

  There is a row for each combination of factors ("level"). Angles are mapped to (−180, 180]
  degrees, for instance 341 to −19.
  """
  levels = pd.DataFrame(design.factors)
  return levels.assign(angle=180.0 - (180.0 - levels.angle) % 360.0)


def varying_factors(levels: pd.DataFrame) -> dict[str, tuple[str, ...]]:
  """Returns {factor: its columns} for the factors that vary, such as {'size': ('area',)}.

  Args:
    levels: table with the columns `area`, `angle`, `x` and `y` and a row for each combination.
  """
  return {
    factor: keys for factor, keys in FACTOR_COLUMNS.items() if (levels[[*keys]].nunique() > 1).any()
  }


def group_levels(levels: pd.DataFrame, keys: Sequence[str]) -> np.ndarray:
  """Numbers the groups of rows that have equal values in the columns `keys`; int [L].

  Groups are numbered 0, 1, … in ascending order of their values. For keys ('angle',) and rows with
  the angles 20, 0, 20 the result is [1, 0, 1]. Without keys all rows are in group 0.

  Args:
    levels: table with L rows, one for each combination of area, angle, x and y.
    keys: names of columns.
  """
  return np.asarray(levels.groupby(list(keys)).ngroup()) if keys else np.zeros(len(levels), int)


def select_balanced(
  counts: np.ndarray, groups: ArrayLike, strata: ArrayLike, share: float = 0.0
) -> np.ndarray:
  """Selects scenes so that all compared accuracies are over the same objects and backgrounds.

  A scene shows one of P pairs (object, background) at one of L levels (area, angle, position).
  Scenes with too little of the object on the canvas do not count, so accuracy at two angles could
  be over different objects. To compare angles, the groups are the angles and the strata the areas.
  A pair is then used at an area only if its scenes there count at all angles.

  Args:
    counts: bool [P, L], whether each scene counts.
    groups: int [L], the group of each level. The accuracies of groups are compared.
    strata: int [L], the stratum of each level. The accuracy of a group is over all strata.
    share: A group is not compared if less than this fraction of its scenes count. A larger value
      leaves out more groups; a smaller one leaves out more pairs.

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
  """Divides accuracies [..., G] by the largest along the last axis; NaN if the largest is 0."""
  array = np.asarray(values, float)
  largest = np.max(array, -1, initial=0.0, where=np.isfinite(array), keepdims=True)
  return np.divide(array, largest, out=np.full(array.shape, np.nan), where=largest > 0)


@dataclasses.dataclass(frozen=True)
class SceneTable:
  """A sparse table of N stored scenes, with a row for each of P pairs and L columns.

  A pair is an object and a background. Each column is a level: a combination of x, y, area and
  angle at which objects are shown.

  Attributes:
    design: the L levels, sorted by x, y, area and angle.
    objects: int [P], the number of each pair's object.
    pair: int [N], the table row of each scene.
    level: int [N], the table column of each scene.
  """

  design: Design
  objects: np.ndarray
  pair: np.ndarray
  level: np.ndarray

  def spread(self, values: np.ndarray, absent: float | bool = 0) -> np.ndarray:
    """Arranges one value per stored scene in a table, [N] to [P, L].

    The table has a row for each of P pairs (object, background) and a column for each of L levels
    (combinations of area, angle and position).

    Args:
      values: [N], in the order of the stored scenes.
      absent: value of the cells without a stored scene.
    """
    table = np.full((len(self.objects), len(self.design)), absent, values.dtype)
    table[self.pair, self.level] = values
    return table


def tabulate(columns: Mapping[str, np.ndarray], name: str, side: int) -> SceneTable:
  """Finds the row (pair) and the column (level) of each of N stored scenes in a table.

  A pair is an object and a background. A level is a combination of x, y, area and angle.

  Args:
    columns: arrays [N] by name. `area` is a fraction of the canvas, `angle` is in degrees, and `x`
      and `y` are fractions of the canvas's side. `object` and `background` are numbers.
      `fraction_inside` is the fraction of the object's rectangle that is on the canvas.
    name: name for the design of the result.
    side: side of the canvas in pixels.

  Raises:
    InputError: A scene is stored twice, or a number is invalid.
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
    object_number, background = pairs[:, repeated_pair]
    scene = f'object {object_number} on background {background}'
    raise InputError(f'{scene} is stored more than once at {place}; are several sets mixed?')
  x, y, area, angle = levels  # the order of LOOP_ORDER
  design = Design(name, side, float(inside.min()), area=area, angle=angle, x=x, y=y)
  return SceneTable(design, objects=pairs[0], pair=pair, level=level)
