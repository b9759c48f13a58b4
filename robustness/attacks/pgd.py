"""Gradient ascent on a loss in an ℓ∞ or ℓ2 ball: the fast gradient sign method, and projected."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax

from robustness.attacks import Attack, Logits, balls
from robustness.attacks.losses import LOSSES
from robustness.corruptions.names import LIKE_NOISE


@dataclasses.dataclass(frozen=True)
class PGD(Attack):
  """Gives the last iterate of δ ← Π(δ + α·direction), x + δ clipped to [0, 1] at every step.

  The direction is sign(∇) for ℓ∞ and ∇/‖∇‖₂, of each image, for ℓ2; ∇ is the gradient of the sum of
  losses, so that an image's step does not depend on the others'. Π is the projection onto the ball,
  and clipping to the box follows it: a point of the box stays in the ball.

  Attributes:
    steps: n ≥ 1.
    step_size: α, length of a step in the norm.
    random_start: begin at a random point of the ball: uniform in the cube ('linf'), or uniform in
      the ball ('l2'); False begins at the image.

  Reference:
    Madry et al. (2018), Towards Deep Learning Models Resistant to Adversarial Attacks, section 2.1.
  """

  name: ClassVar[str] = 'pgd'
  resembles = LIKE_NOISE
  steps: int = 10
  step_size: float = 2 / 255
  random_start: bool = True

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(self.steps >= 1, 'steps', 'at least 1')
    self.require(self.step_size > 0, 'step_size', 'above 0')

  @property
  def draws(self) -> bool:
    """See `Attack`."""
    return self.random_start

  def __call__(
    self,
    keys: jax.Array,
    logits: Logits,
    images: jax.Array,
    labels: jax.Array,
    scale: jax.Array | float = 1.0,
  ) -> jax.Array:
    """See `Attack`."""
    images = jax.lax.stop_gradient(images)
    epsilon, size = scale * self.epsilon, scale * self.step_size
    gradient = jax.grad(lambda perturbed: LOSSES[self.loss](logits(perturbed), labels).sum())

    def step(_: jax.Array, perturbed: jax.Array) -> jax.Array:
      direction = jax.vmap(lambda g: balls.direction(g, self.norm))(gradient(perturbed))
      change = perturbed + size * direction - images
      return balls.clipped(images, change, self.norm, epsilon)

    begin = balls.start(keys, images, self.norm, epsilon) if self.random_start else images
    return jax.lax.stop_gradient(jax.lax.fori_loop(0, self.steps, step, begin))


@dataclasses.dataclass(frozen=True)
class FGSM(Attack):
  """Gives x + ε·direction clipped to [0, 1], one step of `PGD`; draws nothing.

  Reference:
    Goodfellow et al. (2015), Explaining and Harnessing Adversarial Examples, section 4.
  """

  name: ClassVar[str] = 'fgsm'
  resembles = LIKE_NOISE

  @property
  def draws(self) -> bool:
    """See `Attack`."""
    return False

  def __call__(
    self,
    keys: jax.Array,
    logits: Logits,
    images: jax.Array,
    labels: jax.Array,
    scale: jax.Array | float = 1.0,
  ) -> jax.Array:
    """See `Attack`."""
    one = PGD(**dataclasses.asdict(self), steps=1, step_size=self.epsilon, random_start=False)
    return one(keys, logits, images, labels, scale)
