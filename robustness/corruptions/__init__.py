"""The 19 common corruptions of ImageNet-C and CIFAR-10-C as pure functions on the device.

`corrupt` takes images or batches and checks them; `apply` is for one image inside a compiled step.
`NAMES` is the official order, `SETS` what papers average over.
"""

from robustness.corruptions.catalog import apply, corrupt
from robustness.corruptions.names import NAMES, SETS, SEVERITIES
from robustness.corruptions.severities import TABLES, table_for

__all__ = ['NAMES', 'SETS', 'SEVERITIES', 'TABLES', 'apply', 'corrupt', 'table_for']
