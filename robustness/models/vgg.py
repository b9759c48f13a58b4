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
"""The number of convolutions in each of the five stages, by the depth of the network."""
WIDTHS = (64, 128, 256, 512, 512)
"""The number of channels of each stage."""
POOLED_SIDE = 7
"""Cells per side of the grid that the head averages over; a 224×224 image has 7×7 features."""
HIDDEN = 4096
"""The width of the two hidden layers of the head."""


class Stage(layers.Layer):
  """3×3 convolutions with optional batch norm and ReLU, then max pooling of 2×2 windows.

  Attributes:
    features: number of output channels of every convolution.
    num_convolutions: number of convolutions before the pooling.
    with_norm: whether batch norm follows every convolution.
  """

  features: int
  num_convolutions: int
  with_norm: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies the 3×3 convolutions of a stage, each with a ReLU, and halves both sides.

    Args:
      x: [B, H, W, C].
      train: whether batch norm, if the network has it, normalises by the batch.

    Returns:
      [B, H // 2, W // 2, features].
    """
    convolution = functools.partial(nn.Conv, dtype=self.dtype, kernel_init=layers.he_normal)
    for index in range(self.num_convolutions):
      x = convolution(self.features, (3, 3), padding=1, name=f'conv{index}')(x)
      if self.with_norm:
        x = layers.batch_norm(not train, **self.common, name=f'norm{index}')(x)
      x = nn.relu(x)
    return nn.max_pool(x, (2, 2), (2, 2))


class Perceptron(layers.Layer):
  """VGG's head: average pooling to 7×7, two hidden layers with ReLU, and a linear map to logits."""

  num_classes: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps features [B, H, W, C] to logits [B, num_classes] by three linear layers.

    Features are first averaged to 7 × 7 cells. The logits are in float32 or wider.
    """
    # a linear map of all 7 × 7 cells, as a convolution with one position
    sides = (POOLED_SIDE, POOLED_SIDE)
    linear = nn.Conv(HIDDEN, sides, padding='VALID', dtype=self.dtype, name='fc1')
    x = nn.relu(linear(part_means(x, POOLED_SIDE))[:, 0, 0])
    x = nn.relu(nn.Dense(HIDDEN, dtype=self.dtype, name='fc2')(x))
    x = layers.at_least_float32(x)
    self.sow('intermediates', layers.FEATURES, x)
    return nn.Dense(self.num_classes, dtype=x.dtype, name='dense')(x)


class VGG(layers.Network):
  """A VGG network without dropout.

  Its layers are `stage1` to `stage5`, each after its pooling, and `head`. The head has layers `fc1`
  and `fc2`.

  Attributes:
    depth: number of weighted layers, a key of `CONVOLUTIONS_PER_STAGE`.
    with_norm: whether batch norm follows every convolution.
  """

  depth: int = 16
  with_norm: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of images [B, H, W, C] with sides of at least 32 pixels.

    With `train`, batch norm normalises by the batch and updates its running statistics.
    """
    x = x.astype(self.dtype)
    sizes = zip(WIDTHS, CONVOLUTIONS_PER_STAGE[self.depth], strict=True)
    for number, (width, num_convolutions) in enumerate(sizes, start=1):
      stage = functools.partial(Stage, width, num_convolutions, self.with_norm, **self.common)
      x = stage(name=f'stage{number}')(x, train)
    return Perceptron(self.num_classes, **self.common, name='head')(x)


def part_means(x: jax.Array, parts: int) -> jax.Array:
  """Averages `x` [B, H, W, C] in each cell of a grid, [B, parts, parts, C].

  As in PyTorch's adaptive average pooling, cells overlap if a side is not a multiple of `parts`.
  Along a side of n pixels, cell i has the pixels from ⌊i n / parts⌋ up to but not including
  ⌈(i + 1) n / parts⌉.

  Args:
    x: features [B, H, W, C].
    parts: number of cells along each side.
  """
  cells = np.arange(parts)[:, None]

  def averages(side: int) -> jax.Array:
    """Returns the matrix [parts, side] that maps a row of pixels to the means of `parts` cells.

    Cell i has the pixels from ⌊i side / parts⌋ up to but not including ⌈(i + 1) side / parts⌉.
    """
    pixels = np.arange(side)[None, :]
    begin, end = cells * side // parts, -(-(cells + 1) * side // parts)  # rounded down and up
    is_inside = (pixels >= begin) & (pixels < end)
    return jnp.asarray(is_inside / is_inside.sum(axis=1, keepdims=True), x.dtype)

  return jnp.einsum('ph,bhwc,qw->bpqc', averages(x.shape[1]), x, averages(x.shape[2]))


def _schemes(depth: int, with_norm: bool) -> tuple[Scheme, ...]:
  """Maps VGG's variables to the names in torchvision's and in timm's weight files.

  Both name a convolution by its position among all layers, for instance `features.0` and
  `features.2`. ReLUs and poolings count too. The names differ only in the head.

  Args:
    depth: number of weighted layers, a key of `CONVOLUTIONS_PER_STAGE`.
    with_norm: whether batch norm follows every convolution.
  """
  features: Names = {}
  index = 0
  for stage, num_convolutions in enumerate(CONVOLUTIONS_PER_STAGE[depth], start=1):
    for convolution in range(num_convolutions):
      features[f'stage{stage}/conv{convolution}'] = f'features.{index}'
      # without norms this name is not used; the position has a ReLU
      features[f'stage{stage}/norm{convolution}'] = f'features.{index + 1}'
      index += 3 if with_norm else 2  # with the ReLU
    index += 1  # the pooling
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
  _architecture(16, with_norm=False, parameters=138_357_544),
  _architecture(19, with_norm=False, parameters=143_667_240),
  _architecture(16, with_norm=True, parameters=138_365_992),
  _architecture(19, with_norm=True, parameters=143_678_248),
)
