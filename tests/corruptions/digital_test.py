"""Tests brightness, contrast, saturate, pixelate and jpeg_compression against other libraries."""

import colorsys
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib import colors
from PIL import Image

from robustness.corruptions import corrupt, digital, pixels
from robustness.corruptions.catalog import TABLES
from robustness.corruptions.names import SEVERITIES
from tests.cases import cases
from tests.corruptions.pictures import constants, from_draws, natural, photographs, share_within

NAMES = ('brightness', 'contrast', 'saturate', 'pixelate', 'jpeg_compression')
KEY, BOX = jax.random.key(0), Image.Resampling.BOX
GREYS_AND_RED = [[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0]]
OTHER_HUES = [[0, 1, 0], [0, 0, 1], [1, 1, 0], [0.2, 0.7, 0.7]]
SPECIAL = np.array([GREYS_AND_RED, OTHER_HUES], np.float32)


def corrupted(name: str, picture: np.ndarray, severity: int, side: int) -> np.ndarray:
  """Returns a picture corrupted with the constants of a side."""
  return np.asarray(from_draws(name, side)(KEY, picture, severity))


def reference(name: str, picture: np.ndarray, values: list[float]) -> np.ndarray:
  """Returns a picture corrupted with constants by NumPy, Matplotlib or Pillow, in 0..1."""
  x = picture.astype(np.float64)
  if name == 'contrast':
    mean = x.mean((0, 1), keepdims=True)
    return np.clip((x - mean) * values[0] + mean, 0, 1)
  if name in ('brightness', 'saturate'):
    hsv = colors.rgb_to_hsv(x)
    if name == 'brightness':
      hsv[..., 2] = np.clip(hsv[..., 2] + values[0], 0, 1)
    else:
      hsv[..., 1] = np.clip(hsv[..., 1] * values[0] + values[1], 0, 1)
    return colors.hsv_to_rgb(hsv)
  levels = Image.fromarray(np.round(x * 255).astype(np.uint8))
  if name == 'pixelate':
    small = [int(n * values[0]) for n in levels.size]
    return np.asarray(levels.resize(small, BOX).resize(levels.size, BOX)) / 255
  file = io.BytesIO()
  levels.save(file, 'JPEG', quality=int(values[0]))
  return np.asarray(Image.open(file)) / 255


@pytest.mark.parametrize('side', [32, 64, 224])
@pytest.mark.parametrize('name', NAMES)
def test_pictures_agree_with_the_reference(shared_dir, name, side):
  pictures = [photographs(shared_dir, side, 1)[0], *([natural(45, 64, seed=3)] * (side == 64))]
  for severity in SEVERITIES:
    for picture in pictures:
      theirs = reference(name, picture, constants(name, side, severity))
      assert share_within(corrupted(name, picture, severity, side), theirs) >= 0.99


def pixelated_by_pillow(levels: np.ndarray, scale: float, enlarge=BOX) -> np.ndarray:
  """Returns uint8 [H, W, C] resized down and up by Pillow, as the released generator does."""
  planes = [Image.fromarray(levels[:, :, c]) for c in range(levels.shape[2])]
  small = [int(n * scale) for n in planes[0].size]
  enlarged = [p.resize(small, BOX).resize(p.size, enlarge) for p in planes]
  return np.stack([np.asarray(plane) for plane in enlarged], -1)


@pytest.mark.slow
@cases(
  'height, width, quantize',
  *((*size, None) for size in ((32, 32), (64, 45), (100, 69), (224, 224), (96, 299))),
  *((64, 45, quantize) for quantize in ('floor', 'round')),
)
def test_pixelate_is_pillows_to_the_bit(height, width, quantize):
  levels = np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8)
  for side, table in TABLES.items():
    for severity, scale in zip(SEVERITIES, table['pixelate']['scale'], strict=True):
      released = pixelated_by_pillow(levels, scale)
      image = levels.astype(np.float32) / 255
      ours = np.asarray(corrupt(KEY, image, 'pixelate', severity, quantize, side=side))
      np.testing.assert_array_equal(ours, released.astype(np.float32) / np.float32(255))


@pytest.mark.parametrize('size', [8, 17, 28, 32, 45, 64, 69, 96, 100, 224, 299])
def test_boxes_of_pixelate_are_pillows_for_every_side_and_scale(size):
  scales = {scale for table in TABLES.values() for scale in table['pixelate']['scale']}
  ramp = np.random.default_rng(size).integers(0, 256, (1, size, 1), np.uint8)
  for scale in scales:
    small = int(size * scale)
    members, repeats = digital.box_membership(size, small), digital.box_membership(small, size)
    exact = (members @ ramp[0, :, 0] / members.sum(1))[repeats.argmax(1)]
    nearest = [Image.Resampling.NEAREST] if size in (32, 64, 224) else []
    for enlarge in (BOX, *nearest):
      line = np.repeat(ramp, 8, 0)
      theirs = pixelated_by_pillow(line, scale, enlarge)[0, :, 0].astype(float)
      assert np.abs(exact - theirs).max() <= 0.5 + 1e-6, (size, scale)


@pytest.mark.parametrize('picture', [natural(20, 17), SPECIAL])
def test_value_and_saturation_are_those_of_matplotlib(picture):
  for shift in (0.05, 0.3, 0.5):
    ours = jax.jit(pixels.shift_value)(picture, shift)
    np.testing.assert_allclose(ours, reference('brightness', picture, [shift]), atol=1e-6)
  for values in ((0.1, 0), (2, 0), (5, 0.1), (20, 0.2), (30, 0.2)):
    ours = jax.jit(pixels.scale_saturation)(picture, *values)
    np.testing.assert_allclose(ours, reference('saturate', picture, values), atol=2e-5)


def test_a_grey_pixel_saturates_to_red_as_its_hue_is_zero():
  ours = pixels.scale_saturation(jnp.full((1, 1, 3), 0.5), jnp.float32(20), jnp.float32(0.2))
  assert colorsys.rgb_to_hsv(0.5, 0.5, 0.5)[0] == 0
  np.testing.assert_allclose(ours[0, 0], colorsys.hsv_to_rgb(0, 0.2, 0.5), atol=1e-6)


def test_operations_on_colours_take_grey_images():
  picture = natural(6, 5, 1)
  np.testing.assert_array_equal(pixels.grey(picture), picture)
  np.testing.assert_array_equal(pixels.scale_saturation(picture, 3.0, 0.1), picture)
  shifted = pixels.shift_value(picture, 0.2)
  np.testing.assert_allclose(shifted, np.clip(picture + 0.2, 0, 1), atol=1e-6)
  colours = natural(6, 5)
  grey = pixels.grey(colours)[..., 0]
  np.testing.assert_allclose(grey, colours @ [0.299, 0.587, 0.114], atol=1e-6)
  water = jnp.array([[[0.2, 0.4, 0.6]]])
  assert pixels.like_channels(water, jnp.zeros((2, 2, 3))) is water
  on_grey = pixels.like_channels(water, jnp.zeros((2, 2, 1)))
  luma = 0.299 * 0.2 + 0.587 * 0.4 + 0.114 * 0.6
  np.testing.assert_allclose(on_grey, [[[luma]]], atol=1e-6)
