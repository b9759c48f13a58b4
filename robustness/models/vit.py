"""Vision transformers: patches as tokens, a class token that is read out at the end.

GELU is exact, as timm has it. The code that the official `.npz` weights were trained with
approximates it by tanh, which differs by less than 5e-4 at any point.

Reference: Dosovitskiy et al., An Image is Worth 16x16 Words, 2021, section 3.1 and table 1.
"""

from __future__ import annotations

import functools

import flax.linen as nn
import jax

from robustness.models.architecture import HALF, Architecture
from robustness.models.layers import LinearHead, Network
from robustness.models.naming import AS_IS, Path, Scheme, Shape, Stored, reshaped
from robustness.models.pretrained import timm
from robustness.models.transformer import (
  Block,
  PatchEmbedding,
  layer_norm,
  numbered,
  table_names,
  table_scheme,
)

EPSILON = 1e-6


class VisionTransformer(Network):
  """A vision transformer with a class token.

  Layers: `embedding` (tokens with their positions), `block0`, `block1`, ..., in them `norm1`,
  `attention`, `norm2` and `mlp`, then `norm` and `head`. All but `head` are [B, tokens, width].

  Attributes:
    patch: side of a patch in pixels.
    width: size of a token.
    depth: number of blocks.
    num_heads: of every attention.
  """

  patch: int = 16
  width: int = 768
  depth: int = 12
  num_heads: int = 12

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """See `Network`; images have the size of the position embedding, and nothing is different in
    training: there is no dropout."""
    del train
    x = PatchEmbedding(self.patch, self.width, **self.common, name='embedding')(
      x.astype(self.dtype)
    )
    for index in range(self.depth):
      x = Block(self.num_heads, epsilon=EPSILON, **self.common, name=f'block{index}')(x)
    x = layer_norm(EPSILON, dtype=self.dtype, name='norm')(x)
    return LinearHead(self.num_classes, pool=False, name='head')(x[:, 0])


_TIMM = {
  'embedding/class_token': 'cls_token',
  'embedding/position': 'pos_embed',
  'embedding/patches': 'patch_embed.proj',
  'block#/norm1': 'blocks.#.norm1',
  'block#/attention/qkv': 'blocks.#.attn.qkv',
  'block#/attention/out': 'blocks.#.attn.proj',
  'block#/norm2': 'blocks.#.norm2',
  'block#/mlp/fc1': 'blocks.#.mlp.fc1',
  'block#/mlp/fc2': 'blocks.#.mlp.fc2',
  'norm': 'norm',
  'head/dense': 'head',
}
_TORCHVISION = {
  'embedding/class_token': 'class_token',
  'embedding/position': 'encoder.pos_embedding',
  'embedding/patches': 'conv_proj',
  'block#/norm1': 'encoder.layers.encoder_layer_#.ln_1',
  'block#/attention/qkv': 'encoder.layers.encoder_layer_#.self_attention.in_proj',
  'block#/attention/out': 'encoder.layers.encoder_layer_#.self_attention.out_proj',
  'block#/norm2': 'encoder.layers.encoder_layer_#.ln_2',
  'block#/mlp/fc1': 'encoder.layers.encoder_layer_#.mlp.0',
  'block#/mlp/fc2': 'encoder.layers.encoder_layer_#.mlp.3',
  'norm': 'encoder.ln',
  'head/dense': 'heads.head',
}
_GOOGLE = {
  'embedding/class_token': 'cls',
  'embedding/position': 'Transformer/posembed_input/pos_embedding',
  'embedding/patches': 'embedding',
  'block#/norm1': 'Transformer/encoderblock_#/LayerNorm_0',
  'block#/attention/out': 'Transformer/encoderblock_#/MultiHeadDotProductAttention_1/out',
  'block#/norm2': 'Transformer/encoderblock_#/LayerNorm_2',
  'block#/mlp/fc1': 'Transformer/encoderblock_#/MlpBlock_3/Dense_0',
  'block#/mlp/fc2': 'Transformer/encoderblock_#/MlpBlock_3/Dense_1',
  'norm': 'Transformer/encoder_norm',
  'head/dense': 'head',
}


def _google(path: Path, num_heads: int) -> Stored:
  """Returns where the official `.npz` files have an array: heads apart, and queries, keys and
  values."""

  def heads_last(shape: Shape) -> Shape:
    return (*shape[:-1], num_heads, shape[-1] // num_heads)

  def heads_first(shape: Shape) -> Shape:
    return (num_heads, shape[0] // num_heads, *shape[1:])

  if path[-3:-1] == ('attention', 'qkv'):
    attention = numbered('Transformer/encoderblock_#/MultiHeadDotProductAttention_1', path)
    names = tuple(f'{attention}/{part}/{path[-1]}' for part in ('query', 'key', 'value'))
    return Stored(names, reshaped(heads_last))
  alone, layer = table_names(path, _GOOGLE)
  if alone:
    return Stored((alone,))
  split = path[-3:] == ('attention', 'out', 'kernel')
  return Stored((f'{layer}/{path[-1]}',), reshaped(heads_first) if split else AS_IS)


def schemes(num_heads: int) -> tuple[Scheme, ...]:
  """Returns the names in files of timm, torchvision and google-research (`.npz`)."""
  return (
    table_scheme('timm', _TIMM),
    table_scheme('torchvision', _TORCHVISION),
    Scheme('google-research', functools.partial(_google, num_heads=num_heads)),
  )


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
