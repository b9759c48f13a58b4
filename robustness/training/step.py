"""One optimiser step: pure, the same function under jit over a mesh and under pmap.

Under jit it sees the whole batch and the compiler adds the communication. Under pmap it sees its
device's part; gradients and metrics are averaged over the axis, and the model, built with the same
axis name, syncs its batch normalisation. Both compute the same sums in another order.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from robustness import augment
from robustness.augment import AugmentSettings
from robustness.core import random_keys
from robustness.training.loss import cross_entropy
from robustness.training.optimizer import rate_factor
from robustness.training.state import TrainState


@dataclasses.dataclass(frozen=True)
class Recipe:
  """What a step needs besides state and batch.

  Attributes:
    model: called as `model(images, train)`; float32 parameters, any compute dtype.
    optimizer: an Optax transformation; its `update` is given the loss as `value`.
    schedule: learning rate by step, for the metrics.
    augment: what is done to the images.
    mean: subtracted from the images, one value a channel, in [0, 1] units.
    std: divides after that.
    seed: of the augmentation's stream of keys.
    label_smoothing: ε of the loss.
    freeze_statistics: whether batch normalisation keeps its running averages and uses them.
    accumulate: micro-batches a step.
    axis_name: the axis of pmap, None under jit.
  """

  model: nn.Module
  optimizer: optax.GradientTransformationExtraArgs
  schedule: optax.Schedule
  augment: AugmentSettings = dataclasses.field(default_factory=AugmentSettings)
  mean: tuple[float, ...] = (0.0,)
  std: tuple[float, ...] = (1.0,)
  seed: int = 0
  label_smoothing: float = 0.0
  freeze_statistics: bool = False
  accumulate: int = 1
  axis_name: str | None = None


def train_step(
  state: TrainState, batch: dict[str, jax.Array], recipe: Recipe
) -> tuple[TrainState, dict[str, jax.Array]]:
  """Takes one step.

  Args:
    state: before the step.
    batch: `image` float32 [B, H, W, C] in [0, 1], `label` int32 [B], `example_id` int32 [B].
    recipe: the rest.

  Returns:
    The state after the step, and float32 scalars over the whole batch: `loss`, `accuracy` (top-1,
    of the augmented images), `gradient_norm` (without weight decay) and `learning_rate`.
  """
  images = _normalized(_augmented(batch, state.step, recipe), recipe)
  gradients, batch_stats, metrics = _gradients(state, images, batch['label'], recipe)
  if recipe.axis_name is not None:
    gradients, metrics = jax.lax.pmean((gradients, metrics), recipe.axis_name)
  updates, opt_state = recipe.optimizer.update(
    gradients, state.opt_state, state.params, value=metrics['loss']
  )
  rate = jnp.asarray(recipe.schedule(state.step), jnp.float32) * rate_factor(opt_state)
  metrics |= {'gradient_norm': optax.tree.norm(gradients), 'learning_rate': rate}
  return TrainState(
    state.step + 1, optax.apply_updates(state.params, updates), batch_stats, opt_state
  ), metrics


def _augmented(batch: dict[str, jax.Array], step: jax.Array, recipe: Recipe) -> jax.Array:
  stream = random_keys.stream(recipe.seed, 'training')

  def one(image: jax.Array, example_id: jax.Array) -> jax.Array:
    return augment.apply(random_keys.for_example(stream, example_id, step), image, recipe.augment)

  return jax.vmap(one)(batch['image'], batch['example_id'])


def _normalized(images: jax.Array, recipe: Recipe) -> jax.Array:
  mean, std = (jnp.asarray(x, jnp.float32).reshape(1, 1, 1, -1) for x in (recipe.mean, recipe.std))
  return (images - mean) / std


def _gradients(
  state: TrainState, images: jax.Array, labels: jax.Array, recipe: Recipe
) -> tuple[Any, Any, dict[str, jax.Array]]:
  """Returns the mean gradient, the new batch statistics and the mean metrics of the batch."""

  def add(carry: Any, micro: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
    total, batch_stats = carry
    gradients, batch_stats, metrics = _micro_batch(state.params, batch_stats, *micro, recipe)
    return (jax.tree.map(jnp.add, total, (gradients, metrics)), batch_stats), None

  if recipe.accumulate == 1:
    return _micro_batch(state.params, state.batch_stats, images, labels, recipe)
  zeros = (jax.tree.map(jnp.zeros_like, state.params), dict.fromkeys(('loss', 'accuracy'), 0.0))
  micro_batches = jax.tree.map(lambda x: _split(x, recipe.accumulate), (images, labels))
  (total, batch_stats), _ = jax.lax.scan(add, (zeros, state.batch_stats), micro_batches)
  gradients, metrics = jax.tree.map(lambda x: x / recipe.accumulate, total)
  return gradients, batch_stats, metrics


def _split(x: jax.Array, parts: int) -> jax.Array:
  """[B, ...] → [parts, B / parts, ...]; part p holds rows p, p + parts, ...

  Strided rows leave every device a share of every part, and make the parts the same sets of rows
  whether or not the batch was cut by device before.
  """
  return jnp.moveaxis(x.reshape(-1, parts, *x.shape[1:]), 1, 0)


def _micro_batch(
  params: Any, batch_stats: Any, images: jax.Array, labels: jax.Array, recipe: Recipe
) -> tuple[Any, Any, dict[str, jax.Array]]:
  def loss_of(params: Any) -> tuple[jax.Array, tuple[jax.Array, Any]]:
    logits, changed = recipe.model.apply(
      {'params': params, 'batch_stats': batch_stats},
      images,
      train=not recipe.freeze_statistics,
      mutable=['batch_stats'],
    )
    return cross_entropy(logits, labels, recipe.label_smoothing), (logits, changed)

  (loss, (logits, changed)), gradients = jax.value_and_grad(loss_of, has_aux=True)(params)
  accuracy = jnp.mean(jnp.argmax(logits, -1) == labels, dtype=jnp.float32)
  return gradients, changed.get('batch_stats', {}), {'loss': loss, 'accuracy': accuracy}
