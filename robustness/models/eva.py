"""EVA-02: vision transformers with rotary positions, gated perceptrons and mean pooling.

Positions are added to all tokens, and patches' queries and keys are also rotated by their place on
16 × 16 patches, whatever the image's size. Keys have no bias. The base network normalises what its
perceptrons' gates let through.

Reference: Fang et al., EVA-02: A Visual Representation for Neon Genesis, 2023, section 2.
"""

from robustness.models.architecture import Architecture, timm
from robustness.models.naming import OUTPUT_FIRST, Names, Scheme, Stored
from robustness.models.vit import TIMM, VisionTransformer, stages

MEAN = (0.48145466, 0.4578275, 0.40821073)  # CLIP's
STD = (0.26862954, 0.26130258, 0.27577711)
_NAMES: Names = {**TIMM, 'norm': 'fc_norm'}
_MLP, _ATTENTION = r'blocks.\1.mlp', r'blocks.\1.attn'
_PACKED: Names = {r'block(\d+)/attention/([qv])\w+_bias': rf'{_ATTENTION}.\2_bias'}
_APART: Names = {
  r'block(\d+)/attention/qkv': Stored(
    tuple(f'{_ATTENTION}.{part}_proj' for part in 'qkv'), OUTPUT_FIRST
  )
}
# Names of the authors' small network and of their base; their files hold more, such as `rope`.
_SMALL: Names = {r'block(\d+)/mlp/fc1': f'{_MLP}.w12', r'block(\d+)/mlp/fc2': f'{_MLP}.w3'}
_BASE: Names = {
  r'block(\d+)/mlp/fc1': Stored((f'{_MLP}.w1', f'{_MLP}.w2'), OUTPUT_FIRST),
  r'block(\d+)/mlp/norm': f'{_MLP}.ffn_ln',
  r'block(\d+)/mlp/fc2': f'{_MLP}.w3',
}


def _schemes(base: bool) -> tuple[Scheme, ...]:
  """Returns the names of timm and of the authors; patterns come before wider ones of `_NAMES`."""
  dropped = ('rope.*', '*.rope.*', 'mask_token', 'lm_head.*')
  if not base:
    timms, theirs = {**_PACKED, **_NAMES}, {**_PACKED, **_SMALL, **_NAMES}
  else:
    bias: Names = {r'block(\d+)/attention/([qv])\w+_bias': rf'{_ATTENTION}.\2_proj.bias'}
    gates = Stored((f'{_MLP}.fc1_g', f'{_MLP}.fc1_x'), OUTPUT_FIRST)
    timms = {**bias, r'block(\d+)/mlp/fc1': gates, **_NAMES, **_APART}
    theirs = {**_PACKED, **_BASE, **_NAMES, **_APART}
  return Scheme('timm', timms), Scheme('baaivision/EVA', theirs, dropped)


def _architecture(
  size: str, width: int, num_heads: int, hidden: int, side: int, parameters: int
) -> Architecture:
  """Returns a size; its weights are for images of `side` pixels."""
  name, base = f'eva02_{size[0]}14', size == 'base'
  recipe = 'mim_in22k_ft_in22k_in1k' if base else 'mim_in22k_ft_in1k'
  published = timm(
    name, f'eva02_{size}_patch14_{side}.{recipe}', side=side, crop=1.0, licence='MIT', mean=MEAN,
    std=STD, squash=base,
  )  # fmt: skip
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
    mean=MEAN,
    std=STD,
    stages=stages(12),
    source='Fang et al., EVA-02: A Visual Representation for Neon Genesis, 2023',
    licence='weights of baaivision/EVA, also at timm: MIT',
    schemes=_schemes(base),
    weights=(published,),
    parameters=parameters,
    timm=rf'eva02_{size}_patch14_\d+',
  )


ARCHITECTURES = (
  _architecture('small', 384, 6, 1024, 336, 22_129_000),
  _architecture('base', 768, 12, 2048, 448, 87_117_544),
)
