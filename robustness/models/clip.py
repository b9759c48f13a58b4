"""CLIP's image towers as classifiers: a unit-length embedding, then a linear map to logits.

For a zero-shot classifier the map's kernel holds the embedding of each class, times CLIP's scale,
and its bias is zero; `robustness.models.zero_shot` makes it from the text tower. A linear probe
has the same form.

Reference: Radford et al., Learning Transferable Visual Models From Natural Language Supervision,
2021, section 2.4 and figure 3.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from robustness.models.clip_resnet import resnet_layer_name, resnet_tower
from robustness.models.layers import LinearHead, at_least_float32
from robustness.models.naming import Path, Scheme, Stored, pytorch_array, reshaped
from robustness.models.transformer import ACTIVATIONS, Block, PatchEmbedding, layer_norm
from robustness.models.transformer_names import OPEN_CLIP_BLOCKS, pytorch_tables

EPSILON = 1e-5
HEAD = 'zero_shot_head'
PROJECT = 'open_clip, plus a head that python -m robustness.models.zero_shot makes'
EMBEDDING_SIZE = {'resnet': 1024, 'transformer': 512}
TEXT_ARRAYS = (
  'transformer.*',
  'token_embedding.weight',
  'positional_embedding',
  'ln_final.*',
  'text_projection',
  'logit_scale',
  'attn_mask',
  '*.num_batches_tracked',
)
_TABLE = {
  'embedding/patches': 'visual.conv1',
  'pre_norm': 'visual.ln_pre',
  **{ours: f'visual.{theirs}' for ours, theirs in OPEN_CLIP_BLOCKS.items()},
  'norm': 'visual.ln_post',
  'head/dense': HEAD,
}


class UnitLength(nn.Module):
  """Divides each embedding by its length, as one layer whose output can be captured."""

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, E] to [B, E] of length 1, in float32 or wider."""
    x = at_least_float32(x)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


class ClipTransformer(nn.Module):
  """The vision transformer tower with its head: 12 blocks of width 768 with 12 heads.

  Layers: `embedding`, `pre_norm`, `block0` to `block11`, `norm`, `projection` (the embedding of
  the image, [B, 512]), `unit` (the same at length 1) and `head`.

  Attributes:
    num_classes: number of logits.
    patch: side of a patch in pixels.
    activation: 'gelu', or 'quick_gelu' for OpenAI's weights and those trained like them.
    dtype: what is computed in; parameters and logits are float32.
  """

  num_classes: int
  patch: int = 32
  activation: str = 'gelu'
  dtype: Any = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, 3]."""
    del train
    x = PatchEmbedding(self.patch, 768, use_bias=False, dtype=self.dtype, name='embedding')(
      x.astype(self.dtype)
    )
    x = layer_norm(EPSILON, dtype=self.dtype, name='pre_norm')(x)
    for index in range(12):
      x = Block(12, self.activation, EPSILON, dtype=self.dtype, name=f'block{index}')(x)
    x = layer_norm(EPSILON, dtype=self.dtype, name='norm')(x)[:, 0]
    x = nn.Dense(
      EMBEDDING_SIZE['transformer'], use_bias=False, dtype=self.dtype, name='projection'
    )(x)
    return LinearHead(self.num_classes, pool=False, name='head')(UnitLength(name='unit')(x))


class ClipResNet(nn.Module):
  """The ResNet-50 tower with its head.

  Layers: `stem`, `stage1` to `stage4`, `attention_pool` (the embedding of the image, [B, 1024]),
  `unit` (the same at length 1) and `head`.

  Attributes:
    num_classes: number of logits.
    dtype: what is computed in; parameters, statistics and logits are float32.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
  """

  num_classes: int
  dtype: Any = jnp.float32
  axis_name: str | None = None

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns logits [B, num_classes] of normalised images [B, H, W, 3]."""
    x = resnet_tower(x, train, EMBEDDING_SIZE['resnet'], self.dtype, self.axis_name)
    return LinearHead(self.num_classes, pool=False, name='head')(UnitLength(name='unit')(x))


def build(
  num_classes: int, dtype: Any, axis_name: str | None, patch: int, quick_gelu: int = 0
) -> nn.Module:
  """Returns an image tower with its head.

  Args:
    num_classes: number of logits.
    dtype: what is computed in.
    axis_name: the pmap axis over which batch norm is synchronised in training, or None.
    patch: side of a vision transformer's patch in pixels; 0 means the ResNet-50.
    quick_gelu: 1 for x σ(1.702 x) in place of GELU; no matter to the ResNet.
  """
  if not patch:
    return ClipResNet(num_classes, dtype, axis_name)
  return ClipTransformer(num_classes, patch, ACTIVATIONS[quick_gelu], dtype)


def schemes(patch: int, **_: int) -> tuple[Scheme, ...]:
  """Returns the names in state dicts of open_clip, and a name for the head that they lack.

  The text tower's arrays are left out; `robustness.models.zero_shot` makes the head from them.
  """
  locate = _locate_transformer if patch else _locate_resnet
  return (Scheme(PROJECT, locate, TEXT_ARRAYS, headless='visual.'),)


def _locate_transformer(path: Path) -> Stored:
  alone: dict[Path, Stored] = {
    ('embedding', 'class_token'): Stored(
      ('visual.class_embedding',), reshaped(lambda shape: shape[2:])
    ),
    ('embedding', 'position'): Stored(
      ('visual.positional_embedding',), reshaped(lambda shape: shape[1:])
    ),
    ('projection', 'kernel'): Stored(('visual.proj',)),
  }
  return alone.get(path[1:]) or pytorch_tables('open_clip', _TABLE).locate(path)


def _locate_resnet(path: Path) -> Stored:
  if path[1:] == ('attention_pool', 'position'):
    return Stored(('visual.attnpool.positional_embedding',))
  layer = HEAD if path[1] == 'head' else f'visual.{resnet_layer_name(path[1:-1])}'
  return pytorch_array(layer, path[-1])
