"""Snow, frost and fog. Each is `f(key, image, severity, constants)`; see `severities`.

Reference:
  Hendrycks and Dietterich (2019), and the released generators of ImageNet-C and CIFAR-10-C.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice
from robustness.corruptions import textures
from robustness.corruptions.colour import grey, like_channels
from robustness.corruptions.filters import interpolate, motion_blur, zoom_coordinates
from robustness.corruptions.levels import to_levels
from robustness.corruptions.severities import Constants, at

CLOUDS = ('released', 'tfds')
TFDS_MAP_SIDE = 512
ROUGHNESS = 100.0  # of fog: wibble of the first, coarsest step


def snow(
  key: jax.Array, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Whitens the image and adds flakes that fall along one direction, and the same upside down.

  Args:
    key: decides flakes and direction.
    image: float32 [H, W, C] in [0, 1].
    severity: 1..5; may be traced.
    constants: `loc`, `scale` of the noise that becomes flakes, `zoom` of the flakes, `threshold`
      below which there is none, `radius`, `sigma` of the motion blur (pixels), `mix`, the share of
      the image that is not whitened.
  """
  key_flakes, key_angle = jax.random.split(key)
  noise = jax.random.normal(key_flakes, image.shape[:2])
  angle = jax.random.uniform(key_angle, minval=-135, maxval=-45)
  return snow_from_draws(image, noise, angle, severity, constants)


def snow_from_draws(
  image: jax.Array,
  noise: jax.Array,
  angle: jax.Array,
  severity: jax.Array | int,
  constants: Constants,
) -> jax.Array:
  """Returns the snowed image for given random numbers.

  With the flakes s: clip(x̃ + s + s rotated by 180°), x̃ = m x + (1 - m) max(x, 1.5 grey(x) + .5).

  Args:
    image: float32 [H, W, C] in [0, 1].
    noise: [H, W], standard normal.
    angle: degrees, of the motion.
    severity, constants: as in `snow`.
  """
  value = {name: at(constants[name], severity) for name in constants}
  flakes = _zoom((value['loc'] + value['scale'] * noise)[..., None], severity, constants['zoom'])
  flakes = to_levels(jnp.where(flakes < value['threshold'], 0, flakes))
  flakes = to_levels(
    motion_blur(flakes, value['radius'], value['sigma'], angle, max(constants['radius']))
  )
  white = jnp.maximum(image, 1.5 * grey(image) + 0.5)
  whitened = value['mix'] * image + (1 - value['mix']) * white
  return jnp.clip(whitened + flakes + flakes[::-1, ::-1], 0, 1)


def _zoom(plane: jax.Array, severity: jax.Array | int, zooms: Sequence[float]) -> jax.Array:
  """Enlarges the centre of a plane [H, W, 1] by the zoom of a severity."""
  y, x = (at(zoom_coordinates(size, np.array(zooms)), severity) for size in plane.shape[:2])
  return interpolate(plane, y, x)


def frost(
  key: jax.Array,
  image: jax.Array,
  severity: jax.Array | int,
  constants: Constants,
  photographs: str | os.PathLike[str] | Sequence[jax.Array | np.ndarray] | None = None,
) -> jax.Array:
  """Mixes the image with a piece of a picture of frost: clip(a x + b frost).

  Args:
    key: decides the picture and the piece.
    image: float32 [H, W, C] in [0, 1]; a grey image is mixed with the picture's grey value.
    severity: 1..5; may be traced.
    constants: `image_weight` a, `frost_weight` b, `resize` of the pictures (the same for all
      severities).
    photographs: pictures, one of which is drawn evenly: uint8 [h, w, 3] each; or a folder that
      holds the released ones, or 'imagecorruptions', see `textures.load_photographs`. None or
      'procedural' takes `textures.procedural_textures`, which are not the released photographs.
  """
  pictures = textures.pictures(photographs)
  key_picture, key_piece = jax.random.split(key)
  corner = jax.random.uniform(key_piece, (2,))
  index = jax.random.randint(key_picture, (), 0, len(pictures))
  resize, (height, width) = constants['resize'][0], image.shape[:2]

  def piece_of(picture: jax.Array | np.ndarray) -> jax.Array:
    room = [
      n - m + 1
      for n, m in zip(resized(picture.shape, resize, height, width), (height, width), strict=True)
    ]
    top, left = (
      jnp.minimum((corner[i] * max(room[i] - 1, 1)).astype(jnp.int32), room[i] - 1) for i in (0, 1)
    )
    return frost_piece(jnp.asarray(picture), top, left, resize, height, width)

  pieces = [lambda picture=picture: piece_of(picture) for picture in pictures]
  return add_frost(image, jax.lax.switch(index, pieces), severity, constants)


def add_frost(
  image: jax.Array, piece: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Returns clip(a x + b frost) for a given piece of frost, levels [H, W, 3]."""
  weights = at(constants['image_weight'], severity), at(constants['frost_weight'], severity)
  return jnp.clip(weights[0] * image + weights[1] * like_channels(piece / 255, image), 0, 1)


def resized(shape: Sequence[int], resize: float, height: int, width: int) -> tuple[int, int]:
  """Returns rows and columns of a picture after `resize`, and at least those of the image."""
  factor = max(resize, height / shape[0], width / shape[1])
  return max(round(shape[0] * factor), height), max(round(shape[1] * factor), width)


def frost_piece(
  picture: jax.Array, top: jax.Array, left: jax.Array, resize: float, height: int, width: int
) -> jax.Array:
  """Returns a piece of a resized picture, levels float32 [height, width, 3].

  The picture is resized bilinearly without smoothing and rounded to levels, as OpenCV does. One
  that would be smaller than the image is enlarged to hold it; the released generator fails there.

  Args:
    picture: uint8 [h, w, 3].
    top, left: corner of the piece in the resized picture; may be traced.
    resize: factor, static.
    height, width: of the piece, in pixels.
  """
  factor = max(resize, height / picture.shape[0], width / picture.shape[1])
  if factor == 1:
    piece = jax.lax.dynamic_slice(picture, (top, left, 0), (height, width, 3))
    return piece.astype(jnp.float32)
  y, x = (
    jnp.clip((corner + jnp.arange(side) + 0.5) / factor - 0.5, 0, size - 1)
    for corner, side, size in ((top, height, picture.shape[0]), (left, width, picture.shape[1]))
  )
  return jnp.round(interpolate(picture.astype(jnp.float32), y, x))


def fog(
  key: jax.Array,
  image: jax.Array,
  severity: jax.Array | int,
  constants: Constants,
  cloud: str = 'released',
) -> jax.Array:
  """Adds a fractal map of fog to all channels: clip((x + a f) m / (m + a)), m = max x.

  An image that is black stays black, and dark images get less fog.

  Args:
    key: decides the map.
    image: float32 [H, W, C] in [0, 1].
    severity: 1..5; may be traced.
    constants: `amount` a, `decay` of the map's roughness from one scale to the next, `map_side`.
      The map's side is the least power of two that covers the image and `map_side`.
    cloud: 'released' takes `map_side` from the constants; 'tfds' takes 512, of which an image of
      224 shows a smaller and evener part.
  """
  choice('cloud', cloud, CLOUDS)
  least = max(constants['map_side']) if cloud == 'released' else TFDS_MAP_SIDE
  side = 1 << (max(*image.shape[:2], least) - 1).bit_length()
  draws = jax.random.uniform(key, (side**2 - 1,), minval=-1, maxval=1)
  return fog_from_draws(image, draws, severity, constants)


def fog_from_draws(
  image: jax.Array, draws: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Returns the fogged image for given random numbers.

  Args:
    image: float32 [H, W, C] in [0, 1].
    draws: [side² - 1] in [-1, 1]; see `plasma`.
    severity, constants: as in `fog`.
  """
  amount, decay = at(constants['amount'], severity), at(constants['decay'], severity)
  height, width = image.shape[:2]
  clouds = plasma(draws, decay)[:height, :width, None]
  most = image.max()
  return jnp.clip((image + amount * clouds) * (most / (most + amount)), 0, 1)


def plasma(draws: jax.Array, decay: jax.Array) -> jax.Array:
  """Returns a fractal map by midpoint displacement on a torus, [side, side] in [0, 1].

  Each round doubles an n × n grid. The new point in the middle of four old ones is their mean plus
  w² u; the new points on the edges between old ones are the mean of their two old and two middle
  neighbours plus w² u, with u in [-1, 1]; w = 100, 100 / decay, 100 / decay², ...

  Args:
    draws: [side² - 1], u of each round for n = 1, 2, 4, ..., side / 2: the middles, the points
      right of old ones, the points below old ones, each [n, n] in row-major order.
    decay: scalar; may be traced.
  """
  grid, used = jnp.zeros((1, 1)), 0
  strength = jnp.full((), ROUGHNESS**2)
  while used < draws.size:
    n = len(grid)
    u = strength * draws[used : used + 3 * n * n].reshape(3, n, n)
    below, right = jnp.roll(grid, -1, 0), jnp.roll(grid, -1, 1)
    middle = (grid + below + right + jnp.roll(below, -1, 1)) / 4 + u[0]
    across = (grid + right + middle + jnp.roll(middle, 1, 0)) / 4 + u[1]
    down = (grid + below + middle + jnp.roll(middle, 1, 1)) / 4 + u[2]
    rows = [jnp.stack(pair, -1).reshape(n, 2 * n) for pair in ((grid, across), (down, middle))]
    grid = jnp.stack(rows, 1).reshape(2 * n, 2 * n)
    strength, used = strength / decay**2, used + 3 * n * n
  grid = grid - grid.min()
  return grid / grid.max()
