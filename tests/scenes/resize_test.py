"""Tests resizing in tiles against resizing at once and Pillow, and the bound of reductions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness.scenes import designs, geometry, resize, views
from robustness.scenes.designs import MAX_ASPECT
from tests.scenes.composition_test import composed

PIXELS = np.random.default_rng(0).random((400, 300, 2), np.float32)


@functools.partial(jax.jit, static_argnames=('max_reduction', 'dtype'))
def resized(size, target, first, max_reduction, dtype='float32'):
  """Returns rows and columns `first` to `first` + 49 of the resized pixels, [50, 50, 2]."""
  along = jnp.arange(50) + first
  images = jnp.stack([jnp.zeros(PIXELS.shape), jnp.asarray(PIXELS)])
  images = images if dtype == 'float32' else jnp.round(images * 255).astype(dtype)
  return resize.resize_pixels(images, 1, size, target, (along, along), max_reduction)


@pytest.mark.parametrize('size', [(400, 300), (399, 151), (40, 300)])
@pytest.mark.parametrize('target', [(60, 45), (31, 20), (45, 33)])
@pytest.mark.parametrize('first', [0, -17, 13, 70])
def test_resizing_in_tiles_equals_resizing_at_once(size, target, first):
  numbers = np.array(size, np.int32), np.array(target, np.int32)
  reduction = max(s / w for s, w in zip(size, target, strict=True))
  assert (resize.TILE + 2) * reduction + 3 < max(PIXELS.shape), 'the image has several tiles'
  result = resized(*numbers, first, reduction)
  np.testing.assert_allclose(result, resized(*numbers, first, np.inf), rtol=1e-5, atol=1e-6)
  assert bool(result.any()) == (first < max(target))


@pytest.mark.parametrize('size', [(400, 300), (40, 300)])
def test_eight_bits_are_rounded_after_each_direction_as_in_pillow(size):
  target = (45, 33)
  reduction = max(s / w for s, w in zip(size, target, strict=True))
  result = resized(np.array(size, np.int32), np.array(target, np.int32), 0, reduction, 'uint8')
  image = Image.fromarray(np.round(PIXELS[: size[0], : size[1], 0] * 255).astype(np.uint8))
  expected = np.asarray(image.resize(target[::-1], Image.Resampling.BILINEAR))
  difference = np.abs(np.asarray(result)[:45, :33, 0].astype(int) - expected)
  assert result.dtype == np.uint8 and difference.max() <= 1 and (difference == 0).mean() > 0.7


@pytest.mark.slow
@pytest.mark.parametrize('side', [48, 224, 512])
def test_no_cutout_is_reduced_by_more_than_the_bound(side):
  generator = np.random.default_rng(side)
  for _ in range(50):
    longer_side = int(generator.integers(20, 1500))
    shorter_side = int(np.ceil(longer_side / generator.uniform(1, MAX_ASPECT)))
    sizes = np.array([longer_side, shorter_side])
    area = float(generator.choice(np.arange(1, 101) / 100))
    placed = geometry.place(sizes, area, 0.0, 0.5, 0.5, side)
    bound = resize.reduction_bound(sizes.tolist(), area, side)
    assert (sizes / np.maximum(placed.resized, 1)).max() <= bound


@pytest.mark.slow
def test_scenes_of_many_sizes_are_composed_one_by_one():
  generator = np.random.default_rng(3)
  row = {
    'image': generator.random((64, 64, 3), np.float32),
    'foreground': generator.integers(0, 256, (180, 180, 4), np.uint8),
    'foreground_size': np.array([180, 141], np.int32),
  }
  show, prepare = views.scene_functions(designs.published('size'), 64, 'mask')
  ready = prepare(row)
  assert 'sheets' not in ready
  scene = jax.jit(lambda area: show(jax.random.key(0), ready, {'area': area, 'x': 0.5, 'y': 0.5}))
  for area in np.array([0.01, 0.02, 0.16, 0.64, 1.0], np.float32):
    cutout, size = row['foreground'].astype(np.float32) / 255, row['foreground_size']
    settings = {'rotate': False, 'size': size, 'measure': 'mask'}
    expected, _ = composed(cutout, row['image'], area, 0.0, 0.5, 0.5, **settings)
    np.testing.assert_allclose(scene(area), expected, atol=2 / 255)  # three roundings to 8 bits
