"""The image and text networks ('towers') of CLIP and SigLIP.

An image tower becomes a classifier by a linear map of its embedding, which has length 1. For a
zero-shot classifier (`robustness.models.zero_shot`) the kernel of this map holds the embedding of
each class's text times CLIP's scale. A linear probe has the same form.

CLIP's ResNet-50 has a stem of three convolutions. Blocks that halve the image use average pooling
and convolutions of stride 1, which reduces aliasing. The last pooling is attention with a single
query, the mean over all positions.

SigLIP and SigLIP 2 have no class token; a learned query pools the patches. Their text tower attends
to the whole text including padding. They were trained with a sigmoid for each pair of image and
text, so that files hold a bias in addition to the scale. GELU in the image tower is exact, as in
timm. The authors' code approximates it by tanh, as open_clip does in the text tower of SigLIP 2
only.

References: Radford et al., Learning Transferable Visual Models From Natural Language Supervision,
2021, section 2.4 and figure 3; Zhai et al., Sigmoid Loss for Language Image Pre-Training, 2023,
sections 3.2 and 4; Tschannen et al., SigLIP 2, 2025, section 2.
"""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models import layers, transformer
from robustness.models.architecture import CLIP, SIGNED, STEM_AND_FOUR_STAGES, Architecture
from robustness.models.naming import OUTPUT_FIRST, Names, Scheme, Stored, reshaped
from robustness.models.resnet import EXPANSION
from robustness.models.vit import SIZES, TIMM, Size, VisionTransformer, stages

EPSILON = 1e-5
"""The ε of layer normalisation in CLIP."""
RESNET_SIZE = 1024
"""Length of the embeddings of CLIP's ResNet-50."""
BLOCKS_PER_STAGE, STEM_FEATURES = (3, 4, 6, 3), 64
"""The blocks of CLIP's ResNet-50, and its number of channels after the stem."""
CONTEXT, VOCABULARY = 77, 49408
"""The number of tokens of a text in CLIP, and of different tokens."""
HEAD_WIDTH = 64
"""Number of channels of an attention head in CLIP's text towers."""
HEAD = 'zero_shot_head'
"""The name in files of the head that this project adds."""
WITH_HEAD = 'open_clip, plus a head that python -m robustness.models.zero_shot makes'
SIGLIP_CONTEXT, END_OF_TEXT = 64, 1
"""The number of tokens of a text in SigLIP, and the id of the token that ends and fills it."""


def average_pool(x: jax.Array, side: int) -> jax.Array:
  """Returns the means over `side` × `side` squares of features [B, H, W, C].

  Rows and columns that do not fill a square are dropped.
  """
  return nn.avg_pool(x, (side, side), (side, side)) if side > 1 else x


class Stem(layers.Layer):
  """Three 3×3 convolutions, the first of stride 2, and an average pool."""

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps images [B, H, W, 3] to features [B, H // 4, W // 4, 64].

    It consists of three convolutions, the first one with stride 2, and an average pooling.
    """
    for index, features in enumerate((STEM_FEATURES // 2, STEM_FEATURES // 2, STEM_FEATURES)):
      stride, name = 2 if index == 0 else 1, f'layer{index + 1}'
      x = layers.ConvNorm(features, kernel=3, stride=stride, **self.common, name=name)(x, train)
    return average_pool(x, side=2)


class Bottleneck(layers.Layer):
  """1×1, 3×3 and 1×1 convolutions plus a shortcut; average pools divide the sides by `stride`.

  Attributes:
    features: number of inner channels, a quarter of the output channels.
    stride: divisor of height and width.
  """

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Applies a residual block of CLIP's ResNet, to [B, H // stride, W // stride, 4 · features].

    Strides are average poolings, in the block and in the shortcut.

    Args:
      x: [B, H, W, C].
      train: whether batch norm normalises by the batch.
    """
    outputs = EXPANSION * self.features
    y = layers.ConvNorm(self.features, kernel=1, **self.common, name='layer1')(x, train)
    y = layers.ConvNorm(self.features, kernel=3, **self.common, name='layer2')(y, train)
    y = average_pool(y, self.stride)
    y = layers.convolution(outputs, kernel=1, dtype=self.dtype, name='conv3')(y)
    y = layers.batch_norm(not train, **self.common, name='bn3')(y)
    if self.stride > 1 or x.shape[-1] != outputs:  # the shortcut must have the shape of y
      x = average_pool(x, self.stride)
      x = layers.convolution(outputs, kernel=1, dtype=self.dtype, name='shortcut_conv')(x)
      x = layers.batch_norm(not train, **self.common, name='shortcut_bn')(x)
    return nn.relu(x + y)


class AttentionPool(layers.Layer):
  """Attention pooling of features [B, H, W, C] to embeddings [B, size].

  The single query is the mean over all positions. Keys and values are this mean and all positions,
  with a learned position embedding.

  Attributes:
    size: length of the embeddings.
    num_heads: number of attention heads.
  """

  size: int
  num_heads: int = 32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Pools features of all positions to one embedding by attention, [B, H, W, C] to [B, size].

    The only query is the mean of all positions. Keys and values are the mean and all positions,
    with a learned position embedding.
    """
    width = x.shape[-1]
    x = x.reshape(x.shape[0], -1, width)
    x = jnp.concatenate([x.mean(1, keepdims=True), x], axis=1)  # the first token is the mean
    position = self.param('position', nn.initializers.normal(width**-0.5), (x.shape[1], width))
    x = x + position[None].astype(x.dtype)

    def heads(name: str, tokens: jax.Array) -> jax.Array:
      """Applies a linear layer to tokens, and splits the result into heads.

      Args:
        name: name of the layer.
        tokens: [B, N, channels].

      Returns:
        [B, N, heads, width / heads].
      """
      y = nn.Dense(width, dtype=self.dtype, name=name)(tokens)
      return y.reshape(*y.shape[:2], self.num_heads, -1)

    pooled = transformer.attend(heads('query', x[:, :1]), heads('key', x), heads('value', x))
    return nn.Dense(self.size, dtype=self.dtype, name='out')(pooled.reshape(-1, width))


class ClipResNet(layers.Network):
  """CLIP's image tower with a ResNet-50, and a linear head on embeddings of length 1.

  Its layers are `stem`, `stage1` to `stage4` (each after its last ReLU), `attention_pool` (the
  embedding of the image, [B, 1024]), `unit` (the embedding scaled to length 1) and `head`.
  """

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, 3].

    With `train`, batch norm normalises by the batch and updates its running statistics.
    """
    x = Stem(**self.common, name='stem')(x.astype(self.dtype), train)
    x = layers.residual_stages(x, train, Bottleneck, STEM_FEATURES, BLOCKS_PER_STAGE, **self.common)
    x = AttentionPool(RESNET_SIZE, **self.common, name='attention_pool')(x)
    x = transformer.UnitLength(name='unit')(x)
    return layers.LinearHead(self.num_classes, pool=False, name='head')(x)


class TextTower(layers.Layer):
  """The text tower of CLIP or SigLIP, a transformer that embeds texts.

  In CLIP a token attends only to earlier tokens and to itself (`causal`). The embedding is computed
  from the end-of-text token, which has the largest id. In SigLIP a token attends to all tokens
  including padding. The embedding is computed from the last token.

  Attributes:
    size: length of the embeddings.
    activation: activation of the perceptrons.
    width: number of channels of a token.
    depth: number of blocks.
    num_heads: number of attention heads.
    hidden: number of hidden channels of the perceptrons; 0 takes four times the width.
    context: number of tokens of a text, including padding.
    vocabulary: number of different tokens.
    epsilon: ε of layer normalisation.
    causal: True for CLIP, False for SigLIP.
  """

  size: int = 512
  activation: transformer.Activation = 'gelu'
  width: int = 512
  depth: int = 12
  num_heads: int = 8
  hidden: int = 0
  context: int = CONTEXT
  vocabulary: int = VOCABULARY
  epsilon: float = EPSILON
  causal: bool = True

  @nn.compact
  def __call__(self, tokens: jax.Array) -> jax.Array:
    """Maps token ids int32 [B, context] to embeddings float32 [B, size], not scaled to length 1."""
    x = nn.Embed(self.vocabulary, self.width, dtype=self.dtype, name='tokens')(tokens)
    position = self.param('position', nn.initializers.normal(0.01), (self.context, self.width))
    x = x + position[None].astype(x.dtype)
    attention = functools.partial(transformer.SelfAttention, self.num_heads, self.causal)
    perceptron = functools.partial(transformer.Perceptron, self.activation, self.hidden)
    block = functools.partial(transformer.Block, attention, perceptron, self.epsilon)
    for index in range(self.depth):
      x = block(**self.common, name=f'block{index}')(x)
    x = transformer.layer_norm(self.epsilon, dtype=self.dtype, name='norm')(x)
    # the position of the end-of-text token, which has the largest id, or of the last token
    end = tokens.argmax(-1) if self.causal else jnp.full(len(x), self.context - 1)
    x = jnp.take_along_axis(x, end[:, None, None], axis=1)[:, 0]
    has_bias = not self.causal  # the projection of SigLIP has one
    x = nn.Dense(self.size, use_bias=has_bias, dtype=self.dtype, name='projection')(x)
    return x.astype(jnp.float32)


def blocks(tower: str) -> Names:
  """Maps the variables in the blocks of a CLIP tower to open_clip's names in weight files.

  For example, 'block3/norm1' has the name 'visual.transformer.resblocks.3.ln_1'.

  Args:
    tower: the beginning of open_clip's names: 'visual.' for images, '' or 'text.' for texts.
  """
  block = rf'{tower}transformer.resblocks.\1'
  return {
    r'block(\d+)/norm(\d)': rf'{block}.ln_\2',
    **transformer.attention_names(r'block(\d+)/attention/qkv', f'{block}.attn.in_proj'),
    r'block(\d+)/attention/out': f'{block}.attn.out_proj',
    r'block(\d+)/mlp/fc1': f'{block}.mlp.c_fc',
    r'block(\d+)/mlp/fc2': f'{block}.mlp.c_proj',
  }


def text_names(tower: str) -> Names:
  """Maps the variables of a text tower, without its projection, to open_clip's names.

  Args:
    tower: the beginning of open_clip's names, '' or 'text.'.
  """
  return {
    'tokens/embedding': f'{tower}token_embedding.weight',
    'position': f'{tower}positional_embedding',
    **blocks(tower),
    'norm': f'{tower}ln_final',
  }


_TRANSFORMER: Names = {
  # [1, 1, D] and [1, N, D] are stored without the axes of length 1
  'embedding/class_token': Stored(('visual.class_embedding',), reshaped(lambda s: s[2:])),
  'embedding/position': Stored(('visual.positional_embedding',), reshaped(lambda s: s[1:])),
  'embedding/patches': 'visual.conv1',
  'pre_norm': 'visual.ln_pre',
  **blocks('visual.'),
  'norm': 'visual.ln_post',
  'projection/kernel': 'visual.proj',
  'head/dense': HEAD,
}
_RESNET: Names = {
  r'stem/layer(\d)/(conv|bn)': r'visual.\2\1',
  r'stage(\d)/block(\d+)/layer(\d)/(conv|bn)': r'visual.layer\1.\2.\4\3',
  r'stage(\d)/block(\d+)/(conv3|bn3)': r'visual.layer\1.\2.\3',
  r'stage(\d)/block(\d+)/shortcut_conv': r'visual.layer\1.\2.downsample.0',
  r'stage(\d)/block(\d+)/shortcut_bn': r'visual.layer\1.\2.downsample.1',
  'attention_pool/position': 'visual.attnpool.positional_embedding',
  r'attention_pool/([qkv])\w+': r'visual.attnpool.\1_proj',
  'attention_pool/out': 'visual.attnpool.c_proj',
  'head/dense': HEAD,
}
_TEXT_ARRAYS = (
  *('transformer.*', 'token_embedding.weight', 'positional_embedding', 'ln_final.*'),
  *('text_projection', 'logit_scale', 'attn_mask', '*.num_batches_tracked'),
)
"""Patterns of open_clip's names of arrays that the image tower does not need."""
_TEXT = text_names('') | {'projection/kernel': 'text_projection'}
TEXT_SCHEME = Scheme('open_clip', _TEXT, ('visual.*', 'logit_scale', 'attn_mask'))
"""The names in state dicts of open_clip, without the image tower."""
_SCALE_AND_BIAS = ('logit_scale', 'logit_bias')
_SIGLIP_NAMES: Names = {ours: f'visual.trunk.{theirs}' for ours, theirs in TIMM.items()}
_SIGLIP_NAMES['head/dense'] = HEAD
_SIGLIP_IMAGE = Scheme(WITH_HEAD, _SIGLIP_NAMES, ('text.*', *_SCALE_AND_BIAS), headless='visual.')
_SIGLIP_TEXT = text_names('text.')
_SIGLIP_TEXT['projection'] = Stored(('text.text_projection',), OUTPUT_FIRST)


@dataclasses.dataclass(frozen=True)
class Clip(Architecture):
  """CLIP: the architecture of its image tower, with the matching text tower.

  Attributes:
    text: the text tower, which embeds into the same space.
    text_scheme: names of the text tower's variables in weight files.
  """

  text: TextTower = TextTower()
  text_scheme: Scheme = TEXT_SCHEME


@dataclasses.dataclass(frozen=True)
class SigLip(Clip):
  """SigLIP: the architecture of its image tower, with the matching text tower.

  Attributes:
    padding: id of the token that fills a text up to the length of the context.
  """

  padding: int = END_OF_TEXT


CLIP_SIZES = {
  'vit_b32': (32, 224, SIZES['base'], 512),
  'vit_b16': (16, 224, SIZES['base'], 512),
  'vit_l14': (14, 224, SIZES['large'], 768),
  'vit_l14_336': (14, 336, SIZES['large'], 768),
}
"""{name: (side of a patch in pixels, side of images in pixels, size of the image tower, length of
the embeddings)}."""
SIGLIP_SIZES = {
  'b16': (16, SIZES['base'], 3072),
  'so400m14': (14, Size(width=1152, depth=27, num_heads=16), 4304),
}
"""{name: (side of a patch in pixels, size of both towers, hidden channels of perceptrons)}."""


def _clip(name: str, activation: transformer.Activation) -> Clip:
  """Describes a CLIP of a size.

  Weight files have open_clip's names. The head, which open_clip's files lack, has a name of this
  project; `robustness.models.zero_shot` computes it.

  Args:
    name: a key of `CLIP_SIZES`, or 'rn50' for ResNet-50.
    activation: 'quick_gelu' for the networks that OpenAI trained, 'gelu' for others.
  """
  if activation == 'quick_gelu':
    suffix, trained = '_quickgelu', 'as OpenAI trained it'
    licences = 'OpenAI: MIT; of MetaCLIP: CC-BY-NC-4.0; of DFN: Apple'
  else:
    suffix, trained, licences = '', 'with GELU', 'open_clip: MIT'
  if name in CLIP_SIZES:
    patch, side, size, length = CLIP_SIZES[name]  # length of the embeddings
    network: layers.Network = VisionTransformer(
      patch=patch, **size, activation=activation, epsilon=EPSILON, pre_norm=True, projection=length
    )
    num_heads = length // HEAD_WIDTH  # the text tower is as wide as the embedding
    text = TextTower(length, activation, width=length, num_heads=num_heads)
    names, stage_layers = _TRANSFORMER, stages(size['depth'])
  else:
    side, network = 224, ClipResNet()
    text = TextTower(RESNET_SIZE, activation)
    names, stage_layers = _RESNET, STEM_AND_FOUR_STAGES
  return Clip(
    f'clip_{name}{suffix}',
    network,
    input_shape=(side, side, 3),
    **CLIP,
    stages=stage_layers,
    source='Radford et al., Learning Transferable Visual Models From Natural Language '
    f'Supervision, 2021 ({trained})',
    licence=f'weights of {licences}; others as their publishers say',
    schemes=(Scheme(WITH_HEAD, names, _TEXT_ARRAYS, headless='visual.'),),
    text=text,
  )


_SIGLIP_SOURCES = {
  1: 'Zhai et al., Sigmoid Loss for Language Image Pre-Training, 2023',
  2: 'Tschannen et al., SigLIP 2, 2025',
}


def _siglip(
  version: int, size: str, side: int = 224, context: int = SIGLIP_CONTEXT, suffix: str = ''
) -> SigLip:
  """Describes a SigLIP or SigLIP 2 of a size.

  Args:
    version: 1 for SigLIP, 2 for SigLIP 2.
    size: a key of `SIGLIP_SIZES`.
    side: side of the images in pixels.
    context: number of tokens of a text.
    suffix: the end of the name, such as '_384'.
  """
  is_second = version == 2
  patch, tower, hidden = SIGLIP_SIZES[size]
  return SigLip(
    f'siglip{"2" if is_second else ""}_{size}{suffix}',
    VisionTransformer(patch=patch, **tower, hidden=hidden, positions='no_token', pool='attention'),
    input_shape=(side, side, 3),
    **SIGNED,
    stages=stages(tower['depth']),
    source=_SIGLIP_SOURCES[version],
    licence='weights of big_vision, also at open_clip: Apache-2.0',
    schemes=(_SIGLIP_IMAGE,),
    text=TextTower(
      size=tower['width'],
      activation='tanh_gelu' if is_second else 'gelu',
      **tower,
      hidden=hidden,
      context=context,
      vocabulary=256_000 if is_second else 32_000,
      epsilon=1e-6,
      causal=False,
    ),
    text_scheme=Scheme('open_clip', _SIGLIP_TEXT, ('visual.*', *_SCALE_AND_BIAS)),
    padding=0 if is_second else END_OF_TEXT,
  )


_ACTIVATIONS: tuple[transformer.Activation, ...] = ('gelu', 'quick_gelu')
ARCHITECTURES = (
  *(_clip(name, activation) for name in ('rn50', *CLIP_SIZES) for activation in _ACTIVATIONS),
  _siglip(1, 'b16'),
  _siglip(2, 'b16'),
  _siglip(1, 'so400m14', context=16),
  _siglip(1, 'so400m14', 384, suffix='_384'),  # patches cover 378 pixels
  _siglip(2, 'so400m14'),
  _siglip(2, 'so400m14', 378, suffix='_378'),
)
