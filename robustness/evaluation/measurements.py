"""The fields that records store: predictions, measures of each row, and exact totals over rows.

A sum of floats depends on the order of its terms, and so on the batch size and the number of
devices. A total is therefore a sum of integers: each value is rounded to a multiple of
`RESOLUTION`, and the upper and the lower 16 bits are summed separately in int32. The host combines
the two sums exactly as float64.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.evaluation.records import MAX_TIE_RANK, RANK_FIRST, RANK_LAST

FINITE = 'finite'
"""Field of a prediction, bool [B]: whether the logits have no NaN and no +inf."""
MEASURE = 'measure/'
"""Prefix of the fields that views measure for every row."""
RESOLUTION = 2.0**-20
"""Values are rounded to multiples of this number before they are summed."""
LARGEST = 2.0**11
"""Upper bound, excluded, of values that are summed: value / `RESOLUTION` must fit int32."""
MAX_ROWS_PER_DEVICE = 2**15
"""Largest number of rows for which int32 sums of the lower 16 bits do not overflow."""


def split_sum(values: jax.Array, mask: jax.Array) -> jax.Array:
  """Sums values over images exactly, in integers that do not depend on their order.

  A sum of floats depends on the order of its terms, and so on batch size and devices. Each value is
  therefore rounded to a multiple of `RESOLUTION`. The upper and the lower 16 bits of the multiple
  are summed separately, so that int32 does not overflow. `combine` turns the sums into floats.

  Args:
    values: float32 [B, ...], one or several values of each image.
    mask: bool [B], False for padding, which does not count.

  Returns:
    int32 [1, 3, ...]. Axis 1 has the sum of the upper bits, the sum of the lower bits, and the
    number of values outside [0, `LARGEST`), which are not summed. Results of several devices are
    concatenated along axis 0.
  """
  rows = len(values)
  if rows > MAX_ROWS_PER_DEVICE:
    raise InputError(
      f'{rows} rows a device are more than {MAX_ROWS_PER_DEVICE}, which exact sums can take: '
      'set --config.batch_size.'
    )
  is_row = mask.reshape((-1,) + (1,) * (values.ndim - 1))  # [B, 1, ...], with all axes of `values`
  is_valid = (values >= 0) & (values < LARGEST)
  multiples = jnp.round(jnp.where(is_row & is_valid, values, 0) / RESOLUTION).astype(jnp.int32)
  is_outside = (is_row & ~is_valid).astype(jnp.int32)
  return jnp.stack([multiples >> 16, multiples & 0xFFFF, is_outside], 1).sum(0, keepdims=True)


def combine(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Adds the integer sums of several devices from `split_sum`, and returns them as floats.

  Args:
    sums: int32 [D, V, 3, ...] of D devices and V views. Axis 2 has the sum of the upper 16 bits,
      the sum of the lower 16 bits, and the number of values outside [0, `LARGEST`).

  Returns:
    The totals, float64 [V, ...], and the number of values outside [0, `LARGEST`), int64 [V].
  """
  upper, lower, num_outside = np.moveaxis(sums.astype(np.int64).sum(0), 1, 0)  # each [V, ...]
  total = (upper * 2**16 + lower) * RESOLUTION
  return total, num_outside.reshape(len(num_outside), -1).sum(1)


def summarise(logits: jax.Array, labels: jax.Array) -> dict[str, jax.Array]:
  """Returns the predicted class, the rank of the true class and the confidence of B predictions.

  Among equal logits the class with the lower index ranks first, as in argmax. Rank 0 therefore
  means that the prediction is right. An image with several labels has the best rank and the largest
  probability of its labels.

  Args:
    logits: float32 [B, classes]; -inf stands for a class that cannot be predicted.
    labels: int32 [B], or [B, L] padded with -1.

  Returns:
    A dictionary of arrays [B]:

    * `prediction`, int32: the class with the largest logit.
    * `rank`, int32: number of classes that rank before the true class.
    * `rank/first` and `rank/last`, int16: the rank if the true class came before, and after, all
      other classes with the same logit.
    * `probability`, float32: probability of the true class.
    * `confidence`, float32: probability of the predicted class.
    * `finite`, bool: whether no logit is NaN or +inf.
  """
  num_classes = logits.shape[-1]
  label_lists = labels[:, None] if labels.ndim == 1 else labels  # [B, L]
  is_label = label_lists >= 0
  index = jnp.maximum(label_lists, 0)  # [B, L]; padding, which takes class 0, is masked below
  class_logits = logits[:, None, :]  # [B, 1, classes], compared with [B, L, 1]
  label_logits = jnp.take_along_axis(logits, index, axis=1)  # [B, L]
  classes = jnp.arange(num_classes)[None, None, :]
  # A class ranks before a label if it is another class, and has a higher logit or the same logit
  # and a lower index. All are bool [B, L, classes].
  is_another = classes != index[:, :, None]
  is_higher = class_logits > label_logits[:, :, None]
  is_equal_and_earlier = (class_logits == label_logits[:, :, None]) & (classes < index[:, :, None])
  is_before = is_another & (is_higher | is_equal_and_earlier)
  # The rank of a label is the number of classes before it. XLA may compute logits again for each
  # use, with other last digits, so that this number may contradict argmax. Then argmax decides: the
  # predicted class has rank 0, and every other class at least rank 1.
  prediction = logits.argmax(-1).astype(jnp.int32)
  rank = jnp.where(index == prediction[:, None], 0, jnp.maximum(is_before.sum(-1), 1))
  rank = jnp.where(is_label, rank, num_classes)  # [B, L]; padding ranks last
  best_label = rank.argmin(1)[:, None]  # [B, 1], position in axis L of the label ranked best
  first_rank = (class_logits > label_logits[:, :, None]).sum(-1)  # [B, L], as `last_rank`
  last_rank = (class_logits >= label_logits[:, :, None]).sum(-1) - 1  # without the label's class
  probabilities = jax.nn.softmax(logits)
  label_probability = jnp.take_along_axis(probabilities, index, axis=1)

  def rank_of_best(ranks: jax.Array) -> jax.Array:
    """Selects the rank of each image's best label from the ranks of all labels, int16 [B].

    Args:
      ranks: int32 [B, L].
    """
    best_rank = jnp.take_along_axis(jnp.minimum(ranks, MAX_TIE_RANK), best_label, 1)  # [B, 1]
    return best_rank[:, 0].astype(jnp.int16)

  return {
    'prediction': prediction,
    'rank': rank.min(1).astype(jnp.int32),
    RANK_FIRST: rank_of_best(first_rank),
    RANK_LAST: rank_of_best(last_rank),
    'probability': jnp.where(is_label, label_probability, 0).max(1),
    'confidence': probabilities.max(-1),
    FINITE: ~(jnp.isnan(logits) | jnp.isposinf(logits)).any(-1),
  }
