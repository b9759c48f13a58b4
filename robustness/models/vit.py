"""Vision transformers: patches as tokens, a class token that is read out at the end.

GELU is exact, as timm has it. The code that the official `.npz` weights were trained with
approximates it by tanh, which differs by less than 5e-4 at any point. DeiT III scales the residual
branches, and its class token has no position.

References: Dosovitskiy et al., An Image is Worth 16x16 Words, 2021, section 3.1 and table 1;
Touvron et al., DeiT III: Revenge of the ViT, 2022, section 3.
"""

import functools
from collections.abc import Mapping
from typing import Literal, TypedDict

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models import transformer
from robustness.models.architecture import IMAGENET, SIGNED, Architecture, timm
from robustness.models.layers import LinearHead, Network
from robustness.models.naming import AS_IS, Names, Scheme, Stored, reshaped


class Size(TypedDict):
  """A size of a vision transformer.

  Attributes:
    width: number of channels of a token.
    depth: number of blocks.
    num_heads: number of attention heads.
  """

  width: int
  depth: int
  num_heads: int


SIZES: Mapping[str, Size] = {
  'small': Size(width=384, depth=12, num_heads=6),
  'base': Size(width=768, depth=12, num_heads=12),
  'large': Size(width=1024, depth=24, num_heads=16),
}
"""The sizes of the Vision Transformer and of its successors."""


class VisionTransformer(Network):
  """A vision transformer, with the options of ViT, DeiT III, CLIP, SigLIP, DINO and EVA-02.

  Its layers are `embedding` (tokens with their positions), `block0`, `block1` and so on, `norm` and
  `head`. A block has `norm1`, `attention`, `norm2` and `mlp`. Outputs are [B, tokens, width],
  except of `head`.

  Attributes:
    patch: side of a patch in pixels.
    width: number of channels of a token.
    depth: number of blocks.
    num_heads: number of attention heads.
    hidden: number of hidden channels of the perceptrons; 0 for four times the width.
    activation: activation of the perceptrons.
    epsilon: ε of layer normalisation.
    pre_norm: whether a layer `pre_norm` precedes the blocks, as in CLIP.
    projection: size of CLIP's image embedding; 0 for none. It is computed by the layer
      `projection`, and the layer `unit` scales it to length 1 before `head`.
    layer_scale: whether blocks scale their residual branches by learned numbers, as in DeiT III.
    registers: number of additional learned tokens, as in DINOv2.
    positions: which tokens have a learned position: 'all' (the class token and the patches),
      'patches', 'none', or 'no_token' (the patches of a network without a class token).
    rotary: pairs of channels in which queries and keys are rotated by position: 'halves' as in
      DINOv3, 'pairs' (neighbours) as in EVA-02; '' for no rotation.
    qkv_bias: which of queries, keys and values have a bias: 'all', 'none', or 'no_key' for all but
      the keys.
    gated: whether perceptrons are gated, as in EVA-02.
    gate_norm: whether gated perceptrons normalise their hidden channels.
    pool: input of the head: 'token' for the class token; 'mean' for the mean of the patches,
      normalised after averaging as in EVA-02; 'token_and_mean' for both; or 'attention' for a layer
      `attention_pool` with a learned query, as in SigLIP.
  """

  can_drop_paths = True
  patch: int = 16
  width: int = 768
  depth: int = 12
  num_heads: int = 12
  hidden: int = 0
  activation: transformer.Activation = 'gelu'
  epsilon: float = 1e-6
  pre_norm: bool = False
  projection: int = 0
  layer_scale: bool = False
  registers: int = 0
  positions: transformer.Positions = 'all'
  rotary: transformer.Rotary = ''
  qkv_bias: transformer.QkvBias = 'all'
  gated: bool = False
  gate_norm: bool = False
  pool: Literal['token', 'token_and_mean', 'mean', 'attention'] = 'token'

  @property
  def drop_path_rises(self) -> bool:
    """Whether stochastic depth drops later blocks more often than earlier ones.

    It is False for networks with layer scale: DeiT III and DINOv2 were released so.
    """
    return not self.layer_scale

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, C].

    H and W must fit the position embedding. `train` has no effect. Stochastic depth acts if the
    variables have the collection 'drop_path' with its random factors.
    """
    norm = functools.partial(transformer.layer_norm, self.epsilon, dtype=self.dtype)
    first_patch = 1 + self.registers  # the class token and the registers precede the patches
    angles = None
    if self.rotary:
      grid = x.shape[1] // self.patch, x.shape[2] // self.patch
      head_width = self.width // self.num_heads
      angles = jnp.asarray(transformer.rotary_angles(self.rotary, grid, first_patch, head_width))
    has_bias = not self.pre_norm  # CLIP's map of patches to tokens has none
    embedding = functools.partial(
      transformer.PatchEmbedding, self.patch, self.width, has_bias, self.registers, self.positions
    )
    x = embedding(**self.common, name='embedding')(x.astype(self.dtype))  # [B, tokens, width]
    if self.pre_norm:
      x = norm(name='pre_norm')(x)
    gate_epsilon = self.epsilon if self.gate_norm else 0
    perceptron = functools.partial(
      transformer.Perceptron, self.activation, self.hidden, self.gated, epsilon=gate_epsilon
    )
    attention = functools.partial(
      transformer.SelfAttention, self.num_heads, qkv_bias=self.qkv_bias, rotary=self.rotary
    )
    block = functools.partial(
      transformer.Block, attention, perceptron, self.epsilon, layer_scale=self.layer_scale
    )
    for index in range(self.depth):
      x = block(**self.common, name=f'block{index}')(x, angles)
    if self.pool == 'mean':  # before the norm; with other kinds of pool, tokens are pooled after it
      x = x[:, first_patch:].mean(1)
    x = norm(name='norm')(x)
    if self.pool == 'attention':
      pool = functools.partial(transformer.AttentionPool, self.num_heads, perceptron, self.epsilon)
      x = pool(**self.common, name='attention_pool')(x)
    elif self.pool == 'token':
      x = x[:, 0]
    elif self.pool == 'token_and_mean':
      mean = x[:, first_patch:].mean(1)
      x = jnp.concatenate([x[:, 0], mean], -1)
    if self.projection:
      x = nn.Dense(self.projection, use_bias=False, dtype=self.dtype, name='projection')(x)
    if self.projection or self.pool == 'attention':
      x = transformer.UnitLength(name='unit')(x)
    return LinearHead(self.num_classes, pool=False, name='head')(x)


TIMM: Names = {
  'embedding/class_token': 'cls_token',
  'embedding/registers': 'reg_token',
  'embedding/position': 'pos_embed',
  'embedding/patches': 'patch_embed.proj',
  r'block(\d+)/(norm\d)': r'blocks.\1.\2',
  r'block(\d+)/attention/qkv': r'blocks.\1.attn.qkv',
  r'block(\d+)/attention/out': r'blocks.\1.attn.proj',
  r'block(\d+)/mlp/(\w+)': r'blocks.\1.mlp.\2',
  r'block(\d+)/scale(\d)': r'blocks.\1.ls\2.gamma',
  'norm': 'norm',
  'attention_pool/latent': 'attn_pool.latent',
  'attention_pool/query': 'attn_pool.q',
  'attention_pool/key_value': 'attn_pool.kv',
  'attention_pool/out': 'attn_pool.proj',
  'attention_pool/norm': 'attn_pool.norm',
  r'attention_pool/mlp/(\w+)': r'attn_pool.mlp.\1',
  'head/dense': 'head',
}
"""timm's names of a vision transformer's arrays, which other projects share."""

_TIMM = Scheme('timm', TIMM)
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
  **IMAGENET,
)


def _google(num_heads: int) -> Scheme:
  r"""Maps the variables of a vision transformer to google-research's names in `.npz` files.

  The files store queries, keys and values as separate arrays, with an axis for attention heads. In
  names, `\1` is the number of the block and `\2` is 'kernel' or 'bias'.

  Args:
    num_heads: number of attention heads.
  """
  # Linen's [..., width] is [..., heads, width / heads] in the file
  last_axis_split = reshaped(lambda shape: (*shape[:-1], num_heads, shape[-1] // num_heads))
  # Linen's [width, width] is [heads, width / heads, width] in the file
  first_axis_split = reshaped(lambda shape: (num_heads, shape[0] // num_heads, *shape[1:]))
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
      r'block(\d+)/attention/qkv/(\w+)': Stored(qkv, last_axis_split),
      r'block(\d+)/attention/out': Stored((f'{attention}/out',), first_axis_split),
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
  """Maps the variables of a vision transformer to the names in three projects' weight files.

  The projects are timm, torchvision and google-research (`.npz`).

  Args:
    num_heads: number of attention heads.
  """
  return _TIMM, _TORCHVISION, _google(num_heads)


LAYER_SCALES: Names = {r'block(\d+)/scale(\d)': r'blocks.\1.gamma_\2'}
"""The names of layer scales in files of DeiT III's and other authors."""
_DEIT = Scheme('facebookresearch/deit', {**TIMM, **LAYER_SCALES})


def stages(depth: int) -> tuple[str, ...]:
  """Returns the layers that a study records if it is set to record 'stages'.

  They are 'embedding' and the last block of each quarter of the network. Of 12 blocks these are
  'block2', 'block5', 'block8' and 'block11'.

  Args:
    depth: number of blocks.
  """
  return ('embedding', *(f'block{quarter * depth // 4 - 1}' for quarter in (1, 2, 3, 4)))


def _vit(size: str, patch: int, parameters: int, side: int = 224) -> Architecture:
  """Describes a Vision Transformer with timm's copy of the authors' weights.

  The weights are timm's 'augreg' (trained with augmentation and regularisation) if `side` is 224,
  else timm's 'orig' (first release).

  Args:
    size: 'small', 'base' or 'large', see `SIZES`.
    patch: side of a patch in pixels.
    parameters: number of parameters with 1000 classes.
    side: side in pixels of the images that the weights are for.
  """
  name = f'vit_{size[0]}{patch}'  # such as vit_b16
  recipe, crop = ('augreg', 0.9) if side == 224 else ('orig', 1.0)
  published = f'vit_{size}_patch{patch}_{side}.{recipe}_in21k_ft_in1k'
  return Architecture(
    name,
    VisionTransformer(patch=patch, **SIZES[size]),
    **SIGNED,
    stages=stages(SIZES[size]['depth']),
    source='Dosovitskiy et al., An Image is Worth 16x16 Words, 2021',
    licence='weights of google-research/vision_transformer and of timm: Apache-2.0',
    schemes=schemes(SIZES[size]['num_heads']),
    weights=(timm(name, published, side=side, crop=crop, **SIGNED),),
    parameters=parameters,
    timm=rf'(vit|deit)_{size}_patch{patch}_\d+',  # DeiT has the network of ViT
  )


def _deit3(size: str, parameters: int) -> Architecture:
  """Describes a DeiT III with the authors' weights.

  Args:
    size: 'small', 'base' or 'large', see `SIZES`.
    parameters: number of parameters with 1000 classes.
  """
  name = f'deit3_{size[0]}16'
  timm_name = f'deit3_{size}_patch16_224'
  crops = {'fb_in1k': 0.9, 'fb_in22k_ft_in1k': 1.0}  # share of the side, by the tag of the weights
  return Architecture(
    name,
    VisionTransformer(**SIZES[size], layer_scale=True, positions='patches'),
    stages=stages(SIZES[size]['depth']),
    source='Touvron et al., DeiT III: Revenge of the ViT, 2022',
    licence='weights of facebookresearch/deit: Apache-2.0',
    schemes=(_TIMM, _DEIT),
    weights=tuple(timm(name, f'{timm_name}.{tag}', crop=crop) for tag, crop in crops.items()),
    parameters=parameters,
    timm=rf'deit3_{size}_patch16_\d+',
  )


ARCHITECTURES = (
  _vit('small', 16, 22_050_664),
  _vit('small', 32, 22_878_952),
  _vit('base', 16, 86_567_656),
  _vit('base', 32, 88_224_232),
  _vit('large', 16, 304_326_632),
  _vit('large', 32, 306_632_680, side=384),
  _deit3('small', 22_059_496),
  _deit3('base', 86_585_320),
  _deit3('large', 304_374_760),
)
