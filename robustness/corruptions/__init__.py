"""The common corruptions of images, as pure functions that JAX compiles.

They are the 19 of ImageNet-C and CIFAR-10-C, the 15 of ImageNet-C-bar and CIFAR-10-C-bar, and the
six of LAION-C. `corrupt` takes images or batches, `corrupt_each` a batch with one corruption per
image, and `apply` one image inside a compiled step (docs/corruptions.md). `NAMES` is the official
order of the 19, `C_BAR` holds the 15, and `SETS` the sets that papers average over. Functions are
imported on first use, so that reading the names does not import JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustness.core import lazy
from robustness.corruptions.names import C_BAR, NAMES, SETS, SEVERITIES

if TYPE_CHECKING:
  from robustness.corruptions.catalog import TABLES, apply, corrupt, corrupt_each, table_for

__all__ = ['C_BAR', 'NAMES', 'SETS', 'SEVERITIES']
__all__ += ['TABLES', 'apply', 'corrupt', 'corrupt_each', 'table_for']
_IN_CATALOG = [name for name in __all__ if name not in globals()]
__getattr__ = lazy.attributes(__name__, dict.fromkeys(_IN_CATALOG, 'catalog'))
