"""A Linen module of a user that is trained, for `robustness.train`."""

import dataclasses
import functools
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.typing import DTypeLike

from robustness.classifiers import ClassifierSettings, from_file
from robustness.classifiers.checkpoint_folder import CheckpointFolder
from robustness.classifiers.trained_here import TrainedHere
from robustness.core.typing import Facts
from robustness.models.architecture import Architecture
from robustness.models.layers import Network


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
    numbers, under the key 'outputs_on_fixed_images', are weighted sums of the logits for images and
    variables that are the same in every run.
    """
    random, images = np.random.default_rng(0), from_file.fixed_images(self.image_shape)

    def draw(collection: str, shape: jax.ShapeDtypeStruct) -> np.ndarray:
      """Returns random values for an array of variables.

      Parameters have the variance 1 / (number of inputs). Other variables, such as batch
      statistics, are at least .5.
      """
      values = random.normal(size=shape.shape) / np.sqrt(max(1, np.prod(shape.shape[:-1])))
      return (values if collection == 'params' else 0.5 + abs(values)).astype(shape.dtype)

    init = functools.partial(self.module.init, train=False)
    variables = {
      collection: jax.tree.map(functools.partial(draw, collection), shapes)
      for collection, shapes in jax.eval_shape(init, jax.random.key(0), images).items()
    }
    logits = np.asarray(jax.jit(self.module.apply)(variables, images))
    projections = from_file.random_projections(logits).tolist()
    return {**super().architecture_facts, from_file.KEY: projections}
