"""The image operations of AutoAugment, RandAugment and AugMix, in pure JAX, as in Pillow.

The operations of each of the five families share a computation. Under `vmap` all families that can
occur are computed for every image. A loop over images, as on a CPU, computes for each image only
the family of its operation.
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
from robustness.core.arguments import as_images
from robustness.core.settings import choice, require
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
"""{operation: names of the transforms in `robustness.environments`, or of families of transforms,
that it resembles}."""

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
"""{operation: (unit and range of its magnitude in words, lower bound, upper bound)}."""

MEAN_COLOUR = (125, 123, 114)
"""Mean colour of CIFAR-10's training images, in levels."""
INTERPOLATIONS = {'nearest': pillow.warp_nearest, 'bilinear': pillow.warp_bilinear}
Image = tuple[jax.Array, jax.Array]
"""Levels, uint8 [H, W, C], and a mask of pixels that show the image, bool [H, W]."""


@dataclasses.dataclass(frozen=True)
class Drawn:
  """A random operation to apply to an image, or an array of operations.

  For an array, every attribute has the same leading axes.

  Attributes:
    index: index of the operation in `Operations.names`, int32; −1 changes nothing.
    magnitude: size of the change in the operation's unit, such as degrees, float32.
    centre: row and column of the centre of Cutout's square, int32 [2].
  """

  index: jax.Array
  magnitude: jax.Array
  centre: jax.Array


jax.tree_util.register_dataclass(Drawn, ['index', 'magnitude', 'centre'], [])
Family = Callable[[tuple[str, ...], Drawn, Image], Image]
"""A function (names, drawn, image) that returns the image after the operation
`names[drawn.index]`; `names` are the operations of the family that can occur."""


def apply(
  name: str,
  image: jax.Array | np.ndarray,
  magnitude: float | jax.Array,
  *,
  interpolation: str = 'nearest',
  fill: tuple[int, ...] = (0,),
  centre: tuple[int, int] | None = None,
) -> jax.Array:
  """Applies an operation of Pillow, such as 'Rotate', to an image [H, W, C].

  The image is first rounded to 8-bit values, and operations compute with these as Pillow does. The
  result is float32 in [0, 1], in multiples of 1/255.

  ShearX, ShearY, TranslateX and TranslateY are `Image.transform`, and Rotate is `Image.rotate`.
  AutoContrast, Equalize, Invert, Posterize and Solarize are in `ImageOps`; Brightness, Color,
  Contrast and Sharpness are in `ImageEnhance`. SolarizeAdd adds to values below 128 and clips.
  Cutout covers a square.

  Args:
    name: one of `NAMES`.
    image: float32 [H, W, C] in [0, 1], C 1 or 3.
    magnitude: size of the change, such as degrees for Rotate; `UNITS` lists the units. May be
      traced.
    interpolation: 'nearest' or 'bilinear', for shears, translations and rotations.
    fill: colour of pixels that are left empty or covered by Cutout, in 0..255: (grey,) or (red,
      green, blue).
    centre: row and column of the centre of Cutout's square; None takes the centre of the image.

  Raises:
    InputError: The name is unknown, the magnitude is outside its range, or fill or image is
      invalid.
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
  start = to_levels(image), jnp.ones(image.shape[:2], bool)  # all pixels show the image
  operation = Operations((name,), interpolation, warp_fill=fill, cutout_fill=fill)
  drawn = Drawn(index=jnp.int32(0), magnitude=jnp.float32(magnitude), centre=middle)
  levels, _ = operation(start, drawn)
  return from_levels(levels)


@dataclasses.dataclass(frozen=True)
class Operations:
  """A function that applies one of several operations of Pillow to an image.

  Attributes:
    names: the operations that can occur, from `NAMES`. Only these are compiled, and an index
      selects one of them.
    interpolation: 'nearest' or 'bilinear', for shears, translations and rotations.
    warp_fill: colour of pixels that shears, translations and rotations leave empty, in 0..255:
      (grey,) or (red, green, blue).
    cutout_fill: colour of pixels that Cutout covers.
    transparent: whether empty and covered pixels are only filled after the last operation.
      Otherwise they become part of the image at once.
  """

  names: tuple[str, ...] = NAMES
  interpolation: str = 'nearest'
  warp_fill: tuple[int, ...] = (0,)
  cutout_fill: tuple[int, ...] = (0,)
  transparent: bool = False

  def __call__(self, image: Image, drawn: Drawn) -> Image:
    """Returns an image after one operation.

    Args:
      image: (8-bit values uint8 [H, W, C], mask bool [H, W] of pixels that show the original
        image).
      drawn: the operation, with its index in `names`; −1 changes nothing.

    Returns:
      (8-bit values, mask). If `transparent`, the mask excludes pixels that the operation leaves
      empty or covers.
    """
    color = functools.partial(_apply_blend, grey)  # blends the image with its grey levels
    sharpness = functools.partial(_apply_blend, smoothed)  # and with its smoothed levels
    # in the order of `FAMILIES`
    functions: list[Family] = [self._apply_warp, _apply_table, color, sharpness, self._apply_cutout]
    # Branch 0 is the identity; each family with an operation in `names` has a further branch, which
    # gets the index of the operation in the family. For the names ShearX, Invert and Rotate, branch
    # 1 has the warps ShearX (index 0) and Rotate (index 1), and branch 2 has Invert.
    branches: list[Callable[[Drawn, Image], Image]] = [lambda drawn, image: image]
    branch_and_index: dict[str, tuple[int, int]] = {}  # of each operation
    for family, function in zip(FAMILIES, functions, strict=True):
      names_in_branch = tuple(name for name in self.names if name in family)
      if names_in_branch:
        for index, name in enumerate(names_in_branch):
          branch_and_index[name] = len(branches), index
        branches.append(functools.partial(function, names_in_branch))
    # the columns of a table [operations, 2]; entry i is of the operation `self.names[i]`
    branch_of, index_in_branch = jnp.array([branch_and_index[name] for name in self.names]).T
    branch = jnp.where(drawn.index < 0, 0, branch_of[drawn.index])
    drawn_in_branch = dataclasses.replace(drawn, index=index_in_branch[drawn.index])
    return jax.lax.switch(branch, branches, drawn_in_branch, image)

  def in_sequence(self, image: jax.Array, drawn: Drawn, fill: tuple[int, ...] = ()) -> jax.Array:
    """Returns an image after several operations in order, float32 [H, W, C] in [0, 1].

    Args:
      image: float32 [H, W, C] in [0, 1]. It is rounded to 8-bit values, unless all operations are
        −1 (no change).
      drawn: the operations in order, arrays [steps, ...]: `index` in `self.names`, where −1 is no
        change, and their parameters, such as `magnitude`.
      fill: colour of the pixels that operations leave empty or cover, if `transparent`.

    Raises:
      InputError: The image has neither one channel nor three.
    """
    image = as_images(image, (3,), 'operations')

    def step(state: Image, drawn: Drawn) -> tuple[Image, None]:
      """Applies one operation, as a step of `lax.scan` without an output.

      Args:
        state: the image, uint8 [H, W, C], and a mask of the pixels that still show it.
        drawn: the operation.
      """
      return self(state, drawn), None

    start = to_levels(image), jnp.ones(image.shape[:2], bool)  # all pixels show the image
    (levels, mask), _ = jax.lax.scan(step, start, drawn)
    if self.transparent:
      levels = fill_outside_mask(levels, mask, fill)
    is_changed = (drawn.index >= 0).any()
    return jax.lax.cond(is_changed, lambda: from_levels(levels), lambda: image)

  def _apply_warp(self, names: tuple[str, ...], drawn: Drawn, image: Image) -> Image:
    """Returns the image after a shear, translation or rotation.

    Pixels that are left empty have the colour `warp_fill`.

    Args:
      names: the operations of this kind that can occur.
      drawn: the operation, with its index in `names`.
      image: (8-bit values uint8 [H, W, C], mask bool [H, W] of pixels that show the original
        image).
    """
    levels, mask = image
    # the six numbers of the affine map; `mask.shape` is the image's height and width
    matrix = pillow.warp_matrix(drawn.index, names, drawn.magnitude, *mask.shape)
    warp = INTERPOLATIONS[self.interpolation]
    if not self.transparent:
      warped, is_inside = warp(levels, matrix)
      return fill_outside_mask(warped, is_inside, self.warp_fill), mask
    # The mask is warped as a further channel: 255, or 0 at pixels that show nothing of the image.
    # Of the warped mask all pixels above 0 count as showing the image.
    with_mask = jnp.concatenate([levels, 255 * mask[..., None].astype(levels.dtype)], -1)
    warped, _ = warp(with_mask, matrix)
    warped_mask = warped[..., -1] > 0
    return fill_outside_mask(warped[..., :-1], warped_mask, self.warp_fill), warped_mask

  def _apply_cutout(self, names: tuple[str, ...], drawn: Drawn, image: Image) -> Image:
    """Returns the image with a square covered by the colour `cutout_fill`.

    Args:
      names: the only operation, Cutout.
      drawn: centre and side (`magnitude`) of the square.
      image: (8-bit values uint8 [H, W, C], mask bool [H, W] of pixels that show the original
        image).
    """
    levels, mask = image
    is_free = ~square_mask(mask.shape, drawn.centre, drawn.magnitude)  # outside of the square
    covered = fill_outside_mask(levels, is_free, self.cutout_fill)
    return covered, (mask & is_free if self.transparent else mask)


def uniform_integer(uniform: jax.Array, count: ArrayLike) -> jax.Array:
  """Converts uniform numbers in [0, 1) to uniform integers in 0..count − 1, int32."""
  count = jnp.asarray(count)
  return jnp.minimum((uniform * count).astype(jnp.int32), count - 1)  # a product may round to count


def square_mask(shape: tuple[int, ...], centre: jax.Array, side: ArrayLike) -> jax.Array:
  """Returns a mask that is true at the pixels of a square, bool [H, W].

  The square has the rows and columns from c − ⌊s/2⌋ to c − ⌊s/2⌋ + s − 1.

  Args:
    shape: (H, W).
    centre: row and column c of the centre, int32 [2].
    side: side s in pixels; rounded down.
  """
  size = jnp.asarray(side).astype(jnp.int32)
  y, x = jnp.arange(shape[0]), jnp.arange(shape[1])
  top, left = centre - size // 2
  return ((y >= top) & (y < top + size))[:, None] & ((x >= left) & (x < left + size))[None, :]


def _apply_table(names: tuple[str, ...], drawn: Drawn, image: Image) -> Image:
  """Returns the image after an operation that maps each pixel value to another, such as Invert.

  Args:
    names: the operations of this kind that can occur, from `TABULATED`.
    drawn: the operation, with its index in `names`.
    image: (8-bit values uint8 [H, W, C], mask bool [H, W]). The mask is unchanged.
  """
  levels, mask = image
  table = pillow.level_table(drawn.index, names, levels, drawn.magnitude)
  return pillow.look_up(levels, table), mask


def _apply_blend(
  degenerate: Callable[[jax.Array], jax.Array], names: tuple[str, ...], drawn: Drawn, image: Image
) -> Image:
  """Returns a blend of the image with its grey or smooth version, for Color and Sharpness.

  Args:
    degenerate: function from 8-bit values [H, W, C] to the grey or smooth version.
    names: not used.
    drawn: the operation. `magnitude` is the weight of the image: 0 is the other version, 1 the
      image.
    image: (8-bit values uint8 [H, W, C], mask bool [H, W]). The mask is unchanged.
  """
  levels, mask = image
  return blend(degenerate(levels), levels, drawn.magnitude).astype(levels.dtype), mask


def smoothed(levels: jax.Array) -> jax.Array:
  """Returns an 8-bit image after Pillow's filter SMOOTH, int32 [H, W, C].

  A pixel becomes 5/13 of itself plus 1/13 of each of its eight neighbours, rounded. Border pixels
  are unchanged.
  """
  height, width, channels = levels.shape
  # [H, W · C], as long rows are faster; the neighbouring pixel is `channels` entries away
  flat = levels.astype(jnp.int32).reshape(height, width * channels)
  padded = jnp.pad(flat, ((1, 1), (channels, channels)))
  # the sum of each pixel and its eight neighbours: first of three rows, then of three columns
  sums = padded[:-2] + padded[1:-1] + padded[2:]
  total = sums[:, : -2 * channels] + sums[:, channels:-channels] + sums[:, 2 * channels :]
  # ⌊s/13 + ½⌋ = ⌊(2 s + 13) / 26⌋ with the weighted sum s = total + 4 flat; a CPU multiplies floats
  # in vectors, but divides integers one by one
  mean = ((2 * (total + 4 * flat) + 13).astype(jnp.float32) * (1 / 26)).astype(jnp.int32)
  y, x = jnp.arange(height)[:, None], jnp.arange(width * channels)[None, :] // channels
  is_inner = (y > 0) & (y < height - 1) & (x > 0) & (x < width - 1)
  return jnp.where(is_inner, mean, flat).reshape(levels.shape)


def to_levels(image: jax.Array) -> jax.Array:
  """Rounds an image in [0, 1] to 8-bit values, uint8."""
  return jnp.round(jnp.clip(image, 0, 1) * 255).astype(jnp.uint8)


def from_levels(levels: jax.Array) -> jax.Array:
  """Returns levels / 255, float32."""
  return levels.astype(jnp.float32) / 255


def fill_outside_mask(levels: jax.Array, mask: jax.Array, fill: tuple[int, ...]) -> jax.Array:
  """Fills the pixels at which the mask is false with a colour.

  Args:
    levels: image with 8-bit values, [H, W, C].
    mask: bool [H, W].
    fill: (grey,) or (red, green, blue), in 0..255.
  """
  colour = fill_levels(fill, levels.shape[-1]).astype(levels.dtype)
  return jnp.where(mask[..., None], levels, colour)


def fill_levels(fill: tuple[int, ...], channels: int) -> jax.Array:
  """Returns a colour as an array with one value per channel, int32 [1, 1, C].

  Args:
    fill: (grey,) or (red, green, blue), in 0..255.
    channels: number of channels C; a single channel gets the mean of the colour.
  """
  if channels == 1:
    fill = (round(sum(fill) / len(fill)),)
  return jnp.broadcast_to(jnp.array(fill, jnp.int32), (1, 1, channels))


def check_colour(colour: tuple[int, ...], key: str) -> None:
  """Raises InputError unless a colour is (), (grey,) or (red, green, blue), in 0..255.

  Args:
    colour: the colour.
    key: name of the setting with the colour, for the message.
  """
  is_colour = len(colour) in (0, 1, 3) and all(0 <= level <= 255 for level in colour)
  fix = 'levels 0..255, one or red, green and blue, or () for the usual ones'
  require(is_colour, key, colour, fix)


def resembled_transforms(names: Iterable[str]) -> tuple[str, ...]:
  """Returns the names of the image transforms that some operations look like, sorted.

  For instance, 'Sharpness' looks like the family 'blur'.
  """
  return tuple(sorted({transform for name in names for transform in RESEMBLED.get(name, ())}))
