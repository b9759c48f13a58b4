"""DINOv2, DINOv3 and EVA-02: vision transformers trained without labels first.

DINO's features are the class token and the mean of the patches after the last norm, which the
published linear maps were fitted to (of DINOv3 that of the largest network alone). Registers are
further tokens, no part of the features. DINOv2's positions are stored for 518 pixels: timm
resamples them as all its own, the authors and transformers by PyTorch's bicubic kernel, which
`config.classifier.positions` has too. DINOv3's rotate queries and keys.

EVA-02's add positions to all tokens, and rotate patches' queries and keys by their place on 16 × 16
patches, whatever the image's size. Keys have no bias, perceptrons are gated, and the mean of the
patches is classified. The base network normalises what the gates let through.

References: Oquab et al., DINOv2: Learning Robust Visual Features without Supervision, 2023,
section 4; Darcet et al., Vision Transformers Need Registers, 2023; Siméoni et al., DINOv3, 2025,
section 3; Fang et al., EVA-02: A Visual Representation for Neon Genesis, 2023, section 2.
"""

from robustness.models.architecture import CLIP_MEAN, CLIP_STD, HF, Architecture, Weights, timm
from robustness.models.naming import OUTPUT_FIRST, WITHOUT_FIRST, Names, Scheme, Stored
from robustness.models.vit import TIMM, VisionTransformer, stages

REGISTERS = 4
_LAYER = r'encoder.layer.\1'
_ATTENTION = f'{_LAYER}.attention.attention'
_TRANSFORMERS: Names = {
  'embedding/class_token': 'embeddings.cls_token',
  'embedding/registers': 'embeddings.register_tokens',
  'embedding/position': 'embeddings.position_embeddings',
  'embedding/patches': 'embeddings.patch_embeddings.projection',
  r'block(\d+)/(norm\d)': rf'{_LAYER}.\2',
  r'block(\d+)/attention/qkv': Stored(
    (f'{_ATTENTION}.query', f'{_ATTENTION}.key', f'{_ATTENTION}.value'), OUTPUT_FIRST
  ),
  r'block(\d+)/attention/out': f'{_LAYER}.attention.output.dense',
  r'block(\d+)/mlp/(\w+)': rf'{_LAYER}.mlp.\2',
  r'block(\d+)/scale(\d)': rf'{_LAYER}.layer_scale\2.lambda1',
  'norm': 'layernorm',
  'head/dense': 'classifier',
}


def _dinov2_schemes(registers: int) -> tuple[Scheme, ...]:
  theirs: Names = {**TIMM, 'embedding/registers': 'register_tokens', 'head/dense': 'linear_head'}
  # With registers timm has added the class token's position to the token.
  placed: Names = {'embedding/position': Stored(('pos_embed',), WITHOUT_FIRST)}
  prefix = 'dinov2_with_registers.' if registers else 'dinov2.'
  return (
    Scheme('transformers', _TRANSFORMERS, ('embeddings.mask_token',), prefix=prefix),
    Scheme('facebookresearch/dinov2', theirs, ('mask_token',), prefix='backbone.'),
    Scheme('timm', {**TIMM, **placed} if registers else TIMM),
  )


def _dinov2(
  size: str, width: int, depth: int, num_heads: int, parameters: int, registers: int = 0
) -> Architecture:
  """Returns a size for images of 224 pixels, the published linear maps among its weights."""
  name = f'dinov2_{size[0]}14' + ('_registers' if registers else '')
  hub = f'facebook/dinov2{"-with-registers" if registers else ""}-{size}-imagenet1k-1-layer'
  return Architecture(
    name,
    VisionTransformer(
      patch=14,
      width=width,
      depth=depth,
      num_heads=num_heads,
      layer_scale=True,
      registers=registers,
      pool='token_and_mean',
    ),
    stages=stages(depth),
    source='Oquab et al., DINOv2, 2023'
    + ('; Darcet et al., Vision Transformers Need Registers, 2023' if registers else ''),
    licence='weights of facebookresearch/dinov2: Apache-2.0',
    schemes=_dinov2_schemes(registers),
    weights=(Weights(f'{HF}:{hub}', name, HF, hub, 'model.safetensors', interpolation='bicubic'),),
    parameters=parameters,
  )


_LAYER3 = r'layer.\1'
_SCHEMES3 = (
  Scheme(
    'timm', {**TIMM, r'block(\d+)/scale(\d)': r'blocks.\1.gamma_\2'}, zeros=('*.q_bias', '*.v_bias')
  ),
  Scheme(
    'facebookresearch/dinov3',
    {**TIMM, 'embedding/registers': 'storage_tokens', 'head/dense': 'linear_head'},
    ('mask_token', 'rope_embed.periods', '*.bias_mask', 'local_cls_norm.*'),
    zeros=('*.qkv.bias',),
    prefix='backbone.',
  ),
  Scheme(
    'transformers',
    {
      'embedding/class_token': 'embeddings.cls_token',
      'embedding/registers': 'embeddings.register_tokens',
      'embedding/patches': 'embeddings.patch_embeddings',
      r'block(\d+)/(norm\d)': rf'{_LAYER3}.\2',
      r'block(\d+)/attention/qkv': Stored(
        tuple(f'{_LAYER3}.attention.{part}_proj' for part in 'qkv'), OUTPUT_FIRST
      ),
      r'block(\d+)/attention/out': f'{_LAYER3}.attention.o_proj',
      r'block(\d+)/mlp/fc1': f'{_LAYER3}.mlp.up_proj',
      r'block(\d+)/mlp/fc2': f'{_LAYER3}.mlp.down_proj',
      r'block(\d+)/scale(\d)': rf'{_LAYER3}.layer_scale\2.lambda1',
      'norm': 'norm',
      'head/dense': 'classifier',
    },
    ('embeddings.mask_token',),
    zeros=('*.q_proj.bias', '*.v_proj.bias'),
  ),
)


def _dinov3(size: str, width: int, depth: int, num_heads: int, parameters: int) -> Architecture:
  """Returns a size of DINOv3; published are weights without a linear map."""
  return Architecture(
    f'dinov3_{size[0]}16',
    VisionTransformer(
      width=width,
      depth=depth,
      num_heads=num_heads,
      epsilon=1e-5,
      layer_scale=True,
      registers=REGISTERS,
      positions='none',
      rotary='halves',
      qkv_bias='none',
      pool='token_and_mean',
    ),
    stages=stages(depth),
    source='Siméoni et al., DINOv3, 2025',
    licence='weights of facebookresearch/dinov3, also at timm: DINOv3 License',
    schemes=_SCHEMES3,
    parameters=parameters,
    timm=f'vit_{size}_patch16_dinov3(_qkvb)?',
  )


_EVA_NAMES: Names = {**TIMM, 'norm': 'fc_norm'}
_MLP, _ATTN = r'blocks.\1.mlp', r'blocks.\1.attn'
_PACKED: Names = {r'block(\d+)/attention/([qv])\w+_bias': rf'{_ATTN}.\2_bias'}
_APART: Names = {
  r'block(\d+)/attention/qkv': Stored(tuple(f'{_ATTN}.{part}_proj' for part in 'qkv'), OUTPUT_FIRST)
}
# Names of the authors' small network and of their base; their files hold more, such as `rope`.
_SMALL: Names = {r'block(\d+)/mlp/fc1': f'{_MLP}.w12', r'block(\d+)/mlp/fc2': f'{_MLP}.w3'}
_BASE: Names = {
  r'block(\d+)/mlp/fc1': Stored((f'{_MLP}.w1', f'{_MLP}.w2'), OUTPUT_FIRST),
  r'block(\d+)/mlp/norm': f'{_MLP}.ffn_ln',
  r'block(\d+)/mlp/fc2': f'{_MLP}.w3',
}


def _eva_schemes(base: bool) -> tuple[Scheme, ...]:
  """Returns the names of timm and of the authors; narrow patterns come before wide ones."""
  dropped = ('rope.*', '*.rope.*', 'mask_token', 'lm_head.*')
  if not base:
    timms, theirs = {**_PACKED, **_EVA_NAMES}, {**_PACKED, **_SMALL, **_EVA_NAMES}
  else:
    bias: Names = {r'block(\d+)/attention/([qv])\w+_bias': rf'{_ATTN}.\2_proj.bias'}
    gates = Stored((f'{_MLP}.fc1_g', f'{_MLP}.fc1_x'), OUTPUT_FIRST)
    timms = {**bias, r'block(\d+)/mlp/fc1': gates, **_EVA_NAMES, **_APART}
    theirs = {**_PACKED, **_BASE, **_EVA_NAMES, **_APART}
  return Scheme('timm', timms), Scheme('baaivision/EVA', theirs, dropped)


def _eva02(
  size: str, width: int, num_heads: int, hidden: int, side: int, parameters: int
) -> Architecture:
  """Returns a size; its weights are for images of `side` pixels."""
  name, base = f'eva02_{size[0]}14', size == 'base'
  recipe = 'mim_in22k_ft_in22k_in1k' if base else 'mim_in22k_ft_in1k'
  published = timm(
    name,
    f'eva02_{size}_patch14_{side}.{recipe}',
    side=side,
    crop=1.0,
    licence='MIT',
    mean=CLIP_MEAN,
    std=CLIP_STD,
    squash=base,
  )
  return Architecture(
    name,
    VisionTransformer(
      patch=14,
      width=width,
      num_heads=num_heads,
      hidden=hidden,
      rotary='pairs',
      qkv_bias='no_key',
      gated=True,
      gate_norm=base,
      pool='mean',
    ),
    mean=CLIP_MEAN,
    std=CLIP_STD,
    stages=stages(12),
    source='Fang et al., EVA-02: A Visual Representation for Neon Genesis, 2023',
    licence='weights of baaivision/EVA, also at timm: MIT',
    schemes=_eva_schemes(base),
    weights=(published,),
    parameters=parameters,
    timm=rf'eva02_{size}_patch14_\d+',
  )


ARCHITECTURES = (
  *(
    _dinov2(*size, parameters=count + REGISTERS * size[1] * bool(registers), registers=registers)
    for registers in (0, REGISTERS)
    for size, count in (
      (('small', 384, 12, 6), 22_397_800),
      (('base', 768, 12, 12), 87_261_928),
      (('large', 1024, 24, 16), 305_276_904),
    )
  ),
  _dinov3('small', 384, 12, 6, 22_355_944),
  _dinov3('base', 768, 12, 12, 87_178_216),
  _dinov3('large', 1024, 24, 16, 305_128_424),
  _eva02('small', 384, 6, 1024, 336, 22_129_000),
  _eva02('base', 768, 12, 2048, 448, 87_117_544),
)
