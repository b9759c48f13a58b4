"""What attacks ascend, for each image: losses of logits [B, classes] and labels int32 [B]."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from robustness.core.errors import InputError


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns −log softmax(z)_y, float32 [B]."""
  return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels)


def margin(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns max_{i≠y} z_i − z_y, float32 [B]: above 0 where the prediction is wrong."""
  scores = logits.astype(jnp.float32)
  own = jnp.take_along_axis(scores, labels[:, None], 1)[:, 0]
  others = jnp.where(jax.nn.one_hot(labels, scores.shape[1], dtype=bool), -jnp.inf, scores)
  return others.max(1) - own


def dlr(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns the difference of logits ratio, (max_{i≠y} z_i − z_y) / (z_(1) − z_(3)), float32 [B].

  z_(1) ≥ z_(2) ≥ ... are the logits in order. Shifting or scaling the logits does not change it, so
  that it has a gradient where the cross-entropy of a sure prediction has none in float32.

  Raises:
    InputError: fewer than three classes.

  Reference:
    Croce & Hein (2020), Reliable evaluation of adversarial robustness with an ensemble of diverse
    parameter-free attacks, equation 6.
  """
  if logits.shape[-1] < 3:
    raise InputError(
      f"the loss 'dlr' compares the first with the third logit, and this classifier has "
      f"{logits.shape[-1]} classes: take 'cross_entropy'."
    )
  top = jax.lax.top_k(logits.astype(jnp.float32), 3)[0]
  return margin(logits, labels) / (top[:, 0] - top[:, 2] + 1e-12)


LOSSES = {'cross_entropy': cross_entropy, 'dlr': dlr}
