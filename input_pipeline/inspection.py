"""Are all images of one size, and if a batch fails: which image was it, and why?"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from input_pipeline.geometry import Size, output_size
from input_pipeline.settings import DataSettings
from input_pipeline.sources.source import Source
from robustness.core.errors import InputError

_ONE_SIZE = (
  'bring all images to one size, for example with --config.data.resize=256 --config.data.crop=224'
)


def are_of_size(source: Source, indices: np.ndarray, size: Size) -> bool:
  """Whether the stored images all have a size; where only decoding tells, whether the first has."""
  if not len(indices):
    return False
  sizes = source.sizes(indices.tolist())
  if sizes is None:
    return _decoded_size(source, next(iter(source.store.elements(indices[:1])))) == size
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
    sizes = [_decoded_size(source, next(iter(source.store.elements(indices[:1]))))]
  results = [
    _delivered(source, settings, index, size) for index, size in zip(numbers, sizes, strict=False)
  ]
  for index, result in zip(numbers, results, strict=False):
    if result != results[0]:
      raise _another_size(source, index, result, results[0])
  return results[0]


def culprit(
  source: Source,
  settings: DataSettings,
  elements: tf.data.Dataset,
  expected: Size,
  error: tf.errors.OpError,
) -> InputError:
  """Finds which element made a batch fail.

  Args:
    source: holds the images.
    settings: gives `resize` and `crop`.
    elements: the elements of the batch, not decoded yet.
    expected: height and width at which images are delivered.
    error: what tf.data said.

  Returns:
    An error that names the example and what is wrong with it.
  """
  try:
    for element in elements:
      index = int(element['example_id'])
      result = _delivered(source, settings, index, _decoded_size(source, element))
      if result != expected:
        return _another_size(source, index, result, expected)
  except InputError as refused:
    return refused
  except tf.errors.OpError as unreadable:
    error = unreadable
  return InputError(f'{source.title} cannot be read: {error.message}')


def _decoded_size(source: Source, element: dict[str, tf.Tensor]) -> Size:
  try:
    height, width = source.decoded(element['stored'])['image'].shape[:2]
  except (tf.errors.OpError, InputError) as error:
    where = source.where(int(element['example_id']))
    raise InputError(f'{where} cannot be decoded: {error}') from error
  return int(height), int(width)


def _delivered(source: Source, settings: DataSettings, index: int, size: Size) -> Size:
  result = output_size(size, settings)
  if result is None:
    raise InputError(
      f'{source.where(index)} is {size[0]}x{size[1]} pixels, smaller than '
      f'config.data.crop = {settings.crop}: set config.data.resize to at least the '
      'crop.'
    )
  return result


def _another_size(source: Source, index: int, size: Size, expected: Size) -> InputError:
  return InputError(
    f'{source.where(index)} comes out as {size[0]}x{size[1]} pixels, where '
    f'others come out as {expected[0]}x{expected[1]}: {_ONE_SIZE}.'
  )
