"""The residual networks of depth 6n + 2 for 32×32 images, with parameter-free shortcuts.

Where a stage halves the image, the shortcut takes every second pixel and adds zero channels,
half of them before and half after those that are there.

Reference: He et al., Deep Residual Learning for Image Recognition, section 4.2 (option A).
"""

from __future__ import annotations

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.models.architecture import STEM_AND_STAGES, Architecture
from robustness.models.layers import (
  ConvNormRelu,
  Layer,
  LinearHead,
  Network,
  Stage,
  batch_norm,
  convolution,
)
from robustness.models.naming import pytorch

WIDTHS = (16, 32, 64)


def shortcut(x: jax.Array, features: int, stride: int) -> jax.Array:
  """Returns every `stride`-th pixel of `x` [B, H, W, C], zero-padded to `features` channels."""
  missing = features - x.shape[-1]
  before = missing // 2
  x = x[:, ::stride, ::stride]
  return jnp.pad(x, ((0, 0), (0, 0), (0, 0), (before, missing - before)))


class Block(Layer):
  """Two 3×3 convolutions with batch norm, added to the shortcut; ReLU comes last."""

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    y = convolution(self.features, 3, self.stride, dtype=self.dtype, name='conv1')(x)
    y = nn.relu(batch_norm(train, **self.common, name='bn1')(y))
    y = convolution(self.features, 3, dtype=self.dtype, name='conv2')(y)
    y = batch_norm(train, **self.common, name='bn2')(y)
    if self.stride != 1 or x.shape[-1] != self.features:
      x = shortcut(x, self.features, self.stride)
    return nn.relu(x + y)


class CifarResNet(Network):
  """A residual network for small images.

  Layers: `stem`, `stage1` to `stage3` (each after its last ReLU), in them `block0`, `block1`, ...,
  and `head`.

  Attributes:
    depth: 6n + 2 weighted layers, n blocks a stage.
  """

  depth: int = 20

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`.

    Raises:
      InputError: there is no n ≥ 1 with depth = 6n + 2.
    """
    if self.depth < 8 or self.depth % 6 != 2:
      raise InputError(
        f'depth {self.depth} is no CIFAR ResNet: the depth is 6n + 2, for example 20, 32, 44, 56 '
        'or 110'
      )
    num_blocks = (self.depth - 2) // 6
    x = ConvNormRelu(WIDTHS[0], **self.common, name='stem')(x.astype(self.dtype), train)
    for index, features in enumerate(WIDTHS):
      block, stride = functools.partial(Block, features), 1 if index == 0 else 2
      x = Stage(block, num_blocks, stride, **self.common, name=f'stage{index + 1}')(x, train)
    return LinearHead(self.num_classes, name='head')(x)


def _pytorch_layer(path: tuple[str, ...]) -> str:
  """Returns what PyTorch state dicts call the layer at `path`, for example `layer1.0.conv1`."""
  if path[0] == 'stem':
    return f'{path[1]}1'
  if path[0] == 'head':
    return 'linear'
  stage, block, layer = path
  return f'layer{stage.removeprefix("stage")}.{block.removeprefix("block")}.{layer}'


ARCHITECTURES = tuple(
  Architecture(
    f'resnet{depth}',
    CifarResNet(10, depth),
    input_shape=(32, 32, 3),
    stages=STEM_AND_STAGES,
    source='He et al., Deep Residual Learning for Image Recognition, 2016 (option A shortcuts)',
    licence='weights of akamaster/pytorch_resnet_cifar10: BSD-2-Clause',
    schemes=(pytorch('akamaster/pytorch_resnet_cifar10', _pytorch_layer),),
  )
  for depth in (20, 32, 44, 56, 110)
)
