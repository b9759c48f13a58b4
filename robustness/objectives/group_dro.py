"""Group distributionally robust optimisation: the worst group counts most."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.objectives import Arrays, GroupObjective, Minimised, State, Total
from robustness.objectives.cross_entropy import cross_entropy


@dataclasses.dataclass(frozen=True)
class GroupDRO(GroupObjective):
  """Weighs each group's mean loss ℓ_g by its share: q_g ← q_g·exp(η·ℓ_g) / Σ, loss Σ q_g·ℓ_g.

  Shares move before they weigh, as in the released code. A group that a batch lacks keeps its
  share (before normalisation); the loss is then the mean over the groups that are there, where the
  released code counts the others as 0. Weights are q_g / (rows of the group), metrics
  `worst_group_loss` and `largest_share`.

  Attributes:
    column: see `GroupObjective`.
    groups: how many there are; 0 takes the number of classes.
    step_size: η of the shares' exponentiated gradient step, above 0.
    label_smoothing: see `robustness.objectives.cross_entropy`.

  Reference:
    Sagawa et al. (2020), Distributionally Robust Neural Networks for Group Shifts, algorithm 1.
  """

  count_key: ClassVar[str] = 'groups'
  column: str = 'label'
  groups: int = 0
  step_size: float = 0.01
  label_smoothing: float = 0.0

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(self.groups >= 0, 'groups', '0 (the classes) or more')
    self.require(self.step_size > 0, 'step_size', 'above 0')
    self.require(0 <= self.label_smoothing < 1, 'label_smoothing', 'in [0, 1)')

  def initial_state(self, num_classes: int) -> State:
    """Returns equal shares of the groups, `share` float32 [groups]."""
    count = self.groups or num_classes
    return {'share': jnp.full((count,), 1 / count, jnp.float32)}

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """See `Objective`."""
    losses = cross_entropy(outputs['logits'], batch['target'], self.label_smoothing)
    member = jax.nn.one_hot(batch[self.column], len(state['share']), dtype=jnp.float32)
    count, summed = total((member.sum(0), (member * jax.lax.stop_gradient(losses)[:, None]).sum(0)))
    mean = summed / jnp.maximum(count, 1)
    share = state['share'] * jnp.exp(self.step_size * mean)
    share = share / share.sum()
    weights = member @ (share / jnp.maximum(count, 1))
    metrics = {'worst_group_loss': mean.max(), 'largest_share': share.max()}
    return losses, weights, {'share': share}, metrics
