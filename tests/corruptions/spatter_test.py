"""Tests spatter and its operations against NumPy, SciPy and OpenCV with the same random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.ndimage

from robustness.corruptions import spatter
from robustness.corruptions.catalog import TABLES, ConstantsTable, corrupt
from robustness.corruptions.names import SEVERITIES
from tests.cases import cases
from tests.corruptions.pictures import from_draws, natural, share_within, smooth

EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def plain_spatter(picture: np.ndarray, noise: np.ndarray, severity: int, side: int) -> np.ndarray:
  """Returns water drops or mud over a picture [H, W, C], from normal noise [H, W]."""
  values = {k: v[severity - 1] for k, v in TABLES[side]['spatter'].items()}
  film = smooth(values['loc'] + values['scale'] * noise, values['sigma'])
  x = picture.astype(np.float64)
  if values['mud']:
    cover = smooth(film > values['threshold'], values['edge'])[..., None]
    cover[cover < 0.8] = 0
    return np.clip(x * (1 - cover) + cover * np.array([63, 42, 20]) / 255, 0, 1)
  film[film < values['threshold']] = 0
  levels = (film * 255).astype(np.int64).astype(np.uint8)
  relief = plain_relief(plain_distance(plain_canny(levels.astype(np.int32))))
  drops = levels * relief.astype(np.float64)
  share = values['brightness'] * drops / drops.max()
  return np.clip(x + share[..., None] * np.array([175, 238, 238]) / 255, 0, 1)


def plain_relief(distance: np.ndarray) -> np.ndarray:
  """Averages distances from edges, equalises, embosses and averages again, all in 8 bits."""
  near = np.floor(scipy.ndimage.uniform_filter(distance, 3, mode='mirror') + 1e-4).astype(int)
  lowest = (near == near.min()).sum()
  below = np.cumsum(np.bincount(near.ravel(), minlength=256)) - lowest
  equal = np.round(255 * below / max(near.size - lowest, 1))[near] if np.ptp(near) else near
  embossed = np.clip(scipy.ndimage.correlate(equal, EMBOSS, mode='mirror'), 0, 255)
  return np.round(scipy.ndimage.uniform_filter(embossed, 3, mode='mirror'))


@pytest.mark.slow
def test_real_pictures_agree_with_the_reference(picture):
  side = len(picture)
  for severity in SEVERITIES:
    noise = np.random.default_rng(severity).normal(size=(side, side)).astype(np.float32)
    ours = from_draws('spatter', side)(noise, picture, severity)
    theirs = plain_spatter(picture, noise, severity, side)
    assert share_within(ours, theirs) >= 0.99


def test_mud_agrees_on_an_oblong_picture():
  picture = natural(45, 64)
  for severity in (4, 5):
    noise = np.random.default_rng(severity).normal(size=(45, 64)).astype(np.float32)
    ours = from_draws('spatter', 64)(noise, picture, severity)
    assert share_within(ours, plain_spatter(picture, noise, severity, 64)) >= 0.99


def test_between_water_and_mud_each_keeps_its_own_constant():
  black = np.zeros((32, 32, 3), np.float32)
  drops = np.asarray(corrupt(0, black, 'spatter', 3.5, side=224))
  assert drops.max() == pytest.approx(0.5 * 238 / 255, abs=1e-5)
  assert ConstantsTable(224, (3.75,))['spatter']['edge'][5] == 1.5


def test_films_above_one_wrap_as_8_bit_levels_do():
  picture = natural(32, 32)
  noise = np.random.default_rng(0).normal(0, 6, size=(32, 32)).astype(np.float32)
  assert smooth(0.65 + 0.3 * noise, 1.0).max() > 1.01
  theirs = plain_spatter(picture, noise, 3, 32)
  assert share_within(from_draws('spatter', 32)(noise, picture, 3), theirs) >= 0.99


@pytest.mark.parametrize('severity', SEVERITIES)
def test_a_picture_without_a_drop_is_unchanged(severity):
  picture = natural(32, 32)
  dry = np.full((32, 32), -3, np.float32)
  np.testing.assert_allclose(from_draws('spatter', 224)(dry, picture, severity), picture, atol=1e-6)


def test_mud_covers_the_same_share_as_in_numpy():
  """The means of 20 draws each differ by at most 4 standard errors at severity 5 of 224 pixels."""
  picture = np.ones((224, 224, 1), np.float32)
  constants = TABLES[224]['spatter']
  muddy = jax.jit(lambda key: (spatter.spatter(key, picture, 5, constants) < 0.99).mean())
  ours = np.array([muddy(key) for key in jax.random.split(jax.random.key(0), 20)])
  random = np.random.default_rng(0)
  draws = [plain_spatter(picture, random.normal(size=(224, 224)), 5, 224) for _ in range(20)]
  shares = [drawn[..., 0] < 0.99 for drawn in draws]
  theirs = np.mean(shares, (1, 2))
  error = np.sqrt((ours.var() + theirs.var()) / 20)
  assert abs(ours.mean() - theirs.mean()) < 4 * error
  assert ours.mean() > 0.02


canny, distance_to = jax.jit(spatter.canny), jax.jit(spatter.distance_to)


def film(height: int, width: int, sigma: float, seed: int = 0) -> np.ndarray:
  """Returns drops as spatter has them: levels of smoothed noise above 0.68, int32 [H, W]."""
  noise = np.random.default_rng(seed).normal(0.65, 0.3, (height, width))
  liquid = smooth(noise, sigma)
  return np.where(liquid < 0.68, 0, np.clip(liquid * 255, 0, 255)).astype(np.int32)


def plain_canny(levels: np.ndarray) -> np.ndarray:
  """Returns Canny's edges of levels [H, W], as a loop over pixels, bool [H, W]."""
  padded = np.pad(levels, 1, mode='edge')
  sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
  dx = scipy.ndimage.correlate(padded, sobel)[1:-1, 1:-1]
  dy = scipy.ndimage.correlate(padded, sobel.T)[1:-1, 1:-1]
  size = np.abs(dx) + np.abs(dy)
  around = np.pad(size, 1)
  candidate = np.zeros(levels.shape, bool)
  for y, x in np.argwhere(size > spatter.LOW):
    steepness = abs(dy[y, x]) / max(abs(dx[y, x]), 1e-9)
    if steepness < np.tan(np.pi / 8):
      step, after = (0, 1), 0
    elif steepness > np.tan(3 * np.pi / 8):
      step, after = (1, 0), 0
    else:
      step, after = (1, -1 if (dx[y, x] < 0) != (dy[y, x] < 0) else 1), 1
    back = around[y + 1 - step[0], x + 1 - step[1]]
    ahead = around[y + 1 + step[0], x + 1 + step[1]]
    candidate[y, x] = size[y, x] > back and size[y, x] >= ahead + after
  labels, count = scipy.ndimage.label(candidate, np.ones((3, 3)))
  strong = np.unique(labels[candidate & (size > spatter.HIGH)])
  return candidate & np.isin(labels, strong)


def plain_distance(mask: np.ndarray) -> np.ndarray:
  """Returns the shortest path to the mask by the steps of OpenCV's mask of size 5, at most 20."""
  distance = np.where(mask, 0.0, 20.0)
  length = {(0, 1): 1.0, (1, 0): 1.0, (1, 1): 1.4, (1, 2): 2.1969, (2, 1): 2.1969}
  steps = [(dy, dx) for dy in range(-2, 3) for dx in range(-2, 3) if (abs(dy), abs(dx)) in length]
  height, width = mask.shape
  while True:
    padded, shorter = np.pad(distance, 2, constant_values=20), distance
    for dy, dx in steps:
      moved = padded[2 + dy : 2 + dy + height, 2 + dx : 2 + dx + width]
      shorter = np.minimum(shorter, moved + length[abs(dy), abs(dx)])
    if (shorter == distance).all():
      return distance
    distance = shorter


@cases('height, width, sigma', (32, 32, 0.7), (32, 32, 1.0), (40, 55, 4.0), (64, 64, 2.0))
def test_canny_and_relief_are_those_of_the_loops(height, width, sigma):
  levels = film(height, width, sigma)
  expected = plain_canny(levels)
  assert expected.any()
  np.testing.assert_array_equal(canny(levels), expected)
  relief = plain_relief(plain_distance(expected))
  np.testing.assert_array_equal(jax.jit(spatter.relief)(levels), relief)


def test_a_plane_of_one_level_is_not_equalised():
  np.testing.assert_array_equal(spatter.equalise(jnp.full((3, 3), 20), 21), np.full((3, 3), 20))


@cases(
  'height, width, rate', (1, 1, 0.0), (5, 9, 0.1), (60, 45, 0.002), (50, 50, 0.02), (45, 2, 0.05)
)
def test_distance_is_the_shortest_path(height, width, rate):
  for seed in range(3):
    mask = np.random.default_rng(seed).random((height, width)) < rate
    np.testing.assert_allclose(distance_to(mask), plain_distance(mask), atol=1e-5)


@pytest.mark.parametrize('sigma', [0.7, 1.0, 2.0, 4.0])
@pytest.mark.parametrize('side', [32, 224])
def test_every_stage_is_opencvs(side, sigma):
  cv2 = pytest.importorskip('cv2')
  levels = film(side, side, sigma, seed=1)
  edge = cv2.Canny(levels.astype(np.uint8), 50, 150)
  np.testing.assert_array_equal(canny(levels), edge > 0)
  distance = np.minimum(cv2.distanceTransform(255 - edge, cv2.DIST_L2, 5), 20)
  np.testing.assert_allclose(distance_to(edge > 0), distance, atol=1e-5)
  equal = cv2.equalizeHist(cv2.blur(distance, (3, 3)).astype(np.uint8))
  expected = cv2.blur(cv2.filter2D(equal, cv2.CV_8U, EMBOSS), (3, 3))
  np.testing.assert_array_equal(jax.jit(spatter.relief)(levels), expected)
