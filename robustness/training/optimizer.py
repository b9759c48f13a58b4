"""The optimizer: by name from Optax, with weight decay, clipping and a slower backbone."""

import functools
import operator

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from flax.traverse_util import flatten_dict, path_aware_map

from robustness.core.typing import PyTree
from robustness.models.naming import HEAD_BIAS
from robustness.training.settings import ALL, NONE, PLATEAU, TrainingSettings

FACTOR = 0.1  # by which the rate falls on a plateau
HEAD = HEAD_BIAS[1:-1]
"""Path of the last layer in every architecture; of a module of its own, `HEAD[:1]`."""


def decayed(params: PyTree, which: str) -> PyTree:
  """Returns which parameters weight decay acts on, a tree of bools: leaves called `kernel`, all or
  none."""
  return path_aware_map(
    lambda path, _: which == ALL or (which != NONE and path[-1] == 'kernel'), params
  )


def in_head(params: PyTree) -> PyTree:
  """Returns which parameters are of the last layer, a tree of bools."""
  return path_aware_map(lambda path, _: path[:-1] in (HEAD, HEAD[:1]), params)


def in_stem(params: PyTree) -> PyTree:
  """Returns which parameters are of the first layer, a tree of bools."""
  return path_aware_map(lambda path, _: path[0] == 'stem', params)


def is_normalisation_bias(params: PyTree) -> PyTree:
  """Returns which parameters are biases of a layer that has no kernel, a tree of bools."""
  flat = flatten_dict(params)
  return path_aware_map(
    lambda path, _: path[-1] == 'bias' and (*path[:-1], 'kernel') not in flat, params
  )


def create(
  settings: TrainingSettings,
  schedule: optax.Schedule,
  epoch_steps: int | jax.Array = 1,
  stem_rate: optax.Schedule | None = None,
) -> optax.GradientTransformationExtraArgs:
  """Returns the optimizer that the settings name.

  * 'sgd': g ← g + λ·θ; v ← μ·v + g; θ ← θ − η·(g + μ·v), or −η·v without Nesterov.
  * 'adamw': Adam with β1 = .9, β2 = .999, ε; θ ← θ − η·(m̂ / (√v̂ + ε) + λ·θ): decay is decoupled.
  * 'lamb': the update of 'adamw' scaled, in each array, by ‖θ‖₂ / ‖update‖₂ (1 where either is 0).

  The gradient is first clipped to `clip_norm` by its global norm, before weight decay. Updates of
  all layers but the last are multiplied by `backbone_rate_multiplier`, and those of `stem` by
  `stem_rate`. Gradients g of the biases of normalisations are multiplied by `bias_rate`
  before decay, which is a learning rate larger by this factor and a decay λ smaller by it.

  Under 'plateau' η is multiplied by a factor that begins at 1. The training loss is averaged over
  each epoch; after one whose mean is not below the least one so far (by a ten-thousandth of it) the
  factor falls to a tenth. It is part of the optimizer's state, so that a training that was stopped
  goes on with it, and depends on training images alone.

  Args:
    settings: see there.
    schedule: η by step.
    epoch_steps: steps of one epoch; it may be traced.
    stem_rate: multiplies the updates of `stem`, by step; None leaves them as they are.

  Returns:
    An Optax transformation whose updates are added to the parameters; `update` takes the loss of
    the step as `value`.

  Reference:
    Sutskever et al. (2013), On the importance of initialization and momentum, section 2, with the
    change of variables that evaluates the gradient at the looked-ahead point; Loshchilov and Hutter
    (2019), Decoupled Weight Decay Regularization; You et al. (2020), Large Batch Optimization.
  """
  stages: list[optax.GradientTransformation] = []
  if settings.clip_norm:
    stages.append(optax.clip_by_global_norm(settings.clip_norm))
  if settings.bias_rate != 1:
    stages.append(optax.masked(optax.scale(settings.bias_rate), is_normalisation_bias))
  mask = functools.partial(decayed, which=settings.decay)
  if settings.optimizer == 'sgd':
    momentum = settings.momentum or None
    stages += [
      optax.add_decayed_weights(settings.weight_decay, mask),
      optax.sgd(schedule, momentum, nesterov=settings.nesterov and momentum is not None),
    ]
  else:
    make = {'adamw': optax.adamw, 'lamb': optax.lamb}[settings.optimizer]
    decay = {'weight_decay': settings.weight_decay, 'mask': mask}
    stages.append(make(schedule, b1=0.9, b2=0.999, eps=settings.epsilon, **decay))
  if settings.backbone_rate_multiplier != 1:
    stages.append(
      optax.masked(
        optax.scale(settings.backbone_rate_multiplier),
        lambda params: jax.tree.map(operator.not_, in_head(params)),
      )
    )
  if stem_rate is not None:
    stages.append(optax.masked(optax.scale_by_schedule(stem_rate), in_stem))
  if settings.schedule == PLATEAU:
    stages.append(
      optax.contrib.reduce_on_plateau(FACTOR, patience=1, accumulation_size=epoch_steps)
    )
  return optax.with_extra_args_support(optax.chain(*stages))


def rate_factor(opt_state: optax.OptState) -> jax.Array:
  """Returns what the schedule's learning rate is multiplied by: 1, unless a plateau lowered it."""
  states = jax.tree.leaves(opt_state, is_leaf=_is_plateau)
  factors = [state.scale for state in states if _is_plateau(state)]
  return jnp.asarray(factors[0] if factors else 1.0, jnp.float32)


def _is_plateau(state: PyTree) -> bool:
  return isinstance(state, optax.contrib.ReduceLROnPlateauState)
