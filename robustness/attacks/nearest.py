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
  """Base class of attacks that search for the misclassified image nearest to the clean image x.

  Each image has a change δ and a radius ε, which both change in every step. A step classifies
  x + δ, and keeps it if it is wrong (misclassified) and nearer to x than all wrong images of
  earlier steps. Then δ ← Π_ε(δ + α ∇/‖∇‖₂) with the gradient ∇ of the loss, and x + δ is clipped to
  [0, 1]. `radius_after` shrinks ε where x + δ is wrong and expands it elsewhere. Π_ε is the nearest
  point of the ball for ℓ∞ and ℓ1, and scales δ to the length ε for ℓ2. The step size falls from α
  to α/100 along a half cosine. A gradient of 0 is replaced by a random direction. n steps take n
  forward and backward passes.

  Attributes:
    steps: n ≥ 1. The first step classifies the clean images only.
    step_size: α > 0, the ℓ2 length of the first step for every norm.
  """

  resembles = (NOISE,)
  steps: int = setting(100, 'at least 1', lambda x: x >= 1)
  step_size: float = setting(1.0, 'finite and above 0', lambda x: 0 < x < float('inf'))

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the nearest wrong images if they are at most `epsilon` away, else `images`."""
    distance, nearest = self.nearest(keys, logits, images, labels)
    return jnp.where(balls.as_image_factors(distance > scale * self.epsilon), images, nearest)

  @property
  @abc.abstractmethod
  def first_radius(self) -> float:
    """The radius ε before the first step."""

  def losses(self, scores: Array, labels: Array) -> Array:
    """Returns the loss of each image [B], which steps increase, for logits [B, classes].

    By default it is the one that the setting `loss` names.
    """
    return LOSSES[self.loss](scores, labels)

  @abc.abstractmethod
  def radius_after(
    self, radius: Array, is_wrong: Array, distance: Array, boundary: Array, share: Array
  ) -> Array:
    """Returns the radii [B] for the projection of a step.

    Args:
      radius: ε [B] before the step.
      is_wrong: bool [B], whether x + δ is misclassified.
      distance: the least distance [B] of a wrong image; inf if none was found.
      boundary: estimated distance [B] of the decision boundary from x: ‖δ‖ plus the distance from
        x + δ at which the linearised loss is 0.
      share: scalar that falls from 1 in the first step to 0 along a half cosine.
    """

  def nearest(
    self, keys: Array, logits: Logits, images: Array, labels: Array
  ) -> tuple[Array, Array]:
    """Returns the least distances in the norm, float32 [B], and the images at these distances.

    The distance is 0 if the clean image is misclassified. If there is no wrong image, the distance
    is inf and the image is the clean image. Both are NaN if a gradient was NaN before the first
    wrong image. For the arguments see `Attack.__call__`.
    """
    images = jax.lax.stop_gradient(images)
    # the largest distance [B] of an image in [0, 1] from each clean image
    farthest = balls.change_norms(jnp.maximum(images, 1 - images), self.norm)

    def value(x: Array) -> tuple[Array, tuple[Array, Array]]:
      """Returns the sum of the losses, and (losses [B], whether the images are wrong [B])."""
      scores = logits(x)
      losses = self.losses(scores, labels)
      return losses.sum(), (losses, scores.argmax(-1) != labels)

    def direction(key: Array, gradient: Array) -> Array:
      """Returns the direction of a gradient, ℓ2 length 1; a random one if the gradient is 0."""
      noise = jax.random.normal(key, gradient.shape)
      return balls.steepest_direction(jnp.where((gradient == 0).all(), noise, gradient), 'l2')

    def step(number: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
      """Returns (points, radii, nearest wrong images, their distances) after step `number`."""
      x, radius, nearest, distance = state
      gradient, (losses, is_wrong) = jax.grad(value, has_aux=True)(x)
      length = balls.change_norms(x - images, self.norm)  # ‖δ‖
      is_nearer = is_wrong & (length < distance)
      nearest = jnp.where(balls.as_image_factors(is_nearer), x, nearest)
      distance = jnp.where(is_nearer, length, distance)
      share = (1 + jnp.cos(jnp.pi * number / self.steps)) / 2  # cosine schedule from 1 to 0
      # an estimate of the distance of the decision boundary, where the linearised loss is 0
      boundary = length + jnp.abs(losses) / balls.change_norms(gradient, balls.DUALS[self.norm])
      radius = self.radius_after(radius, is_wrong, distance, boundary, share)
      radius = jnp.minimum(radius, farthest)
      size = self.step_size * (0.01 + 0.99 * share)  # from α to α/100
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
    """Returns changes δ [B, H, W, C] projected by Π_ε of `NearestAttack`, with radii ε [B].

    For ℓ∞ and ℓ1 the projection is the nearest point of the ball of radius ε. For ℓ2 it is δ
    scaled to the length ε, even where δ is shorter.
    """
    if self.norm == 'l2':
      return change * balls.as_image_factors(radius / balls.change_norms(change, 'l2'))
    is_linf = self.norm == 'linf'
    project = projections.projection_linf_ball if is_linf else projections.projection_l1_ball
    return jax.vmap(project)(change, radius)
