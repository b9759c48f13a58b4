"""The image operations of AutoAugment, RandAugment and AugMix, in pure JAX, as in Pillow.

Each of the five families is one computation whatever the operation is. Under `vmap` an image costs
all families that can occur; a loop over images, as on a CPU, computes each image's own.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from robustness.augment import levels as pillow
from robustness.augment.levels import TABULATED, blend, grey
from robustness.core.settings import choice, require
from robustness.corruptions.catalog import as_images
from robustness.corruptions.names import BLUR, HAZE

WARPS = ('ShearX', 'ShearY', 'TranslateX', 'TranslateY', 'Rotate')
FAMILIES = (WARPS, TABULATED, ('Color',), ('Sharpness',), ('Cutout',))
NAMES = tuple(name for family in FAMILIES for name in family)
RESEMBLED = {
  'Rotate': ('rotation',),
  'AutoContrast': (HAZE,),
  'Equalize': (HAZE,),
  'Contrast': (HAZE,),
  'Brightness': ('brightness',),
  'Color': ('saturate',),
  'Sharpness': (BLUR,),
  'Cutout': ('checkerboard_cutout',),
}
"""The transforms of `robustness.environments`, or families of them, that operations are like."""

NOT_USED = 'any number: it has no effect'
FACTOR = 'a factor of at least 0; 1 changes nothing'
UNITS: dict[str, tuple[str, float, float]] = {
  **dict.fromkeys(('ShearX', 'ShearY'), ('a shear in pixels a pixel, in [-10, 10]', -10, 10)),
  **dict.fromkeys(('TranslateX', 'TranslateY'), ('pixels, in [-8192, 8192]', -8192, 8192)),
  'Rotate': ('degrees counterclockwise, in [-360, 360]', -360, 360),
  'Posterize': ('a number of bits to keep, in [0, 8]', 0, 8),
  'Solarize': ('the first level that is inverted, in [0, 256]', 0, 256),
  'SolarizeAdd': ('levels to add to those below 128, in [-255, 255]', -255, 255),
  **dict.fromkeys(('Brightness', 'Contrast', 'Color', 'Sharpness'), (FACTOR, 0, float('inf'))),
  'Cutout': ('the side of a square in pixels, in [0, 8192]', 0, 8192),
  **dict.fromkeys(('AutoContrast', 'Equalize', 'Invert'), (NOT_USED, -float('inf'), float('inf'))),
}
"""For each operation the unit of its magnitude, in words with its range, and the range."""

MEAN_COLOUR = (125, 123, 114)
"""Of CIFAR-10's training images, in levels."""
INTERPOLATIONS = {'nearest': pillow.nearest, 'bilinear': pillow.bilinear}
Image = tuple[jax.Array, jax.Array]
"""Levels uint8 [H, W, C], and which pixels show the image, bool [H, W]."""


@dataclasses.dataclass(frozen=True)
class Drawn:
  """An operation as it was drawn for an image; arrays have further axes for several of them.

  Attributes:
    name: int32, a position in `Operations.names`; −1 leaves the image as it is.
    magnitude: float32, in the operation's unit.
    centre: int32 [2], row and column of the centre of Cutout's square.
  """

  name: jax.Array
  magnitude: jax.Array
  centre: jax.Array


jax.tree_util.register_dataclass(Drawn, ['name', 'magnitude', 'centre'], [])
Family = Callable[[tuple[str, ...], Drawn, Image], Image]
"""Takes the family's operations that can occur, of which `Drawn.name` is a position."""


def apply(
  name: str,
  image: jax.Array | np.ndarray,
  magnitude: float | jax.Array,
  *,
  interpolation: str = 'nearest',
  fill: tuple[int, ...] = (0,),
  centre: tuple[int, int] | None = None,
) -> jax.Array:
  """Returns an image of levels / 255 after one operation, as Pillow does it to 8-bit levels.

  ShearX, ShearY, TranslateX and TranslateY are `Image.transform` with the matrices of `levels`,
  Rotate is `Image.rotate`; AutoContrast, Equalize, Invert, Posterize and Solarize are those of
  `ImageOps`, Brightness, Color, Contrast and Sharpness those of `ImageEnhance`. SolarizeAdd adds to
  the levels below 128, and clips. Cutout covers a square.

  Args:
    name: one of `NAMES`.
    image: float32 [H, W, C] in [0, 1], C 1 or 3.
    magnitude: in the operation's unit, see `UNITS`; may be traced.
    interpolation: of warps, 'nearest' or 'bilinear'.
    fill: levels, one or red, green and blue, of what a warp vacates and Cutout covers.
    centre: row and column of the centre of Cutout's square; None takes the image's.

  Raises:
    InputError: an unknown name, a magnitude outside the operation's range, no such fill or image.
  """
  choice('name', name, NAMES)
  choice('interpolation', interpolation, INTERPOLATIONS)
  if not isinstance(magnitude, jax.core.Tracer):
    unit, low, high = UNITS[name]
    require(bool(low <= float(magnitude) <= high), f'magnitude of {name}', magnitude, unit)
  require(bool(fill), 'fill', fill, 'levels 0..255, one or red, green and blue')
  check_colour(fill, 'fill')
  image = as_images(image, (3,), 'operations')
  middle = jnp.array(centre or (image.shape[0] // 2, image.shape[1] // 2))
  begin = to_levels(image), jnp.ones(image.shape[:2], bool)
  operation = Operations((name,), interpolation, fill, fill)
  levels, _ = operation(begin, Drawn(jnp.int32(0), jnp.float32(magnitude), middle))
  return from_levels(levels)


@dataclasses.dataclass(frozen=True)
class Operations:
  """Those that can occur at one place; others are not compiled.

  Attributes:
    names: some of `NAMES`; an operation is named by its position.
    interpolation: of warps, a key of `INTERPOLATIONS`.
    vacated: levels, one or red, green and blue, of what a warp vacates.
    square: levels of what Cutout covers.
    transparent: whether what was vacated or covered before stays so in later warps; otherwise it is
      part of the image.
  """

  names: tuple[str, ...] = NAMES
  interpolation: str = 'nearest'
  vacated: tuple[int, ...] = (0,)
  square: tuple[int, ...] = (0,)
  transparent: bool = False

  def __call__(self, image: Image, drawn: Drawn) -> Image:
    """Applies one operation; if `transparent`, tells which pixels show the image, otherwise all are
    left as showing it."""
    families = [tuple(n for n in self.names if n in family) for family in FAMILIES]
    blends = (functools.partial(_blended, degenerate) for degenerate in (grey, smoothed))
    functions: tuple[Family, ...] = (self._warped, _tabulated, *blends, self._covered)
    present = [(own, f) for own, f in zip(families, functions, strict=True) if own]
    family = [next(i for i, (own, _) in enumerate(present) if n in own) for n in self.names]
    position = [present[i][0].index(n) for i, n in zip(family, self.names, strict=True)]
    branches: list[Callable[[Drawn, Image], Image]] = [lambda drawn, image: image]
    branches += [functools.partial(f, own) for own, f in present]
    branch = jnp.where(drawn.name < 0, 0, 1 + jnp.array(family)[drawn.name])
    within = dataclasses.replace(drawn, name=jnp.array(position)[drawn.name])
    return jax.lax.switch(branch, branches, within, image)

  def in_sequence(self, image: jax.Array, drawn: Drawn, fill: tuple[int, ...] = ()) -> jax.Array:
    """Returns an image, float32 [H, W, C] in [0, 1], after the operations `drawn` in order, arrays
    [steps, ...]; without any it is returned as it is and not in 8-bit levels. If `transparent`,
    pixels that do not show the image at the end take the levels `fill`.

    Raises:
      InputError: the image has neither one channel nor three.
    """
    image = as_images(image, (3,), 'operations')

    def step(state: Image, drawn: Drawn) -> tuple[Image, None]:
      return self(state, drawn), None

    begin = to_levels(image), jnp.ones(image.shape[:2], bool)
    (levels, kept), _ = jax.lax.scan(step, begin, drawn)
    if self.transparent:
      levels = filled(levels, kept, fill)
    changed = (drawn.name >= 0).any()
    return jax.lax.cond(changed, lambda: from_levels(levels), lambda: image)

  def _warped(self, names: tuple[str, ...], drawn: Drawn, image: Image) -> Image:
    levels, kept = image
    data = pillow.matrix(drawn.name, names, drawn.magnitude, *kept.shape)
    warp = INTERPOLATIONS[self.interpolation]
    if not self.transparent:
      warped, inside = warp(levels, data)
      return filled(warped, inside, self.vacated), kept
    with_mask = jnp.concatenate([levels, 255 * kept[..., None].astype(levels.dtype)], -1)
    warped, _ = warp(with_mask, data)
    shown = warped[..., -1] > 0
    return filled(warped[..., :-1], shown, self.vacated), shown

  def _covered(self, names: tuple[str, ...], drawn: Drawn, image: Image) -> Image:
    levels, kept = image
    free = ~square(kept.shape, drawn.centre, drawn.magnitude)
    return filled(levels, free, self.square), kept & free if self.transparent else kept


def below(share: jax.Array, count: ArrayLike) -> jax.Array:
  """Returns ⌊share · count⌋, int32: uniform over 0..count − 1 where the share is over [0, 1)."""
  count = jnp.asarray(count)
  return jnp.minimum((share * count).astype(jnp.int32), count - 1)


def square(shape: tuple[int, ...], centre: jax.Array, side: ArrayLike) -> jax.Array:
  """Returns which pixels [H, W] lie in a square [c − ⌊s/2⌋, c − ⌊s/2⌋ + s) on both axes.

  c is int32 [2], and s is rounded down.
  """
  size = jnp.asarray(side).astype(jnp.int32)
  first = centre - size // 2
  axes = (jnp.arange(shape[0]), jnp.arange(shape[1]))
  rows, columns = ((x >= begin) & (x < begin + size) for x, begin in zip(axes, first, strict=True))
  return rows[:, None] & columns[None, :]


def _tabulated(names: tuple[str, ...], drawn: Drawn, image: Image) -> Image:
  levels, kept = image
  return pillow.look_up(levels, pillow.table(drawn.name, names, levels, drawn.magnitude)), kept


def _blended(
  degenerate: Callable[[jax.Array], jax.Array], names: tuple[str, ...], drawn: Drawn, image: Image
) -> Image:
  levels, kept = image
  return blend(degenerate(levels), levels, drawn.magnitude).astype(levels.dtype), kept


def smoothed(levels: jax.Array) -> jax.Array:
  """Returns Pillow's filter SMOOTH, int32 [H, W, C]: 5/13 of a pixel, 1/13 of its eight neighbours,
  rounded; the outermost pixels are left."""
  height, width, channels = levels.shape
  flat = levels.astype(jnp.int32).reshape(height, width * channels)  # long rows are quicker
  padded = jnp.pad(flat, ((1, 1), (channels, channels)))
  rows = padded[:-2] + padded[1:-1] + padded[2:]
  total = rows[:, : -2 * channels] + rows[:, channels:-channels] + rows[:, 2 * channels :]
  mean = ((2 * (total + 4 * flat) + 13).astype(jnp.float32) * (1 / 26)).astype(jnp.int32)
  y, x = jnp.arange(height)[:, None], jnp.arange(width * channels)[None, :] // channels
  inner = (y > 0) & (y < height - 1) & (x > 0) & (x < width - 1)
  return jnp.where(inner, mean, flat).reshape(levels.shape)


def to_levels(image: jax.Array) -> jax.Array:
  """Returns the nearest 8-bit levels of an image in [0, 1], uint8."""
  return jnp.round(jnp.clip(image, 0, 1) * 255).astype(jnp.uint8)


def from_levels(levels: jax.Array) -> jax.Array:
  """Returns levels / 255, float32."""
  return levels.astype(jnp.float32) / 255


def filled(levels: jax.Array, kept: jax.Array, fill: tuple[int, ...]) -> jax.Array:
  """Returns levels [H, W, C] with the colour `fill` where `kept`, bool [H, W], is false."""
  return jnp.where(kept[..., None], levels, colour(fill, levels.shape[-1]).astype(levels.dtype))


def colour(fill: tuple[int, ...], channels: int) -> jax.Array:
  """Returns the levels of a colour, int32 [1, 1, C]: one or red, green and blue; on one channel
  their mean."""
  if channels == 1:
    fill = (round(sum(fill) / len(fill)),)
  return jnp.broadcast_to(jnp.array(fill, jnp.int32), (1, 1, channels))


def check_colour(colour: tuple[int, ...], where: str) -> None:
  """Raises InputError unless a colour is levels of 0..255: none, one, or red, green and blue."""
  require(
    len(colour) in (0, 1, 3) and all(0 <= level <= 255 for level in colour),
    where,
    colour,
    'levels 0..255, one or red, green and blue, or () for the usual ones',
  )


def resembled(names: Iterable[str]) -> tuple[str, ...]:
  """Returns the transforms of `robustness.environments` that some operations are like."""
  return tuple(sorted({transform for name in names for transform in RESEMBLED.get(name, ())}))
