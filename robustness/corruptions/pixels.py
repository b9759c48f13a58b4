"""Pixel arithmetic: the 256 levels of 8 bits, grey values, and the hue, saturation, value model.

In that model V is the largest channel, S = (V - smallest channel) / V, and every channel is
c = V (1 - S k_c) with a factor k_c in [0, 1] that depends on the hue alone. V and S can therefore
be replaced by scaling, and no hue angle is computed.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import choice

QUANTIZE = ('floor', 'round')
"""Ways of rounding to 8-bit levels, see `to_levels`."""
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # weights of R, G, B
GUARD = 2.0**-12  # in levels; smaller errors of float32 do not move a value across a threshold

LEVELS = np.arange(256, dtype=np.float32) / np.float32(255)
"""Levels k / 255, rounded as NumPy does. XLA's division by 255 is one bit off for half of them."""


def to_levels(image: jax.Array, quantize: str = 'floor') -> jax.Array:
  """Returns the values of an image rounded to levels k / 255, float32, k = 0..255.

  'floor' truncates as the released generators do, which darkens by ½ level on average; 'round'
  takes the nearest level, halves to even.
  """
  choice('quantize', quantize, QUANTIZE)
  scaled = jnp.clip(image, 0, 1) * 255
  if quantize == 'floor':
    levels = jnp.floor(scaled + GUARD)  # so that an error of float32 does not lower a level
  else:
    # first to multiples of GUARD, so that an error of float32 cannot move a value off a half
    levels = jnp.round(jnp.round(scaled / GUARD) * GUARD)
  return from_levels(levels.astype(jnp.uint8))


def from_levels(levels: jax.Array) -> jax.Array:
  """Returns k / 255, float32, for integers k in 0..255 of any shape."""
  return jnp.asarray(LEVELS).at[levels].get(mode='promise_in_bounds')


def grey(image: jax.Array) -> jax.Array:
  """Returns .299 R + .587 G + .114 B as [H, W, 1]; a grey image is returned unchanged."""
  if image.shape[-1] == 1:
    return image
  red, green, blue = image[..., 0], image[..., 1], image[..., 2]
  return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue)[..., None]


def like_channels(colour: jax.Array, image: jax.Array) -> jax.Array:
  """Returns a colour [..., 3], or its grey value [..., 1] if the image has one channel."""
  return grey(colour) if image.shape[-1] == 1 else colour


def shift_value(image: jax.Array, shift: jax.Array) -> jax.Array:
  """Returns an image with the value V of HSV replaced by clip(V + shift, 0, 1).

  Hue and saturation do not change. Black becomes grey, and V of a grey image is its only channel.
  """
  value = image.max(-1, keepdims=True)
  shifted = jnp.clip(value + shift, 0, 1)
  is_lit = value > 0
  return jnp.where(is_lit, image * (shifted / jnp.where(is_lit, value, 1)), shifted)


def scale_saturation(image: jax.Array, factor: jax.Array, shift: jax.Array) -> jax.Array:
  """Returns an image with the saturation S of HSV replaced by clip(S · factor + shift, 0, 1).

  Hue and value do not change. Pixels without saturation have hue 0, which is red. With shift > 0
  greys therefore turn reddish, as in the released generators. An image with one channel is returned
  unchanged.
  """
  if image.shape[-1] == 1:
    return image
  value = image.max(-1, keepdims=True)
  spread = value - image.min(-1, keepdims=True)
  has_colour = spread > 0
  saturation = spread / jnp.where(has_colour, value, 1)
  red = jnp.broadcast_to(jnp.array([0, 1, 1], image.dtype), image.shape)
  # k_c, which is (0, 1, 1) for red
  hue_factors = jnp.where(has_colour, (value - image) / jnp.where(has_colour, spread, 1), red)
  return value * (1 - jnp.clip(saturation * factor + shift, 0, 1) * hue_factors)
