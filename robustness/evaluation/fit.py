"""Checks that images and labels fit a classifier, and resizes images to its input shape."""

import jax
import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.rows import Batch, Rows, have_repeated_labels
from robustness.evaluation.views import Views
from robustness.models.classifier import Classifier


def check_fit(classifier: Classifier, rows: Rows, views: Views) -> None:
  """Raises InputError if a classifier cannot take the images or the classes of the data.

  Height, width and channels must be equal. If the views make images of another size
  (`views.image_shape`), these are resized later and only the channels must be equal. The data may
  not have more classes than the classifier. The message states both values and, for images, the
  fix.
  """
  shape = views.image_shape or rows.image_shape
  height, width, channels = classifier.input_shape
  fix = ''  # stays '' if the images fit
  if shape[2] != channels:
    fix = f'give images of {channels} channels, or a classifier of {shape[2]}.'
  elif not views.image_shape and tuple(shape[:2]) != (height, width):
    # the format ':--' writes a key as a flag, '--config.data.resize'
    keys = f'{KEYS.data.resize:--}={height} {KEYS.data.crop:--}={height}'
    fix = f'resize the shorter side and crop: {keys}.'
    if height != width:
      fix = f'images are cropped to squares only: give images of {height} × {width}.'
  if fix:
    raise InputError(
      f'{classifier.name} takes images of {" × ".join(map(str, classifier.input_shape))} '
      f'(height × width × channels); the data have {" × ".join(map(str, shape))}: {fix}'
    )
  if rows.class_names and len(rows.class_names) > classifier.num_classes:
    raise InputError(
      f'the data have {len(rows.class_names)} classes, {classifier.name} has '
      f'{classifier.num_classes}.'
    )


def check_images(batch: Batch) -> None:
  """Raises InputError if a float image has values outside [0, 1] or NaN.

  The message states the id of the image. Images of 8 bits are valid. Padding is not checked.
  """
  if batch['image'].dtype == np.uint8:
    return
  images = batch['image'][batch['mask']]
  lowest, highest = images.min((1, 2, 3)), images.max((1, 2, 3))
  is_invalid = ~((lowest >= 0) & (highest <= 1))  # comparisons with NaN are False
  if is_invalid.any():
    row = int(is_invalid.argmax())
    raise InputError(
      f'example {batch["example_id"][row]} has values in [{lowest[row]:.9g}, {highest[row]:.9g}]; '
      'images lie in [0, 1]: divide 8-bit ones by 255.'
    )


def check_labels(batch: Batch, classifier: Classifier) -> None:
  """Raises InputError if an image has a label that the classifier does not have.

  Every image needs at least one label in [0, classes) and has each label once. Labels are int [B],
  or int [B, L] padded with -1. The message states the id of the image.
  """
  labels = batch['label'].reshape(len(batch['label']), -1)  # [B, L]
  is_padding = labels < 0 if batch['label'].ndim == 2 else np.zeros_like(labels, bool)
  is_outside = ((labels >= classifier.num_classes) | (labels < 0)) & ~is_padding
  # [B]: a label outside the classes, no label at all, or a label twice, as in most one-hot rows
  is_bad = is_outside.any(1) | is_padding.all(1) | have_repeated_labels(labels)
  is_bad &= batch['mask']  # rows of padding are not checked
  if is_bad.any():
    row = int(np.argmax(is_bad))
    raise InputError(
      f'example {batch["example_id"][row]} has label {batch["label"][row]}; '
      f'{classifier.name} has classes 0..{classifier.num_classes - 1}, of which an image has each '
      'once, and its labels are no one-hot rows.'
    )


def resize_to_input(images: jax.Array, shape: tuple[int, int, int]) -> jax.Array:
  """Returns images [B, H, W, C] in a classifier's input shape (height, width, channels).

  Images are scaled until they cover the shape (linear, antialiased, sides rounded), and their
  centre is cropped. Images that have the height and width of `shape` are unchanged.
  """
  num_images, height, width, channels = images.shape
  new_height, new_width, _ = shape
  if (height, width) == (new_height, new_width):
    return images
  scale = max(new_height / height, new_width / width)
  sides = max(new_height, round(height * scale)), max(new_width, round(width * scale))
  images = jax.image.resize(images, (num_images, *sides, channels), 'linear', antialias=True)
  y, x = (sides[0] - new_height) // 2, (sides[1] - new_width) // 2
  return images[:, y : y + new_height, x : x + new_width]
