"""Wide residual networks: pre-activation blocks, widened k times.

A block normalises and rectifies before each convolution. Where the width changes, the shortcut
is a 1×1 convolution of the rectified input; elsewhere it is the input itself.

Reference: Zagoruyko and Komodakis, Wide Residual Networks, section 2 and table 1 (no dropout).
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.models.layers import LinearHead, NormRelu, convolution
from robustness.models.naming import Scheme, pytorch

STEM_FEATURES = 16


class Block(nn.Module):
  """Norm, ReLU and 3×3 convolution, twice, added to the shortcut; the sum is not rectified."""

  features: int
  stride: int = 1
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    active = NormRelu(self.dtype, self.axis_name, name='norm1')(x, train)
    y = convolution(self.features, 3, self.stride, dtype=self.dtype, name='conv1')(active)
    y = NormRelu(self.dtype, self.axis_name, name='norm2')(y, train)
    y = convolution(self.features, 3, dtype=self.dtype, name='conv2')(y)
    if x.shape[-1] != self.features:
      x = convolution(self.features, 1, self.stride, dtype=self.dtype, name='shortcut')(active)
    return x + y


class Stage(nn.Module):
  """Blocks of one width; the first one may halve the image."""

  features: int
  num_blocks: int
  stride: int = 1
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    for index in range(self.num_blocks):
      stride = self.stride if index == 0 else 1
      block = Block(self.features, stride, self.dtype, self.axis_name, name=f'block{index}')
      x = block(x, train)
    return x


class WideResNet(nn.Module):
  """A wide residual network for small images.

  Layers: `stem` (the first convolution alone), `stage1` to `stage3` (sums before the next norm,
  as pre-activation has it), in them `block0`, `block1`, ..., then `final` (the last norm and
  ReLU) and `head`.

  Attributes:
    num_classes: number of logits.
    depth: 6n + 4 weighted layers, n blocks a stage.
    width: k, which widens the stages to 16k, 32k and 64k channels; at least 2.
    dtype: what is computed in; parameters, statistics and logits are float32.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  num_classes: int
  depth: int = 28
  width: int = 10
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    Args:
      x: images after the architecture's own normalisation, of any height and width.
      train: True uses batch statistics and updates the collection `batch_stats`.

    Raises:
      InputError: the depth is not 6n + 4, or the width is below 2.
    """
    num_blocks = blocks_per_stage(self.depth, self.width)
    common = {'dtype': self.dtype, 'axis_name': self.axis_name}
    x = convolution(STEM_FEATURES, 3, dtype=self.dtype, name='stem')(x.astype(self.dtype))
    for index in range(3):
      features = STEM_FEATURES * self.width * 2**index
      stride = 1 if index == 0 else 2
      x = Stage(features, num_blocks, stride, **common, name=f'stage{index + 1}')(x, train)
    x = NormRelu(**common, name='final')(x, train)
    return LinearHead(self.num_classes, name='head')(x)


def blocks_per_stage(depth: int, width: int) -> int:
  """Returns n of depth = 6n + 4.

  Raises:
    InputError: there is no such n ≥ 1, or the width is below 2.
  """
  if depth < 10 or depth % 6 != 4:
    raise InputError(
      f'depth {depth} is no Wide ResNet: the depth is 6n + 4, for example 16, 28 or 40'
    )
  if width < 2:
    raise InputError(f'width {width} is no Wide ResNet: the widening factor is 2 or more')
  return (depth - 4) // 6


def build(num_classes: int, dtype: Any, axis_name: str | None, depth: int, width: int) -> nn.Module:
  """Returns the network of `depth` layers widened `width` times; see `WideResNet`."""
  blocks_per_stage(depth, width)
  return WideResNet(num_classes, depth, width, dtype, axis_name)


def schemes(depth: int, width: int) -> tuple[Scheme, ...]:
  """Returns how PyTorch state dicts name the layers; the same for every size."""
  del depth, width
  return (pytorch('xternalz/WideResNet-pytorch', _pytorch_layer),)


def _pytorch_layer(path: tuple[str, ...]) -> str:
  """Returns what PyTorch state dicts call the layer at `path`, as `block1.layer.0.convShortcut`."""
  outside = {'stem': 'conv1', 'final': 'bn1', 'head': 'fc'}
  if path[0] in outside:
    return outside[path[0]]
  stage, block, layer = path[:3]
  inside = {'norm1': 'bn1', 'norm2': 'bn2', 'shortcut': 'convShortcut'}.get(layer, layer)
  return f'block{stage.removeprefix("stage")}.layer.{block.removeprefix("block")}.{inside}'
