"""The residual networks of depth 6n + 2 for 32×32 images, with parameter-free shortcuts.

Where a stage halves the image, the shortcut takes every second pixel and adds zero channels,
half of them before and half after those that are there.

Reference: He et al., Deep Residual Learning for Image Recognition, section 4.2 (option A).
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.models.layers import ConvNormRelu, LinearHead, batch_norm, convolution
from robustness.models.naming import Scheme, pytorch

WIDTHS = (16, 32, 64)


def shortcut(x: jax.Array, features: int, stride: int) -> jax.Array:
  """Returns every `stride`-th pixel of `x` [B, H, W, C], zero-padded to `features` channels."""
  missing = features - x.shape[-1]
  before = missing // 2
  x = x[:, ::stride, ::stride]
  return jnp.pad(x, ((0, 0), (0, 0), (0, 0), (before, missing - before)))


class Block(nn.Module):
  """Two 3×3 convolutions with batch norm, added to the shortcut; ReLU comes last."""

  features: int
  stride: int = 1
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    norm = {'dtype': self.dtype, 'axis_name': self.axis_name}
    y = convolution(self.features, 3, self.stride, dtype=self.dtype, name='conv1')(x)
    y = nn.relu(batch_norm(train, **norm, name='bn1')(y))
    y = convolution(self.features, 3, dtype=self.dtype, name='conv2')(y)
    y = batch_norm(train, **norm, name='bn2')(y)
    if self.stride != 1 or x.shape[-1] != self.features:
      x = shortcut(x, self.features, self.stride)
    return nn.relu(x + y)


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


class CifarResNet(nn.Module):
  """A residual network for small images.

  Layers: `stem`, `stage1` to `stage3` (each after its last ReLU), in them `block0`, `block1`, ...,
  and `head`.

  Attributes:
    num_classes: number of logits.
    depth: 6n + 2 weighted layers, n blocks a stage.
    dtype: what is computed in; parameters, statistics and logits are float32.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  num_classes: int
  depth: int = 20
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    Args:
      x: images after the architecture's own normalisation, of any height and width.
      train: True uses batch statistics and updates the collection `batch_stats`.

    Raises:
      InputError: the depth is not 6n + 2.
    """
    num_blocks = blocks_per_stage(self.depth)
    common = {'dtype': self.dtype, 'axis_name': self.axis_name}
    x = ConvNormRelu(WIDTHS[0], **common, name='stem')(x.astype(self.dtype), train)
    for index, features in enumerate(WIDTHS):
      stride = 1 if index == 0 else 2
      x = Stage(features, num_blocks, stride, **common, name=f'stage{index + 1}')(x, train)
    return LinearHead(self.num_classes, name='head')(x)


def blocks_per_stage(depth: int) -> int:
  """Returns n of depth = 6n + 2.

  Raises:
    InputError: there is no such n ≥ 1.
  """
  if depth < 8 or depth % 6 != 2:
    raise InputError(
      f'depth {depth} is no CIFAR ResNet: the depth is 6n + 2, for example 20, 32, 44, 56 or 110'
    )
  return (depth - 2) // 6


def build(num_classes: int, dtype: Any, axis_name: str | None, depth: int) -> nn.Module:
  """Returns the network of `depth` weighted layers; see `CifarResNet` for the arguments."""
  blocks_per_stage(depth)
  return CifarResNet(num_classes, depth, dtype, axis_name)


def schemes(depth: int) -> tuple[Scheme, ...]:
  """Returns how PyTorch state dicts name the layers; the same for every size."""
  del depth
  return (pytorch('akamaster/pytorch_resnet_cifar10', _pytorch_layer),)


def _pytorch_layer(path: tuple[str, ...]) -> str:
  """Returns what PyTorch state dicts call the layer at `path`, for example `layer1.0.conv1`."""
  if path[0] == 'stem':
    return f'{path[1]}1'
  if path[0] == 'head':
    return 'linear'
  stage, block, layer = path
  return f'layer{stage.removeprefix("stage")}.{block.removeprefix("block")}.{layer}'
