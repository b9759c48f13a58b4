"""Vision transformers: patches as tokens, a class token that is read out at the end.

GELU is exact, as timm has it. The code that the official `.npz` weights were trained with
approximates it by tanh, which differs by less than 5e-4 at any point.

Reference: Dosovitskiy et al., An Image is Worth 16x16 Words, 2021, section 3.1 and table 1.
"""

import functools

import flax.linen as nn
import jax

from robustness.models import transformer
from robustness.models.architecture import HALF, Architecture, timm
from robustness.models.layers import LinearHead, Network
from robustness.models.naming import AS_IS, Scheme, Stored, reshaped


class VisionTransformer(Network):
  """A vision transformer with a class token.

  Layers: `embedding` (tokens with their positions), `block0`, `block1`, ..., in them `norm1`,
  `attention`, `norm2` and `mlp`, then `norm` and `head`. All but `head` are [B, tokens, width].

  CLIP's have `pre_norm` before the blocks, and for a head `projection` (the embedding of the image,
  of this size), `unit` (the same at length 1) and `head`.
  """

  patch: int = 16
  width: int = 768
  depth: int = 12
  num_heads: int = 12
  activation: transformer.Activation = 'gelu'
  epsilon: float = 1e-6
  pre_norm: bool = False
  projection: int = 0

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`; images have the size of the position embedding, and nothing is different in
    training: there is no dropout."""
    del train
    norm = functools.partial(transformer.layer_norm, self.epsilon, dtype=self.dtype)
    embed = functools.partial(transformer.PatchEmbedding, self.patch, self.width, not self.pre_norm)
    x = embed(**self.common, name='embedding')(x.astype(self.dtype))
    if self.pre_norm:
      x = norm(name='pre_norm')(x)
    for index in range(self.depth):
      block = functools.partial(transformer.Block, self.num_heads, self.activation, self.epsilon)
      x = block(**self.common, name=f'block{index}')(x)
    x = norm(name='norm')(x)[:, 0]
    if self.projection:
      x = nn.Dense(self.projection, use_bias=False, dtype=self.dtype, name='projection')(x)
      x = transformer.UnitLength(name='unit')(x)
    return LinearHead(self.num_classes, pool=False, name='head')(x)


_TIMM = Scheme(
  'timm',
  {
    'embedding/class_token': 'cls_token',
    'embedding/position': 'pos_embed',
    'embedding/patches': 'patch_embed.proj',
    r'block(\d+)/(norm\d)': r'blocks.\1.\2',
    r'block(\d+)/attention/qkv': r'blocks.\1.attn.qkv',
    r'block(\d+)/attention/out': r'blocks.\1.attn.proj',
    r'block(\d+)/mlp/(\w+)': r'blocks.\1.mlp.\2',
    'norm': 'norm',
    'head/dense': 'head',
  },
)
_THEIRS = r'encoder.layers.encoder_layer_\1'
_TORCHVISION = Scheme(
  'torchvision',
  {
    'embedding/class_token': 'class_token',
    'embedding/position': 'encoder.pos_embedding',
    'embedding/patches': 'conv_proj',
    r'block(\d+)/norm(\d)': rf'{_THEIRS}.ln_\2',
    **transformer.attention_names(r'block(\d+)/attention/qkv', f'{_THEIRS}.self_attention.in_proj'),
    r'block(\d+)/attention/out': f'{_THEIRS}.self_attention.out_proj',
    r'block(\d+)/mlp/fc1': f'{_THEIRS}.mlp.0',
    r'block(\d+)/mlp/fc2': f'{_THEIRS}.mlp.3',
    'norm': 'encoder.ln',
    'head/dense': 'heads.head',
  },
)


def _google(num_heads: int) -> Scheme:
  """Returns the names in the official `.npz` files: heads apart, and queries, keys and values."""
  heads_last = reshaped(lambda s: (*s[:-1], num_heads, s[-1] // num_heads))
  heads_first = reshaped(lambda s: (num_heads, s[0] // num_heads, *s[1:]))
  block = r'Transformer/encoderblock_\1'
  attention = f'{block}/MultiHeadDotProductAttention_1'
  qkv = tuple(rf'{attention}/{part}/\2' for part in ('query', 'key', 'value'))
  return Scheme(
    'google-research',
    {
      'embedding/class_token': 'cls',
      'embedding/position': 'Transformer/posembed_input/pos_embedding',
      'embedding/patches': 'embedding',
      r'block(\d+)/norm1': f'{block}/LayerNorm_0',
      r'block(\d+)/attention/qkv/(\w+)': Stored(qkv, heads_last),
      r'block(\d+)/attention/out': Stored((f'{attention}/out',), heads_first),
      r'block(\d+)/norm2': f'{block}/LayerNorm_2',
      r'block(\d+)/mlp/fc1': f'{block}/MlpBlock_3/Dense_0',
      r'block(\d+)/mlp/fc2': f'{block}/MlpBlock_3/Dense_1',
      'norm': 'Transformer/encoder_norm',
      'head/dense': 'head',
    },
    suffixes={leaf: f'/{leaf}' for leaf in ('kernel', 'scale', 'bias')},
    kernel=AS_IS,
  )


def schemes(num_heads: int) -> tuple[Scheme, ...]:
  """Returns the names in files of timm, torchvision and google-research (`.npz`)."""
  return _TIMM, _TORCHVISION, _google(num_heads)


def _architecture(
  size: str, patch: int, width: int, depth: int, num_heads: int, parameters: int, side: int = 224
) -> Architecture:
  """Returns a size with the weights for images of `side` pixels."""
  name, theirs = f'vit_{size[0]}{patch}', f'vit_{size}_patch{patch}'
  recipe, crop = ('augreg', 0.9) if side == 224 else ('orig', 1.0)
  published = f'{theirs}_{side}.{recipe}_in21k_ft_in1k'
  return Architecture(
    name,
    VisionTransformer(patch=patch, width=width, depth=depth, num_heads=num_heads),
    mean=HALF,
    std=HALF,
    stages=('embedding', *(f'block{quarter * depth // 4 - 1}' for quarter in (1, 2, 3, 4))),
    source='Dosovitskiy et al., An Image is Worth 16x16 Words, 2021',
    licence='weights of google-research/vision_transformer and of timm: Apache-2.0',
    schemes=schemes(num_heads),
    weights=(timm(name, published, side=side, crop=crop, mean=HALF, std=HALF),),
    parameters=parameters,
    timm=rf'{theirs}_\d+',
  )


ARCHITECTURES = (
  _architecture('small', 16, 384, 12, 6, 22_050_664),
  _architecture('small', 32, 384, 12, 6, 22_878_952),
  _architecture('base', 16, 768, 12, 12, 86_567_656),
  _architecture('base', 32, 768, 12, 12, 88_224_232),
  _architecture('large', 16, 1024, 24, 16, 304_326_632),
  _architecture('large', 32, 1024, 24, 16, 306_632_680, side=384),
)
