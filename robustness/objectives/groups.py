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
"""The column with the number of a row's group of classes; see `Coral.pairs`."""


@dataclasses.dataclass(frozen=True)
class GroupObjective(Objective):
  """Base class of objectives that treat groups of rows differently.

  The objective has a fixed number of groups. A training raises InputError if a row has a higher
  group number, because the row would have no weight.

  Attributes:
    count_key: Name of the field that holds the number of groups, such as 'environments'; 0 in that
      field stands for the number of classes.
    column: Column of the rows with the number of their environment or group, from 0. The
      augmentation `environment` adds 'environment'; 'label' makes every class a group.
    label_smoothing: ε in [0, 1); the smoothed target is (1 − ε)·target + ε / classes.
  """

  count_key: ClassVar[str] = 'environments'
  column: str = setting('environment', 'the name of a column', bool)
  label_smoothing: float = setting(0.0, 'in [0, 1)', lambda x: 0 <= x < 1)

  @property
  def columns(self) -> tuple[str, ...]:
    """The columns that the rows must have: the one with the number of the group."""
    return (self.column,)


def group_rows(column: jax.Array, groups: int, total: Total) -> tuple[jax.Array, jax.Array]:
  """Returns the membership of rows in groups, and weights that make groups equally important.

  Args:
    column: number of the group of each row, [B].
    groups: number of groups.
    total: function that sums an array over the devices that share the batch.

  Returns:
    The membership, float32 [B, groups] of 0 and 1; and weights [B] with equal sums over each group
    that has rows.
  """
  member = jax.nn.one_hot(column.astype(jnp.int32), groups, dtype=jnp.float32)
  count = total(member.sum(0))
  num_present = (count > 0).sum()
  weight_in_group = 1 / (jnp.maximum(count, 1) * jnp.maximum(num_present, 1))  # [groups]
  return member, member @ weight_in_group


@dataclasses.dataclass(frozen=True)
class Coral(GroupObjective):
  """Weights environments equally and adds γ times the mean distance between their features.

  With the mean μ and the covariance C (over n − 1) of the features of a set of n rows, the distance
  of two sets is mean_j (μ_j − μ'_j)² + mean_jk (C_jk − C'_jk)², as in DomainBed and WILDS. Pairs
  with a set of fewer than two rows are skipped. All environments pass the network in one batch and
  share the statistics of batch normalisation; DomainBed passes each separately, which removes part
  of the distance. The metric `feature_distance` is the mean over pairs.

  Attributes:
    environments: Number of environments, at least 2.
    penalty: Weight γ ≥ 0 of the mean distance between two sets of features.
    pairs: 'every' compares every two environments. 'same_classes' compares each environment k ≥ 1
      only with those rows of environment 0 that belong to class group k, so that both sets have the
      same classes; it needs the column 'class_group'.

  Reference:
    Sun and Saenko (2016), Deep CORAL, equation 1; Gulrajani and Lopez-Paz (2021), In Search of Lost
    Domain Generalization.
  """

  name = 'coral'
  needs_features = True
  environments: int = setting(2, 'at least 2', lambda x: x >= 2)
  penalty: float = setting(1.0, '0 or more', lambda x: 0 <= x < float('inf'))
  pairs: str = word(EVERY, PAIRS)

  @property
  def columns(self) -> tuple[str, ...]:
    """The columns that the rows must have: `column`; and 'class_group' for 'same_classes' pairs."""
    return (self.column, *((GROUP,) if self.pairs == SAME_CLASSES else ()))

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Returns the losses with the distance of features added, weights, the state and metrics."""
    losses = cross_entropy(outputs['logits'], batch['target'], self.label_smoothing)
    member, weights = group_rows(batch[self.column], self.environments, total)
    sets, pairs = self._compared(member, batch)
    # whether both sets of a pair have two rows, which a covariance needs, [P]
    has_rows = (total(sets.sum(0))[pairs] >= 2).all(1)
    features = outputs['features'].astype(jnp.float32)
    if features.ndim == 3:  # [B, V, F]: all V images of a row are in its sets
      sets = jnp.repeat(sets, features.shape[1], axis=0)
    distances = self._distances(features.reshape(len(sets), -1), sets, pairs, total)
    distance = jnp.where(has_rows, distances, 0).sum() / jnp.maximum(has_rows.sum(), 1)
    return losses + self.penalty * distance, weights, state, {'feature_distance': distance}

  def _compared(self, member: jax.Array, batch: Arrays) -> tuple[jax.Array, np.ndarray]:
    """Returns S sets of rows, and the P pairs of sets that are compared.

    Entry [b, s] of the first array, [B, S], is 1 if row b is in set s, else 0. The second array,
    int [P, 2], has the indices of both sets of each pair. With `pairs` 'every' the sets are the E
    environments. With 'same_classes' sets 0, …, E − 2 are the environments 1, …, E − 1, and each
    is compared with a set of environment 0: the rows with classes of the same group.
    """
    count = self.environments
    if self.pairs == EVERY:
      return member, np.stack(np.triu_indices(count, 1), 1)
    in_environment_0 = member[:, :1]
    by_group = jax.nn.one_hot(batch[GROUP], count, dtype=jnp.float32)[:, 1:]  # group 0 is none
    index = np.arange(count - 1)
    sets = jnp.concatenate([member[:, 1:], in_environment_0 * by_group], 1)
    return sets, np.stack([index, index + count - 1], 1)

  def _distances(
    self, features: jax.Array, sets: jax.Array, pairs: np.ndarray, total: Total
  ) -> jax.Array:
    """Returns the distance of the features of each pair of sets, [P], see `Coral`.

    Args:
      features: [B, F].
      sets: 1 if a row is in a set, else 0, [B, S].
      pairs: indices of both sets of each pair, int [P, 2].
      total: function that sums an array over the devices that share the batch.
    """
    count, summed = total((sets.sum(0), sets.T @ features))
    mean = summed / jnp.maximum(count, 1)[:, None]  # of each set, [S, F]
    centred = sets[..., None] * (features[:, None] - mean[None])  # [B, S, F], 0 outside of a set
    spread = total(jnp.einsum('nsd,nse->sde', centred, centred))
    covariance = spread / jnp.maximum(count - 1, 1)[:, None, None]  # [S, F, F]
    # two terms of each pair: the mean squared difference of the covariances, and of the means
    terms = [((x[a] - x[b]) ** 2).mean() for a, b in pairs for x in (covariance, mean)]
    return jnp.stack(terms).reshape(len(pairs), 2).sum(1)


@dataclasses.dataclass(frozen=True)
class GroupDRO(GroupObjective):
  """Minimises Σ_g q_g·ℓ_g with the mean loss ℓ_g of each group g and its share q_g.

  A step multiplies every q_g by exp(η·ℓ_g), and divides all of them by their sum. Shares are
  updated before they are used, as in the released code. If a batch lacks a group, its share is
  unchanged before normalisation, and the loss is a mean over the other groups; the released code
  counts the missing group as 0. Weights are q_g / (rows of the group), and metrics are
  `worst_group_loss` and `largest_share`.

  Attributes:
    groups: Number of groups; 0 takes the number of classes.
    step_size: Step size η > 0 of the exponentiated gradient.

  Reference:
    Sagawa et al. (2020), Distributionally Robust Neural Networks for Group Shifts, algorithm 1.
  """

  name = 'group_dro'
  count_key = 'groups'
  column: str = setting('label', 'the name of a column', bool)
  groups: int = setting(0, '0 (the classes) or more', lambda x: x >= 0)
  step_size: float = setting(0.01, 'above 0', lambda x: 0 < x < float('inf'))

  def initial_state(self, num_classes: int) -> State:
    """Returns {'share': float32 [groups]}, equal shares."""
    count = self.groups or num_classes
    return {'share': jnp.full((count,), 1 / count, jnp.float32)}

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Returns the losses, weights, the updated shares of the groups as state, and metrics."""
    losses = cross_entropy(outputs['logits'], batch['target'], self.label_smoothing)
    column = batch[self.column].astype(jnp.int32)
    member = jax.nn.one_hot(column, len(state['share']), dtype=jnp.float32)
    num_rows = member.sum(0)
    loss_sums = (member * jax.lax.stop_gradient(losses)[:, None]).sum(0)
    count, summed = total((num_rows, loss_sums))
    mean = summed / jnp.maximum(count, 1)
    # q_g·exp(η·ℓ_g), divided by the sum over the groups
    share = jax.nn.softmax(jnp.log(state['share']) + self.step_size * mean)
    weights = member @ (share / jnp.maximum(count, 1))
    metrics = {'worst_group_loss': mean.max(), 'largest_share': share.max()}
    return losses, weights, {'share': share}, metrics


@dataclasses.dataclass(frozen=True)
class IRM(GroupObjective):
  """Weights environments equally and adds λ times the mean penalty of an environment.

  The penalty of an environment is |d/dw mean_i CE(w·z_i, q_i)|² at w = 1, where CE is the
  cross-entropy of the logits z_i and the target q_i of image i, and the mean is over its images.
  The derivative is mean_i Σ_c (p_ic − q_ic)·z_ic with p = softmax(z). Environments without rows in
  a batch are skipped. The state is `step`, the number of completed steps; metrics are `penalty`
  (the mean over environments) and `penalty_weight` (λ).

  Attributes:
    environments: Number of environments.
    penalty: λ ≥ 0.
    anneal_steps: Number of steps (micro-batches) at the beginning that have λ = 1. The optimizer's
      moments are kept when λ changes; DomainBed resets them.
    estimate: How the penalty is computed. 'squared': the square of an environment's mean
      derivative, as in the original code. 'unbiased': the product of the mean derivatives of two
      halves of its examples (see `half_of`), which may be negative; DomainBed and WILDS do this
      with the even and odd rows of a batch.
    rescale: Whether the entire loss is divided by λ if λ > 1, as in the original code.

  Reference:
    Arjovsky et al. (2019), Invariant Risk Minimization, equation IRMv1 and appendix D.
  """

  name = 'irm'
  environments: int = setting(2, 'at least 1', lambda x: x >= 1)
  penalty: float = setting(100.0, '0 or more', lambda x: 0 <= x < float('inf'))
  anneal_steps: int = setting(500, '0 or more', lambda x: x >= 0)
  estimate: str = word(SQUARED, ESTIMATES)
  rescale: bool = False

  def initial_state(self, num_classes: int) -> State:
    """Returns {'step': 0}, an int32 scalar: the number of completed steps."""
    return {'step': jnp.zeros((), jnp.int32)}

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Returns each row's cross-entropy plus λ times the mean penalty, and its weight, both [B].

    The third and fourth results are the state after the step and the metrics.
    """
    logits = outputs['logits'].astype(jnp.float32)
    smoothed = optax.smooth_labels(batch['target'], self.label_smoothing)
    losses = cross_entropy(logits, smoothed)
    member, weights = group_rows(batch[self.column], self.environments, total)
    target = jnp.expand_dims(smoothed, tuple(range(1, logits.ndim - 1)))  # [B, 1, K] for V images
    # the derivative of each loss by a factor w of the logits, at w = 1, [B] or [B, V]
    slope_of_images = ((jax.nn.softmax(logits) - target) * logits).sum(-1)
    slope = slope_of_images.reshape(len(losses), -1).mean(1)  # mean over the images of a row, [B]
    half = half_of(batch['example_id'])  # for the unbiased estimate
    penalties, has_rows = self._penalties(slope, member, half, total)
    penalty = jnp.where(has_rows, penalties, 0).sum() / jnp.maximum(has_rows.sum(), 1)
    penalty_weight = jnp.where(state['step'] < self.anneal_steps, 1.0, self.penalty)  # λ
    scale = jnp.maximum(penalty_weight, 1) if self.rescale else 1.0
    metrics = {'penalty': penalty, 'penalty_weight': penalty_weight}
    minimised = (losses + penalty_weight * penalty) / scale
    return minimised, weights, {'step': state['step'] + 1}, metrics

  def _penalties(
    self, slope: jax.Array, member: jax.Array, half: jax.Array, total: Total
  ) -> tuple[jax.Array, jax.Array]:
    """Returns two arrays [E]: the penalty of each environment, and whether it can be computed.

    Args:
      slope: derivative of each row's loss by a factor w of its logits, at w = 1, [B].
      member: 1 if a row is in an environment, else 0, [B, E].
      half: number of the random half that each row is in, 0 or 1, [B].
      total: function that sums an array over the devices that share the batch.
    """
    # A penalty is the product of two mean slopes: the two factors are over the two halves of an
    # environment ('unbiased'), or both over all its rows ('squared').
    halves = [member * (half == k)[:, None] for k in (0, 1)]
    rows_of_factors = [member, member] if self.estimate == SQUARED else halves
    sums = [total(((slope[:, None] * rows).sum(0), rows.sum(0))) for rows in rows_of_factors]
    (first_sum, first_count), (second_sum, second_count) = sums
    first = first_sum / jnp.maximum(first_count, 1)
    second = second_sum / jnp.maximum(second_count, 1)
    return first * second, (first_count > 0) & (second_count > 0)


def half_of(example_ids: jax.Array) -> jax.Array:
  """Returns a random half, 0 or 1, for each example, which depends on its id only, int32 [B].

  It hashes the id instead of taking the id modulo 2, because all ids of an environment may be even.
  """
  keys = jax.vmap(functools.partial(jax.random.fold_in, random_keys.from_seed(0)))(example_ids)
  return (jax.vmap(jax.random.bits)(keys) & 1).astype(jnp.int32)
