"""Tests the operations of policies against Pillow's, on pictures of several sizes."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from robustness.augment import operations
from robustness.augment.levels import histogram
from robustness.augment.operations import NAMES, UNITS, Drawn, Operations
from tests.augment import pictures
from tests.cases import cases
from tests.refusals import bad_setting, refused

AFFINE, NEAREST = Image.Transform.AFFINE, Image.Resampling.NEAREST
FACTORS = (0, 0.1, 0.55, 1, 1.45, 1.9)
MAGNITUDES = {  # These are shares, pixels, degrees, bits, levels or factors.
  **dict.fromkeys(('ShearX', 'ShearY'), (-0.3, 0.03, 0.1, 0.3)),
  **dict.fromkeys(('TranslateX', 'TranslateY'), (-9, 3, 4.5, 14)),
  'Rotate': (90, -30, -7.3, 0, 3, 21, 30),
  **dict.fromkeys(('AutoContrast', 'Equalize', 'Invert'), (0,)),
  'Posterize': (1, 2, 4, 7, 8),
  'Solarize': (0, 26, 100, 128, 255, 256),
  'SolarizeAdd': (0, 30, 110),
  **dict.fromkeys(('Brightness', 'Contrast', 'Color', 'Sharpness'), FACTORS),
  'Cutout': (0, 1, 6, 15, 16),
}


def pillow(name, picture, value, resample=NEAREST):
  """Returns a picture changed by Pillow, float32 [H, W, C] in [0, 1].

  SolarizeAdd and Cutout, which Pillow does not have, are made of its parts.
  """

  def added():
    table = [min(255, max(0, level + int(value))) if level < 128 else level for level in range(256)]
    return picture.point(table * len(picture.getbands()))

  def covered():
    result, side = picture.copy(), int(value)
    x0, y0 = picture.width // 2 - side // 2, picture.height // 2 - side // 2
    result.paste((0,) * len(picture.getbands()), (x0, y0, x0 + side, y0 + side))
    return result

  matrices = {
    'ShearX': (1, value, 0, 0, 1, 0),
    'ShearY': (1, 0, 0, value, 1, 0),
    'TranslateX': (1, 0, value, 0, 1, 0),
    'TranslateY': (1, 0, 0, 0, 1, value),
  }
  functions = {
    'Rotate': lambda: picture.rotate(value, resample),
    'AutoContrast': lambda: ImageOps.autocontrast(picture),
    'Equalize': lambda: ImageOps.equalize(picture),
    'Invert': lambda: ImageOps.invert(picture),
    'Posterize': lambda: ImageOps.posterize(picture, int(value)),
    'Solarize': lambda: ImageOps.solarize(picture, value),
    'SolarizeAdd': added,
    'Cutout': covered,
  }
  if name in matrices:
    result = picture.transform(picture.size, AFFINE, matrices[name], resample)
  elif name in functions:
    result = functions[name]()
  else:
    result = getattr(ImageEnhance, name)(picture).enhance(value)
  return pictures.batch([result])[0]


def compare(name, originals, values, interpolation='nearest'):
  """Asserts that pictures are changed as by Pillow.

  At most 1 % of the values of any picture differ by more than one level, and none except in warps.
  """
  apply = functools.partial(operations.apply, name, interpolation=interpolation)
  every = jax.jit(jax.vmap(jax.vmap(apply, (None, 0)), (0, None)))
  results = every(pictures.batch(originals), jnp.float32(values))
  resample = {'nearest': NEAREST, 'bilinear': Image.Resampling.BILINEAR}[interpolation]
  for picture, images in zip(originals, np.asarray(results), strict=True):
    for value, image in zip(values, images, strict=True):
      levels = 255 * np.abs(image - pillow(name, picture, value, resample))
      assert (levels > 1.01).mean() <= 0.01, (name, value, picture.size)
      assert levels.max() < 1.01 or name in operations.WARPS, (name, value, picture.size)


@pytest.mark.parametrize('name', NAMES)
def test_real_pictures_are_changed_as_pillow_changes_them(name):
  compare(name, pictures.real(), MAGNITUDES[name])


@pytest.mark.parametrize('name', NAMES)
def test_oblong_and_grey_pictures_are_changed_as_pillow_changes_them(name):
  values = MAGNITUDES[name][:3]
  wide = pictures.seeded(21, 34)
  compare(name, [picture.convert('L') for picture in wide] if name in NAMES[::2] else wide, values)


@pytest.mark.parametrize('name', operations.WARPS)
def test_bilinear_warps_are_pillows(name):
  """Quarter turns are left out because Pillow does not interpolate them."""
  compare(name, pictures.seeded(32, 32), [v for v in MAGNITUDES[name] if v != 90], 'bilinear')


def test_most_operations_are_equal_to_pillow_bit_for_bit():
  inexact = ('AutoContrast', 'Brightness', 'Contrast', 'Color', 'Sharpness', 'Rotate')
  exact = [name for name in NAMES if name not in inexact]
  picture = pictures.seeded(32, 32)[0]
  results = _applied(exact, [pictures.batch([picture])[0]] * len(exact))
  for name, image in zip(exact, results, strict=True):
    expected = pillow(name, picture, MAGNITUDES[name][-1])
    np.testing.assert_allclose(image, expected, atol=1e-6, err_msg=name)


def _applied(names, images):
  """Returns each image after the operation of its name at the last magnitude, in one program."""

  def apply_all(images):
    pairs = zip(names, images, strict=True)
    return [operations.apply(name, image, MAGNITUDES[name][-1]) for name, image in pairs]

  return jax.jit(apply_all)(images)


@pytest.mark.slow
def test_operations_drawn_for_each_image_equal_the_operations_by_themselves():
  """They are applied to all images at once or one after another; -1 draws no operation."""
  count, every = len(NAMES), Operations(transparent=True)
  images = jnp.asarray(pictures.batch(pictures.seeded(16, 16, count)))
  values = jnp.float32([MAGNITUDES[name][-1] for name in NAMES])
  middle = jnp.full((count, 2), 8)
  begin = operations.to_levels(images), jnp.ones(images.shape[:3], bool)
  drawn = Drawn(jnp.arange(count), values, middle)
  all_at_once = jax.jit(jax.vmap(every))
  at_once, mask = all_at_once(begin, drawn)
  in_order, _ = jax.jit(lambda *x: jax.lax.map(lambda y: every(*y), x))(begin, drawn)
  np.testing.assert_array_equal(at_once, in_order)
  singles = _applied(NAMES, list(images))
  for place, (name, single) in enumerate(zip(NAMES, singles, strict=True)):
    np.testing.assert_allclose(at_once[place] / 255, single, atol=1.01 / 255, err_msg=name)
    moved = name in (*operations.WARPS, 'Cutout')
    assert bool(mask[place].all()) != moved, name
  assert set(MAGNITUDES) == set(NAMES) == set(UNITS)
  unchanged, _ = all_at_once(begin, Drawn(jnp.full(count, -1), values, middle))
  np.testing.assert_array_equal(unchanged, begin[0])


@pytest.mark.slow
def test_histograms_count_every_value():
  levels = np.random.default_rng(0).integers(0, 256, (20, 9, 3))
  expected = np.stack([np.bincount(levels[..., c].ravel(), minlength=256) for c in range(3)], 1)
  np.testing.assert_array_equal(histogram(jnp.asarray(levels)), expected)


@pytest.mark.slow
def test_operations_that_depend_on_contrast_leave_a_flat_image():
  flat = jnp.full((9, 7, 3), 51 / 255)
  for name in ('AutoContrast', 'Equalize', 'Color', 'Sharpness', 'Contrast'):
    np.testing.assert_allclose(operations.apply(name, flat, 1.9), flat, atol=1.01 / 255)


def test_vacated_and_covered_pixels_take_the_fill():
  white = jnp.ones((8, 8, 3))
  moved = 255 * operations.apply('TranslateX', white, 2.0, fill=(125, 123, 114))
  assert np.round(moved[0, -1]).tolist() == [125, 123, 114] and (moved[:, :6] == 255).all()
  hole = operations.apply('Cutout', white, 4.0, fill=(0,), centre=(0, 0))
  assert float((hole == 0).mean()) == 4 / 64, 'cut at the border'


@cases(
  'arguments, message',
  (
    ('Rotat', np.zeros((4, 4, 3)), 1.0),
    bad_setting('name', 'Rotat', words="did you mean 'Rotate'"),
  ),
  (('Posterize', np.zeros((4, 4, 3)), 9), r'magnitude of Posterize is 9; .*bits.*\[0, 8\]'),
  (('Color', np.zeros((4, 4, 3)), -0.1), r'magnitude of Color is -0\.1; .*factor'),
  (('Solarize', np.zeros((4, 4, 3)), float('nan')), r'magnitude of Solarize is nan'),
  (('Invert', np.zeros((4, 4, 2)), 0), r'shape \(4, 4, 2\).*1 or 3'),
  (('Invert', np.zeros((4, 4)), 0), r'shape \(4, 4\)'),
  (('Invert', np.zeros((4, 4, 3), np.uint8), 0), 'images are uint8.*floats .*Divide 8-bit images'),
  (('Invert', np.full((4, 4, 3), 255.0), 0), r'values from 255 to 255; .* in \[0, 1\]'),
  (('Invert', np.full((4, 4, 3), np.nan), 0), 'values from nan'),
)
def test_mistakes_are_named(arguments, message):
  refused(message, operations.apply, *arguments)


@pytest.mark.parametrize('fill', [(300,), (-1,), (1, 2), ()])
def test_fills_that_are_no_colour_are_named(fill):
  message = rf'fill is {re.escape(repr(fill))}; it must be levels 0\.\.255, one or red'
  refused(message, operations.apply, 'Cutout', np.zeros((4, 4, 3)), 2, fill=fill)


def test_the_type_of_a_traced_image_is_checked():
  inverted = jax.jit(lambda image: operations.apply('Invert', image, 0))
  refused('images are uint8; operations take floats', inverted, np.zeros((4, 4, 3), np.uint8))
