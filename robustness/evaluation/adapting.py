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
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from robustness.parallel.mesh import BATCH, REPLICATED

ORDER = 0xADA
"""Constant that is folded into the study's key to draw the order of the rows, and into the key of
a row in a view to get the random numbers of the adaptation."""
_PLACEMENT = REPLICATED, REPLICATED, BATCH, REPLICATED
"""How (variables, state, batch, chunk) are placed: the rows of a batch are divided over devices."""
CLASSES = 1
"""Constant that is folded into the key of the order to draw the order of the classes."""


@dataclasses.dataclass(frozen=True)
class AdaptingEvaluator(Evaluator):
  """Computes records of a classifier that adapts to the test images it is shown.

  The sequence of images that it adapts to is called a stream. Unless the adaptation is continual,
  the classifier starts each stream with its trained weights.

  Attributes:
    stream_rows: number of images in a stream.
  """

  stream_rows: int = 0

  def __post_init__(self) -> None:
    """Restricts the evaluation to one device, as a batch needs the state after the batch before."""
    # an attribute of a frozen class cannot be set in the usual way
    object.__setattr__(self, 'parallel', type(self.parallel)(self.parallel.devices[:1]))

  @property
  def _adaptation(self) -> Adaptation:
    """The adaptation of the classifier."""
    adaptation = self._network.adaptation
    assert adaptation is not None
    return adaptation

  def layout(self, num_rows: int, batch_size: int = 0, views_per_step: int = 0) -> Layout:
    """Returns how the records are cut into files: one for each stream of images.

    A stream is `stream_rows` images in one view (one way of perturbing images). A file must hold a
    whole stream; `batch_size` and `views_per_step` are therefore ignored.
    """
    return Layout(num_rows, len(self.views), block_rows=self.stream_rows, chunk_views=1)

  def step_rows(self, layout: Layout) -> int:
    """Returns the batch size of the adaptation, or the number of images in a shorter stream."""
    return min(self._adaptation.batch_size, layout.block_rows)

  def shards(
    self, rows: Rows, layout: Layout, table: Mapping[int, list[int]] | None = None
  ) -> Iterator[tuple[int, int, Shard]]:
    """Computes missing shards of the records of a classifier that adapts, one after another.

    A shard is a file with the predictions for a stream: some consecutive images in one view (a way
    of perturbing them). A continual adaptation is never reset, so that its state depends on all
    earlier streams. In this case all shards up to the last missing one are computed, in order. Only
    the missing ones are yielded.

    Args:
      rows: the images.
      layout: how the records are cut into shards.
      table: {number of a block of images: numbers of its missing chunks of views}; None for all.

    Yields:
      (number of the block, number of the chunk, shard).
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
    """Traces the prediction and adaptation of one batch without computing, to check the code.

    Args:
      variables: the classifier's weights, or their shapes if it is still to be trained.
      batch: columns of some images; only names, shapes and types are used.
      view: id and parameters of a view (a way of perturbing images).
    """
    network, adaptation = self._network, self._adaptation
    num_rows = self.step_rows(self.layout(self.stream_rows))
    zeros = {name: np.zeros((num_rows, *x.shape[1:]), x.dtype) for name, x in batch.items()}

    def as_array(x: Any) -> Any:
      """Returns zeros in place of a shape, since `begin` needs arrays; arrays are unchanged."""
      return np.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x

    weights = jax.tree.map(as_array, variables)
    state = adaptation.begin(weights, network.linen_layers(), network.num_classes)

    def adapt(variables: PyTree, state: PyTree, batch: Arrays, chunk: View) -> PyTree:
      """Returns the recorded fields of a batch, and the state of the adaptation after the batch."""
      if adaptation.num_clean_images:  # clean images come in batches of the same shapes
        state = self._observe_stored(variables, state, batch, chunk)
      return self._adapt(variables, state, batch, chunk)

    chunk = jax.tree.map(lambda x: x[None], view)  # a chunk of one view
    jax.eval_shape(without_global_draws(adapt), variables, state, zeros, chunk)

  def run_chunk(
    self, variables: PyTree, step_batches: Sequence[Arrays], views: PyTree, state: PyTree
  ) -> tuple[list[dict[str, jax.Array]], PyTree]:
    """Predicts the batches of a stream of images, and adapts the classifier after each batch.

    The adaptation starts from its initial state, with the trained weights, at every batch if it is
    episodic. If it is continual it does so only once, and otherwise at every stream.

    Args:
      variables: the classifier's weights on the devices.
      step_batches: the batches of the stream. Warm-up batches of clean images may precede them, see
        `_step_batches`.
      views: id and parameters of a single view, with a first axis of length 1.
      state: the second result for the previous stream; None for the first stream.

    Returns:
      The recorded fields of each batch, {field: [rows, 1, ...]}, and the pair of the initial state
      and the state after the stream.
    """
    views = self.parallel.replicate(views)
    batch_rows = step_batches[0]['mask'].size
    # there are no more warm-up batches than batches in the stream, thus at most half of all batches
    num_warm_up = min(self._num_warm_up(batch_rows), len(step_batches) // 2)
    warm_up, stream = step_batches[:num_warm_up], step_batches[num_warm_up:]
    if state is None:  # the first stream
      # Without warm-up batches the stream itself is in a random order, and is observed instead.
      initial = current = self._initial(variables, warm_up or stream, views)
    else:
      initial, current = state
    outputs, adaptation = [], self._adaptation
    if not adaptation.is_continual:
      current = initial
    adapt = self._program('adapt', self._adapt, _PLACEMENT, (BATCH, REPLICATED))
    for batch in stream:
      if adaptation.is_episodic:
        current = initial
      fields, current = adapt(variables, current, batch, views)
      outputs.append(fields)
    return outputs, (initial, current)

  def _initial(self, variables: PyTree, batches: Sequence[Arrays], views: PyTree) -> PyTree:
    """Returns the initial state of the adaptation, before the first batch, on the device.

    Some adaptations, such as EATA, first observe clean images without predicting them. Batches are
    observed until there are `num_clean_images` images or no more batches.

    Args:
      variables: the classifier's trained weights.
      batches: batches of stored images of all classes.
      views: id and parameters of a single view, with a first axis of length 1.
    """
    network, adaptation = self._network, self._adaptation
    state = adaptation.begin(network.variables, network.linen_layers(), network.num_classes)
    state = self.parallel.replicate(state)
    observe = self._program('observe', self._observe_stored, _PLACEMENT, REPLICATED)
    num_observed = 0
    for batch in batches:
      if num_observed < adaptation.num_clean_images:
        state = observe(variables, state, batch, views)
        num_observed += batch['mask'].size
    return state

  def _observe_stored(self, variables: PyTree, state: PyTree, batch: Arrays, chunk: View) -> PyTree:
    """Returns the state of the adaptation after it has observed a batch of stored images.

    Args:
      variables: the classifier's weights.
      state: the state before the batch.
      batch: columns of the images, among them the stored images.
      chunk: id and parameters of a single view (a way of perturbing images), with a first axis of
        length 1. They are part of the random keys.
    """
    batch = with_scaled_image(batch)
    images = resize_to_input(batch['image'], self._network.input_shape)
    image_batch = self._image_batch(images, batch, chunk)
    return self._adaptation.observe(self._apply, variables, state, image_batch)

  def _apply(self, variables: PyTree, images: jax.Array) -> Outputs:
    """Returns the logits of images [rows, H, W, C] and the recorded outputs of layers."""
    return self._network.apply(variables, images, self.outputs)

  def _image_batch(self, images: jax.Array, batch: Arrays, chunk: View) -> ImageBatch:
    """Returns the input of the adaptation: images, their mask, and a random key for each image.

    Args:
      images: images in the classifier's input size, [rows, H, W, C], perturbed or not.
      batch: columns of the images.
      chunk: id and parameters of a single view, with a first axis of length 1.
    """
    view_id, parameters = view_at(chunk, 0)

    def key_of_row(row: Arrays) -> jax.Array:
      """Returns an image's random key for the adaptation; another key perturbs the image."""
      return jax.random.fold_in(view_key(self.key, row, view_id, parameters), ORDER)

    return ImageBatch(images, batch['mask'], jax.vmap(key_of_row)(dict(batch)))

  def _adapt(
    self, variables: PyTree, state: PyTree, batch: Arrays, chunk: View
  ) -> tuple[dict[str, jax.Array], PyTree]:
    """Predicts a batch of images in one view, and adapts the classifier to the batch.

    Args:
      variables: the classifier's trained weights.
      state: the state of the adaptation before the batch.
      batch: columns of the images, [rows, ...].
      chunk: id and parameters of a single view (a way of perturbing images), with a first axis of
        length 1.

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
    """Returns the number of batches of clean images that come before the test images.

    Some methods of adaptation first observe `num_clean_images` images of all classes. If images are
    shown in a random order, the first test batches serve for this, and the result is 0.

    Args:
      batch_rows: number of images in a batch.
    """
    is_random = self._adaptation.order == 'random'
    return 0 if is_random else -(-self._adaptation.num_clean_images // batch_rows)  # rounded up

  def _checked(self, result: Result, num_rows: int) -> Result:
    """Checks the result of the adaptation for a batch, and returns it with float32 logits.

    Args:
      result: what the adaptation returned.
      num_rows: number of images in the batch.

    Raises:
      InputError: the result is not ((logits [rows, classes], outputs of the recorded layers),
        state).
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
    """Returns the order in which the n images of a block are shown, as positions, int [n].

    Args:
      layout: how the records are cut into blocks of images.
      batch: columns of the images of the block.
      order: 'random'; or 'label_shift' for one class after the other, with classes in a random
        order. The first label of an image is its class.
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
    """Yields the batches of a stream of images, in the order in which they are shown.

    If the stream shows class after class, warm-up batches come first. They have the same images in
    a random order, and the adaptation only observes them. There are `_num_warm_up` of them, or all
    if the stream has fewer.

    Args:
      layout: how the records are cut into blocks of images.
      batch: columns of the images of the stream.
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
    """Copies the recorded fields of a stream from the devices into a shard of the records.

    Images of the stream were shown in a random order (`_order`). The shard (a file of records) has
    the order of the data.

    Args:
      layout: how the records are cut into blocks of images and chunks of views (ways of perturbing
        images).
      mistakes: ignored, because pictures of mistakes are not stored.
      batch: the columns of the block, in the order of the data.
      chunk: number of the view chunk.
      fields_by_step: recorded fields of each batch, in the order in which images were shown.

    Returns:
      (number of the block, number of the chunk, shard).
    """
    order = self._order(layout, batch, self._adaptation.order)
    # The columns get the order of the fields, so that an error names the right example.
    reordered = _reordered(batch, order)
    block, chunk, shard = super()._collect(layout, None, reordered, chunk, fields_by_step)
    inverse = np.argsort(order)  # puts the rows back
    by_row = {name: x[inverse] for name, x in shard.arrays.items() if not name.startswith(TOTAL)}
    arrays = {**shard.arrays, **by_row}  # the others, sums over rows, stay
    return block, chunk, dataclasses.replace(shard, arrays=arrays)


def _reordered(batch: Batch, order: np.ndarray) -> Batch:
  """Returns a batch with its rows in another order, given as positions, int [n].

  Entries that are no arrays, such as the number of the block, are unchanged.
  """
  return {k: x[order] if isinstance(x, np.ndarray) else x for k, x in batch.items()}
