"""The base class of attacks that search for the nearest misclassified image."""

import abc
import dataclasses

import jax
import jax.numpy as jnp
from optax import projections

from robustness.attacks import LOSSES, Array, Attack, Logits, Scalar, balls
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE


@dataclasses.dataclass(frozen=True)
class NearestAttack(Attack):
  """Base class of attacks that search for the nearest misclassified image.

  Each clean image x has a change δ and a radius ε. A step classifies x + δ, and remembers it if it
  is misclassified and nearer to x than any misclassified point before. The step then updates

    δ ← Π_ε(δ + α ∇/‖∇‖₂),

  where ∇ is the gradient of the loss at x + δ, and clips x + δ to [0, 1]. For ℓ∞ and ℓ1, Π_ε
  returns the nearest point of the ball of radius ε. For ℓ2 it scales δ to the length ε.
  `radius_after` makes ε smaller where x + δ is misclassified, and larger elsewhere. The step size
  falls from α to α/100 along a half cosine. A random direction replaces a gradient of 0. n steps
  take n forward and backward passes.

  Attributes:
    steps: number of steps n. The first step only classifies the clean images.
    step_size: ℓ2 length α of the first step, for every norm.
  """

  resembles = (NOISE,)
  steps: int = setting(100, 'at least 1', lambda x: x >= 1)
  step_size: float = setting(1.0, 'finite and above 0', lambda x: 0 < x < float('inf'))

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the nearest misclassified images if their distance is at most ε, else `images`.

    For the arguments see `Attack.__call__`.
    """
    distance, nearest = self.nearest(keys, logits, images, labels)
    return jnp.where(balls.as_image_factors(distance > scale * self.epsilon), images, nearest)

  @property
  @abc.abstractmethod
  def first_radius(self) -> float:
    """The radius ε before the first step."""

  def losses(self, scores: Array, labels: Array) -> Array:
    """Returns the loss that the steps increase, [B].

    The default is the loss that the setting `loss` names.

    Args:
      scores: logits [B, classes].
      labels: int32 [B].
    """
    return LOSSES[self.loss](scores, labels)

  @abc.abstractmethod
  def radius_after(
    self, radius: Array, is_wrong: Array, distance: Array, boundary_distance: Array, decay: Array
  ) -> Array:
    """Returns the radius of each image's ball for the next step, [B].

    x is a clean image, and δ its current change.

    Args:
      radius: current radius ε, [B].
      is_wrong: whether x + δ is misclassified, bool [B].
      distance: distance of the nearest misclassified image so far, [B]; inf if there is none.
      boundary_distance: estimated distance of the decision boundary from x, [B]: ‖δ‖ plus the
        distance from x + δ at which the linearised loss is 0.
      decay: scalar that falls from 1 in the first step to 0 along a half cosine, for schedules.
    """

  def nearest(
    self, keys: Array, logits: Logits, images: Array, labels: Array
  ) -> tuple[Array, Array]:
    """Returns the distance of the nearest misclassified image that is found, and this image.

    For the arguments see `Attack.__call__`.

    Returns:
      (distances in the attack's norm, float32 [B]; images [B, H, W, C]). The distance is 0 if the
      clean image is misclassified. If no misclassified image is found, the distance is inf and the
      image is the clean one. If a gradient is NaN before one is found, both are NaN.
    """
    images = jax.lax.stop_gradient(images)
    # the largest distance [B] of an image in [0, 1] from each clean image
    farthest = balls.change_norms(jnp.maximum(images, 1 - images), self.norm)

    def value(x: Array) -> tuple[Array, tuple[Array, Array]]:
      """Returns the sum of the losses, for `jax.grad`, and (losses [B], is misclassified [B])."""
      scores = logits(x)
      losses = self.losses(scores, labels)
      return losses.sum(), (losses, scores.argmax(-1) != labels)

    def direction(key: Array, gradient: Array) -> Array:
      """Returns the gradient scaled to ℓ2 length 1, or a random direction if it is 0."""
      noise = jax.random.normal(key, gradient.shape)
      return balls.steepest_direction(jnp.where((gradient == 0).all(), noise, gradient), 'l2')

    def step(number: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
      """Takes one step towards the nearest misclassified image, for `lax.fori_loop`.

      A point moves along the gradient of the loss and is projected onto the ball of its current
      radius around the clean image. The radius changes with the distance at which the decision
      boundary is estimated.

      Args:
        number: number of the step.
        state: points [B, H, W, C], radii of their balls [B], nearest misclassified images so far,
          and their distances [B], inf for none.

      Returns:
        The state after the step.
      """
      x, radius, nearest, distance = state
      gradient, (losses, is_wrong) = jax.grad(value, has_aux=True)(x)
      length = balls.change_norms(x - images, self.norm)  # ‖δ‖
      is_nearer = is_wrong & (length < distance)
      nearest = jnp.where(balls.as_image_factors(is_nearer), x, nearest)
      distance = jnp.where(is_nearer, length, distance)
      decay = (1 + jnp.cos(jnp.pi * number / self.steps)) / 2  # cosine schedule from 1 to 0
      # an estimate of the distance of the decision boundary, where the linearised loss is 0
      slope = balls.change_norms(gradient, balls.DUALS[self.norm])
      boundary_distance = length + jnp.abs(losses) / slope
      radius = self.radius_after(radius, is_wrong, distance, boundary_distance, decay)
      radius = jnp.minimum(radius, farthest)
      size = self.step_size * (0.01 + 0.99 * decay)  # from α to α/100
      step_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
      change = x + size * jax.vmap(direction)(step_keys, gradient) - images
      x = jnp.clip(images + self._projected(change, radius), 0, 1)
      return x, radius, nearest, distance

    infinite = jnp.full(len(images), jnp.inf)
    state = images, jnp.full(len(images), self.first_radius), images, infinite
    x, _, nearest, distance = jax.lax.fori_loop(0, self.steps, step, state)
    # `balls.change_norms` returns MIN_LENGTH for a change of 0
    distance = jnp.where(distance > balls.MIN_LENGTH, distance, 0)
    # a NaN gradient leaves NaN points for the rest of the steps
    is_nan = jnp.isnan(x).any((1, 2, 3)) & jnp.isinf(distance)
    nearest = jnp.where(balls.as_image_factors(is_nan), jnp.nan, nearest)
    return jnp.where(is_nan, jnp.nan, distance), nearest

  def _projected(self, change: Array, radius: Array) -> Array:
    """Returns the changes projected onto the balls, [B, H, W, C].

    For ℓ∞ and ℓ1 the projection is the nearest point of the ball. For ℓ2 the change is scaled to
    the radius, even if it was shorter.

    Args:
      change: [B, H, W, C].
      radius: radii of the balls, [B].
    """
    if self.norm == 'l2':
      return change * balls.as_image_factors(radius / balls.change_norms(change, 'l2'))
    is_linf = self.norm == 'linf'
    project = projections.projection_linf_ball if is_linf else projections.projection_l1_ball
    return jax.vmap(project)(change, radius)
