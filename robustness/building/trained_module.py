"""A Linen module of a user that is trained, for `robustness.train`."""

import dataclasses
import functools
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax.typing import DTypeLike

from robustness.classifiers import ClassifierSettings, from_file
from robustness.classifiers.checkpoint_folder import CheckpointFolder
from robustness.classifiers.trained_here import TrainedHere
from robustness.core.typing import Facts, PyTree, Variables
from robustness.models.architecture import Architecture
from robustness.models.layers import Network
from robustness.training.training import COMPILED_ONCE


@dataclasses.dataclass(frozen=True)
class ModuleArchitecture(Architecture):
  """An architecture that consists of a user's Linen module, with a fixed number of classes.

  The module gets images in [0, 1]: `mean` and `std` are 0 and 1.
  """

  mean: tuple[float, ...] = (0.0,)
  std: tuple[float, ...] = (1.0,)

  def build(
    self, num_classes: int, dtype: DTypeLike = jnp.float32, axis_name: str | None = None
  ) -> nn.Module:
    """Returns the user's module; the arguments are not used."""
    return self.network


@dataclasses.dataclass(frozen=True)
class ModuleFolder(CheckpointFolder):
  """Checkpoints from the training of a user's Linen module, as initial weights.

  Attributes:
    module: the module as an architecture.
  """

  module: Architecture = dataclasses.field(kw_only=True)

  @property
  def architecture(self) -> Architecture:
    """The module as an architecture."""
    return self.module


@dataclasses.dataclass(frozen=True)
class TrainedModule(TrainedHere):
  """A user's Linen module that this run trains.

  Attributes:
    module: the module.
    image_shape: height, width and channels of the images.
  """

  module: nn.Module = dataclasses.field(kw_only=True)
  image_shape: tuple[int, int, int] = dataclasses.field(kw_only=True)

  @property
  def architecture(self) -> Architecture:
    """The module as an architecture without published weights."""
    network = cast('Network', self.module)  # any Linen module is called like a `Network`
    return ModuleArchitecture(self.name, network, stages=(), source='', licence='')

  @functools.cached_property
  def initial_network(self) -> ModuleFolder | None:
    """The checkpoints in the folder `initial_weights`; None if the training begins at random."""
    if not self.initial_weights:
      return None
    # the settings of a classifier that has these weights and is not trained
    names = [field.name for field in dataclasses.fields(ClassifierSettings)]
    settings = {name: getattr(self, name) for name in names}
    settings |= {'weights': self.initial_weights, 'initial_weights': '', 'train': False}
    return ModuleFolder(**settings, module=self.architecture)

  @functools.cached_property
  def architecture_facts(self) -> Facts:
    """The name of the network, and numbers that change if the module's code changes.

    Used to refuse resuming the training of another module with variables of the same shapes. The
    numbers, under the key 'outputs_on_fixed_images', are weighted sums of the logits for fixed
    images after one step of training. The step begins with initial variables, which are drawn by
    the module, plus random values, which are the same in every run. The numbers thus depend on the
    initialisation, the gradient and the update of batch statistics too.
    """
    random, images = np.random.default_rng(0), from_file.fixed_images(self.image_shape)
    init = functools.partial(self.module.init, jax.random.key(0), images, train=False)

    def draw(shape: jax.ShapeDtypeStruct) -> np.ndarray:
      """Returns random values with the variance 1 / (number of inputs), positive for vectors."""
      values = random.normal(size=shape.shape) / np.sqrt(max(1, np.prod(shape.shape[:-1])))
      return (values if values.ndim > 1 else abs(values)).astype(shape.dtype)

    def logits_after_step(drawn: Variables) -> PyTree:
      """Returns the logits of `images` after one gradient step on the mean squared logit.

      Args:
        drawn: values to add to the module's initial variables, a tree of the same shapes.
      """
      variables = jax.tree.map(jnp.add, dict(init()), drawn)

      def loss(params: PyTree) -> tuple[jax.Array, PyTree]:
        """Returns the mean squared logit and the updated batch statistics."""
        changed = {**variables, 'params': params}
        logits, updated = self.module.apply(changed, images, train=True, mutable=['batch_stats'])
        return jnp.square(logits).mean(), updated

      gradient, updated = jax.grad(loss, has_aux=True)(variables['params'])
      rate = 1 / (1 + optax.tree.norm(gradient))  # at most a step of length 1
      params = jax.tree.map(lambda x, g: x - rate * g, variables['params'], gradient)
      return self.module.apply({**variables, **updated, 'params': params}, images, train=False)

    drawn = jax.tree.map(draw, dict(jax.eval_shape(init)))
    step = jax.jit(logits_after_step, compiler_options=COMPILED_ONCE)
    projections = from_file.random_projections(np.asarray(step(drawn))).tolist()
    return {**super().architecture_facts, from_file.KEY: projections}
