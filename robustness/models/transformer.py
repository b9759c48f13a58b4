"""Transformer blocks of vision transformers and of CLIP's towers.

A block normalises before attention and before the two-layer perceptron, and adds each to its input.
One linear map computes queries, keys and values, in this order.

References: Vaswani et al., Attention Is All You Need, 2017; Dosovitskiy et al., An Image is Worth
16x16 Words, 2021, equations 2 and 3.
"""

import functools
from collections.abc import Callable
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from robustness.models.layers import Layer, at_least_float32
from robustness.models.naming import OUTPUT_FIRST, Names, Stored

Activation = Literal['gelu', 'quick_gelu', 'tanh_gelu']
Positions = Literal['all', 'patches', 'no_token', 'none']
Rotary = Literal['', 'halves', 'pairs']
Initializer = nn.initializers.Initializer
QkvBias = Literal['all', 'no_key', 'none']


def activation(name: Activation, x: jax.Array) -> jax.Array:
  """Returns GELU(x) = x Φ(x), or its approximation x σ(1.702 x) (`quick_gelu`) or by tanh."""
  if name == 'quick_gelu':
    return x * nn.sigmoid(1.702 * x)
  if name == 'tanh_gelu':
    return nn.gelu(x)
  wide = at_least_float32(x)
  return (wide * (0.5 + 0.5 * jax.lax.erf(wide * 0.5**0.5))).astype(x.dtype)


layer_norm = functools.partial(nn.LayerNorm, use_fast_variance=False)
"""Layer normalisation over the last axis with a given ε; the variance takes two passes."""

LAYER_SCALE = 1e-5
"""The initial value of layer scale."""


def attend(
  query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None = None
) -> jax.Array:
  """Returns softmax(q kᵀ / √d + bias) v for every head, [..., Q, heads, d].

  Queries are [..., Q, heads, d], keys and values [..., K, heads, d]. `bias` has the same number of
  axes; the last are [heads, Q, K], or 1 in place of any. The softmax is in float32 or wider.
  """
  scores = jnp.einsum('...qhd,...khd->...hqk', query * query.shape[-1] ** -0.5, key)
  scores = at_least_float32(scores)
  if bias is not None:
    scores += bias
  return jnp.einsum('...hqk,...khd->...qhd', jax.nn.softmax(scores).astype(value.dtype), value)


def hide_later(count: int) -> jax.Array:
  """Returns the bias that hides from each of `count` positions all later ones."""
  visible = jnp.tril(jnp.ones((count, count), bool))
  return jnp.where(visible, 0.0, -jnp.inf)[None, None]


def rotary_angles(kind: Rotary, grid: tuple[int, int], before: int, size: int) -> np.ndarray:
  """Returns the angles of tokens, [before + rows × columns, size ÷ 2], for heads of a size.

  A patch at (y, x) has the angles y f, then x f, for frequencies f; the `before` tokens before the
  patches have 0. DINOv3 ('halves') has positions in (-1, 1) and f = 2π ÷ 100^(4k ÷ size). EVA-02
  ('pairs') has positions on 16 × 16 patches for a grid of any size, and f = 1 ÷ 10000^(4k ÷ size).

  References: Siméoni et al., DINOv3, 2025, section 3.2; Fang et al., EVA-02, 2023, section 2.
  """
  exponents = 4 * np.arange(size // 4) / size
  if kind == 'halves':
    frequencies = 2 * np.pi * 100.0**-exponents
    places = [(2 * np.arange(side) + 1) / side - 1 for side in grid]
  else:
    frequencies = 10000.0**-exponents
    places = [16 * np.arange(side) / side for side in grid]
  y, x = np.meshgrid(*places, indexing='ij')
  angles = np.stack([y, x], -1).reshape(-1, 2, 1) * frequencies
  return np.pad(angles.reshape(len(angles), -1), ((before, 0), (0, 0))).astype(np.float32)


def rotate(kind: Rotary, x: jax.Array, angles: jax.Array) -> jax.Array:
  """Returns heads [B, N, heads, d] with each pair of values turned by `angles` [N, d ÷ 2].

  Pairs are (i, i + d ÷ 2), or neighbours ('pairs'), which are returned as pairs of the first kind:
  the products of queries and keys stay the same.
  """
  x = at_least_float32(x)
  first, second = (x[..., ::2], x[..., 1::2]) if kind == 'pairs' else jnp.split(x, 2, axis=-1)
  cosine, sine = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
  return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)


class SelfAttention(Layer):
  """Multi-head attention of a sequence to itself; `qkv` comes first, `out` last.

  With `causal` a position sees itself and earlier positions only. Queries and keys are rotated by
  `angles`, if any, as `rotary` says. With `qkv_bias` 'no_key' keys have no bias.
  """

  num_heads: int
  causal: bool = False
  qkv_bias: QkvBias = 'all'
  rotary: Rotary = ''

  @nn.compact
  def __call__(
    self, x: jax.Array, angles: jax.Array | None = None, bias: jax.Array | None = None
  ) -> jax.Array:
    """Maps [..., N, D] to the same shape; `bias` is added to the scores, see `attend`."""
    width = x.shape[-1]
    heads = (*x.shape[:-1], 3, self.num_heads, width // self.num_heads)
    qkv = nn.Dense(3 * width, self.qkv_bias == 'all', dtype=self.dtype, name='qkv')(x)
    if self.qkv_bias == 'no_key':
      zeros = nn.initializers.zeros_init()
      query_bias = self.param('query_bias', zeros, (width,))
      value_bias = self.param('value_bias', zeros, (width,))
      qkv_bias = jnp.concatenate([query_bias, jnp.zeros(width), value_bias])
      qkv += qkv_bias.reshape((1,) * (qkv.ndim - 1) + (-1,)).astype(qkv.dtype)
    qkv = qkv.reshape(heads)
    query, key, value = qkv[..., 0, :, :], qkv[..., 1, :, :], qkv[..., 2, :, :]
    if angles is not None:
      query = rotate(self.rotary, query, angles).astype(x.dtype)
      key = rotate(self.rotary, key, angles).astype(x.dtype)
    if self.causal:
      bias = hide_later(x.shape[-2])
    attended = attend(query, key, value, bias).reshape(x.shape)
    return nn.Dense(width, dtype=self.dtype, name='out')(attended)


class Perceptron(Layer):
  """Two linear maps, `fc1` to `hidden` values (0: four times the width) and `fc2` back.

  Between them is an activation, or with `gated` the product of silu(first half) and second half,
  normalised if there is an `epsilon`.
  """

  activation: Activation = 'gelu'
  hidden: int = 0
  gated: bool = False
  epsilon: float = 0

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [..., D] to the same shape."""
    width = x.shape[-1]
    hidden = self.hidden or 4 * width
    x = nn.Dense((1 + self.gated) * hidden, dtype=self.dtype, name='fc1')(x)
    first, second = x[..., :hidden], x[..., hidden:]
    x = nn.silu(first) * second if self.gated else activation(self.activation, x)
    if self.epsilon:
      x = layer_norm(self.epsilon, dtype=self.dtype, name='norm')(x)
    return nn.Dense(width, dtype=self.dtype, name='fc2')(x)


class Block(Layer):
  """Attention and a perceptron, each applied to the normalised input and added to it.

  `attention` and `perceptron` return the modules for `name` and the arguments in `common`. With
  `layer_scale` a learned value per channel scales both (Touvron et al., 2021, equation 4).
  """

  attention: Callable[..., nn.Module]
  perceptron: Callable[..., nn.Module] = Perceptron
  epsilon: float = 1e-6
  layer_scale: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, angles: jax.Array | None = None) -> jax.Array:
    """Maps [B, N, D] to [B, N, D]; for `angles` see `SelfAttention`."""
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm1')(x)
    y = self.attention(**self.common, name='attention')(y, angles)
    x = x + self._scaled(y, 'scale1')
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm2')(x)
    return x + self._scaled(self.perceptron(**self.common, name='mlp')(y), 'scale2')

  def _scaled(self, y: jax.Array, name: str) -> jax.Array:
    """Returns `y` times the layer scale `name`, if the block has layer scale."""
    if not self.layer_scale:
      return y
    scale = self.param(name, nn.initializers.constant(LAYER_SCALE), y.shape[-1:])
    return y * scale[None, None].astype(y.dtype)


class PatchEmbedding(Layer):
  """Linear maps of square patches after a class token and registers, plus positions.

  Registers have no positions. With `positions` 'patches' the class token has no position, with
  'no_token' there is no class token, and with 'none' no token has a position.
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
    if self.positions != 'none':
      before = int(self.positions == 'all')
      start = nn.initializers.normal(0.02)
      position = self._learned('position', start, before + x.shape[1], x)
      if before:
        tokens[0] += position[:, :1]
      x = x + position[:, before:]
    tokens = [jnp.broadcast_to(token, (len(x), *token.shape[1:])) for token in tokens]
    return jnp.concatenate([*tokens, x], axis=1)

  def _learned(self, name: str, start: Initializer, count: int, x: jax.Array) -> jax.Array:
    """Returns a learned array of `count` tokens in the type of `x`."""
    return self.param(name, start, (1, count, self.width)).astype(x.dtype)


class AttentionPool(Layer):
  """Attention of a learned query to all tokens, then a perceptron with a residual connection."""

  num_heads: int
  perceptron: Callable[..., nn.Module] = Perceptron
  epsilon: float = 1e-6

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, N, D] to [B, D]."""
    count, _, width = x.shape
    latent = self.param('latent', nn.initializers.normal(width**-0.5), (1, 1, width))
    query = nn.Dense(width, dtype=self.dtype, name='query')(latent.astype(x.dtype))
    query = jnp.broadcast_to(query, (count, 1, width)).reshape(count, 1, self.num_heads, -1)
    key_value = nn.Dense(2 * width, dtype=self.dtype, name='key_value')(x)
    key, value = jnp.moveaxis(key_value.reshape(count, x.shape[1], 2, self.num_heads, -1), 2, 0)
    pooled = attend(query, key, value).reshape(count, width)
    pooled = nn.Dense(width, dtype=self.dtype, name='out')(pooled)
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm')(pooled)
    return pooled + self.perceptron(**self.common, name='mlp')(y)


class UnitLength(nn.Module):
  """Divides each embedding by its length, as a layer so that its output can be captured."""

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, E] to [B, E] of length 1, in float32 or wider."""
    x = at_least_float32(x)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def attention_names(ours: str, theirs: str) -> Names:
  """Returns PyTorch's names of queries, keys and values: `in_proj_weight` and `in_proj_bias`."""
  kernel = Stored((f'{theirs}_weight',), OUTPUT_FIRST)
  return {f'{ours}/kernel': kernel, f'{ours}/bias': f'{theirs}_bias'}
