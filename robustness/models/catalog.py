"""Finds architectures by name: those that the files of `FAMILIES` declare, and a user's own."""

import importlib
import re
from collections.abc import Mapping

from robustness.core.errors import InputError, nearest
from robustness.core.user_code import is_reference, load
from robustness.models import small_images
from robustness.models.architecture import Architecture, Weights

FAMILIES = (
  *('small_images', 'airbench', 'efficientnet', 'resnet', 'bit_resnet', 'squeezenet', 'vgg'),
  *('convnext', 'swin', 'vit', 'self_supervised', 'clip'),
)
"""The modules of this package that declare `ARCHITECTURES`, in the order of lists."""

ARCHITECTURES: Mapping[str, Architecture] = {
  architecture.name: architecture
  for family in FAMILIES
  for architecture in importlib.import_module(f'robustness.models.{family}').ARCHITECTURES
}
"""The architectures of this project by name."""

WEIGHTS: Mapping[str, Weights] = {
  weights.name: weights for network in ARCHITECTURES.values() for weights in network.weights
}
"""Published weights by name."""


def find(name: str) -> Architecture | None:
  """Returns the architecture with a name, or None if there is none.

  Args:
    name: such as 'resnet50', a Wide ResNet of any size such as 'wide_resnet_40_2', or
      `FILE.py:NAME` for an architecture in a user's file.

  Raises:
    InputError: the user's file cannot be used, see `load`.
  """
  if is_reference(name):
    value = load(name, 'config.classifier.name').value
    return value if isinstance(value, Architecture) else None
  wide = re.fullmatch(r'wide_resnet_(\d+)_(\d+)', name)
  if wide and name not in ARCHITECTURES:
    return small_images.wide_resnet(int(wide[1]), int(wide[2]))
  return ARCHITECTURES.get(name)


def get(name: str) -> Architecture:
  """Returns the architecture with a name.

  Raises:
    InputError: there is none; the message has the nearest names.
  """
  architecture = find(name)
  if architecture is None:
    raise InputError(
      f'unknown architecture {name!r}: {nearest(name, ARCHITECTURES)}; see `robustness list '
      'classifiers`. Yours is named FILE.py:NAME (docs/your_model.md).'
    )
  return architecture


def file_facts(name: str) -> dict[str, str]:
  """Returns the user's Python file that defines an architecture, and the digest of the file.

  Args:
    name: name of the architecture.

  Returns:
    {'file': name, 'file_sha256': digest} for a name `FILE.py:NAME`, otherwise {}.
  """
  return load(name, 'config.classifier.name').facts if is_reference(name) else {}


def of_timm_name(name: str) -> str:
  """Returns this project's name of an architecture, given timm's name; '' if there is none."""
  networks = ARCHITECTURES.values()
  return next((x.name for x in networks if x.timm and re.fullmatch(x.timm, name)), '')
