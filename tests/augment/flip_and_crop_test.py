"""Tests flips, crops, and random resized crops: pixels as by Pillow, and where their boxes are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness.augment.flip_and_crop import AlternatingFlip, Crop, Flip, RandomResizedCrop
from robustness.augment.policy import Policy
from robustness.core.sampler import EPOCH
from tests.augment.pictures import augmented
from tests.refusals import refused

IMAGE = jnp.arange(1.0, 31.0).reshape(5, 3, 2) / 30
KEYS = jax.random.split(jax.random.key(0), 400)
BOX_KEYS = jax.random.split(jax.random.key(4), 600)


def test_a_flip_mirrors_columns_with_its_probability():
  mirrored = np.asarray(IMAGE[:, ::-1])
  images = augmented(Flip(), KEYS, IMAGE)
  flipped = (images == mirrored).all((1, 2, 3))
  assert (flipped ^ (images == np.asarray(IMAGE)).all((1, 2, 3))).all()
  assert 160 < flipped.sum() < 240  # four standard deviations of Binomial(400, 1/2)
  assert (augmented(Flip(0.0), KEYS, IMAGE) == np.asarray(IMAGE)).all()
  assert (augmented(Flip(1.0), KEYS, IMAGE) == mirrored).all()


def test_an_alternating_flip_mirrors_every_image_in_every_second_epoch():
  policy = Policy.of(alternating_flip={})
  images = jnp.broadcast_to(IMAGE, (40, *IMAGE.shape))

  def flipped(epoch, step):
    """Returns the images of a batch of 40 equal rows in an epoch."""
    rows = {'image': images, 'example_id': jnp.arange(40), EPOCH: jnp.full(40, epoch)}
    return np.asarray(policy(rows, 0, jnp.int32(step))['image'])

  first, second = flipped(0, 3), flipped(1, 8)
  mirrored = (first != np.asarray(images)).any((1, 2, 3))
  assert 8 < mirrored.sum() < 32
  np.testing.assert_array_equal(second, first[:, :, ::-1])
  np.testing.assert_array_equal(flipped(2, 11), first)
  without_epoch = {'image': IMAGE}
  refused("take 'flip' where", AlternatingFlip(), KEYS[0], without_epoch)


@pytest.mark.parametrize(('border', 'mode'), [('black', 'constant'), ('reflect', 'reflect')])
def test_a_crop_is_a_window_of_the_padded_image_and_every_one_occurs(border, mode):
  padded = np.pad(np.asarray(IMAGE), ((2, 2), (2, 2), (0, 0)), mode=mode)  # type: ignore[call-overload]
  windows = {padded[i : i + 5, j : j + 3].tobytes(): (i, j) for i in range(5) for j in range(5)}
  seen = [windows[image.tobytes()] for image in augmented(Crop(2, border), KEYS, IMAGE)]
  assert set(seen) == set(windows.values())
  if border == 'black':  # Each window differs, so its offsets are known to be uniform on 0..4.
    assert abs(np.mean(seen) - 2) < 0.2  # The standard error of the mean is .05.


@pytest.mark.parametrize(('channels', 'expected'), [(3, (125, 123, 114)), (1, (121,))])
def test_the_border_may_be_the_mean_colour(channels, expected):
  white = np.ones((5, 4, channels), np.float32)
  border = augmented(Crop(2), KEYS, white) == 0
  filled = np.broadcast_to(np.array(expected, np.float32) / np.float32(255), border.shape)
  crops = augmented(Crop(2, 'mean_colour'), KEYS, white)
  np.testing.assert_allclose(crops, np.where(border, filled, 1), rtol=1e-6)
  assert border.any()


def boxes(crop, height, width):
  """Returns first row, first column, rows and columns of boxes, int [600, 4]."""
  return np.asarray(jax.vmap(lambda key: jnp.stack(crop.box(key, height, width)))(BOX_KEYS))


@pytest.mark.slow
@pytest.mark.parametrize(('height', 'width'), [(32, 32), (48, 64)])
def test_pixels_are_those_of_pillows_resize_of_the_box(height, width):
  """Pillow resizes float32 images with the same filter."""
  image, crop = np.random.default_rng(0).random((height, width, 3), np.float32), RandomResizedCrop()
  crops = augmented(crop, BOX_KEYS[:12], image)
  for made, (y0, x0, rows, columns) in zip(crops, boxes(crop, height, width), strict=False):
    part = tuple(map(int, (x0, y0, x0 + columns, y0 + rows)))
    channels = [Image.fromarray(image[..., channel]).crop(part) for channel in range(3)]
    resized = [
      channel_image.resize((width, height), Image.Resampling.BILINEAR) for channel_image in channels
    ]
    np.testing.assert_allclose(made, np.stack(resized, -1), atol=1e-5)


def test_boxes_are_inside_with_areas_and_ratios_of_the_settings():
  y0, x0, rows, columns = boxes(RandomResizedCrop(), 224, 224).T
  assert (y0 >= 0).all() and (y0 + rows <= 224).all()
  assert (x0 >= 0).all() and (x0 + columns <= 224).all()
  area, ratio = rows * columns / 224**2, columns / rows
  assert 0.075 < area.min() < 0.12 and 0.9 < area.max() <= 1
  # Areas are uniform on [.08, 1] except for boxes drawn again because they did not fit.
  assert abs(np.quantile(area, 0.25) - 0.31) < 0.06
  assert 0.74 < ratio.min() < 0.8 and 1.25 < ratio.max() < 1.35
  assert abs(np.log(ratio).mean()) < 0.03


def test_the_whole_image_is_taken_where_no_box_fits():
  crop = RandomResizedCrop(smallest_area=1.0)
  assert (boxes(crop, 10, 100) == [0, 0, 10, 100]).all()
  image = np.random.default_rng(0).random((10, 100, 3), np.float32)
  np.testing.assert_allclose(augmented(crop, KEYS[:1], image)[0], image, atol=1e-6)
