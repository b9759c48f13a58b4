"""EfficientNet-Lite0, -Lite1 and -Lite2: EfficientNets without squeeze-and-excitation, with ReLU6.

Larger members are wider and deeper, but stem and head keep their width, and the first and the last
stage their depth. Convolutions pad as TensorFlow does ('SAME': an odd pixel lies at the end), and
batch norm has ε = 1e-3 and keeps .99 of the running statistics a step. Dropout and stochastic depth
are left out; they play no part in an evaluation.

References: Tan and Le, EfficientNet, 2019, table 1; the release notes of EfficientNet-Lite, 2020.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.layers import DepthwiseConv, LinearHead, he_normal
from robustness.models.naming import Scheme, pytorch

EPSILON = 1e-3
MOMENTUM = 0.99
STEM_FEATURES, TOP_FEATURES = 32, 1280
FEATURE_MULTIPLE = 8


class StageSize(NamedTuple):
  """A stage: blocks of one kind, the first of which has the stride."""

  num_blocks: int
  kernel: int
  stride: int
  expansion: int
  features: int


BASE = (
  StageSize(1, 3, 1, 1, 16),
  StageSize(2, 3, 2, 6, 24),
  StageSize(2, 5, 2, 6, 40),
  StageSize(3, 3, 2, 6, 80),
  StageSize(3, 5, 1, 6, 112),
  StageSize(4, 5, 2, 6, 192),
  StageSize(1, 3, 1, 6, 320),
)
SCALES = {0: (1.0, 1.0), 1: (1.0, 1.1), 2: (1.1, 1.2)}  # of width and depth


def rounded(features: int, width: float) -> int:
  """Returns width × features, rounded to a multiple of 8 that is not below nine tenths of it."""
  exact = features * width
  nearest = int(exact + FEATURE_MULTIPLE / 2) // FEATURE_MULTIPLE * FEATURE_MULTIPLE
  nearest = max(FEATURE_MULTIPLE, nearest)
  return nearest if nearest >= 0.9 * exact else nearest + FEATURE_MULTIPLE


def stage_sizes(member: int) -> tuple[StageSize, ...]:
  """Returns the stages of Lite`member`."""
  width, depth = SCALES[member]
  last = len(BASE) - 1
  return tuple(
    size._replace(
      features=rounded(size.features, width),
      num_blocks=size.num_blocks if index in (0, last) else math.ceil(size.num_blocks * depth),
    )
    for index, size in enumerate(BASE)
  )


class ConvNorm(nn.Module):
  """Convolution, batch norm and, unless `linear`, ReLU6, as one layer.

  Attributes:
    features: number of output channels.
    kernel: side in pixels.
    stride: step in pixels.
    depthwise: whether every channel is convolved by itself; it then stays as wide as it came.
    linear: whether the rectification is left out.
    dtype: what is computed in.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  features: int
  kernel: int = 1
  stride: int = 1
  depthwise: bool = False
  linear: bool = False
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    if self.depthwise:
      x = DepthwiseConv(self.kernel, self.stride, self.dtype, name='conv')(x)
    else:
      x = nn.Conv(
        self.features,
        (self.kernel,) * 2,
        (self.stride,) * 2,
        padding='SAME',
        use_bias=False,
        dtype=self.dtype,
        kernel_init=he_normal,
        name='conv',
      )(x)
    x = nn.BatchNorm(
      use_running_average=not train,
      momentum=MOMENTUM,
      epsilon=EPSILON,
      dtype=self.dtype,
      axis_name=self.axis_name,
      name='bn',
    )(x)
    return x if self.linear else nn.relu6(x)


class Block(nn.Module):
  """An inverted bottleneck: 1×1 expansion, depthwise convolution, linear 1×1 projection."""

  features: int
  kernel: int
  stride: int
  expansion: int
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    common = {'dtype': self.dtype, 'axis_name': self.axis_name}
    inner = x.shape[-1] * self.expansion
    y = x
    if self.expansion > 1:
      y = ConvNorm(inner, **common, name='expand')(y, train)
    y = ConvNorm(inner, self.kernel, self.stride, depthwise=True, **common, name='depthwise')(
      y, train
    )
    y = ConvNorm(self.features, linear=True, **common, name='project')(y, train)
    return x + y if self.stride == 1 and x.shape[-1] == self.features else y


class Stage(nn.Module):
  """Blocks of one width; the first one may halve the image."""

  size: StageSize
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    size = self.size
    for index in range(size.num_blocks):
      block = Block(
        size.features,
        size.kernel,
        size.stride if index == 0 else 1,
        size.expansion,
        self.dtype,
        self.axis_name,
        name=f'block{index}',
      )
      x = block(x, train)
    return x


class EfficientNetLite(nn.Module):
  """An EfficientNet-Lite.

  Layers: `stem`, `stage1` to `stage7` (linear outputs), in them `block0`, `block1`, ..., with
  `expand`, `depthwise` and `project`; then `top` (the last 1×1 convolution) and `head`.

  Attributes:
    num_classes: number of logits.
    member: 0, 1 or 2.
    dtype: what is computed in; parameters, statistics and logits are float32.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  num_classes: int
  member: int = 0
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    Args:
      x: images after the architecture's own normalisation, of any height and width.
      train: True uses batch statistics and updates the collection `batch_stats`.
    """
    common = {'dtype': self.dtype, 'axis_name': self.axis_name}
    x = ConvNorm(STEM_FEATURES, 3, 2, **common, name='stem')(x.astype(self.dtype), train)
    for index, size in enumerate(stage_sizes(self.member)):
      x = Stage(size, **common, name=f'stage{index + 1}')(x, train)
    x = ConvNorm(TOP_FEATURES, **common, name='top')(x, train)
    return LinearHead(self.num_classes, name='head')(x)


def build(num_classes: int, dtype: Any, axis_name: str | None, member: int) -> nn.Module:
  """Returns Lite`member`; see `EfficientNetLite` for the arguments."""
  return EfficientNetLite(num_classes, member, dtype, axis_name)


def schemes(member: int) -> tuple[Scheme, ...]:
  """Returns the names of the package efficientnet-lite-pytorch, and those of timm."""
  return (
    pytorch('efficientnet-lite-pytorch', lambda path: _package_layer(member, path)),
    pytorch('timm', _timm_layer),
  )


_PACKAGE_NAMES = {
  'stem': {'conv': '_conv_stem', 'bn': '_bn0'},
  'expand': {'conv': '_expand_conv', 'bn': '_bn0'},
  'depthwise': {'conv': '_depthwise_conv', 'bn': '_bn1'},
  'project': {'conv': '_project_conv', 'bn': '_bn2'},
  'top': {'conv': '_conv_head', 'bn': '_bn1'},
}
_TIMM_NAMES = {
  'stem': {'conv': 'conv_stem', 'bn': 'bn1'},
  'expand': {'conv': 'conv_pw', 'bn': 'bn1'},
  'depthwise': {'conv': 'conv_dw', 'bn': 'bn2'},
  'project': {'conv': 'conv_pwl', 'bn': 'bn3'},
  'top': {'conv': 'conv_head', 'bn': 'bn2'},
}
_TIMM_UNEXPANDED = {
  'depthwise': {'conv': 'conv_dw', 'bn': 'bn1'},
  'project': {'conv': 'conv_pw', 'bn': 'bn2'},
}


def _package_layer(member: int, path: tuple[str, ...]) -> str:
  """Returns the package's name, which counts blocks through all stages: `_blocks.3._bn0`."""
  if path[0] == 'head':
    return '_fc'
  if len(path) == 2:
    return _PACKAGE_NAMES[path[0]][path[1]]
  stage, block, layer, kind = path
  before = itertools.islice(stage_sizes(member), int(stage.removeprefix('stage')) - 1)
  index = sum(size.num_blocks for size in before) + int(block.removeprefix('block'))
  return f'_blocks.{index}.{_PACKAGE_NAMES[layer][kind]}'


def _timm_layer(path: tuple[str, ...]) -> str:
  """Returns timm's name, for example `blocks.1.0.conv_pw`; blocks without expansion differ."""
  if path[0] == 'head':
    return 'classifier'
  if len(path) == 2:
    return _TIMM_NAMES[path[0]][path[1]]
  stage, block, layer, kind = path
  index = int(stage.removeprefix('stage')) - 1
  names = _TIMM_UNEXPANDED if BASE[index].expansion == 1 else _TIMM_NAMES
  return f'blocks.{index}.{block.removeprefix("block")}.{names[layer][kind]}'
