"""Correlation alignment: features have the same mean and covariance in all environments."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

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

DOMAIN_BED, DEEP = DISTANCES = ('domain_bed', 'deep_coral')
EVERY, SAME_CLASSES = PAIRS = ('every', 'same_classes')
GROUP = 'class_group'


@dataclasses.dataclass(frozen=True)
class Coral(GroupObjective):
  """Weighs environments alike and adds γ times the mean distance between their features.

  With μ the mean and C the covariance (over n − 1) of the features of a set, the distance of two is
  mean_j (μ_j − μ'_j)² + mean_jk (C_jk − C'_jk)². Sets of fewer than two rows are not compared. All
  environments pass the network in one batch, whose statistics batch normalisation takes; DomainBed
  passes each by itself, which takes away part of what is compared. The metric is
  `feature_distance`, its mean over pairs.

  Attributes:
    column: see `GroupObjective`.
    environments: how many there are, at least 2.
    penalty: γ ≥ 0 of the mean distance between two sets of features.
    distance: 'domain_bed', the mean of the squared differences of the covariances plus that of the
      means, as DomainBed and WILDS have it; or 'deep_coral', the sum of the former / 4d², without
      means: a quarter of the former.
    pairs: which sets are compared: 'every' two environments; or 'same_classes', the rows of each
      environment k ≥ 1 with those of environment 0 whose class belongs to group k, so that classes
      differ in neither. It needs the column 'class_group'.

  Reference:
    Sun and Saenko (2016), Deep CORAL, equation 1; Gulrajani and Lopez-Paz (2021), In Search of Lost
    Domain Generalization.
  """

  needs_features: ClassVar[bool] = True
  environments: int = 2
  penalty: float = 1.0
  distance: str = DOMAIN_BED
  pairs: str = EVERY

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(self.environments >= 2, 'environments', 'at least 2')
    self.require(0 <= self.penalty < float('inf'), 'penalty', '0 or more')
    self.choice('distance', DISTANCES)
    self.choice('pairs', PAIRS)

  @property
  def columns(self) -> tuple[str, ...]:
    """See `Objective`."""
    return (self.column, *((GROUP,) if self.pairs == SAME_CLASSES else ()))

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """See `Objective`."""
    losses = cross_entropy(outputs['logits'], batch['target'])
    member, count = group_rows(batch[self.column], self.environments, total)
    weights = equal_weights(member, count)
    sets, pairs = self._compared(member, batch)
    features = outputs['features'].astype(jnp.float32)
    if features.ndim == 3:
      sets = jnp.repeat(sets, features.shape[1], 0)
    distance = self._mean_distance(features.reshape(len(sets), -1), sets, pairs, total)
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

  def _mean_distance(
    self, features: jax.Array, sets: jax.Array, pairs: np.ndarray, total: Total
  ) -> jax.Array:
    """Returns the mean over pairs of sets with two rows or more; 0 without any.

    Args:
      features: [N, F].
      sets: [N, S] of 0 and 1.
      pairs: [P, 2] in [0, S).
      total: sums over devices.
    """
    count, summed = total((sets.sum(0), sets.T @ features))
    mean = summed / jnp.maximum(count, 1)[:, None]

    def covariance(number: int) -> jax.Array:
      centred = sets[:, number, None] * (features - mean[None, number])
      return total(centred.T @ centred) / jnp.maximum(count[number] - 1, 1)

    covariances = [covariance(number) for number in range(sets.shape[1])]
    of_pairs = []
    for first, second in pairs:
      change = ((covariances[first] - covariances[second]) ** 2).mean()
      shift = ((mean[first] - mean[second]) ** 2).mean()
      of_pairs.append(change / 4 if self.distance == DEEP else change + shift)
    distances, enough = jnp.stack(of_pairs), (count[pairs] >= 2).all(1)
    return jnp.where(enough, distances, 0).sum() / jnp.maximum(enough.sum(), 1)
