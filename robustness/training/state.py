"""Everything a training carries from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import struct, traverse_util

from robustness.core import random_keys
from robustness.core.errors import InputError


class TrainState(struct.PyTreeNode):
  """A training between two steps.

  Attributes:
    step: int32 scalar, the steps done.
    params: float32 parameters.
    batch_stats: running averages of batch normalisation; empty without it.
    opt_state: the optimiser's momenta.
  """

  step: jax.Array
  params: Any
  batch_stats: Any
  opt_state: Any

  @property
  def variables(self) -> dict[str, Any]:
    """The collections that `model.apply` takes."""
    return {'params': self.params, 'batch_stats': self.batch_stats}


def create(
  model: nn.Module,
  optimizer: optax.GradientTransformation,
  image_shape: tuple[int, int, int],
  seed: int,
) -> TrainState:
  """Returns the state before the first step; it depends on the seed and the model alone.

  Args:
    model: called as `model(images, train)`.
    optimizer: makes `opt_state`.
    image_shape: height, width, channels.
    seed: the experiment's seed.
  """

  def init() -> TrainState:
    images = jnp.zeros((1, *image_shape))
    variables = model.init(random_keys.stream(seed, 'initial parameters'), images, train=False)
    params = variables['params']
    return TrainState(
      jnp.zeros((), jnp.int32), params, variables.get('batch_stats', {}), optimizer.init(params)
    )

  return jax.jit(init)()


def begun_with(state: TrainState, given: Mapping[str, Any]) -> TrainState:
  """Returns the state with the given parameters and running averages in place of its own.

  Args:
    state: before the first step.
    given: trees `params` and `batch_stats`, or parts of them; what they leave out stays.

  Raises:
    InputError: a given array that the network does not have, or of another shape; the first ones
      are named.
  """
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
      f'{", ".join(misfits[:5])}. Give weights of the same architecture.'
    )
  trees = traverse_util.unflatten_dict({**own, **{k: jnp.asarray(v) for k, v in flat.items()}})
  return state.replace(params=trees['params'], batch_stats=trees.get('batch_stats', {}))


def num_classes(model: nn.Module, state: TrainState, image_shape: tuple[int, int, int]) -> int:
  """Returns how many logits the model gives for an image, without computing them."""
  images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)

  def predict(x: jax.Array) -> jax.Array:
    return model.apply(state.variables, x, train=False)  # type: ignore[return-value]

  return jax.eval_shape(predict, images).shape[-1]
