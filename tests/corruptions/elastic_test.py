"""Elastic deformation against scipy, given the same random numbers, and the size of its field."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.ndimage

from robustness.core.errors import InputError
from robustness.corruptions import elastic
from robustness.corruptions.filters import separable
from robustness.corruptions.names import SEVERITIES
from robustness.corruptions.severities import TABLES
from tests.corruptions.pictures import natural, photographs, share_within

NAME = 'elastic_transform'


def draws(height: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
  random = np.random.default_rng(seed)
  return (
    random.uniform(-1, 1, (3, 2)).astype(np.float32),
    random.uniform(-1, 1, (height, width, 2)).astype(np.float32),
  )


def anchors(height: int, width: int) -> np.ndarray:
  centre, arm = np.array([width // 2, height // 2]), min(height, width) // 3
  return centre + arm * np.array([[1, 1], [1, -1], [-1, -1]])


def sample(picture: np.ndarray, y: np.ndarray, x: np.ndarray, mode: str) -> np.ndarray:
  return np.stack(
    [
      scipy.ndimage.map_coordinates(plane, [y, x], order=1, mode=mode)
      for plane in np.moveaxis(picture.astype(np.float64), -1, 0)
    ],
    -1,
  )


def warp(picture: np.ndarray, shifts: np.ndarray) -> np.ndarray:
  """Moves the anchors by `shifts`; positions are taken to 1/32 pixel."""
  height, width = picture.shape[:2]
  old = anchors(height, width).astype(float)
  moved = np.column_stack([old + shifts, np.ones(3)])
  back = np.linalg.solve(moved, old)
  y, x = np.mgrid[:height, :width]
  points = np.stack([x, y, np.ones_like(x)], -1) @ back
  points = np.floor(points * 32 + 0.5) / 32
  return sample(picture, points[..., 1], points[..., 0], 'mirror')


def field_of(noise: np.ndarray, alpha: float, sigma: float) -> np.ndarray:
  if sigma == 0:
    return alpha * noise.astype(np.float64)
  return alpha * np.stack(
    [
      scipy.ndimage.gaussian_filter(
        noise[..., c].astype(np.float64), sigma, mode='reflect', truncate=3
      )
      for c in (0, 1)
    ],
    -1,
  )


def displaced(warped: np.ndarray, field: np.ndarray) -> np.ndarray:
  y, x = np.mgrid[: warped.shape[0], : warped.shape[1]]
  return np.clip(sample(warped, y + field[..., 1], x + field[..., 0], 'reflect'), 0, 1)


def given(side: int, severity: int) -> list[float]:
  return [values[severity - 1] for values in TABLES[side][NAME].values()]


def ours(
  picture: np.ndarray, jitter: np.ndarray, noise: np.ndarray, severity: int, side: int
) -> np.ndarray:
  return np.asarray(compiled(side)(picture, jitter, noise, severity))


@functools.cache
def compiled(side: int) -> Callable[..., jax.Array]:
  return jax.jit(lambda *arrays: elastic.elastic_from_draws(*arrays, TABLES[side][NAME]))


@pytest.mark.parametrize('severity', SEVERITIES)
@pytest.mark.parametrize('side', [32, 64, 224])
def test_real_pictures_agree_with_scipy(shared_dir: pathlib.Path, side: int, severity: int) -> None:
  picture = photographs(shared_dir, side, 1)[0]
  jitter, noise = draws(side, side, severity)
  alpha, sigma, affine = given(side, severity)
  theirs = displaced(warp(picture, affine * jitter), field_of(noise, alpha, sigma))
  assert share_within(ours(picture, jitter, noise, severity, side), theirs) >= 0.99


@pytest.mark.parametrize('severity', [1, 2, 5])
def test_real_pictures_agree_with_opencv(shared_dir: pathlib.Path, severity: int) -> None:
  cv2 = pytest.importorskip('cv2')
  picture = photographs(shared_dir, 224, 1)[0]
  jitter, noise = draws(224, 224, severity)
  alpha, sigma, affine = given(224, severity)
  old = anchors(224, 224).astype(np.float32)
  matrix = cv2.getAffineTransform(old, old + np.float32(affine) * jitter)
  warped = cv2.warpAffine(picture, matrix, (224, 224), borderMode=cv2.BORDER_REFLECT_101)
  theirs = displaced(warped, field_of(noise, alpha, sigma))
  assert share_within(ours(picture, jitter, noise, severity, 224), theirs) >= 0.99


@pytest.mark.parametrize('severity', SEVERITIES)
def test_the_other_variant_is_a_field_alone(severity: int) -> None:
  picture, noise = natural(45, 64), draws(45, 64, severity)[1]
  field = np.stack(
    [
      scipy.ndimage.gaussian_filter(
        0.005 * 45 * noise[..., c].astype(np.float64), (0.45, 0.64), mode='reflect', truncate=3
      )
      for c in (0, 1)
    ],
    -1,
  )
  alpha = 250 * (0.05, 0.065, 0.085, 0.1, 0.12)[severity - 1]
  shown = jax.jit(elastic.displace_from_draws)(picture, noise, severity)
  assert share_within(shown, displaced(picture, alpha * field)) >= 0.99
  key = jax.random.key(0)
  whole = elastic.elastic_transform(key, picture, severity, TABLES[64][NAME], 'imagecorruptions')
  released = elastic.elastic_transform(key, picture, severity, TABLES[64][NAME])
  assert np.abs(whole - released).max() > 0.05


def test_unknown_variant_names_the_valid_ones() -> None:
  with pytest.raises(InputError, match="did you mean 'released'"):
    elastic.elastic_transform(jax.random.key(0), natural(8, 8), 1, TABLES[32][NAME], 'relased')


def test_any_aspect_ratio_agrees_with_scipy() -> None:
  picture = natural(45, 64)
  jitter, noise = draws(45, 64, 7)
  alpha, sigma, affine = given(64, 5)
  theirs = displaced(warp(picture, affine * jitter), field_of(noise, alpha, sigma))
  assert share_within(ours(picture, jitter, noise, 5, 64), theirs) >= 0.99


@pytest.mark.parametrize('size', [5, 32, 45])
@pytest.mark.parametrize('sigma', [0.0, 0.9, 6.4, 40.0])
def test_smoothing_matrix_is_scipys_for_kernels_wider_than_the_line(
  size: int, sigma: float
) -> None:
  matrix = elastic.smoothing_matrix(size, jnp.float32(sigma), 40.0)
  expected = (
    np.eye(size)
    if sigma == 0
    else scipy.ndimage.gaussian_filter1d(np.eye(size), sigma, axis=0, mode='reflect', truncate=3)
  )
  np.testing.assert_allclose(matrix, expected, atol=1e-6)


@pytest.mark.parametrize(('severity', 'rms'), [(2, 4.3), (3, 0.85), (4, 1.2), (5, 2.0)])
def test_displacements_at_224_have_the_published_size(severity: int, rms: float) -> None:
  """Root mean square over 24 fields, within 15 %; not at severity 1, where a field is one shift."""
  alpha, sigma, _ = given(224, severity)
  smoothing = elastic.smoothing_matrix(224, jnp.float32(sigma), 170.8)
  noise = jax.random.uniform(jax.random.key(severity), (224, 224, 24), minval=-1, maxval=1)
  field = alpha * separable(noise, smoothing, smoothing)
  amplitude = float(jnp.sqrt((field**2).mean()))
  assert amplitude == pytest.approx(rms, rel=0.15)


def test_no_draws_no_change_and_shifts_move_the_anchors() -> None:
  picture = natural(33, 40)
  still = ours(picture, np.zeros((3, 2), np.float32), np.zeros((33, 40, 2), np.float32), 3, 32)
  np.testing.assert_allclose(still, picture, atol=1e-6)
  shifts = np.array([[2, -1], [0, 3], [1, 1]], np.float32)
  new = anchors(33, 40) + shifts
  grid_y, grid_x = (jnp.asarray(v, jnp.float32) for v in np.mgrid[:33, :40])
  y, x = elastic.affine_positions(grid_y, grid_x, jnp.asarray(shifts))
  for (new_x, new_y), (old_x, old_y) in zip(new.astype(int), anchors(33, 40), strict=True):
    assert (x[new_y, new_x], y[new_y, new_x]) == (old_x, old_y)


def test_a_map_that_folds_the_image_to_a_line_is_finite() -> None:
  picture = natural(30, 30)
  old = anchors(30, 30)
  shifts = (np.array([[9, 9], [14, 14], [1, 1]]) - old).astype(np.float32)
  affine = TABLES[32][NAME]['affine'][0]
  shown = ours(picture, shifts / np.float32(affine), np.zeros((30, 30, 2), np.float32), 1, 32)
  assert np.isfinite(shown).all()


@pytest.mark.parametrize('channels', [1, 3])
def test_jit_batch_key_and_range(channels: int) -> None:
  pictures = np.stack([natural(20, 26, channels, seed=s) for s in range(2)])
  keys = jax.random.split(jax.random.key(0), 2)

  def corrupt_one(key: jax.Array, x: jax.Array) -> jax.Array:
    return elastic.elastic_transform(key, x, 4, TABLES[32][NAME])

  plain = np.stack([corrupt_one(k, p) for k, p in zip(keys, pictures, strict=True)])
  batch = np.asarray(jax.jit(jax.vmap(corrupt_one))(keys, pictures))
  assert share_within(batch, plain, 0.1) >= 0.999
  assert batch.shape == pictures.shape and batch.dtype == np.float32
  assert np.isfinite(batch).all() and batch.min() >= 0 and batch.max() <= 1
  assert np.abs(corrupt_one(keys[0], pictures[0]) - corrupt_one(keys[1], pictures[0])).max() > 0.01
