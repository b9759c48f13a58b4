"""Pastes a cutout on a background: resize, rotate, place, blend, as the SI-Score generator does.

The conventions are those of the released sets (`geometry` says where a cutout lands): BILINEAR
resize, BICUBIC rotation counter-clockwise on a canvas that expands, both on premultiplied alpha,
then blending with the cutout's own alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from robustness.errors import InputError, nearest
from robustness.scenes import rotation
from robustness.scenes.geometry import Placement, place
from robustness.scenes.resize import resize_planes

MEASURES = ('rectangle', 'mask')
"""What an area is of: the cutout's rectangle (the reference), or the pixels of its mask."""


def compose(foreground: ArrayLike, background: ArrayLike, area: ArrayLike, angle: ArrayLike,
            x: ArrayLike, y: ArrayLike, *, size: ArrayLike | None = None,
            measure: str = 'rectangle', rotate: bool | None = None
            ) -> tuple[jax.Array, jax.Array]:
  """Returns a scene and the share of the cutout that is in it; jit- and vmap-able in all factors.

  Args:
    foreground: float32 [h, w, 4] in [0, 1], straight (not premultiplied) alpha.
    background: float32 [S, S, 3] in [0, 1].
    area: of the resized cutout as a fraction of the canvas, > 0.
    angle: degrees counter-clockwise.
    x, y: place of the centre, fractions of the side from the left and from the top.
    size: int [2], height and width of the cutout within a padded foreground; None takes all of it.
    measure: 'rectangle' or 'mask', see `MEASURES`.
    rotate: False skips the rotation whatever `angle` is, which is faster; None rotates unless
      `angle` is a number that is a multiple of 360.

  Returns:
    float32 [S, S, 3] in [0, 1], and float32 [], the share of the rectangle, expanded by the
    rotation, that lies on the canvas.

  Raises:
    InputError: shapes that do not fit, an unknown measure, or an area that is not positive.
  """
  foreground, background = jnp.asarray(foreground), jnp.asarray(background)
  _check(foreground, background, area, measure)
  rotate = _is_turned(angle) if rotate is None else rotate
  size = jnp.asarray(foreground.shape[:2] if size is None else size, jnp.int32)
  return compose_planes(premultiplied(foreground), size, background, (area, angle, x, y), measure,
                        rotate)


def compose_planes(planes: jax.Array, size: jax.Array, background: jax.Array,
                   factors: Sequence[ArrayLike], measure: str, rotate: bool,
                   most: float = math.inf) -> tuple[jax.Array, jax.Array]:
  """Returns what `compose` does, from premultiplied planes.

  Args:
    planes: [4, h, w], float32 in [0, 1] or uint8.
    size: int32 [2], height and width of the cutout within them.
    background: float32 [S, S, 3].
    factors: area, angle, x and y.
    measure, rotate: as in `compose`.
    most: the cutout is reduced at most so many times; see `resize.most_scale`.
  """
  area, angle, x, y = factors
  half = 128 if planes.dtype == jnp.uint8 else 0.5
  pixels = (planes[3] >= half).sum() if measure == 'mask' else None
  side = background.shape[0]
  placement = place(size, area, angle if rotate else 0.0, x, y, side, pixels)
  layer = (turned if rotate else upright)(planes, size, placement, side, most)
  return blend(layer, background), placement.fraction


def premultiplied(foreground: jax.Array) -> jax.Array:
  """Returns colour times alpha, and alpha, as planes [4, h, w]."""
  alpha = foreground[..., 3:]
  return jnp.moveaxis(jnp.concatenate([foreground[..., :3] * alpha, alpha], -1), -1, 0)


def upright(planes: jax.Array, size: jax.Array, placement: Placement, side: int, most: float
            ) -> jax.Array:
  """Returns the resized cutout on an empty canvas, premultiplied planes [4, side, side]."""
  positions = [jnp.arange(side) - placement.corner[i] for i in (0, 1)]
  return resize_planes(planes, size, placement.resized, positions, most)


def turned(planes: jax.Array, size: jax.Array, placement: Placement, side: int, most: float
           ) -> jax.Array:
  """Returns the resized and rotated cutout on an empty canvas, premultiplied [4, side, side]."""
  window, offset = visible(planes, size, placement, side, most)
  return rotated(rotation.pack(window)[None], 0, offset, placement, side)


def visible(planes: jax.Array, size: jax.Array, placement: Placement, side: int, most: float
            ) -> tuple[jax.Array, jax.Array]:
  """Returns the part of the resized cutout that can be seen at any angle about this centre.

  A rotation keeps distances, so what lands on the canvas lies within half its diagonal of the point
  that lands in the canvas's middle. Beyond the cutout its border is repeated.

  Returns:
    Planes [4, D, D] with D = ⌈√2 · side⌉ + 12, and the place of their first pixel, int32 [2].
  """
  room = math.ceil(math.sqrt(2) * side) + 12
  middle = placement.matrix @ jnp.array([side / 2, side / 2, 1.0], jnp.float32)
  offset = jnp.floor(middle).astype(jnp.int32) - room // 2
  positions = [jnp.clip(jnp.arange(room) + offset[i], 0, placement.resized[i] - 1) for i in (0, 1)]
  return resize_planes(planes, size, placement.resized, positions, most), offset


def rotated(packed: jax.Array, index: ArrayLike, offset: jax.Array, placement: Placement, side: int
            ) -> jax.Array:
  """Returns one of some windows rotated onto the canvas, premultiplied [4, side, side]."""
  along = jnp.arange(side) + 0.5
  row, column = along[:, None], along[None, :]
  v, h = (m[0] * row + m[1] * column + m[2] for m in placement.matrix)
  return rotation.sample(packed, index, offset, placement.resized, v, h)


def blend(layer: jax.Array, background: jax.Array) -> jax.Array:
  """Returns premultiplied planes [4, S, S] over a background [S, S, 3]."""
  layer = jnp.moveaxis(layer, 0, -1)
  return jnp.clip(layer[..., :3] + (1.0 - layer[..., 3:]) * background, 0.0, 1.0)


def _is_turned(angle: ArrayLike) -> bool:
  known = isinstance(angle, int | float)
  return not known or bool(angle % 360)  # type: ignore[operator]


def _check(foreground: jax.Array, background: jax.Array, area: ArrayLike, measure: str) -> None:
  if foreground.ndim != 3 or foreground.shape[2] != 4 or not foreground.size:
    raise InputError(f'the foreground has shape {foreground.shape}; it must be [h, w, 4] with '
                     'alpha as the last channel.')
  if background.ndim != 3 or background.shape[2] != 3 or len(background) != background.shape[1]:
    raise InputError(f'the background has shape {background.shape}; it must be [S, S, 3].')
  if not isinstance(area, jax.core.Tracer) and not np.all(np.asarray(area) > 0):
    raise InputError(f'area = {area!r} is not positive: give a fraction of the canvas, as 0.2.')
  if measure not in MEASURES:
    raise InputError(f'measure = {measure!r}; {nearest(measure, MEASURES)}.')
