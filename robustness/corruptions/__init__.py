"""The 19 common corruptions of ImageNet-C and CIFAR-10-C, the 15 of ImageNet-C-bar and
CIFAR-10-C-bar and the six of LAION-C, as pure functions on the device.

`corrupt` takes images or batches, `corrupt_each` a batch in which every image has its corruption,
and `apply` one image inside a compiled step. docs/corruptions.md shows their use. `NAMES` is the
official order of the 19, `C_BAR` are the 15, `SETS` what papers average over. All but the names
are imported when they are used, so that the names cost no import of JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from robustness.corruptions.names import C_BAR, NAMES, SETS, SEVERITIES

if TYPE_CHECKING:
  from robustness.corruptions.catalog import TABLES, apply, corrupt, corrupt_each, table_for

__all__ = [
  'C_BAR',
  'NAMES',
  'SETS',
  'SEVERITIES',
  'TABLES',
  'apply',
  'corrupt',
  'corrupt_each',
  'table_for',
]


def __getattr__(name: str) -> object:
  if name not in __all__:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return vars(importlib.import_module(f'{__name__}.catalog'))[name]
