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
  """Base class of objectives that depend on the group of each training image.

  The number of groups is fixed. A training raises InputError for an image with a higher group
  number.

  Attributes:
    count_key: name of the field with the number of groups, such as 'environments'. If this field is
      0, each class is a group.
    column: column of the data with the number of each image's group, from 0: 'environment', which
      the augmentation `environment` adds, 'label', or another column.
    label_smoothing: ε in [0, 1); the smoothed target is (1 − ε)·target + ε / classes.
  """

  count_key: ClassVar[str] = 'environments'
  column: str = setting('environment', 'the name of a column', bool)
  label_smoothing: float = setting(0.0, 'in [0, 1)', lambda x: 0 <= x < 1)

  @property
  def columns(self) -> tuple[str, ...]:
    """The column with the number of each image's group."""
    return (self.column,)


def group_rows(column: jax.Array, groups: int, total: Total) -> tuple[jax.Array, jax.Array]:
  """Returns indicators of groups, and weights that make groups equally important.

  Args:
    column: number of each image's group, [B].
    groups: number of groups.
    total: function that sums an array over the devices that share the batch.

  Returns:
    (indicators, weights). The indicators, float32 [B, groups], are 1 for an image's group and else
    0. The weights [B] have equal sums over each group with images in the batch.
  """
  member = jax.nn.one_hot(column.astype(jnp.int32), groups, dtype=jnp.float32)
  count = total(member.sum(0))
  num_present = (count > 0).sum()
  weight_in_group = 1 / (jnp.maximum(count, 1) * jnp.maximum(num_present, 1))  # [groups]
  return member, member @ weight_in_group


@dataclasses.dataclass(frozen=True)
class Coral(GroupObjective):
  """CORAL: cross-entropy, with equal weight of environments, plus a distance of their features.

  The distance of two sets of features is mean_j (μ_j − μ'_j)² + mean_jk (C_jk − C'_jk)², with means
  μ and covariances C (over n − 1), as in DomainBed and WILDS. The loss has γ times its mean over
  pairs of environments. Pairs with a set of fewer than two images are skipped. The metric
  `feature_distance` is the mean.

  All environments pass the network in one batch and share the statistics of batch normalisation.
  DomainBed passes each separately, which removes part of the distance.

  Attributes:
    environments: number of environments, at least 2.
    penalty: weight γ ≥ 0 of the mean distance.
    pairs: 'every' compares every two environments. 'same_classes' compares each environment k ≥ 1
      only with the images of environment 0 that have 'class_group' k, so that both have the same
      classes. It needs the column 'class_group'.

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
    """The required columns: `column`, and 'class_group' if `pairs` is 'same_classes'."""
    return (self.column, GROUP) if self.pairs == SAME_CLASSES else (self.column,)

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Returns cross-entropy plus the weighted distance of features between environments.

    An environment is a group of images that training distinguishes. `Coral` defines the distance.

    Args:
      outputs: 'logits' [B, classes] and 'features' [B, F], or [B, V, F] with V views of each row.
      batch: columns [B, ...], with 'target', the environment of each image in `self.column`, and
        those that `_compared` reads.
      state: state of the objective, returned unchanged.
      total: function that sums an array over the devices that share the batch.

    Returns:
      (losses [B], weights [B], state, metrics {'feature_distance': the mean distance}).
    """
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
    """Returns the sets of images that are compared, and the pairs of sets.

    With `pairs` 'every', the sets are the environments. With 'same_classes', the first sets are the
    environments 1, 2, …. The other sets are their partners, the images of environment 0 with the
    same classes.

    Args:
      member: 1 if an image is in an environment, else 0, [B, environments].
      batch: the batch; 'same_classes' reads its column 'class_group'.

    Returns:
      (sets, pairs). Sets are an array [B, S], 1 if an image is in a set, else 0. Pairs are the
      indices of both sets of each pair, int [P, 2].
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
      features: features of the images, [B, F].
      sets: 1 if an image is in a set, else 0, [B, S].
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
  """Group DRO: minimises Σ_g q_g·ℓ_g, the mean loss ℓ_g of each group g times its share q_g.

  Each step first multiplies every q_g by exp(η·ℓ_g) and divides all shares by their sum, as in the
  released code. If a batch lacks a group, the group's share is only divided, and the loss is a mean
  over the other groups. The released code counts the missing group's loss as 0.

  Metrics are `worst_group_loss` and `largest_share`.

  Attributes:
    groups: number of groups; 0 for the number of classes.
    step_size: step size η > 0 of the exponentiated gradient.

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
    """Returns the losses, weights, the new shares as state, and metrics.

    The weight of an image is the share of its group, divided by the number of the group's images.
    """
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
  """Invariant risk minimization: cross-entropy, with equal weight of environments, plus a penalty.

  The loss has λ times the mean penalty of an environment. The penalty is
  |d/dw mean_i CE(w·z_i, q_i)|² at w = 1, with the logits z_i and the target q_i of each image i of
  the environment. The derivative is mean_i Σ_c (p_ic − q_ic)·z_ic with p = softmax(z). Environments
  without images in a batch are skipped.

  Metrics are `penalty` (the mean over environments) and `penalty_weight` (λ).

  Attributes:
    environments: number of environments.
    penalty: λ ≥ 0.
    anneal_steps: number of steps (micro-batches) at the beginning with λ = 1. The optimizer's
      moments are kept when λ changes; DomainBed resets them.
    estimate: 'squared' for the square of an environment's mean derivative, as in the original code.
      'unbiased' for the product of the mean derivatives of two random halves of its images, which
      may be negative. DomainBed and WILDS use even and odd images of a batch as halves.
    rescale: whether the entire loss is divided by λ if λ > 1, as in the original code.

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
    """Returns {'step': int32 0}, the number of completed steps."""
    return {'step': jnp.zeros((), jnp.int32)}

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Returns the losses with the penalty, weights, the state after the step, and metrics."""
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
    """Returns the penalty of each environment, and whether it can be computed, both [E].

    Args:
      slope: derivative of each image's loss with respect to a factor w of its logits, at w = 1,
        [B].
      member: 1 if an image is in an environment, else 0, [B, E].
      half: random half of each image, 0 or 1, [B], see `half_of`.
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
  """Splits examples into two halves at random: returns 0 or 1 for each, int32 [B].

  The half depends only on the example's id. Ids are hashed, because all ids of an environment may
  be even.
  """
  keys = jax.vmap(functools.partial(jax.random.fold_in, random_keys.from_seed(0)))(example_ids)
  return (jax.vmap(jax.random.bits)(keys) & 1).astype(jnp.int32)
