"""The evaluation loop: predicts every row in every view and writes the records.

A row is a stored image with its label, and a view is one way of showing it, such as fog at severity
3. `robustness.evaluation.step` computes some rows in some views; this module reads the rows, calls
the step for all of them in all views, checks what it returns, and writes it as shards of records.
"""

import collections
import contextlib
import copy
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import jax
import numpy as np

from robustness.core.errors import InputError
from robustness.core.precision import in_32_bits
from robustness.core.progress import Progress
from robustness.core.random_keys import without_global_draws
from robustness.core.rows import Batch, Rows, columns_in_memory, numeric_columns, pad_rows
from robustness.core.typing import PyTree
from robustness.evaluation.fit import check_fit, check_images, check_labels
from robustness.evaluation.layout import LARGE_IMAGE_PIXELS, Layout, default_layout, even_part_size
from robustness.evaluation.measurements import FINITE, LARGEST, combine
from robustness.evaluation.provenance import image_digests, require_same_images
from robustness.evaluation.records import PICTURE, TOTAL, Records, Shard, is_per_view
from robustness.evaluation.step import (
  DISTRIBUTION,
  FINITE_IMAGE,
  MISTAKE,
  MISTAKEN_IMAGE,
  Fields,
  Step,
)
from robustness.evaluation.stored_pictures import MistakesOfBlock
from robustness.evaluation.views import Arrays
from robustness.models.callables import NO_LOGITS
from robustness.models.classifier import without_finite_gradient

NOT_RECORDED = ('image', 'mask')
"""Columns of a batch that records do not store: images, and which rows are no padding."""


@dataclasses.dataclass(frozen=True)
class BlockOnDevices:
  """A block of consecutive images (rows) that were checked and copied to the devices.

  Attributes:
    columns: the columns of the block (see `Rows.batches`) without the images, on the host.
    step_batches: the images and their columns on the devices, as padded batches.
  """

  columns: Batch
  step_batches: Sequence[Arrays]

  @property
  def nbytes(self) -> int:
    """Number of bytes on the devices."""
    return sum(array.nbytes for array in jax.tree.leaves(self.step_batches))


@dataclasses.dataclass(frozen=True)
class Evaluator(Step):
  """Computes the records of a classifier: its predictions for all images (rows) in all views.

  A view is one way of perturbing an image. Records do not depend on `rows_at_once` and
  `views_at_once`.

  Attributes:
    phase: name of the work in the progress bar, such as the name of the study.
    rows_at_once: images per device in one call of the compiled program. 0 takes up to 64 on a CPU
      (8 if images have at least `LARGE_IMAGE_PIXELS`) and 512 on accelerators.
  """

  phase: str = 'evaluation'
  rows_at_once: int = 0

  @property
  def _pixels(self) -> int:
    """Height × width of a shown image."""
    return math.prod((self.views.image_shape or self._network.input_shape)[:2])

  def layout(self, num_rows: int, batch_size: int = 0, views_per_step: int = 0) -> Layout:
    """Returns how the records of `num_rows` images in all views are divided into files.

    The layout does not depend on the devices. A run can therefore be resumed with any number of
    devices or processes.

    Args:
      num_rows: number of images.
      batch_size: images of a file; 0 chooses, see `default_layout`.
      views_per_step: views (ways of perturbing images) of a file; 0 chooses.
    """
    network, is_staged = self.classifier, bool(self.views.stages)
    is_on_host = bool(network and (network.calls_host or network.host_function))
    return default_layout(
      num_rows, len(self.views), self._pixels, is_staged, is_on_host, batch_size, views_per_step
    )

  def with_views(self, positions: np.ndarray) -> Self:
    """Returns an evaluator of only some views, which shares the compiled programs of this one.

    A program is compiled for a number of views (ways of perturbing images) and takes their
    parameters as arguments.

    Args:
      positions: int [v], the positions of the views.
    """
    ids, parameters = self.views.at(positions)
    views = dataclasses.replace(self.views, ids=ids, parameters=parameters)
    evaluator = dataclasses.replace(self, views=views)
    # the new object runs this one, which numbers all views in messages, and has its programs
    vars(evaluator).update(run=self.run, _programs=self._programs)
    return evaluator

  def step_rows(self, layout: Layout) -> int:
    """Returns the number of images in one call of the compiled program.

    It is a multiple of the number of devices. The images of a block are divided into as few calls
    as possible, of about equal size.
    """
    rows_per_device = 512
    if jax.default_backend() == 'cpu':
      rows_per_device = 8 if self._pixels >= LARGE_IMAGE_PIXELS else 64
    devices = self.parallel.num_devices
    max_rows = (self.rows_at_once or rows_per_device) * devices
    return -(-even_part_size(layout.block_rows, max_rows) // devices) * devices  # rounded up

  @in_32_bits()
  def evaluate(self, rows: Rows, records: Records, process: int = 0, processes: int = 1) -> None:
    """Computes the missing shards (files) of the records and writes them.

    A shard has the predictions for a block of images in a chunk of views (ways of perturbing
    images). Several processes share the blocks: process p takes the blocks p, p + processes, ... If
    there are fewer blocks than processes, they share the chunks of every block instead.

    Args:
      rows: the images.
      records: records with a layout from `self.layout`.
      process: number of this process, in [0, processes).
      processes: number of processes that compute the records together.

    Raises:
      InputError: the images do not fit the classifier, a label is outside the classes, logits are
        not finite (the message names image and view), or existing shards are of other images.
    """
    layout = records.layout
    # shards, {number of the row block: numbers of its view chunks}
    share = layout.share(process, processes)  # all of this process, existing or not
    missing = records.missing()  # all that do not exist, of any process
    todo = {}  # those that this process has to compute
    for block, chunks in missing.items():
      if chunks_in_share := [chunk for chunk in chunks if chunk in share[block]]:
        todo[block] = chunks_in_share
    num_images = layout.num_images(share)
    num_present = num_images - layout.num_images(todo)
    self._check_same_rows(rows, records, missing, share)
    with Progress(num_images, f'{self.name}: {self.phase}', 'images', initial=num_present) as bar:
      for block, chunk, shard in self.shards(rows, layout, todo):
        records.write(block, chunk, shard.arrays)
        bar.advance(layout.size(block, chunk))

  def _check_same_rows(
    self,
    rows: Rows,
    records: Records,
    missing: Mapping[int, Sequence[int]],
    share: Mapping[int, Sequence[int]],
  ) -> None:
    """Raises InputError if existing shards were recorded from other images than `rows`.

    A run that is resumed finds shards of an earlier one. A shard is a file with the predictions for
    a block of images in a chunk of views (ways of perturbing them), and the columns of the images.
    Columns in memory, such as labels, are compared for every block that has a shard. Images, which
    take time to decode, are compared in the first of these blocks. In later blocks only the process
    that computes the block compares them, and only if shards of the block are missing or images may
    have changed since the records were begun.

    Args:
      rows: the images today.
      records: the records.
      missing: {number of a block of images: numbers of its chunks of views that do not exist yet}.
      share: {number of a block: numbers of the chunks that this process computes}.
    """
    layout, is_first = records.layout, True
    columns_of_all_rows = columns_in_memory(rows)
    for block in range(layout.num_blocks):
      present = layout.first_present(missing.get(block, ()))
      if present is None:  # the block has no shard yet
        continue
      recorded = records.read(block, present).arrays
      block_rows = layout.rows(block)
      columns = {name: values[block_rows] for name, values in columns_of_all_rows.items()}
      names = columns.keys() & recorded.keys()
      is_compared = block in missing or rows.may_have_changed(records.begun, block_rows)
      if is_first or (share[block] and is_compared):
        # decodes the images
        batch = next(rows.batches(layout.block_rows, [block], stored=True))
        columns = _recorded_columns(self._host_columns(batch), layout.num_rows_of(block))
        recorded = _recorded_columns(recorded, layout.num_rows_of(block))
        # A column that is missing on one side is a difference, too, unless views add columns.
        names = columns.keys() | (() if self.views.add_columns else recorded.keys())
      absent = np.empty(0)  # equals no column
      for name in sorted(names):
        old, new = recorded.get(name, absent), columns.get(name, absent)
        require_same_images({name: old}, {name: new}, records.directory)
      is_first = False

  def shards(
    self, rows: Rows, layout: Layout, table: Mapping[int, list[int]] | None = None
  ) -> Iterator[tuple[int, int, Shard]]:
    """Computes shards (files) of the records, one after another.

    Args:
      rows: the images.
      layout: how the records are divided into shards.
      table: {number of a block of images: numbers of its chunks of views}, the shards to compute;
        None computes all.

    Yields:
      (number of the block, number of the chunk, shard).
    """
    if table is None:
      table = {b: list(range(layout.num_chunks)) for b in range(layout.num_blocks)}
    if table:
      blocks = self.blocks_on_devices(rows, layout, sorted(table))
      yield from self.shards_of_blocks(blocks, layout, table)

  def blocks_on_devices(
    self, rows: Rows, layout: Layout, blocks: Sequence[int] | None = None
  ) -> Iterator[BlockOnDevices]:
    """Yields blocks of consecutive images, checked, copied to the devices and prepared.

    A block has several batches. `prepared` computes what the views share, such as resized images.

    Args:
      rows: the images.
      layout: how the records are divided into blocks.
      blocks: the numbers of the blocks, ascending; None yields all.
    """
    if self.classifier:
      check_fit(self.classifier, rows, self.views)
    for batch in self._with_columns(rows).batches(layout.block_rows, blocks, stored=True):
      check_images(batch)
      if self.classifier:
        check_labels(batch, self.classifier)
      # a lazy `map`: one batch after another is copied and prepared
      on_devices = map(self.parallel.put_batch, self._step_batches(layout, batch))
      yield BlockOnDevices(self._host_columns(batch), [*map(self.prepared, on_devices)])

  def shards_of_blocks(
    self,
    blocks: Iterable[BlockOnDevices],
    layout: Layout,
    table: Mapping[int, list[int]] | None = None,
    variables: PyTree = None,
  ) -> Iterator[tuple[int, int, Shard]]:
    """Computes shards (files) of the records from blocks of images on the devices.

    A shard has the predictions for a block of images in a chunk of views (ways of perturbing
    images). It is yielded after the devices have started with the next one, so that they are busy
    while the host collects it. Shards of views with `Views.stages`, which take long, are yielded at
    once.

    Args:
      blocks: images on the devices.
      layout: how the records are divided into blocks and chunks.
      table: {number of a block: numbers of its chunks}, the shards to compute; None computes all
        chunks of the blocks.
      variables: weights that replace the classifier's; None takes the classifier's.

    Yields:
      (number of the block, number of the chunk, shard).
    """
    if self.classifier and variables is None:
      variables = self.classifier.variables
    variables = self.parallel.replicate(variables)
    state = None  # of a classifier that adapts to images, see `run_chunk`
    mistakes = MistakesOfBlock(self.pictured) if self.pictured else None
    # (columns, chunk, outputs) of the shards that the devices compute, the oldest first
    pending: collections.deque[tuple[Batch, int, list[Fields]]] = collections.deque()
    max_pending = 0 if self.views.stages else 1
    host_errors = self.classifier.host_errors() if self.classifier else contextlib.nullcontext()
    with host_errors:
      for block in blocks:
        chunks = table[block.columns['block']] if table else range(layout.num_chunks)
        for chunk in chunks:
          views = self._chunk_of_views(layout, chunk)
          outputs, state = self.run_chunk(variables, block.step_batches, views, state)
          pending.append((block.columns, chunk, outputs))
          if len(pending) > max_pending:
            yield self._collect(layout, mistakes, *pending.popleft())
      while pending:
        yield self._collect(layout, mistakes, *pending.popleft())

  def run_chunk(
    self, variables: PyTree, step_batches: Sequence[Arrays], views: PyTree, state: PyTree
  ) -> tuple[list[Fields], PyTree]:
    """Predicts a block of images in a chunk of views, one batch after another.

    Args:
      variables: the classifier's weights on the devices.
      step_batches: the batches of the block on the devices, each {column: [rows, ...]}.
      views: ids [v] and parameters {name: [v, ...]} of the views, on the host.
      state: the state after the previous shard, None before the first shard.

    Returns:
      The recorded fields of each batch, {field: [rows, v, ...]}, and the state for the next shard.
      The state is None unless the classifier adapts to images at test time (`AdaptingEvaluator`).
    """
    return [self.run(variables, batch, views) for batch in step_batches], state

  @in_32_bits()
  def check(self, rows: Rows) -> None:
    """Raises InputError if the views cannot perturb the images or cannot use the classifier.

    The first view is traced for one batch, which checks shapes and types. No image is computed.
    """
    columns = numeric_columns(next(self._with_columns(rows).batches(1, [0], stored=True)))
    num_rows = self.parallel.num_devices  # one row for each device
    batch = {name: np.zeros((num_rows, *x.shape[1:]), x.dtype) for name, x in columns.items()}
    variables = self.classifier.variables if self.classifier else None
    traced = copy.copy(self)
    # The copy's method `_logits` is replaced by a jitted one: attacks call it many times, and with
    # `jit` it is traced only once for each shape.
    vars(traced)['_logits'] = jax.jit(self._logits)
    prepared = jax.eval_shape(without_global_draws(self._prepare), batch)
    traced.trace(variables, prepared, self.views.at(0))

  def trace(self, variables: PyTree, batch: Arrays, view: PyTree) -> None:
    """Traces how a view perturbs and measures a batch, to find errors without computing images.

    Args:
      variables: the classifier's weights, or their shapes; None without a classifier.
      batch: columns [B, ...]; only their shapes and types matter.
      view: id and parameters of the view.
    """
    jax.eval_shape(without_global_draws(self.show), variables, batch, view)

  def _with_columns(self, rows: Rows) -> Rows:
    """Returns the data with further columns that the views need (`Views.add_columns`), if any."""
    return self.views.add_columns(rows) if self.views.add_columns else rows

  def _host_columns(self, batch: Batch) -> Batch:
    """Returns the columns of a block, with a digest of each image in place of the images.

    Views that compose images, for instance of objects and backgrounds, also have a digest of each
    further column of images.
    """
    columns = {name: values for name, values in batch.items() if name != 'image'}
    images = {'image': batch['image']}
    if self.views.composes:
      images |= {name: x for name, x in columns.items() if np.ndim(x) > 2}
    return {**columns, **{f'{name}_digest': image_digests(x) for name, x in images.items()}}

  def _step_batches(self, layout: Layout, batch: Batch) -> Iterator[dict[str, np.ndarray]]:
    """Yields the images of a block in batches of `step_rows`, the last one padded with zeros."""
    size, columns = self.step_rows(layout), numeric_columns(batch)
    for begin in range(0, layout.num_rows_of(batch['block']), size):
      yield {name: pad_rows(x[begin : begin + size], size) for name, x in columns.items()}

  def _chunk_of_views(self, layout: Layout, chunk: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns the ids [v] and parameters {name: [v, ...]} of the views in a chunk.

    The last chunk repeats the last view until it has v = `layout.chunk_views` views, so that one
    compiled program takes all chunks.

    Args:
      layout: how the records are divided into chunks of views.
      chunk: number of the chunk.
    """
    start = chunk * layout.chunk_views
    index = np.minimum(np.arange(start, start + layout.chunk_views), layout.num_views - 1)
    return self.views.at(index)

  def _collect(
    self,
    layout: Layout,
    mistakes: MistakesOfBlock | None,
    batch: Batch,
    chunk: int,
    fields_by_step: Sequence[Arrays],
  ) -> tuple[int, int, Shard]:
    """Copies computed fields from the devices into a shard of the records, without padding.

    Args:
      layout: how the records are divided into blocks of images and chunks of views.
      mistakes: collects the pictures of the block; None stores no pictures.
      batch: the columns of the block on the host.
      chunk: number of the chunk of views.
      fields_by_step: fields [rows, views, ...] of each batch, on the devices.

    Returns:
      (number of the block, number of the chunk, shard).

    Raises:
      InputError: logits or attacked images are not finite, the outputs are no logits, or a total
        cannot be summed exactly.
    """
    rows, views = layout.rows(batch['block']), layout.views(chunk)
    num_rows, num_views = rows.stop - rows.start, views.stop - views.start
    steps = [self.parallel.gather(step) for step in fields_by_step]
    fields = {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}
    # Totals, and the most confident mistake of each row if pictures are stored, are taken out of
    # `fields`, because they have other axes than [rows, views].
    totals = {name: fields.pop(name) for name in list(fields) if name.startswith(TOTAL)}
    mistake_fields = [name for name in (MISTAKE, MISTAKEN_IMAGE) if name in fields]
    worst_mistakes = {name: fields.pop(name)[:num_rows] for name in mistake_fields}
    arrays = {name: _storable(values[:num_rows, :num_views]) for name, values in fields.items()}
    if self.classifier:
      self._check_outputs(arrays, batch['example_id'], views.start)
    for name, sums in totals.items():
      arrays[name], outside = combine(sums[:, :num_views])
      if outside.any():
        raise InputError(
          f'{name} has values outside [0, {LARGEST:g}), which cannot be summed '
          f'exactly, in {self.views.describe(views.start + int(outside.argmax()))}.'
        )
    arrays |= _recorded_columns(batch, num_rows)
    if mistakes and worst_mistakes:
      shard = Shard(rows, views, arrays)
      arrays |= mistakes.add(shard, worst_mistakes[MISTAKE], worst_mistakes[MISTAKEN_IMAGE])
    return batch['block'], chunk, Shard(rows, views, arrays)

  def _check_outputs(self, fields: dict[str, np.ndarray], ids: np.ndarray, first_view: int) -> None:
    """Raises InputError if a classifier's outputs in a chunk of views are not finite logits.

    Either logits, or gradients of an attack, are not finite (the message names the image and the
    view). Or all outputs are probabilities. The checks use the fields `FINITE`, `FINITE_IMAGE` and
    `DISTRIBUTION`, which are removed because records do not store them.

    Args:
      fields: {field: [rows, views, ...]} of the chunk.
      ids: ids of the images, [rows].
      first_view: position of the first view of the chunk.
    """
    has_finite_logits = fields.pop(FINITE)
    has_finite_image = fields.pop(FINITE_IMAGE, np.ones_like(has_finite_logits))
    is_finite = has_finite_logits & has_finite_image
    if not is_finite.all():
      row, view = np.argwhere(~is_finite)[0]
      place = f'example {ids[row]}, {self.views.describe(first_view + view)}'
      if has_finite_image[row, view]:
        raise InputError(
          f'{self.name} gives logits that are not finite for {place}. Check the weights, the '
          'normalisation, the precision, and the input filter or adaptation if there is one.'
        )
      if self.views.uses_classifier:  # in most cases an attack made the image
        raise without_finite_gradient(self.name, place)
      raise InputError(
        f'the image shown is not finite for {place}: the study, or a part of it, makes NaN or ∞.'
      )
    # functions on the host are checked where they are called and have no field `DISTRIBUTION`
    is_distribution = fields.pop(DISTRIBUTION, np.zeros(1))
    if is_distribution.all() and self._network.num_classes > 1:
      raise InputError(f'{self.name} {NO_LOGITS}')


def _storable(values: np.ndarray) -> np.ndarray:
  """Returns an array in a type that NumPy files can hold.

  bfloat16, which has the kind 'V' (raw bytes) in NumPy, becomes float32.
  """
  return values.astype(np.float32) if values.dtype.kind == 'V' else values


def _recorded_columns(fields: Mapping[str, Any], num_rows: int) -> dict[str, np.ndarray]:
  """Returns the columns of the data that records store, without padding, {name: [num_rows, ...]}.

  Columns with more than two axes are images, such as the object of a scene, and are left out.

  Args:
    fields: a block of the data, or the fields of a shard.
    num_rows: number of images without padding.
  """
  arrays = {name: x for name, x in fields.items() if isinstance(x, np.ndarray) and x.ndim <= 2}
  names = [name for name in arrays if name not in NOT_RECORDED and not is_per_view(name)]
  return {name: arrays[name][:num_rows] for name in names if not name.startswith(PICTURE)}
