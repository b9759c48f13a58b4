"""The residual networks of depth 6n + 2 for 32×32 images, with parameter-free shortcuts.

Where a stage halves the image, the shortcut takes every second pixel and adds zero channels,
half of them before and half after those that are there.

Reference: He et al., Deep Residual Learning for Image Recognition, section 4.2 (option A).
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.models import layers
from robustness.models.architecture import STEM_AND_STAGES, Architecture
from robustness.models.naming import Scheme

WIDTH = 16  # of the first stage


def shortcut(x: jax.Array, features: int, stride: int) -> jax.Array:
  """Returns every `stride`-th pixel of `x` [B, H, W, C], zero-padded to `features` channels."""
  missing = features - x.shape[-1]
  before = missing // 2
  x = x[:, ::stride, ::stride]
  return jnp.pad(x, ((0, 0), (0, 0), (0, 0), (before, missing - before)))


class Block(layers.Layer):
  """Two 3×3 convolutions with batch norm, added to the shortcut; ReLU comes last."""

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    y = layers.convolution(self.features, 3, self.stride, dtype=self.dtype, name='conv1')(x)
    y = nn.relu(layers.batch_norm(not train, **self.common, name='bn1')(y))
    y = layers.convolution(self.features, 3, dtype=self.dtype, name='conv2')(y)
    y = layers.batch_norm(not train, **self.common, name='bn2')(y)
    if self.stride != 1 or x.shape[-1] != self.features:
      x = shortcut(x, self.features, self.stride)
    return nn.relu(x + y)


class CifarResNet(layers.Network):
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
    x = layers.ConvNormRelu(WIDTH, **self.common, name='stem')(x.astype(self.dtype), train)
    x = layers.residual_stages(x, train, Block, WIDTH, 3 * (num_blocks,), **self.common)
    return layers.LinearHead(self.num_classes, name='head')(x)


_SCHEME = Scheme(
  'akamaster/pytorch_resnet_cifar10',
  {
    'stem/(conv|bn)': r'\g<1>1',
    r'stage(\d)/block(\d+)/(\w+)': r'layer\1.\2.\3',
    'head/dense': 'linear',
  },
)
ARCHITECTURES = tuple(
  Architecture(
    f'resnet{depth}',
    CifarResNet(10, depth),
    input_shape=(32, 32, 3),
    stages=STEM_AND_STAGES,
    source='He et al., Deep Residual Learning for Image Recognition, 2016 (option A shortcuts)',
    licence='weights of akamaster/pytorch_resnet_cifar10: BSD-2-Clause',
    schemes=(_SCHEME,),
  )
  for depth in (20, 32, 44, 56, 110)
)
