"""Projected gradient descent on the cross-entropy, in an ℓ∞ or ℓ2 ball."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from robustness.core.settings import choice, require

WHERE = 'config.classifier.attack.pgd'
NORMS = ('linf', 'l2')
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
  """

  norm: str = 'linf'
  epsilon: float = 8 / 255
  steps: int = 10
  step_size: float = 2 / 255
  random_start: bool = True
  statistics: str = 'batch'

  def __post_init__(self) -> None:
    choice(f'{WHERE}.norm', self.norm, NORMS)
    largest = 1.0 if self.norm == 'linf' else float('inf')
    require(
      0 < self.epsilon <= largest,
      f'{WHERE}.epsilon',
      self.epsilon,
      'above 0, and at most 1 for linf (pixels are in [0, 1]; 8/255 is .03137)',
    )
    require(self.steps >= 1, f'{WHERE}.steps', self.steps, 'at least 1')
    require(self.step_size > 0, f'{WHERE}.step_size', self.step_size, 'above 0')
    choice(f'{WHERE}.statistics', self.statistics, STATISTICS)


def attack(
  keys: jax.Array,
  logits: Callable[[jax.Array], jax.Array],
  images: jax.Array,
  labels: jax.Array,
  settings: Settings,
) -> jax.Array:
  """Returns the last iterate of δ ← Π(δ + α·direction), x + δ clipped to [0, 1] at every step.

  The direction is sign(∇) for ℓ∞ and ∇/‖∇‖₂, of each image, for ℓ2; ∇ is the gradient of the sum of
  cross-entropies, so that an image's step does not depend on the others'. Π is the projection onto
  the ball, and clipping to the box follows it: a point of the box stays in the ball.

  Args:
    keys: [B], for the random start.
    logits, images, labels: see `robustness.attacks`.
    settings: see there.

  Returns:
    Images float32 [B, H, W, C] in [0, 1].

  Reference:
    Madry et al. (2018), Towards Deep Learning Models Resistant to Adversarial Attacks, section 2.1.
  """
  images = jax.lax.stop_gradient(images)

  def loss(perturbed: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(
      logits(perturbed).astype(jnp.float32), labels
    ).sum()

  def step(_: jax.Array, perturbed: jax.Array) -> jax.Array:
    direction = jax.vmap(lambda g: _direction(g, settings.norm))(jax.grad(loss)(perturbed))
    change = perturbed + settings.step_size * direction - images
    return jnp.clip(images + jax.vmap(lambda d: _projected(d, settings))(change), 0, 1)

  begin = images
  if settings.random_start:
    start = jax.vmap(lambda key, image: _random(key, image.shape, settings))(keys, images)
    begin = jnp.clip(images + start, 0, 1)
  return jax.lax.stop_gradient(jax.lax.fori_loop(0, settings.steps, step, begin))


def _direction(gradient: jax.Array, norm: str) -> jax.Array:
  if norm == 'linf':
    return jnp.sign(gradient)
  return gradient / jnp.maximum(jnp.linalg.norm(gradient.ravel()), 1e-12)


def _projected(change: jax.Array, settings: Settings) -> jax.Array:
  if settings.norm == 'linf':
    return optax.projections.projection_linf_ball(change, settings.epsilon)
  length = jnp.linalg.norm(change.ravel())
  return change * jnp.minimum(1, settings.epsilon / jnp.maximum(length, 1e-12))


def _random(key: jax.Array, shape: tuple[int, ...], settings: Settings) -> jax.Array:
  if settings.norm == 'linf':
    return jax.random.uniform(key, shape, minval=-settings.epsilon, maxval=settings.epsilon)
  return settings.epsilon * jax.random.ball(key, math.prod(shape)).reshape(shape)
