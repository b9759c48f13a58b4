"""One step of training, a pure function that runs under jit or pmap.

policy ─▶ attack ─▶ input filter ─▶ network ─▶ objective ─▶ update. The policy is a sequence of
`Augmentation`s; see also `Attack`, `InputFilter` and `Objective`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.errors import FlaxError

from robustness.augment import multi_image_augmentations
from robustness.augment.policy import OCCURRENCE, row_keys
from robustness.core import random_keys
from robustness.core.errors import KEYS, InputError, SettingError
from robustness.core.pixels import with_scaled_image
from robustness.core.typing import PyTree, Variables
from robustness.models.layers import DROP_PATH, FEATURES, Network, sown_features
from robustness.objectives import State
from robustness.parallel import Parallel
from robustness.training import depth, optimizer
from robustness.training.auxiliary_norms import swap_norms
from robustness.training.schedule import StepScalars
from robustness.training.state import TrainState, with_initial
from robustness.training.training import Training, check_batch

T = TypeVar('T')
Batch = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True, eq=False)
class TrainStep:
  """A training step, called as `(state, batch[, scalars]) -> (state, metrics)`.

  Attributes:
    training: the specification of the training.
    parallel: the devices that share the batch; None for one device.
  """

  training: Training
  parallel: Parallel | None = None

  def __call__(
    self, state: TrainState, batch: Batch, scalars: StepScalars | None = None
  ) -> tuple[TrainState, dict[str, jax.Array]]:
    """Takes one training step and returns the new state and metrics.

    Args:
      state: the state before the step.
      batch: `image` [B, H, W, C], uint8 or float32 in [0, 1]; `label` int32 [B], or [B, L] padded
        with −1; `example_id` int32 [B]; and the columns that the augmentations and the objective
        need. An image with several labels has the same probability for each as target. Parts that
        need one label take the first.
      scalars: seed, learning rate and other numbers of this step. None compiles them into the
        program.

    Returns:
      The state after the step, and float32 scalars over the whole batch: `loss`, `accuracy` (top-1
      on augmented images), `gradient_norm` (before clipping and weight decay), `learning_rate`, and
      the metrics of the objective and the augmentations.
    """
    training, batch = self.training, with_scaled_image(batch)
    scalars = training.scalars(state.step) if scalars is None else scalars
    labels = batch['label'].reshape(len(batch['label']), -1)  # [B, L], also for a single label
    num_labels = (labels >= 0).sum(1, keepdims=True).astype(jnp.float32)
    batch = {
      **batch,
      'label': labels[:, 0],
      # one_hot of the padding, −1, is all 0
      'target': jax.nn.one_hot(labels, training.num_classes).sum(1) / num_labels,
      # the number of earlier copies of the image in the batch, so that each copy has other keys
      OCCURRENCE: random_keys.occurrences(batch['example_id'], self.axis_name),
    }
    batch = training.pipeline.policy(batch, scalars.seed, state.step, self.parallel)
    self._check_auxiliary(batch['image'].shape)
    gradients, batch_stats, objective, metrics = self._gradients(state, batch, scalars.seed)
    update = optimizer.create(
      training.settings, scalars.learning_rate, scalars.epoch_steps, scalars.stem_rate
    ).update
    updates, opt_state = update(gradients, state.opt_state, state.params, value=metrics['loss'])
    rate = scalars.learning_rate * optimizer.rate_factor(opt_state)
    metrics |= {'gradient_norm': optax.tree.norm(gradients), 'learning_rate': rate}
    new_state = state.replace(
      step=state.step + 1,
      params=optax.apply_updates(state.params, updates),
      batch_stats=batch_stats,
      opt_state=opt_state,
      objective=objective,
    ).averaged(training.settings.ema_decay)
    new_state = new_state.after_lookahead(training.settings.lookahead, scalars.total_steps)
    # bfloat16 becomes float32 in an update, and checkpoints need the types of the first state
    return jax.tree.map(lambda new, old: new.astype(old.dtype), new_state, state), metrics

  @property
  def axis_name(self) -> str | None:
    """The axis name of pmap; None under jit."""
    return self.parallel.axis_name if self.parallel else None

  def total(self, tree: T) -> T:
    """Sums arrays over all devices that share the batch (psum under pmap)."""
    return tree if self.axis_name is None else jax.lax.psum(tree, self.axis_name)

  def _gradients(
    self, state: TrainState, batch: Batch, seed: jax.Array
  ) -> tuple[PyTree, PyTree, State, State]:
    """Computes the gradient of the weighted loss over the whole batch.

    The loss is Σ weights · losses / Σ weights. The batch is divided into `accumulate`
    micro-batches, which are processed in turn.

    Args:
      state: the state before the step.
      batch: the augmented batch.
      seed: seed of the random numbers of the attack and of stochastic depth.

    Returns:
      The gradient, the new batch statistics, the new state of the objective, and the metrics.
    """

    def add(carry: PyTree, micro_batch: Batch) -> tuple[PyTree, None]:
      """Adds the gradient, mean weight and metrics of a micro-batch to the sums so far.

      Args:
        carry: the sums, the batch statistics, and the state of the objective.
        micro_batch: the columns of the micro-batch.
      """
      sums, batch_stats, memory = carry
      means, batch_stats, memory = self._micro_batch(state, batch_stats, memory, micro_batch, seed)
      return (jax.tree.map(jnp.add, sums, means), batch_stats, memory), None  # stacks nothing

    count = self.training.settings.accumulate
    initial = state.batch_stats, state.objective
    if count == 1:  # without the loop of `scan`
      means, batch_stats, memory = self._micro_batch(state, *initial, batch, seed)
    else:
      micro_batches = jax.tree.map(lambda x: _split_micro_batches(x, count), batch)
      first = jax.tree.map(lambda x: x[0], micro_batches)
      # the sums begin with zeros of the shapes that `_micro_batch` returns
      shapes = jax.eval_shape(lambda: self._micro_batch(state, *initial, first, seed)[0])
      zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
      (sums, batch_stats, memory), _ = jax.lax.scan(add, (zeros, *initial), micro_batches)
      means = jax.tree.map(lambda x: x / count, sums)
    if self.axis_name is not None:  # each device has the means over its part of the batch
      means = jax.lax.pmean(means, self.axis_name)
    # `_micro_batch` divides loss and gradient by the number of rows. The further division by the
    # mean weight, (Σ weights) / rows, amounts to a division by Σ weights instead.
    gradients, mean_weight, metrics = means
    gradients = jax.tree.map(lambda g: g / mean_weight, gradients)
    return gradients, batch_stats, memory, {**metrics, 'loss': metrics['loss'] / mean_weight}

  def _micro_batch(
    self, state: TrainState, batch_stats: PyTree, memory: State, batch: Batch, seed: jax.Array
  ) -> tuple[PyTree, PyTree, State]:
    """Computes the gradient of the weighted loss on one micro-batch.

    The loss is (Σ weights · losses) / (number of images). The caller divides it by the mean weight
    over all micro-batches and devices, which results in Σ weights · losses / Σ weights.

    Args:
      state: the state before the step.
      batch_stats: batch statistics after the previous micro-batch.
      memory: state of the objective after the previous micro-batch.
      batch: the columns of the micro-batch.
      seed: seed of the random numbers of the attack and of stochastic depth.

    Returns:
      (gradient, mean weight, metrics), which are means over the images; the new batch statistics;
      and the new state of the objective.
    """
    batch = self._attack(state, batch_stats, batch, seed)
    images, objective = batch['image'], self.training.pipeline.objective
    train = not self.training.settings.freeze_statistics
    drop_factors = self._drop_factors(state, batch, seed)

    def mean_loss(params: PyTree) -> tuple[jax.Array, PyTree]:
      """Returns the mean of weights · losses on a micro-batch, which `jax.grad` takes.

      Args:
        params: the parameters of the network.

      Returns:
        The mean, and (logits, new batch statistics, mean weight, new state of the objective,
        metrics).
      """
      outputs, new_stats = self._with_auxiliary(params, batch_stats, images, train, drop_factors)
      returned = objective(outputs, batch, memory, self.total)
      self._check_losses(returned, len(images))
      losses, weights, new_memory, metrics = returned
      weights = jax.lax.stop_gradient(weights)
      auxiliary = (outputs['logits'], new_stats, weights.mean(), new_memory, metrics)
      return (losses * weights).mean(), auxiliary

    (loss, auxiliary), gradients = jax.value_and_grad(mean_loss, has_aux=True)(state.params)
    logits, new_stats, mean_weight, new_memory, metrics = auxiliary
    # logits are [B, classes], or [B, V, classes] of V versions of each image
    label = batch['label'].reshape(-1, 1) if logits.ndim == 3 else batch['label']
    accuracy = jnp.mean(jnp.argmax(logits, -1) == label, dtype=jnp.float32)
    metrics = {**metrics, **self.training.pipeline.policy.metrics(batch)}
    means = (gradients, mean_weight, {'loss': loss, 'accuracy': accuracy, **metrics})
    return means, new_stats, new_memory

  def _check_losses(self, returned: object, num_rows: int) -> None:
    """Raises InputError unless an objective returned one float loss and weight per image.

    Args:
      returned: what the objective returned.
      num_rows: number of images in the batch.
    """
    name = self.training.pipeline.objective.name
    expected = f'(losses, weights, state, metrics), with floats [{num_rows}] as losses and weights'
    if not isinstance(returned, tuple) or len(returned) != 4:
      raise InputError(f'the objective {name!r} returns {type(returned).__name__}, not {expected}.')
    losses, weights = jnp.asarray(returned[0]), jnp.asarray(returned[1])
    is_of_rows = losses.shape[:1] == (num_rows,) and losses.shape == weights.shape
    if not is_of_rows or not jnp.issubdtype(losses.dtype, jnp.floating):
      raise InputError(
        f'the objective {name!r} returns losses {losses.dtype} {list(losses.shape)} and weights '
        f'{list(weights.shape)}, not {expected}.'
      )

  def _check_auxiliary(self, shape: tuple[int, ...]) -> None:
    """Raises SettingError unless `auxiliary_norms` is less than the number of image versions.

    At least one augmented version of each image must use the main normalisation layers.

    Args:
      shape: shape of the augmented images, [B, H, W, C], or [B, V, H, W, C] with V versions each.
    """
    count = self.training.settings.auxiliary_norms
    num_images = shape[1] if len(shape) == 5 else 1
    if count >= num_images:
      images = 'image' if num_images == 1 else 'images'
      raise SettingError(
        KEYS.training.auxiliary_norms,
        count,
        problem=f'and the policy makes {num_images} {images} per row, the first of '
        "which needs the network's first normalisation",
        fix=f'Put {multi_image_augmentations()} into {KEYS.classifier.augment.policy}, or set it '
        'lower.',
      )

  def _drop_factors(self, state: TrainState, batch: Batch, seed: jax.Array) -> Variables:
    """Draws the factors of stochastic depth for every image; see `depth.drop_factors`.

    Without stochastic depth the result is {}.

    Args:
      state: the state before the step.
      batch: the augmented batch.
      seed: seed of the random factors.
    """
    rate = self.training.settings.drop_path
    if not rate:
      return {}
    assert isinstance(self.training.model, Network)  # as `Training` has checked
    keys = _image_keys(batch, seed, DROP_PATH, state.step)
    return depth.drop_factors(state.params, rate, keys, self.training.model.drop_path_rises)

  def _with_auxiliary(
    self, params: PyTree, batch_stats: PyTree, images: jax.Array, train: bool, factors: Variables
  ) -> tuple[dict[str, jax.Array], PyTree]:
    """Applies the network to images [B, V, H, W, C], some with auxiliary normalisation layers.

    The last `auxiliary_norms` of the V versions of an image use the network's second set of
    normalisation layers, the others the first. The network is applied twice, and each call updates
    the statistics of one set.

    Args:
      params: weights, with both sets.
      batch_stats: statistics of batch normalisation, with both sets.
      images: [B, V, H, W, C]; without `auxiliary_norms` also [B, H, W, C].
      train: whether the network uses and updates batch statistics.
      factors: factors of stochastic depth, with the images' leading axes; {} for none.

    Returns:
      The outputs and the new batch statistics, as `_forward` does.
    """
    count = self.training.settings.auxiliary_norms
    if not count:
      return self._forward(params, batch_stats, images, train, factors)
    main_factors = jax.tree.map(lambda x: x[:, :-count], factors)
    auxiliary_factors = jax.tree.map(lambda x: x[:, -count:], factors)
    main_images = images[:, :-count]
    outputs, batch_stats = self._forward(params, batch_stats, main_images, train, main_factors)
    # with the second set where the network looks for its normalisation layers
    second = swap_norms({'params': params, 'batch_stats': batch_stats})
    auxiliary_outputs, second_stats = self._forward(
      second['params'], second['batch_stats'], images[:, -count:], train, auxiliary_factors
    )
    all_outputs = jax.tree.map(lambda *x: jnp.concatenate(x, 1), outputs, auxiliary_outputs)
    return all_outputs, swap_norms({'batch_stats': second_stats})['batch_stats']

  def _forward(
    self, params: PyTree, batch_stats: PyTree, images: jax.Array, train: bool, factors: Variables
  ) -> tuple[dict[str, jax.Array], PyTree]:
    """Applies the network to images.

    Args:
      params: weights.
      batch_stats: statistics of batch normalisation.
      images: [B, H, W, C], or [B, V, H, W, C] with V versions of each image.
      train: whether the network uses and updates batch statistics.
      factors: factors of stochastic depth, with the images' leading axes; {} for none.

    Returns:
      A dictionary of outputs, and the new batch statistics. The outputs are `logits`, [B, classes]
      or [B, V, classes], and `FEATURES` if the objective needs them.

    Raises:
      InputError: The network needs random keys or other collections, or does not expose features.
    """
    needs_features = self.training.pipeline.objective.needs_features
    flat = images.reshape(-1, *images.shape[-3:])
    flat_factors = jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), factors)
    try:
      logits, updated = self.training.model.apply(
        {'params': params, 'batch_stats': batch_stats, **flat_factors},
        self.training.inputs(flat),
        train=train,
        mutable=['batch_stats', 'intermediates'] if needs_features else ['batch_stats'],
      )
    except FlaxError as error:  # of a user's module
      raise InputError(
        f'the network cannot be trained: {type(error).__name__}: {error} A step gives it no random '
        "keys, which dropout needs, and no collections but 'params' and 'batch_stats': leave out "
        'layers that need others.'
      ) from error
    outputs = {'logits': logits}
    if needs_features:
      sown = sown_features(updated.get('intermediates', {}))
      if sown is None:
        raise InputError(
          'this network does not expose the input of its last linear map: call '
          f"self.sow('intermediates', '{FEATURES}', x) in its head, or end it with "
          'robustness.models.layers.LinearHead.'
        )
      outputs[FEATURES] = sown
    outputs = {name: x.reshape(*images.shape[:-3], -1) for name, x in outputs.items()}
    return outputs, updated.get('batch_stats', batch_stats)

  def _attack(self, state: TrainState, batch_stats: PyTree, batch: Batch, seed: jax.Array) -> Batch:
    """Replaces the images of a batch by adversarial examples, if the training has an attack.

    Args:
      state: the state before the step, with the weights to attack.
      batch_stats: statistics of batch normalisation.
      batch: the augmented batch.
      seed: seed of the attack's random numbers.
    """
    attack, images = self.training.pipeline.attack, batch['image']
    if attack is None:
      return batch
    keys = _image_keys(batch, seed, attack.name, state.step).ravel()
    # images are [B, H, W, C], or [B, V, H, W, C] with V versions of each
    label = batch['label'].reshape(-1, 1) if images.ndim == 5 else batch['label']
    labels = jnp.broadcast_to(label, images.shape[:-3])  # of each image, [B] or [B, V]
    train = attack.statistics == 'batch' and not self.training.settings.freeze_statistics

    def logits(images: jax.Array) -> jax.Array:
      """Returns the logits of images for the attack; new batch statistics are dropped."""
      outputs, _ = self._forward(state.params, batch_stats, images, train, {})
      return outputs['logits']

    # attacks take images in [0, 1], which some augmentations leave
    flat_images = jnp.clip(images.reshape(-1, *images.shape[-3:]), 0, 1)
    # one run for each image, without restarts
    adversarial = attack.worst(1, keys, logits, flat_images, labels.ravel())
    return {**batch, 'image': adversarial.reshape(images.shape)}


def check(training: Training, row: Mapping[str, Any]) -> None:
  """Checks a training before it starts, by tracing one step on shapes.

  Args:
    training: the training.
    row: A batch of the training data, from `Rows.batches`.

  Raises:
    InputError: The data do not fit, a column that the objective needs is missing, initial weights
      have another shape, or parts do not fit each other or the images.
  """
  size = training.settings.batch_size
  # `Rows.batches` marks padding in `mask`, a column that training batches do not have
  without_mask = {name: value for name, value in row.items() if name != 'mask'}
  row_columns = check_batch(without_mask, training.rows.image_shape, training.num_classes)
  columns = {**row_columns, **training.order.columns(0, size)}  # also those that the sampler adds
  training.check_columns(columns)
  state = training.state_shapes()
  with_initial(state.trained, training.initial)  # raises if initial weights have another shape
  training.check_network(state)
  # With an `axis_name` the model's batch norms take means over pmap's devices: the step is then
  # traced under `vmap` over an axis with this name, for one device that has the entire batch.
  axis = getattr(training.model, 'axis_name', None)
  leading_axes = (1, size) if axis else (size,)

  def batch_shape(column: np.ndarray) -> jax.ShapeDtypeStruct:
    """Returns the shape and type that a column has in a training batch.

    Args:
      column: the column for any number of images.
    """
    dtype = jax.dtypes.canonicalize_dtype(column.dtype)
    return jax.ShapeDtypeStruct((*leading_axes, *column.shape[1:]), dtype)

  batch = jax.tree.map(batch_shape, columns)
  # raises InputError if a user's part draws from NumPy's or Python's global generator
  step = random_keys.without_global_draws(TrainStep(training))
  if axis:
    step = jax.vmap(step, (None, 0), axis_name=axis)
  jax.eval_shape(step, state, batch)


def _image_keys(batch: Batch, seed: jax.Array, name: str, step: jax.Array) -> jax.Array:
  """Returns random keys for the images of a batch, [B], or [B, V] for V versions each.

  They differ between seeds, steps and parts of the training.

  Args:
    batch: the batch.
    seed: seed of the training.
    name: name of the part that uses the keys, such as an attack.
    step: number of steps taken.
  """
  keys, images = row_keys(batch, seed, name, step), batch['image']
  if images.ndim == 4:
    return keys
  return jax.vmap(lambda key: jax.random.split(key, images.shape[1]))(keys)  # V for each row


def _split_micro_batches(x: jax.Array, count: int) -> jax.Array:
  """Splits an array [B, ...] into micro-batches, [count, B / count, ...].

  Micro-batch i has the rows i, i + count, i + 2 · count and so on. Thus every device has rows of
  every micro-batch. The micro-batches also have the same rows whether or not the batch is split
  over devices first.
  """
  return jnp.moveaxis(x.reshape(-1, count, *x.shape[1:]), 1, 0)
