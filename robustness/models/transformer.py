"""Transformer blocks as vision transformers and CLIP's towers share them.

A block normalises before attention and before the two-layer perceptron, and adds each to its input.
Queries, keys and values come out of one linear map, in this order.

References: Vaswani et al., Attention Is All You Need, 2017; Dosovitskiy et al., An Image is Worth
16x16 Words, 2021, equations 2 and 3.
"""

import functools
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from robustness.models.layers import Layer, at_least_float32
from robustness.models.naming import OUTPUT_FIRST, Names, Stored

Activation = Literal['gelu', 'quick_gelu', 'tanh_gelu']
Positions = Literal['all', 'patches', 'no_token', 'rotary']


def activation(name: Activation, x: jax.Array) -> jax.Array:
  """Returns GELU(x) = x Φ(x) exactly, or approximated by x σ(1.702 x), `quick_gelu`, or by tanh."""
  if name == 'quick_gelu':
    return x * nn.sigmoid(1.702 * x)
  return nn.gelu(x, approximate=name == 'tanh_gelu')


layer_norm = functools.partial(nn.LayerNorm, use_fast_variance=False)
"""Layer normalisation over the last axis, given ε, its variance taken in two passes."""

LAYER_SCALE = 1e-5
"""What layer scale begins with."""


def attend(query: jax.Array, key: jax.Array, value: jax.Array, causal: bool = False) -> jax.Array:
  """Returns softmax(q kᵀ / √d) v for every head, [B, Q, heads, d].

  Queries are [B, Q, heads, d], keys and values [B, K, heads, d]. The softmax is taken in float32 or
  wider. With `causal` position q sees keys 0..q only.
  """
  scores = jnp.einsum('bqhd,bkhd->bhqk', query * query.shape[-1] ** -0.5, key)
  scores = at_least_float32(scores)
  if causal:
    visible = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    scores = jnp.where(visible[None, None], scores, -jnp.inf)
  return jnp.einsum('bhqk,bkhd->bqhd', jax.nn.softmax(scores).astype(value.dtype), value)


def rotary_angles(grid: tuple[int, int], before: int, size: int) -> np.ndarray:
  """Returns DINOv3's angles of tokens, [before + rows × columns, size ÷ 2], of heads of a size.

  A patch at y and x in (-1, 1) has 2π y ÷ p, then 2π x ÷ p, for periods p of 100^(4k ÷ size);
  tokens before the patches are not turned.

  Reference: Siméoni et al., DINOv3, 2025, section 3.2.
  """
  periods = 100.0 ** (4 * np.arange(size // 4) / size)
  places = [(2 * np.arange(side) + 1) / side - 1 for side in grid]
  y, x = np.meshgrid(*places, indexing='ij')
  angles = 2 * np.pi * np.stack([y, x], -1).reshape(-1, 2, 1) / periods
  return np.pad(angles.reshape(len(angles), -1), ((before, 0), (0, 0))).astype(np.float32)


def rotate(x: jax.Array, angles: jax.Array) -> jax.Array:
  """Returns heads [B, N, heads, d] with each pair (i, i + d ÷ 2) turned by `angles` [N, d ÷ 2]."""
  first, second = jnp.split(at_least_float32(x), 2, axis=-1)
  cosine, sine = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
  turned = [first * cosine - second * sine, second * cosine + first * sine]
  return jnp.concatenate(turned, -1).astype(x.dtype)


class SelfAttention(Layer):
  """Multi-head attention of a sequence to itself; `qkv` comes first, `out` last.

  Given angles, queries and keys are rotated by them.
  """

  num_heads: int
  causal: bool = False
  qkv_bias: bool = True

  @nn.compact
  def __call__(self, x: jax.Array, angles: jax.Array | None = None) -> jax.Array:
    """Maps [B, N, D] to [B, N, D]."""
    width = x.shape[-1]
    x = nn.Dense(3 * width, self.qkv_bias, dtype=self.dtype, name='qkv')(x)
    x = x.reshape(*x.shape[:2], 3, self.num_heads, width // self.num_heads)
    query, key = x[:, :, 0], x[:, :, 1]
    if angles is not None:
      query, key = rotate(query, angles), rotate(key, angles)
    x = attend(query, key, x[:, :, 2], self.causal)
    return nn.Dense(width, dtype=self.dtype, name='out')(x.reshape(*x.shape[:2], width))


class Perceptron(Layer):
  """Two linear maps, `fc1` to four times the width and `fc2` back, an activation between."""

  activation: Activation = 'gelu'

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, N, D] to [B, N, D]."""
    width = x.shape[-1]
    x = nn.Dense(4 * width, dtype=self.dtype, name='fc1')(x)
    return nn.Dense(width, dtype=self.dtype, name='fc2')(activation(self.activation, x))


class Block(Layer):
  """Attention and perceptron, each of the normalised input and added to it.

  With `causal` a position sees itself and those before it only. With `layer_scale` what is added is
  first multiplied by a learned value a channel (Touvron et al., 2021, equation 4).
  """

  num_heads: int
  activation: Activation = 'gelu'
  epsilon: float = 1e-6
  causal: bool = False
  layer_scale: bool = False
  qkv_bias: bool = True

  @nn.compact
  def __call__(self, x: jax.Array, angles: jax.Array | None = None) -> jax.Array:
    """Maps [B, N, D] to [B, N, D]; for `angles` see `SelfAttention`."""
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm1')(x)
    how = (self.num_heads, self.causal, self.qkv_bias)
    y = SelfAttention(*how, **self.common, name='attention')(y, angles)
    x = x + self._scaled(y, 'scale1')
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm2')(x)
    y = Perceptron(self.activation, **self.common, name='mlp')(y)
    return x + self._scaled(y, 'scale2')

  def _scaled(self, y: jax.Array, name: str) -> jax.Array:
    if not self.layer_scale:
      return y
    scale = self.param(name, nn.initializers.constant(LAYER_SCALE), y.shape[-1:])
    return y * scale[None, None].astype(y.dtype)


class PatchEmbedding(Layer):
  """Linear maps of square patches, a class token and registers before them, positions added.

  Registers have no positions. With `positions` 'patches' the class token has none either, with
  'no_token' there is no such token, and with 'rotary' no token has any.
  """

  patch: int
  width: int
  use_bias: bool = True
  registers: int = 0
  positions: Positions = 'all'

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps images [B, H, W, C] to tokens [B, 1 + registers + (H // patch) (W // patch), width]."""
    side = (self.patch, self.patch)
    x = nn.Conv(
      self.width, side, side, 'VALID', use_bias=self.use_bias, dtype=self.dtype, name='patches'
    )(x)
    x = x.reshape(x.shape[0], -1, self.width)
    tokens = []
    if self.positions != 'no_token':
      tokens.append(self._learned('class_token', nn.initializers.zeros_init(), 1, x))
    if self.registers:
      start = nn.initializers.normal(0.02)
      tokens.append(self._learned('registers', start, self.registers, x))
    if self.positions != 'rotary':
      placed = int(self.positions == 'all')
      start = nn.initializers.normal(0.02)
      position = self._learned('position', start, placed + x.shape[1], x)
      if placed:
        tokens[0] += position[:, :1]
      x = x + position[:, placed:]
    tokens = [jnp.broadcast_to(token, (len(x), *token.shape[1:])) for token in tokens]
    return jnp.concatenate([*tokens, x], axis=1)

  def _learned(
    self, name: str, start: nn.initializers.Initializer, count: int, x: jax.Array
  ) -> jax.Array:
    return self.param(name, start, (1, count, self.width)).astype(x.dtype)


class AttentionPool(Layer):
  """Attention of a learned query to all tokens, then a perceptron of what it gives, added to it."""

  num_heads: int
  activation: Activation = 'gelu'
  epsilon: float = 1e-6

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, N, D] to [B, D]."""
    count, _, width = x.shape
    latent = self.param('latent', nn.initializers.normal(width**-0.5), (1, 1, width))
    query = nn.Dense(width, dtype=self.dtype, name='query')(latent.astype(x.dtype))
    query = jnp.broadcast_to(query, (count, 1, width)).reshape(count, 1, self.num_heads, -1)
    both = nn.Dense(2 * width, dtype=self.dtype, name='key_value')(x)
    key, value = jnp.moveaxis(both.reshape(count, x.shape[1], 2, self.num_heads, -1), 2, 0)
    pooled = attend(query, key, value).reshape(count, width)
    pooled = nn.Dense(width, dtype=self.dtype, name='out')(pooled)
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm')(pooled)
    return pooled + Perceptron(self.activation, **self.common, name='mlp')(y)


class UnitLength(nn.Module):
  """Divides each embedding by its length, as one layer whose output can be captured."""

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, E] to [B, E] of length 1, in float32 or wider."""
    x = at_least_float32(x)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def attention_names(ours: str, theirs: str) -> Names:
  """Returns the rows of a `Scheme` for queries, keys and values as PyTorch's attention names them:
  `in_proj_weight` and `in_proj_bias`."""
  return {
    f'{ours}/kernel': Stored((f'{theirs}_weight',), OUTPUT_FIRST),
    f'{ours}/bias': f'{theirs}_bias',
  }
