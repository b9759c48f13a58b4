"""One step of training, a pure function that runs under jit or pmap.

policy ─▶ attack ─▶ input filter ─▶ network ─▶ objective ─▶ update. Every part is chosen by name;
see `Augmentation`, `Attack`, `InputFilter` and `Objective`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from robustness.augment import with_more_images
from robustness.augment.policy import OCCURRENCE, row_keys
from robustness.core import random_keys
from robustness.core.errors import KEYS, InputError, SettingError
from robustness.core.pixels import with_scaled_image
from robustness.core.typing import PyTree
from robustness.models.layers import FEATURES, sown_features
from robustness.objectives import State
from robustness.parallel import Parallel
from robustness.training import optimizer, schedule
from robustness.training.auxiliary_norms import swapped
from robustness.training.state import TrainState, begun_with
from robustness.training.training import Training, check_batch

T = TypeVar('T')
Batch = dict[str, jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StepScalars:
  """Numbers that differ between trainings of one program, or between its steps.

  They are arguments of the compiled step, so that trainings that differ in seed, rates or length
  share one program.

  Attributes:
    seed: uint32, the seed of the parts' random keys.
    learning_rate: float32, η of this step, which a plateau's factor multiplies.
    stem_rate: float32, 1 as long as the first layer is trained, then 0.
    epoch_steps: int32, the steps over which a plateau averages the loss.
    total_steps: float32, the steps of the training.
  """

  seed: jax.Array
  learning_rate: jax.Array
  stem_rate: jax.Array
  epoch_steps: jax.Array
  total_steps: jax.Array

  @classmethod
  def at(cls, training: Training, step: int | jax.Array) -> Self:
    """Returns the numbers of step `step` of a training, the first of which is 0; it may be
    traced."""
    settings, examples = training.settings, training.rows.num_examples
    stem_steps = schedule.stem_steps(settings, examples)
    is_trained = jnp.asarray(step) < stem_steps if stem_steps else jnp.asarray(True)
    return cls(
      jnp.asarray(np.uint32(training.seed)),
      jnp.asarray(training.learning_rate(step), jnp.float32),
      is_trained.astype(jnp.float32),
      jnp.asarray(schedule.epoch_steps(settings, examples), jnp.int32),
      jnp.asarray(training.total_steps, jnp.float32),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class TrainStep:
  """`(state, batch[, scalars]) -> (state, metrics)`.

  Attributes:
    training: whose step it is.
    parallel: the devices that share the batch, whose `compile` the step is given to; None on one.
  """

  training: Training
  parallel: Parallel | None = None

  def __call__(
    self, state: TrainState, batch: Batch, scalars: StepScalars | None = None
  ) -> tuple[TrainState, dict[str, jax.Array]]:
    """Takes one step; without `scalars` those of the training become part of the program.

    Of a batch it takes `image` [B, H, W, C], uint8 or float32 in [0, 1], `label` int32 [B], or
    [B, L] padded with −1, `example_id` int32 [B], and the columns that the parts need. The target
    of an image of several labels is shared equally among them, and the first one stands for it
    where one label is needed. It returns the state after, and
    float32 scalars over the whole batch: `loss`, `accuracy` (top-1 of the images as they are
    trained on, against `label`), `gradient_norm` (before clipping and weight decay),
    `learning_rate`, and the objective's and the augmentations' own.
    """
    training, batch = self.training, with_scaled_image(batch)
    scalars = StepScalars.at(training, state.step) if scalars is None else scalars
    labels = batch['label'].reshape(len(batch['label']), -1)
    count = (labels >= 0).sum(1, keepdims=True)
    batch = {
      **batch,
      'label': labels[:, 0],
      'target': jax.nn.one_hot(labels, training.num_classes).sum(1) / count.astype(jnp.float32),
      OCCURRENCE: random_keys.occurrences(batch['example_id'], self.axis_name),
    }
    batch = training.pipeline.policy(batch, scalars.seed, state.step, self.parallel)
    self._check_auxiliary(batch['image'].shape)
    gradients, batch_stats, objective, metrics = self._gradients(state, batch, scalars.seed)
    transformation = optimizer.create(
      training.settings,
      lambda _: scalars.learning_rate,
      scalars.epoch_steps,
      (lambda _: scalars.stem_rate) if training.settings.stem_epochs else None,
    )
    updates, opt_state = transformation.update(
      gradients, state.opt_state, state.params, value=metrics['loss']
    )
    params = optax.apply_updates(state.params, updates)
    rate = scalars.learning_rate * optimizer.rate_factor(opt_state)
    metrics |= {'gradient_norm': optax.tree.norm(gradients), 'learning_rate': rate}
    after = state.replace(
      step=state.step + 1,
      params=params,
      batch_stats=batch_stats,
      opt_state=opt_state,
      objective=objective,
    )
    after = after.averaged(training.settings.ema_decay)
    return after.drawn_to_slow(training.settings.lookahead, scalars.total_steps), metrics

  @property
  def axis_name(self) -> str | None:
    """The axis of pmap, None under jit."""
    return self.parallel.axis_name if self.parallel else None

  def total(self, tree: T) -> T:
    """Sums arrays over the devices that share the batch."""
    return tree if self.axis_name is None else jax.lax.psum(tree, self.axis_name)

  def _gradients(
    self, state: TrainState, batch: Batch, seed: jax.Array
  ) -> tuple[PyTree, PyTree, State, State]:
    """Returns the gradient of the weighted mean loss, new statistics, objective state, metrics."""

    def add(carry: PyTree, micro: Batch) -> tuple[PyTree, None]:
      sums, batch_stats, objective = carry
      new, batch_stats, objective = self._micro_batch(state, batch_stats, objective, micro, seed)
      return (jax.tree.map(jnp.add, sums, new), batch_stats, objective), None

    begin, count = (state.batch_stats, state.objective), self.training.settings.accumulate
    if count == 1:
      means, batch_stats, objective = self._micro_batch(state, *begin, batch, seed)
    else:
      parts = jax.tree.map(lambda x: _split(x, count), batch)
      first = jax.tree.map(lambda x: x[0], parts)
      shapes = jax.eval_shape(lambda: self._micro_batch(state, *begin, first, seed)[0])
      zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
      (sums, batch_stats, objective), _ = jax.lax.scan(add, (zeros, *begin), parts)
      means = jax.tree.map(lambda x: x / count, sums)
    if self.axis_name is not None:
      means = jax.lax.pmean(means, self.axis_name)
    gradients, weight, metrics = means
    divided = jax.tree.map(lambda g: g / weight, gradients)
    return divided, batch_stats, objective, {**metrics, 'loss': metrics['loss'] / weight}

  def _micro_batch(
    self, state: TrainState, batch_stats: PyTree, objective: State, batch: Batch, seed: jax.Array
  ) -> tuple[PyTree, PyTree, State]:
    """Returns means over the rows (of the gradient, the weights, the metrics), and new states.

    The loss is Σ weights · losses / rows here; it is divided by the mean weight of the whole batch
    at the end, for weights may differ between micro-batches and devices.
    """
    batch = self._attacked(state, batch_stats, batch, seed)
    minimise = self.training.pipeline.objective
    moves = not self.training.settings.freeze_statistics

    def loss_of(params: PyTree) -> tuple[jax.Array, PyTree]:
      outputs, changed = self._with_auxiliary(params, batch_stats, batch['image'], moves)
      losses, weights, after, metrics = minimise(outputs, batch, objective, self.total)
      weights = jax.lax.stop_gradient(weights)
      return (losses * weights).mean(), (outputs['logits'], changed, weights.mean(), after, metrics)

    (loss, (logits, changed, weight, after, metrics)), gradients = jax.value_and_grad(
      loss_of, has_aux=True
    )(state.params)
    label = batch['label'].reshape(-1, *[1] * (logits.ndim - 2))
    accuracy = jnp.mean(jnp.argmax(logits, -1) == label, dtype=jnp.float32)
    metrics = {**metrics, **self.training.pipeline.policy.metrics(batch)}
    means = (gradients, weight, {'loss': loss, 'accuracy': accuracy, **metrics})
    return means, changed, after

  def _check_auxiliary(self, shape: tuple[int, ...]) -> None:
    count, given = self.training.settings.auxiliary_norms, shape[1] if len(shape) == 5 else 1
    if count and count >= given:
      raise SettingError(
        KEYS.training.auxiliary_norms,
        count,
        problem=f'and the policy gives {given} image{"s" * (given > 1)} a row, the first of which '
        "needs the network's own normalisation",
        fix=f'Put {with_more_images()} into {KEYS.classifier.augment.policy}, or set it lower.',
      )

  def _with_auxiliary(
    self, params: PyTree, batch_stats: PyTree, images: jax.Array, train: bool
  ) -> tuple[dict[str, jax.Array], PyTree]:
    """Returns what `_forward` does, the last images of each row through the second set of norms."""
    count = self.training.settings.auxiliary_norms
    if not count:
      return self._forward(params, batch_stats, images, train)
    outputs, batch_stats = self._forward(params, batch_stats, images[:, :-count], train)
    own = swapped({'params': params, 'batch_stats': batch_stats})
    further, changed = self._forward(own['params'], own['batch_stats'], images[:, -count:], train)
    both = jax.tree.map(lambda *x: jnp.concatenate(x, 1), outputs, further)
    return both, swapped({'batch_stats': changed})['batch_stats']

  def _forward(
    self, params: PyTree, batch_stats: PyTree, images: jax.Array, train: bool
  ) -> tuple[dict[str, jax.Array], PyTree]:
    """Returns outputs of images [B, H, W, C] or [B, V, H, W, C], and the statistics after.

    Outputs are `logits` [B, classes] or [B, V, classes], and `FEATURES` if the objective needs it.
    """
    features = self.training.pipeline.objective.needs_features
    flat = images.reshape(-1, *images.shape[-3:])
    logits, changed = self.training.model.apply(
      {'params': params, 'batch_stats': batch_stats},
      self.training.inputs(flat),
      train=train,
      mutable=['batch_stats', *(['intermediates'] if features else [])],
    )
    outputs = {'logits': logits}
    if features:
      sown = sown_features(changed.get('intermediates', {}))
      if sown is None:
        raise InputError(
          'this network does not say what its last linear map is given: have its head call '
          f"self.sow('intermediates', '{FEATURES}', x), or end it with robustness.models.layers."
          'LinearHead.'
        )
      outputs[FEATURES] = sown
    outputs = {name: x.reshape(*images.shape[:-3], -1) for name, x in outputs.items()}
    return outputs, changed.get('batch_stats', batch_stats)

  def _attacked(
    self, state: TrainState, batch_stats: PyTree, batch: Batch, seed: jax.Array
  ) -> Batch:
    """Puts adversarial examples in place of the images, each found with its own key."""
    attack, images = self.training.pipeline.attack, batch['image']
    if attack is None:
      return batch
    keys = row_keys(batch, seed, attack.name, state.step)
    if images.ndim == 5:
      keys = jax.vmap(lambda key: jax.random.split(key, images.shape[1]))(keys).ravel()
    labels = jnp.broadcast_to(
      batch['label'].reshape(-1, *[1] * (images.ndim - 4)), images.shape[:-3]
    )
    train = attack.statistics == 'batch' and not self.training.settings.freeze_statistics

    def logits(flat: jax.Array) -> jax.Array:
      return self._forward(state.params, batch_stats, flat, train)[0]['logits']

    flat = jnp.clip(images.reshape(-1, *images.shape[-3:]), 0, 1)  # an augmentation may leave it
    adversarial = attack.worst(1, keys, logits, flat, labels.ravel())
    return {**batch, 'image': adversarial.reshape(images.shape)}


def check(training: Training, row: Mapping[str, Any]) -> None:
  """Refuses what a step would be refused for, by tracing one on shapes; computes nothing.

  Raises:
    InputError: a row (as `Rows.batches` gives it) that does not fit, a column that the objective
      needs and there is not, initial weights of another shape, or parts that do not fit each
      other or the images.
  """
  size = training.settings.batch_size
  of_row = {name: value for name, value in row.items() if name != 'mask'}
  columns = check_batch(of_row, training.rows.image_shape, training.num_classes)
  columns = {**columns, **training.order.columns(0, size)}
  training.check_columns(columns)
  state = training.state_shapes()
  begun_with(state, training.initial)
  training.check_network(state)
  axis = getattr(training.model, 'axis_name', None)
  lead = (1, size) if axis else (size,)
  batch = {
    name: jax.ShapeDtypeStruct(
      (*lead, *value.shape[1:]), jax.dtypes.canonicalize_dtype(value.dtype)
    )
    for name, value in columns.items()
  }
  step = TrainStep(training)
  jax.eval_shape(jax.vmap(step, (None, 0), axis_name=axis) if axis else step, state, batch)


def _split(x: jax.Array, parts: int) -> jax.Array:
  """[B, ...] → [parts, B / parts, ...]; part p holds rows p, p + parts, ...

  Strided rows leave every device a share of every part, and make the parts the same sets of rows
  whether or not the batch was cut by device before.
  """
  return jnp.moveaxis(x.reshape(-1, parts, *x.shape[1:]), 1, 0)
