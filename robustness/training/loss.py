"""The training loss."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax


def cross_entropy(logits: jax.Array, labels: jax.Array, smoothing: float = 0.0) -> jax.Array:
  """Mean cross-entropy −Σ_k q_k·log softmax(z)_k with q = (1 − ε)·onehot(label) + ε/K, in nats.

  Args:
    logits: z, [B, K]; computed on in float32.
    labels: integers [B] in [0, K).
    smoothing: ε in [0, 1).

  Returns:
    The mean over the batch, a float32 scalar.

  Reference:
    Szegedy et al. (2016), Rethinking the Inception Architecture, section 7.
  """
  targets = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[-1]), smoothing)
  return optax.softmax_cross_entropy(logits.astype(jnp.float32), targets).mean()
