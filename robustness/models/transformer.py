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
"""The activation of a perceptron, see `activation`."""
Positions = Literal['all', 'patches', 'no_token', 'none']
"""Which tokens have a position embedding, see `PatchEmbedding`."""
Rotary = Literal['', 'halves', 'pairs']
"""How queries and keys are rotated by position, see `rotary_angles`; '' does not rotate them."""
Initializer = nn.initializers.Initializer
QkvBias = Literal['all', 'no_key', 'none']
"""Which of queries, keys and values have a bias."""


def activation(name: Activation, x: jax.Array) -> jax.Array:
  """Applies an activation of the GELU family.

  Args:
    name: 'gelu' for x Φ(x), with the normal distribution function Φ; 'quick_gelu' for x σ(1.702 x),
      with the logistic function σ; or 'tanh_gelu' for the usual approximation by tanh.
    x: inputs of any shape.
  """
  if name == 'quick_gelu':
    return x * nn.sigmoid(1.702 * x)
  if name == 'tanh_gelu':
    return nn.gelu(x)
  wide = at_least_float32(x)
  distribution = 0.5 + 0.5 * jax.lax.erf(wide * 0.5**0.5)  # Φ
  return (wide * distribution).astype(x.dtype)


layer_norm = functools.partial(nn.LayerNorm, use_fast_variance=False)
"""Layer normalisation over the last axis with a given ε; the variance takes two passes."""

LAYER_SCALE = 1e-5
"""The initial value of layer scale, the learned factor of each channel of a residual branch."""


def attend(
  query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None = None
) -> jax.Array:
  """Returns the attention softmax(q kᵀ / √d + bias) v of every head, [..., Q, heads, d].

  The softmax is computed in float32 or wider.

  Args:
    query: [..., Q, heads, d].
    key: [..., K, heads, d].
    value: [..., K, heads, d].
    bias: array that broadcasts to [..., heads, Q, K] with equally many axes; None for no bias.
  """
  scores = jnp.einsum('...qhd,...khd->...hqk', query * query.shape[-1] ** -0.5, key)
  scores = at_least_float32(scores)
  if bias is not None:
    scores += bias
  return jnp.einsum('...hqk,...khd->...qhd', jax.nn.softmax(scores).astype(value.dtype), value)


def hide_later(count: int) -> jax.Array:
  """Returns a causal attention bias [1, 1, count, count]: −∞ for later positions, else 0."""
  visible = jnp.tril(jnp.ones((count, count), bool))
  return jnp.where(visible, 0.0, -jnp.inf)[None, None]


def rotary_angles(kind: Rotary, grid: tuple[int, int], before: int, size: int) -> np.ndarray:
  """Returns the rotation angles of rotary position embeddings for image patches.

  A patch at position (y, x) has the angles y f_k, then x f_k, for k = 0, ..., size ÷ 4 − 1.

  Args:
    kind: 'halves' as in DINOv3, with positions in (−1, 1) and f_k = 2π ÷ 100^(4k ÷ size); or
      'pairs' as in EVA-02, with positions scaled to 16 × 16 patches and f_k = 1 ÷
      10000^(4k ÷ size).
    grid: number of rows and of columns of patches.
    before: number of tokens before the patches, such as the class token. Their angles are 0.
    size: number of channels of an attention head, a multiple of 4.

  Returns:
    Angles [before + rows · columns, size ÷ 2].

  References:
    Siméoni et al., DINOv3, 2025, section 3.2; Fang et al., EVA-02, 2023, section 2.
  """
  exponents = 4 * np.arange(size // 4) / size
  if kind == 'halves':
    frequencies = 2 * np.pi * 100.0**-exponents
    coordinates = [(2 * np.arange(side) + 1) / side - 1 for side in grid]
  else:
    frequencies = 10000.0**-exponents
    coordinates = [16 * np.arange(side) / side for side in grid]
  y, x = np.meshgrid(*coordinates, indexing='ij')
  angles = np.stack([y, x], -1).reshape(-1, 2, 1) * frequencies  # [patches, 2, size ÷ 4]
  return np.pad(angles.reshape(len(angles), -1), ((before, 0), (0, 0))).astype(np.float32)


def rotate(kind: Rotary, x: jax.Array, angles: jax.Array) -> jax.Array:
  """Rotates pairs of channels of queries or keys, for rotary position embeddings.

  Args:
    kind: which channels form a pair: 'halves' for (i, i + d ÷ 2), 'pairs' for (2 i, 2 i + 1).
    x: queries or keys [B, N, heads, d].
    angles: rotation angle of each pair, [N, d ÷ 2].

  Returns:
    [B, N, heads, d]. The rotated pair i is always at channels (i, i + d ÷ 2). With 'pairs' this
    permutes the channels of queries and keys equally, which does not change attention scores.
  """
  x = at_least_float32(x)
  first, second = (x[..., ::2], x[..., 1::2]) if kind == 'pairs' else jnp.split(x, 2, axis=-1)
  cosine, sine = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
  return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)


class SelfAttention(Layer):
  """Multi-head self-attention: a linear map `qkv`, attention of every head, a linear map `out`.

  Attributes:
    num_heads: number of attention heads.
    causal: whether a position attends only to itself and to earlier positions.
    qkv_bias: which of queries, keys and values have a bias: 'all', 'none', or 'no_key' for all but
      the keys.
    rotary: which pairs of channels are rotated by the argument `angles`, see `rotate`; '' for none.
  """

  num_heads: int
  causal: bool = False
  qkv_bias: QkvBias = 'all'
  rotary: Rotary = ''

  @nn.compact
  def __call__(
    self, x: jax.Array, angles: jax.Array | None = None, bias: jax.Array | None = None
  ) -> jax.Array:
    """Maps tokens [..., N, D] to tokens of the same shape.

    Args:
      x: N tokens [..., N, D].
      angles: rotation angles of queries and keys, [N, D ÷ heads ÷ 2]; None for no rotation.
      bias: array that broadcasts to [..., heads, N, N] and is added to attention scores. A causal
        layer ignores it.
    """
    width = x.shape[-1]
    shape = (*x.shape[:-1], 3, self.num_heads, width // self.num_heads)
    qkv = nn.Dense(3 * width, self.qkv_bias == 'all', dtype=self.dtype, name='qkv')(x)
    if self.qkv_bias == 'no_key':
      zeros = nn.initializers.zeros_init()
      query_bias = self.param('query_bias', zeros, (width,))
      value_bias = self.param('value_bias', zeros, (width,))
      qkv_bias = jnp.concatenate([query_bias, jnp.zeros(width), value_bias])
      # sums of arrays of different ranks are an error here
      qkv += jnp.expand_dims(qkv_bias, range(qkv.ndim - 1)).astype(qkv.dtype)
    qkv = qkv.reshape(shape)  # [..., N, 3, heads, D / heads]
    query, key, value = qkv[..., 0, :, :], qkv[..., 1, :, :], qkv[..., 2, :, :]
    if angles is not None:
      query = rotate(self.rotary, query, angles).astype(x.dtype)
      key = rotate(self.rotary, key, angles).astype(x.dtype)
    if self.causal:
      bias = hide_later(x.shape[-2])
    attended = attend(query, key, value, bias).reshape(x.shape)
    return nn.Dense(width, dtype=self.dtype, name='out')(attended)


class Perceptron(Layer):
  """Two linear maps, `fc1` to hidden channels and `fc2` back, with an activation between them.

  Attributes:
    activation: the activation.
    hidden: number of hidden channels; 0 for four times the number of input channels.
    gated: whether `fc1` has two outputs a and b with `hidden` channels each, and silu(a) · b
      replaces the activation.
    epsilon: ε of a layer normalisation before `fc2`; 0 for no normalisation.
  """

  activation: Activation = 'gelu'
  hidden: int = 0
  gated: bool = False
  epsilon: float = 0

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [..., D] to [..., D] by two linear maps with an activation, or a gate, between them."""
    width = x.shape[-1]
    hidden = self.hidden or 4 * width
    x = nn.Dense(2 * hidden if self.gated else hidden, dtype=self.dtype, name='fc1')(x)
    if self.gated:
      gate, values = x[..., :hidden], x[..., hidden:]
      x = nn.silu(gate) * values
    else:
      x = activation(self.activation, x)
    if self.epsilon:
      x = layer_norm(self.epsilon, dtype=self.dtype, name='norm')(x)
    return nn.Dense(width, dtype=self.dtype, name='fc2')(x)


class Block(Layer):
  """A transformer block: self-attention, then a perceptron, each with a residual connection.

  Both take layer-normalised inputs.

  Attributes:
    attention: function that returns the attention layer. It is called with `name`, `dtype` and
      `axis_name`.
    perceptron: function that returns the perceptron, called with the same arguments.
    epsilon: ε of layer normalisation.
    layer_scale: whether the outputs of both are multiplied by learned numbers, one per channel.

  Reference:
    Layer scale: Touvron et al., Going deeper with image transformers, 2021, equation 4.
  """

  attention: Callable[..., nn.Module]
  perceptron: Callable[..., nn.Module] = Perceptron
  epsilon: float = 1e-6
  layer_scale: bool = False

  @nn.compact
  def __call__(self, x: jax.Array, angles: jax.Array | None = None) -> jax.Array:
    """Maps tokens [B, N, D] to tokens of the same shape.

    Args:
      x: N tokens [B, N, D].
      angles: rotation angles of queries and keys, [N, D ÷ heads ÷ 2]; None for no rotation.
    """
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm1')(x)
    y = self.attention(**self.common, name='attention')(y, angles)
    x = x + self.drop_path(self._scaled(y, 'scale1'), branch=0)
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm2')(x)
    y = self._scaled(self.perceptron(**self.common, name='mlp')(y), 'scale2')
    return x + self.drop_path(y, branch=1)

  def _scaled(self, y: jax.Array, name: str) -> jax.Array:
    """Multiplies `y` [B, N, D] by the layer scale `name` [D], if the block has layer scales."""
    if not self.layer_scale:
      return y
    scale = self.param(name, nn.initializers.constant(LAYER_SCALE), y.shape[-1:])
    return y * scale[None, None].astype(y.dtype)


class PatchEmbedding(Layer):
  """Embeds an image as tokens: a class token, registers, and a linear map of each square patch.

  Attributes:
    patch: side of a patch in pixels.
    width: number of channels of a token.
    use_bias: whether the linear map of patches has a bias.
    registers: number of registers, which are learned tokens without a position.
    positions: which tokens get a learned position embedding: 'all' for the class token and patches;
      'patches' for patches only; 'none'; or 'no_token' for the patches of a network without a class
      token.
  """

  patch: int
  width: int
  use_bias: bool = True
  registers: int = 0
  positions: Positions = 'all'

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps images [B, H, W, C] to tokens [B, N, width].

    N is (H // patch) · (W // patch) patches, plus the registers and the class token. The class
    token comes first, then the registers, then the patches row by row.
    """
    sides = (self.patch, self.patch)  # of the kernel, and strides, so that patches do not overlap
    x = nn.Conv(
      self.width, sides, sides, 'VALID', use_bias=self.use_bias, dtype=self.dtype, name='patches'
    )(x)
    x = x.reshape(x.shape[0], -1, self.width)
    tokens = []
    if self.positions != 'no_token':
      tokens.append(self._learned('class_token', nn.initializers.zeros_init(), 1, x))
    normal = nn.initializers.normal(0.02)
    if self.registers:
      tokens.append(self._learned('registers', normal, self.registers, x))
    if self.positions != 'none':
      num_before = int(self.positions == 'all')  # 1 for the position of the class token
      position = self._learned('position', normal, num_before + x.shape[1], x)
      if num_before:  # tokens[0] is the class token
        tokens[0] += position[:, :1]
      x = x + position[:, num_before:]
    # the same learned tokens for each image
    tokens = [jnp.broadcast_to(token, (len(x), *token.shape[1:])) for token in tokens]
    return jnp.concatenate([*tokens, x], axis=1)

  def _learned(self, name: str, start: Initializer, count: int, x: jax.Array) -> jax.Array:
    """Returns `count` learned tokens [1, count, width], in the dtype of `x`.

    Args:
      name: name of the parameter.
      start: its initialiser.
      count: number of tokens.
      x: array with the dtype of the result.
    """
    return self.param(name, start, (1, count, self.width)).astype(x.dtype)


class AttentionPool(Layer):
  """Pools tokens by attention of one learned query, then applies a residual perceptron.

  Attributes:
    num_heads: number of attention heads.
    perceptron: function that returns the perceptron. It is called with `name`, `dtype` and
      `axis_name`.
    epsilon: ε of the layer normalisation before the perceptron.
  """

  num_heads: int
  perceptron: Callable[..., nn.Module] = Perceptron
  epsilon: float = 1e-6

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Pools N tokens [B, N, D] to one, [B, D], by attention of a learned query and a perceptron."""
    count, num_tokens, width = x.shape
    latent = self.param('latent', nn.initializers.normal(width**-0.5), (1, 1, width))
    query = nn.Dense(width, dtype=self.dtype, name='query')(latent.astype(x.dtype))
    query = jnp.broadcast_to(query, (count, 1, width)).reshape(count, 1, self.num_heads, -1)
    key_value = nn.Dense(2 * width, dtype=self.dtype, name='key_value')(x)
    # [B, N, 2 D] to [B, N, 2, heads, D / heads]; the axis of two is of keys and values
    key_value = key_value.reshape(count, num_tokens, 2, self.num_heads, -1)
    key, value = jnp.moveaxis(key_value, 2, 0)
    pooled = attend(query, key, value).reshape(count, width)
    pooled = nn.Dense(width, dtype=self.dtype, name='out')(pooled)
    y = layer_norm(self.epsilon, dtype=self.dtype, name='norm')(pooled)
    return pooled + self.perceptron(**self.common, name='mlp')(y)


class UnitLength(nn.Module):
  """Divides each embedding by its L2 norm, as a named layer.

  Studies can record the output of a named layer.
  """

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps [B, E] to [B, E] of length 1, in float32 or wider."""
    x = at_least_float32(x)
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def attention_names(ours: str, theirs: str) -> Names:
  """Maps our arrays of a layer `qkv` to their names in PyTorch.

  Args:
    ours: path of the layer in this project.
    theirs: beginning of PyTorch's names, such as 'attn.in_proj' for 'attn.in_proj_weight' and
      'attn.in_proj_bias'.
  """
  kernel = Stored((f'{theirs}_weight',), OUTPUT_FIRST)
  return {f'{ours}/kernel': kernel, f'{ours}/bias': f'{theirs}_bias'}
