"""FMN, the fast minimum-norm attack: the nearest misclassified image in ℓ∞, ℓ2 or ℓ1."""

import dataclasses

import jax.numpy as jnp

from robustness.attacks import Array, balls, margin
from robustness.attacks.nearest import NearestAttack

RADIUS_CHANGES = 0.05, 0.001
"""The relative changes γ of the radius in the first and the last step."""


@dataclasses.dataclass(frozen=True)
class FMN(NearestAttack):
  """Returns the nearest misclassified image that n steps on the margin of the logits find.

  Each image x has a change δ, which is projected onto a ball of radius ε (for the steps of δ see
  `NearestAttack`). A step changes the radius:

  * if x + δ is misclassified, to (1 − γ)ε, or to the least distance of a misclassified image so
    far if that is smaller;
  * otherwise to (1 + γ)ε;
  * before the first misclassified image to (1 + γ)·d, with the estimated distance d of the
    boundary, d = ‖δ‖_p + |m| / ‖∇m‖_q. m is the margin, the largest logit of another class minus
    the label's. The paper has d without 1 + γ, and rounding may then leave x + δ at the boundary.

  γ falls from .05 to .001 along a half cosine.

  Reference:
    Pintor et al. (2021), Fast Minimum-norm Adversarial Attacks through Adaptive Norm Constraints,
    algorithm 1.
  """

  norms = balls.NORMS
  first_radius = float('inf')
  has_fixed_loss = True

  def losses(self, scores: Array, labels: Array) -> Array:
    """Returns the margins [B], which are above 0 for wrong images."""
    return margin(scores, labels)

  def radius_after(
    self, radius: Array, is_wrong: Array, distance: Array, boundary: Array, share: Array
  ) -> Array:
    """Returns the radius of each image's ball after a step, [B], by the rules of the class.

    For the arguments see `NearestAttack.radius_after`.
    """
    first, last = RADIUS_CHANGES
    gamma = last + (first - last) * share  # falls from `first` to `last`, as `share` from 1 to 0
    larger = jnp.where(jnp.isfinite(distance), radius, boundary) * (1 + gamma)
    return jnp.where(is_wrong, jnp.minimum(radius * (1 - gamma), distance), larger)
