"""The 19 common corruptions of ImageNet-C and CIFAR-10-C, and the 15 of ImageNet-C-bar and
CIFAR-10-C-bar, as pure functions on the device.

`corrupt` takes images or batches, `corrupt_each` a batch in which every image has a corruption of
its own; `apply` is for one image inside a compiled step. docs/corruptions.md shows their use.
`NAMES` is the official order of the 19, `C_BAR` are the 15, `SETS` what papers average over. Names
are imported when they are asked for, so that the tables of names cost no import of JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from robustness.corruptions.catalog import apply, corrupt, corrupt_each
  from robustness.corruptions.names import C_BAR, NAMES, SETS, SEVERITIES
  from robustness.corruptions.severities import TABLES, table_for

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

_MODULES = {
  'apply': 'catalog',
  'corrupt': 'catalog',
  'corrupt_each': 'catalog',
  'C_BAR': 'names',
  'NAMES': 'names',
  'SETS': 'names',
  'SEVERITIES': 'names',
  'TABLES': 'severities',
  'table_for': 'severities',
}


def __getattr__(name: str) -> Any:
  if name not in _MODULES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return getattr(importlib.import_module(f'{__name__}.{_MODULES[name]}'), name)
