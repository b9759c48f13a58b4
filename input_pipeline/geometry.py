"""Resize the shorter side, then crop the centre: the usual preparation of photographs.

Sizes round as in torchvision's `Resize` and `CenterCrop`, so that published accuracies can be
met: the longer side is truncated, the crop's offset is rounded half to even.
"""

from __future__ import annotations

import tensorflow as tf

from input_pipeline.settings import DataSettings

Size = tuple[int, int]


def resized(size: Size, resize: int) -> Size:
  """Returns height and width after the shorter side became `resize` pixels (0: unchanged)."""
  short = min(size)
  return (size[0] * resize // short, size[1] * resize // short) if resize else size


def output_size(size: Size, settings: DataSettings) -> Size | None:
  """Returns the size after resize and crop, or None where the crop does not fit.

  Args:
    size: height and width of the stored image, pixels.
    settings: gives `resize` and `crop`.
  """
  height, width = resized(size, settings.resize)
  if not settings.crop:
    return height, width
  fits = min(height, width) >= settings.crop
  return (settings.crop, settings.crop) if fits else None


def resize_and_crop(image: tf.Tensor, settings: DataSettings) -> tf.Tensor:
  """Applies the settings' antialiased resize and centre crop.

  Args:
    image: float32 [H, W, C] in [0, 1].
    settings: gives `resize`, `crop` and `interpolation`.

  Returns:
    float32 [H', W', C] in [0, 1] (bicubic overshoot is clipped).
  """
  if settings.resize:
    shape = tf.shape(image)[:2]
    target = shape * settings.resize // tf.reduce_min(shape)
    image = tf.image.resize(image, target, method=settings.interpolation, antialias=True)
    image = tf.clip_by_value(image, 0.0, 1.0)
  if settings.crop:
    margin = tf.cast(tf.shape(image)[:2] - settings.crop, tf.float32)
    offset = tf.cast(tf.round(margin / 2), tf.int32)
    image = image[offset[0]:offset[0] + settings.crop, offset[1]:offset[1] + settings.crop]
  return image
