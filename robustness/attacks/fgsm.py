"""The fast gradient sign method, and its ℓ2 form: one step of length ε from the image."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax

from robustness.attacks import balls, pgd
from robustness.attacks.losses import LOSSES
from robustness.core.settings import choice

WHERE = 'config.classifier.attack.fgsm'
RESEMBLES = pgd.RESEMBLES


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.attack.fgsm`; see `robustness.attacks.pgd.Settings`.

  Attributes:
    norm: 'linf' or 'l2'.
    epsilon: ε, length of the step for pixels in [0, 1].
    statistics: see `robustness.attacks`.
    loss: 'cross_entropy' or 'dlr'.
  """

  norm: str = 'linf'
  epsilon: float = 8 / 255
  statistics: str = 'batch'
  loss: str = 'cross_entropy'

  def __post_init__(self) -> None:
    balls.check(WHERE, self.norm, self.epsilon)
    choice(f'{WHERE}.statistics', self.statistics, pgd.STATISTICS)
    choice(f'{WHERE}.loss', self.loss, LOSSES)

  @property
  def draws(self) -> bool:
    """Whether another key gives another result: never."""
    return False


def attack(
  keys: jax.Array,
  logits: Callable[[jax.Array], jax.Array],
  images: jax.Array,
  labels: jax.Array,
  settings: Settings,
  scale: jax.Array | float = 1.0,
) -> jax.Array:
  """Returns x + ε·direction clipped to [0, 1], one step of `robustness.attacks.pgd`; draws nothing.

  Args:
    keys: [B], not used.
    logits: pure function of images; see `robustness.attacks`.
    images: float32 [B, H, W, C] in [0, 1].
    labels: int32 [B].
    settings: of the attack.
    scale: multiplies ε.

  Reference:
    Goodfellow et al. (2015), Explaining and Harnessing Adversarial Examples, section 4.
  """
  step = pgd.Settings(
    settings.norm,
    settings.epsilon,
    steps=1,
    step_size=settings.epsilon,
    random_start=False,
    statistics=settings.statistics,
    loss=settings.loss,
  )
  return pgd.attack(keys, logits, images, labels, step, scale)
