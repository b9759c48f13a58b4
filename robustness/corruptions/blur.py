"""The five blurs: Gaussian, defocus, frosted glass, motion and zoom."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice
from robustness.corruptions import filters
from robustness.corruptions.batching import any_of_batch
from robustness.corruptions.levels import to_levels
from robustness.corruptions.severities import Constants, at

EXCHANGES = ('copy', 'swap')
ANGLES = ('random', 'fixed')
MOTION_ANGLES = (-45.0, 45.0)  # degrees


def gaussian_blur(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Smooths each channel with a Gaussian cut at 4σ, edges replicated.

  Args:
    key: not used.
    image: float32 [H, W, C] in [0, 1].
    severity: 1..5, may be traced.
    constants: sigma, in pixels.
  """
  sigmas = constants['sigma']
  return jnp.clip(filters.gaussian_filter(image, at(sigmas, severity), max(sigmas)), 0, 1)


def defocus_blur(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Correlates each channel with a smoothed disk, edges mirrored.

  Args:
    key: not used.
    image: float32 [H, W, C] in [0, 1].
    severity: 1..5, may be traced.
    constants: radius of the disk and sigma of its smoothing, in pixels.
  """
  kernels = disk_kernels(tuple(constants['radius']), tuple(constants['sigma']))
  return jnp.clip(filters.correlate(image, at(kernels, severity), 'mirror'), 0, 1)


@functools.lru_cache
def disk_kernels(radii: tuple[float, ...], sigmas: tuple[float, ...]) -> np.ndarray:
  """Returns the smoothed disks of the severities, float64 [S, K, K], K odd, as small as it can be.

  The disk has sum 1. It is smoothed on a grid of 17 × 17, or just as large as the disk beyond a
  radius of 8, with mirrored edges: a disk that touches them ends with a sum above 1 (1.013 for a
  radius of 8), and so it stays.
  """
  kernels = [_disk(radius, sigma) for radius, sigma in zip(radii, sigmas, strict=True)]
  side = max(len(kernel) for kernel in kernels)
  stack = np.stack([np.pad(kernel, (side - len(kernel)) // 2) for kernel in kernels])
  used = np.flatnonzero((stack > 1e-9).any((0, 1)))[0]
  return stack[:, used : side - used, used : side - used]


def _disk(radius: float, sigma: float) -> np.ndarray:
  reach = 8 if radius <= 8 else int(radius)
  line = np.arange(-reach, reach + 1)
  disk = (line[:, None] ** 2 + line[None, :] ** 2 <= radius**2).astype(np.float64)
  disk /= disk.sum()
  taps = np.arange(-1, 2) if radius <= 8 else np.arange(-2, 3)
  weights = np.exp(-0.5 * (taps / sigma) ** 2)
  weights /= weights.sum()
  for axis in (0, 1):
    padded = np.pad(
      disk, [(len(taps) // 2,) * 2 if a == axis else (0, 0) for a in (0, 1)], mode='reflect'
    )
    disk = np.apply_along_axis(np.convolve, axis, padded, weights, 'valid')
  return disk


def motion_blur(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants, angle: str = 'random'
) -> jax.Array:
  """Smears the image in one direction of a random angle, U(-45°, 45°); results are 8-bit levels.

  Args:
    key: decides the angle.
    image: float32 [H, W, C] in [0, 1].
    severity: 1..5, may be traced.
    constants: radius and sigma, in pixels.
    angle: 'random', or 'fixed' at -45°, as TFDS's `imagenet2012_corrupted` has it.
  """
  choice('angle', angle, ANGLES)
  low, high = MOTION_ANGLES
  degrees = (
    jax.random.uniform(key, minval=low, maxval=high) if angle == 'random' else jnp.float32(low)
  )
  return motion_blur_at(degrees, image, severity, constants)


def motion_blur_at(
  angle: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Smears the image along an angle in degrees; see `motion_blur`."""
  radius, sigma = at(constants['radius'], severity), at(constants['sigma'], severity)
  blurred = filters.motion_blur(image, radius, sigma, angle, max(constants['radius']))
  return to_levels(blurred, 'floor')


def zoom_blur(
  key: jax.Array, image: jax.Array, severity: jax.Array, constants: Constants
) -> jax.Array:
  """Averages the image with enlargements of its centre: (2x + Σ zoom(x, z)) / (count + 1), z > 1.

  The clean image counts twice, once of its own and once as the zoom of 1.

  Args:
    key: not used.
    image: float32 [H, W, C] in [0, 1].
    severity: 1..5, may be traced.
    constants: zooms, the factors of each severity, 1 included.
  """
  zooms = constants['zooms']
  counts = np.asarray([len(z) for z in zooms])
  longest = counts.max()
  rows, columns = (
    jnp.asarray(
      np.stack(
        [
          filters.zoom_coordinates(size, np.pad(z, (0, longest - len(z)), mode='edge'))
          for z in zooms
        ]
      )
    )
    for size in image.shape[:2]
  )
  row, count = jnp.asarray(severity) - 1, at(counts, severity)

  def add(i: jax.Array, total: jax.Array) -> jax.Array:
    return total + filters.interpolate(image, rows[row, i], columns[row, i])

  total = jax.lax.fori_loop(1, count, add, 2 * image)
  return jnp.clip(total / (count + 1), 0, 1)


def glass_blur(
  key: jax.Array,
  image: jax.Array,
  severity: jax.Array,
  constants: Constants,
  exchange: str = 'copy',
) -> jax.Array:
  """Moves pixels at random over a few pixels, between two Gaussian smoothings.

  Args:
    key: decides the moves.
    image: float32 [H, W, C] in [0, 1].
    severity: 1..5, may be traced.
    constants: sigma of the smoothing (pixels), delta (largest move) and iterations.
    exchange: 'copy', what the released generator does: a pixel takes another's value, which keeps
      its own; or 'swap', a true exchange of the two.
  """
  delta = at(constants['delta'], severity)

  def draw(iteration: jax.Array | int) -> jax.Array:
    bits = jax.random.bits(jax.random.fold_in(key, iteration), image.shape[:2], jnp.uint32)
    side = (2 * delta).astype(jnp.uint32)
    cell = bits % (side * side)
    return jnp.stack([cell // side, cell % side]).astype(jnp.int32) - delta

  return _glass_blur(draw, image, severity, constants, exchange)


def glass_blur_with(
  moves: jax.Array,
  image: jax.Array,
  severity: jax.Array,
  constants: Constants,
  exchange: str = 'copy',
) -> jax.Array:
  """Applies `glass_blur` with given moves.

  Args:
    moves: int32 [iterations of the severity or more, 2, H, W]: rows and columns in
      [-delta, delta - 1] that the pixel at (h, w) looks away when it is visited.
    image, severity, constants, exchange: as in `glass_blur`.
  """
  return _glass_blur(lambda i: moves[i], image, severity, constants, exchange)


def _glass_blur(
  moves: Callable[[jax.Array | int], jax.Array],
  image: jax.Array,
  severity: jax.Array,
  constants: Constants,
  exchange: str,
) -> jax.Array:
  choice('exchange', exchange, EXCHANGES)
  sigma, most = at(constants['sigma'], severity), max(constants['sigma'])
  delta = at(constants['delta'], severity)
  one_pass = copy_moves if exchange == 'copy' else swap_moves
  smooth = to_levels(filters.gaussian_filter(image, sigma, most), 'floor')
  channels = image.shape[-1]
  source = jax.lax.fori_loop(
    1,
    at(constants['iterations'], severity),
    lambda i, s: s[one_pass(moves(i), delta)],
    one_pass(moves(0), delta),
  )
  moved = smooth.reshape(-1, channels)[source].reshape(image.shape)
  return jnp.clip(filters.gaussian_filter(moved, sigma, most), 0, 1)


def _targets(moves: jax.Array, delta: jax.Array) -> jax.Array:
  """Returns the flat index that each pixel's visit reads, int32 [H·W]; unvisited ones their own.

  Visited are rows delta + 1 to H - delta and columns delta + 1 to W - delta.
  """
  height, width = moves.shape[1:]
  y, x = jnp.arange(height)[:, None], jnp.arange(width)[None, :]
  visited = ((y > delta) & (y <= height - delta)) & ((x > delta) & (x <= width - delta))
  own = y * width + x
  return jnp.where(visited, own + moves[0] * width + moves[1], own).reshape(-1)


def copy_moves(moves: jax.Array, delta: jax.Array) -> jax.Array:
  """Returns the source of every pixel after one pass of one-way copies, int32 [H·W].

  Pixels are visited once each, the last first. A visit reads the final value of a later pixel,
  which has been visited, and the old value of an earlier one. So a pixel's source is found by
  following targets while they lead later, then one more; pointers double until none changes.

  Args:
    moves: int32 [2, H, W].
    delta: bound of the moves, in pixels.
  """
  target = _targets(moves, delta)
  own = jnp.arange(len(target))
  jump = jnp.where(target > own, target, own)

  def double(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    doubled = state[0][state[0]]
    return doubled, any_of_batch(doubled != state[0])

  last, _ = jax.lax.while_loop(lambda state: state[1], double, (jump, any_of_batch(jump != own)))
  return target[last]


def swap_moves(moves: jax.Array, delta: jax.Array) -> jax.Array:
  """Returns the source of every pixel after one pass of true exchanges, int32 [H·W].

  Each exchange sees all before it, so they run one after the other.

  Args:
    moves: int32 [2, H, W].
    delta: bound of the moves, in pixels.
  """
  target = _targets(moves, delta)
  size = len(target)

  def visit(i: jax.Array, source: jax.Array) -> jax.Array:
    here, there = size - 1 - i, target[size - 1 - i]
    return source.at[here].set(source[there]).at[there].set(source[here])

  return jax.lax.fori_loop(0, size, visit, jnp.arange(size) + 0 * target)
