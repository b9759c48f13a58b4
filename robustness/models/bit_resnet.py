"""Big Transfer's ResNets: pre-activation, group norm, weights standardised before every use.

The pooling after the first convolution pads with zeros, as Big Transfer does, and not with −∞.

Reference: Kolesnikov et al., Big Transfer (BiT): General Visual Representation Learning, 2020,
section 2; Qiao et al., Micro-Batch Training with Batch-Channel Normalization and Weight
Standardization, 2019, equation 7.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.models.layers import LinearHead, group_norm, he_normal, max_pool
from robustness.models.naming import (
  AS_IS,
  OUTPUT_FIRST_POINTWISE,
  POINTWISE,
  Path,
  Scheme,
  Stored,
  pytorch_array,
)

BLOCKS_PER_STAGE = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
STEM_FEATURES = 64
EXPANSION = 4  # of a bottleneck's last convolution
STANDARDISATION_EPSILON = 1e-10


def standardise(kernel: jax.Array) -> jax.Array:
  """Returns the kernel [h, w, in, out] with mean 0 and variance 1 for every output channel."""
  mean = kernel.mean((0, 1, 2), keepdims=True)
  variance = kernel.var((0, 1, 2), keepdims=True)
  return (kernel - mean) * jax.lax.rsqrt(variance + STANDARDISATION_EPSILON)


class StandardisedConv(nn.Module):
  """A square convolution without bias whose kernel is standardised before it is used."""

  features: int
  kernel: int
  stride: int = 1
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    shape = (self.kernel, self.kernel, x.shape[-1], self.features)
    kernel = standardise(self.param('kernel', he_normal, shape)).astype(self.dtype)
    side = self.kernel // 2
    return jax.lax.conv_general_dilated(
      x,
      kernel,
      (self.stride, self.stride),
      ((side, side), (side, side)),
      dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
    )


class Block(nn.Module):
  """A pre-activation bottleneck of 1×1, 3×3 and 1×1 convolutions, added to the shortcut.

  Where the width or the size changes, the shortcut is a 1×1 convolution of the rectified input.
  """

  features: int
  stride: int = 1
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), 4 × features]."""
    outputs = EXPANSION * self.features
    active = nn.relu(group_norm(dtype=self.dtype, name='norm1')(x))
    y = StandardisedConv(self.features, 1, 1, self.dtype, name='conv1')(active)
    y = nn.relu(group_norm(dtype=self.dtype, name='norm2')(y))
    y = StandardisedConv(self.features, 3, self.stride, self.dtype, name='conv2')(y)
    y = nn.relu(group_norm(dtype=self.dtype, name='norm3')(y))
    y = StandardisedConv(outputs, 1, 1, self.dtype, name='conv3')(y)
    if self.stride != 1 or x.shape[-1] != outputs:
      x = StandardisedConv(outputs, 1, self.stride, self.dtype, name='shortcut')(active)
    return x + y


class Stage(nn.Module):
  """Blocks of one width; the first one may halve the image."""

  features: int
  num_blocks: int
  stride: int = 1
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), 4 × features]."""
    for index in range(self.num_blocks):
      stride = self.stride if index == 0 else 1
      x = Block(self.features, stride, self.dtype, name=f'block{index}')(x)
    return x


class BitResNet(nn.Module):
  """A Big Transfer ResNet.

  Layers: `stem` (the first convolution alone), `stage1` to `stage4` (sums before the next norm, as
  pre-activation has it), in them `block0`, `block1`, ..., then `final` (the last norm, before its
  ReLU) and `head`.

  Attributes:
    num_classes: number of logits.
    depth: number of weighted layers, a key of `BLOCKS_PER_STAGE`.
    width: widens all layers but the head.
    dtype: what is computed in; parameters and logits are float32.
  """

  num_classes: int
  depth: int = 50
  width: int = 1
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    Args:
      x: images after the architecture's own normalisation, of any height and width.
      train: changes nothing, as group norm and standardisation are the same in training.
    """
    del train
    features = STEM_FEATURES * self.width
    x = StandardisedConv(features, 7, 2, self.dtype, name='stem')(x.astype(self.dtype))
    x = max_pool(jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))))
    for index, num_blocks in enumerate(BLOCKS_PER_STAGE[self.depth]):
      stride = 1 if index == 0 else 2
      x = Stage(features * 2**index, num_blocks, stride, self.dtype, name=f'stage{index + 1}')(x)
    x = nn.relu(group_norm(dtype=self.dtype, name='final')(x))
    return LinearHead(self.num_classes, name='head')(x)


def build(num_classes: int, dtype: Any, axis_name: str | None, depth: int, width: int) -> nn.Module:
  """Returns the network of `depth` layers widened `width` times; see `BitResNet`.

  Raises:
    InputError: an unknown depth, or a width below 1.
  """
  del axis_name
  if depth not in BLOCKS_PER_STAGE:
    valid = ', '.join(map(str, BLOCKS_PER_STAGE))
    raise InputError(f'no BiT ResNet of depth {depth}; valid: {valid}')
  if width < 1:
    raise InputError(f'width {width} is no BiT ResNet: it is 1 or more, for example 1 or 3')
  return BitResNet(num_classes, depth, width, dtype)


def schemes(depth: int, width: int) -> tuple[Scheme, ...]:
  """Returns timm's names and those of Big Transfer's own archives, for every size."""
  del depth, width
  return (Scheme('timm', _timm), Scheme('google-research/big_transfer', _big_transfer))


def _timm(path: Path) -> Stored:
  """Returns where timm's state dicts have a variable, as `stages.0.blocks.1.conv2.weight`."""
  *layer, leaf = path[1:]
  if layer[0] == 'head':
    return pytorch_array('head.fc', leaf, OUTPUT_FIRST_POINTWISE)
  outside = {'stem': 'stem.conv', 'final': 'norm'}
  if layer[0] in outside:
    return pytorch_array(outside[layer[0]], leaf)
  stage, block, inside = layer
  name = f'stages.{int(stage[-1]) - 1}.blocks.{block.removeprefix("block")}.'
  return pytorch_array(name + {'shortcut': 'downsample.conv'}.get(inside, inside), leaf)


def _big_transfer(path: Path) -> Stored:
  """Returns where Big Transfer has it, as `resnet/block1/unit02/b/standardized_conv2d/kernel`."""
  *layer, leaf = path[1:]
  if layer[0] == 'head':
    return Stored((f'resnet/head/conv2d/{leaf}',), POINTWISE if leaf == 'kernel' else AS_IS)
  kind = {
    'kernel': 'standardized_conv2d/kernel',
    'scale': 'group_norm/gamma',
    'bias': 'group_norm/beta',
  }[leaf]
  outside = {'stem': 'resnet/root_block', 'final': 'resnet'}
  if layer[0] in outside:
    return Stored((f'{outside[layer[0]]}/{kind}',))
  stage, block, inside = layer
  unit = int(block.removeprefix('block')) + 1
  part = 'a/proj' if inside == 'shortcut' else 'abc'[int(inside[-1]) - 1]
  return Stored((f'resnet/block{stage[-1]}/unit{unit:02d}/{part}/{kind}',))
