"""CLIP's towers; the image towers as classifiers: a unit-length embedding, then a linear map.

For a zero-shot classifier the map's kernel holds the embedding of each class, times CLIP's scale,
and its bias is zero; `robustness.models.zero_shot` makes it from the text tower. A linear probe
has the same form.

The ResNet-50 has three convolutions for a stem. Every stride is an average pool before a
convolution of stride 1, so that halving aliases less. The pool at the end is attention, of which
the only query is the mean of all positions.

Reference: Radford et al., Learning Transferable Visual Models From Natural Language Supervision,
2021, section 2.4 and figure 3.
"""

from __future__ import annotations

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.architecture import STEM_AND_STAGES, Architecture
from robustness.models.layers import (
  ConvNormRelu,
  Layer,
  LinearHead,
  Network,
  Stage,
  at_least_float32,
  batch_norm,
  convolution,
)
from robustness.models.naming import Path, Scheme, Stored, pytorch_array, reshaped
from robustness.models.transformer import (
  Activation,
  Block,
  PatchEmbedding,
  attend,
  layer_norm,
  table_scheme,
)

EPSILON = 1e-5
RESNET_SIZE, TRANSFORMER_SIZE = 1024, 512  # of an embedding
BLOCKS_PER_STAGE, STEM_FEATURES = (3, 4, 6, 3), 64
CONTEXT, VOCABULARY = 77, 49408
TEXT_WIDTH, TEXT_DEPTH, TEXT_HEADS = 512, 12, 8
HEAD = 'zero_shot_head'


class UnitLength(nn.Module):
  """Divides each embedding by its length, as one layer whose output can be captured."""

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, E] to [B, E] of length 1, in float32 or wider."""
    x = at_least_float32(x)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


class ClipTransformer(Network):
  """The vision transformer tower with its head: 12 blocks of width 768 with 12 heads.

  Layers: `embedding`, `pre_norm`, `block0` to `block11`, `norm`, `projection` (the embedding of
  the image, [B, 512]), `unit` (the same at length 1) and `head`.

  Attributes:
    patch: side of a patch in pixels.
    activation: 'gelu', or 'quick_gelu' for OpenAI's weights and those trained like them.
  """

  patch: int = 32
  activation: Activation = 'gelu'

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`; nothing is different in training."""
    del train
    x = PatchEmbedding(self.patch, 768, use_bias=False, **self.common, name='embedding')(
      x.astype(self.dtype)
    )
    x = layer_norm(EPSILON, dtype=self.dtype, name='pre_norm')(x)
    for index in range(12):
      x = Block(12, self.activation, EPSILON, **self.common, name=f'block{index}')(x)
    x = layer_norm(EPSILON, dtype=self.dtype, name='norm')(x)[:, 0]
    x = nn.Dense(TRANSFORMER_SIZE, use_bias=False, dtype=self.dtype, name='projection')(x)
    return LinearHead(self.num_classes, pool=False, name='head')(UnitLength(name='unit')(x))


def average_pool(x: jax.Array, side: int) -> jax.Array:
  """Returns the means of squares of `side` pixels of `x` [B, H, W, C]; a remainder is dropped."""
  return nn.avg_pool(x, (side, side), (side, side)) if side > 1 else x


class Stem(Layer):
  """Three 3×3 convolutions, the first of stride 2, and an average pool."""

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, 3] to [B, H // 4, W // 4, 64]."""
    for index, features in enumerate((STEM_FEATURES // 2, STEM_FEATURES // 2, STEM_FEATURES)):
      stride = 2 if index == 0 else 1
      x = ConvNormRelu(features, 3, stride, **self.common, name=f'layer{index + 1}')(x, train)
    return average_pool(x, 2)


class Bottleneck(Layer):
  """1×1, 3×3 and 1×1 convolutions; pools before the last where others stride."""

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps [B, H, W, C] to [B, H // stride, W // stride, 4 features]."""
    y = ConvNormRelu(self.features, 1, **self.common, name='layer1')(x, train)
    y = ConvNormRelu(self.features, 3, **self.common, name='layer2')(y, train)
    y = average_pool(y, self.stride)
    y = convolution(4 * self.features, 1, dtype=self.dtype, name='conv3')(y)
    y = batch_norm(train, **self.common, name='bn3')(y)
    if self.stride > 1 or x.shape[-1] != 4 * self.features:
      x = average_pool(x, self.stride)
      x = convolution(4 * self.features, 1, dtype=self.dtype, name='shortcut_conv')(x)
      x = batch_norm(train, **self.common, name='shortcut_bn')(x)
    return nn.relu(x + y)


class AttentionPool(Layer):
  """Attention of the mean position to all positions, and to itself.

  Attributes:
    size: of the result.
    num_heads: divides the number of channels.
  """

  size: int
  num_heads: int = 32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, H, W, C] to [B, size]."""
    width = x.shape[-1]
    x = x.reshape(x.shape[0], -1, width)
    x = jnp.concatenate([x.mean(1, keepdims=True), x], axis=1)
    position = self.param('position', nn.initializers.normal(width**-0.5), (x.shape[1], width))
    x = x + position[None].astype(x.dtype)

    def heads(name: str, tokens: jax.Array) -> jax.Array:
      y = nn.Dense(width, dtype=self.dtype, name=name)(tokens)
      return y.reshape(*y.shape[:2], self.num_heads, -1)

    pooled = attend(heads('query', x[:, :1]), heads('key', x), heads('value', x))
    return nn.Dense(self.size, dtype=self.dtype, name='out')(pooled.reshape(-1, width))


class ClipResNet(Network):
  """The ResNet-50 tower with its head.

  Layers: `stem`, `stage1` to `stage4` (each after its last ReLU), `attention_pool` (the embedding
  of the image, [B, 1024]), `unit` (the same at length 1) and `head`.
  """

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`."""
    x = Stem(**self.common, name='stem')(x.astype(self.dtype), train)
    for index, num_blocks in enumerate(BLOCKS_PER_STAGE):
      block = functools.partial(Bottleneck, STEM_FEATURES * 2**index)
      stride = 1 if index == 0 else 2
      x = Stage(block, num_blocks, stride, **self.common, name=f'stage{index + 1}')(x, train)
    x = AttentionPool(RESNET_SIZE, **self.common, name='attention_pool')(x)
    return LinearHead(self.num_classes, pool=False, name='head')(UnitLength(name='unit')(x))


class TextTower(Layer):
  """The text tower of CLIP RN50 and ViT-B/32: a causal transformer, read out at the end of text.

  The end-of-text token has the highest id of all.

  Attributes:
    size: of the embedding, 1024 for RN50 and 512 for ViT-B/32.
    activation: 'gelu', or 'quick_gelu' for OpenAI's weights and those trained like them.
  """

  size: int = 512
  activation: Activation = 'gelu'

  @nn.compact
  def __call__(self, tokens: jax.Array) -> jax.Array:
    """Maps token ids int32 [B, 77] to embeddings float32 [B, size], not of unit length."""
    x = nn.Embed(VOCABULARY, TEXT_WIDTH, dtype=self.dtype, name='tokens')(tokens)
    position = self.param('position', nn.initializers.normal(0.01), (CONTEXT, TEXT_WIDTH))
    x = x + position[None].astype(x.dtype)
    for index in range(TEXT_DEPTH):
      x = Block(TEXT_HEADS, self.activation, EPSILON, True, **self.common, name=f'block{index}')(x)
    x = layer_norm(EPSILON, dtype=self.dtype, name='norm')(x)
    last = tokens.argmax(-1)
    x = jnp.take_along_axis(x, last[:, None, None], axis=1)[:, 0]
    x = nn.Dense(self.size, use_bias=False, dtype=self.dtype, name='projection')(x)
    return x.astype(jnp.float32)


_BLOCKS = {
  'block#/norm1': 'transformer.resblocks.#.ln_1',
  'block#/attention/qkv': 'transformer.resblocks.#.attn.in_proj',
  'block#/attention/out': 'transformer.resblocks.#.attn.out_proj',
  'block#/norm2': 'transformer.resblocks.#.ln_2',
  'block#/mlp/fc1': 'transformer.resblocks.#.mlp.c_fc',
  'block#/mlp/fc2': 'transformer.resblocks.#.mlp.c_proj',
}
_IMAGE_TABLE = table_scheme(
  'open_clip',
  {
    'embedding/patches': 'visual.conv1',
    'pre_norm': 'visual.ln_pre',
    **{ours: f'visual.{theirs}' for ours, theirs in _BLOCKS.items()},
    'norm': 'visual.ln_post',
    'head/dense': HEAD,
  },
)
_TEXT_TABLE = table_scheme(
  'open_clip', {**_BLOCKS, 'position': 'positional_embedding', 'norm': 'ln_final'}
)
_TEXT_ARRAYS = (
  'transformer.*',
  'token_embedding.weight',
  'positional_embedding',
  'ln_final.*',
  'text_projection',
  'logit_scale',
  'attn_mask',
  '*.num_batches_tracked',
)


def _locate_transformer(path: Path) -> Stored:
  alone: dict[Path, Stored] = {
    ('embedding', 'class_token'): Stored(
      ('visual.class_embedding',), reshaped(lambda shape: shape[2:])
    ),
    ('embedding', 'position'): Stored(
      ('visual.positional_embedding',), reshaped(lambda shape: shape[1:])
    ),
    ('projection', 'kernel'): Stored(('visual.proj',)),
  }
  return alone.get(path[1:]) or _IMAGE_TABLE.locate(path)


def _locate_resnet(path: Path) -> Stored:
  if path[1:] == ('attention_pool', 'position'):
    return Stored(('visual.attnpool.positional_embedding',))
  layer = HEAD if path[1] == 'head' else f'visual.{_resnet_layer(path[1:-1])}'
  return pytorch_array(layer, path[-1])


def _resnet_layer(path: tuple[str, ...]) -> str:
  """Returns what open_clip calls the tower's layer at `path`, as `layer1.0.downsample.0`."""
  if path[0] == 'attention_pool':
    return f'attnpool.{path[1][0].replace("o", "c")}_proj'
  inside = {
    'conv3': 'conv3',
    'bn3': 'bn3',
    'shortcut_conv': 'downsample.0',
    'shortcut_bn': 'downsample.1',
  }
  layer = inside.get(path[-1]) or f'{path[-1]}{path[-2].removeprefix("layer")}'
  if path[0] == 'stem':
    return layer
  stage, block = path[0].removeprefix('stage'), path[1].removeprefix('block')
  return f'layer{stage}.{block}.{layer}'


def _locate_text(path: Path) -> Stored:
  alone: dict[Path, str] = {
    ('tokens', 'embedding'): 'token_embedding.weight',
    ('projection', 'kernel'): 'text_projection',
  }
  name = alone.get(path[1:])
  return Stored((name,)) if name else _TEXT_TABLE.locate(path)


TEXT_SCHEME = Scheme('open_clip', _locate_text, ('visual.*', 'logit_scale', 'attn_mask'))
"""The names in state dicts of open_clip; the image tower's arrays are left out."""


@dataclasses.dataclass(frozen=True)
class Clip(Architecture):
  """An image tower of CLIP.

  Attributes:
    text: the text tower, which embeds into the same space.
  """

  text: TextTower = TextTower()


def _architecture(name: str, activation: Activation) -> Clip:
  """Returns a tower with the names of open_clip, and a name for the head that they lack.

  The text tower's arrays are left out; `robustness.models.zero_shot` makes the head from them.
  """
  quick, is_resnet = activation == 'quick_gelu', name == 'rn50'
  project = 'open_clip, plus a head that python -m robustness.models.zero_shot makes'
  locate = _locate_resnet if is_resnet else _locate_transformer
  return Clip(
    f'clip_{name}' + ('_quickgelu' if quick else ''),
    ClipResNet() if is_resnet else ClipTransformer(activation=activation),
    mean=(0.48145466, 0.4578275, 0.40821073),
    std=(0.26862954, 0.26130258, 0.27577711),
    stages=(*STEM_AND_STAGES, 'stage4')
    if is_resnet
    else ('embedding', 'block2', 'block5', 'block8', 'block11'),
    source='Radford et al., Learning Transferable Visual Models From Natural Language '
    'Supervision, 2021 (' + ('as OpenAI trained it' if quick else 'with GELU') + ')',
    licence='weights of OpenAI and of open_clip: MIT',
    schemes=(Scheme(project, locate, _TEXT_ARRAYS, headless='visual.'),),
    text=TextTower(RESNET_SIZE if is_resnet else TRANSFORMER_SIZE, activation),
  )


ARCHITECTURES = (
  _architecture('rn50', 'gelu'),
  _architecture('rn50', 'quick_gelu'),
  _architecture('vit_b32', 'gelu'),
  _architecture('vit_b32', 'quick_gelu'),
)
