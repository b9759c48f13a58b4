"""Invariant risk minimisation: one classifier that is optimal in every environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core.settings import choice, require
from robustness.objectives.cross_entropy import cross_entropy

WHERE = 'config.classifier.objective.irm'
COUNT = 'environments'
SQUARED, UNBIASED = 'squared', 'unbiased'


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.objective.irm`.

  Attributes:
    column: the column of the rows that says which environment a row is of, in [0, environments);
      the augmentation `environment` adds 'environment'.
    environments: how many there are.
    penalty: λ ≥ 0.
    anneal_steps: steps (micro-batches) before which λ is 1. The optimizer's moments are kept, where
      DomainBed forgets them at that step.
    estimate: 'squared', the square of an environment's mean derivative, as in the original code; or
      'unbiased', the product of the means over examples of even and of odd example ids, as
      DomainBed and WILDS do with places in the batch. It may be negative.
    rescale: whether the whole loss is divided by λ where λ > 1, as in the original code.
  """

  column: str = 'environment'
  environments: int = 2
  penalty: float = 100.0
  anneal_steps: int = 500
  estimate: str = SQUARED
  rescale: bool = False

  def __post_init__(self) -> None:
    require(bool(self.column), f'{WHERE}.column', self.column, 'the name of a column')
    require(self.environments >= 1, f'{WHERE}.environments', self.environments, 'at least 1')
    require(self.penalty >= 0, f'{WHERE}.penalty', self.penalty, '0 or more')
    require(self.anneal_steps >= 0, f'{WHERE}.anneal_steps', self.anneal_steps, '0 or more')
    choice(f'{WHERE}.estimate', self.estimate, (SQUARED, UNBIASED))


def columns(settings: Settings) -> tuple[str, ...]:
  """Returns the columns that the rows must have."""
  return (settings.column,)


def initial_state(settings: Settings, num_classes: int) -> dict[str, jax.Array]:
  """Returns the number of steps done, int32 []."""
  del settings, num_classes
  return {'step': jnp.zeros((), jnp.int32)}


def objective(
  outputs: Mapping[str, jax.Array],
  batch: Mapping[str, Any],
  state: dict[str, jax.Array],
  settings: Settings,
  total: Callable[[Any], Any],
) -> tuple[jax.Array, jax.Array, dict[str, jax.Array], dict[str, jax.Array]]:
  """Weighs environments alike and adds λ times the mean of their penalties.

  The penalty of an environment is |d/dw mean_i CE(w·z_i, q_i)|² at w = 1, whose derivative is
  mean_i Σ_c (p_ic − q_ic)·z_ic with p = softmax(z). Environments that a batch lacks do not count;
  of several images of a row i is each.

  Args:
    outputs: `logits` z [B, classes] or [B, V, classes].
    batch: `target` q [B, classes], `example_id` [B], and the column of the environments.
    state: `step`.
    settings: see there.
    total: sums over devices.

  Returns:
    Losses [B], weights 1 / (rows of the environment · environments), the state, and the metrics
    `penalty` (its mean over environments) and `penalty_weight` (λ).

  Reference:
    Arjovsky et al. (2019), Invariant Risk Minimization, equation IRMv1 and appendix D.
  """
  logits = outputs['logits'].astype(jnp.float32)
  losses = cross_entropy(logits, batch['target'])
  member = jax.nn.one_hot(batch[settings.column], settings.environments, dtype=jnp.float32)
  target = jnp.expand_dims(batch['target'], tuple(range(1, logits.ndim - 1)))
  derivative = ((jax.nn.softmax(logits) - target) * logits).sum(-1).reshape(len(losses), -1).mean(1)
  count = total(member.sum(0))
  present = count > 0
  penalties = _penalties(derivative, member, batch['example_id'] % 2, settings.estimate, total)
  penalty = jnp.where(present, penalties, 0).sum() / jnp.maximum(present.sum(), 1)
  weight = jnp.where(state['step'] < settings.anneal_steps, 1.0, settings.penalty)
  scale = jnp.maximum(weight, 1) if settings.rescale else 1.0
  shares = member @ (1 / (jnp.maximum(count, 1) * jnp.maximum(present.sum(), 1)))
  metrics = {'penalty': penalty, 'penalty_weight': weight}
  return (losses + weight * penalty) / scale, shares, {'step': state['step'] + 1}, metrics


def _penalties(
  derivative: jax.Array,
  member: jax.Array,
  parity: jax.Array,
  estimate: str,
  total: Callable[[Any], Any],
) -> jax.Array:
  """Returns each environment's penalty, [environments]."""
  if estimate == SQUARED:
    groups = [member, member]
  else:
    groups = [member * (parity == k)[:, None] for k in (0, 1)]
  means = []
  for group in groups:
    summed, count = total(((derivative[:, None] * group).sum(0), group.sum(0)))
    means.append(summed / jnp.maximum(count, 1))
  return means[0] * means[1]
