"""Stochastic gradient descent as the residual-network papers use it, and the plateau schedule."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib

from robustness.training.settings import PLATEAU, TrainingSettings


def decayed(params: Any, which: str) -> Any:
  """Returns a tree of bools: the parameters that weight decay acts on.

  Args:
    params: a tree of parameters.
    which: 'kernels' (leaves called `kernel`) or 'all'.
  """

  def is_decayed(path: tuple[Any, ...], unused: Any) -> bool:
    return which == 'all' or getattr(path[-1], 'key', None) == 'kernel'

  return jax.tree_util.tree_map_with_path(is_decayed, params)


def create(
  settings: TrainingSettings, schedule: optax.Schedule, epoch_steps: int = 1
) -> optax.GradientTransformationExtraArgs:
  """Returns the optimiser: g ← g + λ·θ; v ← μ·v + g; θ ← θ − η·(g + μ·v), or −η·v without Nesterov.

  Under 'plateau' η is multiplied by a factor that begins at 1. The training loss is averaged over
  each epoch; after `plateau_patience` epochs in a row whose mean is not below the least one so far
  (by a ten-thousandth of it) the factor falls by `plateau_factor`. It is part of the optimiser's
  state, so that a training that was stopped goes on with it, and depends on training images alone.

  Args:
    settings: μ, λ and which parameters λ acts on; how the rate falls.
    schedule: η by step.
    epoch_steps: steps of one epoch.

  Returns:
    An Optax transformation whose updates are added to the parameters; `update` takes the loss of
    the step as `value`.

  Reference:
    Sutskever et al. (2013), On the importance of initialization and momentum, section 2, with the
    change of variables that evaluates the gradient at the looked-ahead point.
  """
  parts = [
    optax.add_decayed_weights(settings.weight_decay, lambda p: decayed(p, settings.decay)),
    optax.sgd(schedule, settings.momentum or None, nesterov=settings.nesterov),
  ]
  if settings.schedule == PLATEAU:
    parts.append(
      optax.contrib.reduce_on_plateau(
        settings.plateau_factor, settings.plateau_patience, accumulation_size=epoch_steps
      )
    )
  return optax.with_extra_args_support(optax.chain(*parts))


def rate_factor(opt_state: Any) -> jax.Array:
  """Returns what the schedule's learning rate is multiplied by: 1, unless a plateau lowered it."""
  states = jax.tree.leaves(opt_state, is_leaf=_is_plateau)
  factors = [state.scale for state in states if _is_plateau(state)]
  return jnp.asarray(factors[0] if factors else 1.0, jnp.float32)


def _is_plateau(state: Any) -> bool:
  return isinstance(state, optax.contrib.ReduceLROnPlateauState)
