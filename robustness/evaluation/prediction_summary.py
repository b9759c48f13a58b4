"""What records keep of a classifier's logits."""

from __future__ import annotations

import jax
import jax.numpy as jnp

FINITE = 'finite'


def summarise(logits: jax.Array, labels: jax.Array) -> dict[str, jax.Array]:
  """Reduces logits to what records keep of a prediction.

  Ties go to the lower class index, as argmax has it, so rank 0 and a right prediction are one.
  With several labels a row is right if any of them is: its best rank and probability count.

  Args:
    logits: float32 [B, classes]; -inf stands for a class that cannot be predicted.
    labels: int32 [B], or [B, L] padded with -1.

  Returns:
    `prediction` int32, `rank` int32 (number of classes scored above the true one), `probability`
    float32 of the true class, `confidence` float32 of the predicted class, `finite` bool (no NaN
    and no +inf), each [B].
  """
  num_classes = logits.shape[-1]
  several = labels[:, None] if labels.ndim == 1 else labels
  real, index = several >= 0, jnp.maximum(several, 0)
  own = jnp.take_along_axis(logits, index, axis=1)
  classes = jnp.arange(num_classes)[None, None, :]
  above = (classes != index[:, :, None]) & (
    (logits[:, None, :] > own[:, :, None])
    | ((logits[:, None, :] == own[:, :, None]) & (classes < index[:, :, None]))
  )
  # XLA may compute cheap logits anew for each use, with other last digits: argmax decides.
  prediction = logits.argmax(-1).astype(jnp.int32)
  rank = jnp.where(index == prediction[:, None], 0, jnp.maximum(above.sum(-1), 1))
  rank = jnp.where(real, rank, num_classes).min(1)
  probabilities = jax.nn.softmax(logits)
  own_probability = jnp.take_along_axis(probabilities, index, axis=1)
  return {
    'prediction': prediction,
    'rank': rank.astype(jnp.int32),
    'probability': jnp.where(real, own_probability, 0).max(1),
    'confidence': probabilities.max(-1),
    FINITE: ~(jnp.isnan(logits) | jnp.isposinf(logits)).any(-1),
  }
