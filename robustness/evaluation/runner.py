"""The evaluation loop: predicts every row in every view and writes the records.

A row is a stored image with its label, and a view is one way of showing it, such as fog at severity
3. A compiled step takes a batch of rows and a chunk of views, makes the images and predicts them on
the devices, and returns recorded values of shape [rows, views]. Images of views are not copied to
the host, unless the classifier is a function on the host.
"""

import contextlib
import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.core.pixels import with_scaled_image
from robustness.core.precision import in_32_bits
from robustness.core.progress import Progress
from robustness.core.rows import Batch, Rows, numeric_columns, padded
from robustness.core.sequential import map_rows
from robustness.core.typing import PyTree
from robustness.evaluation.fit import check_fit, check_images, check_labels, resized
from robustness.evaluation.layout import LARGE_IMAGE_PIXELS, Layout, default_layout, even_part_size
from robustness.evaluation.measurements import FINITE, LARGEST, MEASURE, combine, observe, summarise
from robustness.evaluation.provenance import IMAGE_DIGEST, image_digests, require_same_images
from robustness.evaluation.records import TOTAL, Records, Shard, is_per_view
from robustness.evaluation.stored_pictures import Best, MistakesOfBlock, add_view, no_mistakes
from robustness.evaluation.study import IMAGES
from robustness.evaluation.views import Arrays, Views, ViewTable, key_of
from robustness.models.callables import NO_LOGITS, are_distributions
from robustness.models.classifier import Classifier
from robustness.parallel import Parallel
from robustness.parallel.mesh import BATCH, REPLICATED, Compiled

T = TypeVar('T')
Logits = Callable[[jax.Array], jax.Array]
View = tuple[jax.Array, Arrays]
"""Id and parameters of a view, or ids and parameters of the views of a chunk, on the devices."""
Fields = dict[str, jax.Array]
"""{field: values} of the rows of a step."""
Shown = tuple[jax.Array, Fields]
"""The images of a view, and what was measured on them."""
NOT_RECORDED = ('image', 'mask')
"""Columns of a batch that records do not store: images, and which rows are no padding."""
ROW_IDENTITY = ('example_id', 'label', IMAGE_DIGEST)
"""Columns that are equal if and only if two records are of the same rows."""
DISTRIBUTION = 'distribution'
"""Field of a step, bool [rows, views]: whether the logits look like probabilities."""
FINITE_IMAGE = 'finite_image'
"""Field of a step, bool [rows, views]: whether all pixels of the shown image are finite."""
MISTAKE, MISTAKEN_IMAGE = 'mistake', 'mistaken_image'
"""Fields of a step, [rows] and [rows, H, W, C]: confidence and picture of the worst mistake."""
MAX_VIEWS_AT_ONCE = 4
"""Most views in one batch on an accelerator. The rate is 1.04 to 1.25 times the rate of one view at
a time on an NVIDIA H200 (docs/records/benchmarks.md)."""


@dataclasses.dataclass(frozen=True)
class BlockOnDevices:
  """A block of consecutive rows that was checked and copied to the devices.

  Attributes:
    columns: the columns of the block (see `Rows.batches`) without the images, on the host.
    step_batches: the rows with their images on the devices, one padded batch for each step.
  """

  columns: Batch
  step_batches: Sequence[Arrays]

  @property
  def nbytes(self) -> int:
    """Number of bytes on the devices."""
    return sum(array.nbytes for array in jax.tree.leaves(self.step_batches))


@dataclasses.dataclass(frozen=True)
class Evaluator:
  """Computes the records of a classifier: its predictions for all rows in all views.

  Attributes:
    classifier: the classifier; None for a study that only measures images.
    views: the views in which each row is shown.
    key: root key of the study's random numbers.
    parallel: the devices, and how a compiled step is distributed over them. A classifier that calls
      a Python function on the host uses the first device only.
    layers: names of layers h for which ‖z_h(x) - z_h(x̃)‖₂ is recorded, where z_h is the output of
      the layer, x the stored image and x̃ the image in the view.
    outputs: names of layers with a recorded output.
    summarise_output: function `(layer name, output [rows, ...]) -> [rows, ...]` with the values to
      record of an output; by default the whole output.
    phase: name of the stage of the run, for the line of progress.
    rows_at_once: rows in one step on each device. 0 takes up to 64 on a CPU (8 if images have at
      least `LARGE_IMAGE_PIXELS`) and 512 on accelerators. Records depend neither on it nor on
      `views_at_once`.
    views_at_once: number of views that the network predicts in one batch. A step gets a chunk of
      views and loops over groups of this size (`lax.map`). 0 takes 1 on a CPU. On an accelerator it
      takes the largest divisor of the chunk's size up to `MAX_VIEWS_AT_ONCE`, but 1 for views with
      gradients or branches (`Views.sequential`), because `vmap` would compute every branch.
    pictured: the table of all views if pictures of mistakes are stored with the records (see
      `robustness.evaluation.stored_pictures`), else None. With pictures, a step shows one view at a
      time.
  """

  classifier: Classifier | None
  views: Views
  key: jax.Array
  parallel: Parallel
  layers: tuple[str, ...] = ()
  outputs: tuple[str, ...] = ()
  summarise_output: Callable[[str, jax.Array], jax.Array] = lambda _, output: output
  phase: str = 'evaluation'
  rows_at_once: int = 0
  views_at_once: int = 0
  pictured: ViewTable | None = None

  def __post_init__(self) -> None:
    """Uses only the first device for a classifier that calls a Python function on the host."""
    if self.classifier and self.classifier.calls_host and self.parallel.num_devices > 1:
      # an attribute of a frozen class cannot be set in the usual way
      object.__setattr__(self, 'parallel', type(self.parallel)(self.parallel.devices[:1]))

  @property
  def name(self) -> str:
    """The classifier's label, `IMAGES` without a classifier."""
    return self.classifier.name if self.classifier else IMAGES

  @property
  def _network(self) -> Classifier:
    """The classifier, for code that only runs with one, so that its type excludes None."""
    assert self.classifier is not None
    return self.classifier

  @property
  def _pixels(self) -> int:
    """Height × width of a shown image."""
    return math.prod((self.views.image_shape or self._network.input_shape)[:2])

  def layout(self, num_rows: int, batch_size: int = 0, views_per_step: int = 0) -> Layout:
    """Returns how the table of `num_rows` rows × all views is cut into shards.

    The layout does not depend on the devices, so that a run can be resumed with any number of
    devices or processes. For `batch_size` and `views_per_step` see `default_layout`.
    """
    network = self.classifier
    return default_layout(
      num_rows,
      len(self.views),
      self._pixels,
      is_staged=bool(self.views.stages),
      is_on_host=bool(network and (network.calls_host or network.host_function)),
      batch_size=batch_size,
      views_per_step=views_per_step,
    )

  def with_views(self, positions: np.ndarray) -> Self:
    """Returns an evaluator of only the views at `positions`, int [v], with the compiled programs.

    The programs take parameters of views as arguments, so that they are not compiled again.
    """
    views = dataclasses.replace(
      self.views,
      ids=self.views.ids[positions],
      parameters={name: values[positions] for name, values in self.views.parameters.items()},
    )
    evaluator = dataclasses.replace(self, views=views)
    # `run` and `prepared` are cached properties, which take their value from `__dict__`
    evaluator.__dict__.update(run=self.run, prepared=self.prepared)
    return evaluator

  def step_rows(self, layout: Layout) -> int:
    """Returns the number of rows in one step, a multiple of the number of devices.

    The rows of a block are divided into as few steps as possible, of about equal size.
    """
    rows_per_device = 512
    if jax.default_backend() == 'cpu':
      rows_per_device = 8 if self._pixels >= LARGE_IMAGE_PIXELS else 64
    devices = self.parallel.num_devices
    max_rows = (self.rows_at_once or rows_per_device) * devices
    return -(-even_part_size(layout.block_rows, max_rows) // devices) * devices  # rounded up

  def _views_at_once(self, chunk_views: int) -> int:
    """Returns how many of a chunk's views the network takes in one batch.

    It is `self.views_at_once` unless that is 0. Then it is 1 for views with branches or gradients,
    on a CPU, and for a classifier on the host; otherwise a divisor of the number of views, so that
    all batches are full.
    """
    has_branches = self.views.sequential or self.views.uses_classifier
    is_on_host = jax.default_backend() == 'cpu' or (self.classifier and self.classifier.calls_host)
    if self.views_at_once or has_branches or is_on_host:
      return self.views_at_once or 1
    return max(n for n in range(1, MAX_VIEWS_AT_ONCE + 1) if chunk_views % n == 0)

  @in_32_bits()
  def evaluate(self, rows: Rows, records: Records, process: int = 0, processes: int = 1) -> None:
    """Computes this process's share of the shards that `records` lack, and writes them.

    A process computes the row blocks b with b % processes == process. If there are fewer blocks
    than processes, the processes share the chunks of every block.

    Args:
      rows: the rows to show.
      records: records with a layout from `self.layout`.
      process: number of this process, in [0, processes).
      processes: number of processes that compute the records together.

    Raises:
      InputError: the rows do not fit the classifier, a label is outside the classes, logits are not
        finite (the message names example and view), or existing shards are of other images.
    """
    layout = records.layout
    # each is {number of the row block: numbers of its view chunks}
    share = layout.share(process, processes)
    missing = records.missing()
    todo = {}  # the missing shards in this process's share
    for block, chunks in missing.items():
      if chunks_in_share := [chunk for chunk in chunks if chunk in share[block]]:
        todo[block] = chunks_in_share
    num_images = layout.num_images(share)
    num_present = num_images - layout.num_images(todo)
    self._check_same_images(rows, records, missing)
    # a chunk that exists already in each incomplete block, None if there is none
    first_present = {b: layout.first_present(chunks) for b, chunks in missing.items()}
    with Progress(num_images, f'{self.name}: {self.phase}', 'images', initial=num_present) as bar:
      for block, chunk, shard in self.shards(rows, layout, todo):
        # The first shard that is added to a block must be of the same images as an existing shard
        # of the block. `pop` then removes the block, so that this is checked once.
        present = first_present.pop(block, None)
        if present is not None:
          columns = {name: shard[name] for name in ROW_IDENTITY}
          require_same_images(records.read(block, present).arrays, columns, records.directory)
        records.write(block, chunk, shard.arrays)
        bar.advance(layout.size(block, chunk))

  def _check_same_images(self, rows: Rows, records: Records, missing: dict[int, list[int]]) -> None:
    """Raises InputError if existing shards were recorded from other images than `rows`.

    Only the first of them is compared.

    `missing` is {number of the row block: numbers of its view chunks that do not exist yet}.
    """
    layout = records.layout
    for block in range(layout.num_blocks):
      present = layout.first_present(missing.get(block, ()))
      if present is not None:
        recorded = records.read(block, present).arrays
        batch = next(self._with_columns(rows).batches(layout.block_rows, [block], stored=True))
        columns, num_rows = _host_columns(batch), layout.num_rows_of(batch['block'])
        read = {name: columns[name][:num_rows] for name in ROW_IDENTITY}  # without padding
        require_same_images(recorded, read, records.directory)
        return

  def shards(
    self, rows: Rows, layout: Layout, table: Mapping[int, list[int]] | None = None
  ) -> Iterator[tuple[int, int, Shard]]:
    """Yields (number of the row block, number of the view chunk, shard) for the shards in `table`.

    `table` is {number of the block: numbers of its chunks}; None stands for all shards.
    """
    if table is None:
      table = {b: list(range(layout.num_chunks)) for b in range(layout.num_blocks)}
    if table:
      blocks = self.blocks_on_devices(rows, layout, sorted(table))
      yield from self.shards_of_blocks(blocks, layout, table)

  def blocks_on_devices(
    self, rows: Rows, layout: Layout, blocks: Sequence[int] | None = None
  ) -> Iterator[BlockOnDevices]:
    """Yields the row blocks numbered `blocks` (None: all), checked and copied to the devices."""
    if self.classifier:
      check_fit(self.classifier, rows, self.views)
    for batch in self._with_columns(rows).batches(layout.block_rows, blocks, stored=True):
      check_images(batch)
      if self.classifier:
        check_labels(batch, self.classifier)
      # a lazy `map`: one batch after another is copied and prepared
      on_devices = map(self.parallel.put_batch, self._step_batches(layout, batch))
      yield BlockOnDevices(_host_columns(batch), [*map(self.prepared, on_devices)])

  def shards_of_blocks(
    self,
    blocks: Iterable[BlockOnDevices],
    layout: Layout,
    table: Mapping[int, list[int]] | None = None,
    variables: PyTree = None,
  ) -> Iterator[tuple[int, int, Shard]]:
    """Yields (number of the row block, number of the view chunk, shard) for blocks on the devices.

    A shard has the records of a block of rows in a chunk of views. The devices compute a shard
    while the host collects the one before it, which is yielded late by one shard. Views with
    `stages` take long, so that their shards are yielded at once.

    Args:
      blocks: rows on the devices.
      layout: how the table of rows × views is cut into blocks and chunks.
      table: {number of the block: numbers of its chunks} of the shards to compute; None computes
        all chunks of the blocks.
      variables: weights that replace the classifier's; None takes the classifier's.
    """
    if self.classifier and variables is None:
      variables = self.classifier.variables
    variables = self.parallel.replicate(variables)
    # `state`: see `run_chunk`; `unread`: columns, chunk and outputs of the shard that the devices
    # are computing
    state, unread = None, None
    mistakes = MistakesOfBlock(self.pictured) if self.pictured else None
    with self.classifier.host_errors() if self.classifier else contextlib.nullcontext():
      for block in blocks:
        for chunk in table[block.columns['block']] if table else range(layout.num_chunks):
          views = self._chunk_of_views(layout, chunk)
          outputs, state = self.run_chunk(variables, block.step_batches, views, state)
          if unread is not None:
            yield self._collect(layout, mistakes, *unread)
          unread = (block.columns, chunk, outputs)
          if self.views.stages:
            yield self._collect(layout, mistakes, *unread)
            unread = None
      if unread is not None:
        yield self._collect(layout, mistakes, *unread)

  def run_chunk(
    self, variables: PyTree, step_batches: Sequence[Arrays], views: PyTree, state: PyTree
  ) -> tuple[list[Fields], PyTree]:
    """Computes the shard of a block of rows in a chunk of views.

    Args:
      variables: the classifier's weights on the devices.
      step_batches: the rows on the devices, {column: [rows, ...]} for each step.
      views: ids [v] and parameters {name: [v, ...]} of the views, on the host.
      state: the state after the previous shard, None before the first shard.

    Returns:
      The fields of each step batch, and the state for the next shard. The state stays None unless
      the classifier adapts to the images at test time (`AdaptingEvaluator`).
    """
    return [self.run(variables, batch, views) for batch in step_batches], state

  @in_32_bits()
  def check(self, rows: Rows) -> None:
    """Raises InputError if the views cannot show the rows or cannot use the classifier.

    It traces how the first view shows a batch, which checks shapes and types; no image is computed.
    """
    columns = numeric_columns(next(self._with_columns(rows).batches(1, [0], stored=True)))
    num_rows = self.parallel.num_devices  # one row for each device
    batch = {name: np.zeros((num_rows, *x.shape[1:]), x.dtype) for name, x in columns.items()}
    views = self.views.ids, dict(self.views.parameters)
    first_view = jax.tree.map(lambda values: values[0], views)
    variables = self.classifier.variables if self.classifier else None
    traced = copy.copy(self)
    # The copy's method `_logits` is replaced by a jitted one: attacks call it many times, and with
    # `jit` it is traced only once for each shape.
    vars(traced)['_logits'] = jax.jit(self._logits)
    prepared = jax.eval_shape(self._prepare, batch)
    jax.eval_shape(traced.show, variables, prepared, first_view)

  def _with_columns(self, rows: Rows) -> Rows:
    """Returns the rows with further columns that the views need (`Views.add_columns`), if any."""
    return self.views.add_columns(rows) if self.views.add_columns else rows

  @functools.cached_property
  def run(self) -> Callable[..., Fields]:
    """The function `(variables, batch, chunk) -> {field: [rows, views, ...]}` of one step.

    It predicts a batch of rows, which is on the devices, in a chunk of views, given as ids and
    parameters on the host. It calls the compiled `step`, or `_run_host_function` if the classifier
    is a Python function on the host, which cannot be compiled.
    """
    if self.classifier and self.classifier.host_function:
      return self._run_host_function
    replicate = self.parallel.replicate
    return lambda variables, batch, chunk: self.compiled(variables, batch, replicate(chunk))

  @functools.cached_property
  def prepared(self) -> Callable[[Arrays], Arrays]:
    """The function from rows [B, ...] to the rows after the views' preparation, `Views.prepare`.

    It is compiled if the views have one, and otherwise returns the rows unchanged.
    """
    if self.views.prepare is None:
      return self._prepare
    return self.parallel.compile(self._prepare, (BATCH,), BATCH)

  def _prepare(self, batch: Arrays) -> Arrays:
    """Returns the rows [B, ...] after the views' preparation, `Views.prepare`, if they have one.

    It is computed once for all views.
    """
    prepare = self.views.prepare
    if prepare is None:
      return batch
    # the second argument, a view, is None: the preparation is the same for all views
    return self._by_row(lambda row, _: prepare(row), with_scaled_image(batch), None)

  @functools.cached_property
  def compiled(self) -> Compiled:
    """The step `(variables, batch, (view ids, view parameters)) -> {field: [rows, views]}`."""
    return self.parallel.compile(self.step, (REPLICATED, BATCH, REPLICATED), BATCH)

  def step(self, variables: PyTree, batch: Arrays, chunk: View) -> Fields:
    """Returns the recorded values of a batch of rows in a chunk of views.

    It is a pure function, and the values of a row do not depend on other rows.

    Args:
      variables: the classifier's weights; None without a classifier.
      batch: columns [rows, ...].
      chunk: ids [views] and parameters {name: [views, ...]} of the views.

    Returns:
      {field: [rows, views, ...]}. Totals are [devices, views, 3, ...], sums of `split_sum`. With
      `pictured` there are also confidence and image of each row's worst mistake, `MISTAKE` [rows]
      and `MISTAKEN_IMAGE` [rows, H, W, C].
    """
    batch = with_scaled_image(batch)
    # `apply` returns (logits, {layer: output}); `clean` are the outputs for the stored images
    clean = self._network.apply(variables, batch['image'], self.layers)[1] if self.layers else {}

    def one_view(view: View) -> Shown:
      """Returns the images of all rows in a view, and {field: [rows, ...]}."""
      images, measured = self.show(variables, batch, view)
      if self.classifier:
        logits, outputs = self._network.apply(variables, images, (*self.layers, *self.outputs))
        measured |= self._predictions(batch, logits, outputs, clean)
      if self.views.uses_classifier:
        measured[FINITE_IMAGE] = jnp.isfinite(images).all((1, 2, 3))
      return images, measured

    def add_next_view(best: Best, view: View) -> tuple[Best, Fields]:
      """Returns each row's most confident mistake after one more view, and the view's fields."""
      images, measured = one_view(view)
      return add_view(best, images, measured), measured

    pictures = {}
    if self.pictured:
      best, by_view = jax.lax.scan(add_next_view, no_mistakes(batch['image']), chunk)
      confidence, image = best
      pictures = {MISTAKE: confidence, MISTAKEN_IMAGE: image}
    else:
      ids, _ = chunk
      at_once = self._views_at_once(len(ids))
      batch_size = at_once if at_once > 1 else None  # None is a loop without `vmap`
      # without the images, the first of the two values of `one_view`
      by_view = jax.lax.map(lambda view: one_view(view)[1], chunk, batch_size=batch_size)
    # `scan` and `map` return [views, rows, ...]; the result is [rows, views, ...]
    return {name: jnp.moveaxis(values, 0, 1) for name, values in by_view.items()} | pictures

  def _predictions(
    self, batch: Arrays, logits: jax.Array, outputs: Arrays, clean: Arrays
  ) -> Fields:
    """Returns the recorded fields of one view, {field: [rows, ...]}.

    Args:
      batch: columns of the rows.
      logits: [rows, classes] in the view.
      outputs: {layer: output [rows, ...]} in the view.
      clean: {layer: output [rows, ...]} for the stored images, of the layers in `layers`.
    """
    return {
      **summarise(logits, batch['label']),
      DISTRIBUTION: are_distributions(logits),
      **{f'output/{n}': self.summarise_output(n, outputs[n]) for n in self.outputs},
      **{f'layer_change/{name}': distance(clean[name], outputs[name]) for name in clean},
    }

  def _run_host_function(
    self, variables: PyTree, batch: Arrays, chunk: tuple[np.ndarray, Mapping[str, np.ndarray]]
  ) -> Fields:
    """Returns the fields of `step` for a classifier that is a Python function on the host.

    For one view after another, the devices make the images, and the host calls the classifier on
    them while the devices make the images of the next view. At the end the devices reduce the
    logits of all views to the recorded fields. The arguments are the same as in `step`, with the
    chunk on the host.
    """
    ids, parameters = chunk
    num_views = len(np.unique(ids))  # without repeats of the last view, which fill the last chunk
    views = [(ids[i], {k: v[i] for k, v in parameters.items()}) for i in range(num_views)]
    logits, measured = [], []  # of each view
    pending = self._compiled_show(variables, batch, self.parallel.replicate(views[0]))
    for view_id, next_view in zip(ids[:num_views], [*views[1:], None], strict=True):
      images, fields = self.parallel.gather(pending)  # waits for the devices and copies to the host
      if next_view is not None:  # starts, and does not wait
        pending = self._compiled_show(variables, batch, self.parallel.replicate(next_view))
      logits.append(self._call_host_function(images, batch, view_id))
      measured.append(fields)
    # repeats the last view, as the chunk does: [rows, views, ...]
    chunk_logits = _filled(logits, len(ids))
    chunk_fields = {k: _filled([fields[k] for fields in measured], len(ids)) for k in measured[0]}
    logits_on_devices, recorded = self.parallel.put_batch((chunk_logits, chunk_fields))
    return {**self._reduce_logits(logits_on_devices, batch['label']), **recorded}

  @functools.cached_property
  def _compiled_show(self) -> Compiled:
    """The compiled function `show`."""
    return self.parallel.compile(self.show, (REPLICATED, BATCH, REPLICATED), BATCH)

  @functools.cached_property
  def _reduce_logits(self) -> Compiled:
    """The compiled function from logits [B, V, classes] and labels to {field: [B, V, ...]}."""

    def reduce(logits: jax.Array, label: jax.Array) -> Fields:
      """Returns the fields of one view from its logits [B, classes] and the labels."""
      outputs = {f'output/{name}': self.summarise_output(name, logits) for name in self.outputs}
      return {**summarise(logits, label), **outputs}

    # over axis 1 of the logits, the views, with the same labels
    return self.parallel.compile(jax.vmap(reduce, (1, None), 1), (BATCH, BATCH), BATCH)

  def _call_host_function(self, images: np.ndarray, batch: Arrays, view_id: int) -> np.ndarray:
    """Returns the logits [B, classes] of the function on the host for images of one view.

    Raises:
      InputError: the callable raises; the message names the examples of the batch and the view.
    """
    function = self._network.host_function
    assert function is not None
    try:
      return function(images)
    except (Exception, SystemExit) as error:  # the callable is the user's and may raise anything
      ids = self.parallel.gather({name: batch[name] for name in ('example_id', 'mask')})
      examples = ids['example_id'][ids['mask']]  # without padding
      view = int(np.flatnonzero(self.views.ids == view_id)[0])  # the number of the view
      reason = str(error) if isinstance(error, InputError) else f'{type(error).__name__}: {error}'
      raise InputError(
        f'{self.name} failed on examples {examples.min()} to '
        f'{examples.max()}, {self.views.describe(view)}: {reason}'
      ) from error

  def show(self, variables: PyTree, batch: Arrays, view: View) -> Shown:
    """Shows every row of a batch in one view.

    Args:
      variables: the classifier's weights; None without a classifier.
      batch: columns [B, ...].
      view: id and parameters {name: [...]} of the view.

    Returns:
      The shown images, float32 [B, H, W, C], in the size that the classifier takes; and what the
      view measures. `measure/<name>` [B, ...] is a value for each row, of `Views.measure` or, for
      views shown `together`, of `Views.show`. `total/<name>` [devices, 3, ...] is a sum of
      `Views.total` over the rows of each device, in the three integers of `split_sum`.
    """
    rows = with_scaled_image(batch)
    by_show: Fields = {}  # what `Views.show` itself measures
    if self.views.together:
      images, measures = self.parallel.by_device(self._show_together, rows, variables, view)
      by_show = {f'{MEASURE}{name}': values for name, values in measures.items()}
    else:
      show_row = functools.partial(self._show_row, self._logits_argument(variables))
      images = self._by_row(show_row, rows, view)
    fields: Fields = {}  # 'measure/NAME' of `Views.measure`, and 'total/NAME' of `Views.total`
    if self.views.measure or self.views.total:
      _, parameters = view
      rows_and_images = {'rows': rows, 'images': images}
      fields = self.parallel.by_device(self._observe, rows_and_images, variables, parameters)
    if self.classifier:
      images = resized(images, self.classifier.input_shape)
    return images, {**fields, **by_show}

  def _observe(
    self, rows_and_images: Mapping[str, PyTree], variables: PyTree, parameters: Arrays
  ) -> Fields:
    """Returns what the views measure on the rows of one device in one view, {field: values}.

    Args:
      rows_and_images: {'rows': columns [B, ...], 'images': the rows in the view [B, H, W, C]}.
      variables: the classifier's weights; None without a classifier.
      parameters: the parameters of the view.
    """
    # of `Views.measure` and `Views.total`, after the row and its image
    arguments = (parameters, *self._logits_argument(variables))
    return observe(self.views, **rows_and_images, arguments=arguments)

  def _logits_argument(self, variables: PyTree) -> tuple[Logits, ...]:
    """Returns the further arguments of `Views.show`: the function from images to logits, or ().

    They are () for views without `uses_classifier`.
    """
    return (functools.partial(self._logits, variables),) if self.views.uses_classifier else ()

  def _logits(self, variables: PyTree, images: jax.Array) -> jax.Array:
    """Returns the logits [B, classes] of images."""
    return self._network.apply(variables, images, ())[0]

  def _show_row(self, logits_argument: tuple[Logits, ...], row: Arrays, view: View) -> jax.Array:
    """Returns the image [H, W, C] of one row in one view, which is its id and its parameters.

    `logits_argument` comes from `_logits_argument`: the function from images to logits, or ().
    """
    view_id, parameters = view
    key = key_of(self.key, row, view_id, parameters)
    image: jax.Array = self.views.show(key, row, parameters, *logits_argument)
    return image

  def _show_together(self, rows: Arrays, variables: PyTree, view: View) -> Shown:
    """Returns the images [B, H, W, C] of a device's rows in a view, and {name: value [B, ...]}.

    The values are what the view measures. It is for views with `Views.together`, where one call of
    `Views.show` shows all rows.
    """
    view_id, parameters = view
    keys = jax.vmap(lambda row: key_of(self.key, row, view_id, parameters))(dict(rows))
    logits = functools.partial(self._logits, variables)
    result: Shown = self.views.show(keys, rows, parameters, logits)
    return result

  def _by_row(self, function: Callable[..., T], rows: Arrays, view: PyTree) -> T:
    """Returns the results of `function(row, view)` for each of B rows, stacked as [B, ...].

    Rows are computed together (`vmap`), which computes all branches of a `lax.cond`. A CPU
    computes rows one after another instead for views that ask for it (`Views.sequential`), unless
    they call the classifier, which is faster on a batch.
    """
    if self.views.sequential and jax.default_backend() == 'cpu' and not self.views.uses_classifier:
      return self.parallel.by_device(functools.partial(map_rows, function), rows, view)
    return jax.vmap(function, (0, None))(rows, view)

  def _step_batches(self, layout: Layout, batch: Batch) -> Iterator[dict[str, np.ndarray]]:
    """Yields the rows of a block in batches of `step_rows` rows, the last one padded with zeros."""
    size, columns = self.step_rows(layout), numeric_columns(batch)
    for begin in range(0, layout.num_rows_of(batch['block']), size):
      yield {name: padded(x[begin : begin + size], size) for name, x in columns.items()}

  def _chunk_of_views(self, layout: Layout, chunk: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns ids [v] and parameters {name: [v, ...]} of the views in chunk number `chunk`.

    The last chunk repeats the last view until it has v = `layout.chunk_views` views, so that one
    compiled program takes all chunks.
    """
    start = chunk * layout.chunk_views
    index = np.minimum(np.arange(start, start + layout.chunk_views), layout.num_views - 1)
    return self.views.ids[index], {k: v[index] for k, v in self.views.parameters.items()}

  def _collect(
    self,
    layout: Layout,
    mistakes: MistakesOfBlock | None,
    batch: Batch,
    chunk: int,
    fields_by_step: Sequence[Arrays],
  ) -> tuple[int, int, Shard]:
    """Returns the number of the block, the number of the chunk, and the shard that was computed.

    The shard has no padding: neither rows nor repeated views that fill a step.

    Args:
      layout: how the table is cut.
      mistakes: collects the pictures of the block; None stores no pictures.
      batch: the columns of the block on the host.
      chunk: number of the chunk of views.
      fields_by_step: fields [rows, views, ...] of each step, on the devices.

    Raises:
      InputError: logits or attacked images are not finite, the outputs are no logits, or a total
        cannot be summed exactly.
    """
    rows, views = layout.rows(batch['block']), layout.views(chunk)
    num_rows, num_views = rows.stop - rows.start, views.stop - views.start
    steps = [self.parallel.gather(step) for step in fields_by_step]
    fields = {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}
    # Totals and the worst mistakes (confidence and image of each row, if pictures are stored) are
    # taken out of `fields`, because they have other axes than [rows, views].
    totals = {name: fields.pop(name) for name in list(fields) if name.startswith(TOTAL)}
    worst = [fields.pop(name)[:num_rows] for name in (MISTAKE, MISTAKEN_IMAGE) if name in fields]
    arrays = {name: values[:num_rows, :num_views] for name, values in fields.items()}
    if self.classifier:
      self._check_outputs(arrays, batch['example_id'], views.start)
    for name, sums in totals.items():
      arrays[name], outside = combine(sums[:, :num_views])
      if outside.any():
        raise InputError(
          f'{name} has values outside [0, {LARGEST:g}), which cannot be summed '
          f'exactly, in {self.views.describe(views.start + int(outside.argmax()))}.'
        )
    for name, value in batch.items():
      is_recorded = name not in NOT_RECORDED and not is_per_view(name)
      # columns with more axes are images, such as the object of a scene
      if is_recorded and isinstance(value, np.ndarray) and value.ndim <= 2:
        arrays[name] = value[:num_rows]
    if mistakes and worst:
      arrays |= mistakes.add(Shard(rows, views, arrays), *worst)
    return batch['block'], chunk, Shard(rows, views, arrays)

  def _check_outputs(self, fields: dict[str, np.ndarray], ids: np.ndarray, first_view: int) -> None:
    """Checks the outputs of a classifier in the chunk of views that starts at `first_view`.

    `FINITE`, `FINITE_IMAGE` and `DISTRIBUTION`, bool [rows, views], are removed from the fields,
    because records do not store them. `ids` are the ids of the examples, [rows].

    Raises:
      InputError: logits or the gradients of an attack are not finite (the message names the example
        and the view), or all outputs are probabilities in place of logits.
    """
    has_finite_logits = fields.pop(FINITE)
    # an image is not finite if the gradient that an attack followed is not
    has_finite_image = fields.pop(FINITE_IMAGE, np.ones_like(has_finite_logits))
    is_finite = has_finite_logits & has_finite_image
    if not is_finite.all():
      row, view = np.argwhere(~is_finite)[0]
      place = f'example {ids[row]}, {self.views.describe(first_view + view)}'
      if has_finite_image[row, view]:
        raise InputError(
          f'{self.name} gives logits that are not finite for {place}. Check the weights, the '
          'normalisation and the precision.'
        )
      raise InputError(
        f'{self.name} has a gradient that is not finite for {place}, so an attack makes no '
        'image. The logarithm of a probability of exactly 0 is a frequent cause: give the '
        'logits before the softmax, or jnp.log(jnp.maximum(probabilities, '
        'jnp.finfo(jnp.float32).tiny)); see docs/your_model.md.'
      )
    # functions on the host are checked where they are called and have no field `DISTRIBUTION`
    is_distribution = fields.pop(DISTRIBUTION, np.zeros(1))
    if is_distribution.all() and self._network.num_classes > 1:
      raise InputError(f'{self.name} {NO_LOGITS}')


def distance(first: jax.Array, second: jax.Array) -> jax.Array:
  """Returns ‖first - second‖₂ of each row, float32 [B], for arrays [B, ...]."""
  difference = (first.astype(jnp.float32) - second.astype(jnp.float32)).reshape(len(first), -1)
  return jnp.sqrt((difference**2).sum(-1))


def _host_columns(batch: Batch) -> Batch:
  """Returns the columns of a block without its images, and the digest of each image."""
  columns = {name: values for name, values in batch.items() if name != 'image'}
  return {**columns, IMAGE_DIGEST: image_digests(batch['image'])}


def _filled(values: list[np.ndarray], count: int) -> np.ndarray:
  """Returns the values [rows, ...] of some views as one array [rows, count, ...].

  The values of the last view are repeated until there are `count` views.
  """
  padding = [values[-1]] * (count - len(values))
  return np.stack(values + padding, 1)
