"""FMN, the fast minimum-norm attack: the nearest misclassified image in ℓ∞, ℓ2 or ℓ1."""

import dataclasses

import jax.numpy as jnp

from robustness.attacks import Array, balls, margin
from robustness.attacks.nearest import NearestAttack

RADIUS_CHANGES = 0.05, 0.001
"""The relative changes γ of the radius in the first and the last step."""


@dataclasses.dataclass(frozen=True)
class FMN(NearestAttack):
  """Searches for the nearest misclassified image by gradient steps on the margin.

  The margin m is the largest logit of a wrong class minus the logit of the label. The change δ of
  an image x is projected onto a ball of radius ε, and `NearestAttack` describes its steps. Each
  step also changes ε:

  * If x + δ is misclassified, ε becomes (1 − γ)ε, or the distance of the nearest misclassified
    image so far if that is smaller.
  * If x + δ is classified correctly, but an earlier point was misclassified, ε becomes (1 + γ)ε.
  * Before the first misclassified point, ε becomes (1 + γ)·d. d = ‖δ‖_p + |m| / ‖∇m‖_q estimates
    the distance of the boundary; ‖·‖_q is the dual norm.

  γ falls from .05 to .001 along a half cosine. The paper has d instead of (1 + γ)·d, with which
  rounding may leave x + δ at the boundary.

  Reference:
    Pintor et al. (2021), Fast Minimum-norm Adversarial Attacks through Adaptive Norm Constraints,
    algorithm 1.
  """

  norms = balls.NORMS
  first_radius = float('inf')
  has_fixed_loss = True

  def losses(self, scores: Array, labels: Array) -> Array:
    """Returns the margins [B], which are above 0 for misclassified images."""
    return margin(scores, labels)

  def radius_after(
    self, radius: Array, is_wrong: Array, distance: Array, boundary_distance: Array, decay: Array
  ) -> Array:
    """Returns the radius of each image's ball for the next step, [B].

    If the image is misclassified, the radius shrinks, at most to the distance of the nearest
    misclassified image so far. If not, it grows: from the current radius if a misclassified image
    was found, and otherwise from the estimated distance of the decision boundary.

    Args:
      radius: current radius ε, [B].
      is_wrong: whether the current image is misclassified, bool [B].
      distance: distance of the nearest misclassified image so far, [B]; inf if there is none.
      boundary_distance: estimated distance of the decision boundary from the clean image, [B].
      decay: scalar that falls from 1 in the first step to 0.
    """
    first, last = RADIUS_CHANGES
    gamma = last + (first - last) * decay  # falls from `first` to `last`, as `decay` from 1 to 0
    larger = jnp.where(jnp.isfinite(distance), radius, boundary_distance) * (1 + gamma)
    return jnp.where(is_wrong, jnp.minimum(radius * (1 - gamma), distance), larger)
