"""FAB, the fast adaptive boundary attack: a minimal perturbation by steps onto tangent planes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from robustness import attacks
from robustness.attacks import Arguments, Array, Attack, Logits, Scalar, balls
from robustness.attacks.balls import as_image_factors
from robustness.attacks.in_turn import attack_in_turn
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

MAX_BIAS, OVERSHOOT, BACKWARD = 0.1, 1.05, 0.9  # α_max, η and β of the paper


@dataclasses.dataclass(frozen=True)
class FAB(Attack):
  """Searches the ball for the nearest misclassified image by steps onto decision boundaries.

  The result is the clean image if no misclassified image is found. A step approximates the boundary
  between the label and another class by its tangent plane at the current point x. Let d_1 and d_2
  be the shortest changes that move x and the clean image x_0 onto the plane within [0, 1]. The next
  point is (1 − α)(x + ηd_1) + α(x_0 + ηd_2), with η = 1.05 and α = min(‖d_1‖ / (‖d_1‖ + ‖d_2‖),
  .1). If this point is misclassified, it then moves back towards x_0 by a tenth of the way. A step
  takes two forward passes and one backward pass.

  Attributes:
    steps: number of steps; the paper takes 100.
    targets: k ≥ 1 runs the attack for each of the k likeliest wrong classes in turn, on the images
      that are still classified correctly. 0 runs it once, with the class of the nearest plane in
      each step; a step then takes a backward pass for each class.

  Reference:
    Croce & Hein (2020), Minimally distorted Adversarial Examples with a Fast Adaptive Boundary
    Attack, algorithm 1. For `targets`: Croce & Hein (2020), Reliable evaluation of adversarial
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
    # one run without targets
    num_runs = max(1, min(self.targets, attacks.num_wrong_classes(logits, images)))
    return attack_in_turn(self.run, num_runs, Arguments(keys, logits, images, labels, scale))

  def run(self, number: Array, arguments: Arguments) -> Array:
    """Returns the nearest misclassified image that one run finds in each ball, [B, H, W, C].

    An image for which the run finds none is returned unchanged. The run ends early when it has
    found one for every image.

    Args:
      number: number of the run, from 0. With `targets`, run 0 targets the class with the second
        largest logit, run 1 the third largest, and so on. Without `targets`, run 0 starts at the
        clean image, and later runs at a random point at half the radius.
      arguments: the arguments of the attack.
    """
    keys, logits, images, labels, scale = arguments
    images, epsilon = jax.lax.stop_gradient(images), scale * self.epsilon
    if self.targets:
      targets = attacks.likely_wrong_class(logits(images), number)
      boundary = functools.partial(_target_boundary, logits, labels, targets)
      x = images
    else:
      boundary = functools.partial(self._nearest_boundary, logits, labels)
      x = jnp.where(number > 0, balls.random_shift(keys, images, self.norm, epsilon / 2), images)

    def step(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
      """Moves each point onto the approximated decision boundary, for `lax.while_loop`.

      If the new point is misclassified, it is the result if it is nearer to the clean image than
      earlier ones, and the search goes back towards the clean image.

      Args:
        state: number of steps; points x, [B, H, W, C]; nearest misclassified images so far; and
          their distances from the clean images, [B].

      Returns:
        The state after the step.
      """
      steps, x, nearest, distance = state
      # a function that is 0 at the decision boundary: its value and its gradient at x
      value, gradient = boundary(x)
      x = self._next_iterate(x, images, value, gradient)
      # an image of NaN counts as wrong at distance 0: it is returned, and the study refuses it
      is_nan = jnp.isnan(x).any((1, 2, 3))
      is_wrong = (logits(x).argmax(-1) != labels) | is_nan
      new_distance = jnp.where(is_nan, 0, balls.change_norms(x - images, self.norm))
      # only until a misclassified image inside the ball is found: it is the result
      is_nearer = is_wrong & (new_distance < distance) & (distance > epsilon)
      nearest = jnp.where(as_image_factors(is_nearer), x, nearest)
      distance = jnp.where(is_nearer, new_distance, distance)
      moved_back = images + BACKWARD * (x - images)
      return steps + 1, jnp.where(as_image_factors(is_wrong), moved_back, x), nearest, distance

    def continues(state: tuple[Array, Array, Array, Array]) -> Array:
      """Returns whether steps remain and an image has no misclassified point in its ball yet."""
      steps, _, _, distance = state
      return (steps < self.steps) & (distance > epsilon).any()

    start = jnp.int32(0), x, images, jnp.full(len(images), jnp.inf)
    _, _, nearest, distance = jax.lax.while_loop(continues, step, start)
    return jnp.where(as_image_factors(distance <= epsilon), nearest, images)

  def _next_iterate(self, x: Array, images: Array, value: Array, gradient: Array) -> Array:
    """Returns the next points of FAB, (1 − α)(x + ηd_1) + α(x_0 + ηd_2), [B, H, W, C].

    The function that is 0 at the decision boundary is approximated by a plane at x. d_1 and d_2 are
    the shortest changes of x and x_0 onto the plane.

    Args:
      x: current points [B, H, W, C].
      images: clean images x_0, [B, H, W, C].
      value: value of the function at x, [B].
      gradient: gradient of the function at x, the normal of the plane, [B, H, W, C].
    """
    offset = value - (gradient * x).sum((1, 2, 3))  # the plane is gradient · p + offset = 0
    d_1 = onto_plane(x, gradient, offset, self.norm)
    d_2 = onto_plane(images, gradient, offset, self.norm)
    length_1 = jnp.maximum(balls.change_norms(d_1, self.norm), 1e-8)
    length_2 = jnp.maximum(balls.change_norms(d_2, self.norm), 1e-8)
    alpha = as_image_factors(jnp.minimum(length_1 / (length_1 + length_2), MAX_BIAS))
    moved = (1 - alpha) * (x + OVERSHOOT * d_1) + alpha * (images + OVERSHOOT * d_2)
    return jnp.clip(moved, 0, 1)

  def _nearest_boundary(self, logits: Logits, labels: Array, x: Array) -> tuple[Array, Array]:
    """Returns z_t − z_y and its gradient at x, for the class t with the nearest boundary.

    z are the logits of x and y the labels. The boundary between classes t and y is approximated by
    its tangent plane, at the distance |z_t − z_y| / ‖∇(z_t − z_y)‖ from x. The norm in this formula
    is the dual of the attack's norm.

    Args:
      logits: the classifier, a function from images to logits [B, classes].
      labels: y, int32 [B].
      x: images [B, H, W, C].

    Returns:
      (z_t − z_y [B], gradient [B, H, W, C]).
    """
    scores, backward = jax.vjp(lambda x: logits(x).astype(jnp.float32), x)
    num_classes, rows = scores.shape[1], jnp.arange(len(x))
    # The gradient of z_t − z_y by the logits, for every class t: 1 for t, and −1 for y.
    targets = jnp.eye(num_classes)[:, None]  # one-hot, [classes t, 1, classes]
    cotangents = targets - jax.nn.one_hot(labels, num_classes)[None]  # [classes t, B, classes]
    # and the gradient by x, the normal of the boundary, [classes t, B, H, W, C]
    normals = jax.vmap(lambda cotangent: backward(cotangent)[0])(cotangents)
    differences = scores - jnp.take_along_axis(scores, labels[:, None], 1)
    flat = normals.reshape(*normals.shape[:2], -1)
    dual_norms = jnp.linalg.norm(flat, balls.ORDERS[balls.DUALS[self.norm]], axis=-1)
    distances = jnp.abs(differences) / (1e-12 + dual_norms.T)  # [B, classes]
    is_label = jax.nn.one_hot(labels, num_classes, dtype=bool)
    nearest = jnp.where(is_label, jnp.inf, distances).argmin(1)  # t [B]
    return differences[rows, nearest], normals[nearest, rows]


def _target_boundary(
  logits: Logits, labels: Array, targets: Array, x: Array
) -> tuple[Array, Array]:
  """Returns z_t − z_y and its gradient at x, for given target classes t.

  z are the logits of x and y the labels.

  Args:
    logits: the classifier, a function from images to logits [B, classes].
    labels: y, int32 [B].
    targets: t, int32 [B].
    x: images [B, H, W, C].

  Returns:
    (z_t − z_y, float32 [B]; gradient [B, H, W, C]).
  """

  def total(x: Array) -> tuple[Array, Array]:
    """Returns the sum of z_t − z_y over images, for `jax.grad`, and z_t − z_y of each image [B]."""
    value = attacks.target_margin(logits(x), labels, targets)
    # each value depends on one image only, so the gradient of the sum has all their gradients
    return value.sum(), value

  (_, value), normal = jax.value_and_grad(total, has_aux=True)(x)
  return value, normal


def onto_plane(points: Array, normals: Array, offsets: Array, norm: str) -> Array:
  """Returns the shortest changes d that move images onto planes w · x + b = 0 within [0, 1].

  If no point of [0, 1]^n is on the plane, every value moves towards it to the limit, 0 or 1. If w
  is 0, the image does not move.

  Let room_i be how far value i can move towards the plane within [0, 1]. In ℓ∞ each value moves by
  min(λ, room_i), and in ℓ2 by min(λ|w_i|, room_i). λ is found by Newton's method from λ = 0, which
  is exact in finitely many steps because |w · d| is concave and piecewise linear in λ. In ℓ1 the
  values with the largest |w_i| move to their limits one after another, until the plane is reached.

  Args:
    points: the images, float32 [B, H, W, C] in [0, 1].
    normals: w, float32 [B, H, W, C].
    offsets: b, float32 [B].
    norm: 'linf', 'l2' or 'l1', in which the changes are shortest.
  """
  # divided by the largest |w_i|, so that small gradients do not underflow
  largest = jnp.maximum(jnp.abs(normals).max((1, 2, 3)), 1e-30)  # [B]
  offsets, normals = offsets / largest, normals / as_image_factors(largest)
  gap = -offsets - (normals * points).sum((1, 2, 3))  # w · d must be this to reach the plane
  # the sign of each d_i
  towards = jnp.sign(normals) * as_image_factors(jnp.where(gap < 0, -1.0, 1.0))
  # the largest |d_i|: the way down to 0 or up to 1, or 0 where w_i is 0
  room = jnp.where(towards < 0, points, 0)
  room = jnp.where(towards > 0, 1 - points, room)
  weight = jnp.abs(normals)
  if norm == 'l1':
    return towards * _largest_weights_first(weight, room, jnp.abs(gap))
  rate = jnp.ones_like(weight) if norm == 'linf' else weight  # |d_i| = min(λ·rate_i, room_i)

  def newton(state: tuple[Array, Array]) -> tuple[Array, Array]:
    """Takes a step of Newton's method for λ, for `lax.while_loop`.

    The method solves Σ_i |w_i| min(λ·rate_i, room_i) = |gap|, which is piecewise linear in λ.
    Values that have reached room_i add a constant, the others grow with λ.

    Args:
      state: λ, [B], and whether it grew in the step before.

    Returns:
      The new state.
    """
    multiplier, _ = state  # λ
    is_at_bound = as_image_factors(multiplier) * rate >= room
    constant = jnp.where(is_at_bound, weight * room, 0).sum((1, 2, 3))
    slope = jnp.where(is_at_bound, 0, weight * rate).sum((1, 2, 3))
    root = jnp.where(slope > 0, (jnp.abs(gap) - constant) / jnp.maximum(slope, 1e-30), jnp.inf)
    return jnp.maximum(multiplier, root), root > multiplier

  start = jnp.zeros(len(points)), jnp.ones(len(points), bool)
  multiplier, _ = jax.lax.while_loop(lambda state: state[1].any(), newton, start)
  # an infinite λ times a rate of 0, where there is no room, would result in NaN
  lengths = jnp.where(room > 0, as_image_factors(multiplier) * rate, 0)
  return towards * jnp.minimum(lengths, room)


def _largest_weights_first(weight: Array, room: Array, gap: Array) -> Array:
  """Returns how far each value moves so that Σ_i weight_i · move_i is `gap`, [B, H, W, C].

  Values move one after another, the largest weight first, each at most by its `room`.

  Args:
    weight: |w_i|, float32 [B, H, W, C].
    room: largest move of each value, float32 [B, H, W, C].
    gap: required sum for each image, float32 [B].
  """
  # the values of each image, the largest weight first
  order = jnp.argsort(-weight.reshape(len(weight), -1), axis=1)
  largest_terms = jnp.take_along_axis((weight * room).reshape(order.shape), order, 1)
  sum_before = largest_terms.cumsum(1) - largest_terms  # of the values that move before
  rank = jnp.argsort(order, axis=1)  # the position of each value in `order`
  sum_before = jnp.take_along_axis(sum_before, rank, 1).reshape(weight.shape)
  missing = as_image_factors(gap) - sum_before
  return jnp.clip(missing / jnp.maximum(weight, 1e-30), 0, room)
