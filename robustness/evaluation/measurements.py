"""What records keep of the shown images themselves: measures by row, and exact totals over rows.

A sum of floats depends on its order, and with it on the batch size and the number of devices. A
total is therefore a sum of whole numbers: each value is rounded to a multiple of `RESOLUTION`, and
the upper and lower 16 bits are summed apart in int32. The host joins them as float64, which holds
every such multiple below 2^33 exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.evaluation.views import Observe, Views

MEASURE, TOTAL = 'measure/', 'total/'
RESOLUTION = 2.0**-20
LARGEST = 2.0**11
MOST_ROWS = 2**15  # of a device: beyond them a sum of 16 bits overflows

View = Mapping[str, jax.Array]


def observe(
  views: Views,
  batch: Mapping[str, jax.Array],
  images: jax.Array,
  view: View,
  parts: int,
  logits: Callable[[jax.Array], jax.Array],
) -> dict[str, jax.Array]:
  """Returns everything that views want to know of their images.

  Args:
    views: with `measure` and `total`, either of which may be None.
    batch: rows, with `mask` [B].
    images: float32 [B, H, W, C], the rows as this view shows them.
    view: the view's parameters.
    parts: in how many parts of even size the rows are summed, one a device.
    logits: the classifier's, for views that use it.

  Returns:
    `measure/<name>` [B, ...] and `total/<name>` int32 [parts, 3, ...] (see `joined`).
  """
  extra = (view, logits) if views.uses_classifier else (view,)
  measures = _by_row(views.measure, batch, images, extra)
  totals = _by_row(views.total, batch, images, extra)
  return {
    **{f'{MEASURE}{name}': value for name, value in measures.items()},
    **{f'{TOTAL}{name}': split_sum(value, batch['mask'], parts) for name, value in totals.items()},
  }


def _by_row(
  function: Observe | None,
  batch: Mapping[str, jax.Array],
  images: jax.Array,
  arguments: tuple[Any, ...],
) -> Mapping[str, jax.Array]:
  if function is None:
    return {}
  return jax.vmap(lambda row, shown: function(row, shown, *arguments))(dict(batch), images)


def split_sum(values: jax.Array, mask: jax.Array, parts: int) -> jax.Array:
  """Returns the sums of the upper bits, of the lower 16 bits, and of the values out of range.

  Args:
    values: float32 [B, ...] in [0, `LARGEST`).
    mask: bool [B]; rows where it is False count nothing.
    parts: divides B.

  Returns:
    int32 [parts, 3, ...].
  """
  rows = len(values) // parts
  if rows > MOST_ROWS:
    raise InputError(
      f'{rows} rows a device are more than {MOST_ROWS}, which exact sums can take: '
      'set --config.batch_size.'
    )
  known = mask.reshape((-1,) + (1,) * (values.ndim - 1))
  valid = (values >= 0) & (values < LARGEST)
  fixed = jnp.round(jnp.where(known & valid, values, 0) / RESOLUTION).astype(jnp.int32)
  split = jnp.stack([fixed >> 16, fixed & 0xFFFF, (known & ~valid).astype(jnp.int32)], 1)
  return split.reshape(parts, rows, *split.shape[1:]).sum(1)


def joined(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the total and the number of values out of range, summed over parts.

  Args:
    sums: int32 [parts, views, 3, ...], of `split_sum` for several views.

  Returns:
    float64 [views, ...], a multiple of `RESOLUTION`; int64 [views].
  """
  whole = sums.astype(np.int64).sum(0)
  total = (whole[:, 0] * 2**16 + whole[:, 1]) * RESOLUTION
  return total, whole[:, 2].reshape(len(whole), -1).sum(1)
