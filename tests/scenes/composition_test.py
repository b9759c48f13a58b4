"""Tests the composition of scenes against Pillow, and its properties."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness import scenes
from robustness.scenes.composition import paste_cutout, premultiplied
from robustness.scenes.designs import num_mask_pixels
from robustness.scenes.geometry import place
from tests.refusals import refused

# Area, angle, x and y of scenes.
UPRIGHT = (
  *((area, 0, 0.5, 0.5) for area in (0.01, 0.6, 1.0)),
  (0.2, 0, 0.05, 0.95),
  (0.2, 0, 1.0, 0.0),
)
TURNED = (
  (0.2, 21, 0.5, 0.5),
  (0.8, 161, 0.5, 0.5),
  (1.0, 341, 0.5, 0.5),
  (0.3, 90, 0.2, 0.9),
  (0.5, 270, 0.5, 0.5),
  (0.3, 37, 1.0, 0.0),
)


def paste(cutout, background, area, angle, x, y):
  """Returns the scene by Pillow, uint8 [S, S, 3], and the share of the object's rectangle in it."""
  layer = turned(cutout, background.width, area, angle)
  x0, y0 = corner(layer, background.width, x, y)
  scene = background.copy()
  scene.paste(layer, (x0, y0), layer)
  return np.asarray(scene), share_inside(layer, background.width, x0, y0)


def turned(cutout: Image.Image, side: int, area: float, angle: float) -> Image.Image:
  """Returns the cutout resized to a share of the scene and rotated, in its bounding rectangle."""
  width, height = cutout.size
  k = math.sqrt(area / ((width * height) / (side * side)))
  layer = cutout.resize((int(width * k), int(height * k)), Image.Resampling.BILINEAR)
  return layer.rotate(angle, Image.Resampling.BICUBIC, expand=True) if angle % 360 else layer


def corner(layer: Image.Image, side: int, x: float, y: float) -> tuple[int, int]:
  """Returns the left and top of a layer that is centred on x and y."""
  width, height = layer.size
  return int(int(x * side) - width / 2), int(int(y * side) - height / 2)


def share_inside(layer: Image.Image, side: int, x0: int, y0: int) -> float:
  """Returns the share of the layer's rectangle that is in the scene."""
  across = min(x0 + layer.width, side) - max(x0, 0)
  down = min(y0 + layer.height, side) - max(y0, 0)
  return max(across, 0) * max(down, 0) / (layer.width * layer.height)


ANGLES = (*range(1, 342, 20), 0, 30, 45, 90, 180, 270, 360, 12.25, -70)


def random_factors(count: int) -> dict[str, np.ndarray]:
  """Returns arrays of random sizes and factors, [count] or [count, 2].

  A third of the sizes are square, where rounding down width times scale is most delicate.
  """
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
def test_sizes_corners_and_shares_equal_those_of_pillow(side):
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
  """Returns the scene of a cutout in [0, 1], [H, W, 4], and the share of its rectangle inside."""
  cutout = premultiplied(foreground)
  size = jnp.asarray(foreground.shape[:2] if size is None else size, jnp.int32)
  pixels = num_mask_pixels(cutout[..., 3]) if measure == 'mask' else None
  return paste_cutout(cutout[None], 0, size, pixels, background, factors, rotate)


def share_of_close_pixels(scene: jax.Array, expected: np.ndarray) -> float:
  """Returns the share of pixels whose channels all differ by at most 2 levels."""
  return float((np.abs(np.asarray(scene) * 255 - expected) <= 2).all(-1).mean())


def made_cutout(height: int = 31, width: int = 47) -> np.ndarray:
  """Returns an ellipse of random colours, float32 [height, width, 4]."""
  random = np.random.default_rng(0)
  cutout = random.random((height, width, 4), np.float32)
  cutout[..., 3] = np.hypot(*np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]) < 1
  return cutout


def made_background(side: int = 64) -> np.ndarray:
  return np.random.default_rng(1).random((side, side, 3), np.float32)


def test_scenes_of_noise_agree_with_pillow():
  levels = [np.round(image * 255).astype(np.uint8) for image in (made_cutout(), made_background())]
  pixels = [image / np.float32(255) for image in levels]
  for factors in (*UPRIGHT, *TURNED):
    expected, _ = paste(*map(Image.fromarray, levels), *factors)
    scene, _ = composed(*pixels, *factors, rotate=factors[1] != 0)
    assert share_of_close_pixels(scene, expected) >= 0.97, factors  # Pillow rounds to 8 bits


def test_scenes_composed_at_once_equal_those_composed_one_by_one():
  factors = np.array(TURNED, np.float32).T
  parts = made_cutout(), made_background()
  many = jax.vmap(lambda *f: composed(*parts, *f, rotate=True))(*factors)
  for index, scene_factors in enumerate(TURNED):
    scene, fraction = composed(*parts, *scene_factors, rotate=True)
    np.testing.assert_allclose(many[0][index], scene, atol=1.5 / 255)  # rounding may differ
    assert np.isclose(many[0][index], scene, atol=1e-5).mean() > 0.99
    assert many[1][index] == fraction


def test_the_padding_of_a_cutout_changes_nothing():
  cutout = made_cutout()
  padded = np.pad(cutout, ((0, 9), (0, 40), (0, 0)))
  size = np.array(cutout.shape[:2], np.int32)
  for angle in (0, 50):
    factors, rotate = (0.4, angle, 0.4, 0.6), angle != 0
    expected, _ = composed(cutout, made_background(), *factors, rotate=rotate)
    scene, _ = composed(padded, made_background(), *factors, rotate=rotate, size=size)
    np.testing.assert_allclose(scene, expected, atol=1e-5)


def test_a_rotation_by_0_or_360_degrees_changes_nothing():
  parts = made_cutout(), made_background()
  upright, inside = composed(*parts, 0.3, 0, 0.2, 0.3, rotate=False)
  for angle in (0, 360):
    rotated, share = composed(*parts, 0.3, angle, 0.2, 0.3, rotate=True)
    np.testing.assert_allclose(rotated, upright, atol=1.5 / 255)  # rotation rounds to 8 bits
    assert inside == share


def test_an_object_outside_the_scene_leaves_the_background():
  ground = made_background()
  for angle in (0, 30):
    scene, share = composed(made_cutout(), ground, 0.1, angle, 2.0, 0.5, rotate=angle != 0)
    np.testing.assert_array_equal(scene, ground)
    assert share == 0


def test_the_measure_mask_counts_only_opaque_pixels():
  ground = np.zeros((256, 256, 3), np.float32)
  cutout = made_cutout(80, 80)
  cutout[..., :3] = 1
  # White on black: the mean is the share of white pixels.
  means = [
    float(composed(cutout, ground, 0.2, 0, 0.5, 0.5, rotate=False, measure=m)[0].mean())
    for m in ('rectangle', 'mask')
  ]
  assert means[1] == pytest.approx(0.2, abs=0.002)
  assert means[0] == pytest.approx(0.2 * cutout[..., 3].mean(), abs=0.002)
  # An object that is translucent everywhere has the size of the opaque one.
  cutout[..., 3] *= 0.4
  scene, _ = composed(cutout, ground, 0.2, 0, 0.5, 0.5, rotate=False, measure='mask')
  assert float(scene.mean()) == pytest.approx(0.4 * 0.2, abs=0.001)


def test_pixels_outside_the_object_are_those_of_the_background():
  def total(ground):
    return composed(made_cutout(), ground, 0.2, 0, 0.5, 0.5, rotate=False)[0].sum()

  # The derivative is 1 at pixels of the background and 0 at those of the object.
  slope = jax.grad(total)(0.5 * jnp.asarray(made_background()) + 0.25)
  np.testing.assert_allclose(slope[:10], 1)
  np.testing.assert_allclose(slope[32, 32], 0, atol=1e-5)


@pytest.fixture
def parts():
  """Returns an opaque cutout and a background of noise, uint8, the arguments of `compose`."""
  generator = np.random.default_rng(0)
  cutout = generator.integers(0, 256, (20, 30, 4), np.uint8)
  cutout[..., 3] = 255
  return cutout, generator.integers(0, 256, (64, 64, 3), np.uint8)


FACTORS = {'area': 0.3, 'angle': 30.0, 'x': 0.4, 'y': 0.6}


def test_the_scene_of_8_bit_images_equals_that_of_floats_and_agrees_with_pillow(parts):
  scene = scenes.compose(*parts, **FACTORS)
  in_floats = scenes.compose(*(part / np.float32(255) for part in parts), **FACTORS)
  np.testing.assert_allclose(scene, in_floats, atol=1e-6)
  expected, _ = paste(*map(Image.fromarray, parts), **FACTORS)
  assert np.abs(255 * np.asarray(scene) - expected).mean() < 1.5
  angles = jnp.array([30.0, 90.0])
  compose_all = jax.jit(jax.vmap(lambda angle: scenes.compose(*parts, 0.3, angle, 0.4, 0.6)))
  np.testing.assert_allclose(compose_all(angles)[0], scene, atol=1e-5)


def test_unusable_cutouts_backgrounds_and_factors_are_refused(parts):
  cutout, background = parts
  refused('square', scenes.compose, cutout, background[:32], **FACTORS)
  refused('square', scenes.compose, cutout[:0], background, **FACTORS)
  refused(
    'background have values from 0 to 255', scenes.compose, cutout, 1.0 * background, **FACTORS
  )
  refused('cutout are int64', scenes.compose, cutout.astype(int), background, **FACTORS)
  refused('alpha of the cutout is 0', scenes.compose, 0 * cutout, background, **FACTORS)
  tiny = {**FACTORS, 'area': 1e-6}
  refused('less than a pixel high or wide', scenes.compose, cutout, background, **tiny)
  for name, value in (('area', 20.0), ('area', 0), ('x', 64), ('y', -0.1), ('angle', np.nan)):
    factors = {**FACTORS, name: value}
    refused(f'^{name} is {value}; it must be', scenes.compose, *parts, **factors)
  two_areas = {**FACTORS, 'area': [0.2, 0.3]}
  refused('it must be one number.$', scenes.compose, cutout, background, **two_areas)
