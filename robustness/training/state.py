"""Everything a training carries from step to step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import struct

from robustness import random_keys


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


def create(model: nn.Module, optimizer: optax.GradientTransformation,
           image_shape: tuple[int, int, int], seed: int) -> TrainState:
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
    return TrainState(jnp.zeros((), jnp.int32), params, variables.get('batch_stats', {}),
                      optimizer.init(params))
  return jax.jit(init)()


def num_classes(model: nn.Module, state: TrainState, image_shape: tuple[int, int, int]) -> int:
  """Returns how many logits the model gives for an image, without computing them."""
  images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
  def predict(x: jax.Array) -> jax.Array:
    return model.apply(state.variables, x, train=False)  # type: ignore[return-value]
  return jax.eval_shape(predict, images).shape[-1]
