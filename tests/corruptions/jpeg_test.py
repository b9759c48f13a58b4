"""Tests the JPEG codec against Pillow's libjpeg, at any size and quality."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.corruptions import jpeg
from tests.cases import cases
from tests.corruptions.pictures import natural, photographs, share_within, through_a_file

round_trip = jax.jit(jpeg.round_trip)


def from_file(picture: np.ndarray, quality: int) -> np.ndarray:
  """Returns a picture in 0..1 after Pillow has written it to a JPEG file and read it."""
  return through_a_file(np.round(picture * 255), quality) / 255


@pytest.mark.parametrize('side', [32, 64, 224])
def test_real_pictures_come_back_as_from_a_file(shared_dir, side):
  for picture in photographs(shared_dir, side, 2):
    for quality in (80, 40, 25, 15, 7):
      ours = round_trip(picture, quality)
      theirs = from_file(picture, quality)

      assert share_within(ours, theirs, 0) >= 0.999


@cases(
  'height, width',
  *((1, 1), (2, 3), (3, 2), (4, 4), (5, 5), (8, 9), (16, 17)),
  *((17, 16), (31, 33), (33, 45), (40, 40)),
)
@pytest.mark.parametrize('channels', [1, 3])
def test_colour_and_grey_pictures_of_any_size_and_quality_agree(height, width, channels):
  random = np.random.default_rng(height * width)
  picture = random.integers(0, 256, (height, width, channels)) / np.float32(255)
  every = (1, 10, 49, 50, 51, 75, 95, 100)
  for quality in every if height == 40 else (90, 50, 20):
    ours = round_trip(picture, quality)
    assert share_within(ours, from_file(picture, quality), 0) >= 0.999


def test_a_batch_of_qualities_is_the_pictures_by_themselves_and_has_levels_in_range():
  pictures = np.stack([natural(24, 24, seed=s) for s in range(3)])
  qualities = jnp.array([90, 40, 7])
  batch = jax.jit(jax.vmap(jpeg.round_trip))(pictures, qualities)
  alone = np.stack([round_trip(p, int(q)) for p, q in zip(pictures, qualities, strict=True)])
  np.testing.assert_array_equal(batch, alone)
  levels = np.asarray(batch) * 255
  assert levels.min() >= 0 and levels.max() <= 255.001
  np.testing.assert_allclose(levels, np.round(levels), atol=1e-3)


def test_a_flat_picture_is_unchanged_and_fractions_of_levels_are_rounded():
  flat = np.full((20, 20, 3), 128 / 255, np.float32)
  np.testing.assert_allclose(round_trip(flat, 10), flat, atol=1e-6)
  next_level = flat + np.float32(1 / 255)
  for fraction, nearest in ((0.3, flat), (0.7, next_level)):
    with_fractions = flat + np.float32(fraction / 255)
    np.testing.assert_allclose(round_trip(with_fractions, 100), nearest, atol=1e-6)


def test_colours_are_converted_as_libjpeg_does_in_integers():
  ends = np.array([0, 1, 2, 127, 128, 129, 253, 254, 255])
  corners = np.stack(np.meshgrid(ends, ends, ends), -1).reshape(1, -1, 3)
  random = np.random.default_rng(0).integers(0, 256, (300, 729, 3))
  levels = np.concatenate([corners, random]).astype(np.int64)
  # The weights are those of YCbCr times 2¹⁶, rounded.
  r, g, b = np.moveaxis(levels, -1, 0)
  centre = (128 << 16) + (1 << 15) - 1
  planes = (
    (19595 * r + 38470 * g + 7471 * b + (1 << 15)) >> 16,
    (-11059 * r - 21709 * g + 32768 * b + centre) >> 16,
    (32768 * r - 27439 * g - 5329 * b + centre) >> 16,
  )
  ours = jax.jit(jpeg.to_ycbcr)(levels.astype(np.float32))
  for mine, theirs in zip(ours, planes, strict=True):
    np.testing.assert_array_equal(mine, theirs)
  y, cb, cr = levels[..., 0], levels[..., 1] - 128, levels[..., 2] - 128
  shifted = [(91881 * cr), (-22554 * cb - 46802 * cr), (116130 * cb)]
  colours = np.stack([y + ((part + (1 << 15)) >> 16) for part in shifted], -1)
  mine = jax.jit(jpeg.to_rgb)(*np.moveaxis(levels, -1, 0).astype(np.int32))
  np.testing.assert_array_equal(mine, np.clip(colours, 0, 255))
