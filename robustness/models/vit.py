"""Vision transformers: patches as tokens, a class token that is read out at the end.

GELU is exact, as timm has it. The code that the official `.npz` weights were trained with
approximates it by tanh, which differs by less than 5e-4 at any point.

Reference: Dosovitskiy et al., An Image is Worth 16x16 Words, 2021, section 3.1 and table 1.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.layers import LinearHead
from robustness.models.naming import Scheme
from robustness.models.transformer import Block, PatchEmbedding, layer_norm
from robustness.models.transformer_names import TIMM, TORCHVISION, google, pytorch_tables

EPSILON = 1e-6


class VisionTransformer(nn.Module):
  """A vision transformer with a class token.

  Layers: `embedding` (tokens with their positions), `block0`, `block1`, ..., in them `norm1`,
  `attention`, `norm2` and `mlp`, then `norm` and `head`. All but `head` are [B, tokens, width].

  Attributes:
    num_classes: number of logits.
    patch: side of a patch in pixels.
    width: size of a token.
    depth: number of blocks.
    num_heads: of every attention.
    dtype: what is computed in; parameters and logits are float32.
  """

  num_classes: int
  patch: int
  width: int
  depth: int
  num_heads: int
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, 3].

    Args:
      x: images after the architecture's own normalisation, of the size of the position embedding.
      train: changes nothing: there is no dropout and no batch norm.
    """
    del train
    x = PatchEmbedding(self.patch, self.width, dtype=self.dtype, name='embedding')(
      x.astype(self.dtype)
    )
    for index in range(self.depth):
      x = Block(self.num_heads, epsilon=EPSILON, dtype=self.dtype, name=f'block{index}')(x)
    x = layer_norm(EPSILON, dtype=self.dtype, name='norm')(x)
    return LinearHead(self.num_classes, pool=False, name='head')(x[:, 0])


def build(
  num_classes: int,
  dtype: Any,
  axis_name: str | None,
  patch: int,
  width: int,
  depth: int,
  num_heads: int,
) -> nn.Module:
  """Returns the network; see `VisionTransformer`. No batch norm, so `axis_name` is not used."""
  del axis_name
  return VisionTransformer(num_classes, patch, width, depth, num_heads, dtype)


def schemes(num_heads: int, **_: int) -> tuple[Scheme, ...]:
  """Returns the names in files of timm, torchvision and google-research (`.npz`)."""
  return (
    pytorch_tables('timm', TIMM),
    pytorch_tables('torchvision', TORCHVISION),
    google(num_heads),
  )
