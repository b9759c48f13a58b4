"""The one evaluation loop: rows × views → records.

A compiled step takes a block of rows on the devices and a chunk of views, and returns fields [rows,
views]; perturbed images never leave the device.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.pixels import with_scaled_image
from robustness.core.precision import in_32_bits
from robustness.core.progress import Progress
from robustness.core.rows import Batch, Rows, have_one_twice, numeric_columns
from robustness.core.sequential import map_rows
from robustness.core.typing import PyTree
from robustness.evaluation.measurements import FINITE, LARGEST, MEASURE, joined, observe, summarise
from robustness.evaluation.provenance import IMAGE_DIGEST, image_digests, require_same_images
from robustness.evaluation.records import TOTAL, Layout, Records, Shard, is_of_views
from robustness.evaluation.stored_pictures import Best, MistakesOfBlock, no_mistakes, with_view
from robustness.evaluation.study import IMAGES
from robustness.evaluation.views import Arrays, Views, ViewTable, key_of
from robustness.models.callables import NO_LOGITS, are_distributions
from robustness.models.classifier import Classifier
from robustness.parallel import Parallel
from robustness.parallel.mesh import BATCH, REPLICATED, Compiled

T = TypeVar('T')
Logits = Callable[[jax.Array], jax.Array]
NOT_RECORDED = ('image', 'mask')
SAME = ('example_id', 'label', IMAGE_DIGEST)
"""Columns of rows that show whether records are of the same rows."""
DISTRIBUTION, FINITE_IMAGE = 'distribution', 'finite_image'
MISTAKE, MISTAKEN_IMAGE = 'mistake', 'mistaken_image'
SHARDS = 4096
LARGE = 128**2
"""Pixels of an image that a core's cache holds no batch of."""
VIEWS_AT_ONCE = 4
"""Most views that an accelerator shows together: 1.04 to 1.25 of the rate of one by one on an
NVIDIA H200 (docs/records/benchmarks.md)."""


@dataclasses.dataclass(frozen=True)
class PlacedBlock:
  """A block of rows, checked and on the devices in parts of the size of a step; `columns` are what
  the host keeps, all but the images (see `Rows.batches`)."""

  columns: Batch
  parts: Sequence[Arrays]

  @property
  def nbytes(self) -> int:
    """Bytes on the devices."""
    return sum(array.nbytes for array in jax.tree.leaves(self.parts))


@dataclasses.dataclass(frozen=True)
class Evaluator:
  """Everything that fixes how rows and views become records.

  Attributes:
    classifier: the network; None for a study of images alone.
    views: how each row is shown.
    key: root of the study's random stream.
    parallel: how the step runs on the devices; on the first alone where the classifier calls back
      to the host.
    layers: names of layers with a recorded change of the output, ‖z_h(x) - z_h(x̃)‖₂.
    outputs: names of layers with a recorded output.
    summarise_output: reduces an output to the recorded values, see `Study.summarise_output`.
    phase: what the evaluation is part of, for its line of progress.
    rows_at_once: rows that a step takes on each device; 0 takes up to 64 on a CPU, 8 large ones,
      and 512 on accelerators. Records do not depend on it, nor on the next.
    views_at_once: views that a step shows at once; the next ones of its chunk follow (`lax.map`).
      0 takes one on a CPU; on an accelerator up to `VIEWS_AT_ONCE` that divide the chunk, unless
      views take gradients or choices (`Views.sequential`): `vmap` would compute every branch.
    pictured: the table of all views, where pictures of mistakes are stored with the records, see
      `robustness.evaluation.stored_pictures`; a step then shows its views one by one.
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
    if self.classifier and self.classifier.calls_host and self.parallel.num_devices > 1:
      object.__setattr__(self, 'parallel', type(self.parallel)(self.parallel.devices[:1]))

  @property
  def name(self) -> str:
    """The classifier's label."""
    return self.classifier.name if self.classifier else IMAGES

  @property
  def _network(self) -> Classifier:
    assert self.classifier is not None
    return self.classifier

  @property
  def _pixels(self) -> int:
    return math.prod((self.views.image_shape or self._network.input_shape)[:2])

  def layout(self, num_rows: int, batch_size: int = 0, views_per_step: int = 0) -> Layout:
    """Returns how the table is cut: by the data and these numbers, whatever the devices.

    A run can therefore be resumed with any number of devices or processes. 0 takes shards of up to
    512 rows, 64 of large images (a multiple of 8, so that steps are full), and of 32,768 images of
    32 × 32 pixels, fewer of larger ones in proportion, in parts of even size; larger shards where
    these were more than `SHARDS` files, as of ImageNet's validation set.
    """
    default = even_part(num_rows, 64, 8) if self._pixels >= LARGE else even_part(num_rows, 512)
    rows = batch_size or min(default, num_rows)
    images = 32768 * 32**2 // max(32**2, self._pixels)
    images = max(images, num_rows * len(self.views) // SHARDS)
    views = views_per_step or even_part(len(self.views), max(1, images // rows))
    return Layout(num_rows, len(self.views), rows, min(views, len(self.views)))

  def of_views(self, places: np.ndarray) -> Self:
    """Returns the evaluator of the views at some places, int [v]; it shares compiled programs."""
    views = dataclasses.replace(
      self.views,
      ids=self.views.ids[places],
      parameters={name: values[places] for name, values in self.views.parameters.items()},
    )
    evaluator = dataclasses.replace(self, views=views)
    evaluator.__dict__.update(run=self.run, prepared=self.prepared)  # as `cached_property` does
    return evaluator

  def step_rows(self, layout: Layout) -> int:
    """Returns how many of a shard's rows one step takes: a multiple of the devices."""
    devices = self.parallel.num_devices
    default = (8 if self._pixels >= LARGE else 64) if jax.default_backend() == 'cpu' else 512
    rows = even_part(layout.block_rows, (self.rows_at_once or default) * devices)
    return -(-rows // devices) * devices

  def _views_at_once(self, chunk_views: int) -> int:
    """Returns how many views of a chunk the network is shown together."""
    one_by_one = self.views.sequential or self.views.uses_classifier
    on_host = jax.default_backend() == 'cpu' or (self.classifier and self.classifier.calls_host)
    if self.views_at_once or one_by_one or on_host:
      return self.views_at_once or 1
    return max(n for n in range(1, VIEWS_AT_ONCE + 1) if chunk_views % n == 0)

  @in_32_bits()
  def evaluate(self, rows: Rows, records: Records, process: int = 0, processes: int = 1) -> None:
    """Computes every shard that `records`, of `self.layout(...)`, lacks.

    A process takes the row blocks b with b % processes == process; where there are fewer blocks
    than processes, shards of every block in turn.

    Raises:
      InputError: rows that do not fit the classifier, a label outside the classes, logits that are
        not finite (which example and view), or shards of other images that are there already.
    """
    layout = records.layout
    share = layout.share(process, processes)
    absent = records.missing()
    missing = {b: [c for c in chunks if c in share[b]] for b, chunks in absent.items()}
    table = {b: chunks for b, chunks in missing.items() if chunks}
    total = sum(layout.size(b, c) for b, chunks in share.items() for c in chunks)
    todo = sum(layout.size(b, c) for b, chunks in table.items() for c in chunks)
    self._check_same_images(rows, records, absent)
    first_present = {b: _first_present(layout, chunks) for b, chunks in absent.items()}
    with Progress(total, f'{self.name}: {self.phase}', 'images', initial=total - todo) as progress:
      for block, chunk, shard in self.shards(rows, layout, table):
        present = first_present.pop(block, None)
        if present is not None:  # before the block is added to
          columns = {name: shard[name] for name in SAME}
          require_same_images(records.read(block, present).arrays, columns, records.directory)
        records.write(block, chunk, shard.arrays)
        progress.advance(layout.size(block, chunk))

  def _check_same_images(
    self, rows: Rows, records: Records, missing: Mapping[int, list[int]]
  ) -> None:
    """Refuses rows with other images than the first shard that is there."""
    layout = records.layout
    for block in range(layout.num_blocks):
      present = _first_present(layout, missing.get(block, ()))
      if present is not None:
        recorded = records.read(block, present).arrays
        batch = next(self._with_columns(rows).batches(layout.block_rows, [block], stored=True))
        columns, count = _host_columns(batch), _count(layout, batch)
        read = {name: columns[name][:count] for name in SAME}
        require_same_images(recorded, read, records.directory)
        return

  def shards(
    self, rows: Rows, layout: Layout, table: Mapping[int, list[int]] | None = None
  ) -> Iterator[tuple[int, int, Shard]]:
    """Yields (block, chunk, shard) for a table {block: chunks} of wanted shards, by default all."""
    if table is None:
      table = {b: list(range(layout.num_chunks)) for b in range(layout.num_blocks)}
    if table:
      yield from self.shards_of(self.placed(rows, layout, sorted(table)), layout, table)

  def placed(
    self, rows: Rows, layout: Layout, blocks: Sequence[int] | None = None
  ) -> Iterator[PlacedBlock]:
    """Yields blocks of rows (None: all), checked and placed on the devices."""
    if self.classifier:
      check_fit(self.classifier, rows, self.views)
    for batch in self._with_columns(rows).batches(layout.block_rows, blocks, stored=True):
      check_images(batch)
      if self.classifier:
        check_labels(batch, self.classifier)
      parts = [self.prepared(self.parallel.put_batch(part)) for part in self._parts(layout, batch)]
      yield PlacedBlock(_host_columns(batch), parts)

  def shards_of(
    self,
    blocks: Iterable[PlacedBlock],
    layout: Layout,
    table: Mapping[int, list[int]] | None = None,
    variables: PyTree = None,
  ) -> Iterator[tuple[int, int, Shard]]:
    """Yields what `shards` does, of placed blocks; `variables` stand for the classifier's own."""
    if self.classifier and variables is None:
      variables = self.classifier.variables
    variables = self.parallel.replicate(variables)
    state, waiting = None, None
    mistakes = MistakesOfBlock(self.pictured) if self.pictured else None
    with self.classifier.host_errors() if self.classifier else contextlib.nullcontext():
      for placed in blocks:
        batch = placed.columns
        for chunk in table[batch['block']] if table else range(layout.num_chunks):
          views = self._chunk(layout, chunk)
          outputs, state = self.answers(variables, placed.parts, views, state)
          if waiting is not None:
            yield self._collect(layout, mistakes, *waiting)
          waiting = (batch, chunk, outputs)
      if waiting is not None:
        yield self._collect(layout, mistakes, *waiting)

  def answers(
    self, variables: PyTree, parts: Sequence[Arrays], views: PyTree, state: PyTree
  ) -> tuple[list[dict[str, jax.Array]], PyTree]:
    """Returns the fields of each part of a block in a chunk of views, and a state that the next
    shard is given: None, for a classifier that learns nothing from what it is shown."""
    return [self.run(variables, part, views) for part in parts], state

  @in_32_bits()
  def check(self, rows: Rows) -> None:
    """Refuses rows that the views cannot show, and views that the classifier does not allow."""
    columns = numeric_columns(next(self._with_columns(rows).batches(1, [0], stored=True)))
    size = self.parallel.num_devices
    batch = {name: np.zeros((size, *x.shape[1:]), x.dtype) for name, x in columns.items()}
    view = jax.tree.map(lambda values: values[0], (self.views.ids, dict(self.views.parameters)))
    variables = self.classifier.variables if self.classifier else None
    jax.eval_shape(lambda v, b, x: self.show(v, self._prepare(b), x), variables, batch, view)

  def _with_columns(self, rows: Rows) -> Rows:
    return self.views.add_columns(rows) if self.views.add_columns else rows

  @functools.cached_property
  def run(self) -> Callable[..., dict[str, jax.Array]]:
    """The step on placed rows and a chunk from `_chunk`: compiled, or around a callable."""
    if self.classifier and self.classifier.host_function:
      return self._called
    return lambda variables, batch, chunk: self.compiled(
      variables, batch, self.parallel.replicate(chunk)
    )

  @functools.cached_property
  def prepared(self) -> Callable[[Arrays], Arrays]:
    """The compiled preparation of a placed block, where the views have one."""
    if self.views.prepare is None:
      return self._prepare
    return self.parallel.compile(self._prepare, (BATCH,), BATCH)

  def _prepare(self, batch: Arrays) -> Arrays:
    prepare = self.views.prepare
    if prepare is None:
      return batch
    return self._by_row(lambda row, _: prepare(row), with_scaled_image(batch), None)

  @functools.cached_property
  def compiled(self) -> Compiled:
    """The step `(variables, batch, (view ids, view parameters)) -> {field: [rows, views]}`."""
    return self.parallel.compile(self.step, (REPLICATED, BATCH, REPLICATED), BATCH)

  def step(
    self, variables: PyTree, batch: Arrays, chunk: tuple[jax.Array, Arrays]
  ) -> dict[str, jax.Array]:
    """Predicts a block of rows in a chunk of views; pure, each row independent of the others.

    Fields are [rows, views, ...]; totals have a part for each device in place of the rows.
    """
    batch = with_scaled_image(batch)
    clean = self._network.apply(variables, batch['image'], self.layers)[1] if self.layers else {}

    def one_view(view: tuple[jax.Array, Arrays]) -> tuple[jax.Array, dict[str, jax.Array]]:
      images, measured = self.show(variables, batch, view)
      if self.classifier:
        answered = self._network.apply(variables, images, (*self.layers, *self.outputs))
        measured |= self._predictions(batch, *answered, clean)
      if self.views.uses_classifier:
        measured[FINITE_IMAGE] = jnp.isfinite(images).all((1, 2, 3))
      return images, measured

    def next_view(best: Best, view: tuple[jax.Array, Arrays]) -> tuple[Best, dict[str, jax.Array]]:
      images, measured = one_view(view)
      return with_view(best, images, measured), measured

    pictures = {}
    if self.pictured:
      best, fields = jax.lax.scan(next_view, no_mistakes(batch['image']), chunk)
      pictures = dict(zip((MISTAKE, MISTAKEN_IMAGE), best, strict=True))
    else:
      at_once = self._views_at_once(len(chunk[0]))
      batch_size = at_once if at_once > 1 else None
      fields = jax.lax.map(lambda view: one_view(view)[1], chunk, batch_size=batch_size)
    return {name: jnp.moveaxis(x, 0, 1) for name, x in fields.items()} | pictures

  def _predictions(
    self, batch: Arrays, logits: jax.Array, outputs: Arrays, clean: Arrays
  ) -> dict[str, jax.Array]:
    """Returns what is recorded of the classifier's logits and layers, each field [rows, ...]."""
    return {
      **summarise(logits, batch['label']),
      DISTRIBUTION: are_distributions(logits),
      **{f'output/{n}': self.summarise_output(n, outputs[n]) for n in self.outputs},
      **{f'layer_change/{name}': distance(clean[name], outputs[name]) for name in clean},
    }

  def _called(
    self, variables: PyTree, batch: Arrays, chunk: tuple[np.ndarray, Mapping[str, np.ndarray]]
  ) -> dict[str, jax.Array]:
    """Does what `step` does around a classifier that only the host can call; the chunk is there.

    Views are made on the devices and logits are reduced there; in between the images of one view at
    a time come to the host, and the callable predicts.
    """
    ids, parameters = chunk
    count = len(np.unique(ids))  # the last view is repeated to fill a chunk
    views = [(ids[i], {k: v[i] for k, v in parameters.items()}) for i in range(count)]
    logits, measured = [], []
    on_devices = self._compiled_show(variables, batch, self.parallel.replicate(views[0]))
    for view, following in zip(views, [*views[1:], None], strict=True):
      images, values = self.parallel.gather(on_devices)
      if following is not None:  # made on the devices while the host predicts
        on_devices = self._compiled_show(variables, batch, self.parallel.replicate(following))
      logits.append(self._answer(images, batch, view[0]))
      measured.append(values)
    all_logits = _filled(logits, len(ids))
    values = {k: _filled([fields[k] for fields in measured], len(ids)) for k in measured[0]}
    placed, recorded = self.parallel.put_batch((all_logits, values))
    return {**self._reduced(placed, batch['label']), **recorded}

  @functools.cached_property
  def _compiled_show(self) -> Compiled:
    return self.parallel.compile(self.show, (REPLICATED, BATCH, REPLICATED), BATCH)

  @functools.cached_property
  def _reduced(self) -> Compiled:
    def reduce(logits: jax.Array, label: jax.Array) -> dict[str, jax.Array]:
      outputs = {f'output/{name}': self.summarise_output(name, logits) for name in self.outputs}
      return {**summarise(logits, label), **outputs}

    return self.parallel.compile(jax.vmap(reduce, (1, None), 1), (BATCH, BATCH), BATCH)

  def _answer(self, images: np.ndarray, batch: Arrays, view_id: int) -> np.ndarray:
    """Calls the callable; says on which examples and view it failed."""
    function = self._network.host_function
    assert function is not None
    try:
      return function(images)
    except (Exception, SystemExit) as error:  # the callable is the user's and may raise anything
      ids = self.parallel.gather({name: batch[name] for name in ('example_id', 'mask')})
      examples = ids['example_id'][ids['mask']]
      view = int(np.flatnonzero(self.views.ids == view_id)[0])
      reason = str(error) if isinstance(error, InputError) else f'{type(error).__name__}: {error}'
      raise InputError(
        f'{self.name} failed on examples {examples.min()} to '
        f'{examples.max()}, {self.views.describe(view)}: {reason}'
      ) from error

  def show(
    self, variables: PyTree, batch: Arrays, view: tuple[jax.Array, Arrays]
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns every row of a batch in one view, float32 [B, H, W, C] as the classifier takes them,
    and what the view measures of these images."""
    rows = with_scaled_image(batch)
    by_view: dict[str, jax.Array] = {}
    if self.views.together:
      images, by_view = self.parallel.by_device(self._show_together, rows, variables, view)
    else:
      images = self._by_row(functools.partial(self._show_row, self._extra(variables)), rows, view)
    measured: dict[str, jax.Array] = {}
    if self.views.measure or self.views.total:
      observed = {'rows': rows, 'images': images}
      measured = self.parallel.by_device(self._observed, observed, variables, view[1])
    measured |= {f'{MEASURE}{name}': value for name, value in by_view.items()}
    return (resized(images, self.classifier.input_shape) if self.classifier else images), measured

  def _observed(
    self, observed: Mapping[str, PyTree], variables: PyTree, parameters: Arrays
  ) -> dict[str, jax.Array]:
    return observe(self.views, **observed, view=(parameters, *self._extra(variables)))

  def _extra(self, variables: PyTree) -> tuple[Logits, ...]:
    return (functools.partial(self._logits, variables),) if self.views.uses_classifier else ()

  def _logits(self, variables: PyTree, images: jax.Array) -> jax.Array:
    return self._network.apply(variables, images, ())[0]

  def _show_row(
    self, extra: tuple[Logits, ...], row: Arrays, view: tuple[jax.Array, Arrays]
  ) -> jax.Array:
    image: jax.Array = self.views.show(key_of(self.key, row, *view), row, view[1], *extra)
    return image

  def _show_together(
    self, rows: Arrays, variables: PyTree, view: tuple[jax.Array, Arrays]
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    keys = jax.vmap(lambda row: key_of(self.key, row, *view))(dict(rows))
    images: tuple[jax.Array, dict[str, jax.Array]] = self.views.show(
      keys, rows, view[1], functools.partial(self._logits, variables)
    )
    return images

  def _by_row(self, function: Callable[..., T], rows: Arrays, view: PyTree) -> T:
    """Returns `function(row, view)` of all rows: at once, or one by one on a CPU for some views."""
    if self.views.sequential and jax.default_backend() == 'cpu' and not self.views.uses_classifier:
      return self.parallel.by_device(functools.partial(map_rows, function), rows, view)
    return jax.vmap(function, (0, None))(rows, view)

  def _parts(self, layout: Layout, batch: Batch) -> Iterator[dict[str, np.ndarray]]:
    """Yields the rows of a block in parts of the size of a step, the last one padded."""
    size, columns = self.step_rows(layout), numeric_columns(batch)
    for begin in range(0, _count(layout, batch), size):
      part = {name: value[begin : begin + size] for name, value in columns.items()}
      missing = size - len(part['mask'])
      yield {
        name: np.pad(value, [(0, missing)] + [(0, 0)] * (value.ndim - 1))
        for name, value in part.items()
      }

  def _chunk(self, layout: Layout, chunk: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns ids and parameters of a chunk's views; the last view is repeated to fill it."""
    start = chunk * layout.chunk_views
    index = np.minimum(np.arange(start, start + layout.chunk_views), layout.num_views - 1)
    return self.views.ids[index], {k: v[index] for k, v in self.views.parameters.items()}

  def _collect(
    self,
    layout: Layout,
    mistakes: MistakesOfBlock | None,
    batch: Batch,
    chunk: int,
    outputs: Sequence[Arrays],
  ) -> tuple[int, int, Shard]:
    """Brings the steps' outputs to the host, cuts padding off and refuses what is no number."""
    rows, views = layout.rows(batch['block']), layout.views(chunk)
    n, v = _count(layout, batch), views.stop - views.start
    parts = [self.parallel.gather(part) for part in outputs]
    gathered = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    best = [gathered.pop(k)[:n] for k in (MISTAKE, MISTAKEN_IMAGE) if k in gathered]
    totals = {k: joined(gathered.pop(k)[:, :v]) for k in list(gathered) if k.startswith(TOTAL)}
    arrays = {k: x[:n, :v] for k, x in gathered.items()}
    if self.classifier:
      finite = arrays.pop(FINITE)
      has_gradient = arrays.pop(FINITE_IMAGE, np.ones_like(finite))
      if not (finite & has_gradient).all():
        row, view = np.argwhere(~(finite & has_gradient))[0]
        place = f'example {batch["example_id"][row]}, {self.views.describe(views.start + view)}'
        raise InputError(
          f'{self.name} gives logits that are not finite for {place}. Check the weights, the '
          'normalisation and the precision.'
          if has_gradient[row, view]
          else f'{self.name} has a gradient that is not finite for {place}, so an attack makes no '
          'image. The logarithm of a probability of exactly 0 is a frequent cause: give the '
          'logits before the softmax, or jnp.log(jnp.maximum(probabilities, '
          'jnp.finfo(jnp.float32).tiny)); see docs/your_model.md.'
        )
      distribution = arrays.pop(DISTRIBUTION, np.zeros(1))  # callables are checked by themselves
      if distribution.all() and self.classifier.num_classes > 1:
        raise InputError(f'{self.name} {NO_LOGITS}')
    for name, (total, outside) in totals.items():
      if outside.any():
        raise InputError(
          f'{name} has values outside [0, {LARGEST:g}), which cannot be summed '
          f'exactly, in {self.views.describe(views.start + int(outside.argmax()))}.'
        )
      arrays[name] = total
    for name, value in batch.items():  # the columns of the rows
      is_recorded = name not in NOT_RECORDED and not is_of_views(name)
      if is_recorded and isinstance(value, np.ndarray) and value.ndim <= 2:
        arrays[name] = value[:n]
    if mistakes and best:
      arrays |= mistakes.add(Shard(rows, views, arrays), *best)
    return batch['block'], chunk, Shard(rows, views, arrays)


def check_fit(classifier: Classifier, rows: Rows, views: Views) -> None:
  """Refuses rows with images of another shape than the classifier's, or with more classes.

  Where views show images of another shape than the rows, only their channels must fit.

  Raises:
    InputError: names both shapes or counts and the fix.
  """
  shape = views.image_shape or rows.image_shape
  free = 2 if views.image_shape else 0
  if tuple(shape[free:]) != tuple(classifier.input_shape[free:]):
    height, width, channels = classifier.input_shape
    want, have = (' × '.join(map(str, s)) for s in (classifier.input_shape, shape))
    if shape[2] != channels:
      fix = f'give images of {channels} channels, or a classifier of {shape[2]}.'
    elif height != width:
      fix = f'images are cropped to squares only: give images of {height} × {width}.'
    else:
      fix = (
        f'resize the shorter side and crop: --{KEYS.data.resize}={height} '
        f'--{KEYS.data.crop}={height}.'
      )
    raise InputError(
      f'{classifier.name} takes images of {want} (height × width × channels); the data have '
      f'{have}: {fix}'
    )
  if rows.class_names and len(rows.class_names) > classifier.num_classes:
    raise InputError(
      f'the data have {len(rows.class_names)} classes, {classifier.name} has '
      f'{classifier.num_classes}.'
    )


def check_images(batch: Batch) -> None:
  """Refuses images outside [0, 1]; names the example. Images of 8 bits always pass."""
  if batch['image'].dtype == np.uint8:
    return
  images = batch['image'][batch['mask']]
  if not (images.min() >= 0 and images.max() <= 1):
    row = int(np.argmax([not (image.min() >= 0 and image.max() <= 1) for image in images]))
    raise InputError(
      f'example {batch["example_id"][row]} has values in [{images[row].min():g}, '
      f'{images[row].max():g}]; images lie in [0, 1]: divide 8-bit ones by 255.'
    )


def check_labels(batch: Batch, classifier: Classifier) -> None:
  """Refuses labels outside the classes, and an image with one twice; names the example."""
  labels = batch['label'].reshape(len(batch['label']), -1)
  padding = labels < 0 if batch['label'].ndim == 2 else np.zeros_like(labels, bool)
  bad = batch['mask'] & (
    ((labels >= classifier.num_classes) | (labels < 0)) & ~padding | padding.all(1, keepdims=True)
  ).any(1)
  bad |= batch['mask'] & have_one_twice(labels)
  if bad.any():
    row = int(np.argmax(bad))
    raise InputError(
      f'example {batch["example_id"][row]} has label {batch["label"][row]}; '
      f'{classifier.name} has classes 0..{classifier.num_classes - 1}, of which an image has each '
      'once, and its labels are no one-hot rows.'
    )


def resized(images: jax.Array, shape: tuple[int, int, int]) -> jax.Array:
  """Returns images [B, H, W, C] of another size as a classifier takes them.

  The shorter side is resized (linear, antialiased, sides rounded) and the centre cropped.
  """
  height, width = images.shape[1:3]
  if (height, width) == tuple(shape[:2]):
    return images
  scale = max(shape[0] / height, shape[1] / width)
  sides = max(shape[0], round(height * scale)), max(shape[1], round(width * scale))
  size = (len(images), *sides, images.shape[3])
  images = jax.image.resize(images, size, 'linear', antialias=True)
  y, x = (sides[0] - shape[0]) // 2, (sides[1] - shape[1]) // 2
  return images[:, y : y + shape[0], x : x + shape[1]]


def even_part(total: int, largest: int, multiple: int = 1) -> int:
  """Returns the size of a part when `total` is cut evenly into the fewest parts of ≤ `largest`.

  It is rounded up to a multiple of a number that divides `largest`, which leaves less to the last.
  """
  parts = -(-total // max(1, largest))
  return -(-total // (parts * multiple)) * multiple


def distance(first: jax.Array, second: jax.Array) -> jax.Array:
  """Returns ‖first - second‖₂ of each row, float32 [B], over all other axes."""
  difference = (first.astype(jnp.float32) - second.astype(jnp.float32)).reshape(len(first), -1)
  return jnp.sqrt((difference**2).sum(-1))


def _first_present(layout: Layout, missing: Sequence[int]) -> int | None:
  """Returns the first chunk of a block that is not missing; None where all are."""
  return next((chunk for chunk in range(layout.num_chunks) if chunk not in missing), None)


def _host_columns(batch: Batch) -> Batch:
  """Returns the columns of a block but its images, and the digest of each image."""
  columns = {name: values for name, values in batch.items() if name != 'image'}
  return {**columns, IMAGE_DIGEST: image_digests(batch['image'])}


def _count(layout: Layout, batch: Batch) -> int:
  """Returns how many of a block's rows are not padding."""
  rows = layout.rows(batch['block'])
  return rows.stop - rows.start


def _filled(values: list[np.ndarray], count: int) -> np.ndarray:
  """Returns the views' values [rows, count, ...], the last one repeated to fill a chunk."""
  return np.stack(values + values[-1:] * (count - len(values)), 1)
