"""The optimizer: by name from Optax, with weight decay, clipping and a slower backbone."""

import functools
import operator

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from flax.traverse_util import flatten_dict, path_aware_map
from jax.typing import ArrayLike

from robustness.core.typing import PyTree
from robustness.models.naming import LAST_LAYERS
from robustness.training import depth
from robustness.training.settings import ALL, LAMB, NONE, PLATEAU, RMSPROP, SGD, TrainingSettings

PLATEAU_FACTOR = 0.1
"""Factor of the learning rate when the training loss stops falling."""


def has_decay(params: PyTree, decay: str) -> PyTree:
  """Returns a tree of bools, true for parameters with weight decay.

  `decay` is 'kernels' for the parameters called `kernel`, 'all' or 'none'.
  """
  return path_aware_map(
    lambda path, _: decay == ALL or (decay != NONE and path[-1] == 'kernel'), params
  )


def is_in_head(params: PyTree) -> PyTree:
  """Returns whether each parameter is of the last layer, a tree of bools."""
  return path_aware_map(lambda path, _: path[:-1] in LAST_LAYERS, params)


def is_in_backbone(params: PyTree) -> PyTree:
  """Returns whether each parameter is of another layer than the last, a tree of bools."""
  return jax.tree.map(operator.not_, is_in_head(params))


def scaled_head(params: PyTree, factor: float) -> PyTree:
  """Returns the parameters, with the parameters of the last layer multiplied by a factor."""
  return jax.tree.map(lambda x, last: factor * x if last else x, params, is_in_head(params))


def is_in_stem(params: PyTree) -> PyTree:
  """Returns whether each parameter is of the layer `stem`, a tree of bools."""
  return path_aware_map(lambda path, _: path[0] == 'stem', params)


def is_normalisation_bias(params: PyTree) -> PyTree:
  """Returns whether each parameter is the bias of a normalisation layer, a tree of bools.

  Such a layer has a bias and no kernel.
  """
  flat = flatten_dict(params)
  return path_aware_map(
    lambda path, _: path[-1] == 'bias' and (*path[:-1], 'kernel') not in flat, params
  )


def create(
  settings: TrainingSettings,
  learning_rate: ArrayLike = 0.0,
  epoch_steps: int | jax.Array = 1,
  stem_rate: ArrayLike = 1.0,
) -> optax.GradientTransformationExtraArgs:
  """Returns the optimizer of one step; its state fits all steps, as it depends on `settings` only.

  With parameters θ, gradient g, learning rate η, momentum μ and weight decay λ:

  * 'sgd': g ← g + λ·θ; v ← μ·v + g; θ ← θ − η·(g + μ·v), or −η·v without Nesterov.
  * 'adamw': Adam with β1 = .9, β2 = .999, ε; θ ← θ − η·(m̂ / (√v̂ + ε) + λ·θ): decay is decoupled.
  * 'lamb': the update of 'adamw' scaled, in each array, by ‖θ‖₂ / ‖update‖₂ (1 where either is 0).
  * 'rmsprop': g ← g + λ·θ; s ← .9·s + .1·g² from s = 1; v ← μ·v + η·g / √(s + ε); θ ← θ − v.

  The gradient is first clipped to the global norm `clip_norm`, before weight decay. The updates of
  all layers except the last are multiplied by `backbone_rate_multiplier`, the updates of each
  layer by `layer_decay` to the power of its distance from the last layer, and of `stem` by
  `stem_rate`. Gradients of the biases of normalisation layers are multiplied by `bias_rate` before
  decay. For these biases this is the same, in 'sgd', as the learning rate times `bias_rate` and
  `weight_decay` divided by it.

  Under 'plateau' η is multiplied by a factor that starts at 1. An epoch improves if its mean
  training loss is below the least mean of earlier epochs by at least a ten-thousandth of it; each
  epoch that does not improve divides the factor by 10. The factor is part of the optimizer's state,
  so that it survives a stop.

  Args:
    settings: names the optimizer and its constants.
    learning_rate: η of this step.
    epoch_steps: steps of one epoch.
    stem_rate: factor of the updates of `stem` if `stem_epochs` is set.

  Returns:
    An Optax transformation; its updates are to be added to the parameters, and its `update` needs
    the loss of the step as the argument `value`.

  Reference:
    Sutskever et al. (2013), On the importance of initialization and momentum, section 2, with the
    change of variables that evaluates the gradient at the looked-ahead point; Loshchilov and Hutter
    (2019), Decoupled Weight Decay Regularization; You et al. (2020), Large Batch Optimization.
  """
  transformations: list[optax.GradientTransformation] = []
  if settings.clip_norm:
    transformations.append(optax.clip_by_global_norm(settings.clip_norm))
  if settings.bias_rate != 1:
    transformations.append(optax.masked(optax.scale(settings.bias_rate), is_normalisation_bias))
  mask = functools.partial(has_decay, decay=settings.decay)

  def schedule(_: ArrayLike) -> ArrayLike:
    """Returns the learning rate of this step for every count of steps.

    With a number instead of a function, Optax's state would lack the count, which checkpoints have.
    """
    return learning_rate

  if settings.optimizer == SGD:
    momentum = settings.momentum or None  # None keeps no moving sum of gradients
    transformations += [
      optax.add_decayed_weights(settings.weight_decay, mask),
      optax.sgd(schedule, momentum, nesterov=settings.nesterov and momentum is not None),
    ]
  elif settings.optimizer == RMSPROP:
    transformations += [
      optax.add_decayed_weights(settings.weight_decay, mask),
      optax.rmsprop(
        schedule, decay=0.9, eps=settings.epsilon, initial_scale=1.0, momentum=settings.momentum
      ),
    ]
  else:
    make = optax.lamb if settings.optimizer == LAMB else optax.adamw
    decay = {'weight_decay': settings.weight_decay, 'mask': mask}
    transformations.append(make(schedule, b1=0.9, b2=0.999, eps=settings.epsilon, **decay))
  if settings.backbone_rate_multiplier != 1:
    slower = optax.scale(settings.backbone_rate_multiplier)
    transformations.append(optax.masked(slower, is_in_backbone))
  if settings.layer_decay != 1:

    def decayed(updates: PyTree, _: PyTree) -> PyTree:
      """Returns the update of each parameter times the factor of its layer."""
      return jax.tree.map(operator.mul, updates, depth.rate_factors(updates, settings.layer_decay))

    transformations.append(optax.stateless(decayed))
  if settings.stem_epochs:
    scaled = optax.scale_by_schedule(lambda _: stem_rate)
    transformations.append(optax.masked(scaled, is_in_stem))
  if settings.schedule == PLATEAU:
    transformations.append(
      optax.contrib.reduce_on_plateau(PLATEAU_FACTOR, patience=1, accumulation_size=epoch_steps)
    )
  return optax.with_extra_args_support(optax.chain(*transformations))


def rate_factor(opt_state: optax.OptState) -> jax.Array:
  """Returns the factor of the schedule's rate from the state of the optimizer of `create`.

  It is 1 unless the schedule is 'plateau' and has lowered the rate.
  """
  states = jax.tree.leaves(opt_state, is_leaf=_is_plateau)
  factors = [state.scale for state in states if _is_plateau(state)]
  return jnp.asarray(factors[0] if factors else 1.0, jnp.float32)


def _is_plateau(state: PyTree) -> bool:
  """Returns whether a part of an optimizer's state is the state of the schedule 'plateau'."""
  return isinstance(state, optax.contrib.ReduceLROnPlateauState)
