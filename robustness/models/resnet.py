"""ResNet-18, -34, -50, -101 and -152 for ImageNet, with batch norm or with group norm.

Bottlenecks are of version 1.5: the 3×3 convolution has the stride, not the 1×1 before it. With
group norm, 32 groups of channels are normalised in each image by itself, so a training step and an
evaluation compute the same.

References: He et al., Deep Residual Learning for Image Recognition, 2016, table 1; Wu and He, Group
Normalization, 2018, section 3.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.core.errors import InputError, nearest
from robustness.models.layers import LinearHead, batch_norm, convolution, group_norm, max_pool
from robustness.models.naming import Scheme, pytorch

NORMS = ('batch', 'group')
BLOCKS_PER_STAGE = {
  18: (2, 2, 2, 2),
  34: (3, 4, 6, 3),
  50: (3, 4, 6, 3),
  101: (3, 4, 23, 3),
  152: (3, 8, 36, 3),
}
STEM_FEATURES = 64
EXPANSION = 4  # of a bottleneck's last convolution


def norm_layer(kind: str, train: bool, dtype: Any, axis_name: str | None) -> nn.Module:
  """Returns the layer `norm`: batch norm or group norm, whichever `kind` says."""
  if kind == 'group':
    return group_norm(dtype=dtype, name='norm')
  return batch_norm(train, dtype=dtype, axis_name=axis_name, name='norm')


class ConvNorm(nn.Module):
  """Convolution and norm as one layer."""

  features: int
  kernel: int
  stride: int = 1
  norm: str = 'batch'
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    x = convolution(self.features, self.kernel, self.stride, dtype=self.dtype, name='conv')(x)
    return norm_layer(self.norm, train, self.dtype, self.axis_name)(x)


class Stem(nn.Module):
  """A 7×7 convolution that halves the image, norm and ReLU, as one layer."""

  norm: str = 'batch'
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / 2), ceil(W / 2), 64]."""
    x = convolution(STEM_FEATURES, 7, 2, dtype=self.dtype, name='conv')(x)
    return nn.relu(norm_layer(self.norm, train, self.dtype, self.axis_name)(x))


class Block(nn.Module):
  """Two 3×3 convolutions, or a bottleneck of 1×1, 3×3 and 1×1, added to the shortcut.

  Attributes:
    features: channels of the inner convolutions; a bottleneck gives four times as many.
    bottleneck: whether it is one.
    stride: of the first 3×3 convolution and of the shortcut's.
    norm: one of `NORMS`.
    dtype: what is computed in.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  features: int
  bottleneck: bool
  stride: int = 1
  norm: str = 'batch'
  dtype: Any = jnp.float32
  axis_name: str | None = None

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
    return ConvNorm(features, kernel, stride, self.norm, self.dtype, self.axis_name, name=name)


class Stage(nn.Module):
  """Blocks of one width; the first one may halve the image."""

  features: int
  num_blocks: int
  bottleneck: bool
  stride: int = 1
  norm: str = 'batch'
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), outputs of the blocks]."""
    for index in range(self.num_blocks):
      stride = self.stride if index == 0 else 1
      block = Block(
        self.features,
        self.bottleneck,
        stride,
        self.norm,
        self.dtype,
        self.axis_name,
        name=f'block{index}',
      )
      x = block(x, train)
    return x


class ResNet(nn.Module):
  """A residual network for images of about 224×224 pixels.

  Layers: `stem` (convolution, norm and ReLU, before the pooling), `stage1` to `stage4` (each after
  its last ReLU), in them `block0`, `block1`, ..., and `head`.

  Attributes:
    num_classes: number of logits.
    depth: number of weighted layers, a key of `BLOCKS_PER_STAGE`.
    norm: one of `NORMS`.
    dtype: what is computed in; parameters, statistics and logits are float32.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  num_classes: int
  depth: int = 50
  norm: str = 'batch'
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    Args:
      x: images after the architecture's own normalisation, of any height and width.
      train: True uses batch statistics and updates the collection `batch_stats`.
    """
    common = {'norm': self.norm, 'dtype': self.dtype, 'axis_name': self.axis_name}
    x = Stem(**common, name='stem')(x.astype(self.dtype), train)
    x = max_pool(x, padding=1)
    for index, num_blocks in enumerate(BLOCKS_PER_STAGE[self.depth]):
      features = STEM_FEATURES * 2**index
      stage = Stage(
        features,
        num_blocks,
        self.depth >= 50,
        1 if index == 0 else 2,
        **common,
        name=f'stage{index + 1}',
      )
      x = stage(x, train)
    return LinearHead(self.num_classes, name='head')(x)


def build(num_classes: int, dtype: Any, axis_name: str | None, depth: int, norm: str) -> nn.Module:
  """Returns the network of `depth` weighted layers; see `ResNet` for the arguments.

  Raises:
    InputError: an unknown depth or norm.
  """
  if depth not in BLOCKS_PER_STAGE:
    valid = ', '.join(map(str, BLOCKS_PER_STAGE))
    raise InputError(f'no ResNet of depth {depth}; valid: {valid}')
  if norm not in NORMS:
    raise InputError(f'no norm {norm!r}: {nearest(norm, NORMS)}')
  return ResNet(num_classes, depth, norm, dtype, axis_name)


def schemes(depth: int, norm: str) -> tuple[Scheme, ...]:
  """Returns the one scheme that timm and torchvision share, for every depth and norm."""
  del depth, norm
  return (pytorch('timm and torchvision', _pytorch_layer),)


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
