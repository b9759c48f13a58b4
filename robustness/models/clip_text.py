"""CLIP's text tower: token ids to embeddings in the space of the image tower.

A causal transformer of 12 blocks, width 512 and 8 heads, read out at the end-of-text token, which
has the highest id of all.

Reference: Radford et al., Learning Transferable Visual Models From Natural Language Supervision,
2021, section 2.4.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.naming import Path, Scheme, Stored
from robustness.models.transformer import Block, layer_norm
from robustness.models.transformer_names import OPEN_CLIP_BLOCKS, pytorch_tables

CONTEXT = 77
VOCABULARY = 49408
WIDTH, DEPTH, NUM_HEADS = 512, 12, 8
EPSILON = 1e-5
_TABLE = {**OPEN_CLIP_BLOCKS, 'position': 'positional_embedding', 'norm': 'ln_final'}


class TextTower(nn.Module):
  """The text tower of CLIP RN50 and ViT-B/32.

  Attributes:
    size: of the embedding, 1024 for RN50 and 512 for ViT-B/32.
    activation: 'gelu', or 'quick_gelu' for OpenAI's weights and those trained like them.
    dtype: what is computed in; parameters are float32.
  """

  size: int
  activation: str = 'gelu'
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, tokens: jax.Array) -> jax.Array:
    """Maps token ids int32 [B, 77] to embeddings float32 [B, size], not of unit length."""
    x = nn.Embed(VOCABULARY, WIDTH, dtype=self.dtype, name='tokens')(tokens)
    position = self.param('position', nn.initializers.normal(0.01), (CONTEXT, WIDTH))
    x = x + position[None].astype(x.dtype)
    for index in range(DEPTH):
      x = Block(NUM_HEADS, self.activation, EPSILON, True, self.dtype, name=f'block{index}')(x)
    x = layer_norm(EPSILON, dtype=self.dtype, name='norm')(x)
    last = tokens.argmax(-1)
    x = jnp.take_along_axis(x, last[:, None, None], axis=1)[:, 0]
    x = nn.Dense(self.size, use_bias=False, dtype=self.dtype, name='projection')(x)
    return x.astype(jnp.float32)


def scheme() -> Scheme:
  """Returns the names in state dicts of open_clip; the image tower's arrays are left out."""
  return Scheme('open_clip', _locate, ('visual.*', 'logit_scale', 'attn_mask'))


def _locate(path: Path) -> Stored:
  alone: dict[Path, str] = {
    ('tokens', 'embedding'): 'token_embedding.weight',
    ('projection', 'kernel'): 'text_projection',
  }
  if path[1:] in alone:
    return Stored((alone[path[1:]],))
  return pytorch_tables('open_clip', _TABLE).locate(path)
