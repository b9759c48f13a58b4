"""Tests elastic deformation against SciPy with the same random numbers."""

import jax
import numpy as np
import pytest
import scipy.ndimage

from robustness.corruptions import elastic
from robustness.corruptions.catalog import TABLES
from robustness.corruptions.names import SEVERITIES
from tests.corruptions.pictures import constants, from_draws, natural, sample, share_within, smooth

NAME = 'elastic_transform'


def draws(height: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the jitter of three anchors, [3, 2], and the noise of the field, [H, W, 2]."""
  random = np.random.default_rng(seed)
  jitter, noise = random.uniform(-1, 1, (3, 2)), random.uniform(-1, 1, (height, width, 2))
  return jitter.astype(np.float32), noise.astype(np.float32)


def anchors(height: int, width: int) -> np.ndarray:
  """Returns x and y of the three points that the affine map moves, [3, 2]."""
  centre, arm = np.array([width // 2, height // 2]), min(height, width) // 3
  return centre + arm * np.array([[1, 1], [1, -1], [-1, -1]])


def warp(picture: np.ndarray, shifts: np.ndarray) -> np.ndarray:
  """Returns a picture under the affine map that moves the anchors by `shifts`, to 1/32 pixel."""
  height, width = picture.shape[:2]
  old = anchors(height, width).astype(float)
  moved = np.column_stack([old + shifts, np.ones(3)])
  back = np.linalg.solve(moved, old)
  y, x = np.mgrid[:height, :width]
  points = np.stack([x, y, np.ones_like(x)], -1) @ back
  points = np.floor(points * 32 + 0.5) / 32
  return sample(picture, points[..., 1], points[..., 0], 'mirror')


def field_of(noise: np.ndarray, alpha: float, sigma: float) -> np.ndarray:
  """Returns smoothed noise times alpha, the displacements in pixels, [H, W, 2]."""
  return alpha * (smooth(noise, sigma, 'reflect', 3) if sigma else noise.astype(np.float64))


def displaced(warped: np.ndarray, field: np.ndarray) -> np.ndarray:
  """Returns a picture sampled where a field points, in 0..1."""
  y, x = np.mgrid[: warped.shape[0], : warped.shape[1]]
  return np.clip(sample(warped, y + field[..., 1], x + field[..., 0], 'reflect'), 0, 1)


def deformed(picture, jitter, noise, severity: int, side: int) -> np.ndarray:
  """Returns a picture as the corruption under test deforms it."""
  return np.asarray(from_draws(NAME, side)({'jitter': jitter, 'noise': noise}, picture, severity))


def assert_agrees_with_scipy(picture: np.ndarray, side: int, severity: int, seed: int) -> None:
  """Asserts that 99 % of the values differ from SciPy's by a level at most."""
  jitter, noise = draws(*picture.shape[:2], seed)
  alpha, sigma, affine = constants(NAME, side, severity)
  theirs = displaced(warp(picture, affine * jitter), field_of(noise, alpha, sigma))
  assert share_within(deformed(picture, jitter, noise, severity, side), theirs) >= 0.99


@pytest.mark.parametrize('severity', SEVERITIES)
def test_real_pictures_agree_with_scipy(picture, severity):
  assert_agrees_with_scipy(picture, len(picture), severity, severity)


def test_an_oblong_picture_agrees_with_scipy():
  assert_agrees_with_scipy(natural(45, 64), 64, 5, 7)


@pytest.mark.parametrize('severity', SEVERITIES)
def test_the_variant_of_imagecorruptions_has_a_field_and_no_affine_map(severity):
  picture, noise = natural(45, 64), draws(45, 64, severity)[1]
  scaled, sigma = 0.005 * 45 * noise.astype(np.float64), (0.45, 0.64, 0)
  field = scipy.ndimage.gaussian_filter(scaled, sigma, mode='reflect', truncate=3)
  alpha = 250 * (0.05, 0.065, 0.085, 0.1, 0.12)[severity - 1]
  deform = from_draws(NAME, 64, variant='imagecorruptions')
  made = deform({'noise': noise}, picture, severity)
  assert share_within(made, displaced(picture, alpha * field)) >= 0.99
  variants = jax.jit(
    lambda key, x, s: [
      elastic.elastic_transform(key, x, s, TABLES[64][NAME], variant=variant)
      for variant in ('imagecorruptions', 'released')
    ]
  )
  plain, released = variants(jax.random.key(0), picture, severity)
  assert np.abs(plain - released).max() > 0.05


def test_an_affine_map_that_folds_the_picture_to_a_line_is_finite():
  picture = natural(30, 30)
  old = anchors(30, 30)
  shifts = (np.array([[9, 9], [14, 14], [1, 1]]) - old).astype(np.float32)
  affine = TABLES[32][NAME]['affine'][0]
  folded = deformed(picture, shifts / np.float32(affine), np.zeros((30, 30, 2), np.float32), 1, 32)
  assert np.isfinite(folded).all()
