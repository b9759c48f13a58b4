"""Gradient ascent on a loss in an ℓ∞ or ℓ2 ball: projected, and the fast gradient sign method."""

import dataclasses

import jax

from robustness.attacks import LOSSES, Array, Attack, Logits, Scalar, balls
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE


@dataclasses.dataclass(frozen=True)
class PGD(Attack):
  """Projected gradient descent: n gradient steps on the loss within the ball.

  A step of an image x with the change δ is δ ← Π(δ + α·direction). The direction is sign(∇) for ℓ∞
  and ∇/‖∇‖₂ for ℓ2, where ∇ is the gradient of the loss at x + δ. Π projects onto the ball; x + δ
  is then clipped to [0, 1].

  Attributes:
    steps: number of steps n.
    step_size: length α of a step in the norm; 0 stands for ε/4.
    random_start: whether to start at a random point, uniform in the ball, instead of the image.

  Reference:
    Madry et al. (2018), Towards Deep Learning Models Resistant to Adversarial Attacks, section 2.1.
  """

  name = 'pgd'
  resembles = (NOISE,)
  steps: int = setting(10, 'at least 1', lambda x: x >= 1)
  step_size: float = setting(0.0, 'at least 0; 0 is ε/4', lambda x: 0 <= x < float('inf'))
  random_start: bool = True

  @property
  def draws(self) -> bool:
    """Whether the attack uses its random keys, which is so if it starts at a random point."""
    return self.random_start

  @property
  def words(self) -> str:
    """The settings in words, such as '10 steps of ε/4' or '10 steps of .01 at ε = .03'."""
    size = f'{self.step_size:.4g} at ε = {self.epsilon:.4g}' if self.step_size else 'ε/4'
    return f'{self.steps} steps of {size}{"" if self.random_start else ", no random start"}'

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the adversarial images after n steps of projected gradient ascent, [B, H, W, C].

    Each step of length `step_size` follows the steepest direction of the loss and is projected onto
    the ball of radius ε around the images.

    Args:
      keys: random keys [B], for the random start.
      logits: function from images to logits.
      images: clean images [B, H, W, C] in [0, 1].
      labels: classes that the attack moves predictions away from, int32 [B].
      scale: factor of the radius and the step size.
    """
    images = jax.lax.stop_gradient(images)
    epsilon, size = scale * self.epsilon, scale * (self.step_size or self.epsilon / 4)
    gradient = jax.grad(lambda perturbed: LOSSES[self.loss](logits(perturbed), labels).sum())

    def step(_: Array, perturbed: Array) -> Array:
      """Returns the images after one more step."""
      direction = jax.vmap(lambda g: balls.steepest_direction(g, self.norm))(gradient(perturbed))
      change = perturbed + size * direction - images
      return balls.clipped(images, change, self.norm, epsilon)

    start = balls.random_points(keys, images, self.norm, epsilon) if self.random_start else images
    return jax.lax.stop_gradient(jax.lax.fori_loop(0, self.steps, step, start))


@dataclasses.dataclass(frozen=True)
class FGSM(Attack):
  """Fast gradient sign method: one gradient step of length ε from the clean image.

  The result for an image x is x + ε·direction, clipped to [0, 1]. The direction is the sign of the
  loss gradient for ℓ∞, and its unit vector for ℓ2.

  Reference:
    Goodfellow et al. (2015), Explaining and Harnessing Adversarial Examples, section 4.
  """

  name = 'fgsm'
  resembles = (NOISE,)
  draws = False

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the images after the step, [B, H, W, C]; for the arguments see `Attack.__call__`."""
    pgd = PGD(**dataclasses.asdict(self), steps=1, step_size=self.epsilon, random_start=False)
    return pgd(keys, logits, images, labels, scale)
