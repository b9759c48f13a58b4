"""Transforms T_k of images, which define environments: a corruption, or the rotation.

A transform is named by a corruption, `FILE.py:NAME`, or 'rotation'. Its level is the severity,
1..5, or the angle in degrees.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import are_distinct_and_some
from robustness.core.settings import choice, require
from robustness.core.user_code import is_reference, part_name
from robustness.corruptions import catalog
from robustness.corruptions.catalog import apply, checked_table, find
from robustness.corruptions.filters import pixel_grid
from robustness.corruptions.names import FAMILIES, KNOWN, SEVERITIES, UNLIKE_OTHERS, number_of
from robustness.corruptions.warps import sample_or_black

ROTATION = 'rotation'
"""Name of the rotation."""
RIGHT_ANGLES = (90, 180, 270)
"""Angles in degrees at which a study may show rotations; they move pixels and interpolate none."""
NAMES = (*KNOWN, ROTATION)
"""Names of all transforms, except those in users' files."""
CLEAN = 'clean'
"""The name of the environment E_0."""


@dataclasses.dataclass(frozen=True)
class Transform:
  """A corruption that training or a study applies to the images of an environment.

  Its level is the severity, 1..5.

  Attributes:
    name: name of the corruption, such as 'fog'.
    kind_of_level: word for the level.
  """

  name: str
  kind_of_level: ClassVar[str] = 'severity'

  def __call__(self, key: jax.Array, image: jax.Array, level: jax.Array) -> jax.Array:
    """Returns the transformed image [H, W, C] in [0, 1].

    Args:
      key: random key of the transform.
      image: [H, W, C] in [0, 1].
      level: severity, or degrees of a rotation.
    """
    # `apply` selects a corruption by its index in `names`; there is only one
    return apply(key, image, index=0, severity=jnp.asarray(level, jnp.int32), names=(self.name,))

  def levels(self, severities: Sequence[int], angles: Sequence[int]) -> tuple[int, ...]:
    """Returns the levels of the transform: the `angles` for a rotation, else the `severities`."""
    return tuple(severities)

  @property
  def family(self) -> str:
    """The family of similar corruptions, such as 'blur'. A rotation is alone in its family."""
    return find(self.name).family

  @property
  def view_base(self) -> int:
    """The number that, plus the level, identifies images at this level and sets their random keys.

    It is 5 n for the corruption with number n (`number_of`), as in studies of corruptions. Clean
    images have the id 0.
    """
    return 5 * number_of(part_name(self.name))

  def check_shape(self, image_shape: Sequence[int]) -> None:
    """Raises InputError if images of a height and width are too small for the corruption."""
    checked_table(image_shape[:2], [self.name], quantize=None, side=None, options={})


@dataclasses.dataclass(frozen=True)
class Rotation(Transform):
  """The rotation that training or a study applies to the images of an environment.

  Its level is the angle in degrees. It is alone in its family. Its ids (`view_base`) begin at 1000,
  above the ids of all corruptions.
  """

  name: str = ROTATION
  kind_of_level = 'angle'
  family = UNLIKE_OTHERS
  view_base = 1000

  def __call__(self, key: jax.Array, image: jax.Array, level: jax.Array) -> jax.Array:
    """Returns the image [H, W, C] rotated by `level` degrees."""
    return rotate(image, level)

  def levels(self, severities: Sequence[int], angles: Sequence[int]) -> tuple[int, ...]:
    """Returns the angles."""
    return tuple(angles)

  def check_shape(self, image_shape: Sequence[int]) -> None:
    """Raises InputError unless images are square."""
    if image_shape[0] != image_shape[1]:
      raise InputError(
        f'images of {image_shape[0]} × {image_shape[1]} pixels do not stay in their frame when '
        f'rotated by 90°: set {KEYS.data.resize} and {KEYS.data.crop} to make them square.'
      )


def get(name: str) -> Transform:
  """Returns the transform with a name, 'rotation' or a corruption; the name is not checked."""
  return Rotation() if name == ROTATION else Transform(name)


def check_names(key: str, names: Sequence[str]) -> None:
  """Raises InputError if `names` is empty, has a name twice, or a name that is no transform.

  `key` is the name of the setting that `names` comes from, for messages.
  """
  catalog.check_names(key, names, NAMES)
  require(are_distinct_and_some(names), key, tuple(names), 'distinct and not empty')


def names_that_resemble(names: Sequence[str], resembles: Iterable[str], key: str) -> list[str]:
  """Returns the transforms in `names` that are listed in `resembles` by name or by family.

  Args:
    names: names of transforms.
    resembles: names of transforms or of families, such as 'blur'.
    key: name of the setting that `resembles` comes from, for messages.

  Raises:
    InputError: a word in `resembles` is neither a transform nor a family.
  """
  words = {*resembles}
  for word in words:
    if not is_reference(word):  # `FILE.py:NAME`, which is not in the lists
      choice(key, word, (*NAMES, *FAMILIES))
  return [name for name in names if {name, get(name).family} & words]


def check_levels(section: str, severities: Sequence[int], angles: Sequence[int]) -> None:
  """Raises InputError unless severities and angles are valid.

  Severities must be distinct integers of 1..5, and angles distinct integers of 1..359 degrees.
  `section` names the config section of the settings, for messages.
  """
  for key, values, valid, words in (
    ('severities', severities, SEVERITIES, 'numbers of 1..5'),
    ('angles', angles, range(1, 360), 'numbers of degrees in (0, 360)'),
  ):
    levels = tuple(values) if isinstance(values, Sequence) else ()  # a single number is refused
    is_valid = are_distinct_and_some(levels) and {*levels} <= {*valid}
    # the message shows an invalid single number, in place of ()
    require(is_valid, f'{section}.{key}', levels or values, f'distinct {words}')


def transform(
  key: jax.Array,
  image: jax.Array,
  environment: jax.Array | int,
  level: jax.Array,
  names: Sequence[str],
) -> jax.Array:
  """Returns an image transformed for one of the environments 0, ..., M.

  Args:
    key: random key of the transform.
    image: [H, W, C] in [0, 1].
    environment: number of the environment: 0 returns the image as it is, and k applies the k-th
      transform. It may be traced.
    level: severity, or degrees of a rotation.
    names: names of the M transforms.
  """
  branches: list[Callable[..., jax.Array]] = [lambda key, image, level: image, *map(get, names)]
  return jax.lax.switch(environment, branches, key, image, jnp.asarray(level, jnp.float32))


def rotate(image: jax.Array, degrees: jax.Array | float) -> jax.Array:
  """Returns a square image rotated counter-clockwise about its centre, black outside.

  Multiples of 90° move pixels without interpolation. The angle is then the only difference from the
  upright image (section 2 of the paper).

  Args:
    image: [N, N, C] in [0, 1].
    degrees: the angle, which may be traced.
  """
  turns = jnp.round(jnp.asarray(degrees, jnp.float32) / 90)
  is_right_angle = jnp.abs(degrees - 90 * turns) < 1e-4
  branches = [functools.partial(jnp.rot90, k=quarters) for quarters in range(4)]
  moved = jax.lax.switch(turns.astype(jnp.int32) % 4, branches, image)
  angle = jnp.deg2rad(jnp.asarray(degrees, jnp.float32))
  centre = (image.shape[0] - 1) / 2
  r, c = pixel_grid(image.shape[0])  # [N, 1] and [1, N]
  row, column = r - centre, c - centre
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  # The position in the image that each pixel of the rotated image is read from.
  y, x = cos * row + sin * column + centre, cos * column - sin * row + centre
  return jnp.where(is_right_angle, moved, sample_or_black(image, y, x))
