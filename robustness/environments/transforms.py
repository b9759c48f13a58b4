"""What T_k does to an image: a corruption at a severity, or a rotation by an angle.

A transform is a name: that of a corruption, `FILE.py:NAME` or 'rotation'. Its strength
is a level, the severity 1..5 or the angle in degrees.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import is_reference, part_name
from robustness.core.settings import choice, require
from robustness.corruptions import catalog
from robustness.corruptions.catalog import apply, checked_table, find
from robustness.corruptions.filters import grid
from robustness.corruptions.names import ALONE, FAMILIES, KNOWN, SEVERITIES, number_of
from robustness.corruptions.warps import sample_or_black

ROTATION = 'rotation'
RIGHT_ANGLES = (90, 180, 270)
NAMES = (*KNOWN, ROTATION)
CLEAN = 'clean'
"""The name of E_0."""


@dataclasses.dataclass(frozen=True)
class Transform:
  """A corruption as T_k."""

  name: str
  kind_of_level: ClassVar[str] = 'severity'

  def __call__(self, key: jax.Array, image: jax.Array, level: jax.Array) -> jax.Array:
    """Returns an image [H, W, C] in [0, 1] at a level; see `transform`."""
    return apply(key, image, 0, jnp.asarray(level, jnp.int32), names=(self.name,))

  def levels(self, severities: Sequence[int], angles: Sequence[int]) -> tuple[int, ...]:
    """Returns the levels of the transform: the angles of a rotation, else the severities."""
    return tuple(severities)

  @property
  def family(self) -> str:
    """The family of the corruption; a rotation is like nothing else."""
    return find(self.name).family

  @property
  def view_base(self) -> int:
    """What is added to a level for the id of a view: 5 n, as in studies of corruptions; 1000 for a
    rotation. Clean images have the id 0."""
    return 5 * number_of(part_name(self.name))

  def check_shape(self, image_shape: Sequence[int]) -> None:
    """Raises InputError unless images of a shape can be transformed."""
    checked_table(image_shape[:2], [self.name], None, None, {})


@dataclasses.dataclass(frozen=True)
class Rotation(Transform):
  """The rotation as T_k; see `rotate`."""

  name: str = ROTATION
  kind_of_level: ClassVar[str] = 'angle'
  family = ALONE
  view_base = 1000

  def __call__(self, key: jax.Array, image: jax.Array, level: jax.Array) -> jax.Array:
    return rotate(image, level)

  def levels(self, severities: Sequence[int], angles: Sequence[int]) -> tuple[int, ...]:
    return tuple(angles)

  def check_shape(self, image_shape: Sequence[int]) -> None:
    if image_shape[0] != image_shape[1]:
      raise InputError(
        f'images of {image_shape[0]} × {image_shape[1]} pixels do not stay in their frame when '
        f'rotated by 90°: set {KEYS.data.resize} and {KEYS.data.crop} to make them square.'
      )


def get(name: str) -> Transform:
  """Returns the transform of one of `NAMES`."""
  return Rotation() if name == ROTATION else Transform(name)


def check_names(where: str, names: Sequence[str]) -> None:
  """Raises InputError unless transforms are known, distinct, and one at least."""
  catalog.check_names(where, names, NAMES)
  require(
    bool(names) and len(set(names)) == len(names), where, tuple(names), 'distinct and not empty'
  )


def resembling(names: Sequence[str], resembles: Iterable[str], where: str) -> list[str]:
  """Returns the transforms that are among those, or of a family of those, that a part resembles;
  refuses a word that is neither, with the key `where`."""
  shown = {*resembles}
  for word in shown:
    if not is_reference(word):
      choice(where, word, (*NAMES, *FAMILIES))
  return [name for name in names if {name, get(name).family} & shown]


def check_levels(where: str, severities: Sequence[int], angles: Sequence[int]) -> None:
  """Raises InputError unless severities lie in 1..5, and angles strictly between 0° and 360°."""
  for key, levels, possible, valid in (
    ('severities', severities, SEVERITIES, 'numbers of 1..5'),
    ('angles', angles, range(1, 360), 'numbers of degrees in (0, 360)'),
  ):
    several = tuple(levels) if isinstance(levels, Sequence) else ()
    distinct = 0 < len(several) == len(set(several)) and set(several) <= set(possible)
    require(distinct, f'{where}.{key}', several or levels, f'distinct {valid}')


def transform(
  key: jax.Array,
  image: jax.Array,
  environment: jax.Array | int,
  level: jax.Array,
  names: Sequence[str],
) -> jax.Array:
  """Returns an image [H, W, C] in [0, 1] as an environment shows it; the key decides the draws.

  Args:
    environment: 0 leaves the image as it is, k applies the k-th of `names`; may be traced.
    level: severity or degrees.
    names: T_1, ..., T_M.
  """
  branches: list[Callable[..., jax.Array]] = [lambda key, image, level: image, *map(get, names)]
  return jax.lax.switch(environment, branches, key, image, jnp.asarray(level, jnp.float32))


def rotate(image: jax.Array, degrees: jax.Array | float) -> jax.Array:
  """Rotates an image about its centre, counter-clockwise; black comes in from outside.

  By multiples of 90° pixels are moved and none is interpolated, so that nothing but the angle
  distinguishes the image from the upright one (section 2 of the paper).

  H = W; any number of degrees, which may be traced.
  """
  turns = jnp.round(jnp.asarray(degrees, jnp.float32) / 90)
  right = jnp.abs(degrees - 90 * turns) < 1e-4
  whole = [functools.partial(jnp.rot90, k=k) for k in range(4)]
  moved = jax.lax.switch(turns.astype(jnp.int32) % 4, whole, image)
  angle = jnp.deg2rad(jnp.asarray(degrees, jnp.float32))
  centre = (image.shape[0] - 1) / 2
  row, column = (line - centre for line in grid(image.shape[0]))
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  y, x = cos * row + sin * column + centre, cos * column - sin * row + centre
  return jnp.where(right, moved, sample_or_black(image, y, x))
