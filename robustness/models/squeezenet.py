"""SqueezeNet 1.0 and 1.1: small networks of squeezed and expanded layers, without norms.

Reference: Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, 2016,
table 1; version 1.1 is the authors' later release with a smaller first kernel and earlier pooling.
"""

import functools
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.architecture import STEM_AND_STAGES, Architecture, torchvision
from robustness.models.layers import FEATURES, Layer, Network, at_least_float32, he_normal, max_pool
from robustness.models.naming import OUTPUT_FIRST_POINTWISE, Names, Scheme, Stored

SQUEEZED = (16, 16, 32, 32, 48, 48, 64, 64)
"""The number of squeezed channels of the modules fire2 to fire9; each outputs 8 times this."""


class Plan(NamedTuple):
  """The sizes of a version of SqueezeNet.

  Attributes:
    features: number of output channels of the first convolution.
    kernel: side of the kernel of the first convolution in pixels.
    stages: numbers of the fire modules in each stage, such as 2 for the paper's fire2.
  """

  features: int
  kernel: int
  stages: tuple[tuple[int, ...], ...]


PLANS = {
  '1.0': Plan(features=96, kernel=7, stages=((2, 3, 4), (5, 6, 7, 8), (9,))),
  '1.1': Plan(features=64, kernel=3, stages=((2, 3), (4, 5), (6, 7, 8, 9))),
}


class Fire(Layer):
  """SqueezeNet's fire module: a 1×1 convolution, then a 1×1 and a 3×3 convolution in parallel.

  The outputs of the parallel convolutions, with 4 · `squeezed` channels each, are concatenated.

  Attributes:
    squeezed: number of channels after the first convolution.
  """

  squeezed: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Applies a fire module of SqueezeNet, [B, H, W, C] to [B, H, W, 8 · squeezed].

    A 1×1 convolution squeezes the channels; a 1×1 and a 3×3 convolution of the result are joined.
    """
    convolution = functools.partial(nn.Conv, dtype=self.dtype, kernel_init=he_normal)
    x = nn.relu(convolution(self.squeezed, (1, 1), name='squeeze')(x))
    small = convolution(4 * self.squeezed, (1, 1), name='expand1x1')(x)
    large = convolution(4 * self.squeezed, (3, 3), name='expand3x3')(x)
    return nn.relu(jnp.concatenate([small, large], axis=-1))


class Stem(Layer):
  """The first convolution and its ReLU as one named layer, without padding."""

  features: int
  kernel: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, (H − kernel) // 2 + 1, (W − kernel) // 2 + 1, features]."""
    convolution = functools.partial(nn.Conv, dtype=self.dtype, kernel_init=he_normal, name='conv')
    sides = (self.kernel, self.kernel)
    return nn.relu(convolution(self.features, sides, strides=(2, 2), padding='VALID')(x))


class Stage(Layer):
  """Max pooling with 3×3 windows, then fire modules.

  Attributes:
    numbers: numbers of the fire modules, such as 2 for `fire2`.
  """

  numbers: tuple[int, ...]

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Halves both sides by a maximum and applies the fire modules of a stage.

    Args:
      x: [B, H, W, C].

    Returns:
      [B, H // 2, W // 2, 8 · squeezed channels of the last module].
    """
    x = max_pool(x, covers_all=True)
    for number in self.numbers:  # the paper's first fire module is fire2
      x = Fire(SQUEEZED[number - 2], **self.common, name=f'fire{number}')(x)
    return x


class RectifiedHead(nn.Module):
  """The last layer: a 1×1 convolution to classes, ReLU, and the mean over positions.

  It is computed in float32 or wider.
  """

  num_classes: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps features [B, H, W, C] to logits [B, num_classes] ≥ 0.

    A linear map and a ReLU apply at each position, and their means over positions are the logits.
    """
    x = at_least_float32(x)
    self.sow('intermediates', FEATURES, jnp.mean(x, axis=(1, 2)))
    x = nn.Dense(self.num_classes, dtype=x.dtype, name='dense')(x)
    return jnp.mean(nn.relu(x), axis=(1, 2))


class SqueezeNet(Network):
  """SqueezeNet without dropout. Its logits are never negative.

  Its layers are `stem` (convolution and ReLU), `stage1` to `stage3` and `head`. Stages consist of a
  pooling and some of the fire modules `fire2`, ..., `fire9`.

  Attributes:
    version: '1.0' or '1.1'.
  """

  version: str = '1.1'

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] ≥ 0 of normalised images [B, H, W, C].

    Images need sides of at least 21 pixels. `train` has no effect, since there is no dropout.
    """
    plan = PLANS[self.version]
    x = Stem(plan.features, plan.kernel, **self.common, name='stem')(x.astype(self.dtype))
    for index, numbers in enumerate(plan.stages):
      x = Stage(numbers, **self.common, name=f'stage{index + 1}')(x)
    return RectifiedHead(self.num_classes, name='head')(x)


def _scheme(version: str) -> Scheme:
  """Maps SqueezeNet's variables to torchvision's names in weight files.

  For example, `fire2` of `stage1` is features.3, since torchvision also counts the stem's ReLU and
  each pooling.

  Args:
    version: '1.0' or '1.1'.
  """
  table: Names = {
    'stem/conv': 'features.0',
    'head/dense': Stored(('classifier.1',), OUTPUT_FIRST_POINTWISE),
  }
  for stage, numbers in enumerate(PLANS[version].stages, start=1):
    for number in numbers:
      table[rf'stage{stage}/fire{number}/(\w+)'] = rf'features.{number + stage}.\1'
  return Scheme('torchvision', table)


def _network(version: str, digest: str, parameters: int) -> Architecture:
  """Describes a SqueezeNet with torchvision's weights.

  Args:
    version: '1.0' or '1.1'.
    digest: first eight digits of the SHA-256 of the weights file.
    parameters: number of parameters with 1000 classes.
  """
  name = f'squeezenet{version.replace(".", "_")}'
  return Architecture(
    name,
    SqueezeNet(version=version),
    stages=STEM_AND_STAGES,
    source='Iandola et al., SqueezeNet, 2016',
    licence='weights of torchvision: BSD-3-Clause',
    schemes=(_scheme(version),),
    weights=(torchvision(name, digest),),
    parameters=parameters,
  )


ARCHITECTURES = (_network('1.0', 'b66bff10', 1_248_424), _network('1.1', 'b8a52dc0', 1_235_496))
