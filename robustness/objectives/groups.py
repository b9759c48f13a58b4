"""Objectives of groups of rows: CORAL, group DRO and IRM."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from robustness.core import random_keys
from robustness.core.registry import setting, word
from robustness.objectives import Arrays, Minimised, Objective, State, Total
from robustness.objectives.cross_entropy import cross_entropy

EVERY, SAME_CLASSES = PAIRS = ('every', 'same_classes')
SQUARED, UNBIASED = ESTIMATES = ('squared', 'unbiased')
GROUP = 'class_group'


@dataclasses.dataclass(frozen=True)
class GroupObjective(Objective):
  """Base class of objectives of groups of rows; a training whose rows have more is refused, for
  those beyond would have no weight.

  Attributes:
    count_key: the field that says how many groups there are; 0 of these are as many as the classes.
    column: the column of the rows that says which environment or group a row is of, in
      [0, how many); the augmentation `environment` adds 'environment', 'label' makes the classes
      groups.
    label_smoothing: see `robustness.objectives.cross_entropy`.
  """

  count_key: ClassVar[str] = 'environments'
  column: str = setting('environment', 'the name of a column', bool)
  label_smoothing: float = setting(0.0, 'in [0, 1)', lambda x: 0 <= x < 1)

  @property
  def columns(self) -> tuple[str, ...]:
    return (self.column,)


def group_rows(
  column: jax.Array, groups: int, total: Total
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Returns which rows are of which group, float32 [B, groups] of 0 and 1, their counts, and
  weights [B] by which all groups that are there count alike."""
  member = jax.nn.one_hot(column.astype(jnp.int32), groups, dtype=jnp.float32)
  count = total(member.sum(0))
  present = (count > 0).sum()
  return member, count, member @ (1 / (jnp.maximum(count, 1) * jnp.maximum(present, 1)))


@dataclasses.dataclass(frozen=True)
class Coral(GroupObjective):
  """Weighs environments alike and adds γ times the mean distance between their features.

  With μ the mean and C the covariance (over n − 1) of the features of a set, the distance of two is
  mean_j (μ_j − μ'_j)² + mean_jk (C_jk − C'_jk)², as DomainBed and WILDS have it. Sets of fewer than
  two rows are not compared. All environments pass the network in one batch, whose statistics batch
  normalisation takes; DomainBed passes each by itself, which takes away part of it. The metric is
  `feature_distance`, its mean over pairs.

  Attributes:
    environments: how many there are, at least 2.
    penalty: γ ≥ 0 of the mean distance between two sets of features.
    pairs: which sets are compared: 'every' two environments; or 'same_classes', the rows of each
      environment k ≥ 1 with those of environment 0 whose class belongs to group k, so that classes
      differ in neither. It needs the column 'class_group'.

  Reference:
    Sun and Saenko (2016), Deep CORAL, equation 1; Gulrajani and Lopez-Paz (2021), In Search of Lost
    Domain Generalization.
  """

  name: ClassVar[str] = 'coral'
  needs_features: ClassVar[bool] = True
  environments: int = setting(2, 'at least 2', lambda x: x >= 2)
  penalty: float = setting(1.0, '0 or more', lambda x: 0 <= x < float('inf'))
  pairs: str = word(EVERY, PAIRS)

  @property
  def columns(self) -> tuple[str, ...]:
    return (self.column, *((GROUP,) if self.pairs == SAME_CLASSES else ()))

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    losses = cross_entropy(outputs['logits'], batch['target'], self.label_smoothing)
    member, _, weights = group_rows(batch[self.column], self.environments, total)
    sets, pairs = self._compared(member, batch)
    enough = (total(sets.sum(0))[pairs] >= 2).all(1)
    features = outputs['features'].astype(jnp.float32)
    if features.ndim == 3:
      sets = jnp.repeat(sets, features.shape[1], 0)
    distances = self._distances(features.reshape(len(sets), -1), sets, pairs, total)
    distance = jnp.where(enough, distances, 0).sum() / jnp.maximum(enough.sum(), 1)
    return losses + self.penalty * distance, weights, state, {'feature_distance': distance}

  def _compared(self, member: jax.Array, batch: Arrays) -> tuple[jax.Array, np.ndarray]:
    """Returns which rows are of which set, [B, sets] of 0 and 1, and the pairs of sets, [P, 2]."""
    count = self.environments
    if self.pairs == EVERY:
      return member, np.stack(np.triu_indices(count, 1), 1)
    own = jax.nn.one_hot(batch[GROUP], count, dtype=jnp.float32)[:, 1:]
    clean = member[:, :1] * own
    numbers = np.arange(count - 1)
    return jnp.concatenate([member[:, 1:], clean], 1), np.stack([numbers, numbers + count - 1], 1)

  def _distances(
    self, features: jax.Array, sets: jax.Array, pairs: np.ndarray, total: Total
  ) -> jax.Array:
    """Returns the distance of each of the pairs [P, 2] of sets, [N, S] of 0 and 1."""
    count, summed = total((sets.sum(0), sets.T @ features))
    mean = summed / jnp.maximum(count, 1)[:, None]
    centred = sets[..., None] * (features[:, None] - mean[None])
    spread = total(jnp.einsum('nsd,nse->sde', centred, centred))
    covariance = spread / jnp.maximum(count - 1, 1)[:, None, None]
    changes = [((own[a] - own[b]) ** 2).mean() for a, b in pairs for own in (covariance, mean)]
    return jnp.stack(changes).reshape(len(pairs), 2).sum(1)


@dataclasses.dataclass(frozen=True)
class GroupDRO(GroupObjective):
  """Weighs each group's mean loss ℓ_g by its share: q_g ← q_g·exp(η·ℓ_g) / Σ, loss Σ q_g·ℓ_g.

  Shares move before they weigh, as in the released code. A group that a batch lacks keeps its
  share (before normalisation); the loss is then the mean over the groups that are there, where the
  released code counts the others as 0. Weights are q_g / (rows of the group), metrics
  `worst_group_loss` and `largest_share`.

  Attributes:
    groups: how many there are; 0 takes the number of classes.
    step_size: η of the shares' exponentiated gradient step, above 0.

  Reference:
    Sagawa et al. (2020), Distributionally Robust Neural Networks for Group Shifts, algorithm 1.
  """

  name: ClassVar[str] = 'group_dro'
  count_key: ClassVar[str] = 'groups'
  column: str = setting('label', 'the name of a column', bool)
  groups: int = setting(0, '0 (the classes) or more', lambda x: x >= 0)
  step_size: float = setting(0.01, 'above 0', lambda x: 0 < x < float('inf'))

  def initial_state(self, num_classes: int) -> State:
    """Returns equal shares of the groups, `share` float32 [groups]."""
    count = self.groups or num_classes
    return {'share': jnp.full((count,), 1 / count, jnp.float32)}

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    losses = cross_entropy(outputs['logits'], batch['target'], self.label_smoothing)
    column = batch[self.column].astype(jnp.int32)
    member = jax.nn.one_hot(column, len(state['share']), dtype=jnp.float32)
    count, summed = total((member.sum(0), (member * jax.lax.stop_gradient(losses)[:, None]).sum(0)))
    mean = summed / jnp.maximum(count, 1)
    share = jax.nn.softmax(jnp.log(state['share']) + self.step_size * mean)
    weights = member @ (share / jnp.maximum(count, 1))
    metrics = {'worst_group_loss': mean.max(), 'largest_share': share.max()}
    return losses, weights, {'share': share}, metrics


@dataclasses.dataclass(frozen=True)
class IRM(GroupObjective):
  """Weighs environments alike and adds λ times the mean of their penalties.

  The penalty of an environment is |d/dw mean_i CE(w·z_i, q_i)|² at w = 1, whose derivative is
  mean_i Σ_c (p_ic − q_ic)·z_ic with p = softmax(z). Environments that a batch lacks do not count;
  of several images of a row i is each. The state is `step`, the number of steps done; metrics are
  `penalty` (its mean over environments) and `penalty_weight` (λ).

  Attributes:
    environments: how many there are.
    penalty: λ ≥ 0.
    anneal_steps: steps (micro-batches) before which λ is 1. The optimizer's moments are kept, where
      DomainBed forgets them at that step.
    estimate: 'squared', the square of an environment's mean derivative, as in the original code; or
      'unbiased', the product of the means over two halves of the examples (`half_of`), as DomainBed
      and WILDS do with even and odd places in the batch. It may be negative.
    rescale: whether the whole loss is divided by λ where λ > 1, as in the original code.

  Reference:
    Arjovsky et al. (2019), Invariant Risk Minimization, equation IRMv1 and appendix D.
  """

  name: ClassVar[str] = 'irm'
  environments: int = setting(2, 'at least 1', lambda x: x >= 1)
  penalty: float = setting(100.0, '0 or more', lambda x: 0 <= x < float('inf'))
  anneal_steps: int = setting(500, '0 or more', lambda x: x >= 0)
  estimate: str = word(SQUARED, ESTIMATES)
  rescale: bool = False

  def initial_state(self, num_classes: int) -> State:
    """Returns `step`, int32 []."""
    return {'step': jnp.zeros((), jnp.int32)}

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    logits = outputs['logits'].astype(jnp.float32)
    smoothed = optax.smooth_labels(batch['target'], self.label_smoothing)
    losses = cross_entropy(logits, smoothed)
    member, count, weights = group_rows(batch[self.column], self.environments, total)
    target = jnp.expand_dims(smoothed, tuple(range(1, logits.ndim - 1)))
    slope = ((jax.nn.softmax(logits) - target) * logits).sum(-1).reshape(len(losses), -1).mean(1)
    penalties, present = self._penalties(slope, member, half_of(batch['example_id']), total)
    penalty = jnp.where(present, penalties, 0).sum() / jnp.maximum(present.sum(), 1)
    weight = jnp.where(state['step'] < self.anneal_steps, 1.0, self.penalty)
    scale = jnp.maximum(weight, 1) if self.rescale else 1.0
    metrics = {'penalty': penalty, 'penalty_weight': weight}
    minimised = (losses + weight * penalty) / scale
    return minimised, weights, {'step': state['step'] + 1}, metrics

  def _penalties(
    self, slope: jax.Array, member: jax.Array, half: jax.Array, total: Total
  ) -> tuple[jax.Array, jax.Array]:
    """Returns each environment's penalty, [environments], and whether there are rows for it."""
    groups = [member * (half == k)[:, None] for k in (0, 1)]
    if self.estimate == SQUARED:
      groups = [member, member]
    sums = [total(((slope[:, None] * group).sum(0), group.sum(0))) for group in groups]
    first, second = (summed / jnp.maximum(count, 1) for summed, count in sums)
    return first * second, (sums[0][1] > 0) & (sums[1][1] > 0)


def half_of(example_ids: jax.Array) -> jax.Array:
  """Returns 0 or 1 for each example, by a hash of its id: ids may be even in one environment."""
  keys = jax.vmap(functools.partial(jax.random.fold_in, random_keys.from_seed(0)))(example_ids)
  return (jax.vmap(jax.random.bits)(keys) & 1).astype(jnp.int32)
