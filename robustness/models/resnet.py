"""ResNet-18, -34, -50, -101 and -152 for ImageNet, with batch norm or with group norm.

Bottlenecks are of version 1.5: the 3×3 convolution has the stride, not the 1×1 before it. With
group norm, 32 groups of channels are normalised in each image by itself, so a training step and an
evaluation compute the same.

References: He et al., Deep Residual Learning for Image Recognition, 2016, table 1; Wu and He, Group
Normalization, 2018, section 3.
"""

import functools

import flax.linen as nn
import jax

from robustness.models import layers
from robustness.models.architecture import STEM_AND_FOUR_STAGES, Architecture, timm, torchvision
from robustness.models.naming import Names, Scheme

BLOCKS_PER_STAGE = {
  18: (2, 2, 2, 2),
  34: (3, 4, 6, 3),
  50: (3, 4, 6, 3),
  101: (3, 4, 23, 3),
  152: (3, 8, 36, 3),
}
STEM_FEATURES = 64
EXPANSION = 4
"""Output channels divided by input channels of the last convolution of a bottleneck."""


class Block(layers.Layer):
  """A residual block of two 3×3 convolutions, or a bottleneck of 1×1, 3×3 and 1×1 convolutions.

  Attributes:
    features: channels of the 3×3 convolutions. A bottleneck has 4 × `features` output channels.
    bottleneck: whether the block is a bottleneck.
    norm: 'batch' or 'group'.
    stride: stride of the first 3×3 convolution.
  """

  features: int
  bottleneck: bool
  norm: layers.Norm = 'batch'
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies a residual block, to [B, ⌈H / stride⌉, ⌈W / stride⌉, output channels].

    It has two 3×3 convolutions or, with `bottleneck`, a 3×3 one between two 1×1 ones.

    Args:
      x: [B, H, W, C].
      train: whether batch norm normalises by the batch.
    """
    outputs = self.features * (EXPANSION if self.bottleneck else 1)
    layer = functools.partial(
      layers.ConvNorm, rectified=False, norm=self.norm, norm_name='norm', **self.common
    )
    y = x
    kernels = (1, 3, 1) if self.bottleneck else (3, 3)
    strides = (1, self.stride, 1) if self.bottleneck else (self.stride, 1)
    for number, (kernel, stride) in enumerate(zip(kernels, strides, strict=True), start=1):
      is_last = number == len(kernels)
      features = outputs if is_last else self.features
      y = layer(features, kernel, stride, name=f'layer{number}')(y, train)
      y = y if is_last else nn.relu(y)
    if self.stride != 1 or x.shape[-1] != outputs:  # the shortcut must have the shape of y
      x = layer(outputs, 1, self.stride, name='shortcut')(x, train)
    return nn.relu(x + y)


class ResNet(layers.Network):
  """A residual network for images of about 224×224 pixels.

  Its layers are `stem` (convolution, norm and ReLU, before the pooling), `stage1` to `stage4` (each
  after its last ReLU) and `head`. Stages consist of blocks `block0`, `block1` and so on.

  Attributes:
    depth: number of weighted layers, a key of `BLOCKS_PER_STAGE`.
    norm: 'batch' or 'group'.
  """

  depth: int = 50
  norm: layers.Norm = 'batch'

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    With `train`, batch norm normalises by the batch and updates its running statistics.
    """
    layer = functools.partial(layers.ConvNorm, norm=self.norm, norm_name='norm', **self.common)
    stem = layer(STEM_FEATURES, kernel=7, stride=2, name='stem')
    x = layers.max_pool(stem(x.astype(self.dtype), train), padding=1)
    block = functools.partial(Block, bottleneck=self.depth >= 50, norm=self.norm)
    num_blocks = BLOCKS_PER_STAGE[self.depth]
    x = layers.residual_stages(x, train, block, STEM_FEATURES, num_blocks, **self.common)
    return layers.LinearHead(self.num_classes, name='head')(x)


_NAMES: Names = {
  'stem/conv': 'conv1',
  'stem/norm': 'bn1',
  r'stage(\d)/block(\d+)/layer(\d)/conv': r'layer\1.\2.conv\3',
  r'stage(\d)/block(\d+)/layer(\d)/norm': r'layer\1.\2.bn\3',
  r'stage(\d)/block(\d+)/shortcut/conv': r'layer\1.\2.downsample.0',
  r'stage(\d)/block(\d+)/shortcut/norm': r'layer\1.\2.downsample.1',
  'head/dense': 'fc',
}


# number of parameters by depth, with 1000 classes
_PARAMETERS = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}
# published weights besides timm's 'a1_in1k', by name of the network
_FURTHER_WEIGHTS = {
  'resnet50_gn': (timm('resnet50_gn', 'resnet50_gn.a1h_in1k', crop=0.94),),
  'resnet18': (torchvision('resnet18', 'f37072fd'),),
  'resnet34': (torchvision('resnet34', 'b627a593'),),
  'resnet50': (
    torchvision('resnet50', '0676ba61'),
    torchvision('resnet50', '11ad3fa6', version=2, resize=232),
  ),
}


def _architecture(depth: int, norm: layers.Norm) -> Architecture:
  """Describes a ResNet with its published weights.

  Args:
    depth: number of weighted layers, a key of `_PARAMETERS`.
    norm: 'batch' or 'group'. With 'group', only a depth of 50 has published weights.
  """
  has_groups = norm == 'group'
  name = f'resnet{depth}' + ('_gn' if has_groups else '')
  weights = _FURTHER_WEIGHTS.get(name, ())
  if not has_groups:
    weights = timm(name, f'{name}.a1_in1k'), *weights
  return Architecture(
    name,
    ResNet(depth=depth, norm=norm),
    stages=STEM_AND_FOUR_STAGES,
    source='He et al., Deep Residual Learning for Image Recognition, 2016 (version 1.5)'
    + ('; Wu and He, Group Normalization, 2018' if has_groups else ''),
    licence='weights of torchvision: BSD-3-Clause; of timm: Apache-2.0',
    schemes=(Scheme('timm and torchvision', _NAMES),),
    weights=weights,
    parameters=_PARAMETERS[depth],
    timm=name if weights else '',
  )


_NORMS: tuple[layers.Norm, ...] = ('batch', 'group')
ARCHITECTURES = tuple(_architecture(depth, norm) for norm in _NORMS for depth in _PARAMETERS)
