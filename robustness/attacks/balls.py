"""Norm balls of perturbations: steepest direction, projection and random points.

`epsilon` is the radius for pixels in [0, 1] and may be traced.
"""

import math
import sys
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from optax import projections

from robustness.core.settings import choice, require

ORDERS = {'linf': math.inf, 'l2': 2.0, 'l1': 1.0}  # p of the norm ℓp
NORMS = tuple(ORDERS)
DUALS = {'linf': 'l1', 'l2': 'l2', 'l1': 'linf'}  # the dual of each norm
MIN_LENGTH = 1e-12  # lengths in divisors are at least this
Scalar = jax.Array | float
"""A number, which may be traced."""
EXPONENT = np.uint32(0x7F800000)  # the exponent bits of a float32


def check(
  section: str, norm: str, epsilon: float, key: str = 'epsilon', norms: Iterable[str] = NORMS
) -> None:
  """Raises InputError for a norm that is not in `norms`, or an invalid radius.

  The radius must be in (0, 1] for 'linf', and finite and positive for 'l2' and 'l1'.

  Args:
    section: section of the config, for the message.
    norm: name of the norm.
    epsilon: the radius.
    key: name of the setting of the radius, for the message.
    norms: the valid norms.
  """
  choice(f'{section}.norm', norm, norms)
  is_radius = 0 < epsilon <= (1.0 if norm == 'linf' else sys.float_info.max)
  valid = 'finite, above 0, and at most 1 for linf (pixels are in [0, 1]; 8/255 is .03137)'
  require(is_radius, f'{section}.{key}', epsilon, valid)


def mean_change(norm: str, epsilon: float, image_shape: tuple[int, ...]) -> float:
  """Returns the mean change per pixel value of a perturbation of norm ε.

  The mean is ε for ℓ∞, the root mean square ε/√(HWC) for ℓ2, and the mean absolute value ε/(HWC)
  for ℓ1.

  Args:
    norm: 'linf', 'l2' or 'l1'.
    epsilon: norm ε of the perturbation.
    image_shape: (H, W, C).
  """
  return epsilon / math.prod(image_shape) ** (1 / ORDERS[norm])


def steepest_direction(gradient: jax.Array, norm: str) -> jax.Array:
  """Returns the direction of steepest ascent for one image, of length 1 in the norm.

  The direction is sign(∇) for 'linf' and ∇/‖∇‖₂ for 'l2', where ∇ is the gradient [H, W, C]. If ∇
  is 0, so is the direction. Tiny gradients do not underflow, because ∇ is first divided by a power
  of two.
  """
  if norm == 'linf':
    return jnp.sign(gradient)
  # the largest magnitude without its mantissa, that is, rounded down to a power of two
  bits = jax.lax.bitcast_convert_type(jnp.abs(gradient).max(), jnp.uint32) & EXPONENT
  power = jax.lax.bitcast_convert_type(bits, jnp.float32)
  scaled = gradient / jnp.where(power > 0, power, 1)
  return scaled / jnp.maximum(jnp.linalg.norm(scaled.ravel()), MIN_LENGTH)


def random_points(keys: jax.Array, images: jax.Array, norm: str, epsilon: Scalar) -> jax.Array:
  """Returns a random point in the ball around each image, clipped to [0, 1], [B, H, W, C].

  Points are uniform in the ball of radius ε, which is a cube for 'linf'.

  Args:
    keys: random keys [B].
    images: [B, H, W, C] in [0, 1].
    norm: 'linf' or 'l2'.
    epsilon: radius ε.
  """
  shape = images.shape[1:]

  def point(key: jax.Array) -> jax.Array:
    """Returns a random change [H, W, C] in the ball."""
    if norm == 'linf':
      return epsilon * jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
    return epsilon * jax.random.ball(key, math.prod(shape)).reshape(shape)

  return jnp.clip(images + jax.vmap(point)(keys), 0, 1)


def random_shift(keys: jax.Array, images: jax.Array, norm: str, epsilon: Scalar) -> jax.Array:
  """Returns images moved by ε in a random direction and clipped to [0, 1], [B, H, W, C].

  Used for the random starts of attacks. The change is noise [H, W, C]:
    linf: uniform noise, scaled so that its largest magnitude is ε.
    l2: normal noise, scaled to length ε.
    l1: normal noise of variance 1, projected onto the ball of radius ε.

  Args:
    keys: random keys [B].
    images: [B, H, W, C] in [0, 1].
    norm: 'linf', 'l2' or 'l1'.
    epsilon: length ε.
  """

  def draw(key: jax.Array) -> jax.Array:
    """Returns noise [H, W, C], before it is scaled or projected."""
    if norm == 'linf':
      return jax.random.uniform(key, images.shape[1:], minval=-1.0, maxval=1.0)
    return jax.random.normal(key, images.shape[1:])

  noise = jax.vmap(draw)(keys)
  if norm == 'l1':
    return clipped(images, noise, norm, epsilon)
  return jnp.clip(images + epsilon * noise / as_image_factors(change_norms(noise, norm)), 0, 1)


def change_norms(change: jax.Array, norm: str) -> jax.Array:
  """Returns the norm of each change, [B], but at least `MIN_LENGTH`.

  Args:
    change: [B, H, W, C].
    norm: 'linf', 'l2' or 'l1'.
  """
  flat = change.reshape(len(change), -1)
  return jnp.maximum(jnp.linalg.norm(flat, ORDERS[norm], axis=1), MIN_LENGTH)


def as_image_factors(values: jax.Array) -> jax.Array:
  """Reshapes values [B] to [B, 1, 1, 1], to broadcast over images."""
  return values.reshape(-1, 1, 1, 1)


def clipped(images: jax.Array, change: jax.Array, norm: str, epsilon: Scalar) -> jax.Array:
  """Projects perturbations onto a ball and returns the perturbed images in [0, 1], [B, H, W, C].

  For an image x and a change δ the result is x + Π(δ), clipped to [0, 1]. Π(δ) is the point of the
  ball nearest to δ in ℓ2. For 'l1' it is the nearest point of the ball for which x + Π(δ) is in [0,
  1].

  Args:
    images: clean images x, [B, H, W, C].
    change: δ, [B, H, W, C].
    norm: 'linf', 'l2' or 'l1'.
    epsilon: radius of the ball.
  """
  if norm == 'l1':
    return jnp.clip(images + jax.vmap(_onto_l1, (0, 0, None))(images, change, epsilon), 0, 1)
  project = projections.projection_linf_ball if norm == 'linf' else projections.projection_l2_ball
  projected = jax.vmap(lambda row: project(row, epsilon))(change)
  return jnp.clip(images + projected, 0, 1)


def _onto_l1(image: jax.Array, change: jax.Array, epsilon: Scalar) -> jax.Array:
  """Projects a change onto the ℓ1 ball, within the limits that keep the image in [0, 1].

  The projected change of pixel value i is sign(δ_i) min(max(|δ_i| − λ, 0), room_i). room_i is how
  far the value can move before it leaves [0, 1]. λ ≥ 0 is the smallest number for which the ℓ1 norm
  is at most ε. The norm is piecewise linear in λ: as λ falls, term i grows with slope 1 from λ =
  |δ_i| to λ = max(|δ_i| − room_i, 0).

  Args:
    image: [H, W, C] in [0, 1].
    change: δ, [H, W, C].
    epsilon: radius ε of the ball.
  """
  size, room = jnp.abs(change), jnp.where(change > 0, 1 - image, image)
  # The norm as a function of −λ: it is added up from 0 at the largest λ, so that it is most exact
  # where it is small. At each break the slope changes, as a term starts to grow or stops.
  breaks = jnp.concatenate([-size.ravel(), -jnp.maximum(size - room, 0).ravel()])  # −λ
  slope_changes = jnp.repeat(jnp.asarray([1, -1]), size.size)
  breaks, slope_changes = jax.lax.sort((breaks, slope_changes), num_keys=1)
  slopes = slope_changes[:-1].cumsum()  # between a break and the next
  norms = jnp.append(0, jnp.cumsum(slopes * jnp.diff(breaks)))  # at the breaks
  smallest_lambda = -jnp.interp(epsilon, norms, breaks)  # where the norm is ε
  return jnp.sign(change) * jnp.clip(size - smallest_lambda, 0, room)
