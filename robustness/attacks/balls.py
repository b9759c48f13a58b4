"""The balls that perturbations stay in: steepest direction, projection, random point.

`epsilon` is the radius for pixels in [0, 1] and may be traced.
"""

import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

from robustness.core.settings import choice, require

NORMS = ('linf', 'l2')
SMALLEST = 1e-12  # of a length that is divided by
EXPONENT = np.uint32(0x7F800000)  # the bits of a float32's power of two


def check(where: str, norm: str, epsilon: float, key: str = 'epsilon') -> None:
  """Refuses an unknown norm, and a radius that is not above 0 or exceeds the range of pixels."""
  choice(f'{where}.norm', norm, NORMS)
  require(
    0 < epsilon <= (1.0 if norm == 'linf' else sys.float_info.max),
    f'{where}.{key}',
    epsilon,
    'finite, above 0, and at most 1 for linf (pixels are in [0, 1]; 8/255 is .03137)',
  )


def mean_change(norm: str, epsilon: float, image_shape: tuple[int, ...]) -> float:
  """Returns how far values move at the edge of a ball: ε, of ℓ2 in the mean square ε/√(HWC)."""
  return epsilon if norm == 'linf' else epsilon / math.sqrt(math.prod(image_shape))


def direction(gradient: jax.Array, norm: str) -> jax.Array:
  """Returns one image's steepest ascent of length 1 in the norm: sign(∇) or ∇/‖∇‖₂; 0 where ∇ is 0.

  The gradient, float32, is divided by a power of two before it is squared: where a prediction is
  sure, squares would be 0 in float32 long before the gradient is. The division is exact.
  """
  if norm == 'linf':
    return jnp.sign(gradient)
  bits = jax.lax.bitcast_convert_type(jnp.abs(gradient).max(), jnp.uint32) & EXPONENT
  power = jax.lax.bitcast_convert_type(bits, jnp.float32)
  scaled = gradient / jnp.where(power > 0, power, 1)
  return scaled / jnp.maximum(jnp.linalg.norm(scaled.ravel()), SMALLEST)


def start(keys: jax.Array, images: jax.Array, norm: str, epsilon: jax.Array | float) -> jax.Array:
  """Returns images [B, H, W, C] moved to a random point, uniform in the cube ('linf') or the ball
  ('l2') around each, clipped to [0, 1]."""
  shape = images.shape[1:]

  def point(key: jax.Array) -> jax.Array:
    if norm == 'linf':
      return epsilon * jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
    return epsilon * jax.random.ball(key, math.prod(shape)).reshape(shape)

  return jnp.clip(images + jax.vmap(point)(keys), 0, 1)


def edge(keys: jax.Array, images: jax.Array, norm: str, epsilon: jax.Array | float) -> jax.Array:
  """Returns images [B, H, W, C] moved by ε in a random direction, clipped to [0, 1]: noise of the
  cube scaled until a value moves by ε ('linf'), or a direction uniform on the sphere ('l2')."""

  def draw(key: jax.Array) -> jax.Array:
    if norm == 'linf':
      return jax.random.uniform(key, images.shape[1:], minval=-1.0, maxval=1.0)
    return jax.random.normal(key, images.shape[1:])

  noise = jax.vmap(draw)(keys)
  return jnp.clip(images + epsilon * noise / by_row(length(noise, norm)), 0, 1)


def length(change: jax.Array, norm: str) -> jax.Array:
  """Returns the norm of each row's change [B, H, W, C], at least `SMALLEST`, [B]."""
  flat = change.reshape(len(change), -1)
  lengths = jnp.abs(flat).max(1) if norm == 'linf' else jnp.linalg.norm(flat, axis=1)
  return jnp.maximum(lengths, SMALLEST)


def by_row(values: jax.Array) -> jax.Array:
  """Returns values [B] as [B, 1, 1, 1], to be used with images."""
  return values.reshape(-1, 1, 1, 1)


def clipped(
  images: jax.Array, change: jax.Array, norm: str, epsilon: jax.Array | float
) -> jax.Array:
  """Returns x + Π(δ) clipped to [0, 1], [B, H, W, C]; Π(δ) is the ball's nearest point in ℓ2."""
  onto = optax.projections
  project = onto.projection_linf_ball if norm == 'linf' else onto.projection_l2_ball
  inside = jax.vmap(lambda single: project(single, epsilon))(change)
  return jnp.clip(images + inside, 0, 1)
