"""Objectives: what a training minimises, pure JAX."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from robustness.core.registry import Part, Registry

Arrays = Mapping[str, jax.Array]
State = dict[str, jax.Array]
Total = Callable[[Any], Any]
"""Sums a tree of arrays over the devices that share the batch."""
Minimised = tuple[jax.Array, jax.Array, State, State]
"""Losses [B], weights [B], the state after, and metrics: scalars, logged as means."""


@dataclasses.dataclass(frozen=True)
class Objective(Part):
  """Base class: the fields are the keys of the section `config.classifier.objective.<name>`.

  Attributes:
    needs_features: whether `outputs` has `features` too: what the network's last linear map is
      given, [B, F] or [B, V, F] (`robustness.models.layers.FEATURES`).
  """

  section: ClassVar[str] = 'config.classifier.objective'
  needs_features: ClassVar[bool] = False

  @abc.abstractmethod
  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Returns losses, weights, state and metrics; pure and traceable.

    The step minimises Σ weights · losses / Σ weights over the whole batch, whatever the number of
    devices and micro-batches; weights carry no gradient. With micro-batches an objective sees one
    of them at a time.

    Args:
      outputs: `logits` float32 [B, classes], or [B, V, classes] where an augmentation gives V
        images a row; see `needs_features`.
      batch: what the policy left, with `target` [B, classes], `example_id` [B] and the columns.
      state: see `initial_state`.
      total: for what depends on more than single rows, such as means of groups.
    """

  @property
  def columns(self) -> tuple[str, ...]:
    """The columns that the rows must have."""
    return ()

  def initial_state(self, num_classes: int) -> State:
    """Returns arrays that are carried from step to step; they are part of the checkpoint."""
    del num_classes
    return {}


@dataclasses.dataclass(frozen=True)
class GroupObjective(Objective):
  """Base class of objectives of groups of rows; a training whose rows have more is refused, for
  those beyond would have no weight.

  Attributes:
    count_key: the field that says how many groups there are; 0 of these are as many as the classes.
    column: the column of the rows that says which environment or group a row is of, in
      [0, how many); the augmentation `environment` adds 'environment', 'label' makes the classes
      groups.
  """

  count_key: ClassVar[str] = 'environments'
  column: str = 'environment'

  def __post_init__(self) -> None:
    self.require(bool(self.column), 'column', 'the name of a column')

  @property
  def columns(self) -> tuple[str, ...]:
    """See `Objective`."""
    return (self.column,)


OBJECTIVES = Registry('robustness.objectives', Objective)  # type: ignore[type-abstract]


def group_rows(column: jax.Array, groups: int, total: Total) -> tuple[jax.Array, jax.Array]:
  """Returns which rows are of which group, float32 [B, groups] of 0 and 1, and their counts."""
  member = jax.nn.one_hot(column, groups, dtype=jnp.float32)
  return member, total(member.sum(0))


def equal_weights(member: jax.Array, count: jax.Array) -> jax.Array:
  """Returns weights [B] by which all groups that are there count alike; see `group_rows`."""
  present = (count > 0).sum()
  return member @ (1 / (jnp.maximum(count, 1) * jnp.maximum(present, 1)))
