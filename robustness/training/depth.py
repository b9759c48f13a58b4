"""The depth of a network's layers, on which learning rates may depend.

Layer 0 has the stem or the embedding, the layers 1 to L have one block each, and layer L + 1 has
the head. What precedes the blocks of a stage is in the layer of its first block.
"""

import re
from typing import Any

from flax.traverse_util import flatten_dict, path_aware_map

from robustness.core.typing import PyTree

FIRST = ('stem', 'patches', 'embedding', 'pre_norm')
"""The names of the layers before the blocks."""


def _block(path: tuple[Any, ...]) -> tuple[int, int] | None:
  """Returns the numbers of stage and block in a path, 0 for a missing one, or None without both."""
  found = dict(re.findall(r'(stage|block)(\d+)(?:/|$)', '/'.join(path)))
  return (int(found.get('stage', 0)), int(found.get('block', 0))) if found else None


def is_in_block(params: PyTree) -> PyTree:
  """Returns which parameters are of a stage or a block, a tree of bools."""
  return path_aware_map(lambda path, _: _block(path) is not None, params)


def layers(params: PyTree) -> PyTree:
  """Returns the layer of each parameter, a tree of ints from 0 to L + 1, grouped as in timm.

  The norm after the blocks is in layer L in networks with attention, and with the head in ConvNeXt.
  The last convolution of an EfficientNet is in layer L.
  """
  blocks = {path: _block(path) for path in flatten_dict(params)}
  order = sorted({block for block in blocks.values() if block})
  closing = ('top', 'norm') if any('attention' in path for path in blocks) else ('top',)

  def layer(path: tuple[Any, ...], _: Any) -> int:
    block = blocks[path]
    if block:
      return 1 + order.index(block)
    return 0 if path[0] in FIRST else len(order) + (path[0] not in closing)

  return path_aware_map(layer, params)


def rate_factors(params: PyTree, decay: float) -> PyTree:
  """Returns decay^(L + 1 − layer) for each parameter, a tree of floats."""
  numbers = layers(params)
  last = max(flatten_dict(numbers).values())
  return path_aware_map(lambda _, layer: decay ** (last - layer), numbers)
