"""Where cutouts land, pixel for pixel as in Pillow."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from PIL import Image

from robustness.scenes.geometry import place
from tests.scenes import pillow_scenes

ANGLES = (*range(1, 342, 20), 0, 30, 45, 90, 180, 270, 360, 12.25, -70)


def random_factors(count: int) -> dict[str, np.ndarray]:
  """Sizes, a third of them square (where ⌊w·k⌋ is most delicate), and decimal factors."""
  random = np.random.default_rng(4)
  size = random.integers(5, 1600, (count, 2))
  size[: count // 3, 1] = size[: count // 3, 0]
  return {
    'size': size,
    'area': random.integers(1, 101, count) / 100,
    'angle': random.choice(ANGLES, count),
    'x': random.integers(0, 21, count) * 5 / 100,
    'y': random.integers(0, 101, count) / 100,
  }


@pytest.mark.parametrize('side', [224, 500])
def test_sizes_corners_and_fractions_are_exact(side: int) -> None:
  factors = random_factors(300)
  single = {k: v.astype(np.int32 if k == 'size' else np.float32) for k, v in factors.items()}
  placed = jax.device_get(jax.jit(jax.vmap(lambda f: place(**f, side=side)))(single))
  for index in range(300):
    factors_of_row = {k: v[index].tolist() for k, v in factors.items()}
    cutout = Image.new('RGBA', tuple(factors_of_row.pop('size')[::-1]))
    try:
      turned = pillow_scenes.turned(cutout, side, factors_of_row['area'], factors_of_row['angle'])
    except ValueError:  # Pillow refuses a side of no pixels
      assert placed.fraction[index] == 0
      continue
    left, top = pillow_scenes.corner(turned, side, factors_of_row['x'], factors_of_row['y'])
    assert placed.expanded[index].tolist() == [turned.height, turned.width], factors_of_row
    assert placed.corner[index].tolist() == [top, left], factors_of_row
    share = pillow_scenes.share_inside(turned, side, left, top)
    assert placed.fraction[index] == np.float32(share), factors_of_row


def test_turning_right_angles_swaps_the_sides() -> None:
  size = np.array([31, 52])
  for angle in (0, 90, 180, 270, 360, 450, -90):
    placed = place(size, 0.3, angle, 0.5, 0.5, 100)
    expected = np.asarray(placed.resized)[::-1] if angle % 180 else placed.resized
    np.testing.assert_array_equal(placed.expanded, expected)


def test_a_quarter_is_inside_at_the_corners() -> None:
  for x, y in itertools.product((0, 1), (0, 1)):
    assert float(place((60, 60), 0.25, 0, x, y, 200).fraction) == 0.25
  assert float(place((60, 60), 0.25, 0, 3.0, 0.5, 200).fraction) == 0


def test_pixels_of_the_mask_make_the_object_larger() -> None:
  rectangle = place((50, 80), 0.2, 0, 0.5, 0.5, 512)
  mask = place((50, 80), 0.2, 0, 0.5, 0.5, 512, pixels=50 * 80 / 2)
  ratio = np.prod(mask.resized) / np.prod(rectangle.resized)
  assert ratio == pytest.approx(2, rel=0.02)
