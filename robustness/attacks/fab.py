"""FAB, the fast adaptive boundary attack: a minimal perturbation by steps onto tangent planes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from robustness.attacks import (
  Array,
  Attack,
  Logits,
  Scalar,
  balls,
  likely_wrong_class,
  num_wrong_classes,
  target_margin,
)
from robustness.attacks.balls import as_image_factors
from robustness.attacks.in_turn import attack_in_turn
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

MAX_BIAS, OVERSHOOT, BACKWARD = 0.1, 1.05, 0.9  # α_max, η and β of the paper


@dataclasses.dataclass(frozen=True)
class FAB(Attack):
  """Returns the nearest misclassified image that n steps find in the ball, else the clean image.

  A step replaces the boundary between the label and another class by its tangent plane at the
  iterate x. With the shortest changes d_1 and d_2 within [0, 1] that move x and the image x_0 onto
  the plane, the next iterate is (1 − α)(x + ηd_1) + α(x_0 + ηd_2) with η = 1.05 and
  α = min(‖d_1‖ / (‖d_1‖ + ‖d_2‖), .1). A misclassified iterate is then moved back towards x_0, by a
  tenth of the way. A step takes two forward passes and one backward pass.

  Attributes:
    steps: n ≥ 1; the paper takes 100.
    targets: k ≥ 1 makes a run for each of the k likeliest wrong classes; a run leaves out images
      that are misclassified already. 0 makes one run, in which each step takes the class with the
      nearest plane, with a backward pass for each class.

  Reference:
    Croce & Hein (2020), Minimally distorted Adversarial Examples with a Fast Adaptive Boundary
    Attack, algorithm 1; for `targets` Croce & Hein (2020), Reliable evaluation of adversarial
    robustness, section 5.
  """

  norms = balls.NORMS
  resembles = (NOISE,)
  draws = False
  in_turn = True
  steps: int = setting(10, 'at least 1', lambda x: x >= 1)
  targets: int = setting(9, 'at least 0', lambda x: x >= 0)

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the adversarial images, [B, H, W, C]; for the arguments see `Attack.__call__`."""
    run = functools.partial(self.run, logits=logits, scale=scale)
    # one run without targets
    num_runs = max(1, min(self.targets, num_wrong_classes(logits, images)))
    return attack_in_turn(run, num_runs, logits, keys, images, labels)

  def run(
    self, number: Array, keys: Array, images: Array, labels: Array, logits: Logits, scale: Scalar
  ) -> Array:
    """Returns the nearest wrong images of run `number`, [B, H, W, C] (see `in_turn`).

    A targeted run uses target class `number`. Untargeted runs after the first start at a random
    point at half the radius. A run ends early when it has found a wrong image in the ball of every
    image; an image without one is returned unchanged.
    """
    images, epsilon = jax.lax.stop_gradient(images), scale * self.epsilon
    if self.targets:
      targets = likely_wrong_class(logits(images), number)
      boundary = functools.partial(_target_boundary, logits, labels, targets)
      x = images
    else:
      boundary = functools.partial(self._nearest_boundary, logits, labels)
      x = jnp.where(number > 0, balls.random_shift(keys, images, self.norm, epsilon / 2), images)

    def step(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
      """Returns the state (step, iterate, nearest wrong image, its distance) after a step."""
      k, x, nearest, distance = state
      # the boundary near x as a plane: its value at x, and its normal
      value, normal = boundary(x)
      x = self._next_iterate(x, images, value, normal)
      # an image of NaN counts as wrong at distance 0: it is returned, and the study refuses it
      is_nan = jnp.isnan(x).any((1, 2, 3))
      is_wrong = (logits(x).argmax(-1) != labels) | is_nan
      length = jnp.where(is_nan, 0, balls.change_norms(x - images, self.norm))
      # a wrong image inside the ball is kept
      is_nearer = is_wrong & (length < distance) & (distance > epsilon)
      moved_back = images + BACKWARD * (x - images)
      return (
        k + 1,
        jnp.where(as_image_factors(is_wrong), moved_back, x),
        jnp.where(as_image_factors(is_nearer), x, nearest),
        jnp.where(is_nearer, length, distance),
      )

    def continues(state: tuple[Array, Array, Array, Array]) -> Array:
      """Returns whether steps remain and some ball has no misclassified image so far."""
      k, _, _, distance = state
      return (k < self.steps) & (distance > epsilon).any()

    start = jnp.int32(0), x, images, jnp.full(len(images), jnp.inf)
    _, _, nearest, distance = jax.lax.while_loop(continues, step, start)
    return jnp.where(as_image_factors(distance <= epsilon), nearest, images)

  def _next_iterate(self, x: Array, images: Array, value: Array, normal: Array) -> Array:
    """Returns the next iterate of `FAB`, (1 − α)(x + ηd_1) + α(x_0 + ηd_2), [B, H, W, C].

    d_1 and d_2 are the shortest changes of x and x_0 onto the plane that approximates the boundary.

    Args:
      x: the iterate.
      images: the clean images x_0.
      value: value [B] at x of the function that is 0 at the boundary.
      normal: gradient [B, H, W, C] of this function at x.
    """
    offset = value - (normal * x).sum((1, 2, 3))  # the plane is normal · p + offset = 0
    d_1 = onto_plane(x, normal, offset, self.norm)
    d_2 = onto_plane(images, normal, offset, self.norm)
    length_1 = jnp.maximum(balls.change_norms(d_1, self.norm), 1e-8)
    length_2 = jnp.maximum(balls.change_norms(d_2, self.norm), 1e-8)
    alpha = as_image_factors(jnp.minimum(length_1 / (length_1 + length_2), MAX_BIAS))
    moved = (1 - alpha) * (x + OVERSHOOT * d_1) + alpha * (images + OVERSHOOT * d_2)
    return jnp.clip(moved, 0, 1)

  def _nearest_boundary(self, logits: Logits, labels: Array, x: Array) -> tuple[Array, Array]:
    """Returns z_t − z_y [B] and its gradient [B, H, W, C] at x, with each row's nearest class t.

    z are the logits of x and y the labels. The distance of a class t is the distance of x from the
    tangent plane of its boundary to y: |z_t − z_y| / ‖∇(z_t − z_y)‖ in the dual norm.
    """
    scores, backward = jax.vjp(lambda x: logits(x).astype(jnp.float32), x)
    count, rows = scores.shape[1], jnp.arange(len(x))
    # the gradient of z_t − z_y by z for every class t: [classes, B, classes]
    by_logits = jnp.eye(count)[:, None] - jax.nn.one_hot(labels, count)[None]
    # and by x: [classes, B, H, W, C]
    normals = jax.vmap(lambda cotangent: backward(cotangent)[0])(by_logits)
    differences = scores - jnp.take_along_axis(scores, labels[:, None], 1)
    flat = normals.reshape(*normals.shape[:2], -1)
    dual_norms = jnp.linalg.norm(flat, balls.ORDERS[balls.DUALS[self.norm]], axis=-1)
    distances = jnp.abs(differences) / (1e-12 + dual_norms.T)  # [B, classes]
    is_label = jax.nn.one_hot(labels, count, dtype=bool)
    classes = jnp.where(is_label, jnp.inf, distances).argmin(1)
    return differences[rows, classes], normals[classes, rows]


def _target_boundary(
  logits: Logits, labels: Array, targets: Array, x: Array
) -> tuple[Array, Array]:
  """Returns z_t − z_y, float32 [B], and its gradient [B, H, W, C] at the images x.

  z are the logits of x, y the labels and t the target classes, int32 [B].
  """

  def total(x: Array) -> tuple[Array, Array]:
    """Returns the sum over images of the target's logit minus the label's, and its terms [B]."""
    value = target_margin(logits(x), labels, targets)
    # each value depends on one image only, so the gradient of the sum has all their gradients
    return value.sum(), value

  (_, value), normal = jax.value_and_grad(total, has_aux=True)(x)
  return value, normal


def onto_plane(points: Array, normals: Array, offsets: Array, norm: str) -> Array:
  """Returns the shortest changes d within [0, 1] that move points onto planes w · x + b = 0.

  Each value moves towards the plane, at most by room_i, its distance from the bound of [0, 1] on
  that side. In ℓ∞ it moves by min(λ, room_i) and in ℓ2 by min(λ|w_i|, room_i) with a common λ.
  |w · d| is concave and piecewise linear in λ, so that Newton's method from λ = 0 finds λ exactly
  in finitely many steps. In ℓ1 the values with the largest |w_i| move to their bounds one after
  another until the plane is reached.

  If the plane does not meet the cube [0, 1]^n, every value moves to its bound. If w is 0, the point
  does not move.

  Args:
    points: float32 [B, H, W, C] in [0, 1].
    normals: w, float32 [B, H, W, C].
    offsets: b, float32 [B].
    norm: 'linf', 'l2' or 'l1'.
  """
  # divided by the largest |w_i|, so that small gradients do not underflow
  largest = as_image_factors(jnp.maximum(jnp.abs(normals).max((1, 2, 3)), 1e-30))
  offsets, normals = offsets / largest[:, 0, 0, 0], normals / largest
  gap = -offsets - (normals * points).sum((1, 2, 3))  # w · d of every change d onto the plane
  # the sign of each d_i, towards the plane
  towards = jnp.sign(normals) * as_image_factors(jnp.where(gap < 0, -1.0, 1.0))
  room = jnp.where(towards > 0, 1 - points, jnp.where(towards < 0, points, 0))  # largest |d_i|
  weight = jnp.abs(normals)
  if norm == 'l1':
    return towards * _largest_weights_first(weight, room, jnp.abs(gap))
  rate = jnp.ones_like(weight) if norm == 'linf' else weight  # |d_i| = min(λ·rate_i, room_i)

  def newton(state: tuple[Array, Array]) -> tuple[Array, Array]:
    """Returns λ [B] after a step of Newton's method, and whether it grew, bool [B].

    The equation is Σ_i |w_i| min(λ·rate_i, room_i) = |gap|. Near a λ its left side is linear: the
    terms that are at their bounds, room_i, are constant, and the others rise with λ.
    """
    multiplier, _ = state  # λ
    is_at_bound = as_image_factors(multiplier) * rate >= room
    constant = jnp.where(is_at_bound, weight * room, 0).sum((1, 2, 3))
    slope = jnp.where(is_at_bound, 0, weight * rate).sum((1, 2, 3))
    root = jnp.where(slope > 0, (jnp.abs(gap) - constant) / jnp.maximum(slope, 1e-30), jnp.inf)
    return jnp.maximum(multiplier, root), root > multiplier

  start = jnp.zeros(len(points)), jnp.ones(len(points), bool)
  multiplier, _ = jax.lax.while_loop(lambda state: state[1].any(), newton, start)
  # an infinite λ where there is no room would result in NaN
  return towards * jnp.minimum(jnp.where(room > 0, as_image_factors(multiplier) * rate, 0), room)


def _largest_weights_first(weight: Array, room: Array, gap: Array) -> Array:
  """Returns how far each value moves until Σ_i weight_i · move_i reaches `gap`, [B, H, W, C].

  Values move one after another in descending order of weight, each up to its `room`.

  Args:
    weight: |w_i|, float32 [B, H, W, C].
    room: largest move of each value, float32 [B, H, W, C].
    gap: what the sum is to reach for each image, float32 [B].
  """
  order = jnp.argsort(-weight.reshape(len(weight), -1), axis=1)  # of the values of each image
  terms = jnp.take_along_axis((weight * room).reshape(order.shape), order, 1)  # the largest ones
  sum_before = terms.cumsum(1) - terms  # over the values of larger weight, which move before
  # the same sum in the order of the image, and what it leaves of the gap
  before = jnp.take_along_axis(sum_before, jnp.argsort(order, axis=1), 1)
  missing = as_image_factors(gap) - before.reshape(weight.shape)
  return jnp.clip(missing / jnp.maximum(weight, 1e-30), 0, room)
