"""Tests snow, frost and fog against NumPy and SciPy with the same random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.ndimage
import scipy.stats

from robustness.corruptions import weather
from robustness.corruptions.catalog import TABLES
from robustness.corruptions.corruption import Strength
from robustness.corruptions.names import SEVERITIES
from robustness.corruptions.textures import procedural_textures
from tests.corruptions import pictures

KEY = jax.random.key(0)


def named_constants(name: str, side: int, severity: int) -> dict[str, float]:
  """Returns the constants of a corruption at a severity by name."""
  return dict(zip(TABLES[side][name], pictures.constants(name, side, severity), strict=True))


def plain_snow(picture, noise, angle: float, c: dict[str, float]) -> np.ndarray:
  """Returns a picture [N, N, 3] under flakes of normal noise [N, N] that fall at an angle."""
  flakes = pictures.zoomed(c['loc'] + c['scale'] * noise.astype(np.float64), c['zoom'])
  flakes[flakes < c['threshold']] = 0
  flakes = np.floor(np.clip(flakes, 0, 1) * 255)
  flakes = np.floor(pictures.motion(flakes, int(c['radius']), c['sigma'], angle)) / 255
  grey = picture @ np.array([0.299, 0.587, 0.114])
  white = np.maximum(picture, 1.5 * grey[..., None] + 0.5)
  mixed = c['mix'] * picture + (1 - c['mix']) * white
  return np.clip(mixed + flakes[..., None] + np.rot90(flakes, 2)[..., None], 0, 1)


def test_snow_on_real_pictures_agrees(picture):
  side = len(picture)
  for severity in SEVERITIES:
    random = np.random.default_rng(severity)
    noise, angle = random.normal(size=(side, side)).astype(np.float32), random.uniform(-135, -45)
    ours = pictures.from_draws('snow', side)({'noise': noise, 'angle': angle}, picture, severity)
    theirs = plain_snow(picture, noise, angle, named_constants('snow', side, severity))
    assert pictures.share_within(ours, theirs) >= 0.99


def plain_plasma(side: int, decay: float, random: np.random.Generator) -> np.ndarray:
  """Returns a cloud by the diamond-square algorithm in place, in 0..1, [side, side]."""
  grid, step, wibble = np.zeros((side, side)), side, 100.0

  def noise(shape: tuple[int, ...]) -> np.ndarray:
    return wibble * wibble * random.uniform(-1, 1, shape)

  while step >= 2:
    half = step // 2
    y, x = np.mgrid[0:side:step, 0:side:step]

    def at(down: int, right: int, y: np.ndarray = y, x: np.ndarray = x) -> np.ndarray:
      return grid[(y + down) % side, (x + right) % side]

    corners = at(0, 0) + at(step, 0) + at(0, step) + at(step, step)
    grid[y + half, x + half] = corners / 4 + noise(y.shape)
    across = at(0, 0) + at(0, step) + at(half, half) + at(-half, half)
    grid[y, x + half] = across / 4 + noise(y.shape)
    down = at(0, 0) + at(step, 0) + at(half, half) + at(half, -half)
    grid[y + half, x] = down / 4 + noise(y.shape)
    step, wibble = half, wibble / decay
  grid -= grid.min()
  return grid / grid.max()


def plasma_draws(side: int, seed: int) -> np.ndarray:
  """Returns the numbers that `plain_plasma` draws with this seed, flat, side² - 1 of them."""
  random, n, parts = np.random.default_rng(seed), 1, []
  while n < side:
    parts += [random.uniform(-1, 1, (n, n)).ravel() for _ in range(3)]
    n *= 2
  return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize(('side', 'map_side'), [(32, 32), (64, 64), (224, 256), (299, 512)])
def test_fog_on_real_pictures_agrees(shared_dir, side, map_side):
  picture = pictures.photographs(shared_dir, side, 1)[0]
  for severity in SEVERITIES:
    c = named_constants('fog', side, severity)
    cloud = plain_plasma(map_side, c['decay'], np.random.default_rng(severity))[:side, :side, None]
    maximum = picture.max()
    theirs = np.clip((picture + c['amount'] * cloud) * maximum / (maximum + c['amount']), 0, 1)
    ours = pictures.from_draws('fog', side)(plasma_draws(map_side, severity), picture, severity)
    assert pictures.share_within(ours, theirs) >= 0.99


@pytest.mark.slow
def test_the_cloud_of_tfds_is_cut_from_a_map_of_512_pixels():
  image, table, key = pictures.natural(32, 32, 1), TABLES[32]['fog'], jax.random.key(5)
  draws = jax.random.uniform(key, (512**2 - 1,), minval=-1, maxval=1)
  expected = pictures.from_draws('fog', 32)(draws, image, 3)
  ours = jax.jit(lambda x: weather.fog(key, x, 3, table, cloud='tfds'))(image)
  np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.slow
def test_fog_leaves_black_and_covers_oblong_images():
  table = TABLES[32]['fog']
  black, fog = np.zeros((40, 33, 3), np.float32), jax.jit(lambda x: weather.fog(KEY, x, 5, table))
  np.testing.assert_array_equal(fog(black), black)
  ours = fog(np.full((33, 100, 1), 0.5, np.float32))
  assert ours.shape == (33, 100, 1) and float(ours.std()) > 0.02


def plain_resize(picture: np.ndarray, factor: float) -> np.ndarray:
  """Returns a picture resized bilinearly without smoothing, centres aligned, rounded to levels."""
  size = [round(n * factor) for n in picture.shape[:2]]
  sides = zip(size, picture.shape, strict=False)
  y, x = (np.clip((np.arange(n) + 0.5) / factor - 0.5, 0, m - 1) for n, m in sides)
  return np.round(pictures.sample(picture, *np.meshgrid(y, x, indexing='ij'), 'nearest'))


@pytest.mark.slow
@pytest.mark.parametrize(('side', 'resize'), [(32, 0.2), (64, 0.3), (224, 1.0)])
def test_pieces_of_frost_are_those_of_the_resized_picture(side, resize):
  picture = procedural_textures()[0]
  resized = plain_resize(picture, resize)
  rows, columns = weather.resized_shape(picture.shape, resize, side, side)
  assert resized.shape == (rows, columns, 3)
  for y0, x0 in ((0, 0), (3, 5), (rows - side, columns - side)):
    corner = jnp.int32(y0), jnp.int32(x0)
    piece = weather.frost_piece(jnp.asarray(picture), *corner, resize, side, side)
    expected = resized[y0 : y0 + side, x0 : x0 + side]
    assert pictures.share_within(piece / 255, expected / 255) == 1


def test_frost_is_a_weighted_sum_of_the_picture_and_a_photograph(picture):
  side = len(picture)
  piece = np.random.default_rng(0).integers(0, 256, (side, side, 3)).astype(np.float32)
  table = TABLES[side]['frost']
  add = jax.jit(lambda x, piece, s: weather.add_frost(x, piece, Strength(table, s)))
  for severity in SEVERITIES:
    c = named_constants('frost', side, severity)
    theirs = np.clip(c['image_weight'] * picture * 255 + c['frost_weight'] * piece, 0, 255) / 255
    assert pictures.share_within(add(picture, piece, severity), theirs) >= 0.99


@pytest.mark.slow
def test_frost_draws_photographs_and_corners_uniformly():
  """The level of the first pixel is 40 * photograph + row; 2000 draws, χ² tests at .001."""
  levels = [np.full((41 + i, 39, 3), 40 * i, np.uint8) for i in range(5)]
  for i, picture in enumerate(levels):
    picture[:] += np.arange(41 + i, dtype=np.uint8)[:, None, None] % 32
  constants = {'image_weight': (1.0,) * 5, 'frost_weight': (1.0,) * 5, 'resize': (1.0,) * 5}
  black = np.zeros((32, 32, 3), np.float32)
  corner = jax.jit(
    jax.vmap(lambda key: weather.frost(key, black, 1, constants, photographs=levels)[0, 0, 0])
  )
  drawn = np.round(np.asarray(corner(jax.random.split(jax.random.key(0), 2000))) * 255).astype(int)
  counts = np.bincount(drawn // 40, minlength=5)
  assert scipy.stats.chisquare(counts).pvalue > 0.001
  rows = np.bincount(drawn[drawn // 40 == 0], minlength=9)
  assert len(rows) == 9  # As released, randint(0, 41 - 32) never draws the last possible row.
  assert scipy.stats.chisquare(rows).pvalue > 0.001


def test_frost_enlarges_photographs_that_are_smaller_than_the_image():
  constants = TABLES[224]['frost']
  tiny = [np.full((10, 30, 3), 255, np.uint8)]
  enlarged = weather.frost(
    jax.random.key(0), jnp.zeros((45, 40, 3)), 2, constants, photographs=tiny
  )
  # The weight of frost on the black image is 0.6 at severity 2.
  np.testing.assert_allclose(enlarged, np.full((45, 40, 3), 0.6), atol=1e-6)
