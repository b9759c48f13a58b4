"""The design of SI-Score as data: levels of the factors, pairs of object and background.

A level is one combination of area, angle and place. Every pair is shown at every level, so that
levels are compared on the same objects and backgrounds. The study, the writer and the reader of
data sets share this file.

A scene counts if enough of its object is inside; a released set is a list of scenes in any order,
without those that were filtered out. Which pairs count therefore differs between levels, and with
it the mix of objects: `balanced` keeps the same pairs at all levels compared.

Reference: Yung et al., SI-Score, 2021, table 2 and appendix B, and the released generator.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.core.errors import InputError, nearest
from robustness.core.settings import require

SIZE, LOCATION, ROTATION = FACTORS = ('size', 'location', 'rotation')
LEVEL = ('area', 'angle', 'x', 'y')
"""What a level is made of; see `Design`."""
BACKGROUNDS_PER_OBJECT = 2
LONGEST = 16
"""The longer side of an object divided by its shorter side, at most."""


@dataclasses.dataclass(frozen=True)
class Design:
  """Levels at which every pair is shown.

  Attributes:
    name: 'size', 'location', 'rotation', or another word.
    side: of the square canvas, pixels.
    min_inside: a scene counts if at least this share of the object's rectangle is on the canvas.
    area: float64 [L], what the object's rectangle covers of the canvas, in (0, 1].
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
    require(self.side >= 1, 'side', self.side, 'at least 1 pixel')
    require(0 <= self.min_inside <= 1, 'min_inside', self.min_inside, 'in [0, 1]')
    for key, values in self.factors.items():
      fits = values.shape == self.area.shape and values.ndim == 1 and values.size > 0
      require(fits, key, values.shape, 'as many values as there are levels, at least one')
      require(bool(np.isfinite(values).all()), key, values.tolist(), 'finite')
    least = float(self.area.min())
    require(least > 0, 'area', least, 'above 0: an object without a size cannot be seen')
    most = float(self.area.max())
    require(most <= 1, 'area', most, 'at most 1, the whole canvas: a fraction, not percent')

  def __len__(self) -> int:
    return len(self.area)

  @property
  def factors(self) -> dict[str, np.ndarray]:
    """What levels are made of, in the order of `LEVEL`."""
    return {'area': self.area, 'angle': self.angle, 'x': self.x, 'y': self.y}

  def image_ids(self, num_pairs: int) -> np.ndarray:
    """Returns the reference's numbers of the scenes, int64 [num_pairs, L]: pairs run fastest."""
    return np.arange(num_pairs)[:, None] + num_pairs * np.arange(len(self))[None, :]


def published(name: str) -> Design:
  """Returns one of the three published designs, of `FACTORS`.

  'size': 1 to 100 % in the centre of 512 pixels. 'rotation': 1, 21, ..., 341 degrees at 20, 50, 80
  and 100 % in the centre of 512 pixels. 'location': 20 % at 21 × 21 places of 500 pixels. The
  published count of location scenes fits a minimum of .5 inside, and not the text's 'no filter'.
  """
  if name == 'size':
    return cross('size', areas=np.arange(1, 101) / 100)
  if name == 'rotation':
    return cross('rotation', areas=(0.2, 0.5, 0.8, 1.0), angles=np.arange(1, 361, 20))
  if name == 'location':
    steps = np.arange(21) / 20
    return cross('location', xs=steps, ys=steps, side=500)
  raise InputError(f'no design {name!r}; {nearest(name, FACTORS)}.')


def grid(cells: int, area: float = 0.2, side: int = 512, min_inside: float | None = None) -> Design:
  """Returns cells × cells places, as in the paper's comparison of patches (56 × 56).

  They are the centres of cells, (i + .5) / cells. See `cross` for `min_inside`.
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
  """Returns the cross product of values, in the reference's order: x, y, area, angle (fastest).

  `min_inside` is by default that of the published sets: .95, or .5 if a place is not the centre.
  """
  levels = np.array([*itertools.product(xs, ys, areas, angles)], np.float64).reshape(-1, 4)
  x, y, area, angle = levels.T
  design = Design(name, side, min_inside or 0.0, area=area, angle=angle, x=x, y=y)
  if min_inside is None:
    return dataclasses.replace(design, min_inside=0.95 if is_centred(design) else 0.5)
  return design


def is_centred(design: Design) -> bool:
  """Returns whether objects are in the centre at every level."""
  return bool(np.all(design.x == 0.5) and np.all(design.y == 0.5))


def draw_backgrounds(num_objects: int, num_backgrounds: int, seed: int = 0) -> np.ndarray:
  """Returns which backgrounds each object is shown on, int64 [num_objects, 2].

  Drawn object by object without replacement from NumPy's legacy generator, as the released
  generator does with seed 0: the same files in the same order give the same pairs.
  """
  valid = f'at least {BACKGROUNDS_PER_OBJECT}, on which each object is shown'
  require(
    num_backgrounds >= BACKGROUNDS_PER_OBJECT, 'number of backgrounds', num_backgrounds, valid
  )
  drawn, size = np.random.RandomState(seed), BACKGROUNDS_PER_OBJECT
  each = [drawn.choice(num_backgrounds, size, replace=False) for _ in range(num_objects)]
  return np.array(each, np.int64).reshape(-1, size)


KEYS = {SIZE: ('area',), ROTATION: ('angle',), LOCATION: ('y', 'x')}
"""Of a level, by factor."""
LOOP_ORDER = ('x', 'y', 'area', 'angle')
COLUMNS = (*LOOP_ORDER, 'object', 'background', 'fraction_inside')
"""Of stored scenes."""


def levels_of(design: Design) -> pd.DataFrame:
  """Returns `area`, `angle`, `x` and `y` of each level; angles in degrees in (−180, 180]."""
  levels = pd.DataFrame(design.factors)
  return levels.assign(angle=180.0 - (180.0 - levels.angle) % 360.0)


def varying(levels: pd.DataFrame) -> dict[str, tuple[str, ...]]:
  """Returns the factors that have more than one value, with their keys."""
  return {
    factor: keys for factor, keys in KEYS.items() if any(levels[key].nunique() > 1 for key in keys)
  }


def places(levels: pd.DataFrame, keys: Sequence[str]) -> np.ndarray:
  """Returns which levels agree in some keys, int [L]; all do in none."""
  return np.asarray(levels.groupby(list(keys)).ngroup()) if keys else np.zeros(len(levels), int)


def balanced(
  shown: np.ndarray, groups: ArrayLike, strata: ArrayLike, share: float = 0.0
) -> np.ndarray:
  """Returns which scenes make up the same mix in every group of levels, bool [P, L].

  In a stratum (a size, where accuracy is given by angle) those pairs are kept that count in every
  group; pairs and strata together are then the same in every group, and groups may be compared
  although strata are pooled. Groups in which no scene counts, or too few do, are left out.

  Args:
    shown: bool [P, L], which scenes count.
    groups: int [L], what is compared, such as the angle.
    strata: int [L], what is pooled in each group.
    share: of the scenes of a group that must count. More leaves out groups, less leaves out pairs.
  """
  group, stratum = np.asarray(groups), np.asarray(strata)
  of_group = [(g, shown[:, group == g]) for g in np.unique(group)]
  present = [g for g, counts in of_group if counts.any() and counts.mean() >= share]
  compared = np.isin(group, present)
  kept = np.zeros_like(shown)
  for value in np.unique(stratum):
    levels = compared & (stratum == value)
    if len(np.unique(group[levels])) == len(present):
      kept[:, levels] = shown[:, levels].all(1, keepdims=True)
  return kept


def normalised(values: ArrayLike) -> np.ndarray:
  """Returns accuracies [..., G] as fractions of the largest of G; NaN throughout if that is 0."""
  array = np.asarray(values, float)
  largest = np.max(array, -1, initial=0.0, where=np.isfinite(array), keepdims=True)
  return np.divide(array, largest, out=np.full(array.shape, np.nan), where=largest > 0)


@dataclasses.dataclass(frozen=True)
class SceneTable:
  """Where each of N scenes stands in a table of P pairs and L levels.

  Attributes:
    design: the levels that occur, in the order of the generator's loop: x, y, area, angle.
    objects: int [P], the object of each pair.
    pair, level: int [N], the place of each scene.
  """

  design: Design
  objects: np.ndarray
  pair: np.ndarray
  level: np.ndarray

  def spread(self, values: np.ndarray, absent: float | bool = 0) -> np.ndarray:
    """Returns one value a scene, [N], as a table [P, L] with `absent` where there is no scene."""
    table = np.full((len(self.objects), len(self.design)), absent, values.dtype)
    table[self.pair, self.level] = values
    return table


def tabulate(columns: Mapping[str, np.ndarray], name: str, side: int) -> SceneTable:
  """Finds pairs and levels of stored scenes.

  The least share inside that occurs is the design's `min_inside`; `side` is in pixels.
  """
  factors = np.round(np.stack([columns[factor] for factor in LOOP_ORDER]).astype(np.float64), 7)
  levels, level = np.unique(factors, axis=1, return_inverse=True)
  pairs, pair = np.unique(
    np.stack([columns['object'], columns['background']]), axis=1, return_inverse=True
  )
  place = pair.ravel() * levels.shape[1] + level.ravel()
  if len(np.unique(place)) != len(place):
    twice = int(np.flatnonzero(np.bincount(place) > 1)[0])
    named = zip(LOOP_ORDER, levels[:, twice % levels.shape[1]], strict=True)
    where = ', '.join(f'{factor} {value:g}' for factor, value in named)
    raise InputError(
      'object {} on background {} '.format(*pairs[:, twice // levels.shape[1]])
      + f'is stored more than once at {where}; are several sets mixed?'
    )
  x, y, area, angle = levels
  design = Design(name, side, float(columns['fraction_inside'].min()), area, angle, x, y)
  return SceneTable(design, pairs[0], pair.ravel(), level.ravel())
