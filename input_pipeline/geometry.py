"""Resize and crop: of the shorter side and the centre, or of a random box for training.

Sizes are truncated to integers, as in torchvision's `Resize`. If a crop leaves an odd number of
pixels, the odd one is after the crop. torchvision's `CenterCrop` rounds half to even, which puts it
before or after by turns; one pixel changes an accuracy by a few tenths of a percentage point.
"""

import math

import numpy as np
import tensorflow as tf
from PIL import Image

from input_pipeline.images import Size
from input_pipeline.selection import resized_size
from input_pipeline.settings import DataSettings

TRIES, RATIO = 10, 4 / 3
"""Number of boxes that `random_resized_crop` tries, and the largest ratio of their sides."""
KERNELS = {'bilinear': 'triangle', 'bicubic': 'keyscubic'}
"""{value of `interpolation`: its name in TensorFlow's ScaleAndTranslate}."""
FILTERS = {'bilinear': Image.Resampling.BILINEAR, 'bicubic': Image.Resampling.BICUBIC}
"""{value of `interpolation`: Pillow's filter}."""


def resize_and_crop(image: tf.Tensor, settings: DataSettings) -> tf.Tensor:
  """Resizes an image [H, W, C] with antialiasing and crops its centre.

  Args:
    image: uint8, or float32 in [0, 1]. It must be float32 if TensorFlow resizes it, and uint8 if
      Pillow does.
    settings: sizes and method, `resize`, `crop`, `squash`, `interpolation` and `resized_by`.

  Returns:
    The image in the type of `image`. Overshoot of bicubic interpolation is clipped.
  """
  if settings.pillow_resizes:
    pixels = tf.numpy_function(lambda x: resized_by_pillow(x, settings), [image], tf.uint8)
    return tf.ensure_shape(pixels, [None, None, None])
  if settings.resize:
    sides = tf.shape(image)[:2]
    # the length that becomes `settings.resize`: of each side, or of the shorter side for both
    reference = sides if settings.squash else tf.reduce_min(sides)
    resized = sides * settings.resize // reference  # height and width after the resize
    cropped = tf.constant([settings.crop] * 2) if settings.crop else resized  # after the crop
    offset = (resized - cropped) // 2  # row and column at which the crop begins
    window = tf.raw_ops.ScaleAndTranslate(  # computes only the pixels of the crop
      images=image[None],
      size=cropped,
      scale=tf.cast(resized, tf.float32) / tf.cast(sides, tf.float32),
      translation=-tf.cast(offset, tf.float32),
      kernel_type=KERNELS[settings.interpolation],
      antialias=True,
    )[0]
    return tf.clip_by_value(window, 0.0, 1.0)
  if settings.crop:
    offset = (tf.shape(image)[:2] - settings.crop) // 2
    image = image[offset[0] : offset[0] + settings.crop, offset[1] : offset[1] + settings.crop]
  return image


def resized_by_pillow(pixels: np.ndarray, settings: DataSettings) -> np.ndarray:
  """Resizes an image, uint8 [H, W, C], by Pillow and crops its centre, as in torchvision.

  Args:
    pixels: the image.
    settings: sizes and method; `settings.resize` must be above 0.
  """
  height, width = pixels.shape[:2]
  resized = resized_size((height, width), settings)
  cropped = (settings.crop, settings.crop) if settings.crop else resized
  return _resize_by_pillow(pixels, resized, cropped, settings)


def _resize_by_pillow(
  pixels: np.ndarray, resized: Size, cropped: Size, settings: DataSettings
) -> np.ndarray:
  """Resizes an image, uint8 [H, W, C], by Pillow and returns its centre.

  The width is resized first, then the height, as in Pillow up to version 12. Later versions choose
  the faster order, which changes every fourth value.

  Args:
    pixels: the image.
    resized: (height, width) of the resized image.
    cropped: (height, width) of the returned centre.
    settings: its `interpolation` is used.
  """
  picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
  resized_height, resized_width = resized
  height, width = cropped
  first_column, first_row = (resized_width - width) // 2, (resized_height - height) // 2
  method = FILTERS[settings.interpolation]
  picture = picture.resize((resized_width, picture.height), method)
  # the columns outside the centre are cut off now, so that the second resize does not compute them
  picture = picture.crop((first_column, 0, first_column + width, picture.height))
  picture = picture.resize((width, resized_height), method)
  return np.asarray(picture)[first_row : first_row + height].reshape(height, width, -1)


def random_resized_crop(
  image: tf.Tensor, size: Size, seed: tf.Tensor, settings: DataSettings
) -> tf.Tensor:
  """Crops a random box from an image and resizes it, the usual augmentation on ImageNet.

  The area of the box is uniform in [random_crop_area, 1] of the image, its aspect ratio (width /
  height) log-uniform in [3/4, 4/3], and its position uniform. If ten random boxes do not fit into
  the image, the largest central box with a valid aspect ratio is used, as in torchvision.

  Args:
    image: [H, W, C] of any size: float32 in [0, 1], or uint8 if `resized_by` is 'pillow'.
    size: height and width of the returned image in pixels.
    seed: int64 [2], which determines the box.
    settings: `random_crop_area` in (0, 1], `interpolation` and `resized_by` are used.

  Returns:
    The image [*size, C] in the type of `image`.

  Reference: Szegedy et al. (2015), Going Deeper with Convolutions, section 6.
  """
  box = _random_box(tf.shape(image)[:2], settings.random_crop_area, seed)
  first_row, first_column, height, width = tf.unstack(box)
  cropped = image[first_row : first_row + height, first_column : first_column + width]
  if settings.resized_by == 'pillow':
    pixels = tf.numpy_function(
      lambda stored: _resize_by_pillow(stored, size, size, settings), [cropped], tf.uint8
    )
    return tf.ensure_shape(pixels, [*size, image.shape[-1]])
  resized = tf.image.resize(cropped, size, method=settings.interpolation, antialias=True)
  return tf.clip_by_value(resized, 0.0, 1.0)


def _random_box(shape: tf.Tensor, smallest_area: float, seed: tf.Tensor) -> tf.Tensor:
  """Returns a random box inside an image: top, left, height and width, int32 [4].

  The first of `TRIES` random boxes that fits is used. If none fits, the box is the largest central
  box with an aspect ratio between 1 / `RATIO` and `RATIO`.

  Args:
    shape: height and width of the image, int32 [2].
    smallest_area: smallest area of the box as a fraction of the image's area.
    seed: int64 [2], which determines the box.
  """
  height, width = tf.unstack(tf.cast(shape, tf.float32))
  # numbers in [0, 1): areas and ratios of `TRIES` boxes, and the position of the chosen box
  draws = tf.random.stateless_uniform([2 * TRIES + 2], seed)
  area_draws, ratio_draws, corner_draws = tf.split(draws, [TRIES, TRIES, 2])
  area = (smallest_area + area_draws * (1 - smallest_area)) * height * width
  ratio = tf.exp((2 * ratio_draws - 1) * math.log(RATIO))
  heights, widths = tf.round(tf.sqrt(area / ratio)), tf.round(tf.sqrt(area * ratio))  # [TRIES]
  can_fit = (heights >= 1) & (heights <= height) & (widths >= 1) & (widths <= width)
  has_drawn_box = tf.reduce_any(can_fit)
  first = tf.argmax(tf.cast(can_fit, tf.int32))  # the index of the first True
  drawn = tf.stack([heights[first], widths[first]])
  # the sides of the largest box with an allowed ratio
  fallback = tf.stack([tf.minimum(height, width * RATIO), tf.minimum(width, height * RATIO)])
  sides = tf.where(has_drawn_box, drawn, tf.round(fallback))
  margin = tf.stack([height, width]) - sides
  random_corner, central = tf.floor(corner_draws * (margin + 1)), tf.floor(margin / 2)
  corner = tf.where(has_drawn_box, random_corner, central)
  corner = tf.minimum(corner, margin)  # the product in float32 may be rounded up to margin + 1
  return tf.cast(tf.concat([corner, sides], 0), tf.int32)
