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

  Each image x has a change δ, which is projected onto a ball of radius ε. If x + δ is wrongly
  classified, ε becomes (1 − γ)ε, or the least distance of a wrong image so far if that is smaller.
  Otherwise ε becomes (1 + γ)ε. Before the first wrong image it becomes instead (1 + γ)·d,
  with d = ‖δ‖_p + |m| / ‖∇m‖_q and m the margin, the largest logit of another class minus the
  label's; d is where the linearised m is 0. The paper has d without 1 + γ, and rounding may then
  leave x + δ at the boundary for ever. γ falls from .05 to .001 along a half cosine. For the
  steps of δ see `NearestAttack`.

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
    """Returns the radius of each image for the projection of a step, [B].

    Where the image is misclassified it is (1 − γ)·radius, but at most `distance`. Elsewhere it is
    (1 + γ)·radius, or (1 + γ)·boundary before the first misclassified image. γ falls with `share`
    (`RADIUS_CHANGES`). For the arguments see `NearestAttack.radius_after`.
    """
    first, last = RADIUS_CHANGES
    gamma = last + (first - last) * share  # falls from `first` to `last`, as `share` from 1 to 0
    larger = jnp.where(jnp.isfinite(distance), radius, boundary) * (1 + gamma)
    return jnp.where(is_wrong, jnp.minimum(radius * (1 - gamma), distance), larger)
