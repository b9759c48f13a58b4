"""Which architectures there are: those that the files of `FAMILIES` declare, and a user's own."""

import importlib
import re
from collections.abc import Mapping
from types import MappingProxyType

from robustness.core import registry
from robustness.core.errors import InputError, nearest
from robustness.models import small_images
from robustness.models.architecture import Architecture, Weights

FAMILIES = (
  'small_images',
  'airbench',
  'efficientnet',
  'resnet',
  'bit_resnet',
  'squeezenet',
  'vgg',
  'convnext',
  'swin',
  'vit',
  'self_supervised',
  'clip',
)
"""The modules beside this one that declare `ARCHITECTURES`, in the order of lists."""

ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
  {
    architecture.name: architecture
    for family in FAMILIES
    for architecture in importlib.import_module(f'robustness.models.{family}').ARCHITECTURES
  }
)

WEIGHTS: Mapping[str, Weights] = MappingProxyType(
  {weights.name: weights for entry in ARCHITECTURES.values() for weights in entry.weights}
)
"""Published weights by name."""


def find(name: str) -> Architecture | None:
  """Returns the architecture called `name`, such as a Wide ResNet of any size, or the one that
  `FILE.py:NAME` holds; None if none. For what is raised of a file see `registry.load`."""
  if registry.is_reference(name):
    value = registry.load(name, 'config.classifier.name').value
    return value if isinstance(value, Architecture) else None
  wide = re.fullmatch(r'wide_resnet_(\d+)_(\d+)', name)
  if wide and name not in ARCHITECTURES:
    return small_images.wide_resnet(int(wide[1]), int(wide[2]))
  return ARCHITECTURES.get(name)


def get(name: str) -> Architecture:
  """Returns what `find` does; if there is none, the InputError lists all and the nearest."""
  found = find(name)
  if found is None:
    raise InputError(
      f'unknown architecture {name!r}: {nearest(name, ARCHITECTURES)}; yours is named FILE.py:NAME '
      '(docs/your_model.md).'
    )
  return found


def file_facts(name: str) -> dict[str, str]:
  """Returns the file of an architecture that `FILE.py:NAME` holds and its SHA-256; else {}."""
  if not registry.is_reference(name):
    return {}
  found = registry.load(name, 'config.classifier.name')
  return {'file': found.path.name, 'file_sha256': found.digest}


def of_timm_name(name: str) -> str:
  """Returns what this project calls one of timm's architectures; '' if it has none such."""
  entries = ARCHITECTURES.values()
  return next((e.name for e in entries if e.timm and re.fullmatch(e.timm, name)), '')
