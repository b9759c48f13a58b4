"""An architecture: its network and what has to be known of it, declared in the network's file."""

from __future__ import annotations

import dataclasses
import functools

import flax.linen as nn
import flax.traverse_util
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from robustness.core.errors import InputError
from robustness.models.layers import Network
from robustness.models.naming import Path, Scheme, Shape
from robustness.models.pretrained import IMAGENET_MEAN, IMAGENET_STD, Weights

HALF = (0.5, 0.5, 0.5)
STEM_AND_STAGES = ('stem', 'stage1', 'stage2', 'stage3')  # figure 8 of Yin et al. (2019)


@dataclasses.dataclass(frozen=True)
class Architecture:
  """A network and what has to be known of it.

  Attributes:
    name: what a config calls it.
    network: the network with its options set, for as many classes as it is published for.
    stages: the layers meant by 'stages', from the input to the output: stem and residual stages.
    source: the paper it comes from.
    licence: under which terms published weights circulate, and where they come from.
    input_shape: height, width and channels that it was made for; others work too.
    mean: subtracted from images in [0, 1], one value a channel or one for all.
    std: what the difference is then divided by.
    schemes: naming schemes of other projects' weights files, the usual one first; () if none.
    weights: published weights, fetched by name.
    parameters: how many the published weights are, running statistics left out; 0 where none are.
    timm: pattern of the names that timm has for it; '' if none.
  """

  name: str
  network: Network
  stages: tuple[str, ...]
  source: str
  licence: str
  input_shape: tuple[int, int, int] = (224, 224, 3)
  mean: tuple[float, ...] = IMAGENET_MEAN
  std: tuple[float, ...] = IMAGENET_STD
  schemes: tuple[Scheme, ...] = ()
  weights: tuple[Weights, ...] = ()
  parameters: int = 0
  timm: str = ''

  def build(
    self, num_classes: int, dtype: DTypeLike = jnp.float32, axis_name: str | None = None
  ) -> nn.Module:
    """Returns the network as a Linen module: `module(images, train=False) -> logits`.

    Args:
      num_classes: number of logits, at least 1.
      dtype: what is computed in; parameters and logits are float32.
      axis_name: the pmap axis over which batch norm is synchronised in training, or None.

    Raises:
      InputError: `num_classes` is below 1.
    """
    if num_classes < 1:
      raise InputError(f'{self.name} with {num_classes} classes: num_classes is 1 or more')
    return self.network.clone(num_classes=num_classes, dtype=dtype, axis_name=axis_name)

  def shapes(self, num_classes: int, input_shape: Shape | None = None) -> dict[Path, Shape]:
    """Returns the shape of every variable by its path, without computing any.

    Args:
      num_classes: number of logits.
      input_shape: height, width and channels of the images; None takes the architecture's.
    """
    return _shapes(self, num_classes, input_shape or self.input_shape)

  @property
  def default_weights(self) -> Weights | None:
    """The published weights that are taken when nothing is said, if there are any."""
    return next((weights for weights in self.weights if weights.default), None)


@functools.lru_cache(maxsize=64)
def _shapes(architecture: Architecture, num_classes: int, input_shape: Shape) -> dict[Path, Shape]:
  image = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
  tree = jax.eval_shape(architecture.build(num_classes).init, jax.random.key(0), image)
  return {path: leaf.shape for path, leaf in flax.traverse_util.flatten_dict(tree).items()}
