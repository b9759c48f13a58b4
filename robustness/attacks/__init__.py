"""Attacks: perturbations that are found with the network's gradient, pure JAX.

The same attack serves adversarial training and the views of a study.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.attacks import balls
from robustness.attacks.losses import LOSSES, margin
from robustness.core.registry import Part, Registry

STATISTICS = ('running', 'batch')
Logits = Callable[[jax.Array], jax.Array]
"""A pure function from images [B, H, W, C] to logits [B, classes]."""


@dataclasses.dataclass(frozen=True)
class Attack(Part):
  """Base class: the fields are the keys of the section `config.classifier.attack.<name>`.

  Attributes:
    norm: 'linf' or 'l2'.
    epsilon: ε, radius of the ball for pixels in [0, 1]; .03137 is 8/255.
    statistics: which statistics batch normalisation uses while a training's examples are made:
      'running' averages, or those of the 'batch'; the averages are not moved by an attack.
    loss: what is ascended, 'cross_entropy' or 'dlr', see `robustness.attacks.losses`.
  """

  section: ClassVar[str] = 'config.classifier.attack'
  norm: str = 'linf'
  epsilon: float = 8 / 255
  statistics: str = 'batch'
  loss: str = 'cross_entropy'

  def __post_init__(self) -> None:
    balls.check(f'{self.section}.{self.name}', self.norm, self.epsilon)
    self.choice('statistics', STATISTICS)
    self.choice('loss', LOSSES)

  @abc.abstractmethod
  def __call__(
    self,
    keys: jax.Array,
    logits: Logits,
    images: jax.Array,
    labels: jax.Array,
    scale: jax.Array | float = 1.0,
  ) -> jax.Array:
    """Returns adversarial images [B, H, W, C] in [0, 1], which carry no gradient.

    Each row depends on its own key, image and label only, given `logits` of which the same holds.

    Args:
      keys: [B], for the random start.
      logits: of the classifier.
      images: float32 [B, H, W, C] in [0, 1].
      labels: int32 [B].
      scale: multiplies ε and the step size; may be traced, so that several ε are one compilation.
    """

  @property
  @abc.abstractmethod
  def resembles(self) -> tuple[str, ...]:
    """Transforms of `robustness.environments.transforms` that a training would show by it; see
    `robustness.augment.Augmentation`."""

  @property
  def draws(self) -> bool:
    """Whether another key gives another result, so that restarts differ."""
    return True

  def worst(
    self,
    restarts: int,
    keys: jax.Array,
    logits: Logits,
    images: jax.Array,
    labels: jax.Array,
    scale: jax.Array | float = 1.0,
  ) -> jax.Array:
    """Returns, of some runs, the result with the largest margin, image by image.

    An image is predicted wrongly if any of its runs ended so. The first run has the given keys, run
    r has fold_in(key, r): more restarts never make an attack weaker. One that draws nothing runs
    once.

    Args:
      restarts: runs, at least 1.
      keys: see `__call__`.
      logits: see `__call__`.
      images: see `__call__`.
      labels: see `__call__`.
      scale: see `__call__`.
    """
    first = self(keys, logits, images, labels, scale)
    if restarts == 1 or not self.draws:
      return first

    def again(run: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
      kept, largest = state
      own = jax.vmap(lambda key: jax.random.fold_in(key, run))(keys)
      other = self(own, logits, images, labels, scale)
      margins = margin(logits(other), labels)
      better = (margins > largest).reshape(-1, 1, 1, 1)
      return jnp.where(better, other, kept), jnp.maximum(margins, largest)

    state = (first, margin(logits(first), labels))
    return jax.lax.fori_loop(1, restarts, again, state)[0]


ATTACKS = Registry('robustness.attacks', Attack)  # type: ignore[type-abstract]
