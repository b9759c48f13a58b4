"""DDN, decoupled direction and norm: the nearest misclassified image in ℓ2."""

import dataclasses

import jax.numpy as jnp

from robustness.attacks import Array
from robustness.attacks.nearest import NearestAttack

RADIUS_CHANGE = 0.05
"""The relative change γ of the radius in each step."""


@dataclasses.dataclass(frozen=True)
class DDN(NearestAttack):
  """Searches for the nearest misclassified image in ℓ2 by gradient steps on the loss.

  The change δ of an image x is scaled to a length ε after each step. ε starts at 1. It becomes .95
  ε if x + δ is misclassified, else 1.05 ε. `NearestAttack` describes the steps of δ. Unlike in the
  paper, pixels are not rounded to 256 levels.

  Reference:
    Rony et al. (2019), Decoupling Direction and Norm for Efficient Gradient-Based L2 Adversarial
    Attacks and Defenses, algorithm 1.
  """

  norms = ('l2',)
  first_radius = 1.0
  norm: str = 'l2'

  def radius_after(
    self, radius: Array, is_wrong: Array, distance: Array, boundary_distance: Array, decay: Array
  ) -> Array:
    """Returns the next radii [B]: 5 % smaller if x + δ is misclassified, else 5 % larger.

    For the arguments see `NearestAttack.radius_after`.
    """
    return radius * jnp.where(is_wrong, 1 - RADIUS_CHANGE, 1 + RADIUS_CHANGE)
