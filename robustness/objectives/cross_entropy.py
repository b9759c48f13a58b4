"""Cross-entropy with label smoothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from robustness.core.settings import require


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.objective.cross_entropy`.

  Attributes:
    label_smoothing: ε of the target (1 − ε)·q + ε / classes, in [0, 1).
  """

  label_smoothing: float = 0.0

  def __post_init__(self) -> None:
    require(
      0 <= self.label_smoothing < 1,
      'config.classifier.objective.cross_entropy.label_smoothing',
      self.label_smoothing,
      'in [0, 1)',
    )


def objective(
  outputs: Mapping[str, jax.Array],
  batch: Mapping[str, Any],
  state: Any,
  settings: Settings,
  total: Callable[[Any], Any],
) -> tuple[jax.Array, jax.Array, Any, dict[str, jax.Array]]:
  """Returns −Σ_k q_k·log softmax(z)_k of each row, in nats; a mean over its images.

  Args:
    outputs: `logits` z, [B, classes] or [B, V, classes].
    batch: `target` q [B, classes], which sums to 1.
    state: none, and left as it is.
    settings: ε, by which q is smoothed.
    total: not used.

  Returns:
    Losses float32 [B], weights of 1, the state, no metrics.

  Reference:
    Szegedy et al. (2016), Rethinking the Inception Architecture, section 7.
  """
  del total
  losses = cross_entropy(outputs['logits'], batch['target'], settings.label_smoothing)
  return losses, jnp.ones_like(losses), state, {}


def cross_entropy(logits: jax.Array, target: jax.Array, smoothing: float = 0.0) -> jax.Array:
  """Returns the cross-entropy of each row, float32 [B], in nats.

  Args:
    logits: [B, classes], or [B, V, classes], whose V losses are averaged; computed on in float32.
    target: [B, classes].
    smoothing: ε in [0, 1).
  """
  smoothed = optax.smooth_labels(target, smoothing)
  if logits.ndim == 2:
    return optax.softmax_cross_entropy(logits.astype(jnp.float32), smoothed)
  each = optax.softmax_cross_entropy(
    logits.astype(jnp.float32), jnp.broadcast_to(smoothed[:, None], logits.shape)
  )
  return each.mean(1)
