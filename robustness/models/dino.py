"""DINOv2 and DINOv3: vision transformers trained without labels, and linear maps of their features.

Features are the class token and the mean of the patches after the last norm, which the published
linear maps were fitted to (of DINOv3 that of the largest network alone). Registers are further
tokens, no part of the features. DINOv2's positions are stored for 518 pixels: timm resamples them
as all its own, the authors and transformers by PyTorch's bicubic kernel, which
`config.classifier.positions` has too. DINOv3's rotate queries and keys.

References: Oquab et al., DINOv2: Learning Robust Visual Features without Supervision, 2023,
section 4; Darcet et al., Vision Transformers Need Registers, 2023; Siméoni et al., DINOv3, 2025,
section 3.
"""

from robustness.models.architecture import HF, Architecture, Weights
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


def _schemes(registers: int) -> tuple[Scheme, ...]:
  theirs: Names = {**TIMM, 'embedding/registers': 'register_tokens', 'head/dense': 'linear_head'}
  # With registers timm has added the class token's position to the token.
  placed: Names = {'embedding/position': Stored(('pos_embed',), WITHOUT_FIRST)}
  prefix = 'dinov2_with_registers.' if registers else 'dinov2.'
  return (
    Scheme('transformers', _TRANSFORMERS, ('embeddings.mask_token',), prefix=prefix),
    Scheme('facebookresearch/dinov2', theirs, ('mask_token',), prefix='backbone.'),
    Scheme('timm', {**TIMM, **placed} if registers else TIMM),
  )


def _architecture(
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
    schemes=_schemes(registers),
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


ARCHITECTURES = tuple(
  _architecture(
    *size, parameters=count + REGISTERS * size[1] * bool(registers), registers=registers
  )
  for registers in (0, REGISTERS)
  for size, count in (
    (('small', 384, 12, 6), 22_397_800),
    (('base', 768, 12, 12), 87_261_928),
    (('large', 1024, 24, 16), 305_276_904),
  )
)
ARCHITECTURES += (
  _dinov3('small', 384, 12, 6, 22_355_944),
  _dinov3('base', 768, 12, 12, 87_178_216),
  _dinov3('large', 1024, 24, 16, 305_128_424),
)
