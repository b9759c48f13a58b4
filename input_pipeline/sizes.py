"""The sizes of stored images, and at which size they are delivered; no pixel is looked at.

Sizes are truncated, the longer side's as in torchvision's `Resize`.
"""

from __future__ import annotations

import numpy as np

from input_pipeline.images import Size, Source
from input_pipeline.settings import DataSettings
from robustness.core.errors import InputError

_ONE_SIZE = (
  'bring all images to one size, for example with --config.data.resize=256 --config.data.crop=224'
)


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


def are_of_size(source: Source, indices: np.ndarray, size: Size) -> bool:
  """Whether the stored images all have a size; where only decoding tells, whether the first has."""
  if not len(indices):
    return False
  sizes = source.sizes(indices.tolist())
  if sizes is None:
    return _first_size(source, indices) == size
  return all(stored == size for stored in sizes)


def common_size(source: Source, settings: DataSettings, indices: np.ndarray) -> Size:
  """Returns the size at which every image is delivered, as far as it is known without decoding.

  Where sizes are known only by decoding, the first image decides and the others are checked when
  they are read.

  Args:
    source: holds the images.
    settings: gives `resize` and `crop`.
    indices: which examples are read.

  Returns:
    Height and width, pixels.

  Raises:
    InputError: an image comes out at another size, or is smaller than the crop.
  """
  if settings.resize and settings.crop:
    return settings.crop, settings.crop
  numbers = indices.tolist()
  sizes = source.sizes(numbers)
  if sizes is None:
    sizes = [_first_size(source, indices)]
  results = [
    delivered(source, settings, index, size) for index, size in zip(numbers, sizes, strict=False)
  ]
  for index, result in zip(numbers, results, strict=False):
    if result != results[0]:
      raise another_size(source, index, result, results[0])
  return results[0]


def delivered(source: Source, settings: DataSettings, index: int, size: Size) -> Size:
  """Returns the size at which an image of a size is delivered.

  Raises:
    InputError: it is smaller than the crop.
  """
  result = output_size(size, settings)
  if result is None:
    raise InputError(
      f'{source.where(index)} is {size[0]}x{size[1]} pixels, smaller than '
      f'config.data.crop = {settings.crop}: set config.data.resize to at least the '
      'crop.'
    )
  return result


def another_size(source: Source, index: int, size: Size, expected: Size) -> InputError:
  """Returns the error that names an example of another size than the others."""
  return InputError(
    f'{source.where(index)} comes out as {size[0]}x{size[1]} pixels, where '
    f'others come out as {expected[0]}x{expected[1]}: {_ONE_SIZE}.'
  )


def _first_size(source: Source, indices: np.ndarray) -> Size:
  """Returns the size of the first example, which is decoded for it."""
  from input_pipeline.inspection import decoded_size  # decodes with TensorFlow

  return decoded_size(source, next(iter(source.store.elements(indices[:1]))))
