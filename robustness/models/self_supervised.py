"""DINOv2, DINOv3 and EVA-02: vision transformers trained without labels first.

DINO's features are the class token and the mean of the patches after the last norm. The published
linear maps take both (for DINOv3 only the largest network has one). Registers are additional tokens
and no part of the features. DINOv2's positions are stored for 518 pixels: timm resamples them like
all positions, the authors and transformers by PyTorch's bicubic kernel, which
`config.classifier.positions` offers. DINOv3 rotates queries and keys.

EVA-02 adds positions to all tokens, and rotates the queries and keys of patches by their place on
16 × 16 patches for images of any size. Keys have no bias, perceptrons are gated, and the head takes
the mean of the patches. The base network normalises the gated values.

References: Oquab et al., DINOv2: Learning Robust Visual Features without Supervision, 2023,
section 4; Darcet et al., Vision Transformers Need Registers, 2023; Siméoni et al., DINOv3, 2025,
section 3; Fang et al., EVA-02: A Visual Representation for Neon Genesis, 2023, section 2.
"""

from robustness.models.architecture import CLIP, HF, Architecture, Weights, timm
from robustness.models.naming import OUTPUT_FIRST, WITHOUT_FIRST, Names, Scheme, Stored
from robustness.models.vit import LAYER_SCALES, SIZES, TIMM, VisionTransformer, stages

REGISTERS = 4
"""The number of register tokens of DINOv3 and of DINOv2 with registers."""
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
  """Maps DINOv2's variables to the names in three projects' weight files.

  The projects are transformers, the authors' repository and timm.

  Args:
    registers: number of register tokens, 0 or 4.
  """
  authors: Names = {**TIMM, 'embedding/registers': 'register_tokens', 'head/dense': 'linear_head'}
  prefix, timm_names = 'dinov2.', TIMM
  if registers:
    prefix = 'dinov2_with_registers.'
    # timm's files have no position of the class token: it was added to the token before they were
    # saved
    timm_names = {**TIMM, 'embedding/position': Stored(('pos_embed',), WITHOUT_FIRST)}
  return (
    Scheme('transformers', _TRANSFORMERS, ('embeddings.mask_token',), prefix=prefix),
    Scheme('facebookresearch/dinov2', authors, ('mask_token',), prefix='backbone.'),
    Scheme('timm', timm_names),
  )


def _dinov2(size: str, parameters: int, registers: int) -> Architecture:
  """Describes a DINOv2 for images of 224 pixels, with its published linear head.

  Args:
    size: 'small', 'base' or 'large', see `SIZES`. Its first letter is in the name.
    parameters: number of parameters with 1000 classes and without registers.
    registers: number of register tokens, 0 or 4.
  """
  name = f'dinov2_{size[0]}14' + ('_registers' if registers else '')
  hub = f'facebook/dinov2{"-with-registers" if registers else ""}-{size}-imagenet1k-1-layer'
  network = VisionTransformer(
    patch=14, **SIZES[size], layer_scale=True, registers=registers, pool='token_and_mean'
  )
  return Architecture(
    name,
    network,
    stages=stages(network.depth),
    source='Oquab et al., DINOv2, 2023'
    + ('; Darcet et al., Vision Transformers Need Registers, 2023' if registers else ''),
    licence='weights of facebookresearch/dinov2: Apache-2.0',
    schemes=_dinov2_schemes(registers),
    weights=(Weights(f'{HF}:{hub}', name, HF, hub, 'model.safetensors', interpolation='bicubic'),),
    parameters=parameters + registers * network.width,
  )


_LAYER3 = r'layer.\1'
_SCHEMES3 = (
  Scheme('timm', {**TIMM, **LAYER_SCALES}, zeros=('*.q_bias', '*.v_bias')),
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


def _dinov3(size: str, parameters: int) -> Architecture:
  """Describes a DINOv3, which is published without a classification head.

  Args:
    size: 'small', 'base' or 'large', see `SIZES`. Its first letter is in the name.
    parameters: number of parameters with 1000 classes.
  """
  network = VisionTransformer(
    **SIZES[size],
    epsilon=1e-5,
    layer_scale=True,
    registers=REGISTERS,
    positions='none',
    rotary='halves',
    qkv_bias='none',
    pool='token_and_mean',
  )
  return Architecture(
    f'dinov3_{size[0]}16',
    network,
    stages=stages(network.depth),
    source='Siméoni et al., DINOv3, 2025',
    licence='weights of facebookresearch/dinov3, also at timm: DINOv3 License',
    schemes=_SCHEMES3,
    parameters=parameters,
    timm=f'vit_{size}_patch16_dinov3(_qkvb)?',
  )


_EVA_NAMES: Names = {**TIMM, 'norm': 'fc_norm'}
_MLP, _ATTN = r'blocks.\1.mlp', r'blocks.\1.attn'
# the biases of queries and values, and the kernels of separate maps to queries, keys and values
_QV_BIASES: Names = {r'block(\d+)/attention/([qv])\w+_bias': rf'{_ATTN}.\2_bias'}
_SEPARATE_QKV: Names = {
  r'block(\d+)/attention/qkv': Stored(tuple(f'{_ATTN}.{part}_proj' for part in 'qkv'), OUTPUT_FIRST)
}
# the authors' names of perceptrons in their small network and in their base
_SMALL_MLP: Names = {r'block(\d+)/mlp/fc1': f'{_MLP}.w12', r'block(\d+)/mlp/fc2': f'{_MLP}.w3'}
_BASE_MLP: Names = {
  r'block(\d+)/mlp/fc1': Stored((f'{_MLP}.w1', f'{_MLP}.w2'), OUTPUT_FIRST),
  r'block(\d+)/mlp/norm': f'{_MLP}.ffn_ln',
  r'block(\d+)/mlp/fc2': f'{_MLP}.w3',
}


def _eva_schemes(base: bool) -> tuple[Scheme, ...]:
  """Maps EVA-02's variables to the names in weight files of timm and of the authors.

  Small networks store the kernels of queries, keys and values in one array, base networks in three.

  Args:
    base: whether the network is of the base size.
  """
  # the first pattern that matches counts: exceptions come before the patterns of `_EVA_NAMES`
  if base:
    biases: Names = {r'block(\d+)/attention/([qv])\w+_bias': rf'{_ATTN}.\2_proj.bias'}
    gates = Stored((f'{_MLP}.fc1_g', f'{_MLP}.fc1_x'), OUTPUT_FIRST)
    timm_names = {**biases, r'block(\d+)/mlp/fc1': gates, **_EVA_NAMES, **_SEPARATE_QKV}
    authors = {**_QV_BIASES, **_BASE_MLP, **_EVA_NAMES, **_SEPARATE_QKV}
  else:
    timm_names = {**_QV_BIASES, **_EVA_NAMES}
    authors = {**_QV_BIASES, **_SMALL_MLP, **_EVA_NAMES}
  ignored = ('rope.*', '*.rope.*', 'mask_token', 'lm_head.*')
  return Scheme('timm', timm_names), Scheme('baaivision/EVA', authors, ignored)


def _eva02(size: str, hidden: int, side: int, parameters: int) -> Architecture:
  """Describes an EVA-02 with timm's copy of its weights.

  Args:
    size: 'small' or 'base', see `SIZES`.
    hidden: width of the hidden layer of each MLP.
    side: side in pixels of the images that the weights are for.
    parameters: number of parameters with 1000 classes.
  """
  name = f'eva02_{size[0]}14'
  is_base = size == 'base'
  recipe = 'mim_in22k_ft_in22k_in1k' if is_base else 'mim_in22k_ft_in1k'
  published = f'eva02_{size}_patch14_{side}.{recipe}'
  weights = timm(name, published, side=side, crop=1.0, licence='MIT', squash=is_base, **CLIP)
  network = VisionTransformer(
    patch=14,
    **SIZES[size],
    hidden=hidden,
    rotary='pairs',
    qkv_bias='no_key',
    gated=True,
    gate_norm=is_base,
    pool='mean',
  )
  return Architecture(
    name,
    network,
    **CLIP,
    stages=stages(network.depth),
    source='Fang et al., EVA-02: A Visual Representation for Neon Genesis, 2023',
    licence='weights of baaivision/EVA, also at timm: MIT',
    schemes=_eva_schemes(is_base),
    weights=(weights,),
    parameters=parameters,
    timm=rf'eva02_{size}_patch14_\d+',
  )


_DINOV2 = {'small': 22_397_800, 'base': 87_261_928, 'large': 305_276_904}
ARCHITECTURES = (
  *(
    _dinov2(size, parameters, registers)
    for registers in (0, REGISTERS)
    for size, parameters in _DINOV2.items()
  ),
  _dinov3('small', 22_355_944),
  _dinov3('base', 87_178_216),
  _dinov3('large', 305_128_424),
  _eva02('small', hidden=1024, side=336, parameters=22_129_000),
  _eva02('base', hidden=2048, side=448, parameters=87_117_544),
)
