"""Scenes against Pillow on real cutouts, and what must hold whatever the pictures."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness import scenes
from robustness.scenes.composition import counted, paste_cutout, premultiplied
from robustness.scenes.geometry import place
from tests.refusals import refused

UPRIGHT = (
  *((area, 0, 0.5, 0.5) for area in (0.01, 0.6, 1.0)),
  *((0.2, 0, 0.05, 0.95), (0.2, 0, 1.0, 0.0)),
)
TURNED = (
  *((0.2, 21, 0.5, 0.5), (0.8, 161, 0.5, 0.5), (1.0, 341, 0.5, 0.5), (0.3, 90, 0.2, 0.9)),
  *((0.5, 270, 0.5, 0.5), (0.3, 37, 1.0, 0.0)),
)
"""Area, angle, x and y."""


def paste(cutout, background, area, angle, x, y):
  """Returns the scene, uint8 [S, S, 3], and the share of the expanded rectangle inside."""
  layer = turned(cutout, background.width, area, angle)
  x0, y0 = corner(layer, background.width, x, y)
  scene = background.copy()
  scene.paste(layer, (x0, y0), layer)
  return np.asarray(scene), share_inside(layer, background.width, x0, y0)


def turned(cutout: Image.Image, side: int, area: float, angle: float) -> Image.Image:
  """Resizes and rotates."""
  width, height = cutout.size
  k = math.sqrt(area / ((width * height) / (side * side)))
  layer = cutout.resize((int(width * k), int(height * k)), Image.Resampling.BILINEAR)
  return layer.rotate(angle, Image.Resampling.BICUBIC, expand=True) if angle % 360 else layer


def corner(layer: Image.Image, side: int, x: float, y: float) -> tuple[int, int]:
  """Returns left and top."""
  width, height = layer.size
  return int(int(x * side) - width / 2), int(int(y * side) - height / 2)


def share_inside(layer: Image.Image, side: int, x0: int, y0: int) -> float:
  across = min(x0 + layer.width, side) - max(x0, 0)
  down = min(y0 + layer.height, side) - max(y0, 0)
  return max(across, 0) * max(down, 0) / (layer.width * layer.height)


def as_floats(image: Image.Image) -> np.ndarray:
  return np.asarray(image, np.float32) / 255


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


@pytest.mark.slow
@pytest.mark.parametrize('side', [224, 500])
def test_sizes_corners_and_fractions_are_exact(side):
  factors = random_factors(300)
  single = {k: v.astype(np.int32 if k == 'size' else np.float32) for k, v in factors.items()}
  placed = jax.device_get(jax.jit(jax.vmap(lambda f: place(**f, side=side)))(single))
  for index in range(300):
    row = {k: v[index].tolist() for k, v in factors.items()}
    cutout = Image.new('L', tuple(row['size'][::-1]))
    try:
      layer = turned(cutout, side, row['area'], row['angle'])
    except ValueError:  # Pillow refuses a side of no pixels
      assert placed.fraction[index] == 0
      continue
    x0, y0 = corner(layer, side, row['x'], row['y'])
    assert placed.expanded[index].tolist() == [layer.height, layer.width], row
    assert placed.corner[index].tolist() == [y0, x0], row
    assert placed.fraction[index] == np.float32(share_inside(layer, side, x0, y0)), row


@functools.partial(jax.jit, static_argnames=('rotate', 'measure'))
def composed(foreground, background, *factors, rotate, measure='rectangle', size=None):
  """The scene of a foreground that is not premultiplied, and the share of it that is in it."""
  cutout = premultiplied(foreground)
  size = jnp.asarray(foreground.shape[:2] if size is None else size, jnp.int32)
  pixels = counted(cutout, measure)
  return paste_cutout(cutout[None], 0, size, pixels, background, factors, rotate)


def close(scene: jax.Array, expected: np.ndarray) -> float:
  """Returns the share of pixels with all channels within 2 levels."""
  return float((np.abs(np.asarray(scene) * 255 - expected) <= 2).all(-1).mean())


def made_cutout(height: int = 31, width: int = 47) -> np.ndarray:
  random = np.random.default_rng(0)
  cutout = random.random((height, width, 4), np.float32)
  cutout[..., 3] = np.hypot(*np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]) < 1
  return cutout


def made_background(side: int = 64) -> np.ndarray:
  return np.random.default_rng(1).random((side, side, 3), np.float32)


def test_agrees_with_pillow_on_noise():
  levels = [np.round(made() * 255).astype(np.uint8) for made in (made_cutout, made_background)]
  pixels = [image / np.float32(255) for image in levels]
  for factors in (*UPRIGHT, *TURNED):
    expected, _ = paste(*map(Image.fromarray, levels), *factors)
    scene, _ = composed(*pixels, *factors, rotate=factors[1] != 0)
    assert close(scene, expected) >= 0.97, factors  # roundings to 8 bits show most in noise


def test_many_factors_at_once_are_each_alone():
  factors = np.array(TURNED, np.float32).T
  parts = made_cutout(), made_background()
  many = jax.vmap(lambda *f: composed(*parts, *f, rotate=True))(*factors)
  for index, placing in enumerate(TURNED):
    scene, fraction = composed(*parts, *placing, rotate=True)
    np.testing.assert_allclose(many[0][index], scene, atol=1.5 / 255)  # a level may go either way
    assert np.isclose(many[0][index], scene, atol=1e-5).mean() > 0.99
    assert many[1][index] == fraction


def test_padding_changes_nothing():
  cutout = made_cutout()
  padded = np.pad(cutout, ((0, 9), (0, 40), (0, 0)))
  size = np.array(cutout.shape[:2], np.int32)
  for angle in (0, 50):
    factors, rotate = (0.4, angle, 0.4, 0.6), angle != 0
    expected, _ = composed(cutout, made_background(), *factors, rotate=rotate)
    part, _ = composed(padded, made_background(), *factors, rotate=rotate, size=size)
    np.testing.assert_allclose(part, expected, atol=1e-5)


def test_rotating_by_nothing_is_not_rotating():
  parts = made_cutout(), made_background()
  still, inside = composed(*parts, 0.3, 0, 0.2, 0.3, rotate=False)
  for angle in (0, 360):
    turned, share = composed(*parts, 0.3, angle, 0.2, 0.3, rotate=True)
    np.testing.assert_allclose(turned, still, atol=1.5 / 255)  # the looked-up pixels have 8 bits
    assert inside == share


def test_nothing_of_the_object_leaves_the_background():
  ground = made_background()
  for angle in (0, 30):
    scene, share = composed(made_cutout(), ground, 0.1, angle, 2.0, 0.5, rotate=angle != 0)
    np.testing.assert_array_equal(scene, ground)
    assert share == 0


def test_the_area_of_a_mask_counts_its_pixels():
  ground = np.zeros((256, 256, 3), np.float32)
  cutout = made_cutout(80, 80)
  cutout[..., :3] = 1
  means = [
    float(composed(cutout, ground, 0.2, 0, 0.5, 0.5, rotate=False, measure=m)[0].mean())
    for m in ('rectangle', 'mask')
  ]
  assert means[1] == pytest.approx(0.2, abs=0.002)
  assert means[0] == pytest.approx(0.2 * cutout[..., 3].mean(), abs=0.002)


def test_the_background_has_what_the_object_leaves():
  def total(ground):
    return composed(made_cutout(), ground, 0.2, 0, 0.5, 0.5, rotate=False)[0].sum()

  slope = jax.grad(total)(0.5 * jnp.asarray(made_background()) + 0.25)
  np.testing.assert_allclose(slope[:10], 1)
  np.testing.assert_allclose(slope[32, 32], 0, atol=1e-5)


def test_a_scene_of_an_8_bit_cutout_is_that_of_its_floats_and_of_pillow():
  generator = np.random.default_rng(0)
  cutout = generator.integers(0, 256, (20, 30, 4), np.uint8)
  cutout[..., 3] = 255
  background = generator.integers(0, 256, (64, 64, 3), np.uint8)
  factors = {'area': 0.3, 'angle': 30.0, 'x': 0.4, 'y': 0.6}
  scene = scenes.compose(cutout, background, **factors)
  floats = scenes.compose(cutout / np.float32(255), background / np.float32(255), **factors)
  np.testing.assert_allclose(scene, floats, atol=1e-6)
  expected, _ = paste(Image.fromarray(cutout), Image.fromarray(background), 0.3, 30.0, 0.4, 0.6)
  assert np.abs(255 * np.asarray(scene) - expected).mean() < 1.5
  angles = jnp.array([30.0, 90.0])
  turned_scenes = jax.jit(jax.vmap(lambda a: scenes.compose(cutout, background, 0.3, a, 0.4, 0.6)))
  np.testing.assert_allclose(turned_scenes(angles)[0], scene, atol=1e-5)
  refused('square', scenes.compose, cutout, background[:32], **factors)
  refused(
    'background have values from 0 to 255', scenes.compose, cutout, 1.0 * background, **factors
  )
  refused('cutout are int64', scenes.compose, cutout.astype(int), background, **factors)
  refused('alpha of the cutout is 0', scenes.compose, 0 * cutout, background, **factors)
  for bad in ({'area': 20.0}, {'area': 0}, {'x': 64}, {'y': -0.1}, {'angle': np.nan}):
    ((name, value),) = bad.items()
    refused(f'^{name} is {value}; it must be', scenes.compose, cutout, background, **factors | bad)
  two_areas = {**factors, 'area': [0.2, 0.3]}
  refused('it must be one number.$', scenes.compose, cutout, background, **two_areas)
