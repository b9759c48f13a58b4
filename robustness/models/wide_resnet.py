"""Wide residual networks: pre-activation blocks, widened k times.

A block normalises and rectifies before each convolution. Where the width changes, the shortcut
is a 1×1 convolution of the rectified input; elsewhere it is the input itself.

Reference: Zagoruyko and Komodakis, Wide Residual Networks, section 2 and table 1 (no dropout).
"""

import flax.linen as nn
import jax

from robustness.core.errors import InputError
from robustness.models import layers
from robustness.models.architecture import STEM_AND_STAGES, Architecture
from robustness.models.naming import Scheme

STEM_FEATURES = 16


class Block(layers.Layer):
  """Norm, ReLU and 3×3 convolution, twice, added to the shortcut; the sum is not rectified."""

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, ceil(H / stride), ceil(W / stride), features]."""
    active = layers.NormRelu(**self.common, name='norm1')(x, train)
    y = layers.convolution(self.features, 3, self.stride, dtype=self.dtype, name='conv1')(active)
    y = layers.NormRelu(**self.common, name='norm2')(y, train)
    y = layers.convolution(self.features, 3, dtype=self.dtype, name='conv2')(y)
    if x.shape[-1] != self.features:
      x = layers.convolution(self.features, 1, self.stride, dtype=self.dtype, name='shortcut')(
        active
      )
    return x + y


class WideResNet(layers.Network):
  """A wide residual network for small images.

  Layers: `stem` (the first convolution alone), `stage1` to `stage3` (sums before the next norm,
  as pre-activation has it), in them `block0`, `block1`, ..., then `final` (the last norm and
  ReLU) and `head`.

  Attributes:
    depth: 6n + 4 weighted layers, n blocks a stage.
    width: k, which widens the stages to 16k, 32k and 64k channels; at least 2.
  """

  depth: int = 28
  width: int = 10

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`.

    Raises:
      InputError: there is no n ≥ 1 with depth = 6n + 4, or the width is below 2.
    """
    if self.depth < 10 or self.depth % 6 != 4:
      raise InputError(
        f'depth {self.depth} is no Wide ResNet: the depth is 6n + 4, for example 16, 28 or 40'
      )
    if self.width < 2:
      raise InputError(f'width {self.width} is no Wide ResNet: the widening factor is 2 or more')
    x = layers.convolution(STEM_FEATURES, 3, dtype=self.dtype, name='stem')(x.astype(self.dtype))
    num_blocks = 3 * ((self.depth - 4) // 6,)
    x = layers.residual_stages(
      x, train, Block, STEM_FEATURES * self.width, num_blocks, **self.common
    )
    x = layers.NormRelu(**self.common, name='final')(x, train)
    return layers.LinearHead(self.num_classes, name='head')(x)


_SCHEME = Scheme(
  'xternalz/WideResNet-pytorch',
  {
    'stem': 'conv1',
    r'stage(\d)/block(\d+)/conv(\d)': r'block\1.layer.\2.conv\3',
    r'stage(\d)/block(\d+)/norm(\d)/bn': r'block\1.layer.\2.bn\3',
    r'stage(\d)/block(\d+)/shortcut': r'block\1.layer.\2.convShortcut',
    'final/bn': 'bn1',
    'head/dense': 'fc',
  },
)


def architecture(depth: int, width: int) -> Architecture:
  """Returns the Wide ResNet of `depth` layers widened `width` times."""
  return Architecture(
    f'wide_resnet_{depth}_{width}',
    WideResNet(10, depth, width),
    input_shape=(32, 32, 3),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    stages=STEM_AND_STAGES,
    source='Zagoruyko and Komodakis, Wide Residual Networks, 2016 (no dropout)',
    licence="state dicts with the names conv1, block1.layer.0, ..., fc: their authors' terms",
    schemes=(_SCHEME,),
  )


ARCHITECTURES = (architecture(28, 10),)
