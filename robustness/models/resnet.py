"""ResNet-18, -34, -50, -101 and -152 for ImageNet, with batch norm or with group norm.

Bottlenecks are of version 1.5: the 3×3 convolution has the stride, not the 1×1 before it. With
group norm, 32 groups of channels are normalised in each image by itself, so a training step and an
evaluation compute the same.

References: He et al., Deep Residual Learning for Image Recognition, 2016, table 1; Wu and He, Group
Normalization, 2018, section 3.
"""

from __future__ import annotations

import functools
from typing import Literal

import flax.linen as nn
import jax

from robustness.models.architecture import STEM_AND_STAGES, Architecture
from robustness.models.layers import (
  GroupNorm,
  Layer,
  LinearHead,
  Network,
  Stage,
  batch_norm,
  convolution,
  max_pool,
)
from robustness.models.naming import pytorch
from robustness.models.pretrained import Weights, timm, torchvision

Norm = Literal['batch', 'group']
BLOCKS_PER_STAGE = {
  18: (2, 2, 2, 2),
  34: (3, 4, 6, 3),
  50: (3, 4, 6, 3),
  101: (3, 4, 23, 3),
  152: (3, 8, 36, 3),
}
STEM_FEATURES = 64
EXPANSION = 4  # of a bottleneck's last convolution


class ConvNorm(Layer):
  """Convolution, batch norm or group norm, and a ReLU if it is `rectified`, as one layer."""

  features: int
  kernel: int
  stride: int = 1
  norm: Norm = 'batch'
  rectified: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    x = convolution(self.features, self.kernel, self.stride, dtype=self.dtype, name='conv')(x)
    if self.norm == 'group':
      x = GroupNorm(dtype=self.dtype, name='norm')(x)
    else:
      x = batch_norm(train, **self.common, name='norm')(x)
    return nn.relu(x) if self.rectified else x


class Block(Layer):
  """Two 3×3 convolutions, or a bottleneck of 1×1, 3×3 and 1×1, added to the shortcut.

  Attributes:
    features: channels of the inner convolutions; a bottleneck gives four times as many.
    bottleneck: whether it is one.
    norm: 'batch' or 'group'.
    stride: of the first 3×3 convolution and of the shortcut's.
  """

  features: int
  bottleneck: bool
  norm: Norm = 'batch'
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), outputs], after the ReLU."""
    outputs = self.features * (EXPANSION if self.bottleneck else 1)
    y = x
    kernels = (1, 3, 1) if self.bottleneck else (3, 3)
    for number, kernel in enumerate(kernels, start=1):
      last = number == len(kernels)
      stride = self.stride if number == len(kernels) - 1 else 1
      layer = self._layer(outputs if last else self.features, kernel, stride, f'layer{number}')
      y = layer(y, train)
      y = y if last else nn.relu(y)
    if self.stride != 1 or x.shape[-1] != outputs:
      x = self._layer(outputs, 1, self.stride, 'shortcut')(x, train)
    return nn.relu(x + y)

  def _layer(self, features: int, kernel: int, stride: int, name: str) -> ConvNorm:
    return ConvNorm(features, kernel, stride, self.norm, **self.common, name=name)


class ResNet(Network):
  """A residual network for images of about 224×224 pixels.

  Layers: `stem` (convolution, norm and ReLU, before the pooling), `stage1` to `stage4` (each after
  its last ReLU), in them `block0`, `block1`, ..., and `head`.

  Attributes:
    depth: number of weighted layers, a key of `BLOCKS_PER_STAGE`.
    norm: 'batch' or 'group'.
  """

  depth: int = 50
  norm: Norm = 'batch'

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`."""
    stem = ConvNorm(STEM_FEATURES, 7, 2, self.norm, True, **self.common, name='stem')
    x = max_pool(stem(x.astype(self.dtype), train), padding=1)
    for index, num_blocks in enumerate(BLOCKS_PER_STAGE[self.depth]):
      block = functools.partial(Block, STEM_FEATURES * 2**index, self.depth >= 50, self.norm)
      stride = 1 if index == 0 else 2
      x = Stage(block, num_blocks, stride, **self.common, name=f'stage{index + 1}')(x, train)
    return LinearHead(self.num_classes, name='head')(x)


def _pytorch_layer(path: tuple[str, ...]) -> str:
  """Returns what state dicts call the layer at `path`, as `layer1.0.bn2` or `downsample.0`."""
  if path[0] == 'stem':
    return {'conv': 'conv1', 'norm': 'bn1'}[path[1]]
  if path[0] == 'head':
    return 'fc'
  stage, block, layer, kind = path
  if layer == 'shortcut':
    inside = {'conv': 'downsample.0', 'norm': 'downsample.1'}[kind]
  else:
    inside = {'conv': 'conv', 'norm': 'bn'}[kind] + layer.removeprefix('layer')
  return f'layer{stage.removeprefix("stage")}.{block.removeprefix("block")}.{inside}'


_SCHEMES = (pytorch('timm and torchvision', _pytorch_layer),)
_PARAMETERS = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}
_TORCHVISION = {
  18: (torchvision('resnet18', 'f37072fd'),),
  34: (torchvision('resnet34', 'b627a593'),),
  50: (
    torchvision('resnet50', '0676ba61'),
    torchvision('resnet50', '11ad3fa6', version=2, resize=232),
  ),
}


def _architecture(name: str, depth: int, norm: Norm, weights: tuple[Weights, ...]) -> Architecture:
  return Architecture(
    name,
    ResNet(depth=depth, norm=norm),
    stages=(*STEM_AND_STAGES, 'stage4'),
    source='He et al., Deep Residual Learning for Image Recognition, 2016 (version 1.5)'
    + ('; Wu and He, Group Normalization, 2018' if norm == 'group' else ''),
    licence='weights of torchvision: BSD-3-Clause; of timm: Apache-2.0',
    schemes=_SCHEMES,
    weights=weights,
    parameters=_PARAMETERS[depth],
    timm=name if weights else '',
  )


def _with_batch_norm(depth: int) -> Architecture:
  name = f'resnet{depth}'
  weights = (timm(name, f'{name}.a1_in1k'), *_TORCHVISION.get(depth, ()))
  return _architecture(name, depth, 'batch', weights)


def _with_group_norm(depth: int) -> Architecture:
  name = f'resnet{depth}_gn'
  weights = (timm(name, f'{name}.a1h_in1k', crop=0.94),) if depth == 50 else ()
  return _architecture(name, depth, 'group', weights)


ARCHITECTURES = (*map(_with_batch_norm, _PARAMETERS), *map(_with_group_norm, _PARAMETERS))
