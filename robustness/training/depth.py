"""The depth of a network's layers, on which learning rates and stochastic depth may depend.

Layer 0 has the stem or the embedding, the layers 1 to L have one block each, and layer L + 1 has
the head. What precedes the blocks of a stage is in the layer of its first block.
"""

import re
from typing import Any

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, path_aware_map, unflatten_dict

from robustness.core.typing import PyTree, Variables
from robustness.models.layers import DROP_PATH
from robustness.training.auxiliary_norms import AUXILIARY, without_second_norms

BEFORE_BLOCKS = ('stem', 'patches', 'embedding', 'pre_norm')
"""The names of the layers before the blocks."""


def _block(path: tuple[Any, ...]) -> tuple[int, int] | None:
  """Parses the stage and block number from the path of a parameter.

  For a path with 'stage2' and 'block3' the result is (2, 3). A missing number is 0. Without both,
  the result is None.
  """
  numbers = dict(re.findall(r'\b(stage|block)(\d+)\b', '/'.join(path)))
  return (int(numbers.get('stage', 0)), int(numbers.get('block', 0))) if numbers else None


def is_in_block(params: PyTree) -> PyTree:
  """Returns a tree like `params`, True for parameters of a residual stage or block."""
  return path_aware_map(lambda path, _: _block(path) is not None, params)


def layer_numbers(params: PyTree) -> PyTree:
  """Returns the depth of each parameter's layer, a tree of ints like `params`.

  The stem is layer 0, the L residual blocks are layers 1 to L, and the head is layer L + 1, as in
  timm. The norm after the blocks is in layer L in networks with attention, and in layer L + 1 in
  ConvNeXt. timm has it in layer L + 1 in EVA-02 too, where it follows the pooling. The last
  convolution of an EfficientNet is in layer L.
  """
  blocks = {path: _block(path) for path in flatten_dict(params)}
  order = sorted({block for block in blocks.values() if block})  # (stage, block) of the L blocks
  has_attention = any('attention' in path for path in blocks)
  in_last_block = ('top', 'norm') if has_attention else ('top',)

  def layer(path: tuple[Any, ...], _: Any) -> int:
    """Returns the depth of the layer of one parameter, for a `tree_map` over all parameters.

    `blocks` has the residual block of each parameter, or None for a parameter outside of blocks,
    and `order` all blocks from input to output.

    Args:
      path: path of the parameter in the tree.
      _: the parameter, not used.
    """
    block = blocks[path]
    if block is not None:
      return 1 + order.index(block)
    # parameters of the second set of norms have the path (AUXILIARY, *path in the network)
    name = path[1] if path[0] == AUXILIARY else path[0]
    if name in BEFORE_BLOCKS:
      return 0
    last_block = len(order)
    return last_block if name in in_last_block else last_block + 1

  return path_aware_map(layer, params)


def rate_factors(params: PyTree, decay: float) -> PyTree:
  """Returns the factor on each parameter's learning rate for layer-wise decay.

  The result is a tree of floats like `params`, decay^(M − m) in layer m. The last layer M is the
  head; see `layer_numbers`.
  """
  numbers = layer_numbers(params)
  last = max(flatten_dict(numbers).values())
  return path_aware_map(lambda _, layer: decay ** (last - layer), numbers)


def drop_factors(params: PyTree, rate: float, keys: jax.Array, rises: bool = True) -> Variables:
  """Draws the factors of stochastic depth, which multiply the branches of residual blocks.

  In block i of n, from 0, a sample's branch is dropped (factor 0) with probability p = rate·i / (n
  − 1). Otherwise its factor is 1 / (1 − p). A block has up to two branches, such as attention and
  MLP, with independent draws.

  Args:
    params: parameters of the network.
    rate: probability of dropping in the last block, in [0, 1).
    keys: random keys of the samples, of any shape [...], such as [B].
    rises: whether p rises linearly over blocks; if False, p = rate in all blocks.

  Returns:
    {DROP_PATH: tree}, with an array `factors` [..., 2] at the path of each block.

  Reference:
    Huang et al. (2016), Deep Networks with Stochastic Depth, section 3. They multiply by 1 − p in
    evaluations. Liu et al. (2022) divide by it in training instead, as is done here.
  """
  params = without_second_norms({'params': params})['params']  # without norms of auxiliary images
  paths = set()  # of all modules: the beginnings of the parameters' paths
  for path in flatten_dict(params):
    paths |= {path[:end] for end in range(1, len(path) + 1)}
  blocks = [path for path in paths if path[-1].startswith('block')]
  blocks.sort(key=lambda path: _block(path) or ())  # by stage and block, as in the network
  shares_of_rate = jnp.linspace(0 if rises else 1, 1, len(blocks))  # p / rate, [n]
  keep = 1 - rate * shares_of_rate[:, None]  # 1 − p, [n, 1]

  def draw(key: jax.Array) -> jax.Array:
    """Draws the factors of one sample for n blocks with two branches each, [n, 2]."""
    return jax.random.bernoulli(key, keep, (len(blocks), 2)) / keep

  by_sample = jax.vmap(draw)(keys.ravel()).reshape(*keys.shape, len(blocks), 2)
  by_block = jnp.moveaxis(by_sample, -2, 0)  # [n, ..., 2]
  tree = {(*path, 'factors'): factors for path, factors in zip(blocks, by_block, strict=True)}
  return {DROP_PATH: unflatten_dict(tree)}
