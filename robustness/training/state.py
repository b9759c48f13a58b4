"""The state of a training, which each step updates."""

import functools
from collections.abc import Mapping
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct, traverse_util

from robustness.core.errors import InputError
from robustness.core.typing import PyTree, Variables
from robustness.training import auxiliary_norms

SLOW_DECAY = 0.95
"""The decay of slow weights per step at the end of a training, see `TrainingSettings.lookahead`."""


class TrainState(struct.PyTreeNode):
  """The state of a training between two steps.

  Attributes:
    step: int32 scalar, number of steps taken.
    params: float32 parameters.
    batch_stats: running averages of batch normalisation; empty without it. For trainings with
      auxiliary normalisation layers, `params` and `batch_stats` have these too.
    opt_state: state of the optimizer.
    objective: state of the objective (the loss); empty for most objectives.
    ema: averaged or slow `params` and `batch_stats`; empty without averaging and lookahead.
    best: `params` and `batch_stats` of the best evaluation so far, its `score` (float32) and `step`
      (int32); empty unless the best weights are kept.
  """

  step: jax.Array
  params: PyTree
  batch_stats: PyTree
  opt_state: optax.OptState
  objective: dict[str, jax.Array] = struct.field(default_factory=dict)
  ema: Variables = struct.field(default_factory=dict)
  best: Variables = struct.field(default_factory=dict)

  @property
  def trained(self) -> Variables:
    """`params` and `batch_stats`, with auxiliary normalisation layers if there are any."""
    return {'params': self.params, 'batch_stats': self.batch_stats}

  @property
  def raw_variables(self) -> Variables:
    """The variables after the last step for `model.apply`, not averaged.

    Auxiliary normalisation layers, which only training uses, are left out.
    """
    return auxiliary_norms.without_second_norms(self.trained)

  @property
  def variables(self) -> Variables:
    """The variables to evaluate: the averaged ones (`ema`) if there are any, else the raw ones."""
    return auxiliary_norms.without_second_norms(self.ema or self.trained)

  def averaged(self, decay: float) -> Self:
    """Returns the state with θ_EMA ← d_t·θ_EMA + (1 − d_t)·θ after step t.

    θ are the weights and batch statistics, and θ_EMA is their exponential moving average `ema`.
    d_t = min(decay, (1 + t)/(10 + t)) is smaller in the first steps, so that the initial weights
    are soon forgotten. With decay 0 the state is unchanged.
    """
    if not decay:
      return self
    t = self.step.astype(jnp.float32)
    d = jnp.minimum(decay, (1 + t) / (10 + t))
    return self.replace(ema=_mix(d, self.ema, self.trained))

  def after_lookahead(self, every: int, total_steps: float | jax.Array) -> Self:
    """Applies the Lookahead update to slow and fast weights, every `every` steps.

    The update is s ← d·s + (1 − d)·w, then w ← s. Here s is the slow copy `ema`, w the weights and
    batch statistics, and d = .95^every · (step / total_steps)³.

    Args:
      every: number of steps between two updates; 0 leaves the state unchanged.
      total_steps: number of steps of the training.

    Reference:
      Zhang et al. (2019), Lookahead Optimizer: k steps forward, 1 step back; the rising d is
      Jordan's (2024).
    """
    if not every:
      return self
    d = SLOW_DECAY**every * (self.step.astype(jnp.float32) / total_steps) ** 3
    is_due = self.step % every == 0
    mix = functools.partial(_mix, d)
    slow = jax.lax.cond(is_due, mix, lambda slow, _: slow, self.ema, self.trained)
    fast = jax.tree.map(lambda s, w: jnp.where(is_due, s.astype(w.dtype), w), slow, self.trained)
    return self.replace(ema=slow, params=fast['params'], batch_stats=fast['batch_stats'])


def start_of_average(trained: Variables) -> Variables:
  """Copies weights and statistics as the first value of a running average.

  Floats are at least float32, and integers keep their type.
  """

  def copied(x: jax.Array) -> jax.Array:
    """Copies an array; floats become float32 unless they are wider."""
    is_float = jnp.issubdtype(x.dtype, jnp.floating)
    return jnp.array(x, jnp.promote_types(x.dtype, jnp.float32) if is_float else x.dtype)

  return jax.tree.map(copied, trained)


def _mix(decay: jax.Array, mean: Variables, new: Variables) -> Variables:
  """Returns decay · mean + (1 − decay) · new, the same bits where both are equal.

  Integers, such as counters, are taken from `new`.
  """

  def mixed(m: jax.Array, x: jax.Array) -> jax.Array:
    """Returns decay · m + (1 − decay) · x for floats, and x for integers."""
    return m + (1 - decay) * (x - m) if jnp.issubdtype(x.dtype, jnp.floating) else x

  return jax.tree.map(mixed, mean, new)


def final_variables(state: Mapping[str, PyTree]) -> Variables:
  """Selects the weights that a training ends with: best, averaged or raw.

  Returns `params` and `batch_stats`: the `best` ones if the state has them, else the averaged
  `ema`, else the last.

  Args:
    state: {attribute: value} of a `TrainState`, or a checkpoint, where empty attributes may be
      missing.
  """
  weights = state.get('best') or state.get('ema') or state
  collections = 'params', 'batch_stats'
  return auxiliary_norms.without_second_norms({name: weights.get(name, {}) for name in collections})


def with_initial(variables: Variables, initial: Mapping[str, PyTree]) -> Variables:
  """Replaces arrays of `params` and `batch_stats` by the arrays in `initial`.

  Args:
    variables: variables of the network.
    initial: some or all of these variables, for instance pretrained weights.

  Raises:
    InputError: `initial` has arrays that the network does not have, or of another shape.
  """
  arrays, new_arrays = traverse_util.flatten_dict(variables), traverse_util.flatten_dict(initial)
  shapes = {path: np.shape(value) for path, value in arrays.items()}
  misfits = ['/'.join(path) for path, x in new_arrays.items() if np.shape(x) != shapes.get(path)]
  if misfits:
    raise InputError(
      f'{len(misfits)} arrays to begin with do not fit the network: '
      f'{", ".join(misfits[:5])}. Give weights of the same architecture and image size.'
    )
  on_device = {path: jnp.asarray(value) for path, value in new_arrays.items()}
  # flattening drops `batch_stats` if it is empty
  return {'batch_stats': {}, **traverse_util.unflatten_dict({**arrays, **on_device})}
