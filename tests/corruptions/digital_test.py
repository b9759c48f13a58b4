"""Brightness, contrast, saturate, pixelate and jpeg_compression against plain references."""

from __future__ import annotations

import io
import pathlib

import jax
import numpy as np
import pytest
from matplotlib import colors
from PIL import Image

from robustness.corruptions import corrupt, digital
from robustness.corruptions.catalog import TABLES
from robustness.corruptions.names import SEVERITIES
from tests.corruptions.pictures import constants, from_draws, natural, photographs, share_within

NAMES = ('brightness', 'contrast', 'saturate', 'pixelate', 'jpeg_compression')
KEY = jax.random.key(0)


def ours(name: str, picture: np.ndarray, severity: int, side: int) -> np.ndarray:
  return np.asarray(from_draws(name, side)(KEY, picture, severity))


def reference(name: str, picture: np.ndarray, own: list[float]) -> np.ndarray:
  x = picture.astype(np.float64)
  if name == 'contrast':
    mean = x.mean((0, 1), keepdims=True)
    return np.clip((x - mean) * own[0] + mean, 0, 1)
  if name in ('brightness', 'saturate'):
    hsv = colors.rgb_to_hsv(x)
    if name == 'brightness':
      hsv[..., 2] = np.clip(hsv[..., 2] + own[0], 0, 1)
    else:
      hsv[..., 1] = np.clip(hsv[..., 1] * own[0] + own[1], 0, 1)
    return colors.hsv_to_rgb(hsv)
  levels = Image.fromarray(np.round(x * 255).astype(np.uint8))
  if name == 'pixelate':
    small = [int(n * own[0]) for n in levels.size]
    box = Image.Resampling.BOX
    return np.asarray(levels.resize(small, box).resize(levels.size, box)) / 255
  file = io.BytesIO()
  levels.save(file, 'JPEG', quality=int(own[0]))
  return np.asarray(Image.open(file)) / 255


@pytest.mark.parametrize('side', [32, 64, 224])
@pytest.mark.parametrize('name', NAMES)
def test_pictures_agree(shared_dir: pathlib.Path, name: str, side: int) -> None:
  pictures = [photographs(shared_dir, side, 1)[0], *([natural(45, 64, seed=3)] * (side == 64))]
  for severity in SEVERITIES:
    for picture in pictures:
      theirs = reference(name, picture, constants(name, side, severity))
      assert share_within(ours(name, picture, severity, side), theirs) >= 0.99


def pixelated_by_pillow(levels: np.ndarray, scale: float, enlarge: int) -> np.ndarray:
  """Pillow's own pixelation of uint8 [H, W, C], as the released generator does it."""
  planes = [Image.fromarray(levels[:, :, c]) for c in range(levels.shape[2])]
  small = [int(n * scale) for n in planes[0].size]
  return np.stack(
    [np.asarray(p.resize(small, Image.Resampling.BOX).resize(p.size, enlarge)) for p in planes], -1
  )


@pytest.mark.parametrize('quantize', [None, 'floor', 'round'])
@pytest.mark.parametrize(
  ('height', 'width'), [(32, 32), (64, 45), (100, 69), (224, 224), (96, 299)]
)
def test_pixelate_is_pillows_to_the_bit(height: int, width: int, quantize: str | None) -> None:
  levels = np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8)
  for side, table in TABLES.items():
    for severity, scale in zip(SEVERITIES, table['pixelate']['scale'], strict=True):
      released = pixelated_by_pillow(levels, scale, Image.Resampling.BOX)
      image = levels.astype(np.float32) / 255
      ours = np.asarray(corrupt(KEY, image, 'pixelate', severity, quantize, side=side))
      np.testing.assert_array_equal(ours, released.astype(np.float32) / np.float32(255))


@pytest.mark.parametrize('size', [8, 17, 28, 32, 45, 64, 69, 96, 100, 224, 299])
def test_boxes_are_pillows_for_every_side_and_scale(size: int) -> None:
  scales = {scale for table in TABLES.values() for scale in table['pixelate']['scale']}
  ramp = np.random.default_rng(size).integers(0, 256, (1, size, 1), np.uint8)
  for scale in scales:
    members = digital.shrinking(size, scale)
    exact = (members @ ramp[0, :, 0] / members.sum(1))[digital.repeats(size, scale)]
    nearest = [Image.Resampling.NEAREST] if size in (32, 64, 224) else []
    for enlarge in (Image.Resampling.BOX, *nearest):
      line = np.repeat(ramp, 8, 0)
      theirs = pixelated_by_pillow(line, scale, enlarge)[0, :, 0].astype(float)
      assert np.abs(exact - theirs).max() <= 0.5 + 1e-6, (size, scale)


def test_pixelated_pictures_have_as_many_lines_as_the_small_one() -> None:
  picture = natural(224, 224, 1)
  for severity, lines in zip(SEVERITIES, (134, 112, 89, 67, 56), strict=True):
    pixelated = ours('pixelate', picture, severity, 224)
    assert len(np.unique(pixelated[:, :, 0].round(6), axis=0)) == lines
