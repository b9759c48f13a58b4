"""The five blurs: Gaussian, defocus, frosted glass, motion and zoom; x is the image."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from robustness.corruptions import filters
from robustness.corruptions.corruption import Constants, Strength, corruption, published
from robustness.corruptions.names import BLUR
from robustness.corruptions.pixels import to_levels

Moves = Callable[[jax.Array | int, jax.Array], jax.Array]
"""A function that draws the pixel moves of a pass of glass blur, see `_draw_moves`."""


@published(BLUR)
def gaussian_blur(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Smooths each channel with a Gaussian of standard deviation `sigma` pixels.

  The Gaussian is cut off at 4 `sigma`, and edges are replicated. `key` is unused.
  """
  sigma, largest = strength['sigma'], strength.maximum('sigma')
  return jnp.clip(filters.gaussian_filter(image, sigma, largest), 0, 1)


@published(BLUR)
def defocus_blur(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Smooths each channel with a disk of `radius` pixels, softened by a Gaussian of `sigma` pixels.

  `radius` and `sigma` depend on the severity. Borders are mirrored without repeating the edge
  pixel. `key` is unused.
  """
  kernels = disk_kernels(strength.constants['radius'], strength.constants['sigma'])
  return jnp.clip(filters.correlate(image, strength.select(kernels)), 0, 1)


@functools.lru_cache
def disk_kernels(radii: tuple[float, ...], sigmas: tuple[float, ...]) -> np.ndarray:
  """Returns the blur kernels of S severities, disks smoothed by a Gaussian, float64 [S, K, K].

  K is the smallest odd side that contains all disks. For the smoothing see `_disk`.

  Args:
    radii: radius of the disk at each severity, in pixels.
    sigmas: standard deviation of the Gaussian at each severity, in pixels.
  """
  kernels = [_disk(radius, sigma) for radius, sigma in zip(radii, sigmas, strict=True)]
  side = max(len(kernel) for kernel in kernels)
  # all kernels padded with 0 to the largest side
  stack = np.stack([np.pad(kernel, (side - len(kernel)) // 2) for kernel in kernels])
  # number of columns at either side that are 0 in all kernels
  margin = np.flatnonzero((stack > 1e-9).any((0, 1)))[0]
  return stack[:, margin : side - margin, margin : side - margin]


def _disk(radius: float, sigma: float) -> np.ndarray:
  """Returns the kernel of a disk smoothed by a Gaussian, float64 [side, side].

  The side is 17 pixels, or 2 ⌊radius⌋ + 1 for a radius above 8. Edges are mirrored. The entries sum
  to 1, or to more if the disk touches the edges, as in the released generator.

  Args:
    radius: radius of the disk in pixels.
    sigma: standard deviation of the Gaussian in pixels.
  """
  reach = 8 if radius <= 8 else int(radius)
  line = np.arange(-reach, reach + 1)
  disk = (line[:, None] ** 2 + line[None, :] ** 2 <= radius**2).astype(np.float64)
  disk /= disk.sum()
  taps = np.arange(-1, 2) if radius <= 8 else np.arange(-2, 3)  # a Gaussian of 3 or of 5 taps
  weights = np.exp(-0.5 * (taps / sigma) ** 2)
  weights /= weights.sum()
  for axis in (0, 1):
    disk = scipy.ndimage.correlate1d(disk, weights, axis, mode='mirror')
  return disk


def _draw_angle(
  key: jax.Array, shape: tuple[int, ...], constants: Constants, angle: str = 'random'
) -> jax.Array:
  """Returns the angle of motion in degrees: uniform on (−45, 45), or −45 if `angle` is 'fixed'.

  TFDS's `imagenet2012_corrupted` has the fixed angle. `shape` and `constants` are unused: every
  `draw` function gets them.
  """
  drawn = jax.random.uniform(key, minval=-45.0, maxval=45.0)
  return drawn if angle == 'random' else jnp.float32(-45)


@published(BLUR, draw=_draw_angle, options={'angle': ('random', 'fixed')})
def motion_blur(
  degrees: jax.Array, image: jax.Array, strength: Strength, angle: str = 'random'
) -> jax.Array:
  """Blurs along one direction, then truncates to 8-bit levels.

  Each pixel becomes a weighted mean of the pixels in the direction `degrees`: 0 is to the right,
  and 90 is downwards. The kernel's `radius` and `sigma` are in pixels. The option `angle` sets how
  `degrees` are drawn (`_draw_angle`).
  """
  radius, sigma = strength['radius'], strength['sigma']
  blurred = filters.motion_blur(image, radius, sigma, degrees, strength.maximum('radius'))
  return to_levels(blurred, 'floor')


def _zooms(*ends: tuple[float, float]) -> list[tuple[float, ...]]:
  """Returns the zoom factors 1, 1 + step, ... below `end` for each pair (end, step)."""
  return [tuple(np.arange(1, end, step).tolist()) for end, step in ends]


@corruption(
  'zooms',
  {
    32: _zooms((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    224: _zooms((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
  },
  least_side=lambda constants: 2,
  reason='or there is no centre to enlarge',
  family=BLUR,
)
def zoom_blur(key: jax.Array, image: jax.Array, strength: Strength) -> jax.Array:
  """Averages an image with enlarged copies of its centre.

  With the n zoom factors z (`zooms` of `strength`), the result is (2 x + Σ zoom(x, z)) / (n + 1).
  The sum is over z > 1. The first factor is 1, therefore the image x itself counts twice. `key` is
  unused.
  """
  zooms = strength.constants['zooms']
  counts = np.asarray([len(z) for z in zooms])
  # unused repeats of the last factor make the arrays of all severities equal in shape
  padded = [np.pad(z, (0, counts.max() - len(z)), mode='edge') for z in zooms]
  height, width = image.shape[:2]
  rows = jnp.asarray(np.stack([filters.zoom_coordinates(height, z) for z in padded]))
  columns = jnp.asarray(np.stack([filters.zoom_coordinates(width, z) for z in padded]))
  severity, count = strength.index, strength.select(counts)

  def add(i: jax.Array, total: jax.Array) -> jax.Array:
    """Returns `total` plus the image enlarged by the i-th zoom factor."""
    return total + filters.interpolate(image, rows[severity, i], columns[severity, i])

  # the image counts twice at the start, as itself and as its zoom by 1
  total = jax.lax.fori_loop(1, count, add, 2 * image)
  return jnp.clip(total / (count + 1), 0, 1)


def _draw_moves(
  key: jax.Array, shape: tuple[int, ...], constants: Constants, exchange: str = 'copy'
) -> Moves:
  """Returns a function that draws the random pixel moves of glass blur.

  Glass blur makes several passes over the image. In each pass a pixel takes the value of a random
  partner nearby. The function is called as `moves(iteration, delta)` and returns int32 [2, H, W]:
  the rows down and the columns right from each pixel to its partner.

  Args:
    key: random key of the image.
    shape: shape of the image, (H, W, C).
    constants: unused; every `draw` function gets them.
    exchange: unused.
  """

  def moves(iteration: jax.Array | int, delta: jax.Array) -> jax.Array:
    """Draws the moves of glass blur in one pass over the image, int32 [2, H, W].

    A pixel takes the value of the pixel that is this number of rows down and columns right. Both
    are uniform on −delta, …, delta − 1.

    Args:
      iteration: number of the pass, which the random numbers depend on.
      delta: largest distance of a move in rows, and in columns.
    """
    bits = jax.random.bits(jax.random.fold_in(key, iteration), shape[:2], jnp.uint32)
    side = (2 * delta).astype(jnp.uint32)
    cell = bits % (side * side)  # one of the side × side pairs (row, column), counted row by row
    return jnp.stack([cell // side, cell % side]).astype(jnp.int32) - delta

  return moves


@published(
  BLUR,
  draw=_draw_moves,
  options={'exchange': ('copy', 'swap')},
  least_side=lambda constants: 2 * max(constants['delta']) + 1,
  reason='or no pixel is far enough from the edge to be moved',
)
def glass_blur(
  moves: Moves, image: jax.Array, strength: Strength, exchange: str = 'copy'
) -> jax.Array:
  """Moves pixels at random by up to `delta` pixels, between two Gaussian smoothings.

  Args:
    moves: called with the number of a pass and `delta`; returns the rows down and columns right
      from each pixel to a random partner, int32 [2, H, W].
    image: float32 [H, W, C] in [0, 1].
    strength: has `sigma` of the smoothings and `delta`, both in pixels, and the number of passes,
      `iterations`.
    exchange: 'copy', as in the released generator, copies the partner's value to the pixel. 'swap'
      exchanges the values of both.
  """
  sigma, max_sigma = strength['sigma'], strength.maximum('sigma')
  delta = strength['delta']
  one_pass = copy_moves if exchange == 'copy' else swap_moves
  smooth = to_levels(filters.gaussian_filter(image, sigma, max_sigma), 'floor')

  def after_pass(number: jax.Array, source: jax.Array) -> jax.Array:
    """Updates the origin of each pixel's value by one more pass.

    Args:
      number: number of the pass.
      source: flat index of the pixel where each pixel's value was at first, int32 [H·W].
    """
    return source[one_pass(moves(number, delta), delta)]  # at the origins by this pass

  first = one_pass(moves(0, delta), delta)  # int32 [H·W]
  source = jax.lax.fori_loop(1, strength['iterations'], after_pass, first)
  moved = smooth.reshape(-1, image.shape[-1])[source].reshape(image.shape)
  return jnp.clip(filters.gaussian_filter(moved, sigma, max_sigma), 0, 1)


def _targets(moves: jax.Array, delta: jax.Array) -> jax.Array:
  """Returns the flat index of each pixel's partner in glass blur, int32 [H·W].

  Only pixels in rows delta + 1 to H − delta and columns delta + 1 to W − delta have another pixel
  as partner. All others are their own partners.

  Args:
    moves: rows down and columns right from each pixel to its partner, int32 [2, H, W].
    delta: largest move in pixels.
  """
  height, width = moves.shape[1:]
  y, x = jnp.arange(height)[:, None], jnp.arange(width)[None, :]
  is_visited = ((y > delta) & (y <= height - delta)) & ((x > delta) & (x <= width - delta))
  index = y * width + x
  return jnp.where(is_visited, index + moves[0] * width + moves[1], index).reshape(-1)


def copy_moves(moves: jax.Array, delta: jax.Array) -> jax.Array:
  """Returns the origin of each pixel's value after one pass of copies, as flat indices int32 [H·W].

  The released generator visits the pixels from the last to the first and copies the partner's value
  to each. A partner later in the image was visited before and has a copied value itself. Therefore
  partners are followed while they come later in the image, and then once more.

  Args:
    moves: rows down and columns right from each pixel to its partner, int32 [2, H, W].
    delta: largest move in pixels.
  """
  target = _targets(moves, delta)  # flat index of each pixel's partner
  index = jnp.arange(len(target))
  # where one jump from each pixel ends: at its partner if it comes later, else at the pixel itself
  one_jump = jnp.where(target > index, target, index)

  def double(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Doubles the number of jumps: returns where they end, and whether that changed anywhere."""
    ends, _ = state
    ends_of_twice = ends[ends]
    return ends_of_twice, filters.any_of_batch(ends_of_twice != ends)

  start = one_jump, filters.any_of_batch(one_jump != index)
  ends, _ = jax.lax.while_loop(lambda state: state[1], double, start)
  return target[ends]


def swap_moves(moves: jax.Array, delta: jax.Array) -> jax.Array:
  """Returns the origin of each pixel's value after one pass of swaps, as flat indices int32 [H·W].

  The pixels are visited from the last to the first, and each exchanges values with its partner. The
  swaps run one after another, because each depends on the swaps before.

  Args:
    moves: rows down and columns right from each pixel to its partner, int32 [2, H, W].
    delta: largest move in pixels.
  """
  target = _targets(moves, delta)  # flat index of each pixel's partner
  num_pixels = len(target)

  def visit(i: jax.Array, source: jax.Array) -> jax.Array:
    """Updates the origins `source` [H·W] by the swap of pixel H·W − 1 − i with its partner."""
    pixel, partner = num_pixels - 1 - i, target[num_pixels - 1 - i]
    return source.at[pixel].set(source[partner]).at[partner].set(source[pixel])

  # with 0 * target added, the state has a batch axis under vmap before the loop
  return jax.lax.fori_loop(0, num_pixels, visit, jnp.arange(num_pixels) + 0 * target)
