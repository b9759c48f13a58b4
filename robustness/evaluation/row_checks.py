"""Do rows fit a classifier? Shapes and classes before a run, values and labels as they are read."""

from __future__ import annotations

import numpy as np

from robustness.core.errors import InputError
from robustness.core.rows import Batch, Rows, have_one_twice
from robustness.evaluation.views import Views
from robustness.models.classifier import Classifier


def check_fit(classifier: Classifier, rows: Rows, views: Views) -> None:
  """Refuses rows whose images are not of the classifier's shape, or with more classes than it has.

  Where views show images of a shape of their own, only their channels must fit.

  Raises:
    InputError: names both shapes or counts and the fix.
  """
  shown = views.image_shape or rows.image_shape
  free = 2 if views.image_shape else 0
  if tuple(shown[free:]) != tuple(classifier.input_shape[free:]):
    want, have = (' × '.join(map(str, s)) for s in (classifier.input_shape, shown))
    raise InputError(
      f'{classifier.name} takes images of {want} (height × width × channels); the '
      f'data have {have}. Resize or crop: --config.data.resize=SHORTER_SIDE '
      '--config.data.crop=SIDE.'
    )
  if rows.class_names and len(rows.class_names) > classifier.num_classes:
    raise InputError(
      f'the data have {len(rows.class_names)} classes, {classifier.name} has '
      f'{classifier.num_classes}.'
    )


def check_images(batch: Batch) -> None:
  """Refuses images outside [0, 1]; names the example. Images of 8 bits always lie there."""
  if batch['image'].dtype == np.uint8:
    return
  images = batch['image'][batch['mask']]
  if not (images.min() >= 0 and images.max() <= 1):
    row = int(np.argmax([not (image.min() >= 0 and image.max() <= 1) for image in images]))
    raise InputError(
      f'example {batch["example_id"][row]} has values in [{images[row].min():g}, '
      f'{images[row].max():g}]; images lie in [0, 1]: divide 8-bit ones by 255.'
    )


def check_labels(batch: Batch, classifier: Classifier) -> None:
  """Refuses labels outside the classes, and an image with one twice; names the example."""
  labels = batch['label'].reshape(len(batch['label']), -1)
  padding = labels < 0 if batch['label'].ndim == 2 else np.zeros_like(labels, bool)
  bad = batch['mask'] & (
    ((labels >= classifier.num_classes) | (labels < 0)) & ~padding | padding.all(1, keepdims=True)
  ).any(1)
  bad |= batch['mask'] & have_one_twice(labels)
  if bad.any():
    row = int(np.argmax(bad))
    raise InputError(
      f'example {batch["example_id"][row]} has label {batch["label"][row]}; '
      f'{classifier.name} has classes 0..{classifier.num_classes - 1}, of which an image has each '
      'once, and its labels are no one-hot rows.'
    )
