"""Spatter against numpy, scipy and OpenCV, given the same random numbers."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import scipy.ndimage

from robustness.corruptions import liquid
from robustness.corruptions.names import SEVERITIES
from robustness.corruptions.severities import TABLES
from tests.corruptions.pictures import natural, photographs, share_within


@functools.cache
def compiled(side: int) -> Callable[..., jax.Array]:
  return jax.jit(lambda *arrays: liquid.spatter_from_draws(*arrays, TABLES[side]['spatter']))


def smooth(plane: np.ndarray, sigma: float) -> np.ndarray:
  return scipy.ndimage.gaussian_filter(plane.astype(np.float64), sigma, mode='nearest', truncate=4)


def plain_spatter(
  cv2: Any, picture: np.ndarray, noise: np.ndarray, severity: int, side: int
) -> np.ndarray:
  values = {k: v[severity - 1] for k, v in TABLES[side]['spatter'].items()}
  film = smooth(values['loc'] + values['scale'] * noise, values['sigma'])
  x = picture.astype(np.float64)
  if values['mud']:
    cover = smooth(film > values['threshold'], values['strength'])
    cover[cover < 0.8] = 0
    return np.clip(
      x * (1 - cover[..., None]) + cover[..., None] * np.array([63, 42, 20]) / 255, 0, 1
    )
  film[film < values['threshold']] = 0
  levels = (film * 255).astype(np.int64).astype(np.uint8)
  distance = cv2.distanceTransform(255 - cv2.Canny(levels, 50, 150), cv2.DIST_L2, 5)
  near = cv2.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8)
  mask = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
  relief = cv2.blur(cv2.filter2D(cv2.equalizeHist(near), cv2.CV_8U, mask), (3, 3))
  drops = levels * relief.astype(np.float64)
  share = values['strength'] * drops / drops.max()
  return np.clip(x + share[..., None] * np.array([175, 238, 238]) / 255, 0, 1)


@pytest.mark.parametrize('side', [32, 64, 224])
def test_real_pictures_agree(shared_dir: pathlib.Path, side: int) -> None:
  cv2 = pytest.importorskip('cv2')
  picture = photographs(shared_dir, side, 1)[0]
  for severity in SEVERITIES:
    noise = np.random.default_rng(severity).normal(size=(side, side)).astype(np.float32)
    ours = compiled(side)(picture, noise, severity)
    theirs = plain_spatter(cv2, picture, noise, severity, side)
    assert share_within(ours, theirs) >= 0.99


def test_mud_agrees_on_any_aspect_ratio() -> None:
  picture = natural(45, 64)
  for severity in (4, 5):
    noise = np.random.default_rng(severity).normal(size=(45, 64)).astype(np.float32)
    ours = compiled(64)(picture, noise, severity)
    assert share_within(ours, plain_spatter(None, picture, noise, severity, 64)) >= 0.99


@pytest.mark.parametrize('severity', SEVERITIES)
def test_without_a_drop_the_picture_is_left(severity: int) -> None:
  picture = natural(32, 32)
  dry = np.full((32, 32), -3, np.float32)
  np.testing.assert_allclose(compiled(224)(picture, dry, severity), picture, atol=1e-6)


def test_values_above_one_wrap_as_eight_bits_do() -> None:
  cv2 = pytest.importorskip('cv2')
  picture = natural(32, 32)
  noise = np.random.default_rng(0).normal(0, 6, size=(32, 32)).astype(np.float32)
  assert smooth(0.65 + 0.3 * noise, 1.0).max() > 1.01
  theirs = plain_spatter(cv2, picture, noise, 3, 32)
  assert share_within(compiled(32)(picture, noise, 3), theirs) >= 0.99


def test_share_of_mud_is_that_of_numpy() -> None:
  """Share of pixels under mud at severity 5 of 224, 20 draws each; 4 standard errors."""
  picture = np.ones((224, 224, 1), np.float32)
  constants = TABLES[224]['spatter']
  muddy = jax.jit(lambda key: (liquid.spatter(key, picture, 5, constants) < 0.99).mean())
  ours = np.array([muddy(key) for key in jax.random.split(jax.random.key(0), 20)])
  random = np.random.default_rng(0)
  theirs = np.array(
    [
      (plain_spatter(None, picture, random.normal(size=(224, 224)), 5, 224)[..., 0] < 0.99).mean()
      for _ in range(20)
    ]
  )
  error = np.sqrt((ours.var() + theirs.var()) / 20)
  assert abs(ours.mean() - theirs.mean()) < 4 * error
  assert ours.mean() > 0.02


@pytest.mark.parametrize('channels', [1, 3])
def test_jit_batch_key_and_range(channels: int) -> None:
  pictures = np.stack([natural(20, 26, channels, seed=s) for s in range(2)])
  keys = jax.random.split(jax.random.key(0), 2)
  constants = TABLES[32]['spatter']
  single = jax.jit(lambda key, x, s: liquid.spatter(key, x, s, constants))
  batched = jax.jit(jax.vmap(lambda key, x, s: liquid.spatter(key, x, s, constants), (0, 0, None)))
  for severity in (2, 5):
    plain = np.stack([single(k, p, severity) for k, p in zip(keys, pictures, strict=True)])
    batch = np.asarray(batched(keys, pictures, severity))
    assert share_within(batch, plain, 0.1) >= 0.999
    assert batch.shape == pictures.shape and batch.dtype == np.float32
    assert np.isfinite(batch).all() and batch.min() >= 0 and batch.max() <= 1
  assert (
    np.abs(np.asarray(single(keys[0], pictures[0], 5) - single(keys[1], pictures[0], 5))).max()
    > 0.01
  )
