"""A tiny classifier, tiny rows and random weights of any network, which many tests share."""

import dataclasses
import re
import tempfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import traverse_util

from robustness.classifiers import ClassifierSettings, resolve_section
from robustness.classifiers.network import NetworkWeights
from robustness.classifiers.trained_here import TrainedHere
from robustness.core.rows import ArrayRows
from robustness.core.typing import Variables
from robustness.models import catalog, weights
from robustness.models.architecture import Architecture
from robustness.models.classifier import Classifier, from_linen

SHAPE = (6, 5, 3)
CLASSES = ('ant', 'bee', 'cat', 'dog')
WITHOUT_STATISTICS = re.compile(
  r'resnet\d+_gn|bit_\w+|squeezenet\w+|vgg\d+|(clip_)?vit_\w+|'
  r'(convnext|swin|deit3|dino|eva|siglip)\w+'
)
"""Names of networks without batch statistics; to trace all networks for them would take 15 s."""


class TinyNetwork(nn.Module):
  """A convolution, the stage `stage1`, and a dense layer with four logits."""

  @nn.compact
  def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
    hidden = nn.relu(nn.Conv(8, (3, 3), name='stage1')(images))
    return nn.Dense(len(CLASSES), name='head')(hidden.mean((1, 2)) * 8)


def tiny_classifier(
  seed: int = 0, name: str = 'tiny', shape: tuple[int, int, int] = SHAPE
) -> Classifier:
  module = TinyNetwork()
  variables = module.init(jax.random.key(seed), jnp.zeros((1, *shape)))
  scaling = {'mean': (0.5, 0.4, 0.3), 'std': (0.2, 0.3, 0.4)}
  facts = {'class_names': CLASSES, 'stages': ('stage1',), 'provenance': {'seed': seed}}
  return from_linen(module, variables, name=name, input_shape=shape, **scaling, **facts)


def tiny_rows(count: int = 21, seed: int = 0) -> ArrayRows:
  generator = np.random.default_rng(seed)
  images = generator.random((count, *SHAPE), np.float32)
  return ArrayRows(images, generator.integers(0, len(CLASSES), count), CLASSES)


def initial_weights(name: str, weights: str, shape: tuple[int, int, int]) -> NetworkWeights:
  """Returns what `config.classifier.initial_weights` loads for a training."""
  kind = resolve_section(ClassifierSettings(name=name, train=True, initial_weights=weights))
  assert isinstance(kind, TrainedHere)
  read = kind.read_initial_weights(shape)
  assert read is not None
  return read


def imported(architecture: Architecture, arrays: Mapping[str, Any], *arguments: Any) -> Variables:
  """Returns the variables that `weights.load` makes of another project's arrays."""
  with tempfile.TemporaryDirectory() as folder:
    np.savez(f'{folder}/weights.npz', **arrays)
    return weights.load(f'{folder}/weights.npz', architecture, *arguments)


def normal_arrays(
  architecture: Architecture,
  num_classes: int = 10,
  scheme: int = 0,
  input_shape: tuple[int, int, int] | None = None,
) -> dict[str, np.ndarray]:
  shapes = architecture.schemes[scheme].shapes(architecture.shapes(num_classes, input_shape))
  generator = np.random.default_rng(1)
  return {name: generator.normal(size=s).astype(np.float32) for name, s in shapes.items()}


def normal_variables(architecture: Architecture, num_classes: int = 10, seed: int = 0) -> Variables:
  generator, shapes = np.random.default_rng(seed), architecture.shapes(num_classes)
  draw = {path: generator.normal(size=shapes[path]) for path in sorted(shapes)}
  return traverse_util.unflatten_dict({path: x.astype(np.float32) for path, x in draw.items()})


def random_variables(name: str, num_classes: int = 10, seed: int = 0) -> Variables:
  """Returns random weights of a network of the catalog.

  NumPy draws them because the network's own initialisation takes seconds to compile.
  """
  generator, shapes = np.random.default_rng(seed), catalog.get(name).shapes(num_classes)

  def draw(leaf: str, shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) > 1:  # He et al. (2015): activations keep their size
      scale = (2 / np.prod(shape[:-1])) ** 0.5
      return generator.normal(0, scale, shape).astype(np.float32)
    return np.full(shape, leaf in ('scale', 'var'), np.float32)

  return traverse_util.unflatten_dict(
    {path: draw(path[-1], shapes[path]) for path in sorted(shapes)}
  )


def shallow_catalog(**depths: int) -> Mapping[str, Architecture]:
  """Returns the catalog with networks of these depths, which compile in a third of the time."""
  shallow = {
    name: dataclasses.replace(full, network=full.network.clone(depth=depth))
    for name, depth in depths.items()
    for full in [catalog.ARCHITECTURES[name]]
  }
  return MappingProxyType({**catalog.ARCHITECTURES, **shallow})
