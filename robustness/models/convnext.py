"""ConvNeXt and ConvNeXt V2: depthwise 7×7 convolutions and two-layer perceptrons over channels.

V2 replaces layer scale, a learned factor per channel, by global response normalisation inside the
perceptrons.

References: Liu et al., A ConvNet for the 2020s, 2022, figures 4 and 9; Woo et al., ConvNeXt V2,
2023, section 3 and algorithm 1.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.architecture import STEM_AND_FOUR_STAGES, Architecture, timm
from robustness.models.layers import DepthwiseConv, Layer, LinearHead, Network, at_least_float32
from robustness.models.naming import Names, Scheme, Stored, reshaped
from robustness.models.transformer import LAYER_SCALE, activation, layer_norm

EPSILON = 1e-6
"""The ε of all norms."""
FROM_FEW, FROM_MANY = (3, 3, 9, 3), (3, 3, 27, 3)
"""Numbers of blocks of the four stages, in the tiny network and in all larger ones."""


class ResponseNorm(nn.Module):
  """Global response normalisation: x + β + γ x n, with trained γ and β for every channel.

  n is the L2 norm of a channel over the image, divided by the mean of these norms over all
  channels.
  """

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Normalises features [B, H, W, C] by their global response: x + β + γ x n.

    n is the L2 norm of a channel over the image divided by the mean of these norms over channels; γ
    (`scale`) and β (`bias`) are trained.
    """
    scale = self.param('scale', nn.initializers.zeros_init(), x.shape[-1:])[None, None, None]
    bias = self.param('bias', nn.initializers.zeros_init(), x.shape[-1:])[None, None, None]
    length = jnp.sqrt((at_least_float32(x) ** 2).sum((1, 2), keepdims=True))
    # n of the class's formula, [B, 1, 1, C]
    share = (length / (length.mean(-1, keepdims=True) + EPSILON)).astype(x.dtype)
    return x + bias.astype(x.dtype) + scale.astype(x.dtype) * x * share


class Block(Layer):
  """A depthwise convolution, layer norm and a two-layer perceptron, added to the input.

  Attributes:
    response: whether the block has global response normalisation (V2) instead of layer scale.
  """

  response: bool = False

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps features [B, H, W, C] to [B, H, W, C] by one residual block of ConvNeXt.

    It is a 7×7 depthwise convolution, a norm and two linear maps. ConvNeXt V2 has `ResponseNorm`
    between them, and ConvNeXt scales their result instead.
    """
    width = x.shape[-1]
    y = DepthwiseConv(7, dtype=self.dtype, use_bias=True, name='depthwise')(x)
    y = layer_norm(EPSILON, dtype=self.dtype, name='norm')(y)
    y = activation('gelu', nn.Dense(4 * width, dtype=self.dtype, name='fc1')(y))
    if self.response:
      y = ResponseNorm(name='response')(y)
    y = nn.Dense(width, dtype=self.dtype, name='fc2')(y)
    if not self.response:
      scale = self.param('scale', nn.initializers.constant(LAYER_SCALE), (width,))
      y = y * scale[None, None, None].astype(y.dtype)
    return x + self.drop_path(y)


class Stage(Layer):
  """A stage of a ConvNeXt: an optional halving of height and width, and blocks in sequence.

  Attributes:
    num_blocks: number of the blocks `block0`, `block1` and so on.
    width: number of output channels.
    halve: whether height and width are halved first.
    response: whether blocks have global response normalisation instead of layer scale.
  """

  num_blocks: int
  width: int
  halve: bool
  response: bool

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Applies the blocks of a stage, after halving both sides if `halve` is True.

    Args:
      x: [B, H, W, C].

    Returns:
      [B, H // 2, W // 2, width] with `halve`, else [B, H, W, C].
    """
    if self.halve:
      x = layer_norm(EPSILON, dtype=self.dtype, name='halve_norm')(x)
      x = nn.Conv(self.width, (2, 2), (2, 2), 'VALID', dtype=self.dtype, name='halve')(x)
    for index in range(self.num_blocks):
      x = Block(self.response, **self.common, name=f'block{index}')(x)
    return x


class ConvNext(Network):
  """A ConvNeXt, or a ConvNeXt V2 if `response` is True.

  Its layers are `stem` (normalised), `stage1` to `stage4`, `norm` (outputs [B, width]) and `head`.
  Stages consist of blocks `block0`, `block1` and so on. Blocks have `depthwise`, `norm`, `fc1`,
  `response` (only in V2) and `fc2`.

  Attributes:
    width: number of channels of the first stage. Each further stage doubles it.
    depths: numbers of blocks of the four stages.
    response: whether blocks have global response normalisation (V2) instead of layer scale.
  """

  can_drop_paths = True
  width: int = 96
  depths: tuple[int, ...] = FROM_FEW
  response: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C]; `train` has no effect."""
    patches = nn.Conv(self.width, (4, 4), (4, 4), 'VALID', dtype=self.dtype, name='patches')
    x = layer_norm(EPSILON, dtype=self.dtype, name='stem')(patches(x.astype(self.dtype)))
    for index, depth in enumerate(self.depths):
      stage = functools.partial(Stage, depth, self.width * 2**index, halve=index > 0)
      x = stage(response=self.response, **self.common, name=f'stage{index + 1}')(x)
    x = at_least_float32(x).mean((1, 2))
    x = layer_norm(EPSILON, dtype=x.dtype, name='norm')(x)
    return LinearHead(self.num_classes, pool=False, name='head')(x)


# Our names, and the names in timm, in the authors' two repositories and in transformers.
_OUTSIDE = {
  'patches': ('stem.0', 'downsample_layers.0.0', 'embeddings.patch_embeddings'),
  'stem': ('stem.1', 'downsample_layers.0.1', 'embeddings.layernorm'),
  'norm': ('head.norm', 'norm', 'layernorm'),
  'head/dense': ('head.fc', 'head', 'classifier'),
}
_HALVE = ('stages.{}.downsample', 'downsample_layers.{}', 'encoder.stages.{}.downsampling_layer')
_BLOCKS = ('stages.{}.blocks', 'stages.{}', 'encoder.stages.{}.layers')
_BLOCK = {
  'depthwise': ('conv_dw', 'dwconv', 'dwconv'),
  'norm': ('norm', 'norm', 'layernorm'),
  'fc1': ('mlp.fc1', 'pwconv1', 'pwconv1'),
  'fc2': ('mlp.fc2', 'pwconv2', 'pwconv2'),
  'response/scale': ('mlp.grn.weight', 'grn.gamma', 'grn.weight'),
  'response/bias': ('mlp.grn.bias', 'grn.beta', 'grn.bias'),
  'scale': ('gamma', 'gamma', 'layer_scale_parameter'),
}


def _schemes(version: str) -> tuple[Scheme, ...]:
  """Maps the variables of a ConvNeXt to the names in weight files of three projects.

  The projects are timm, the authors' repository and transformers.

  Args:
    version: '' for ConvNeXt, 'v2' for ConvNeXt V2.
  """
  projects = ('timm', f'facebookresearch/ConvNeXt{"-V2" if version else ""}', 'transformers')
  prefixes = ('', '', f'convnext{version}.')  # of all names in each project's files
  return tuple(
    Scheme(project, _names(column), prefix=prefixes[column])
    for column, project in enumerate(projects)
  )


def _names(column: int) -> Names:
  """Maps the variables of a ConvNeXt to the names in weight files of one project.

  Args:
    column: number of the project in the tables `_OUTSIDE`, `_HALVE`, `_BLOCKS` and `_BLOCK`; 0 for
      timm.

  Returns:
    {pattern of a variable's path: name in the files}.
  """
  as_image = reshaped(lambda shape: (1, 1, 1, *shape))
  table: Names = {ours: names[column] for ours, names in _OUTSIDE.items()}
  for stage in range(4):
    ours, halve = f'stage{stage + 1}', _HALVE[column].format(stage)
    # such as 'stages.1.downsample.0', a norm, and 'stages.1.downsample.1', a convolution
    table |= {f'{ours}/halve_norm': f'{halve}.0', f'{ours}/halve': f'{halve}.1'}
    # a part is a layer of a block, 'depthwise', or an array of a layer, 'response/scale'
    for part, names in _BLOCK.items():
      blocks = _BLOCKS[column].format(stage)  # such as 'stages.0.blocks'
      template = rf'{blocks}.\1.{names[column]}'  # \1 is the number of the block
      # all projects but timm store γ and β of response normalisation as [1, 1, 1, C]
      is_image = column > 0 and part.startswith('response/')
      table[rf'{ours}/block(\d+)/{part}'] = Stored((template,), as_image) if is_image else template
  return table


_SOURCES = {'': 'Liu et al., A ConvNet for the 2020s, 2022', 'v2': 'Woo et al., ConvNeXt V2, 2023'}


def _architecture(
  size: str, width: int, depths: tuple[int, ...], parameters: int, version: str = ''
) -> Architecture:
  """Describes a size of ConvNeXt with its published weights.

  Args:
    size: name of the size, 'tiny', 'small', 'base' or 'large'.
    width: channels of the first stage; each later stage doubles the number.
    depths: numbers of blocks of the four stages.
    parameters: number of parameters with 1000 classes.
    version: '' for ConvNeXt, 'v2' for ConvNeXt V2.
  """
  name = f'convnext{version}_{size}'
  if version:
    recipes, licence = ('fcmae_ft_in1k', 'fcmae_ft_in22k_in1k'), 'CC-BY-NC-4.0'
  else:
    recipes, licence = ('fb_in1k', 'fb_in22k_ft_in1k'), 'Apache-2.0'
  weights = [timm(name, f'{name}.{tag}', crop=0.875, licence=licence) for tag in recipes]
  return Architecture(
    name,
    ConvNext(width=width, depths=depths, response=bool(version)),
    stages=STEM_AND_FOUR_STAGES,
    source=_SOURCES[version],
    licence=f'weights of facebookresearch, also at timm: {licence}',
    schemes=_schemes(version),
    weights=tuple(weights),
    parameters=parameters,
    timm=name,
  )


ARCHITECTURES = (
  _architecture('tiny', 96, FROM_FEW, 28_589_128),
  _architecture('small', 96, FROM_MANY, 50_223_688),
  _architecture('base', 128, FROM_MANY, 88_591_464),
  _architecture('large', 192, FROM_MANY, 197_767_336),
  _architecture('tiny', 96, FROM_FEW, 28_635_496, 'v2'),
  _architecture('base', 128, FROM_MANY, 88_717_800, 'v2'),
  _architecture('large', 192, FROM_MANY, 197_956_840, 'v2'),
)
