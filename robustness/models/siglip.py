"""SigLIP's and SigLIP 2's towers; the image towers as classifiers, as CLIP's are.

Patches alone are tokens; a learned query pools them. Texts are seen whole, padding too. Both were
trained with a sigmoid for each pair of image and text, so that files hold a bias beside the scale.

GELU in the image tower is exact, as timm has it for these; the authors' code approximates it by
tanh. open_clip does so in the text tower of SigLIP 2 only.

References: Zhai et al., Sigmoid Loss for Language Image Pre-Training, 2023, sections 3.2 and 4;
Tschannen et al., SigLIP 2, 2025, section 2.
"""

import dataclasses
from typing import NamedTuple

from robustness.models.architecture import HALF
from robustness.models.clip import HEAD, Clip, TextTower, blocks
from robustness.models.naming import OUTPUT_FIRST, Scheme, Stored
from robustness.models.vit import TIMM, VisionTransformer, stages

CONTEXT = 64
END_OF_TEXT = 1
_IMAGE = Scheme(
  'open_clip, plus a head that python -m robustness.models.zero_shot makes',
  {**{ours: f'visual.trunk.{theirs}' for ours, theirs in TIMM.items()}, 'head/dense': HEAD},
  ('text.*', 'logit_scale', 'logit_bias'),
  headless='visual.',
)
_TEXT = Scheme(
  'open_clip',
  {
    'tokens/embedding': 'text.token_embedding.weight',
    'position': 'text.positional_embedding',
    **blocks('text.'),
    'norm': 'text.ln_final',
    'projection': Stored(('text.text_projection',), OUTPUT_FIRST),
  },
  ('visual.*', 'logit_scale', 'logit_bias'),
)


@dataclasses.dataclass(frozen=True)
class SigLip(Clip):
  """A pair of towers; `padding` is the token that follows the end of a text."""

  padding: int = END_OF_TEXT


class Size(NamedTuple):
  """Both towers' patches (of the image), width, depth, heads and values within perceptrons."""

  patch: int
  width: int
  depth: int
  num_heads: int
  hidden: int


SIZES = {'b16': Size(16, 768, 12, 12, 3072), 'so400m14': Size(14, 1152, 27, 16, 4304)}


def _architecture(
  version: int, size: str, side: int = 224, context: int = CONTEXT, suffix: str = ''
) -> SigLip:
  name, second = f'siglip{"2" if version == 2 else ""}_{size}{suffix}', version == 2
  patch, width, depth, num_heads, hidden = SIZES[size]
  return SigLip(
    name,
    VisionTransformer(
      patch=patch,
      width=width,
      depth=depth,
      num_heads=num_heads,
      hidden=hidden,
      positions='no_token',
      pool='attention',
    ),
    input_shape=(side, side, 3),
    mean=HALF,
    std=HALF,
    stages=stages(depth),
    source='Tschannen et al., SigLIP 2, 2025'
    if second
    else 'Zhai et al., Sigmoid Loss for Language Image Pre-Training, 2023',
    licence='weights of big_vision, also at open_clip: Apache-2.0',
    schemes=(_IMAGE,),
    text=TextTower(
      size=width,
      activation='tanh_gelu' if second else 'gelu',
      width=width,
      depth=depth,
      num_heads=num_heads,
      hidden=hidden,
      context=context,
      vocabulary=256_000 if second else 32_000,
      epsilon=1e-6,
      causal=False,
    ),
    text_scheme=_TEXT,
    padding=0 if second else END_OF_TEXT,
  )


ARCHITECTURES = (
  _architecture(1, 'b16'),
  _architecture(2, 'b16'),
  _architecture(1, 'so400m14', context=16),
  _architecture(1, 'so400m14', 384, suffix='_384'),  # of which patches see 378 pixels
  _architecture(2, 'so400m14'),
  _architecture(2, 'so400m14', 378, suffix='_378'),
)
