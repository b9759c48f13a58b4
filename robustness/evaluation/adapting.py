"""The evaluation of a classifier that adapts while it is shown images: batches in a random order.

A stream is the rows of one view, or of one stored corruption and severity: one shard. Its rows come
in an order that seed, study and example fix, in batches of the adaptation's size, on one device.
Records have the rows in the usual order, like the records of every classifier.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.pixels import with_scaled_image
from robustness.core.rows import Batch, Rows
from robustness.core.typing import PyTree
from robustness.evaluation.records import TOTAL, Layout, Shard
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.stored_pictures import MistakesOfBlock
from robustness.evaluation.views import Arrays
from robustness.models.adaptation import Adaptation
from robustness.parallel.mesh import BATCH, REPLICATED, Compiled

ORDER = 0xADA  # folded into the study's key


@dataclasses.dataclass(frozen=True)
class AdaptingEvaluator(Evaluator):
  """See `Evaluator`.

  Attributes:
    stream_rows: rows of a stream.
  """

  stream_rows: int = 0

  def __post_init__(self) -> None:
    first = self.parallel.devices[:1]
    object.__setattr__(self, 'parallel', type(self.parallel)(first))

  @property
  def _adaptation(self) -> Adaptation:
    adaptation = self._network.adaptation
    assert adaptation is not None
    return adaptation

  def layout(self, num_rows: int, batch_size: int = 0, views_per_step: int = 0) -> Layout:
    """Returns how the table is cut: a shard a stream, whatever sizes are asked for."""
    del batch_size, views_per_step
    return Layout(num_rows, len(self.views), self.stream_rows, 1)

  def step_rows(self, layout: Layout) -> int:
    """Returns the size of a batch, at most the size of the stream."""
    return min(self._adaptation.batch_size, layout.block_rows)

  def shards(
    self, rows: Rows, layout: Layout, table: Mapping[int, list[int]] | None = None
  ) -> Iterator[tuple[int, int, Shard]]:
    """See `Evaluator`; without resets every stream before the last wanted one is shown again."""
    if table is None or not self._adaptation.is_continual:
      yield from super().shards(rows, layout, table)
      return
    shards = (cell for cell in super().shards(rows, layout) if cell[1] in table.get(cell[0], ()))
    yield from itertools.islice(shards, sum(map(len, table.values())))

  def answers(
    self, variables: PyTree, parts: Sequence[Arrays], views: PyTree, state: PyTree
  ) -> tuple[list[dict[str, jax.Array]], PyTree]:
    """See `Evaluator`; the state belongs to the adaptation."""
    if state is None or not self._adaptation.is_continual:
      state = self.parallel.replicate(self._adaptation.begin(self._network.variables))
    outputs = []
    for part in parts:
      fields, state = self.adapted(variables, state, part, self.parallel.replicate(views))
      outputs.append(fields)
    return outputs, state

  @functools.cached_property
  def adapted(self) -> Compiled:
    """The step `(variables, state, batch, chunk of one view) -> (fields [rows, 1], state)`."""
    return self.parallel.compile(
      self._adapt, (REPLICATED, REPLICATED, BATCH, REPLICATED), (BATCH, REPLICATED)
    )

  def _adapt(
    self, variables: PyTree, state: PyTree, batch: Arrays, chunk: tuple[jax.Array, Arrays]
  ) -> tuple[dict[str, jax.Array], PyTree]:
    batch = with_scaled_image(batch)
    images, measured = self.show(variables, batch, jax.tree.map(lambda x: x[0], chunk))
    answered, state = self._adaptation(
      lambda variables: self._network.apply(variables, images, self.outputs),
      *(variables, state, batch['mask']),
    )
    fields = {**measured, **self._predictions(batch, *answered, {})}
    return {name: x[:, None] for name, x in fields.items()}, state

  def _order(self, layout: Layout, batch: Batch) -> np.ndarray:
    """Returns the places of a block's rows in the order in which they are shown, int [n]."""
    rows = layout.rows(batch['block'])
    ids = jnp.asarray(batch['example_id'][: rows.stop - rows.start])
    key = jax.random.fold_in(self.key, ORDER)
    bits = jax.vmap(lambda number: jax.random.bits(jax.random.fold_in(key, number)))(ids)
    return np.argsort(np.asarray(bits), kind='stable')

  def _parts(self, layout: Layout, batch: Batch) -> Iterator[dict[str, np.ndarray]]:
    yield from super()._parts(layout, _at(batch, self._order(layout, batch)))

  def _collect(
    self,
    layout: Layout,
    mistakes: MistakesOfBlock | None,
    batch: Batch,
    chunk: int,
    outputs: Sequence[Arrays],
  ) -> tuple[int, int, Shard]:
    order = self._order(layout, batch)
    block, chunk, shard = super()._collect(layout, None, _at(batch, order), chunk, outputs)
    places = np.argsort(order)
    arrays = {k: x if k.startswith(TOTAL) else x[places] for k, x in shard.arrays.items()}
    return block, chunk, dataclasses.replace(shard, arrays=arrays)


def _at(batch: Batch, places: np.ndarray) -> Batch:
  return {k: x[places] if isinstance(x, np.ndarray) else x for k, x in batch.items()}
