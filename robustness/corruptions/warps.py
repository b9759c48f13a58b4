"""Corruptions of C-bar that move pixels.

ripple, pinch_and_twirl and caustic_refraction sample bilinearly; circular_motion_blur and
transverse_chromatic_abberation sample by cubic B-splines. Images are [N, N, C], and black outside.
In formulas, x is the image and m the magnitude, the constant that grows with severity.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions import filters
from robustness.corruptions.corruption import Draws, Strength, c_bar, uniform
from robustness.corruptions.names import BLUR

LARGE = 128  # images of this side or more have 5 × 5 pinches, smaller ones 3 × 3
TURNS = np.linspace(-1, 1, 21)
"""Angles of the rotations that `circular_motion_blur` averages, as fractions of the largest."""
TURN_WEIGHTS = np.exp(-2 * TURNS**2) / np.exp(-2 * TURNS**2).sum()
"""Weights of the rotations in `TURNS`, with sum 1."""


def sample_or_black(image: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
  """Samples an image [H, W, C] bilinearly at rows y and columns x [...], and returns [..., C].

  Positions are in pixels and may be fractional. Values outside of the image are 0.
  """
  height, width = image.shape[:2]
  # positions outside of the image are clipped to this black frame, 1 pixel wide
  framed = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
  return filters.sample_bilinear(framed, jnp.clip(y, -1, height) + 1, jnp.clip(x, -1, width) + 1)


@c_bar(
  lambda keys, side: {
    'length': uniform(keys[0], 0.1 * side, 0.3 * side, (2,)),
    'phase': uniform(keys[1], 0, 2 * np.pi, (2,)),
  },
  keys=2,
)
def ripple(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Displaces rows and columns by sine waves: x(r + a sin(2πr/l₁ + h₁), c + a sin(2πc/l₂ + h₂)).

  The amplitude is a = .0025 m N pixels, with the magnitude m, for an image x of N × N pixels. The
  drawn `length` (l₁, l₂) is in pixels and `phase` (h₁, h₂) in radians.
  """
  amplitude = 0.0025 * image.shape[0] * strength['magnitude']
  r, c = filters.pixel_grid(image.shape[0])
  length, phase = draws['length'], draws['phase']
  rows = r + amplitude * jnp.sin(2 * np.pi * r / length[0] + phase[0])
  columns = c + amplitude * jnp.sin(2 * np.pi * c / length[1] + phase[1])
  y = jnp.broadcast_to(rows, image.shape[:2])
  x = jnp.broadcast_to(columns, image.shape[:2])
  return sample_or_black(image, y, x)


def _signs(key: jax.Array, side: int) -> Draws:
  """Returns a random sign, 1 or −1, for each cell of a grid over an image.

  The grid has 3 × 3 cells, or 5 × 5 if `side`, the side of the image, is at least 128 pixels.

  Returns:
    {'sign': [3, 3]} or {'sign': [5, 5]}.
  """
  cells = 3 if side < LARGE else 5
  return {'sign': 2.0 * jax.random.bernoulli(key, 0.5, (cells, cells)) - 1}


@c_bar(_signs)
def pinch_and_twirl(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Pinches a circle in each of 3 × 3 cells (5 × 5 in large images) and twirls it.

  Let s be a pixel's distance from the centre of its circle, divided by the radius. The pixel takes
  its value from a place that is farther away by the factor sin(πs/2)^−p, with p = .04 m + .1 for
  the magnitude m. The place is also turned about the centre by ± (1 − s)² mπ/20, with a random sign
  for each circle. The edge of the circle, s = 1, does not change.
  """
  magnitude = strength['magnitude']
  cells = draws['sign'].shape[0]
  width = image.shape[0] // cells
  radius = width / 2
  r, c = filters.pixel_grid(image.shape[0])
  cell_r = jnp.minimum(r // width, cells - 1)
  cell_c = jnp.minimum(c // width, cells - 1)
  # from the centre of the cell, in pixels
  down, right = r - cell_r * width - radius, c - cell_c * width - radius
  distance = jnp.hypot(down, right)
  is_inside = (distance <= radius) & (distance > 0)  # the centre stays
  # pixels below and right of the cells, if they do not divide the side, stay too
  is_inside = is_inside & (r < cells * width) & (c < cells * width)
  # s; 1 outside the circles, where the steps below are computed and not used
  share = jnp.where(is_inside, distance / radius, 1)
  # each pixel shows the place that is this many times, 1 or more, as far from the centre
  pinch = jnp.sin(np.pi / 2 * share) ** -(0.04 * magnitude + 0.1)
  sign = draws['sign'][cell_r.astype(jnp.int32), cell_c.astype(jnp.int32)]
  angle = sign * magnitude * np.pi / 20 * (1 - share) ** 2
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  y = cell_r * width + radius + pinch * (down * cos - right * sin)
  x = cell_c * width + radius + pinch * (down * sin + right * cos)
  return jnp.where(is_inside[..., None], sample_or_black(image, y, x), image)


@c_bar(
  lambda keys, side: {
    'time': uniform(keys[0], 0.5, 2),
    'size': uniform(keys[1], 0.75 * side, 1.25 * side),
  },
  keys=2,
)
def caustic_refraction(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Shows the image as through moving water.

  The surface of the water is a random caustic pattern (`caustic`). Rays are refracted by the slope
  of this surface, and .2 m times the slope is added as light, with the magnitude m. In an image of
  N × N pixels the water is .05 m N pixels deep. Its refractive index is 4.

  Args:
    draws: `time` and `size` of the waves, see `caustic`.
    image: float32 [N, N, C] in [0, 1].
    strength: has the constant `magnitude`.
  """
  side, magnitude = image.shape[0], strength['magnitude']
  surface = filters.gaussian_filter(caustic(side, draws)[..., None], 1.0, 1.0, 'reflect')[..., 0]
  framed = jnp.pad(surface, 1)  # neighbours outside are 0
  down = framed[2:, 1:-1] - framed[:-2, 1:-1]
  right = framed[1:-1, 2:] - framed[1:-1, :-2]
  slope = jnp.hypot(down, right)
  cos = 1 / jnp.sqrt(1 + slope**2)  # of the angle between the ray and the normal of the surface
  sin = slope * cos
  # shift of the ray on its way to the ground, in pixels; 4 is the refractive index, 16 its square
  shift = 0.05 * magnitude * side * sin * (jnp.sqrt(1 - sin**2 / 16) - cos / 4)
  # nearly level water bends no ray; 1e-12 keeps the division finite there
  bent = jnp.where(cos >= 0.999, 0, shift / jnp.maximum(slope, 1e-12))
  r, c = filters.pixel_grid(side)
  # where the bent rays meet the ground, rounded as in the released generator
  y, x = r + _to_thousandths(bent * down), c + _to_thousandths(bent * right)
  light = 0.2 * magnitude * (down - right)
  return jnp.clip(sample_or_black(image, y, x) + light[..., None], 0, 1)


def caustic(side: int, draws: Draws) -> jax.Array:
  """Returns the brightness of light through waves, float32 [side, side] in [0, 1].

  The formula has no physical meaning. It is from the released generator, like its constants: five
  rounds bend the coordinates by waves, and each adds bright lines.

  Args:
    side: side of the image in pixels.
    draws: `size`, the period of the pattern in pixels, and `time`, which moves the waves.
  """
  start_y, start_x = [
    jnp.mod(jnp.broadcast_to(line, (side, side)) / draws['size'], 1) * 6.28318530718 - 250
    for line in filters.pixel_grid(side)
  ]
  y, x = start_y, start_x
  total = jnp.float32(1)
  for n in range(1, 6):
    t = draws['time'] * (1 - 3.5 / n)
    next_y = start_y + jnp.cos(t - y) + jnp.sin(t + x)
    next_x = start_x + jnp.sin(t - x) + jnp.cos(t + y)
    y, x = next_y, next_x
    down, across = start_y * 0.005 / jnp.sin(y + t), start_x * 0.005 / jnp.cos(x + t)
    total += 1 / jnp.hypot(down, across)
  return jnp.clip(jnp.abs(1.17 - (total / 5) ** 1.4) ** 8, 0, 1)


def _to_thousandths(values: jax.Array) -> jax.Array:
  """Returns values rounded to thousandths."""
  return jnp.round(values * 1000) / 1000


@c_bar(lambda key, side: {}, family=BLUR)
def circular_motion_blur(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Averages rotations of the image x about its centre: Σ_i w_i R(t_i · 1.5 m°) x.

  m is the magnitude, t = −1, −.9, …, 1, and w ∝ exp(−2t²) has sum 1. R(angle) rotates by cubic
  splines and is black outside of the image, so that corners darken.

  Args:
    draws: random numbers; this corruption uses none.
    image: a square image, [H, H, C] in [0, 1].
    strength: has the constant `magnitude`.
  """
  side, middle = image.shape[0], (image.shape[0] - 1) / 2
  to_coefficients = jnp.asarray(prefilter(side), jnp.float32)
  coefficients = filters.apply_separable(image, to_coefficients, to_coefficients)
  coefficients = coefficients.reshape(side * side, -1)
  r, c = filters.pixel_grid(side)
  row, column = r - middle, c - middle  # from the centre
  angles = jnp.deg2rad(1.5 * strength['magnitude']) * jnp.asarray(TURNS, jnp.float32)

  def add(number: jax.Array, total: jax.Array) -> jax.Array:
    """Adds one weighted rotation of the image to the sum, for `lax.fori_loop`.

    Args:
      number: number of the rotation, with `angles[number]` and the weight TURN_WEIGHTS[number].
      total: the sum of the rotations before, [H, W, C].
    """
    cos, sin = jnp.cos(angles[number]), jnp.sin(angles[number])
    y = cos * row + sin * column + middle
    x = cos * column - sin * row + middle
    turned = sample_spline(coefficients, side, y, x)
    return total + jnp.asarray(TURN_WEIGHTS, jnp.float32)[number] * turned

  return jnp.clip(jax.lax.fori_loop(0, len(TURNS), add, jnp.zeros_like(image)), 0, 1)


@functools.lru_cache
def prefilter(side: int) -> np.ndarray:
  """Returns the matrix that turns a line of pixels into the coefficients of a cubic spline.

  The spline with these coefficients passes through the pixels. The line is mirrored beyond its
  ends.

  Args:
    side: number N of pixels of the line.

  Returns:
    float64 [N, N].
  """
  to_pixels = np.zeros((side, side))  # from coefficients to the values of the spline at the pixels
  for offset, weight in ((-1, 1 / 6), (0, 4 / 6), (1, 1 / 6)):
    neighbour = np.abs(np.arange(side) + offset)
    neighbour = np.where(neighbour > side - 1, 2 * (side - 1) - neighbour, neighbour)
    to_pixels[np.arange(side), neighbour] += weight
  return np.linalg.inv(to_pixels)


def sample_spline(coefficients: jax.Array, side: int, y: jax.Array, x: jax.Array) -> jax.Array:
  """Samples a cubic spline at fractional rows y and columns x [N, N], and returns [N, N, C].

  Args:
    coefficients: coefficients of the spline in row-major order, [N · N, C].
    side: N.
    y: rows in pixels, [N, N]. The spline is 0 outside of the image.
    x: columns in pixels, [N, N].
  """
  is_inside = (y >= 0) & (y <= side - 1) & (x >= 0) & (x <= side - 1)
  # four nearest rows and columns of each position, with their weights `down` and `right`
  (rows, down), (columns, right) = spline_taps(y, side), spline_taps(x, side)
  total = jnp.zeros((*y.shape, coefficients.shape[-1]))
  for i in range(4):
    for j in range(4):
      weight = (down[i] * right[j])[..., None]
      total = total + weight * coefficients[rows[i] * side + columns[j]]
  return jnp.where(is_inside[..., None], total, 0)


def spline_taps(position: jax.Array, side: int) -> tuple[list[jax.Array], list[jax.Array]]:
  """Returns the indices of the four pixels around each position on a line, and their weights.

  The weights are values of the cubic B-spline. Indices are mirrored at the ends of a line of `side`
  pixels.
  """
  start = jnp.floor(position)
  t = position - start  # in [0, 1)
  inner = (3 * t**3 - 6 * t**2 + 4) / 6, (-3 * t**3 + 3 * t**2 + 3 * t + 1) / 6
  weights = [(1 - t) ** 3 / 6, *inner, t**3 / 6]  # of pixels start − 1, start, start + 1, start + 2
  first = start.astype(jnp.int32)
  return [filters.border_index(first + k, side, 'mirror') for k in range(-1, 3)], weights


@c_bar(lambda key, side: {'order': jax.random.permutation(key, 3)}, rounded=True)
def transverse_chromatic_abberation(
  draws: Draws, image: jax.Array, strength: Strength
) -> jax.Array:
  """Enlarges the three colour channels by 1, 1 + s/2 and 1 + s in random order.

  With the magnitude m, s = .05 m. Pixels serve as the coefficients of cubic B-splines. Therefore
  also the channel that is not enlarged is smoothed, by the filter [1 4 1] / 6. A grey image becomes
  the mean of its three enlargements. The name is spelt as in the released set.
  """
  max_enlargement = 0.05 * strength['magnitude']
  planes = jnp.broadcast_to(image, (*image.shape[:2], 3))

  def enlarged(channel: int) -> jax.Array:
    """Returns a channel of the image after its enlargement, [N, N, 1]."""
    # the order is 0, 1 or 2, for 0, ½ or all of the largest enlargement
    matrix = zoom_matrix(image.shape[0], 1 + max_enlargement * draws['order'][channel] / 2)
    return filters.apply_separable(planes[..., channel : channel + 1], matrix, matrix)

  colour = jnp.concatenate([enlarged(channel) for channel in range(3)], -1)
  return jnp.clip(colour if image.shape[-1] == 3 else colour.mean(-1, keepdims=True), 0, 1)


def zoom_matrix(side: int, scale: jax.Array) -> jax.Array:
  """Returns the matrix [N, N] that enlarges a line of N = `side` pixels about its centre.

  The line is enlarged to round(N · scale) pixels with aligned end points, and the central N pixels
  are kept. Values are interpolated by a cubic B-spline with the pixels as coefficients.
  """
  size = jnp.round(side * scale)  # of the enlarged line
  # the middle N pixels of the enlarged line, and their positions in the old line
  pixel = jnp.arange(side) + jnp.floor((size - side) / 2)
  position = pixel * (side - 1) / jnp.maximum(size - 1, 1)
  indices, weights = spline_taps(position, side)  # four old pixels for each new one
  pairs = zip(indices, weights, strict=True)
  taps = [weight[:, None] * jax.nn.one_hot(index, side) for index, weight in pairs]
  return sum(taps, jnp.zeros((side, side)))
