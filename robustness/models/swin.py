"""Swin transformers: attention within windows, which every other block shifts by half a window.

Windows have 7 × 7 patches, or the size of the image if that is smaller. A learned table holds a
bias that is added to the attention scores, for each offset between two patches of a window. For
windows of another size than the weights were trained with, the table is resampled, see
`robustness.models.position_embedding.resample_window`.

Reference: Liu et al., Swin Transformer: Hierarchical Vision Transformer using Shifted Windows,
2021, sections 3.1 to 3.3.
"""

import functools
from typing import TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from robustness.models.architecture import STEM_AND_FOUR_STAGES, Architecture, timm, torchvision
from robustness.models.layers import Layer, LinearHead, Network
from robustness.models.naming import OUTPUT_FIRST, Names, Scheme, Stored
from robustness.models.position_embedding import WINDOW_BIAS, Grid
from robustness.models.transformer import Perceptron, SelfAttention, layer_norm

EPSILON = 1e-5
"""The ε of layer normalisation."""
WINDOW = 7
"""The side of a window in patches."""
APART = -100.0
"""The number that is added to scores of pairs of patches that only the shift brought together."""
Array = TypeVar('Array', np.ndarray, jax.Array)
norm = functools.partial(layer_norm, EPSILON)


def bias_indices(sides: tuple[int, int]) -> np.ndarray:
  """Returns the rows of Swin's bias table for all pairs of patches in a window, int [N, N].

  The first axis is the query and the second the key. A query y patches below and x patches to the
  right of its key has the row (y + h − 1)(2w − 1) + x + w − 1.

  Args:
    sides: height h and width w of a window in patches, with N = h · w.
  """
  height, width = sides
  rows, columns = np.indices(sides).reshape(2, -1)  # of every patch, [N] each
  y, x = rows[:, None] - rows, columns[:, None] - columns  # of the query minus the key
  return (y + height - 1) * (2 * width - 1) + x + width - 1


def shift_mask(padded: Grid, window: Grid, shift: Grid) -> np.ndarray:
  """Returns the bias [windows, 1, N, N] that prevents attention across the borders of the image.

  A cyclic shift brings patches from opposite borders into one window. The bias is −100 for such
  pairs of patches, and 0 for all others. If the image is padded after the shift, as in timm, some
  of these pairs get 0.

  Args:
    padded: height and width of the features in patches, multiples of the window's.
    window: height and width of a window in patches, with N patches in all.
    shift: number of patches of the shift up and left.
  """
  # [height, width]; patches of equal regions were neighbours before the shift
  regions = np.zeros(padded, int)
  for axis, (side, window_side, moved) in enumerate(zip(padded, window, shift, strict=True)):
    if moved:
      index = np.arange(side)
      in_last_window = index >= side - window_side
      from_other_border = index >= side - moved
      # for 8 rows, windows of 4 and a shift by 2 the parts are 0 0 0 0 1 1 2 2
      part = in_last_window.astype(int) + from_other_border
      # each pair of a row's part and a column's part, which are below 3, is another region
      regions = 3 * regions + np.expand_dims(part, 1 - axis)
  region = windows(regions[None, :, :, None], window)[0, :, :, 0]  # [windows, N]
  is_apart = region[:, None, :] != region[:, :, None]
  return (is_apart * np.float32(APART))[:, None]


def windows(x: Array, sides: tuple[int, int]) -> Array:
  """Cuts features [B, H, W, C] into windows [B, windows, N, C], row by row.

  Args:
    x: features.
    sides: height and width of a window in patches, with N patches in all. They divide H and W.
  """
  (count, height, width, channels), (h, w) = x.shape, sides  # h × w patches in a window
  x = x.reshape(count, height // h, h, width // w, w, channels).transpose(0, 1, 3, 2, 4, 5)
  return x.reshape(count, -1, h * w, channels)


def from_windows(x: jax.Array, image: tuple[int, int], sides: tuple[int, int]) -> jax.Array:
  """Joins windows [B, windows, N, C] to features [B, H, W, C], the inverse of `windows`.

  Args:
    x: the windows.
    image: H and W.
    sides: height and width of a window in patches.
  """
  (height, width), (h, w) = image, sides  # h × w patches in a window
  x = x.reshape(-1, height // h, width // w, h, w, x.shape[-1]).transpose(0, 1, 3, 2, 4, 5)
  return x.reshape(-1, height, width, x.shape[-1])


class Block(Layer):
  """A transformer block with attention within windows.

  A shift is cyclic: patches that leave on one side return on the opposite side. They cannot attend
  to their new neighbours, unless the image is padded to whole windows, see `shift_mask`.

  Attributes:
    num_heads: number of attention heads.
    window: side of a window in patches. Along a side with at most `window` patches, there is one
      window and no shift.
    shifted: whether windows are shifted down and right by half a window.
  """

  num_heads: int
  window: int
  shifted: bool

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Applies attention within windows of patches, and a perceptron, with residual connections.

    If `shifted` is True, windows are shifted by half a side, so that they join patches of different
    windows of the block before.

    Args:
      x: patches [B, H, W, C].

    Returns:
      [B, H, W, C].
    """
    _, rows, columns, _ = x.shape
    window_height, window_width = min(rows, self.window), min(columns, self.window)
    window = window_height, window_width
    shift = self.window // 2 if self.shifted else 0
    # along a side with a single window nothing is shifted
    shift_up = shift if rows > self.window else 0
    shift_left = shift if columns > self.window else 0
    # rows and columns of zeros that fill the last windows
    pad_below, pad_right = -rows % window_height, -columns % window_width
    padded = rows + pad_below, columns + pad_right
    num_offsets = (2 * window_height - 1) * (2 * window_width - 1)
    table = self.param(WINDOW_BIAS, nn.initializers.normal(0.02), (num_offsets, self.num_heads))
    bias = jnp.moveaxis(table[bias_indices(window)], -1, 0)  # [heads, N, N], N patches in a window
    bias = bias[None, None]  # [1, 1, heads, N, N] for scores [B, windows, heads, N, N]
    y = norm(dtype=self.dtype, name='norm1')(x)
    if shift_up or shift_left:  # −100 hides patches that only the cyclic shift makes neighbours
      y = jnp.roll(y, (-shift_up, -shift_left), (1, 2))
      bias += jnp.asarray(shift_mask(padded, window, (shift_up, shift_left)))[None]
    y = windows(jnp.pad(y, ((0, 0), (0, pad_below), (0, pad_right), (0, 0))), window)
    y = SelfAttention(self.num_heads, **self.common, name='attention')(y, bias=bias)
    y = from_windows(y, padded, window)[:, :rows, :columns]
    y = jnp.roll(y, (shift_up, shift_left), (1, 2))  # undoes the shift
    x = x + self.drop_path(y, branch=0)
    y = norm(dtype=self.dtype, name='norm2')(x)
    return x + self.drop_path(Perceptron(**self.common, name='mlp')(y), branch=1)


class Stage(Layer):
  """A stage of a Swin transformer: an optional halving of the image, then blocks.

  Attributes:
    num_blocks: number of blocks, named `block0`, `block1` and so on.
    num_heads: number of attention heads.
    window: side of a window in patches.
    join: whether each square of 2 × 2 patches is first joined to one patch.
  """

  num_blocks: int
  num_heads: int
  window: int
  join: bool

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Applies the blocks of a stage, after joining squares of 2 × 2 patches if `join` is True.

    Args:
      x: patches [B, H, W, C].

    Returns:
      [B, ⌈H / 2⌉, ⌈W / 2⌉, 2C] with `join`, else [B, H, W, C].
    """
    if self.join:
      count, height, width, channels = x.shape
      x = jnp.pad(x, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)))  # to even sides
      rows, columns = (height + 1) // 2, (width + 1) // 2
      # channels of the upper left, lower left, upper right and lower right patch of each square
      x = x.reshape(count, rows, 2, columns, 2, channels)
      x = x.transpose(0, 1, 3, 4, 2, 5).reshape(count, rows, columns, -1)
      x = norm(dtype=self.dtype, name='join_norm')(x)
      x = nn.Dense(2 * channels, use_bias=False, dtype=self.dtype, name='join')(x)
    for index in range(self.num_blocks):
      block = functools.partial(Block, self.num_heads, self.window, shifted=index % 2 == 1)
      x = block(**self.common, name=f'block{index}')(x)
    return x


class Swin(Network):
  """A Swin transformer.

  Its layers are `stem` (normalised), `stage1` to `stage4`, `norm` and `head`. Stages consist of
  blocks `block0`, `block1` and so on. Blocks have `norm1`, `attention` (outputs of windows),
  `norm2` and `mlp`.

  Attributes:
    width: number of channels of the first stage. Each further stage doubles it.
    depths: numbers of blocks of the four stages.
    num_heads: number of attention heads of the first stage. Each further stage doubles it.
    window: side of a window in patches.
  """

  can_drop_paths = True
  width: int = 96
  depths: tuple[int, ...] = (2, 2, 6, 2)
  num_heads: int = 3
  window: int = WINDOW

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C]; `train` has no effect."""
    patches = nn.Conv(self.width, (4, 4), (4, 4), 'VALID', dtype=self.dtype, name='patches')
    x = norm(dtype=self.dtype, name='stem')(patches(x.astype(self.dtype)))
    for index, depth in enumerate(self.depths):
      stage = functools.partial(Stage, depth, self.num_heads * 2**index, self.window)
      x = stage(join=index > 0, **self.common, name=f'stage{index + 1}')(x)
    x = norm(dtype=self.dtype, name='norm')(x)
    return LinearHead(self.num_classes, name='head')(x)


_PROJECTS = ('timm', 'microsoft/Swin-Transformer', 'torchvision', 'transformers')
# our names, and the names of each project in the order of `_PROJECTS`
_EMBEDDINGS, _TABLE = 'embeddings.patch_embeddings.projection', 'relative_position_bias_table'
# three layers, with spaces between their names
_QKV = ' '.join(f'attention.self.{part}' for part in ('query', 'key', 'value'))
_OUTSIDE = {
  'patches': ('patch_embed.proj', 'patch_embed.proj', 'features.0.0', _EMBEDDINGS),
  'stem': ('patch_embed.norm', 'patch_embed.norm', 'features.0.2', 'embeddings.norm'),
  'norm': ('norm', 'norm', 'norm', 'layernorm'),
  'head/dense': ('head.fc', 'head', 'head', 'classifier'),
}
_BLOCK = {
  'norm1': ('norm1', 'norm1', 'norm1', 'layernorm_before'),
  'norm2': ('norm2', 'norm2', 'norm2', 'layernorm_after'),
  'attention/qkv': ('attn.qkv', 'attn.qkv', 'attn.qkv', _QKV),
  'attention/out': ('attn.proj', 'attn.proj', 'attn.proj', 'attention.output.dense'),
  WINDOW_BIAS: (*(f'attn.{_TABLE}',) * 3, f'attention.self.{_TABLE}'),
  'mlp/fc1': ('mlp.fc1', 'mlp.fc1', 'mlp.0', 'intermediate.dense'),
  'mlp/fc2': ('mlp.fc2', 'mlp.fc2', 'mlp.3', 'output.dense'),
}


def _names(column: int) -> Names:
  r"""Maps Swin's variables to the names in one project's weight files.

  For example, r'stage1/block(\d+)/mlp/fc1' is timm's r'layers.0.blocks.\1.mlp.fc1', in which `\1`
  is the number of the block. transformers stores our layer `qkv` as three: query, key and value.

  Args:
    column: index of the project in `_PROJECTS`, and of its names in `_OUTSIDE` and `_BLOCK`.
  """
  project = _PROJECTS[column]
  table: Names = {ours: names[column] for ours, names in _OUTSIDE.items()}
  layers = 'encoder.layers' if project == 'transformers' else 'layers'
  for stage in range(4):
    # their names of the blocks, and of the layer that joins 2 × 2 patches before the stage
    blocks = f'{layers}.{stage}.blocks'
    if project == 'torchvision':  # features.0 is the stem; then blocks and joins alternate
      join, blocks = f'features.{2 * stage}', f'features.{2 * stage + 1}'
    elif project == 'timm':  # the join is the first layer of the stage
      join = f'{layers}.{stage}.downsample'
    else:  # the join is the last layer of the stage before
      join = f'{layers}.{stage - 1}.downsample'
    ours = f'stage{stage + 1}'
    if stage > 0:  # no patches are joined before the first stage
      table |= {f'{ours}/join': f'{join}.reduction', f'{ours}/join_norm': f'{join}.norm'}
    for part, names in _BLOCK.items():
      theirs = tuple(rf'{blocks}.\1.{name}' for name in names[column].split(' '))
      entry = theirs[0] if len(theirs) == 1 else Stored(theirs, OUTPUT_FIRST)
      table[rf'{ours}/block(\d+)/{part}'] = entry
  return table


_IGNORED = ('*relative_position_index', '*.attn_mask')
_SCHEMES = tuple(
  Scheme(project, _names(column), _IGNORED, prefix='swin.' if project == 'transformers' else '')
  for column, project in enumerate(_PROJECTS)
)


def _swin(size: str, network: Swin, parameters: int, digest: str, resize: int) -> Architecture:
  """Describes a Swin transformer with the weights of timm and torchvision.

  Args:
    size: 'tiny', 'small' or 'base'.
    network: the network of this size.
    parameters: number of parameters with 1000 classes.
    digest: first eight digits of the SHA-256 of torchvision's file.
    resize: shorter side in pixels before the crop, for torchvision's weights.
  """
  name = f'swin_{size}'
  timm_name = f'{name}_patch4_window7_224'
  recipes = ('ms_in1k', 'ms_in22k_ft_in1k')
  published = [timm(name, f'{timm_name}.{tag}', crop=0.9, licence='MIT') for tag in recipes]
  short = f'swin_{size[0]}'
  published.append(torchvision(name, digest, resize=resize, theirs=short, interpolation='bicubic'))
  return Architecture(
    name,
    network,
    stages=STEM_AND_FOUR_STAGES,
    source='Liu et al., Swin Transformer, 2021',
    licence='weights of microsoft/Swin-Transformer and timm: MIT; of torchvision: BSD-3-Clause',
    schemes=_SCHEMES,
    weights=tuple(published),
    parameters=parameters,
    timm=timm_name,
  )


ARCHITECTURES = (
  _swin('tiny', Swin(), 28_288_354, '704ceda3', 232),
  _swin('small', Swin(depths=(2, 2, 18, 2)), 49_606_258, '5e29d889', 246),
  _swin('base', Swin(width=128, depths=(2, 2, 18, 2), num_heads=4), 87_768_224, '68c6b09e', 238),
)
