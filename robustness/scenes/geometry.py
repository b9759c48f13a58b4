r"""The place of a cutout: its size after resizing and rotating, its corner, its visible fraction.

With a cutout of w × h pixels and a square canvas of side S,

  k = √(area / (w·h / S²)),   resized = (⌊w·k⌋, ⌊h·k⌋),

and a rotation counter-clockwise about the centre expands the rectangle to the pixels that contain
its rotated corners. The centre of the expanded rectangle is at (⌊x·S⌋, ⌊y·S⌋), and its corner is
truncated toward zero.

Numbers of pixels depend on rounding, so they are computed in double precision whatever JAX's
default is. Factors in single precision are rounded to decimals: areas and positions to seven digits
after the point, angles to four.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


class Placement(NamedTuple):
  """Size and place of a resized and rotated cutout on a canvas; pairs are (vertical, horizontal).

  Attributes:
    resized: int32 [2], height and width after resizing.
    expanded: int32 [2], height and width after rotating.
    corner: int32 [2], first row and column on the canvas; may be negative.
    matrix: float32 [2, 3], maps a position (vertical, horizontal, 1) on the canvas to (vertical,
      horizontal) in the resized cutout, in pixels; .5 is the centre of the first pixel.
    fraction: float32, the fraction of the rotated cutout's bounding rectangle on the canvas.
  """

  resized: jax.Array
  expanded: jax.Array
  corner: jax.Array
  matrix: jax.Array
  fraction: jax.Array


def place(
  size: ArrayLike,
  area: ArrayLike,
  angle: ArrayLike,
  x: ArrayLike,
  y: ArrayLike,
  side: int,
  pixels: ArrayLike | None = None,
) -> Placement:
  """Returns where a cutout is on a square canvas after it is resized and rotated.

  Args:
    size: int [2], height and width of the cutout.
    area: fraction of the canvas that the cutout covers after resizing.
    angle: degrees counter-clockwise.
    x, y: centre of the cutout as fractions of the side, from the left and from the top.
    side: side of the canvas in pixels.
    pixels: number of pixels that are counted as the cutout's area, such as the pixels of its mask.
      None counts its whole rectangle.
  """
  with jax.enable_x64(True):
    sides = jnp.asarray(size).astype(jnp.float64)
    measured = sides[0] * sides[1] if pixels is None else jnp.asarray(pixels).astype(jnp.float64)
    # The factor k of both sides, √(area / (measured / side²)).
    scale = jnp.sqrt(_quotient(_exact_decimal(area, 7), _quotient(measured, side * side)))
    resized = jnp.trunc(sides * scale)
    radians = jnp.mod(_exact_decimal(angle, 4), 360.0) * (math.pi / 180)
    # rounded, so that right angles are exact
    cosine, sine = jnp.round(jnp.cos(radians), 15), jnp.round(jnp.sin(radians), 15)
    # A position p in the rotated rectangle is at linear · p + shift in the cutout.
    expanded, linear, shift = _rotation(resized, cosine, sine)
    # In whole pixels of the canvas, truncated as by the released generator.
    centre = jnp.trunc(jnp.stack([_exact_decimal(y, 7), _exact_decimal(x, 7)]) * side)
    corner = jnp.trunc(centre - expanded / 2)
    # A position q on the canvas is at q − corner in the rotated rectangle, and therefore at
    # linear · q + shift_of_canvas in the cutout.
    shift_of_canvas = shift - (linear * corner[None, :]).sum(1)
    matrix = jnp.concatenate([linear, shift_of_canvas[:, None]], 1).astype(jnp.float32)
    # The height and width of the part that is on the canvas.
    visible = jnp.clip(corner + expanded, 0, side) - jnp.clip(corner, 0, side)
    total = jnp.prod(expanded)
    fraction = jnp.where(total > 0, jnp.prod(visible) / jnp.maximum(total, 1), 0)
    resized, expanded, corner = (v.astype(jnp.int32) for v in (resized, expanded, corner))
    return Placement(resized, expanded, corner, matrix, fraction.astype(jnp.float32))


def _exact_decimal(value: ArrayLike, digits: int) -> jax.Array:
  """Converts float32 to float64 and removes the float32 rounding error of decimals.

  The value is rounded to `digits` digits after the point. For instance float32(0.2), which is
  .200000003, becomes .2.
  """
  scale = 10.0**digits
  return _quotient(jnp.round(jnp.asarray(value).astype(jnp.float64) * scale), scale)


def _quotient(value: jax.Array, divisor: ArrayLike) -> jax.Array:
  """Divides with correct rounding, protected from simplifications by XLA.

  XLA replaces division by a constant with multiplication by its reciprocal, and merges successive
  divisions. Both round differently.

  Args:
    value: numerator, float64, not NaN.
    divisor: denominator.
  """
  # XLA keeps this division, since it cannot know that the two conditions are never true.
  quotient = value / jnp.where(jnp.isnan(value), value, jnp.asarray(divisor, jnp.float64))
  return jnp.where(jnp.isnan(quotient), value, quotient)


def _rotation(
  size: jax.Array, cosine: jax.Array, sine: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Returns the bounding rectangle of a rotated cutout and the map from it to the cutout.

  A pixel at position p (vertical, horizontal) of the rectangle shows the position linear · p +
  shift of the cutout. The centre of the rectangle shows the centre of the cutout.

  Args:
    size: height and width of the cutout in pixels, float64 [2].
    cosine: cosine of the counter-clockwise angle.
    sine: sine of the angle.

  Returns:
    Height and width of the rectangle [2], `linear` [2, 2] and `shift` [2], all float64.
  """
  linear = jnp.stack([jnp.stack([cosine, sine]), jnp.stack([-sine, cosine])])
  half = size / 2
  # the bounding rectangle of the cutout's corners, turned about its centre
  shift_about_centre = half - (linear * half[None, :]).sum(1)
  corners = jnp.asarray([[0, 0], [0, 1], [1, 1], [1, 0]], jnp.float64) * size[None, :]
  turned = (linear[None] * corners[:, None, :]).sum(-1) + shift_about_centre[None, :]  # [4, 2]
  expanded = jnp.ceil(turned.max(0)) - jnp.floor(turned.min(0))
  expanded = jnp.where(cosine == 0, size[::-1], expanded)  # Pillow transposes at right angles
  shift = half - (linear * (expanded / 2)[None, :]).sum(1)  # from the rectangle's centre to `half`
  return expanded, linear, shift
