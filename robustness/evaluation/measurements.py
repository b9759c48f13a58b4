"""Predictions, and measures of images by row and as exact totals over rows, as records have them.

A sum of floats depends on its order, and with it on the batch size and the number of devices. A
total is therefore a sum of whole numbers: each value is rounded to a multiple of `RESOLUTION`, and
the upper and lower 16 bits are summed apart in int32. The host joins them as float64, exactly.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.evaluation.records import MAX_PLACE, PLACES_OF_TIES, TOTAL
from robustness.evaluation.views import Observe, Views

FINITE = 'finite'
MEASURE = 'measure/'
RESOLUTION = 2.0**-20
LARGEST = 2.0**11
MOST_ROWS = 2**15  # of a device: beyond them a sum of 16 bits overflows


def observe(
  views: Views, rows: Mapping[str, jax.Array], images: jax.Array, view: tuple[object, ...]
) -> dict[str, jax.Array]:
  """Returns `measure/<name>` [B, ...] and `total/<name>` int32 [1, 3, ...] (see `joined`) of images
  [B, H, W, C], the rows of one device as a view shows them.

  `view` holds its parameters, and logits where views use these.
  """

  def by_row(function: Observe | None) -> Mapping[str, jax.Array]:
    if function is None:
      return {}
    return jax.vmap(lambda row, image: function(row, image, *view))(dict(rows), images)

  totals = by_row(views.total).items()
  return {
    **{f'{MEASURE}{name}': value for name, value in by_row(views.measure).items()},
    **{f'{TOTAL}{name}': split_sum(value, rows['mask']) for name, value in totals},
  }


def split_sum(values: jax.Array, mask: jax.Array) -> jax.Array:
  """Returns the sums of the upper bits, of the lower 16 bits, and of the values out of range.

  Values are float32 [B, ...] in [0, `LARGEST`); where `mask` [B] is False they count nothing. The
  result is int32 [1, 3, ...].
  """
  rows = len(values)
  if rows > MOST_ROWS:
    raise InputError(
      f'{rows} rows a device are more than {MOST_ROWS}, which exact sums can take: '
      'set --config.batch_size.'
    )
  is_row = mask.reshape((-1,) + (1,) * (values.ndim - 1))
  valid = (values >= 0) & (values < LARGEST)
  fixed = jnp.round(jnp.where(is_row & valid, values, 0) / RESOLUTION).astype(jnp.int32)
  split = jnp.stack([fixed >> 16, fixed & 0xFFFF, (is_row & ~valid).astype(jnp.int32)], 1)
  return split.sum(0, keepdims=True)


def joined(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns of `split_sum` of D devices [D, views, 3, ...] the totals float64 [views, ...],
  multiples of `RESOLUTION`, and how many values were out of range, int64 [views]."""
  of_all = sums.astype(np.int64).sum(0)
  total = (of_all[:, 0] * 2**16 + of_all[:, 1]) * RESOLUTION
  return total, of_all[:, 2].reshape(len(of_all), -1).sum(1)


def summarise(logits: jax.Array, labels: jax.Array) -> dict[str, jax.Array]:
  """Reduces logits to what records keep of a prediction.

  Ties go to the lower class index, as argmax has it, so rank 0 and a right prediction are one.
  With all_labels labels a row is right if any of them is: its best rank and probability count.

  Args:
    logits: float32 [B, classes]; -inf stands for a class that cannot be predicted.
    labels: int32 [B], or [B, L] padded with -1.

  Returns:
    `prediction` int32, `rank` int32 (number of classes scored above the true one),
    `rank/first` and `rank/last` int16 (rank if the true class came before, and after, all others
    with its score), `probability` float32 of the true class, `confidence` float32 of the predicted
    class, `finite` bool (no NaN and no +inf), each [B].
  """
  num_classes = logits.shape[-1]
  all_labels = labels[:, None] if labels.ndim == 1 else labels
  real, index = all_labels >= 0, jnp.maximum(all_labels, 0)
  true_logits = jnp.take_along_axis(logits, index, axis=1)
  classes = jnp.arange(num_classes)[None, None, :]
  above = (classes != index[:, :, None]) & (
    (logits[:, None, :] > true_logits[:, :, None])
    | ((logits[:, None, :] == true_logits[:, :, None]) & (classes < index[:, :, None]))
  )
  # XLA may compute cheap logits again for each use, with other last digits: argmax decides.
  prediction = logits.argmax(-1).astype(jnp.int32)
  rank = jnp.where(index == prediction[:, None], 0, jnp.maximum(above.sum(-1), 1))
  rank = jnp.where(real, rank, num_classes)
  best = rank.argmin(1)[:, None]
  first = (logits[:, None, :] > true_logits[:, :, None]).sum(-1)
  last = (logits[:, None, :] >= true_logits[:, :, None]).sum(-1) - 1
  probabilities = jax.nn.softmax(logits)
  own_probability = jnp.take_along_axis(probabilities, index, axis=1)
  return {
    'prediction': prediction,
    'rank': rank.min(1).astype(jnp.int32),
    **{
      name: jnp.take_along_axis(jnp.minimum(place, MAX_PLACE), best, 1)[:, 0].astype(jnp.int16)
      for name, place in zip(PLACES_OF_TIES, (first, last), strict=True)
    },
    'probability': jnp.where(real, own_probability, 0).max(1),
    'confidence': probabilities.max(-1),
    FINITE: ~(jnp.isnan(logits) | jnp.isposinf(logits)).any(-1),
  }
