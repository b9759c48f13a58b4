"""DDN, decoupled direction and norm: the nearest misclassified image in ℓ2."""

import dataclasses

import jax.numpy as jnp

from robustness.attacks import Array
from robustness.attacks.nearest import NearestAttack

RADIUS_CHANGE = 0.05
"""The relative change γ of the radius in each step."""


@dataclasses.dataclass(frozen=True)
class DDN(NearestAttack):
  """Returns the nearest misclassified image in ℓ2 that n steps on the loss find.

  The change δ of an image x is scaled to a length ε, which starts at 1. After a step it becomes
  (1 − γ)ε if x + δ is misclassified, else (1 + γ)ε, with γ = .05. For the steps of δ see
  `NearestAttack`. Unlike in the paper, pixels are not rounded to 256 levels.

  Reference:
    Rony et al. (2019), Decoupling Direction and Norm for Efficient Gradient-Based L2 Adversarial
    Attacks and Defenses, algorithm 1.
  """

  norms = ('l2',)
  first_radius = 1.0
  norm: str = 'l2'

  def radius_after(
    self, radius: Array, is_wrong: Array, distance: Array, boundary: Array, share: Array
  ) -> Array:
    """Returns the radii [B] for a step, 5 % smaller for wrong images and 5 % larger for right ones.

    For the arguments see `NearestAttack.radius_after`.
    """
    return radius * jnp.where(is_wrong, 1 - RADIUS_CHANGE, 1 + RADIUS_CHANGE)
