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
  """Returns a tree of bools like `params`, True for parameters with weight decay.

  Args:
    params: parameters of the network.
    decay: 'kernels' for all arrays with the name `kernel`, 'all' or 'none'.
  """
  return path_aware_map(
    lambda path, _: decay == ALL or (decay != NONE and path[-1] == 'kernel'), params
  )


def is_in_head(params: PyTree) -> PyTree:
  """Returns a tree of bools like `params`, True for parameters of the last layer."""
  return path_aware_map(lambda path, _: path[:-1] in LAST_LAYERS, params)


def is_in_backbone(params: PyTree) -> PyTree:
  """Returns a tree of bools like `params`, True for parameters before the last layer."""
  return jax.tree.map(operator.not_, is_in_head(params))


def scaled_head(params: PyTree, factor: float) -> PyTree:
  """Multiplies the parameters of the last layer by a factor."""
  return jax.tree.map(lambda x, last: factor * x if last else x, params, is_in_head(params))


def is_in_stem(params: PyTree) -> PyTree:
  """Returns a tree of bools like `params`, True for parameters of the layer `stem`."""
  return path_aware_map(lambda path, _: path[0] == 'stem', params)


def is_normalisation_bias(params: PyTree) -> PyTree:
  """Returns a tree of bools like `params`, True for biases of normalisation layers.

  A layer with a bias and no kernel counts as a normalisation layer.
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
  """Returns the Optax optimizer of a training, for one step with its learning rate.

  The optimizer's state depends on `settings` only, so it fits all steps. With parameters θ,
  gradient g, learning rate η, momentum μ and weight decay λ:

  * 'sgd': g ← g + λ·θ; v ← μ·v + g; θ ← θ − η·(g + μ·v), or −η·v without Nesterov.
  * 'adamw': Adam with β1 = .9, β2 = .999, ε; θ ← θ − η·(m̂ / (√v̂ + ε) + λ·θ): decay is decoupled.
  * 'lamb': the update of 'adamw' scaled, in each array, by ‖θ‖₂ / ‖update‖₂ (1 where either is 0).
  * 'rmsprop': g ← g + λ·θ; s ← .9·s + .1·g² from s = 1; v ← μ·v + η·g / √(s + ε); θ ← θ − v.

  Gradients are changed in this order: clipping to the global norm `clip_norm`, multiplication by
  `bias_rate` for biases of normalisation layers, and weight decay. For 'sgd', `bias_rate` acts like
  a learning rate times `bias_rate` and a weight decay divided by it.

  Updates are multiplied by `backbone_rate_multiplier` in all layers but the last, by `layer_decay`
  to the power of the distance from the last layer, and by `stem_rate` in `stem`.

  Under the schedule 'plateau', η is multiplied by a factor that starts at 1. Each epoch without
  improvement divides the factor by 10. An epoch improves if its mean training loss is at least 0.01
  % below the least so far. The factor is stored in the optimizer's state.

  Args:
    settings: name and constants of the optimizer.
    learning_rate: η of this step.
    epoch_steps: number of steps in an epoch.
    stem_rate: factor on updates of the layer `stem`, if `stem_epochs` is set.

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

  # with a number in place of a schedule, Optax's state and checkpoints would lack the count
  schedule = optax.constant_schedule(learning_rate)
  if settings.optimizer in (SGD, RMSPROP):  # the others apply weight decay themselves
    transformations.append(optax.add_decayed_weights(settings.weight_decay, mask))
  if settings.optimizer == SGD:
    momentum = settings.momentum or None  # None keeps no moving sum of gradients
    transformations.append(optax.sgd(schedule, momentum, nesterov=settings.nesterov))
  elif settings.optimizer == RMSPROP:
    rmsprop = functools.partial(optax.rmsprop, decay=0.9, initial_scale=1.0)
    transformations.append(rmsprop(schedule, eps=settings.epsilon, momentum=settings.momentum))
  else:
    make = optax.lamb if settings.optimizer == LAMB else optax.adamw
    decay = {'weight_decay': settings.weight_decay, 'mask': mask}
    transformations.append(make(schedule, b1=0.9, b2=0.999, eps=settings.epsilon, **decay))
  if settings.backbone_rate_multiplier != 1:
    slower = optax.scale(settings.backbone_rate_multiplier)
    transformations.append(optax.masked(slower, is_in_backbone))
  if settings.layer_decay != 1:

    def decayed(updates: PyTree, _: PyTree) -> PyTree:
      """Multiplies the update of each parameter by its layer's factor for layer-wise decay."""
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
  """Returns the factor on the learning rate that the schedule 'plateau' has reached.

  It is 1 for other schedules.

  Args:
    opt_state: state of the optimizer that `create` returned.
  """
  states = jax.tree.leaves(opt_state, is_leaf=_is_plateau)
  factors = [state.scale for state in states if _is_plateau(state)]
  return jnp.asarray(factors[0] if factors else 1.0, jnp.float32)


def _is_plateau(state: PyTree) -> bool:
  """Returns whether a node of the optimizer's state belongs to the schedule 'plateau'."""
  return isinstance(state, optax.contrib.ReduceLROnPlateauState)
