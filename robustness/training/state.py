"""Everything a training carries from step to step."""

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


class TrainState(struct.PyTreeNode):
  """A training between two steps.

  Attributes:
    step: int32 scalar, the steps done.
    params: float32 parameters.
    batch_stats: running averages of batch normalisation; empty without it. Both hold the second set
      of normalisation layers, where there is one, beside what the network takes.
    opt_state: the optimizer's momenta.
    objective: what the objective carries from step to step; empty for most.
    ema: averaged or slow `params` and `batch_stats`; empty without averaging and lookahead.
    best: `params` and `batch_stats` of the evaluation that was best so far, its `score` float32 and
      `step` int32; empty unless the best is kept.
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
    """`params` and `batch_stats`."""
    return {'params': self.params, 'batch_stats': self.batch_stats}

  @property
  def raw_variables(self) -> Variables:
    """The collections that `model.apply` takes, as the last step left them."""
    return auxiliary_norms.left_out(self.trained)

  @property
  def variables(self) -> Variables:
    """The collections that are evaluated: averaged ones where there are any."""
    return auxiliary_norms.left_out(self.ema or self.trained)

  def averaged(self, decay: float) -> Self:
    """Returns the state with θ_EMA ← d_t·θ_EMA + (1 − d_t)·θ, d_t = min(decay, (1 + t)/(10 + t));
    of decay 0 as it is. The smaller d_t of the first steps t keeps the initial weights from
    lingering."""
    if not decay:
      return self
    steps = self.step.astype(jnp.float32)
    now = jnp.minimum(decay, (1 + steps) / (10 + steps))
    mixed = jax.tree.map(lambda a, b: now * a + (1 - now) * b, self.ema, self.trained)
    return self.replace(ema=mixed)

  def drawn_to_slow(self, every: int, total_steps: float | jax.Array) -> Self:
    """Returns the state with s ← d·s + (1 − d)·w, then w ← s, where `every` divides the step.

    See `TrainingSettings.lookahead`; s is `ema`.

    Args:
      every: steps between two of these; 0 leaves the state as it is.
      total_steps: of the training.

    Reference:
      Zhang et al. (2019), Lookahead Optimizer: k steps forward, 1 step back; the rising d is
      Jordan's (2024).
    """
    if not every:
      return self
    now = SLOW_DECAY**every * (self.step.astype(jnp.float32) / total_steps) ** 3

    def drawn(slow: PyTree, fast: PyTree) -> PyTree:
      return jax.tree.map(lambda s, w: now * s + (1 - now) * w, slow, fast)

    slow = jax.lax.cond(self.step % every == 0, drawn, lambda slow, _: slow, self.ema, self.trained)
    due = self.step % every == 0
    fast = jax.tree.map(lambda s, w: jnp.where(due, s, w), slow, self.trained)
    return self.replace(ema=slow, params=fast['params'], batch_stats=fast['batch_stats'])


def chosen_variables(state: Mapping[str, PyTree]) -> Variables:
  """Returns `params` and `batch_stats` that a training ends with, of a state's attributes by name
  or a checkpoint, which leaves out what is empty: the best ones where they are kept, else the
  averaged ones where there are any, else the raw ones."""
  weights = state.get('best') or state.get('ema') or state
  names = 'params', 'batch_stats'
  return auxiliary_norms.left_out({name: weights.get(name, {}) for name in names})


def begun_with(state: TrainState, given: Mapping[str, PyTree]) -> TrainState:
  """Returns the state with given `params` and `batch_stats`, or parts of them, in place of its own;
  raises InputError naming arrays that the network does not have, or of another shape."""
  own = traverse_util.flatten_dict({'params': state.params, 'batch_stats': state.batch_stats})
  flat = traverse_util.flatten_dict(dict(given))
  misfits = [
    '/'.join(path)
    for path, value in flat.items()
    if path not in own or np.shape(own[path]) != np.shape(value)
  ]
  if misfits:
    raise InputError(
      f'{len(misfits)} arrays to begin with do not fit the network: '
      f'{", ".join(misfits[:5])}. Give weights of the same architecture and image size.'
    )
  trees = traverse_util.unflatten_dict({**own, **{k: jnp.asarray(v) for k, v in flat.items()}})
  return state.replace(params=trees['params'], batch_stats=trees.get('batch_stats', {}))
