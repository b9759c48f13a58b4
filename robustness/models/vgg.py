"""VGG-16 and VGG-19, plain and with batch norm: 3×3 convolutions between poolings.

Reference: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image
Recognition, 2015, table 1, columns D and E.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from robustness.models import layers
from robustness.models.architecture import Architecture, timm, torchvision
from robustness.models.naming import FLAT_IMAGE, OUTPUT_FIRST_POINTWISE, Names, Scheme, Stored

CONVOLUTIONS_PER_STAGE = {16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
WIDTHS = (64, 128, 256, 512, 512)
POOLED_SIDE = 7
HIDDEN = 4096


class Stage(layers.Layer):
  """3×3 convolutions with ReLU and optional batch norm, then the maximum of 2×2 windows."""

  features: int
  num_convolutions: int
  with_norm: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, H // 2, W // 2, features]."""
    convolution = functools.partial(nn.Conv, dtype=self.dtype, kernel_init=layers.he_normal)
    for index in range(self.num_convolutions):
      x = convolution(self.features, (3, 3), padding=1, name=f'conv{index}')(x)
      if self.with_norm:
        x = layers.batch_norm(not train, **self.common, name=f'norm{index}')(x)
      x = nn.relu(x)
    return nn.max_pool(x, (2, 2), (2, 2))


class Perceptron(layers.Layer):
  """Means over 7×7 parts of the image, two hidden layers with ReLU, and the map to logits."""

  num_classes: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps features [B, H, W, C] to logits [B, num_classes], in float32 or wider."""
    side = (POOLED_SIDE, POOLED_SIDE)
    flat = nn.Conv(HIDDEN, side, padding='VALID', dtype=self.dtype, name='fc1')
    x = nn.relu(flat(part_means(x, POOLED_SIDE))[:, 0, 0])
    x = nn.relu(nn.Dense(HIDDEN, dtype=self.dtype, name='fc2')(x))
    x = layers.at_least_float32(x)
    self.sow('intermediates', layers.FEATURES, x)
    return nn.Dense(self.num_classes, dtype=x.dtype, name='dense')(x)


class VGG(layers.Network):
  """VGG without dropout.

  Layers: `stage1` to `stage5`, each after its pooling, and `head`, in it `fc1` and `fc2`.

  Attributes:
    depth: number of weighted layers, a key of `CONVOLUTIONS_PER_STAGE`.
    with_norm: whether batch norm follows every convolution.
  """

  depth: int = 16
  with_norm: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`; sides are 32 pixels or more."""
    x = x.astype(self.dtype)
    for index, number in enumerate(CONVOLUTIONS_PER_STAGE[self.depth]):
      stage = Stage(WIDTHS[index], number, self.with_norm, **self.common, name=f'stage{index + 1}')
      x = stage(x, train)
    return Perceptron(self.num_classes, **self.common, name='head')(x)


def part_means(x: jax.Array, parts: int) -> jax.Array:
  """Returns the means of `x` [B, H, W, C] over a grid of parts, [B, parts, parts, C].

  Part i of a side of n pixels covers ⌊i n / parts⌋ to ⌈(i + 1) n / parts⌉; parts overlap if n is
  not a multiple of `parts`.
  """
  index = np.arange(parts)[:, None]

  def averages(side: int) -> jax.Array:
    """Returns the matrix [parts, side] of means over parts of a side."""
    pixels = np.arange(side)[None, :]
    inside = (pixels >= index * side // parts) & (pixels < -(-(index + 1) * side // parts))
    return jnp.asarray(inside / inside.sum(axis=1, keepdims=True), x.dtype)

  return jnp.einsum('ph,bhwc,qw->bpqc', averages(x.shape[1]), x, averages(x.shape[2]))


def _schemes(depth: int, with_norm: bool) -> tuple[Scheme, ...]:
  """Returns torchvision's and timm's names, which count ReLUs and poolings too."""
  features: Names = {}
  index = 0
  for stage, number in enumerate(CONVOLUTIONS_PER_STAGE[depth], start=1):
    for convolution in range(number):
      features[f'stage{stage}/conv{convolution}'] = f'features.{index}'
      features[f'stage{stage}/norm{convolution}'] = f'features.{index + 1}'
      index += 3 if with_norm else 2
    index += 1
  torchvision: Names = {
    'head/fc1': Stored(('classifier.0',), FLAT_IMAGE),
    'head/fc2': 'classifier.3',
    'head/dense': 'classifier.6',
  }
  timm: Names = {
    'head/fc1': 'pre_logits.fc1',
    'head/fc2': Stored(('pre_logits.fc2',), OUTPUT_FIRST_POINTWISE),
    'head/dense': 'head.fc',
  }
  return Scheme('torchvision', features | torchvision), Scheme('timm', features | timm)


def _architecture(depth: int, with_norm: bool, parameters: int) -> Architecture:
  """Describes a VGG network with the weights of torchvision, also at timm.

  Args:
    depth: number of layers with weights, 16 or 19.
    with_norm: whether a batch norm follows each convolution.
    parameters: number of parameters with 1000 classes.
  """
  name = f'vgg{depth}' + ('_bn' if with_norm else '')
  published = f'{name}.tv_in1k'
  weights = timm(name, published, crop=0.875, interpolation='bilinear', licence='BSD-3-Clause')
  return Architecture(
    name,
    VGG(depth=depth, with_norm=with_norm),
    stages=('stage1', 'stage2', 'stage3', 'stage4', 'stage5'),
    source='Simonyan and Zisserman, Very Deep Convolutional Networks, 2015',
    licence='weights of torchvision: BSD-3-Clause; of timm: Apache-2.0',
    schemes=_schemes(depth, with_norm),
    weights=(weights, torchvision(name, '397923af')) if name == 'vgg16' else (weights,),
    parameters=parameters,
    timm=name,
  )


ARCHITECTURES = (
  _architecture(16, False, 138_357_544),
  _architecture(19, False, 143_667_240),
  _architecture(16, True, 138_365_992),
  _architecture(19, True, 143_678_248),
)
