"""Tests the five blurs against NumPy, SciPy and OpenCV's rules with the same random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.ndimage

from robustness.corruptions import blur
from robustness.corruptions.catalog import TABLES
from robustness.corruptions.corruption import Strength
from robustness.corruptions.names import SEVERITIES
from tests.cases import cases
from tests.corruptions import pictures


def run(name: str, picture: np.ndarray, severity: int, draws: object = 0) -> np.ndarray:
  """Returns a picture blurred with random numbers, which some blurs ignore."""
  return np.asarray(pictures.from_draws(name, len(picture))(draws, picture, severity))


def defocused(picture: np.ndarray, radius: float, sigma: float) -> np.ndarray:
  """Returns a picture correlated with a disk that OpenCV's 3 or 5 taps smooth, borders mirrored."""
  line = np.arange(-8, 9) if radius <= 8 else np.arange(-radius, radius + 1)
  disk = (line[:, None] ** 2 + line**2 <= radius**2).astype(float)
  taps = np.arange(-1, 2) if radius <= 8 else np.arange(-2, 3)
  weights = np.exp(-(taps**2) / (2 * sigma**2))
  for axis in (0, 1):
    disk = scipy.ndimage.correlate1d(disk, weights / weights.sum(), axis, mode='mirror')
  kernel = disk / (line[:, None] ** 2 + line**2 <= radius**2).sum()
  planes = np.moveaxis(picture.astype(np.float64), -1, 0)
  blurred = [scipy.ndimage.correlate(plane, kernel, mode='mirror') for plane in planes]
  return np.clip(np.stack(blurred, -1), 0, 1)


@cases(
  'name, reference, atol',
  ('gaussian_blur', pictures.smooth, 2e-6),
  ('defocus_blur', defocused, 1e-5),
  ('zoom_blur', lambda x, zooms: pictures.zoom_blur(x.astype(np.float64), zooms), 1e-5),
)
def test_blurs_without_random_numbers_are_scipys(name, reference, atol, picture):
  for severity in SEVERITIES:
    theirs = reference(picture, *pictures.constants(name, len(picture), severity))
    np.testing.assert_allclose(run(name, picture, severity), theirs, atol=atol)


def test_disks_have_the_published_values():
  tables = [[tuple(TABLES[n]['defocus_blur'][p]) for p in ('radius', 'sigma')] for n in (32, 224)]
  small, large = (blur.disk_kernels(*table) for table in tables)
  centre = small.shape[1] // 2
  weights = [(k[centre, centre], k[centre, centre + 1], k[centre + 1, centre + 1]) for k in small]
  expected = [(0.845, 0.0371, 0.0016), (0.6193, 0.0838, 0.0113), (0.4452, 0.1110, 0.0277)]
  expected += [(0.2, 0.2, 0), (1 / 9, 1 / 9, 1 / 9)]
  np.testing.assert_allclose(weights, expected, atol=5e-4)
  np.testing.assert_allclose(large.sum((1, 2)), [1, 1, 1, 1.01298, 1.01079], atol=1e-5)


@pytest.mark.slow
def test_motion_blur_at_an_angle_is_the_reference(picture):
  side = len(picture)
  for severity, angle in zip(SEVERITIES, (-44.3, -10.0, 3.7, 21.9, 44.9), strict=True):
    constants = pictures.constants('motion_blur', side, severity)
    theirs = pictures.floor_levels(pictures.motion(picture, *constants, angle))
    ours = run('motion_blur', picture, severity, angle)
    assert pictures.share_within(ours, theirs, 0) > 0.99
    assert pictures.share_within(ours, theirs) == 1


@pytest.mark.slow
def test_motion_blur_at_the_fixed_angle_does_not_depend_on_the_key(picture):
  constants = TABLES[len(picture)]['motion_blur']
  fixed = [
    blur.motion_blur(jax.random.key(k), picture, 3, constants, angle='fixed') for k in (0, 1)
  ]
  np.testing.assert_array_equal(*fixed)
  expected = blur.motion_blur.function(-45.0, picture, Strength(constants, 3))
  np.testing.assert_array_equal(fixed[0], expected)


@pytest.mark.slow
def test_motion_angles_fill_their_range():
  edge = np.zeros((17, 17, 1), np.float32)
  edge[8, 8] = 1
  keys = jax.random.split(jax.random.key(3), 400)
  blurred = jax.vmap(lambda k: blur.motion_blur(k, edge, 5, TABLES[32]['motion_blur']))(keys)
  mass = np.asarray(blurred)[..., 0].sum(0)
  assert mass[:, 9:].sum() == 0, 'the point moves to the left only'
  above, below = mass[:8].sum(), mass[9:].sum()
  assert 0.8 < above / below < 1.25


def visit_in_order(picture: np.ndarray, moves: np.ndarray, delta: int, swap: bool) -> np.ndarray:
  """Returns a picture after the exchange of pixels as a loop; `moves` are int [2, H, W]."""
  x = picture.copy()
  height, width = x.shape[:2]
  for h in range(height - delta, delta, -1):
    for w in range(width - delta, delta, -1):
      partner = h + moves[0, h, w], w + moves[1, h, w]
      value, partner_value = x[h, w].copy(), x[partner].copy()
      x[h, w] = partner_value
      if swap:
        x[partner] = value
  return x


def random_moves(shape: tuple[int, ...], delta: int, count: int) -> np.ndarray:
  """Returns `count` moves of each pixel down and right, int32 [count, 2, H, W]."""
  random = np.random.default_rng(5)
  return random.integers(-delta, delta, (count, 2, *shape[:2])).astype(np.int32)


@pytest.mark.slow
@pytest.mark.parametrize('exchange', ['copy', 'swap'])
def test_glass_blur_with_given_moves_is_the_reference(picture, exchange):
  side, picture = len(picture), picture[:80, :80]
  function, table = blur.glass_blur.function, TABLES[side]['glass_blur']
  apply = jax.jit(
    lambda m, x, s: function(lambda i, delta: m[i], x, Strength(table, s), exchange=exchange)
  )
  for severity in SEVERITIES if side <= 64 else (3, 5):
    sigma, delta, times = pictures.constants('glass_blur', side, severity)
    moves = random_moves(picture.shape, delta, max(table['iterations']))
    x = pictures.floor_levels(pictures.smooth(picture, sigma))
    for i in range(times):
      x = visit_in_order(x, moves[i], delta, exchange == 'swap')
    assert pictures.share_within(apply(moves, picture, severity), pictures.smooth(x, sigma)) > 0.999


@cases('delta, shape', (1, (9, 9)), (2, (24, 24)), (3, (13, 30)), (4, (40, 11)))
@cases('move, swap', (blur.copy_moves, False), (blur.swap_moves, True))
def test_exchanges_are_those_of_the_loop(delta, shape, move, swap):
  labels = np.arange(np.prod(shape)).reshape(*shape, 1)
  moves = random_moves(shape, delta, 1)[0]
  source = jax.jit(move)(moves, jnp.int32(delta))
  np.testing.assert_array_equal(source, visit_in_order(labels, moves, delta, swap).ravel())


def test_moves_of_glass_blur_are_uniform_in_their_range():
  draw = blur.glass_blur.draw(jax.random.key(1), (48, 48), {})
  moves = jax.jit(jax.vmap(draw, (0, None)))(jnp.arange(2), jnp.int32(4))
  values, counts = np.unique(moves, return_counts=True)
  np.testing.assert_array_equal(values, np.arange(-4, 4))
  # The standard error of a share of 9216 moves is .0034.
  assert np.abs(counts / counts.sum() - 1 / 8).max() < 0.01
