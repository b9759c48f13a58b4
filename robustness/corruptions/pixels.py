"""Values of pixels: the 256 levels of 8 bits, grey values, and the hue, saturation, value model.

In that model V is the largest channel, S = (V - smallest) / V, and every channel is
c = V (1 - S k_c) with 0 ≤ k_c ≤ 1 that depends on the hue alone. So V and S can be replaced by
scaling; no angle is ever computed.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice

QUANTIZE = ('floor', 'round')
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # of R, G, B
GUARD = 2.0**-12  # of a level: keeps float32 error from moving what is exactly on a threshold

LEVELS = np.arange(256, dtype=np.float32) / np.float32(255)
"""The levels as an 8-bit file gives them; XLA's division by 255 is one bit off for half of them."""


def to_levels(image: jax.Array, quantize: str = 'floor') -> jax.Array:
  """Returns x in [0, 1] as one of the levels k / 255, float32.

  'floor' truncates, as the released generators do (results are ½ level darker in the mean); 'round'
  takes the nearest level, halves to even.
  """
  choice('quantize', quantize, QUANTIZE)
  scaled = jnp.clip(image, 0, 1) * 255
  if quantize == 'floor':
    levels = jnp.floor(scaled + GUARD)
  else:
    levels = jnp.round(jnp.round(scaled / GUARD) * GUARD)
  return from_levels(levels.astype(jnp.uint8))


def from_levels(levels: jax.Array) -> jax.Array:
  """Returns levels k / 255 of integers k in 0..255, of any shape; float32."""
  return jnp.asarray(LEVELS).at[levels].get(mode='promise_in_bounds')


def grey(image: jax.Array) -> jax.Array:
  """Returns .299 R + .587 G + .114 B, [H, W, 1]; a grey image is its own."""
  if image.shape[-1] == 1:
    return image
  red, green, blue = (image[..., c] for c in range(3))
  return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue)[..., None]


def like_channels(colour: jax.Array, image: jax.Array) -> jax.Array:
  """Returns a colour [..., 3] as the image has it: itself, or its grey value [..., 1]."""
  return grey(colour) if image.shape[-1] == 1 else colour


def shift_value(image: jax.Array, shift: jax.Array) -> jax.Array:
  """Replaces V by clip(V + shift, 0, 1), hue and saturation kept; black becomes grey, and a grey
  image is its own V."""
  value = image.max(-1, keepdims=True)
  shifted = jnp.clip(value + shift, 0, 1)
  lit = value > 0
  return jnp.where(lit, image * (shifted / jnp.where(lit, value, 1)), shifted)


def scale_saturation(image: jax.Array, factor: jax.Array, shift: jax.Array) -> jax.Array:
  """Replaces S by clip(S · factor + shift, 0, 1), hue and value kept.

  A pixel without saturation has hue 0, which is red: with shift > 0 greys turn reddish, as they do
  in the released generators. An image of one channel has no saturation and is left as it is.
  """
  if image.shape[-1] == 1:
    return image
  value = image.max(-1, keepdims=True)
  spread = value - image.min(-1, keepdims=True)
  coloured = spread > 0
  saturation = spread / jnp.where(coloured, value, 1)
  red = jnp.broadcast_to(jnp.array([0, 1, 1], image.dtype), image.shape)
  part = jnp.where(coloured, (value - image) / jnp.where(coloured, spread, 1), red)
  return value * (1 - jnp.clip(saturation * factor + shift, 0, 1) * part)
