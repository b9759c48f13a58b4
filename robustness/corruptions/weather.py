"""Snow, frost and fog; in formulas, x is the image."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions import textures
from robustness.corruptions.corruption import Constants, Draws, Strength, published
from robustness.corruptions.filters import interpolate, motion_blur, zoom_coordinates
from robustness.corruptions.names import HAZE, UNLIKE_OTHERS
from robustness.corruptions.pixels import grey, like_channels, to_levels

ROUGHNESS = 100.0  # amplitude of fog's first, coarsest displacement


def _draw_snow(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns the random `noise` [H, W] and `angle` of snow.

  The noise, standard normal, becomes the flakes. The angle is the direction of their motion in
  degrees. `constants` are unused: every `draw` function gets them.
  """
  key_flakes, key_angle = jax.random.split(key)
  return {
    'noise': jax.random.normal(key_flakes, shape[:2]),
    'angle': jax.random.uniform(key_angle, minval=-135, maxval=-45),
  }


@published(UNLIKE_OTHERS, draw=_draw_snow)
def snow(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Whitens the image and adds falling flakes s and the same flakes rotated by 180°.

  The result is clip(x̃ + s + rotated s, 0, 1) for the whitened image
  x̃ = m x + (1 - m) max(x, 1.5 grey(x) + .5) with m = `mix`. The flakes s are noise of mean `loc`
  and standard deviation `scale`, enlarged by `zoom`, set to 0 below `threshold`, and blurred along
  the motion with `radius` and `sigma` in pixels.
  """
  flakes = (strength['loc'] + strength['scale'] * draws['noise'])[..., None]
  # the rows and columns of the noise that the enlarged flakes show at this severity
  zooms = np.array(strength.constants['zoom'])
  y = strength.select(zoom_coordinates(flakes.shape[0], zooms))
  x = strength.select(zoom_coordinates(flakes.shape[1], zooms))
  flakes = interpolate(flakes, y, x)
  flakes = to_levels(jnp.where(flakes < strength['threshold'], 0, flakes))
  radius, sigma = strength['radius'], strength['sigma']
  flakes = motion_blur(flakes, radius, sigma, draws['angle'], strength.maximum('radius'))
  flakes = to_levels(flakes)
  white = jnp.maximum(image, 1.5 * grey(image) + 0.5)
  whitened = strength['mix'] * image + (1 - strength['mix']) * white
  return jnp.clip(whitened + flakes + flakes[::-1, ::-1], 0, 1)


@published(UNLIKE_OTHERS, options={'photographs': ()})
def frost(
  key: jax.Array, image: jax.Array, strength: Strength, photographs: textures.Source = None
) -> jax.Array:
  """Mixes the image x with a random piece of a picture of frost: clip(a x + b frost, 0, 1).

  On a grey image the piece is grey too.

  Args:
    key: random key, which selects the picture and the piece.
    image: float32 [H, W, C] in [0, 1].
    strength: has the constants a = `image_weight`, b = `frost_weight`, and `resize`, the factor
      that pictures are resized by.
    photographs: source of the pictures, see `textures.pictures`.
  """
  pictures = textures.pictures(photographs)
  key_picture, key_piece = jax.random.split(key)
  corner = jax.random.uniform(key_piece, (2,))  # of the piece, as fractions of its largest position
  index = jax.random.randint(key_picture, (), 0, len(pictures))
  resize = strength.constants['resize'][0]  # the same at all severities
  height, width = image.shape[:2]

  def start(fraction: jax.Array, room: int) -> jax.Array:
    """Returns ⌊fraction · room⌋, the first row or column of the piece of frost; 0 without room."""
    return jnp.minimum((fraction * max(room, 1)).astype(jnp.int32), room)

  def piece_of(picture: jax.Array | np.ndarray) -> jax.Array:
    """Returns a piece of a picture of frost with the size of the image, in levels, [H, W, 3].

    The picture is resized by the factor `resize`. `corner` places the piece, as fractions of its
    largest position.

    Args:
      picture: levels in 0..255, [h, w, 3].
    """
    rows, columns = resized_shape(picture.shape, resize, height, width)
    y = start(corner[0], rows - height)
    x = start(corner[1], columns - width)
    return frost_piece(jnp.asarray(picture), y, x, resize, height, width)

  pieces = [functools.partial(piece_of, picture) for picture in pictures]
  return add_frost(image, jax.lax.switch(index, pieces), strength)


def add_frost(image: jax.Array, piece: jax.Array, strength: Strength) -> jax.Array:
  """Returns the image mixed with a piece of frost.

  Args:
    image: float32 [H, W, C] in [0, 1].
    piece: levels 0..255, float32 [H, W, 3].
    strength: has the weights `image_weight` and `frost_weight`.
  """
  image_weight, frost_weight = strength['image_weight'], strength['frost_weight']
  return jnp.clip(image_weight * image + frost_weight * like_channels(piece / 255, image), 0, 1)


def resized_shape(shape: Sequence[int], resize: float, height: int, width: int) -> tuple[int, int]:
  """Returns the numbers of rows and columns of a picture after resizing by the factor `resize`.

  A larger factor is used if the picture would not cover the image of `height` × `width` pixels.
  """
  factor = max(resize, height / shape[0], width / shape[1])
  return max(round(shape[0] * factor), height), max(round(shape[1] * factor), width)


def frost_piece(
  picture: jax.Array, y0: jax.Array, x0: jax.Array, resize: float, height: int, width: int
) -> jax.Array:
  """Returns a piece of a resized picture of frost, in levels 0..255, float32 [height, width, 3].

  The picture is resized bilinearly without smoothing and rounded to levels, as in OpenCV. A picture
  that is too small for the image is enlarged; the released generator fails there.

  Args:
    picture: uint8 [h, w, 3].
    y0: first row of the piece in the resized picture.
    x0: first column of the piece in the resized picture.
    resize: factor of the resizing.
    height: height of the piece in pixels.
    width: width of the piece in pixels.
  """
  factor = max(resize, height / picture.shape[0], width / picture.shape[1])
  if factor == 1:
    return jax.lax.dynamic_slice(picture, (y0, x0, 0), (height, width, 3)).astype(jnp.float32)

  def positions(first: jax.Array, count: int, size: int) -> jax.Array:
    """Returns the fractional rows or columns of the original picture to sample for the piece.

    Args:
      first: first row or column of the piece in the resized picture.
      count: number of rows or columns of the piece.
      size: number of rows or columns of the original picture.
    """
    return jnp.clip((first + jnp.arange(count) + 0.5) / factor - 0.5, 0, size - 1)

  y = positions(y0, height, picture.shape[0])
  x = positions(x0, width, picture.shape[1])
  return jnp.round(interpolate(picture.astype(jnp.float32), y, x))


def _draw_fog(
  key: jax.Array, shape: tuple[int, ...], constants: Constants, cloud: str = 'released'
) -> jax.Array:
  """Returns the random numbers of fog for `plasma`, uniform on [−1, 1], [side² − 1].

  `side` is the side of the fog map: the smallest power of two that covers the image and is at least
  the constant `map_side`.

  Args:
    key: random key.
    shape: shape of the image, (H, W, C).
    constants: has `map_side`.
    cloud: 'released', or 'tfds' for a side of at least 512. Images of 224 pixels then show a
      smaller part of the map, which is more even.
  """
  min_side = max(constants['map_side']) if cloud == 'released' else 512
  side = 1 << (max(*shape[:2], min_side) - 1).bit_length()  # rounded up to a power of two
  return jax.random.uniform(key, (side**2 - 1,), minval=-1, maxval=1)


@published(HAZE, draw=_draw_fog, options={'cloud': ('released', 'tfds')})
def fog(
  draws: jax.Array, image: jax.Array, strength: Strength, cloud: str = 'released'
) -> jax.Array:
  """Adds a fractal map f of fog to all channels: clip((x + a f) m / (m + a), 0, 1), m = max x.

  The constant `amount` is a. The roughness of the map is divided by the constant `decay` from one
  scale to the next finer scale. A black image stays black, and dark images get less fog. The option
  `cloud` sets the size of the map (`_draw_fog`).
  """
  amount, decay = strength['amount'], strength['decay']
  height, width = image.shape[:2]
  clouds = plasma(draws, decay)[:height, :width, None]
  maximum = image.max()
  return jnp.clip((image + amount * clouds) * (maximum / (maximum + amount)), 0, 1)


def plasma(draws: jax.Array, decay: jax.Array) -> jax.Array:
  """Returns a periodic fractal map by midpoint displacement, [side, side], scaled to [0, 1].

  `side` is a power of two. Each round doubles an n × n grid, n = 1, 2, 4, ..., side / 2, with
  opposite edges as neighbours. First, a new point between four old points becomes their mean plus
  w² u. Then a new point between two old points becomes the mean of these two and the two new points
  next to it, plus w² u. The rounds have w = 100, 100 / decay, 100 / decay², ...

  Args:
    draws: random numbers u in [-1, 1], [side² - 1], round by round: for the points between four old
      points, right of old points, and below old points, each [n, n] in row-major order.
    decay: divisor of w from round to round.
  """
  grid, start = jnp.zeros((1, 1)), 0
  strength = jnp.full((), ROUGHNESS**2)
  while start < draws.size:
    n = len(grid)
    u = strength * draws[start : start + 3 * n * n].reshape(3, n, n)
    below, right = jnp.roll(grid, -1, 0), jnp.roll(grid, -1, 1)
    middle = (grid + below + right + jnp.roll(below, -1, 1)) / 4 + u[0]
    across = (grid + right + middle + jnp.roll(middle, 1, 0)) / 4 + u[1]
    down = (grid + below + middle + jnp.roll(middle, 1, 1)) / 4 + u[2]
    # rows of old points and points right of them alternate with rows of points below and middles
    old_rows = jnp.stack((grid, across), -1).reshape(n, 2 * n)
    new_rows = jnp.stack((down, middle), -1).reshape(n, 2 * n)
    grid = jnp.stack((old_rows, new_rows), 1).reshape(2 * n, 2 * n)
    strength, start = strength / decay**2, start + 3 * n * n
  grid = grid - grid.min()
  return grid / grid.max()
