"""Classifiers with random weights, drawn from the seed and not trained."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.classifiers import RANDOM, ClassifierSettings, Images
from robustness.classifiers.network import Network, NetworkWeights
from robustness.core import random_keys
from robustness.core.errors import KEYS, InputError
from robustness.models.classifier import Classifier


@dataclasses.dataclass(frozen=True)
class RandomWeights(Network):
  """An untrained network, with random weights from the seed."""

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the settings have `weights` 'random' and name an architecture."""
    return section.weights == RANDOM and section.architecture is not None

  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Returns the network with random weights and the classes of the data.

    If the data have no class names, the network has one class, '0'.

    Raises:
      InputError: the architecture computes some weights from training images.
    """
    architecture, class_names = self.architecture, images.class_names or ('0',)
    if architecture.fit:
      raise InputError(
        f'{self.name} begins with variables that are computed from training images, and weights'
        f" that are 'random' lack them: give {KEYS.classifier.train:--}=True, or another "
        f'{KEYS.classifier.name:--}.'
      )
    module = architecture.build(len(class_names))
    example = jnp.zeros((1, *images.shape))
    variables = jax.jit(module.init)(random_keys.from_seed(self.seed), example)
    mean, std = architecture.mean, architecture.std
    facts = {'weights': f'random, seed {self.seed}'}
    drawn = NetworkWeights(RANDOM, variables, class_names, mean, std, images.shape, facts)
    return self.classifier(label, drawn, precision)
