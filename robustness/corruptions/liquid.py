"""Spatter: drops of water, or splashes of mud, on the lens.

Reference:
  Hendrycks and Dietterich (2019), and the released generator of ImageNet-C.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions import edges
from robustness.corruptions.colour import like_channels
from robustness.corruptions.filters import gaussian_filter
from robustness.corruptions.severities import Constants, at

WATER = np.array([175, 238, 238], np.float32) / 255
MUD = np.array([63, 42, 20], np.float32) / 255
COVERED = 0.8  # mud thinner than this is not seen


def spatter(
  key: jax.Array, image: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Puts drops of water (lower severities) or mud (higher ones) on the image.

  Args:
    key: decides where the drops are.
    image: float32 [H, W, C] in [0, 1]; a grey image gets the grey value of the liquid's colour.
    severity: 1..5; may be traced.
    constants: `loc`, `scale` of the noise that becomes liquid, `sigma` of its smoothing (pixels),
      `threshold` above which it is seen, `strength` of water or sigma of the mud's edge (pixels),
      `mud` 0 or 1.
  """
  noise = jax.random.normal(key, image.shape[:2])
  return spatter_from_draws(image, noise, severity, constants)


def spatter_from_draws(
  image: jax.Array, noise: jax.Array, severity: jax.Array | int, constants: Constants
) -> jax.Array:
  """Returns the spattered image for given random numbers.

  Args:
    image: float32 [H, W, C] in [0, 1].
    noise: [H, W], standard normal.
    severity, constants: as in `spatter`.
  """
  value = {name: at(constants[name], severity) for name in constants}
  noise = (value['loc'] + value['scale'] * noise)[..., None]
  liquid = gaussian_filter(noise, value['sigma'], max(constants['sigma']))[..., 0]
  threshold, strength = value['threshold'], value['strength']
  edge = max(s for s, mud in zip(constants['strength'], constants['mud'], strict=True) if mud)
  return jax.lax.cond(
    value['mud'] > 0,
    lambda: _mud(image, liquid > threshold, strength, edge),
    lambda: _water(image, jnp.where(liquid < threshold, 0, liquid), strength),
  )


def _mud(image: jax.Array, seen: jax.Array, sigma: jax.Array, max_sigma: float) -> jax.Array:
  """Covers the image where the smoothed mask m is at least .8: clip(x (1 - m) + colour m)."""
  cover = gaussian_filter(seen.astype(jnp.float32)[..., None], sigma, max_sigma)
  cover = jnp.where(cover < COVERED, 0, cover)
  return jnp.clip(image * (1 - cover) + _colour(MUD, image) * cover, 0, 1)


def _water(image: jax.Array, liquid: jax.Array, strength: jax.Array) -> jax.Array:
  """Adds colour · strength · m / max m, m = liquid · relief; without a drop the image is left."""
  # The generator stores the liquid in 8 bits, where the rare values above 1 wrap around.
  levels = jnp.floor(liquid * 255).astype(jnp.int32) % 256
  drops = (levels * relief(levels)).astype(jnp.float32)
  most = drops.max()
  share = jnp.where(most > 0, drops / jnp.where(most > 0, most, 1), 0) * strength
  return jnp.clip(image + share[..., None] * _colour(WATER, image), 0, 1)


def relief(levels: jax.Array) -> jax.Array:
  """Returns how a film of liquid catches light near its edges, int32 [H, W] in 0..255.

  Distance to the Canny edges up to 20, averaged, equalised, embossed and averaged again.

  Args:
    levels: int32 [H, W] in 0..255, the film's thickness.
  """
  distance = edges.mean3(edges.distance_to(edges.canny(levels)))
  steps = jnp.floor(distance + edges.GUARD).astype(jnp.int32)
  embossed = edges.emboss(edges.equalise(steps, edges.FARTHEST + 1))
  return jnp.round(edges.mean3(embossed)).astype(jnp.int32)


def _colour(colour: np.ndarray, image: jax.Array) -> jax.Array:
  return like_channels(jnp.asarray(colour)[None, None, :], image)
