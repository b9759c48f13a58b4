"""Networks for small images: a CNN for digits, the ResNets of CIFAR-10, and Wide ResNets.

If a stage of a CIFAR ResNet halves the image, the shortcut takes every second pixel and adds zero
channels, half of them before and half after the input's. A Wide ResNet normalises and rectifies
before each convolution. Its shortcut is a 1×1 convolution of the rectified input if the width
changes, and the input otherwise.

References: He et al., Deep Residual Learning for Image Recognition, 2016, section 4.2 (option A);
Zagoruyko and Komodakis, Wide Residual Networks, 2016, section 2 and table 1 (no dropout).
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.models import layers
from robustness.models.architecture import CIFAR10, STEM_AND_STAGES, Architecture
from robustness.models.naming import Names, Scheme

CNN_WIDTHS = (16, 32, 64)
"""The number of channels of each convolution of the CNN for digits."""
RESNET_WIDTH = 16
"""The number of channels in the first stage, which a Wide ResNet multiplies by its width."""


class SmallCNN(layers.Network):
  """A small CNN for digits: three strided convolutions and a linear head.

  Its layers are `stage1` (5×5 kernel), `stage2` and `stage3` (3×3 kernels), each with batch norm
  and ReLU, and `head`. Each stage halves the image. The head takes the flattened features, so
  trained weights are for one image size. On digits this is 1.5 points more accurate than average
  pooling.
  """

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    With `train`, batch norm normalises by the batch and updates its running statistics.
    """
    x = x.astype(self.dtype)
    for index, features in enumerate(CNN_WIDTHS):
      kernel = 5 if index == 0 else 3
      x = layers.ConvNorm(features, kernel, 2, **self.common, name=f'stage{index + 1}')(x, train)
    return layers.LinearHead(self.num_classes, pool=False, name='head')(x)


def shortcut(x: jax.Array, features: int, stride: int) -> jax.Array:
  """Returns the parameter-free shortcut of a CIFAR ResNet's block.

  It takes every `stride`-th pixel of `x` [B, H, W, C] and pads the channels with zeros to
  `features`.
  """
  num_added = features - x.shape[-1]
  before = num_added // 2
  x = x[:, ::stride, ::stride]
  return jnp.pad(x, ((0, 0), (0, 0), (0, 0), (before, num_added - before)))


class Block(layers.Layer):
  """A residual block of two 3×3 convolutions with batch norm. A ReLU follows the sum."""

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies a residual block of two convolutions, to [B, ⌈H / stride⌉, ⌈W / stride⌉, features].

    Args:
      x: [B, H, W, C].
      train: whether batch norm normalises by the batch.
    """
    y = layers.convolution(self.features, 3, self.stride, dtype=self.dtype, name='conv1')(x)
    y = nn.relu(layers.batch_norm(not train, **self.common, name='bn1')(y))
    y = layers.convolution(self.features, 3, dtype=self.dtype, name='conv2')(y)
    y = layers.batch_norm(not train, **self.common, name='bn2')(y)
    if self.stride != 1 or x.shape[-1] != self.features:
      x = shortcut(x, self.features, self.stride)
    return nn.relu(x + y)


class CifarResNet(layers.Network):
  """A residual network for small images, such as CIFAR-10's.

  Its layers are `stem`, `stage1` to `stage3` (each after its last ReLU) and `head`. Stages consist
  of blocks `block0`, `block1` and so on.

  Attributes:
    depth: number of weighted layers, 6n + 2 for n blocks in each stage.
  """

  depth: int = 20

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    With `train`, batch norm normalises by the batch and updates its running statistics.

    Raises:
      InputError: there is no n ≥ 1 with depth = 6n + 2.
    """
    if self.depth < 8 or self.depth % 6 != 2:
      raise InputError(
        f'depth {self.depth} is no CIFAR ResNet: it is 6n + 2, such as 20, 32, 44, 56 or 110'
      )
    num_blocks = (self.depth - 2) // 6
    x = layers.ConvNorm(RESNET_WIDTH, **self.common, name='stem')(x.astype(self.dtype), train)
    x = layers.residual_stages(x, train, Block, RESNET_WIDTH, (num_blocks,) * 3, **self.common)
    return layers.LinearHead(self.num_classes, name='head')(x)


_RESNET_NAMES: Names = {
  'stem/(conv|bn)': r'\g<1>1',
  r'stage(\d)/block(\d+)/(\w+)': r'layer\1.\2.\3',
  'head/dense': 'linear',
}


class WideBlock(layers.Layer):
  """A residual block of two 3×3 convolutions, each after batch norm and ReLU.

  No ReLU follows the sum.
  """

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies a block of a Wide ResNet, to [B, ⌈H / stride⌉, ⌈W / stride⌉, features].

    Batch norm and ReLU come before each of its two convolutions.

    Args:
      x: [B, H, W, C].
      train: whether batch norm normalises by the batch.
    """
    active = layers.NormRelu(**self.common, name='norm1')(x, train)
    y = layers.convolution(self.features, 3, self.stride, dtype=self.dtype, name='conv1')(active)
    y = layers.NormRelu(**self.common, name='norm2')(y, train)
    y = layers.convolution(self.features, 3, dtype=self.dtype, name='conv2')(y)
    if x.shape[-1] != self.features:  # blocks with a stride above 1 change the channels too
      project = layers.convolution(self.features, 1, self.stride, dtype=self.dtype, name='shortcut')
      x = project(active)
    return x + y


class WideResNet(layers.Network):
  """A wide residual network for small images, such as CIFAR-10's.

  Its layers are `stem` (only the first convolution), `stage1` to `stage3` (the last residual sum of
  each), `final` (the last norm and ReLU) and `head`. Stages consist of blocks `block0`, `block1`
  and so on.

  Attributes:
    depth: number of weighted layers, 6n + 4 for n blocks in each stage.
    width: widening factor k ≥ 2. The stages have 16k, 32k and 64k channels.
  """

  depth: int = 28
  width: int = 10

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    With `train`, batch norm normalises by the batch and updates its running statistics.

    Raises:
      InputError: there is no n ≥ 1 with depth = 6n + 4, or the width is below 2.
    """
    if self.depth < 10 or self.depth % 6 != 4:
      raise InputError(f'depth {self.depth} is no Wide ResNet: it is 6n + 4, such as 16, 28 or 40')
    if self.width < 2:
      raise InputError(f'width {self.width} is no Wide ResNet: the widening factor is 2 or more')
    x = layers.convolution(RESNET_WIDTH, 3, dtype=self.dtype, name='stem')(x.astype(self.dtype))
    width, num_blocks = RESNET_WIDTH * self.width, (self.depth - 4) // 6
    x = layers.residual_stages(x, train, WideBlock, width, (num_blocks,) * 3, **self.common)
    x = layers.NormRelu(**self.common, name='final')(x, train)
    return layers.LinearHead(self.num_classes, name='head')(x)


_WIDE_NAMES: Names = {
  'stem': 'conv1',
  r'stage(\d)/block(\d+)/conv(\d)': r'block\1.layer.\2.conv\3',
  r'stage(\d)/block(\d+)/norm(\d)/bn': r'block\1.layer.\2.bn\3',
  r'stage(\d)/block(\d+)/shortcut': r'block\1.layer.\2.convShortcut',
  'final/bn': 'bn1',
  'head/dense': 'fc',
}


def wide_resnet(depth: int, width: int) -> Architecture:
  """Describes the Wide ResNet WRN-`depth`-`width`, without published weights."""
  return Architecture(
    f'wide_resnet_{depth}_{width}',
    WideResNet(num_classes=10, depth=depth, width=width),
    input_shape=(32, 32, 3),
    **CIFAR10,
    stages=STEM_AND_STAGES,
    source='Zagoruyko and Komodakis, Wide Residual Networks, 2016 (no dropout)',
    licence="state dicts with the names conv1, block1.layer.0, ..., fc: their authors' terms",
    schemes=(Scheme('xternalz/WideResNet-pytorch', _WIDE_NAMES),),
  )


_SMALL_CNN = Architecture(
  'small_cnn',
  SmallCNN(num_classes=10),
  input_shape=(28, 28, 1),
  mean=(0.0,),
  std=(1.0,),
  stages=('stage1', 'stage2', 'stage3'),
  source='made for this repository',
  licence='no published weights',
)
_RESNETS = tuple(
  Architecture(
    f'resnet{depth}',
    CifarResNet(num_classes=10, depth=depth),
    input_shape=(32, 32, 3),
    stages=STEM_AND_STAGES,
    source='He et al., Deep Residual Learning for Image Recognition, 2016 (option A shortcuts)',
    licence='weights of akamaster/pytorch_resnet_cifar10: BSD-2-Clause',
    schemes=(Scheme('akamaster/pytorch_resnet_cifar10', _RESNET_NAMES),),
  )
  for depth in (20, 32, 44, 56, 110)
)
ARCHITECTURES = (_SMALL_CNN, *_RESNETS, wide_resnet(28, 10))
