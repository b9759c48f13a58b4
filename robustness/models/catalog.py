"""Finds architectures by name: those that the files of `FAMILIES` declare, and a user's own."""

import importlib
import re
from collections.abc import Mapping
from types import MappingProxyType

from robustness.core import registry
from robustness.core.errors import InputError, nearest
from robustness.models import small_images
from robustness.models.architecture import Architecture, Weights

FAMILIES = (
  *('small_images', 'airbench', 'efficientnet', 'resnet', 'bit_resnet', 'squeezenet', 'vgg'),
  *('convnext', 'swin', 'vit', 'self_supervised', 'clip'),
)
"""The modules of this package that declare `ARCHITECTURES`, in the order of lists."""

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
  {
    architecture.name: architecture
    for family in FAMILIES
    for architecture in importlib.import_module(f'robustness.models.{family}').ARCHITECTURES
  }
)
"""The architectures of this project by name."""

WEIGHTS: Mapping[str, Weights] = MappingProxyType(
  {weights.name: weights for network in ARCHITECTURES.values() for weights in network.weights}
)
"""Published weights by name."""


def find(name: str) -> Architecture | None:
  """Returns the architecture of a name, or None if there is none.

  The name may also be a Wide ResNet of any size, or `FILE.py:NAME` for an architecture in a file of
  the user; for the errors of the latter see `registry.load`.
  """
  if registry.is_reference(name):
    value = registry.load(name, 'config.classifier.name').value
    return value if isinstance(value, Architecture) else None
  wide = re.fullmatch(r'wide_resnet_(\d+)_(\d+)', name)
  if wide and name not in ARCHITECTURES:
    return small_images.wide_resnet(int(wide[1]), int(wide[2]))
  return ARCHITECTURES.get(name)


def get(name: str) -> Architecture:
  """Returns the architecture of a name; raises InputError with the nearest names if none."""
  architecture = find(name)
  if architecture is None:
    raise InputError(
      f'unknown architecture {name!r}: {nearest(name, ARCHITECTURES)}; see `robustness list '
      'classifiers`. Yours is named FILE.py:NAME (docs/your_model.md).'
    )
  return architecture


def file_facts(name: str) -> dict[str, str]:
  """Returns {'file': name, 'file_sha256': digest} for an architecture `FILE.py:NAME`, or {}."""
  is_in_file = registry.is_reference(name)
  return registry.load(name, 'config.classifier.name').facts if is_in_file else {}


def of_timm_name(name: str) -> str:
  """Returns this project's name of timm's architecture `name`; '' if the project lacks it."""
  networks = ARCHITECTURES.values()
  return next((x.name for x in networks if x.timm and re.fullmatch(x.timm, name)), '')
