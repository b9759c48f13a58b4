"""CLIP's ResNet-50: three convolutions for a stem, blurred strides, attention for a pool.

Every stride is an average pool before a convolution of stride 1, so that halving aliases less. The
pool at the end is attention whose only query is the mean of all positions.

Reference: Radford et al., Learning Transferable Visual Models From Natural Language Supervision,
2021, section 2.4.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.layers import ConvNormRelu, batch_norm, convolution
from robustness.models.transformer import attend

BLOCKS = (3, 4, 6, 3)
STEM_FEATURES = 64
NUM_HEADS = 32


def average_pool(x: jax.Array, side: int) -> jax.Array:
  """Returns the means of squares of `side` pixels of `x` [B, H, W, C]; a remainder is dropped."""
  return nn.avg_pool(x, (side, side), (side, side)) if side > 1 else x


class Stem(nn.Module):
  """Three 3×3 convolutions, the first of stride 2, and an average pool."""

  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, 3] to [B, H // 4, W // 4, 64]."""
    for index, features in enumerate((STEM_FEATURES // 2, STEM_FEATURES // 2, STEM_FEATURES)):
      layer = ConvNormRelu(
        features, 3, 2 if index == 0 else 1, self.dtype, self.axis_name, name=f'layer{index + 1}'
      )
      x = layer(x, train)
    return average_pool(x, 2)


class Bottleneck(nn.Module):
  """1×1, 3×3 and 1×1 convolutions; pools before the last where others stride."""

  features: int
  stride: int = 1
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, H // stride, W // stride, 4 features]."""
    common = {'dtype': self.dtype, 'axis_name': self.axis_name}
    y = ConvNormRelu(self.features, 1, **common, name='layer1')(x, train)
    y = ConvNormRelu(self.features, 3, **common, name='layer2')(y, train)
    y = average_pool(y, self.stride)
    y = convolution(4 * self.features, 1, dtype=self.dtype, name='conv3')(y)
    y = batch_norm(train, **common, name='bn3')(y)
    if self.stride > 1 or x.shape[-1] != 4 * self.features:
      x = average_pool(x, self.stride)
      x = convolution(4 * self.features, 1, dtype=self.dtype, name='shortcut_conv')(x)
      x = batch_norm(train, **common, name='shortcut_bn')(x)
    return nn.relu(x + y)


class Stage(nn.Module):
  """Bottlenecks of one width; the first one may halve the image."""

  features: int
  num_blocks: int
  stride: int = 1
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, H // stride, W // stride, 4 features]."""
    for index in range(self.num_blocks):
      stride = self.stride if index == 0 else 1
      block = Bottleneck(self.features, stride, self.dtype, self.axis_name, name=f'block{index}')
      x = block(x, train)
    return x


class AttentionPool(nn.Module):
  """Attention of the mean position to all positions, and to itself.

  Attributes:
    size: of the result.
    num_heads: divides the number of channels.
    dtype: what is computed in; parameters are float32.
  """

  size: int
  num_heads: int = NUM_HEADS
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, size]."""
    width = x.shape[-1]
    x = x.reshape(x.shape[0], -1, width)
    x = jnp.concatenate([x.mean(1, keepdims=True), x], axis=1)
    position = self.param('position', nn.initializers.normal(width**-0.5), (x.shape[1], width))
    x = x + position[None].astype(x.dtype)

    def heads(name: str, tokens: jax.Array) -> jax.Array:
      y = nn.Dense(width, dtype=self.dtype, name=name)(tokens)
      return y.reshape(*y.shape[:2], self.num_heads, -1)

    pooled = attend(heads('query', x[:, :1]), heads('key', x), heads('value', x))
    return nn.Dense(self.size, dtype=self.dtype, name='out')(pooled.reshape(-1, width))


def resnet_tower(
  x: jax.Array, train: bool, size: int, dtype: Any, axis_name: str | None
) -> jax.Array:
  """Makes the tower's layers inside the module whose compact method calls this.

  They are `stem`, `stage1` to `stage4` (each after its last ReLU) and `attention_pool`.

  Args:
    x: normalised images [B, H, W, 3].
    train: True uses batch statistics and updates the collection `batch_stats`.
    size: of the embedding.
    dtype: what is computed in; parameters and statistics are float32.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.

  Returns:
    Embeddings [B, size], not of unit length.
  """
  common = {'dtype': dtype, 'axis_name': axis_name}
  x = Stem(**common, name='stem')(x.astype(dtype), train)
  for index, num_blocks in enumerate(BLOCKS):
    stage = Stage(
      STEM_FEATURES * 2**index,
      num_blocks,
      1 if index == 0 else 2,
      **common,
      name=f'stage{index + 1}',
    )
    x = stage(x, train)
  return AttentionPool(size, dtype=dtype, name='attention_pool')(x)


def resnet_layer_name(path: tuple[str, ...]) -> str:
  """Returns what open_clip calls the tower's layer at `path`, as `layer1.0.downsample.0`."""
  if path[0] == 'attention_pool':
    return f'attnpool.{path[1][0].replace("o", "c")}_proj'
  inside = {
    'conv3': 'conv3',
    'bn3': 'bn3',
    'shortcut_conv': 'downsample.0',
    'shortcut_bn': 'downsample.1',
  }
  layer = inside.get(path[-1]) or f'{path[-1]}{path[-2].removeprefix("layer")}'
  if path[0] == 'stem':
    return layer
  stage, block = path[0].removeprefix('stage'), path[1].removeprefix('block')
  return f'layer{stage}.{block}.{layer}'
