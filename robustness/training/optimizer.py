"""Stochastic gradient descent as the residual-network papers use it, through Optax."""

from __future__ import annotations

from typing import Any

import jax
import optax

from robustness.training.settings import TrainingSettings


def decayed(params: Any, which: str) -> Any:
  """Returns a tree of bools: the parameters that weight decay acts on.

  Args:
    params: a tree of parameters.
    which: 'kernels' (leaves called `kernel`) or 'all'.
  """
  def is_decayed(path: tuple[Any, ...], unused: Any) -> bool:
    return which == 'all' or getattr(path[-1], 'key', None) == 'kernel'
  return jax.tree_util.tree_map_with_path(is_decayed, params)


def create(settings: TrainingSettings, schedule: optax.Schedule) -> optax.GradientTransformation:
  """Returns the optimiser: g ← g + λ·θ; v ← μ·v + g; θ ← θ − η·(g + μ·v), or −η·v without Nesterov.

  Args:
    settings: μ, λ and which parameters λ acts on.
    schedule: η by step.

  Returns:
    An Optax transformation whose updates are added to the parameters.

  Reference:
    Sutskever et al. (2013), On the importance of initialization and momentum, section 2, with the
    change of variables that evaluates the gradient at the looked-ahead point.
  """
  return optax.chain(
      optax.add_decayed_weights(settings.weight_decay, lambda p: decayed(p, settings.decay)),
      optax.sgd(schedule, settings.momentum or None, nesterov=settings.nesterov))
