"""The evaluation of a classifier that adapts to the images it is shown (test-time adaptation).

A stream is the sequence of images that the classifier adapts to: the rows of one view, or of one
stored corruption and severity. It is one shard of records. Its rows are shown in a random order,
which depends on seed, study and example ids only, in batches of the adaptation's size, on one
device. Records store the rows in the usual order.

With `order='label_shift'` a stream shows one class after the other. Some adaptations first observe
clean images, such as EATA for its Fisher information, and these must be of all classes. The batches
of a stream are then preceded by warm-up batches, which have the same rows in a random order.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.core.pixels import with_scaled_image
from robustness.core.random_keys import without_global_draws
from robustness.core.rows import Batch, Rows
from robustness.core.typing import PyTree
from robustness.evaluation.fit import resize_to_input
from robustness.evaluation.layout import Layout
from robustness.evaluation.records import TOTAL, Shard
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.step import View, view_at
from robustness.evaluation.stored_pictures import MistakesOfBlock
from robustness.evaluation.views import Arrays, view_key
from robustness.models.adaptation import Adaptation, ImageBatch, Outputs, Result
from robustness.models.callables import check_logits
from robustness.parallel.mesh import BATCH, REPLICATED, Compiled

ORDER = 0xADA
"""Constant that is folded into the study's key to draw the order of the rows, and into the key of
a row in a view to get the random numbers of the adaptation."""
_PLACEMENT = REPLICATED, REPLICATED, BATCH, REPLICATED
"""How (variables, state, batch, chunk) are placed: the rows of a batch are divided over devices."""
CLASSES = 1
"""Constant that is folded into the key of the order to draw the order of the classes."""


@dataclasses.dataclass(frozen=True)
class AdaptingEvaluator(Evaluator):
  """An `Evaluator` for a classifier that adapts to the images that it is shown at test time.

  Attributes:
    stream_rows: number of rows in a stream, the sequence of images after which an adaptation that
      is not continual starts again with the trained weights.
  """

  stream_rows: int = 0

  def __post_init__(self) -> None:
    """Uses only the first device, because a batch needs the state after the previous batch."""
    first_device = self.parallel.devices[:1]
    object.__setattr__(self, 'parallel', type(self.parallel)(first_device))

  @property
  def _adaptation(self) -> Adaptation:
    """The adaptation of the classifier."""
    adaptation = self._network.adaptation
    assert adaptation is not None
    return adaptation

  def layout(self, num_rows: int, batch_size: int = 0, views_per_step: int = 0) -> Layout:
    """Returns the layout with a shard for each stream, `stream_rows` rows in one view.

    `batch_size` and `views_per_step` are ignored, because a shard must be a whole stream.
    """
    del batch_size, views_per_step
    return Layout(num_rows, len(self.views), block_rows=self.stream_rows, chunk_views=1)

  def step_rows(self, layout: Layout) -> int:
    """Returns the number of rows in a batch: the adaptation's batch size, or a shorter stream."""
    return min(self._adaptation.batch_size, layout.block_rows)

  def shards(
    self, rows: Rows, layout: Layout, table: Mapping[int, list[int]] | None = None
  ) -> Iterator[tuple[int, int, Shard]]:
    """Computes the shards in `table`; yields (number of the row block, of the view chunk, shard).

    `table` is {number of the block: numbers of its chunks}; None yields all shards. If the
    classifier is never reset between streams, its state depends on all earlier streams. All shards
    are then computed in order, up to the last one of the table, and only the shards of the table
    are yielded.
    """
    if not table or not self._adaptation.is_continual:
      yield from super().shards(rows, layout, table)
      return
    num_missing = sum(map(len, table.values()))
    for block, chunk, shard in super().shards(rows, layout):
      if chunk in table.get(block, ()):
        yield block, chunk, shard
        num_missing -= 1
      if not num_missing:
        break

  def trace(self, variables: PyTree, batch: Arrays, view: PyTree) -> None:
    """Traces how one batch of the adaptation's batch size is predicted and adapted to, for `check`.

    For the arguments see `Evaluator.trace`. Only names, shapes and types of `batch` are used. Zeros
    stand for the weights of a classifier that is still to be trained.
    """
    network, adaptation = self._network, self._adaptation
    num_rows = self.step_rows(self.layout(self.stream_rows))
    zeros = {name: np.zeros((num_rows, *x.shape[1:]), x.dtype) for name, x in batch.items()}
    weights = jax.tree.map(
      lambda x: np.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x, variables
    )
    state = adaptation.begin(weights, network.linen_layers(), network.num_classes)

    def adapt(variables: PyTree, state: PyTree, batch: Arrays, chunk: View) -> PyTree:
      """Returns the recorded fields of the batch, and the adaptation's state after it."""
      if adaptation.num_clean_images:
        state = self._observe_stored(variables, state, batch, chunk)
      return self._adapt(variables, state, batch, chunk)

    chunk = jax.tree.map(lambda x: x[None], view)  # of one view
    jax.eval_shape(without_global_draws(adapt), variables, state, zeros, chunk)

  def run_chunk(
    self, variables: PyTree, step_batches: Sequence[Arrays], views: PyTree, state: PyTree
  ) -> tuple[list[dict[str, jax.Array]], PyTree]:
    """Predicts the batches of a stream in one view, and adapts to each batch in turn.

    The adaptation starts again from its initial state, with the trained weights, at every batch if
    it is episodic, at every stream if it is not continual, and otherwise only once.

    Args:
      variables: the classifier's weights on the devices.
      step_batches: the batches of the stream, preceded by any warm-up batches (`_step_batches`).
      views: id and parameters of the view, with an axis of length 1.
      state: (initial state, state after the previous stream); None before the first stream.

    Returns:
      The recorded fields of each batch of the stream, {field: [rows, 1, ...]}; and (initial state,
      state after this stream), to be passed as `state` for the next stream.
    """
    views = self.parallel.replicate(views)
    # there are no more warm-up batches than batches in the stream, thus at most half of all batches
    num_warm_up = min(self._num_warm_up(step_batches[0]['mask'].size), len(step_batches) // 2)
    warm_up, stream = step_batches[:num_warm_up], step_batches[num_warm_up:]
    initial, state = state or (self._initial(variables, warm_up or stream, views), None)
    outputs, adaptation = [], self._adaptation
    for number, batch in enumerate(stream):
      is_new_stream = number == 0 and not adaptation.is_continual
      if state is None or adaptation.is_episodic or is_new_stream:
        state = initial
      fields, state = self.adaptation_step(variables, state, batch, views)
      outputs.append(fields)
    return outputs, (initial, state)

  def _initial(self, variables: PyTree, batches: Sequence[Arrays], views: PyTree) -> PyTree:
    """Returns the state of the adaptation before it adapts to the first batch, on the device.

    An adaptation with `num_clean_images`, such as EATA, first observes about this number of images
    without predicting them: one batch after another until it has seen that number.

    Args:
      variables: the classifier's trained weights.
      batches: batches of stored images of all classes; fewer than needed are all observed.
      views: id and parameters of the only view, with a first axis of length 1.
    """
    network, adaptation = self._network, self._adaptation
    state = adaptation.begin(network.variables, network.linen_layers(), network.num_classes)
    state = self.parallel.replicate(state)
    num_observed = 0
    for batch in batches:
      if num_observed < adaptation.num_clean_images:
        state = self.observation(variables, state, batch, views)
        num_observed += batch['mask'].size
    return state

  @functools.cached_property
  def observation(self) -> Compiled:
    """The compiled `_observe_stored`, which shows clean images to the adaptation.

    It is (variables, state, batch, chunk of one view) -> state.
    """
    return self.parallel.compile(self._observe_stored, _PLACEMENT, REPLICATED)

  def _observe_stored(self, variables: PyTree, state: PyTree, batch: Arrays, chunk: View) -> PyTree:
    """Returns the state of the adaptation after `Adaptation.observe` saw a batch of stored images.

    Args:
      variables: the classifier's weights.
      state: the adaptation's state before.
      batch: columns of the rows, with the stored images.
      chunk: id and parameters of the only view, with a first axis of length 1.
    """
    batch = with_scaled_image(batch)
    images = resize_to_input(batch['image'], self._network.input_shape)
    image_batch = self._image_batch(images, batch, chunk)
    return self._adaptation.observe(self._apply, variables, state, image_batch)

  def _apply(self, variables: PyTree, images: jax.Array) -> Outputs:
    """Returns the logits of images [rows, H, W, C] and the recorded outputs of layers."""
    return self._network.apply(variables, images, self.outputs)

  def _image_batch(self, images: jax.Array, batch: Arrays, chunk: View) -> ImageBatch:
    """Returns the input of the adaptation: images, their mask, and a random key for each row.

    Args:
      images: [rows, H, W, C], stored or shown in the view, in the classifier's input size.
      batch: columns of the rows.
      chunk: id and parameters of the only view, with a first axis of length 1.
    """
    view_id, parameters = view_at(chunk, 0)

    def key_of_row(row: Arrays) -> jax.Array:
      """Returns a key for the adaptation, independent of the key that shows the row in the view."""
      return jax.random.fold_in(view_key(self.key, row, view_id, parameters), ORDER)

    return ImageBatch(images, batch['mask'], jax.vmap(key_of_row)(dict(batch)))

  @functools.cached_property
  def adaptation_step(self) -> Compiled:
    """The compiled step that predicts a batch and adapts to it, `_adapt`.

    It is (variables, state, batch, chunk of one view) -> (recorded fields, state).
    """
    return self.parallel.compile(self._adapt, _PLACEMENT, (BATCH, REPLICATED))

  def _adapt(
    self, variables: PyTree, state: PyTree, batch: Arrays, chunk: View
  ) -> tuple[dict[str, jax.Array], PyTree]:
    """Predicts a batch in one view, and adapts to the batch.

    Args:
      variables: the classifier's trained weights.
      state: the state of the adaptation before the batch.
      batch: columns of the rows, [rows, ...].
      chunk: id and parameters of the view, with a first axis of length 1.

    Returns:
      The recorded fields, {field: [rows, 1, ...]}, and the state after the batch.
    """
    batch = with_scaled_image(batch)
    images, measured = self.show(variables, batch, view_at(chunk, 0))
    image_batch = self._image_batch(images, batch, chunk)
    result = self._adaptation(self._apply, variables, state, image_batch)
    (logits, outputs), state = self._checked(result, len(images))
    # `clean` is empty: changes of layers are not recorded for classifiers that adapt
    fields = {**measured, **self._predictions(batch, logits, outputs, clean={})}
    return {name: values[:, None] for name, values in fields.items()}, state  # axis 1: one view

  def _num_warm_up(self, batch_rows: int) -> int:
    """Returns the number of batches of `batch_rows` rows that hold the adaptation's clean images.

    It is 0 if the stream has a random order: its first batches are then of all classes, and the
    adaptation observes these.
    """
    is_random = self._adaptation.order == 'random'
    return 0 if is_random else -(-self._adaptation.num_clean_images // batch_rows)  # rounded up

  def _checked(self, result: Result, num_rows: int) -> Result:
    """Returns the result of the adaptation for a batch of `num_rows` rows, with float32 logits.

    Raises:
      InputError: it is not ((logits [rows, classes], outputs of the recorded layers), state).
    """
    title = f'the adaptation {self._adaptation.name!r}'
    try:
      (logits, outputs), state = result
      has_outputs = {*self.outputs} <= {*outputs}
    except (TypeError, ValueError):  # it has another structure
      has_outputs = False
    if not has_outputs:
      raise InputError(
        f'{title} must return ((logits, outputs), state), where (logits, outputs) are as `apply` '
        f'returns them, with the layers {list(self.outputs)}.'
      )
    check_logits(title, logits, num_rows, self._network.num_classes)
    return (logits.astype(jnp.float32), outputs), state

  def _order(self, layout: Layout, batch: Batch, order: str) -> np.ndarray:
    """Returns positions of a block's n rows in the order in which they are shown, int [n].

    The order is random. With `order` 'label_shift', rows of the same class (the first label of a
    row) follow one another, and the order of the classes is random.
    """
    num_rows = layout.num_rows_of(batch['block'])
    key = jax.random.fold_in(self.key, ORDER)

    def bits(key: jax.Array, numbers: np.ndarray) -> np.ndarray:
      """Returns 32 random bits for each of n numbers, uint32 [n], equal for equal numbers."""
      keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(numbers))
      return np.asarray(jax.vmap(jax.random.bits)(keys))

    sort_keys = [bits(key, batch['example_id'][:num_rows])]  # without padding
    if order == 'label_shift':
      first_label = batch['label'].reshape(len(batch['label']), -1)[:num_rows, 0]
      class_bits = bits(jax.random.fold_in(key, CLASSES), first_label)  # equal within a class
      sort_keys += [first_label, class_bits]
    # `lexsort` sorts by its last key, and equal values by the key before: by the random bits of the
    # class, by the class (two may have the same bits), by the random bits of the row
    return np.lexsort(sort_keys)

  def _step_batches(self, layout: Layout, batch: Batch) -> Iterator[dict[str, np.ndarray]]:
    """Yields the batches of a stream, in the order in which they are shown.

    Warm-up batches of clean images, which the adaptation only observes, come first if the stream
    shows class after class: the first `_num_warm_up` batches, or all, of the same rows in a random
    order.
    """
    if num_warm_up := self._num_warm_up(self.step_rows(layout)):
      random_order = self._order(layout, batch, 'random')
      shuffled = super()._step_batches(layout, _reordered(batch, random_order))
      yield from itertools.islice(shuffled, num_warm_up)
    order = self._order(layout, batch, self._adaptation.order)
    yield from super()._step_batches(layout, _reordered(batch, order))

  def _collect(
    self,
    layout: Layout,
    mistakes: MistakesOfBlock | None,
    batch: Batch,
    chunk: int,
    fields_by_step: Sequence[Arrays],
  ) -> tuple[int, int, Shard]:
    """Copies what the devices computed of a stream to the host, as `Evaluator._collect` does.

    A stream is the rows of a block in one view, in a random order (`_order`). The shard has them in
    the order of the data again.

    Args:
      layout: the layout of the records.
      mistakes: ignored, because pictures of mistakes are not stored.
      batch: the columns of the block, in the order of the data.
      chunk: number of the view chunk.
      fields_by_step: recorded fields of each batch, in the order in which rows were shown.
    """
    order = self._order(layout, batch, self._adaptation.order)
    # columns in the order of the fields, so that errors name the example
    reordered = _reordered(batch, order)
    block, chunk, shard = super()._collect(layout, None, reordered, chunk, fields_by_step)
    inverse = np.argsort(order)  # puts the rows back
    arrays = {k: x if k.startswith(TOTAL) else x[inverse] for k, x in shard.arrays.items()}
    return block, chunk, dataclasses.replace(shard, arrays=arrays)


def _reordered(batch: Batch, order: np.ndarray) -> Batch:
  """Returns a batch with the rows at the positions `order`, int [n]."""
  return {k: x[order] if isinstance(x, np.ndarray) else x for k, x in batch.items()}
