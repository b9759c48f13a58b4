"""Group distributionally robust optimisation: the worst group counts most."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core.settings import require
from robustness.objectives.cross_entropy import cross_entropy

WHERE = 'config.classifier.objective.group_dro'
COUNT = 'groups'


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.objective.group_dro`.

  Attributes:
    column: the column of the rows that says which group a row is of, in [0, groups); 'label' makes
      the classes groups.
    groups: how many there are; 0 takes the number of classes.
    step_size: η of the shares' exponentiated gradient step, above 0.
    label_smoothing: see `robustness.objectives.cross_entropy`.
  """

  column: str = 'label'
  groups: int = 0
  step_size: float = 0.01
  label_smoothing: float = 0.0

  def __post_init__(self) -> None:
    require(bool(self.column), f'{WHERE}.column', self.column, 'the name of a column')
    require(self.groups >= 0, f'{WHERE}.groups', self.groups, '0 (the classes) or more')
    require(self.step_size > 0, f'{WHERE}.step_size', self.step_size, 'above 0')
    require(
      0 <= self.label_smoothing < 1, f'{WHERE}.label_smoothing', self.label_smoothing, 'in [0, 1)'
    )


def columns(settings: Settings) -> tuple[str, ...]:
  """Returns the columns that the rows must have."""
  return (settings.column,)


def initial_state(settings: Settings, num_classes: int) -> dict[str, jax.Array]:
  """Returns equal shares of the groups, float32 [groups]."""
  count = settings.groups or num_classes
  return {'share': jnp.full((count,), 1 / count, jnp.float32)}


def objective(
  outputs: Mapping[str, jax.Array],
  batch: Mapping[str, Any],
  state: dict[str, jax.Array],
  settings: Settings,
  total: Callable[[Any], Any],
) -> tuple[jax.Array, jax.Array, dict[str, jax.Array], dict[str, jax.Array]]:
  """Weighs each group's mean loss ℓ_g by its share: q_g ← q_g·exp(η·ℓ_g) / Σ, loss Σ q_g·ℓ_g.

  Shares move before they weigh, as in the released code. A group that a batch lacks keeps its
  share (before normalisation); the loss is then the mean over the groups that are there, where the
  released code counts the others as 0.

  Args:
    outputs: `logits` [B, classes] or [B, V, classes].
    batch: `target`, and the column of the groups.
    state: `share` q, float32 [groups].
    settings: see there.
    total: sums over devices.

  Returns:
    Losses [B], weights q_g / (rows of the group), the new shares, and the metrics
    `worst_group_loss` and `largest_share`.

  Reference:
    Sagawa et al. (2020), Distributionally Robust Neural Networks for Group Shifts, algorithm 1.
  """
  losses = cross_entropy(outputs['logits'], batch['target'], settings.label_smoothing)
  groups = len(state['share'])
  member = jax.nn.one_hot(batch[settings.column], groups, dtype=jnp.float32)
  count, summed = total((member.sum(0), (member * jax.lax.stop_gradient(losses)[:, None]).sum(0)))
  mean = summed / jnp.maximum(count, 1)
  share = state['share'] * jnp.exp(settings.step_size * mean)
  share = share / share.sum()
  weights = member @ (share / jnp.maximum(count, 1))
  metrics = {'worst_group_loss': mean.max(), 'largest_share': share.max()}
  return losses, weights, {'share': share}, metrics
