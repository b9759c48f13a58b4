"""Cross-entropy of one image of a row, and consistency of all: AugMix's objective."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core.errors import InputError
from robustness.core.settings import require
from robustness.objectives.cross_entropy import cross_entropy

WHERE = 'config.classifier.objective.jsd'
SMALLEST = 1e-7
"""The mixture's probabilities are clipped to this and above, as in the released code."""


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.objective.jsd`.

  Attributes:
    weight: λ ≥ 0 of the divergence.
    label_smoothing: see `robustness.objectives.cross_entropy`.
  """

  weight: float = 12.0
  label_smoothing: float = 0.0

  def __post_init__(self) -> None:
    require(0 <= self.weight < float('inf'), f'{WHERE}.weight', self.weight, 'at least 0')
    require(
      0 <= self.label_smoothing < 1, f'{WHERE}.label_smoothing', self.label_smoothing, 'in [0, 1)'
    )


def objective(
  outputs: Mapping[str, jax.Array],
  batch: Mapping[str, Any],
  state: Any,
  settings: Settings,
  total: Callable[[Any], Any],
) -> tuple[jax.Array, jax.Array, Any, dict[str, jax.Array]]:
  """Returns CE(z_1) + λ·JS(p_1, …, p_V) of each row: the first image, which `augmix` leaves clean,
  is learnt, and the predictions of all V are drawn together.

  All images of a batch pass the network together, so that statistics of batch normalisation are
  those of clean and mixed images, as in the released code.

  Args:
    outputs: `logits` [B, V, classes], V ≥ 2.
    batch: `target` [B, classes].
    state: none, and left as it is.
    settings: see there.
    total: not used.

  Returns:
    Losses float32 [B], weights of 1, the state, and the metrics `clean_loss` and `divergence`.

  Raises:
    InputError: the policy gives one image a row.

  Reference:
    Hendrycks et al. (2020), AugMix, section 3: λ = 12 and V = 3.
  """
  del total
  logits = outputs['logits'].astype(jnp.float32)
  if logits.ndim != 3:
    raise InputError(
      "the objective 'jsd' compares several images of a row, and the policy gives one: put "
      "'augmix' or 'repeat' into config.classifier.augment.policy."
    )
  clean = cross_entropy(logits[:, 0], batch['target'], settings.label_smoothing)
  divergence = jensen_shannon(logits)
  metrics = {'clean_loss': clean.mean(), 'divergence': divergence.mean()}
  losses = clean + settings.weight * divergence
  return losses, jnp.ones_like(losses), state, metrics


def jensen_shannon(logits: jax.Array) -> jax.Array:
  """Returns 1/V Σ_v KL(p_v ‖ M) of each row, float32 [B], in nats: 0 to ln V.

  p_v = softmax(z_v), M = max(1/V Σ_v p_v, 10⁻⁷).

  Args:
    logits: [B, V, classes].
  """
  log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
  p = jnp.exp(log_p)
  log_mixture = jnp.log(jnp.clip(p.mean(1, keepdims=True), SMALLEST, 1))
  return (p * (log_p - log_mixture)).sum(-1).mean(-1)
