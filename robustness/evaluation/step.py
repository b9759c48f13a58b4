"""The step of an evaluation: what one compiled program computes for some rows in some views.

A step takes a batch of rows and a chunk of views, makes the images and predicts them on the
devices, and returns recorded values of shape [rows, views]. Images of views are not copied to the
host, unless the classifier is a function on the host. `robustness.evaluation.runner` calls it for
all rows and views.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.core.pixels import with_scaled_image
from robustness.core.sequential import map_rows
from robustness.core.typing import PyTree
from robustness.evaluation.fit import resize_to_input
from robustness.evaluation.measurements import MEASURE, split_sum, summarise
from robustness.evaluation.records import TOTAL
from robustness.evaluation.stored_pictures import Mistakes, add_view, no_mistakes
from robustness.evaluation.study import IMAGES
from robustness.evaluation.views import Arrays, Observe, Views, ViewTable, view_key
from robustness.models.callables import are_distributions
from robustness.models.classifier import Classifier
from robustness.parallel import Parallel
from robustness.parallel.mesh import BATCH, REPLICATED, Compiled

T = TypeVar('T')
Logits = Callable[[jax.Array], jax.Array]
View = tuple[jax.Array, Arrays]
"""Id and parameters of a view, or ids and parameters of the views of a chunk, on the devices."""
HostView = tuple[np.ndarray, Mapping[str, np.ndarray]]
"""Id and parameters of a view, or of the views of a chunk, on the host."""
Fields = dict[str, jax.Array]
"""{field: values} of the rows of a step."""
Shown = tuple[jax.Array, Fields]
"""The images of a view, and what was measured on them."""
DISTRIBUTION = 'distribution'
"""Field of a step, bool [rows, views]: whether the logits look like probabilities."""
FINITE_IMAGE = 'finite_image'
"""Field of a step, bool [rows, views]: whether all pixels of the shown image are finite."""
MISTAKE, MISTAKEN_IMAGE = 'mistake', 'mistaken_image'
"""Fields of a step, [rows] and [rows, H, W, C]: confidence and image of each row's most confident
mistake."""
PLACEMENT = REPLICATED, BATCH, REPLICATED
"""How (variables, batch, views) are placed: the rows of a batch are divided over devices."""
MAX_VIEWS_AT_ONCE = 4
"""Most views in one batch on an accelerator. The rate is 1.04 to 1.25 times the rate of one view at
a time on an NVIDIA H200 (docs/records/benchmarks.md)."""


@dataclasses.dataclass(frozen=True)
class Step:
  """Perturbs and predicts a batch of images in some views, in one compiled program.

  A view is one way of perturbing an image, such as fog at severity 3. A call has a batch of images
  (rows) and a chunk of views, and returns the values to record.

  Attributes:
    classifier: the classifier; None for a study that only measures images.
    views: the views.
    key: root key of the study's random numbers.
    parallel: the devices, and how the program is distributed over them. A classifier that calls a
      Python function on the host uses the first device only.
    layers: names of layers h for which ‖z_h(x) - z_h(x̃)‖₂ is recorded. z_h is the output of the
      layer, x the stored image and x̃ the image in the view.
    outputs: names of layers with a recorded output.
    summarise_output: called with (layer name, output [rows, ...]); returns the values [rows, ...]
      to record. By default it returns the whole output.
    views_at_once: number of views that the network predicts in one batch. The program loops over
      groups of this size (`lax.map`). 0 takes 1 on a CPU. On an accelerator it takes the largest
      divisor of the chunk's size up to `MAX_VIEWS_AT_ONCE`. It takes 1 for views with gradients or
      branches (`Views.sequential`), because `vmap` would compute every branch.
    pictured: the table of all views if pictures of mistakes are stored with the records, else None
      (see `robustness.evaluation.stored_pictures`). With pictures, views are computed one at a
      time.
  """

  classifier: Classifier | None
  views: Views
  key: jax.Array
  parallel: Parallel
  layers: tuple[str, ...] = ()
  outputs: tuple[str, ...] = ()
  summarise_output: Callable[[str, jax.Array], jax.Array] = lambda _, output: output
  views_at_once: int = 0
  pictured: ViewTable | None = None

  def __post_init__(self) -> None:
    """Restricts a classifier that calls a Python function on the host to the first device."""
    if self.classifier and self.classifier.calls_host and self.parallel.num_devices > 1:
      # an attribute of a frozen class cannot be set in the usual way
      object.__setattr__(self, 'parallel', type(self.parallel)(self.parallel.devices[:1]))

  @property
  def name(self) -> str:
    """The label of the classifier; 'images' (`IMAGES`) if there is none."""
    return self.classifier.name if self.classifier else IMAGES

  @property
  def _network(self) -> Classifier:
    """The classifier, which must not be None."""
    assert self.classifier is not None
    return self.classifier

  def _group_size(self, chunk_views: int) -> int:
    """Returns the number of views that the network predicts in one batch.

    It is `self.views_at_once`. If that is 0, the number is 1 for views (ways of perturbing images)
    with branches or gradients, on a CPU, and for a classifier on the host. Otherwise it divides the
    number of views, so that all batches are full.

    Args:
      chunk_views: number of views in a call.
    """
    has_branches = self.views.sequential or self.views.uses_classifier
    is_on_host = jax.default_backend() == 'cpu' or (self.classifier and self.classifier.calls_host)
    if self.views_at_once or has_branches or is_on_host:
      return max(1, self.views_at_once)
    return max(n for n in range(1, MAX_VIEWS_AT_ONCE + 1) if chunk_views % n == 0)

  def run(self, variables: PyTree, batch: Arrays, chunk: HostView) -> Fields:
    """Predicts a batch of images in a chunk of views, and returns {field: [rows, views, ...]}.

    The compiled `step` does it, or `_run_host_function` for a classifier that is a Python function
    on the host and cannot be compiled.

    Args:
      variables: the classifier's weights.
      batch: columns [rows, ...] on the devices.
      chunk: ids [views] and parameters {name: [views, ...]} of the views, on the host.
    """
    if self.classifier and self.classifier.host_function:
      return self._run_host_function(variables, batch, chunk)
    fields: Fields = self.compiled(variables, batch, self.parallel.replicate(chunk))
    return fields

  @functools.cached_property
  def _programs(self) -> dict[Hashable, Compiled]:
    """Cache of `_program`, {name: compiled function}."""
    return {}

  def _program(
    self, name: Hashable, function: Callable[..., PyTree], inputs: Sequence[str], outputs: PyTree
  ) -> Compiled:
    """Returns a compiled function. A function of the same name is compiled once.

    `Parallel.compile` describes the other arguments.
    """
    if name not in self._programs:
      self._programs[name] = self.parallel.compile(function, inputs, outputs)
    return self._programs[name]

  def prepared(self, batch: Arrays) -> Arrays:
    """Applies the compiled `_prepare` to the columns of a batch, {name: [B, ...]}.

    Without `Views.prepare` the batch is returned unchanged, and nothing is compiled.
    """
    if self.views.prepare is None:
      return batch
    columns: Arrays = self._program('prepare', self._prepare, (BATCH,), BATCH)(batch)
    return columns

  def _prepare(self, batch: Arrays) -> Arrays:
    """Computes what all views of a study share, for each image of a batch, if anything.

    Args:
      batch: columns of the images, {name: [B, ...]}.

    Returns:
      The batch, with columns that `Views.prepare` adds or replaces.
    """
    prepare = self.views.prepare
    if prepare is None:
      return batch
    # the second argument, a view, is None: the preparation is the same for all views
    return self._by_row(lambda row, _: prepare(row), with_scaled_image(batch), None)

  @property
  def compiled(self) -> Compiled:
    """The compiled `step`: (variables, batch, chunk of views) -> {field: [rows, views, ...]}."""
    return self._program('step', self.step, PLACEMENT, BATCH)

  def step(self, variables: PyTree, batch: Arrays, chunk: View) -> Fields:
    """Perturbs and predicts a batch of images in a chunk of views (ways of perturbing images).

    It is a pure function. The values of an image do not depend on other images.

    Args:
      variables: the classifier's weights; None without a classifier.
      batch: columns [rows, ...].
      chunk: ids [views] and parameters {name: [views, ...]} of the views.

    Returns:
      The values to record, {field: [rows, views, ...]}. A sum over images, `total/NAME`, is
      [devices, views, 3, ...], with the three integers of `split_sum`. With `pictured` there are
      also confidence and image of each row's most confident mistake, `MISTAKE` [rows] and
      `MISTAKEN_IMAGE` [rows, H, W, C].
    """
    batch = with_scaled_image(batch)
    # `apply` returns (logits, {layer: output}); `clean` are the outputs for the stored images
    clean = self._network.apply(variables, batch['image'], self.layers)[1] if self.layers else {}

    def show_and_predict(view: View) -> Shown:
      """Perturbs a batch in one view, and predicts it if there is a classifier.

      Args:
        view: id and parameters of the view, a way of perturbing images.

      Returns:
        The images [rows, H, W, C], and the values to record, {field: [rows, ...]}.
      """
      images, fields = self.show(variables, batch, view)
      if self.classifier:
        logits, outputs = self._network.apply(variables, images, (*self.layers, *self.outputs))
        fields |= self._predictions(batch, logits, outputs, clean)
      return images, fields

    def add_next_view(mistakes: Mistakes, view: View) -> tuple[Mistakes, Fields]:
      """Returns the most confident mistakes up to this view, and the view's values to record."""
      images, fields = show_and_predict(view)
      return add_view(mistakes, images, fields), fields

    pictures = {}
    if self.pictured:
      mistakes, by_view = jax.lax.scan(add_next_view, no_mistakes(batch['image']), chunk)
      confidence, image = mistakes
      pictures = {MISTAKE: confidence, MISTAKEN_IMAGE: image}
    else:
      ids, _ = chunk
      group_size = self._group_size(len(ids))
      batch_size = group_size if group_size > 1 else None  # None loops without `vmap`
      # [1] selects the fields: images are not returned
      by_view = jax.lax.map(lambda view: show_and_predict(view)[1], chunk, batch_size=batch_size)
    # `scan` and `map` return [views, rows, ...]; the result is [rows, views, ...]
    return {name: jnp.moveaxis(values, 0, 1) for name, values in by_view.items()} | pictures

  def _predictions(
    self, batch: Arrays, logits: jax.Array, outputs: Arrays, clean: Arrays
  ) -> Fields:
    """Returns the values to record of the predictions in one view, {field: [rows, ...]}.

    Args:
      batch: columns of the images.
      logits: logits in the view, [rows, classes].
      outputs: {layer: output [rows, ...]} in the view.
      clean: {layer: output [rows, ...]} for the stored images, of the layers in `layers`.
    """
    return {
      **summarise(logits, batch['label']),
      DISTRIBUTION: are_distributions(logits),
      **{f'output/{n}': self.summarise_output(n, outputs[n]) for n in self.outputs},
      **{f'layer_change/{name}': distance(clean[name], outputs[name]) for name in clean},
    }

  def _run_host_function(self, variables: PyTree, batch: Arrays, chunk: HostView) -> Fields:
    """Does the work of `step` for a classifier that is a Python function on the host.

    The devices make the images of one view after another. Meanwhile the host calls the classifier
    on the images of the view before. At the end the devices compute the values to record from the
    logits of all views (ways of perturbing images).

    Args:
      variables: the classifier's weights.
      batch: columns [rows, ...] on the devices.
      chunk: ids [views] and parameters {name: [views, ...]} of the views, on the host.

    Returns:
      The values to record, {field: [rows, views, ...]}.
    """
    ids, _ = chunk
    num_views = len(np.unique(ids))  # without repeats of the last view, which fill the last chunk
    views = [view_at(chunk, index) for index in range(num_views)]
    logits, measured = [], []  # an entry for each view
    # (variables, batch, one view) -> (images, {field: [B, ...]})
    show = self._program('show', self.show, PLACEMENT, BATCH)
    pending = show(variables, batch, self.parallel.replicate(views[0]))
    for number in range(num_views):
      images, fields = self.parallel.gather(pending)  # waits for the devices and copies to the host
      if number + 1 < num_views:  # starts the next view, and does not wait
        pending = show(variables, batch, self.parallel.replicate(views[number + 1]))
      logits.append(self._call_host_function(images, batch, ids[number]))
      measured.append(fields)
    # repeats the last view, as the chunk does: [rows, views, ...]
    chunk_logits = _filled(logits, len(ids))
    chunk_fields = {k: _filled([fields[k] for fields in measured], len(ids)) for k in measured[0]}
    logits_on_devices, recorded = self.parallel.put_batch((chunk_logits, chunk_fields))
    return {**self._reduce_logits(logits_on_devices, batch['label']), **recorded}

  @functools.cached_property
  def _reduce_logits(self) -> Compiled:
    """The compiled function that reduces logits to the values to record, such as predictions.

    It is called with logits [B, V, classes] of B images in V views (ways of perturbing images) and
    labels [B], and returns {field: [B, V, ...]}.
    """

    def reduce_view(logits: jax.Array, label: jax.Array) -> Fields:
      """Returns the values to record of one view, {field: [B, ...]}.

      Args:
        logits: logits of a batch in the view, [B, classes].
        label: the true classes, [B].
      """
      outputs = {f'output/{name}': self.summarise_output(name, logits) for name in self.outputs}
      return {**summarise(logits, label), **outputs}

    # the views are axis 1 of the logits and of the results; the labels are the same for all views
    reduce = jax.vmap(reduce_view, in_axes=(1, None), out_axes=1)
    return self.parallel.compile(reduce, (BATCH, BATCH), BATCH)

  def _call_host_function(self, images: np.ndarray, batch: Arrays, view_id: int) -> np.ndarray:
    """Calls a classifier on the host with images of one view, and returns logits [B, classes].

    Raises:
      InputError: the function raises an error. The message names the images of the batch and the
        view (a way of perturbing images).
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
    """Perturbs every image of a batch in one view, and resizes them to the classifier's input.

    Args:
      variables: the classifier's weights; None without a classifier.
      batch: columns [B, ...].
      view: id and parameters {name: [...]} of the view (a way of perturbing images).

    Returns:
      The images, float32 [B, H, W, C], and what the view measures, a dictionary:

      * `measure/<name>` [B, ...] has a value for each image, from `Views.measure`. Views shown
        `together` have it from `Views.show`.
      * `total/<name>` [devices, 3, ...] has sums of `Views.total` over the images of each device,
        as the three integers of `split_sum`.
    """
    rows = with_scaled_image(batch)
    measured: Fields = {}
    if self.views.together:
      images, measures = self.parallel.by_device(self._show_together, rows, variables, view)
      measured = {f'{MEASURE}{name}': values for name, values in measures.items()}
    else:
      show_row = functools.partial(self._show_row, self._logits_argument(variables))
      images = self._by_row(show_row, rows, view)
    if self.views.measure or self.views.total:
      _, parameters = view
      rows_and_images = {'rows': rows, 'images': images}
      observed = self.parallel.by_device(self._observe, rows_and_images, variables, parameters)
      measured = {**observed, **measured}
    stored = batch.get('image', images)  # `Views.prepare` may have replaced the stored image
    shape = self.views.image_shape or stored.shape[1:]
    if images.shape[1:] != shape or not jnp.issubdtype(images.dtype, jnp.floating):
      raise InputError(
        f'the views show images {images.dtype} {list(images.shape[1:])}: give floats in [0, 1] of '
        f'the shape {list(shape)}, or state another one as Views(..., image_shape=...).'
      )
    if self.classifier:
      measured[FINITE_IMAGE] = jnp.isfinite(images).all((1, 2, 3))
      images = resize_to_input(images, self.classifier.input_shape)
    return images, measured

  def _observe(
    self, rows_and_images: Mapping[str, PyTree], variables: PyTree, parameters: Arrays
  ) -> Fields:
    """Measures the images of one device in one view, by `Views.measure` and `Views.total`.

    Args:
      rows_and_images: {'rows': columns [B, ...], 'images': images in the view [B, H, W, C]}.
      variables: the classifier's weights; None without a classifier.
      parameters: the parameters of the view (a way of perturbing images).

    Returns:
      `measure/<name>` [B, ...], values of each image; and `total/<name>` int32 [1, 3, ...], sums
      over the images as the three integers of `split_sum`.
    """
    rows, images = rows_and_images['rows'], rows_and_images['images']
    arguments = (parameters, *self._logits_argument(variables))  # after the row and its image

    def by_row(function: Observe) -> Arrays:
      """Applies a function of one image to all images, {name: [B, ...]}."""
      return jax.vmap(lambda row, image: function(row, image, *arguments))(dict(rows), images)

    observed: Fields = {}
    if self.views.total:
      for name, values in by_row(self.views.total).items():
        observed[f'{TOTAL}{name}'] = split_sum(values, rows['mask'])
    if self.views.measure:
      for name, values in by_row(self.views.measure).items():
        observed[f'{MEASURE}{name}'] = values
    return observed

  def _logits_argument(self, variables: PyTree) -> tuple[Logits, ...]:
    """Returns the function from images to logits, as a tuple of further arguments of `Views.show`.

    The tuple is empty for views without `uses_classifier`, which take no such argument.
    """
    return (functools.partial(self._logits, variables),) if self.views.uses_classifier else ()

  def _logits(self, variables: PyTree, images: jax.Array) -> jax.Array:
    """Returns the logits [B, classes] of images."""
    return self._network.apply(variables, images, ())[0]

  def _show_row(self, logits_argument: tuple[Logits, ...], row: Arrays, view: View) -> jax.Array:
    """Returns one image as a view shows it, [H, W, C].

    Args:
      logits_argument: further arguments of `Views.show`, from `_logits_argument`.
      row: columns of the image.
      view: id and parameters of the view (a way of perturbing images).
    """
    view_id, parameters = view
    key = view_key(self.key, row, view_id, parameters)
    image: jax.Array = self.views.show(key, row, parameters, *logits_argument)
    return image

  def _show_together(self, rows: Arrays, variables: PyTree, view: View) -> Shown:
    """Perturbs all B images of one device in a single call of `Views.show`.

    Used for views with `Views.together`, such as attacks.

    Args:
      rows: columns [B, ...].
      variables: the classifier's weights.
      view: id and parameters of the view.

    Returns:
      The images [B, H, W, C], and what `Views.show` measures, {name: [B, ...]}.
    """
    view_id, parameters = view
    keys = jax.vmap(lambda row: view_key(self.key, row, view_id, parameters))(dict(rows))
    logits = functools.partial(self._logits, variables)
    result: Shown = self.views.show(keys, rows, parameters, logits)
    return result

  def _by_row(self, function: Callable[..., T], rows: Arrays, view: PyTree) -> T:
    """Applies `function(row, view)` to each of B images, and stacks the results, [B, ...].

    Images are computed together (`vmap`), which computes all branches of a `lax.cond`. With
    `Views.sequential`, a CPU computes one after another instead. Views that call the classifier are
    an exception, because a classifier is faster on a batch.
    """
    if self.views.sequential and jax.default_backend() == 'cpu' and not self.views.uses_classifier:
      return self.parallel.by_device(functools.partial(map_rows, function), rows, view)
    return jax.vmap(function, (0, None))(rows, view)


def view_at(chunk: PyTree, index: int) -> PyTree:
  """Selects one view of a chunk, and returns its id and parameters.

  Args:
    chunk: ids [v] and parameters [v, ...] of the views.
    index: position of the view in the chunk.
  """
  return jax.tree.map(lambda values: values[index], chunk)


def distance(first: jax.Array, second: jax.Array) -> jax.Array:
  """Returns ‖first − second‖₂ for each of B images, float32 [B], over all other axes."""
  difference = (first.astype(jnp.float32) - second.astype(jnp.float32)).reshape(len(first), -1)
  return jnp.sqrt((difference**2).sum(-1))


def _filled(values: list[np.ndarray], count: int) -> np.ndarray:
  """Stacks the values of several views along axis 1, padded to `count` views.

  The padding repeats the values of the last view.

  Args:
    values: an array [rows, ...] per view.
    count: number of views of the result, [rows, count, ...].
  """
  padding = [values[-1]] * (count - len(values))
  return np.stack(values + padding, 1)
