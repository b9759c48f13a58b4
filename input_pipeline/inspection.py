"""If a batch fails: which image was it, and why?"""

from __future__ import annotations

import tensorflow as tf

from input_pipeline.images import Source
from input_pipeline.settings import DataSettings
from input_pipeline.sizes import Size, another_size, delivered
from robustness.core.errors import InputError


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
      result = delivered(source, settings, index, decoded_size(source, element))
      if result != expected:
        return another_size(source, index, result, expected)
  except InputError as refused:
    return refused
  except tf.errors.OpError as unreadable:
    error = unreadable
  return InputError(f'{source.title} cannot be read: {error.message}')


def decoded_size(source: Source, element: dict[str, tf.Tensor]) -> Size:
  """Returns height and width of an element, pixels.

  Raises:
    InputError: it cannot be decoded.
  """
  try:
    height, width = source.decoded(element['stored'])['image'].shape[:2]
  except (tf.errors.OpError, InputError) as error:
    where = source.where(int(element['example_id']))
    raise InputError(f'{where} cannot be decoded: {error}') from error
  return int(height), int(width)
