"""Big Transfer's ResNets: pre-activation, group norm, weights standardised before every use.

The pooling after the first convolution pads with zeros, as Big Transfer does, and not with −∞.

Reference: Kolesnikov et al., Big Transfer (BiT): General Visual Representation Learning, 2020,
section 2; Qiao et al., Micro-Batch Training with Batch-Channel Normalization and Weight
Standardization, 2019, equation 7.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models import layers
from robustness.models.architecture import SIGNED, STEM_AND_FOUR_STAGES, Architecture, timm
from robustness.models.convolution_gradients import DIMENSIONS
from robustness.models.naming import AS_IS, OUTPUT_FIRST_POINTWISE, POINTWISE, Names, Scheme, Stored
from robustness.models.resnet import BLOCKS_PER_STAGE, EXPANSION, STEM_FEATURES

STANDARDISATION_EPSILON = 1e-10
"""The number that is added to the variance of a kernel, as in the authors' code."""


def standardise(kernel: jax.Array) -> jax.Array:
  """Returns a kernel [h, w, in, out] with mean 0 and variance 1 for each output channel."""
  mean = kernel.mean((0, 1, 2), keepdims=True)
  variance = kernel.var((0, 1, 2), keepdims=True)
  return (kernel - mean) * jax.lax.rsqrt(variance + STANDARDISATION_EPSILON)


class StandardisedConv(layers.Layer):
  """A square convolution without bias. Its kernel is standardised before every use."""

  features: int
  kernel: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Convolves with a kernel that is standardised, to [B, ⌈H / stride⌉, ⌈W / stride⌉, features].

    Each filter of the kernel gets mean 0 and variance 1 first.

    Args:
      x: [B, H, W, C].
    """
    shape = (self.kernel, self.kernel, x.shape[-1], self.features)
    kernel = standardise(self.param('kernel', layers.he_normal, shape)).astype(self.dtype)
    strides, pad = (self.stride, self.stride), self.kernel // 2
    pads = ((pad, pad), (pad, pad))
    return jax.lax.conv_general_dilated(x, kernel, strides, pads, dimension_numbers=DIMENSIONS)


class Block(layers.Layer):
  """A pre-activation bottleneck of 1×1, 3×3 and 1×1 convolutions, added to the shortcut.

  If the width or the size changes, the shortcut is a 1×1 convolution of the rectified input.
  """

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies a bottleneck block, to [B, ⌈H / stride⌉, ⌈W / stride⌉, 4 × features].

    Group norm and ReLU come before each of its three convolutions.

    Args:
      x: [B, H, W, C].
      train: without effect, as group norm is the same in training.
    """
    outputs = EXPANSION * self.features
    active = nn.relu(layers.GroupNorm(dtype=self.dtype, name='norm1')(x))
    y = StandardisedConv(self.features, kernel=1, **self.common, name='conv1')(active)
    y = nn.relu(layers.GroupNorm(dtype=self.dtype, name='norm2')(y))
    y = StandardisedConv(self.features, 3, self.stride, **self.common, name='conv2')(y)
    y = nn.relu(layers.GroupNorm(dtype=self.dtype, name='norm3')(y))
    y = StandardisedConv(outputs, kernel=1, **self.common, name='conv3')(y)
    if self.stride != 1 or x.shape[-1] != outputs:  # the shortcut must have the shape of y
      x = StandardisedConv(outputs, 1, self.stride, **self.common, name='shortcut')(active)
    return x + y


class BitResNet(layers.Network):
  """A Big Transfer ResNet.

  Its layers are `stem` (only the first convolution), `stage1` to `stage4` (the last residual sum of
  each), `final` (the last norm, before its ReLU) and `head`. Stages consist of blocks `block0`,
  `block1` and so on.

  Attributes:
    depth: number of weighted layers, a key of `BLOCKS_PER_STAGE`.
    width: factor of the number of channels in all layers except the head.
  """

  depth: int = 50
  width: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C]; `train` has no effect."""
    features = STEM_FEATURES * self.width
    stem = StandardisedConv(features, kernel=7, stride=2, **self.common, name='stem')
    x = jnp.pad(stem(x.astype(self.dtype)), ((0, 0), (1, 1), (1, 1), (0, 0)))  # by zeros, as in BiT
    x = layers.max_pool(x)
    num_blocks = BLOCKS_PER_STAGE[self.depth]
    x = layers.residual_stages(x, train, Block, features, num_blocks, **self.common)
    x = nn.relu(layers.GroupNorm(dtype=self.dtype, name='final')(x))
    return layers.LinearHead(self.num_classes, name='head')(x)


_TIMM: Names = {
  'stem': 'stem.conv',
  'final': 'norm',
  'head/dense': Stored(('head.fc',), OUTPUT_FIRST_POINTWISE),
}
for stage in range(4):
  _TIMM[rf'stage{stage + 1}/block(\d+)/(conv.|norm.)'] = rf'stages.{stage}.blocks.\1.\2'
  _TIMM[rf'stage{stage + 1}/block(\d+)/shortcut'] = rf'stages.{stage}.blocks.\1.downsample.conv'
_SCHEMES = (
  Scheme('timm', _TIMM),
  Scheme(
    'google-research/big_transfer',
    {
      'stem': 'resnet/root_block',
      **{
        rf'stage(\d)/block{block}/{ours}': rf'resnet/block\1/unit{block + 1:02d}/{theirs}'
        for block in range(max(BLOCKS_PER_STAGE[101]))
        # '....1' matches conv1 and norm1
        for ours, theirs in (('....1', 'a'), ('....2', 'b'), ('....3', 'c'), ('shortcut', 'a/proj'))
      },
      'final': 'resnet',
      'head/dense/kernel': Stored(('resnet/head/conv2d/kernel',), POINTWISE),
      'head/dense/bias': 'resnet/head/conv2d/bias',
    },
    suffixes={
      'kernel': '/standardized_conv2d/kernel',
      'scale': '/group_norm/gamma',
      'bias': '/group_norm/beta',
    },
    kernel=AS_IS,
  ),
)


def _architecture(depth: int, width: int, parameters: int) -> Architecture:
  """Describes a Big Transfer ResNet with the authors' weights, which timm publishes too.

  Args:
    depth: number of layers, as in the name.
    width: factor of all numbers of channels.
    parameters: number of parameters with 1000 classes.
  """
  name = f'bit_r{depth}x{width}'
  timm_name = f'resnetv2_{depth}x{width}_bit'
  published = f'{timm_name}.goog_in21k_ft_in1k'
  return Architecture(
    name,
    BitResNet(depth=depth, width=width),
    **SIGNED,
    stages=STEM_AND_FOUR_STAGES,
    source='Kolesnikov et al., Big Transfer (BiT): General Visual Representation Learning, 2020',
    licence='weights of google-research/big_transfer, and of timm: Apache-2.0',
    schemes=_SCHEMES,
    weights=(timm(name, published, side=448, crop=1.0, interpolation='bilinear', **SIGNED),),
    parameters=parameters,
    timm=timm_name,
  )


ARCHITECTURES = (
  _architecture(50, 1, 25_549_352),
  _architecture(101, 1, 44_541_480),
  _architecture(50, 3, 217_319_080),
  _architecture(101, 3, 387_934_888),
)
