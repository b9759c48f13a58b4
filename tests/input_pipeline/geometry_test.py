"""Tests resizing, cropping and random crops against Pillow and the sizes of torchvision."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from input_pipeline.geometry import random_resized_crop, resize_and_crop
from input_pipeline.selection import output_size
from input_pipeline.settings import DataSettings
from tests.cases import cases


def smooth_image(height, width):
  """Returns waves of several lengths, uint8 [height, width, 3]."""
  y, x = np.mgrid[:height, :width]
  waves = [np.sin(x / 3) + np.cos(y / 5), np.sin((x + y) / 7), np.cos(x * y / 300)]
  return (127.5 + 60 * np.stack(waves, axis=-1)).astype(np.uint8)


@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
@pytest.mark.parametrize('size', [(60, 90), (91, 64), (20, 20)])
@pytest.mark.parametrize('squash', [False, True])
def test_resize_agrees_with_pillow_to_a_grey_level(interpolation, size, squash):
  image = smooth_image(*size)
  settings = DataSettings(resize=32, interpolation=interpolation, squash=squash)
  height, width = output_size(size, settings) or (0, 0)
  assert not squash or (height, width) == (32, 32)
  method = getattr(Image.Resampling, interpolation.upper())
  expected = np.asarray(Image.fromarray(image).resize((width, height), method), np.float32) / 255
  result = resize_and_crop(tf.constant(image / np.float32(255)), settings).numpy()
  assert result.shape == expected.shape
  assert np.abs(result - expected).max() < 1.6 / 255, 'Pillow rounds after each direction'


@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
@pytest.mark.parametrize('channels', [1, 3])
def test_pillow_resizes_as_torchvision_does(interpolation, channels):
  """The width is resized first: in one call, Pillow 13 begins with the height of tall images."""
  settings = DataSettings(resize=32, crop=28, interpolation=interpolation, resized_by='pillow')
  method = getattr(Image.Resampling, interpolation.upper())
  for height, width, size in ((75, 91, (38, 32)), (91, 75, (32, 38)), (190, 75, (32, 81))):
    image = smooth_image(height, width)[..., :channels]
    picture = Image.fromarray(image if channels == 3 else image[..., 0])
    uncropped = picture.resize((size[0], height), method).resize(size, method)
    if height < width:
      assert np.array_equal(uncropped, picture.resize(size, method)), 'as torchvision does'
    x, y = ((side - 28) // 2 for side in size)
    expected = np.asarray(uncropped.crop((x, y, x + 28, y + 28))).reshape(28, 28, channels)
    resized = resize_and_crop(tf.constant(image), settings)
    assert resized.dtype == tf.uint8
    np.testing.assert_array_equal(resized, expected)


@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
@pytest.mark.parametrize('channels', [1, 3])
def test_random_crops_resized_by_pillow_agree_with_those_in_floats(interpolation, channels):
  image = smooth_image(190, 75)[..., :channels]
  seed = tf.constant([5, 0], tf.int64)
  settings = DataSettings(random_crop_area=0.5, interpolation=interpolation, resized_by='pillow')
  in_floats = DataSettings(random_crop_area=0.5, interpolation=interpolation)
  crop = random_resized_crop(tf.constant(image), (24, 24), seed, settings)
  expected = random_resized_crop(image / np.float32(255), (24, 24), seed, in_floats)
  assert crop.dtype == tf.uint8
  assert np.abs(crop / np.float32(255) - expected).max() < 1.6 / 255


@cases(
  'size, resize, crop, expected',
  ((375, 500), 256, 0, (256, 341)),  # 256 / 375 · 500 = 341.33
  ((500, 375), 256, 224, (224, 224)),
  ((28, 28), 0, 0, (28, 28)),
  ((28, 30), 0, 28, (28, 28)),
  ((28, 30), 0, 29, None),
)
def test_the_size_after_resizing_and_cropping_is_that_of_torchvision(size, resize, crop, expected):
  assert output_size(size, DataSettings(resize=resize, crop=crop)) == expected


@pytest.mark.parametrize(('height', 'offset'), [(10, 3), (9, 2), (11, 3), (4, 0)])
def test_the_crop_is_centred_with_an_odd_pixel_at_the_end(height, offset):
  image = np.arange(height, dtype=np.float32)[:, None, None] * np.ones((1, 8, 1), np.float32)
  result = resize_and_crop(tf.constant(image), DataSettings(crop=4)).numpy()
  np.testing.assert_array_equal(result[:, 0, 0], np.arange(offset, offset + 4))


def test_bicubic_overshoot_is_clipped():
  edge = np.zeros((16, 16, 1), np.float32)
  edge[:, 8:] = 1
  result = resize_and_crop(tf.constant(edge), DataSettings(resize=24)).numpy()
  assert result.min() == 0 and result.max() == 1


@pytest.mark.parametrize('interpolation', ['bilinear', 'bicubic'])
@pytest.mark.parametrize('size', [(75, 50), (50, 91), (40, 40), (20, 33)])
def test_resize_with_crop_is_the_centre_of_the_resized_image(size, interpolation):
  image = np.random.default_rng(0).random((*size, 3), np.float32)
  resized = resize_and_crop(image, DataSettings(resize=32, interpolation=interpolation))
  cropped = resize_and_crop(image, DataSettings(resize=32, crop=27, interpolation=interpolation))
  y, x = ((side - 27) // 2 for side in resized.shape[:2])
  np.testing.assert_allclose(cropped, resized[y : y + 27, x : x + 27], atol=3e-5)


def crops(image, count, smallest=0.08, size=24):
  """Returns random crops of at least the area `smallest`, float32 [count, size, size, C]."""
  data = tf.data.Dataset.range(count).map(
    lambda n: random_resized_crop(
      tf.constant(image),
      (size, size),
      tf.stack([tf.constant(5, tf.int64), n]),
      DataSettings(random_crop_area=smallest, interpolation='bilinear'),
    )
  )
  return np.stack(list(data.as_numpy_iterator()))


def areas_of_boxes(count):
  """Returns areas of boxes in 96 x 128 pixels, in [0, 1]; boxes that do not fit are drawn again."""
  generator, areas = np.random.default_rng(1), []
  while len(areas) < count:
    area = generator.uniform(0.08, 1)
    ratio = np.exp(generator.uniform(-np.log(4 / 3), np.log(4 / 3)))
    rows, columns = np.sqrt(area * 96 * 128 / ratio), np.sqrt(area * 96 * 128 * ratio)
    if rows <= 96.5 and columns <= 128.5:
      areas.append(area)
  return areas


def test_areas_and_ratios_of_random_crops_are_distributed_as_specified():
  """The values of the image are its coordinates, so that the corners of a crop show its box."""
  y, x = np.mgrid[:96, :128].astype(np.float32)
  boxes = crops(np.stack([y / 96, x / 128, 0 * x], -1), 400)
  # The centres of the first and last of 24 pixels are 23 pixels of the crop apart.
  rows = (boxes[:, -1, 0, 0] - boxes[:, 0, 0, 0]) * 96 / 23 * 24
  columns = (boxes[:, 0, -1, 1] - boxes[:, 0, 0, 1]) * 128 / 23 * 24
  area, ratio = rows * columns / (96 * 128), columns / rows
  expected = areas_of_boxes(4000)
  for share in (0.1, 0.5, 0.9):  # the standard error of a median of 400 areas is 0.02
    assert np.quantile(area, share) == pytest.approx(np.quantile(expected, share), abs=0.06)
  assert 0.7 < ratio.min() < 0.85 and 1.2 < ratio.max() < 1.42


def test_a_random_crop_depends_on_its_seed_alone():
  image = np.random.default_rng(0).random((40, 60, 3)).astype(np.float32)
  first, again = crops(image, 6), crops(image, 6)
  np.testing.assert_array_equal(first, again)
  assert len({crop.tobytes() for crop in first}) == 6
  # No box of the complete area has a ratio of at most 4/3: 40 x 53 pixels at the centre remain.
  central = crops(image, 1, 1.0)[0]
  expected = tf.image.resize(image[:, 3:56], (24, 24), antialias=True)
  np.testing.assert_allclose(central, expected, atol=1e-6)
