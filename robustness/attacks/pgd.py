"""Projected gradient ascent on a loss, in an ℓ∞ or ℓ2 ball."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from robustness.attacks import balls
from robustness.attacks.losses import LOSSES
from robustness.core.settings import choice, require

WHERE = 'config.classifier.attack.pgd'
RESEMBLES = ('gaussian_noise', 'shot_noise', 'impulse_noise', 'speckle_noise')
STATISTICS = ('running', 'batch')


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.attack.pgd`.

  Attributes:
    norm: 'linf' or 'l2'.
    epsilon: ε, radius of the ball for pixels in [0, 1]; .03137 is 8/255.
    steps: n ≥ 1.
    step_size: α, length of a step in the norm.
    random_start: begin at a random point of the ball: uniform in the cube ('linf'), or uniform in
      the ball ('l2'); False begins at the image.
    statistics: see `robustness.attacks`.
    loss: 'cross_entropy' or 'dlr', see `robustness.attacks.losses`.
  """

  norm: str = 'linf'
  epsilon: float = 8 / 255
  steps: int = 10
  step_size: float = 2 / 255
  random_start: bool = True
  statistics: str = 'batch'
  loss: str = 'cross_entropy'

  def __post_init__(self) -> None:
    balls.check(WHERE, self.norm, self.epsilon)
    require(self.steps >= 1, f'{WHERE}.steps', self.steps, 'at least 1')
    require(self.step_size > 0, f'{WHERE}.step_size', self.step_size, 'above 0')
    choice(f'{WHERE}.statistics', self.statistics, STATISTICS)
    choice(f'{WHERE}.loss', self.loss, LOSSES)

  @property
  def draws(self) -> bool:
    """Whether another key gives another result."""
    return self.random_start


def attack(
  keys: jax.Array,
  logits: Callable[[jax.Array], jax.Array],
  images: jax.Array,
  labels: jax.Array,
  settings: Settings,
  scale: jax.Array | float = 1.0,
) -> jax.Array:
  """Returns the last iterate of δ ← Π(δ + α·direction), x + δ clipped to [0, 1] at every step.

  The direction is sign(∇) for ℓ∞ and ∇/‖∇‖₂, of each image, for ℓ2; ∇ is the gradient of the sum of
  losses, so that an image's step does not depend on the others'. Π is the projection onto the ball,
  and clipping to the box follows it: a point of the box stays in the ball.

  Args:
    keys: [B], for the random start.
    logits: pure function of images; see `robustness.attacks`.
    images: float32 [B, H, W, C] in [0, 1].
    labels: int32 [B].
    settings: of the attack.
    scale: multiplies ε and the step size.

  Returns:
    Images float32 [B, H, W, C] in [0, 1].

  Reference:
    Madry et al. (2018), Towards Deep Learning Models Resistant to Adversarial Attacks, section 2.1.
  """
  images = jax.lax.stop_gradient(images)
  epsilon, size = scale * settings.epsilon, scale * settings.step_size
  loss = LOSSES[settings.loss]
  gradient = jax.grad(lambda perturbed: loss(logits(perturbed), labels).sum())

  def step(_: jax.Array, perturbed: jax.Array) -> jax.Array:
    direction = jax.vmap(lambda g: balls.direction(g, settings.norm))(gradient(perturbed))
    change = perturbed + size * direction - images
    return clipped(images, change, settings.norm, epsilon)

  begin = start(keys, images, settings.norm, epsilon) if settings.random_start else images
  return jax.lax.stop_gradient(jax.lax.fori_loop(0, settings.steps, step, begin))


def start(keys: jax.Array, images: jax.Array, norm: str, epsilon: jax.Array | float) -> jax.Array:
  """Returns images [B, H, W, C] moved to a random point of their balls, clipped to [0, 1]."""
  shape = images.shape[1:]
  moved = images + jax.vmap(lambda key: balls.random_point(key, shape, norm, epsilon))(keys)
  return jnp.clip(moved, 0, 1)


def clipped(
  images: jax.Array, change: jax.Array, norm: str, epsilon: jax.Array | float
) -> jax.Array:
  """Returns x + Π(δ) clipped to [0, 1], [B, H, W, C]."""
  inside = jax.vmap(lambda single: balls.projected(single, norm, epsilon))(change)
  return jnp.clip(images + inside, 0, 1)
