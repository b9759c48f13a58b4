"""FAB, the fast adaptive boundary attack: the nearest wrong image, by steps onto tangent planes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from robustness.attacks import Array, Attack, Logits, Scalar, balls, lead, likeliest, wrong_classes
from robustness.attacks.balls import by_row
from robustness.attacks.in_turn import whole
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

LARGEST_BIAS, OVERSHOOT, BACKWARD = 0.1, 1.05, 0.9  # α_max, η and β of the paper


@dataclasses.dataclass(frozen=True)
class FAB(Attack):
  """Gives the nearest wrong image that n steps find, where it lies in the ball; else the image.

  A step takes the boundary between the label and another class as its tangent plane. With d_1 and
  d_2 the shortest ways within [0, 1] from the iterate and from the image onto the plane, the
  iterate goes to (1 − α)(x + ηd_1) + α(x_0 + ηd_2), α = min(‖d_1‖ / (‖d_1‖ + ‖d_2‖), .1). From a
  wrong image it goes back towards x_0. A step takes two forward passes and one backward.

  Attributes:
    steps: n ≥ 1; the paper takes 100.
    targets: k ≥ 1 makes a run for each of the k likeliest wrong classes, on the images that are
      still right; 0 takes the nearest of all classes' planes, with a backward pass for each class.

  Reference:
    Croce & Hein (2020), Minimally distorted Adversarial Examples with a Fast Adaptive Boundary
    Attack, algorithm 1; targets: Reliable evaluation (see `auto_pgd`), section 5.
  """

  resembles = (NOISE,)
  draws = False
  in_turn = True
  steps: int = setting(10, 'at least 1', lambda x: x >= 1)
  targets: int = setting(9, 'at least 0', lambda x: x >= 0)

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    run = functools.partial(self.run, logits=logits, scale=scale)
    count = min(self.targets, wrong_classes(logits, images))
    return whole(run, max(1, count), logits, keys, images, labels)

  def run(
    self, number: Array, keys: Array, images: Array, labels: Array, logits: Logits, scale: Scalar
  ) -> Array:
    """Returns what one run gives, see `in_turn`; it ends when all images have a wrong one in the
    ball. Untargeted runs after the first begin at a random point of half the radius."""
    images, epsilon = jax.lax.stop_gradient(images), scale * self.epsilon
    if self.targets:
      plane = _targeted(logits, labels, likeliest(logits(images), number))
      x = images
    else:
      plane = functools.partial(self._nearest, logits, labels)
      x = jnp.where(number > 0, balls.edge(keys, images, self.norm, epsilon / 2), images)

    def step(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
      k, x, nearest, distance = state
      value, normal = plane(x)
      value = value - (normal * x).sum((1, 2, 3))  # the plane is normal · x + value = 0
      ways = [onto_plane(point, normal, value, self.norm) for point in (x, images)]
      own, clean = (jnp.maximum(balls.length(way, self.norm), 1e-8) for way in ways)
      bias = by_row(jnp.minimum(own / (own + clean), LARGEST_BIAS))
      x = (1 - bias) * (x + OVERSHOOT * ways[0]) + bias * (images + OVERSHOOT * ways[1])
      x = jnp.clip(x, 0, 1)
      without_gradient = jnp.isnan(x).any((1, 2, 3))  # such an image is given, and so refused
      wrong = (logits(x).argmax(-1) != labels) | without_gradient
      length = jnp.where(without_gradient, 0, balls.length(x - images, self.norm))
      better = wrong & (length < distance) & (distance > epsilon)  # one in the ball stays
      return (
        k + 1,
        jnp.where(by_row(wrong), images + BACKWARD * (x - images), x),
        jnp.where(by_row(better), x, nearest),
        jnp.where(better, length, distance),
      )

    def goes_on(state: tuple[Array, Array, Array, Array]) -> Array:
      return (state[0] < self.steps) & (state[3] > epsilon).any()

    begin = jnp.int32(0), x, images, jnp.full(len(images), jnp.inf)
    _, _, nearest, distance = jax.lax.while_loop(goes_on, step, begin)
    return jnp.where(by_row(distance <= epsilon), nearest, images)

  def _nearest(self, logits: Logits, labels: Array, x: Array) -> tuple[Array, Array]:
    """Returns the plane of the class that is nearest, see `_targeted`."""
    scores, backward = jax.vjp(logits, x)
    each = jnp.eye(scores.shape[1])[:, None] - jax.nn.one_hot(labels, scores.shape[1])[None]
    normals = jax.vmap(lambda cotangent: backward(cotangent)[0])(each)  # [classes, B, H, W, C]
    own = jnp.take_along_axis(scores, labels[:, None], 1)
    flat = normals.reshape(*normals.shape[:2], -1)
    dual = jnp.abs(flat).sum(-1) if self.norm == 'linf' else jnp.linalg.norm(flat, axis=-1)
    distances = jnp.abs(scores - own) / (1e-12 + dual.T)
    true = jax.nn.one_hot(labels, scores.shape[1], dtype=bool)
    at = jnp.where(true, jnp.inf, distances).argmin(1)
    rows = jnp.arange(len(x))
    return (scores - own)[rows, at], normals[at, rows]


def _targeted(
  logits: Logits, labels: Array, targets: Array
) -> Callable[[Array], tuple[Array, Array]]:
  """Returns a function of x to z_t − z_y, float32 [B], and its gradient [B, H, W, C]."""

  def total(x: Array) -> tuple[Array, Array]:
    value = lead(logits(x), labels, targets)
    return value.sum(), value

  def plane(x: Array) -> tuple[Array, Array]:
    (_, value), normal = jax.value_and_grad(total, has_aux=True)(x)
    return value, normal

  return plane


def onto_plane(points: Array, normals: Array, offsets: Array, norm: str) -> Array:
  """Returns the shortest changes d, within [0, 1], that bring points onto planes w · x + b = 0.

  d_i = ±min(λ, room_i) in ℓ∞ and ±min(λ|w_i|, room_i) in ℓ2, towards the plane, where room_i is how
  far the value can go. What w · d reaches is concave and piecewise linear in λ, so that Newton's
  method from 0 ends at the exact λ after finitely many steps. Where the plane does not meet the
  cube, all values go as far as they can. Where w is 0 the point stays.

  Args:
    points: float32 [B, H, W, C] in [0, 1].
    normals: w, float32 [B, H, W, C].
    offsets: b, float32 [B].
    norm: 'linf' or 'l2'.
  """
  largest = by_row(jnp.maximum(jnp.abs(normals).max((1, 2, 3)), 1e-30))
  offsets, normals = offsets / largest[:, 0, 0, 0], normals / largest
  gap = -offsets - (normals * points).sum((1, 2, 3))
  towards = jnp.sign(normals) * by_row(jnp.where(gap < 0, -1.0, 1.0))
  room = jnp.where(towards > 0, 1 - points, jnp.where(towards < 0, points, 0))
  weight = jnp.abs(normals)
  rate = jnp.ones_like(weight) if norm == 'linf' else weight

  def newton(state: tuple[Array, Array]) -> tuple[Array, Array]:
    scale = state[0]
    full = by_row(scale) * rate >= room
    reached = jnp.where(full, weight * room, 0).sum((1, 2, 3))
    slope = jnp.where(full, 0, weight * rate).sum((1, 2, 3))
    after = jnp.where(slope > 0, (jnp.abs(gap) - reached) / jnp.maximum(slope, 1e-30), jnp.inf)
    return jnp.maximum(scale, after), after > scale

  begin = jnp.zeros(len(points)), jnp.ones(len(points), bool)
  scale, _ = jax.lax.while_loop(lambda state: state[1].any(), newton, begin)
  return towards * jnp.minimum(jnp.where(room > 0, by_row(scale) * rate, 0), room)
