"""Operations that change every level of a channel alike: one table of 256 entries a channel."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

NAMES = (
  'AutoContrast',
  'Equalize',
  'Invert',
  'Posterize',
  'Solarize',
  'SolarizeAdd',
  'Brightness',
  'Contrast',
)


def table(
  name: jax.Array, names: tuple[str, ...], levels: jax.Array, magnitude: jax.Array
) -> jax.Array:
  """Returns the operation's table, uint8 [256, C].

  Args:
    name: int32 scalar, a position in `names`.
    names: some of `NAMES`; others are not computed.
    levels: uint8 [H, W, C]; AutoContrast, Equalize and Contrast depend on it.
    magnitude: float32 scalar, in the operation's unit.
  """
  level = jnp.broadcast_to(jnp.arange(256)[:, None], (256, levels.shape[-1]))
  tables: dict[str, Callable[[], jax.Array]] = {
    'Invert': lambda: 255 - level,
    'Posterize': lambda: level & -(1 << (8 - magnitude.astype(jnp.int32))),
    'Solarize': lambda: jnp.where(level < magnitude, level, 255 - level),
    'SolarizeAdd': lambda: jnp.where(
      level < 128, jnp.clip(level + magnitude.astype(jnp.int32), 0, 255), level
    ),
    'Brightness': lambda: blend(0, level, magnitude),
    'Contrast': lambda: blend(_mean_grey(levels), level, magnitude),
    'AutoContrast': lambda: _auto_contrast(levels, level),
    'Equalize': lambda: equalize(levels),
  }
  branches = [functools.partial(_as_levels, tables[n]) for n in names]
  return jax.lax.switch(name, branches)


def _as_levels(made: Callable[[], jax.Array]) -> jax.Array:
  return made().astype(jnp.uint8)


def look_up(levels: jax.Array, entries: jax.Array) -> jax.Array:
  """Returns `entries[levels[y, x, c], c]` for every value of an image [H, W, C]."""
  channels = levels.shape[-1]
  place = levels.astype(jnp.int32) * channels + jnp.arange(channels)[None, None, :]
  return entries.ravel().at[place].get(mode='promise_in_bounds')


def blend(degenerate: jax.Array | int, levels: jax.Array, factor: jax.Array) -> jax.Array:
  """Returns degenerate + factor·(levels − degenerate), truncated to a level in 0..255, int32."""
  mixed = degenerate + factor * (levels.astype(jnp.int32) - degenerate).astype(jnp.float32)
  return jnp.clip(mixed, 0, 255).astype(jnp.int32)


def grey(levels: jax.Array) -> jax.Array:
  """Returns Pillow's mode 'L', int32 [H, W, 1]: .299 R + .587 G + .114 B in 65536ths, rounded."""
  levels = levels.astype(jnp.int32)
  if levels.shape[-1] == 1:
    return levels
  weighted = levels * jnp.array([19595, 38470, 7471])[None, None, :]
  return (weighted.sum(-1, keepdims=True) + 32768) >> 16


def _mean_grey(levels: jax.Array) -> jax.Array:
  pixels = levels.shape[0] * levels.shape[1]
  return (2 * grey(levels).sum() + pixels) // (2 * pixels)


def _auto_contrast(levels: jax.Array, level: jax.Array) -> jax.Array:
  """Stretches each channel from its darkest and brightest level to 0 and 255."""
  values = levels.reshape(-1, levels.shape[-1]).astype(jnp.int32)
  low, high = values.min(0, keepdims=True), values.max(0, keepdims=True)
  stretched = _quotient(255 * jnp.maximum(level - low, 0), high - low)
  return jnp.where(high > low, jnp.minimum(stretched, 255), level)


def equalize(levels: jax.Array) -> jax.Array:
  """Returns the table that makes each channel's histogram flat, in Pillow's integers.

  With h the histogram and s = ⌊(Σh − h of the brightest level that occurs) / 255⌋ it is
  (⌊s/2⌋ + Σ_{j<i} h[j]) / s, rounded down; the identity where s = 0 or only one level occurs.
  """
  counts = histogram(levels)
  level = jnp.arange(256)[:, None]
  values = levels.reshape(-1, levels.shape[-1]).astype(jnp.int32)
  last = jnp.take_along_axis(counts, values.max(0, keepdims=True), 0)
  step = (len(values) - last) // 255
  below = jnp.cumsum(counts, 0) - counts
  flat = jnp.minimum(_quotient(step // 2 + below, step), 255)
  return jnp.where(step > 0, flat, jnp.broadcast_to(level, counts.shape))


def _quotient(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
  """Returns numerator // max(denominator, 1) of integers ≥ 0, for quotients below 2^22.

  A CPU divides several floats at a time, integers one by one. The remainder corrects the rounding.
  """
  denominator = jnp.maximum(denominator, 1)
  quotient = (numerator.astype(jnp.float32) / denominator.astype(jnp.float32)).astype(jnp.int32)
  remainder = numerator - quotient * denominator
  return quotient + (remainder >= denominator) - (remainder < 0)


def histogram(levels: jax.Array) -> jax.Array:
  """Returns how often each level occurs in each channel, int32 [256, C]."""
  channels = levels.shape[-1]
  place = levels.astype(jnp.int32) * channels + jnp.arange(channels)[None, None, :]
  counts = jnp.zeros((256 * channels,), jnp.int32)
  return counts.at[place.ravel()].add(1, mode='promise_in_bounds').reshape(256, channels)
