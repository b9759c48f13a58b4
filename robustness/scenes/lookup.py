"""Scenes from cutouts that are resized once: for many places or angles at a few sizes.

Resizing costs far more than anything else. Where views share their sizes it is done once for each
row and size, and a scene only looks up pixels of 8 bits a channel: a window of them upright, 4 × 4
for each pixel turned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from robustness.scenes import rotation
from robustness.scenes.compose import blend, paste_rotated, visible
from robustness.scenes.designs import LONGEST
from robustness.scenes.geometry import Placement, place
from robustness.scenes.resize import most_scale, resize_pixels


def sheets(
  cutout: jax.Array,
  size: jax.Array,
  areas: Sequence[float],
  side: int,
  turning: bool,
  sequential: bool,
) -> tuple[jax.Array, jax.Array]:
  """Returns a cutout at some sizes, packed.

  Args:
    cutout: [F, F, 4], premultiplied, float32 in [0, 1] or uint8.
    size: int32 [2], height and width of the cutout in it; at most `LONGEST` times as long as wide.
    areas: of its rectangle, fractions of the canvas.
    side: of the canvas, pixels.
    turning: whether scenes rotate it, then about the middle of the canvas.
    sequential: whether cutouts come one after another, so that loops may have any length.

  Returns:
    uint32 [A, D, D], and the place of the first pixel of each, int32 [A, 2].
  """
  room = sheet_side(max(areas), side, turning)
  sheets_and_offsets = [
    _sheet(
      cutout[None],
      size,
      place(size, area, 0.0, 0.5, 0.5, side),
      side,
      room,
      turning,
      most_scale(cutout.shape[:2], area, side) if sequential else math.inf,
    )
    for area in areas
  ]
  return jnp.stack([sheet for sheet, _ in sheets_and_offsets]), jnp.stack(
    [offset for _, offset in sheets_and_offsets]
  )


def sheet_side(area: float, side: int, turning: bool) -> int:
  """Returns the side of a sheet that holds whatever of a cutout a scene can show.

  Upright, a canvas of nothing lies around the cutout, so that a scene is a window of the sheet.
  """
  return (
    math.ceil(math.sqrt(2) * side) + 12
    if turning
    else math.ceil(side * math.sqrt(area * LONGEST)) + 1 + 2 * side
  )


def _sheet(
  cutouts: jax.Array,
  size: jax.Array,
  placement: Placement,
  side: int,
  room: int,
  turning: bool,
  most: float,
) -> tuple[jax.Array, jax.Array]:
  if turning:
    window, offset = visible(cutouts, 0, size, placement, side, most)
    return rotation.pack(window), offset
  along = jnp.arange(room - 2 * side)
  packed = rotation.pack(resize_pixels(cutouts, 0, size, placement.resized, (along, along), most))
  return jnp.pad(packed, side), jnp.full(2, -side, jnp.int32)


def compose_from(
  sheets: jax.Array,
  index: ArrayLike,
  offset: jax.Array,
  background: jax.Array,
  placement: Placement,
  turning: bool,
  lines: int,
) -> jax.Array:
  """Returns a scene, float32 [S, S, 3].

  Args:
    sheets: uint32 [N, D, D], see `sheets`.
    index: which of them is used.
    offset: int32 [2], its place.
    background: float32 [S, S, 3].
    placement: where the cutout lands; `resized` must be that of the sheet.
    turning: as the sheet was made.
    lines: see `compose.paste_rotated`.
  """
  if turning:
    return paste_rotated(sheets, index, offset, background, placement, lines)
  side = background.shape[0]
  first = -placement.corner - offset
  words = jax.lax.dynamic_slice(sheets, (index, first[0], first[1]), (1, side, side))[0]
  return blend(*rotation.unpack(words), background)
