"""Invariant risk minimisation: one classifier that is optimal in every environment."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from robustness.objectives import (
  Arrays,
  GroupObjective,
  Minimised,
  State,
  Total,
  equal_weights,
  group_rows,
)
from robustness.objectives.cross_entropy import cross_entropy

SQUARED, UNBIASED = ESTIMATES = ('squared', 'unbiased')


@dataclasses.dataclass(frozen=True)
class IRM(GroupObjective):
  """Weighs environments alike and adds λ times the mean of their penalties.

  The penalty of an environment is |d/dw mean_i CE(w·z_i, q_i)|² at w = 1, whose derivative is
  mean_i Σ_c (p_ic − q_ic)·z_ic with p = softmax(z). Environments that a batch lacks do not count;
  of several images of a row i is each. The state is `step`, the number of steps done; metrics are
  `penalty` (its mean over environments) and `penalty_weight` (λ).

  Attributes:
    column: see `GroupObjective`.
    environments: how many there are.
    penalty: λ ≥ 0.
    anneal_steps: steps (micro-batches) before which λ is 1. The optimizer's moments are kept, where
      DomainBed forgets them at that step.
    estimate: 'squared', the square of an environment's mean derivative, as in the original code; or
      'unbiased', the product of the means over examples of even and of odd example ids, as
      DomainBed and WILDS do with places in the batch. It may be negative.
    rescale: whether the whole loss is divided by λ where λ > 1, as in the original code.

  Reference:
    Arjovsky et al. (2019), Invariant Risk Minimization, equation IRMv1 and appendix D.
  """

  environments: int = 2
  penalty: float = 100.0
  anneal_steps: int = 500
  estimate: str = SQUARED
  rescale: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(self.environments >= 1, 'environments', 'at least 1')
    self.require(self.penalty >= 0, 'penalty', '0 or more')
    self.require(self.anneal_steps >= 0, 'anneal_steps', '0 or more')
    self.choice('estimate', ESTIMATES)

  def initial_state(self, num_classes: int) -> State:
    """Returns `step`, int32 []."""
    return {'step': jnp.zeros((), jnp.int32)}

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """See `Objective`."""
    logits = outputs['logits'].astype(jnp.float32)
    losses = cross_entropy(logits, batch['target'])
    member, count = group_rows(batch[self.column], self.environments, total)
    target = jnp.expand_dims(batch['target'], tuple(range(1, logits.ndim - 1)))
    slope = ((jax.nn.softmax(logits) - target) * logits).sum(-1).reshape(len(losses), -1).mean(1)
    penalties = self._penalties(slope, member, batch['example_id'] % 2, total)
    present = count > 0
    penalty = jnp.where(present, penalties, 0).sum() / jnp.maximum(present.sum(), 1)
    weight = jnp.where(state['step'] < self.anneal_steps, 1.0, self.penalty)
    scale = jnp.maximum(weight, 1) if self.rescale else 1.0
    metrics = {'penalty': penalty, 'penalty_weight': weight}
    minimised = (losses + weight * penalty) / scale
    return minimised, equal_weights(member, count), {'step': state['step'] + 1}, metrics

  def _penalties(
    self, slope: jax.Array, member: jax.Array, parity: jax.Array, total: Total
  ) -> jax.Array:
    """Returns each environment's penalty, [environments]."""
    groups = [member * (parity == k)[:, None] for k in (0, 1)]
    if self.estimate == SQUARED:
      groups = [member, member]
    means = []
    for group in groups:
      summed, count = total(((slope[:, None] * group).sum(0), group.sum(0)))
      means.append(summed / jnp.maximum(count, 1))
    return means[0] * means[1]
