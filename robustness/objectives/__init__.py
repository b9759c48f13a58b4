"""Objectives that a training minimises, in pure JAX."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar

import jax

from robustness.core.registry import Part, Registry
from robustness.core.typing import PyTree

Arrays = Mapping[str, jax.Array]
State = dict[str, jax.Array]
"""{name: array}; for example what an objective keeps between two steps."""
Total = Callable[[PyTree], PyTree]
"""Sums a tree of arrays over the devices that share the batch."""
Minimised = tuple[jax.Array, jax.Array, State, State]
"""Losses [B], weights [B], the new state, and scalar metrics, which are logged as means."""


@dataclasses.dataclass(frozen=True)
class Objective(Part):
  """Base class of training objectives, which compute the loss of each image of a batch.

  The fields are the keys of the section `config.classifier.objective.<name>`.

  Attributes:
    needs_features: whether `outputs` also has `features`, the input of the network's last linear
      map, [B, F] or [B, V, F].
  """

  section = 'config.classifier.objective'
  needs_features: ClassVar[bool] = False

  @abc.abstractmethod
  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Computes losses and weights of a micro-batch; pure and traceable.

    The step minimises Σ weights · losses / Σ weights over the full batch, on any number of devices.
    Weights carry no gradient.

    Args:
      outputs: `logits` float32 [B, classes], or [B, V, classes] if an augmentation returns V images
        per training image. Also `features` if `needs_features` is True.
      batch: the augmented batch with `target` [B, classes], `example_id` [B] and the columns of the
        property `columns`.
      state: the state after the previous micro-batch, `initial_state` at first.
      total: function that sums arrays over devices, for example for the means of groups.

    Returns:
      Losses [B], weights [B], the new state, and {name: scalar} of metrics.
    """

  @property
  def columns(self) -> tuple[str, ...]:
    """Names of the additional columns that the training data must have."""
    return ()

  def initial_state(self, num_classes: int) -> State:
    """Returns the state before the first step, {} for an objective without state.

    Checkpoints save the state.
    """
    return {}


OBJECTIVES = Registry('robustness.objectives', Objective)  # type: ignore[type-abstract]
