"""A classifier with MAITE's protocol `Model`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.api import as_classifier
from robustness.core import user_data
from robustness.core.rows import as_float32
from robustness.models.classifier import Classifier
from robustness.models.model import Model


@dataclasses.dataclass
class MaiteModel:
  """A classifier that MAITE accepts as a model (its protocol `Model`).

  Attributes:
    model: any model that `robustness.measure` takes.
    metadata: {'id': name of the model} and, if class names are known, 'index2label', {class number:
      name}.
  """

  model: Any
  metadata: Mapping[str, Any]

  def __call__(self, batch: Sequence[Any], /) -> list[np.ndarray]:
    """Returns the logits of images, float32 (classes,) for each.

    Raises:
      InputError: images are not (C, H, W), differ in size, or are not in [0, 1].
    """
    images = as_float32(user_data.stacked_images(batch)).astype(np.float32)  # [B, H, W, C]
    # the first call makes a classifier of the model, which later calls use
    self.model = as_classifier(self.model, images, class_names=())
    return [*self.model.predict(images)]


def as_maite_model(model: Any) -> MaiteModel:
  """Returns a classifier as a model for MAITE (its protocol `Model`).

  Args:
    model: any model that `robustness.measure` takes, such as a network of PyTorch.
  """
  model = model if isinstance(model, Classifier | Model) else Model(model)
  metadata: dict[str, Any] = {'id': model.name or model.label}
  if model.class_names:
    metadata['index2label'] = dict(enumerate(model.class_names))
  return MaiteModel(model, metadata)
