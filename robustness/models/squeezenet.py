"""SqueezeNet 1.0 and 1.1: small networks of squeezed and expanded layers, without norms.

Reference: Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, 2016,
table 1; version 1.1 is the authors' later release with a smaller first kernel and earlier pooling.
"""

from __future__ import annotations

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from robustness.models.architecture import STEM_AND_STAGES, Architecture
from robustness.models.layers import FEATURES, Layer, Network, at_least_float32, he_normal, max_pool
from robustness.models.naming import OUTPUT_FIRST_POINTWISE, Path, Scheme, Stored, pytorch_array
from robustness.models.pretrained import torchvision

SQUEEZED = (16, 16, 32, 32, 48, 48, 64, 64)  # channels of fire2 to fire9; expanded: 8 times


class Plan(NamedTuple):
  """Width and side of the first convolution; the fire modules of each stage, by their numbers."""

  features: int
  kernel: int
  stages: tuple[tuple[int, ...], ...]


PLANS = {
  '1.0': Plan(96, 7, ((2, 3, 4), (5, 6, 7, 8), (9,))),
  '1.1': Plan(64, 3, ((2, 3), (4, 5), (6, 7, 8, 9))),
}


def _convolution(
  features: int, kernel: int, stride: int, padding: int, dtype: DTypeLike, name: str
) -> nn.Conv:
  """Returns a square convolution with bias."""
  sides, strides = (kernel, kernel), (stride, stride)
  return nn.Conv(features, sides, strides, padding, dtype=dtype, kernel_init=he_normal, name=name)


class Fire(Layer):
  """A 1×1 convolution to few channels, then 1×1 and 3×3 convolutions side by side."""

  squeezed: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, H, W, 8 × squeezed], after the ReLU."""
    x = nn.relu(_convolution(self.squeezed, 1, 1, 0, self.dtype, 'squeeze')(x))
    expanded = 4 * self.squeezed
    small = _convolution(expanded, 1, 1, 0, self.dtype, 'expand1x1')(x)
    large = _convolution(expanded, 3, 1, 1, self.dtype, 'expand3x3')(x)
    return nn.relu(jnp.concatenate([small, large], axis=-1))


class Stem(Layer):
  """The first convolution and its ReLU as one layer; no padding."""

  features: int
  kernel: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, (H − kernel) // 2 + 1, (W − kernel) // 2 + 1, features]."""
    return nn.relu(_convolution(self.features, self.kernel, 2, 0, self.dtype, 'conv')(x))


class Stage(Layer):
  """Maximum over 3×3 windows, then fire modules."""

  numbers: tuple[int, ...]

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, H // 2, W // 2, 8 × squeezed of the last]."""
    x = max_pool(x, whole=True)
    for number in self.numbers:
      x = Fire(SQUEEZED[number - 2], **self.common, name=f'fire{number}')(x)
    return x


class RectifiedHead(nn.Module):
  """A linear map of each position, ReLU, and the mean over all positions, in float32 or wider."""

  num_classes: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps features [B, H, W, C] to logits [B, num_classes], none below 0."""
    x = at_least_float32(x)
    self.sow('intermediates', FEATURES, jnp.mean(x, axis=(1, 2)))
    x = nn.Dense(self.num_classes, dtype=x.dtype, name='dense')(x)
    return jnp.mean(nn.relu(x), axis=(1, 2))


class SqueezeNet(Network):
  """SqueezeNet without dropout.

  Layers: `stem` (convolution and ReLU), `stage1` to `stage3` (pooling and the fire modules up to
  the next), in them `fire2`, ..., `fire9`, and `head`. All logits are 0 or more.

  Attributes:
    version: a key of `PLANS`.
  """

  version: str = '1.1'

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`; sides are 21 pixels or more, and nothing is different in training."""
    del train
    plan = PLANS[self.version]
    x = Stem(plan.features, plan.kernel, **self.common, name='stem')(x.astype(self.dtype))
    for index, numbers in enumerate(plan.stages):
      x = Stage(numbers, **self.common, name=f'stage{index + 1}')(x)
    return RectifiedHead(self.num_classes, name='head')(x)


def _schemes(version: str) -> tuple[Scheme, ...]:
  """Returns torchvision's names, which count the poolings and the ReLU of the stem too."""
  indices: dict[str, int] = {}
  index = 2  # after the first convolution and its ReLU
  for numbers in PLANS[version].stages:
    for number in numbers:
      index += 1
      indices[f'fire{number}'] = index
    index += 1

  def locate(path: Path) -> Stored:
    *layer, leaf = path[1:]
    if layer[0] == 'head':
      return pytorch_array('classifier.1', leaf, OUTPUT_FIRST_POINTWISE)
    if layer[0] == 'stem':
      return pytorch_array('features.0', leaf)
    return pytorch_array(f'features.{indices[layer[1]]}.{layer[2]}', leaf)

  return (Scheme('torchvision', locate),)


def _architecture(version: str, digest: str, parameters: int) -> Architecture:
  name = f'squeezenet{version.replace(".", "_")}'
  return Architecture(
    name,
    SqueezeNet(version=version),
    stages=STEM_AND_STAGES,
    source='Iandola et al., SqueezeNet, 2016',
    licence='weights of torchvision: BSD-3-Clause',
    schemes=_schemes(version),
    weights=(torchvision(name, digest),),
    parameters=parameters,
  )


ARCHITECTURES = (
  _architecture('1.0', 'b66bff10', 1_248_424),
  _architecture('1.1', 'b8a52dc0', 1_235_496),
)
