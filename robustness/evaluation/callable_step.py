"""The evaluation step around a classifier that only the host can call.

Views are made on the devices and logits are reduced there, as in the compiled step; in between
the images of one view at a time come to the host and the callable predicts.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from robustness.core.errors import InputError
from robustness.evaluation.measurements import summarise
from robustness.evaluation.views import Views
from robustness.models.classifier import Classifier
from robustness.parallel import Parallel
from robustness.parallel.mesh import BATCH, REPLICATED


@dataclasses.dataclass(frozen=True)
class CallableStep:
  """`(variables, batch, (view ids, view parameters)) -> {field: [rows, views]}`, as compiled.

  Attributes:
    classifier: one that `Classifier.from_callable` made.
    views: how each row is shown.
    parallel: how views are made and logits reduced on the devices.
    show: pure function `(variables, batch, view) -> (images [B, H, W, C], what is measured of
      them)`.
    outputs: ('logits',) records them beside the predictions.
  """

  classifier: Classifier
  views: Views
  parallel: Parallel
  show: Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
  outputs: tuple[str, ...] = ()

  def __call__(
    self,
    variables: Any,
    batch: Mapping[str, jax.Array],
    chunk: tuple[np.ndarray, Mapping[str, np.ndarray]],
  ) -> dict[str, jax.Array]:
    """Predicts a block of rows, placed on the devices, in a chunk of views, still on the host."""
    ids, parameters = chunk
    count = len(np.unique(ids))  # the last view is repeated to fill a chunk
    chosen = [(ids[i], {k: v[i] for k, v in parameters.items()}) for i in range(count)]
    logits, measured = [], []
    shown = self._shown(variables, batch, self.parallel.replicate(chosen[0]))
    for view, following in zip(chosen, [*chosen[1:], None], strict=True):
      images, values = self.parallel.gather(shown)
      if following is not None:  # made on the devices while the host predicts
        shown = self._shown(variables, batch, self.parallel.replicate(following))
      logits.append(self._predict(images, batch, view[0]))
      measured.append(values)
    placed, recorded = self.parallel.put_batch(
      (
        _filled(logits, len(ids)),
        {name: _filled([values[name] for values in measured], len(ids)) for name in measured[0]},
      )
    )
    recorded.update({f'output/{name}': placed for name in self.outputs})
    return {**self._reduced(placed, batch['label']), **recorded}

  @functools.cached_property
  def _shown(self) -> Callable[..., Any]:
    return self.parallel.compile(self.show, (REPLICATED, BATCH, REPLICATED), BATCH)

  @functools.cached_property
  def _reduced(self) -> Callable[..., Any]:
    """Reduces logits [rows, views, classes] by `summarise`."""
    return self.parallel.compile(jax.vmap(summarise, (1, None), 1), (BATCH, BATCH), BATCH)

  def _predict(
    self, images: np.ndarray, batch: Mapping[str, jax.Array], view_id: int
  ) -> np.ndarray:
    """Calls the callable; says on which examples and view it failed."""
    try:
      return self.classifier.host_function(images)  # type: ignore[misc]
    except Exception as error:  # the callable is the user's and may raise anything
      ids = self.parallel.gather({name: batch[name] for name in ('example_id', 'mask')})
      examples = ids['example_id'][ids['mask']]
      view = int(np.flatnonzero(self.views.ids == view_id)[0])
      reason = str(error) if isinstance(error, InputError) else f'{type(error).__name__}: {error}'
      raise InputError(
        f'{self.classifier.name} failed on examples {examples.min()} to '
        f'{examples.max()}, {self.views.describe(view)}: {reason}'
      ) from error


def _filled(values: list[np.ndarray], count: int) -> np.ndarray:
  """Returns the views' values [rows, count, ...], the last one repeated to fill a chunk."""
  return np.stack(values + values[-1:] * (count - len(values)), 1)
