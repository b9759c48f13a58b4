"""What T_k does to an image: a corruption at a severity, or a rotation by an angle.

A transform is a name: one of the common corruptions or those of C-bar, or 'rotation'. Its strength
is a level, the severity 1..5 or the angle in degrees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.core.settings import choice, require
from robustness.corruptions.catalog import apply, checked_table
from robustness.corruptions.names import KNOWN, NUMBERS, SEVERITIES
from robustness.environments.rotation import RIGHT_ANGLES, rotate

ROTATION = 'rotation'
NAMES = (*KNOWN, ROTATION)
CLEAN = 'clean'
"""The name of E_0."""


def check_names(where: str, names: Sequence[str]) -> None:
  """Raises InputError unless transforms are known, distinct, and one at least."""
  for name in names:
    choice(where, name, NAMES)
  require(
    bool(names) and len(set(names)) == len(names), where, tuple(names), 'distinct and not empty'
  )


def check_levels(where: str, severities: Sequence[int], angles: Sequence[int]) -> None:
  """Raises InputError unless severities lie in 1..5, and angles strictly between 0° and 360°."""
  require(
    bool(severities)
    and set(severities) <= set(SEVERITIES)
    and len(set(severities)) == len(severities),
    f'{where}.severities',
    tuple(severities),
    'distinct numbers of 1..5',
  )
  require(
    bool(angles) and all(0 < angle < 360 for angle in angles) and len(set(angles)) == len(angles),
    f'{where}.angles',
    tuple(angles),
    'distinct numbers of degrees in (0, 360)',
  )


def check_right_angles(where: str, angles: Sequence[int]) -> None:
  """Raises InputError for an angle by which pixels would be interpolated."""
  for angle in angles:
    if angle not in RIGHT_ANGLES:
      raise InputError(
        f'{where} has {angle}°; evaluation takes right angles only, of {RIGHT_ANGLES}: others '
        'would also measure the interpolation of pixels.'
      )


def check_shape(image_shape: Sequence[int], names: Sequence[str]) -> None:
  """Raises InputError unless images of a shape can be transformed."""
  if ROTATION in names and image_shape[0] != image_shape[1]:
    raise InputError(
      f'images of {image_shape[0]} × {image_shape[1]} pixels do not stay in their frame when '
      'rotated by 90°: set config.data.resize and config.data.crop to make them square.'
    )
  corruptions = [name for name in names if name != ROTATION]
  if corruptions:
    checked_table(image_shape[:2], corruptions, None, None, {})


def transform(
  key: jax.Array,
  image: jax.Array,
  environment: jax.Array | int,
  level: jax.Array,
  names: Sequence[str],
) -> jax.Array:
  """Returns an image as an environment shows it.

  Args:
    key: decides the draws of a corruption.
    image: float32 [H, W, C] in [0, 1].
    environment: 0 leaves the image as it is, k applies the k-th of `names`; may be traced.
    level: severity or degrees.
    names: T_1, ..., T_M.

  Returns:
    float32 [H, W, C] in [0, 1].
  """

  def branch(name: str) -> Callable[..., jax.Array]:
    if name == ROTATION:
      return lambda key, image, level: rotate(image, level)
    return lambda key, image, level: apply(
      key, image, 0, jnp.asarray(level, jnp.int32), names=(name,)
    )

  branches: list[Callable[..., jax.Array]] = [lambda key, image, level: image, *map(branch, names)]
  return jax.lax.switch(environment, branches, key, image, jnp.asarray(level, jnp.float32))


def levels(name: str, severities: Sequence[int], angles: Sequence[int]) -> tuple[int, ...]:
  """Returns the levels of a transform: the angles of a rotation, else the severities."""
  return tuple(angles if name == ROTATION else severities)


def kind_of_level(name: str) -> str:
  """Returns what the levels of a transform are: 'angle' of a rotation, else 'severity'."""
  return 'angle' if name == ROTATION else 'severity'


def test_levels(name: str, severities: Sequence[int]) -> tuple[int, ...]:
  """Returns the levels of a transform in the test: right angles of a rotation."""
  return levels(name, severities, RIGHT_ANGLES)


def view_base(name: str) -> int:
  """Returns what is added to a level for the id of a view: the same as in studies of corruptions
  (5 n + severity), 1000 + degrees for a rotation, 0 for clean images."""
  if name == CLEAN:
    return 0
  return 1000 if name == ROTATION else 5 * NUMBERS[name]
