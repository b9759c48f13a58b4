"""A tiny classifier and tiny rows that many tests share, and random weights of any network."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import traverse_util

from robustness.core.rows import ArrayRows
from robustness.models import catalog
from robustness.models.architecture import Architecture
from robustness.models.classifier import Classifier, from_linen

SHAPE = (6, 5, 3)
CLASSES = ('ant', 'bee', 'cat', 'dog')


class TinyNetwork(nn.Module):
  """One convolution, one 'stage', one dense layer."""

  @nn.compact
  def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
    hidden = nn.relu(nn.Conv(8, (3, 3), name='stage1')(images))
    return nn.Dense(len(CLASSES), name='head')(hidden.mean((1, 2)) * 8)


def tiny_classifier(seed: int = 0, name: str = 'tiny') -> Classifier:
  module = TinyNetwork()
  variables = module.init(jax.random.key(seed), jnp.zeros((1, *SHAPE)))
  return from_linen(
    module,
    variables,
    name=name,
    input_shape=SHAPE,
    class_names=CLASSES,
    mean=(0.5, 0.4, 0.3),
    std=(0.2, 0.3, 0.4),
    stages=('stage1',),
    provenance={'seed': seed},
  )


def tiny_rows(count: int = 21, seed: int = 0) -> ArrayRows:
  generator = np.random.default_rng(seed)
  images = generator.random((count, *SHAPE), np.float32)
  return ArrayRows(images, generator.integers(0, len(CLASSES), count), CLASSES)


def random_variables(name: str, num_classes: int = 10, seed: int = 0) -> dict[str, Any]:
  """Random weights of a network of the catalog, drawn by NumPy: the network's own draw is a program
  that takes seconds to compile."""
  architecture, generator = catalog.get(name), np.random.default_rng(seed)

  def draw(leaf: str, shape: tuple[int, ...]) -> np.ndarray:
    if len(shape) > 1:  # He et al. (2015): what is applied to it keeps its size
      scale = (2 / np.prod(shape[:-1])) ** 0.5
      return generator.normal(0, scale, shape).astype(np.float32)
    return np.full(shape, leaf in ('scale', 'var'), np.float32)

  shapes = architecture.shapes(num_classes)
  return traverse_util.unflatten_dict(
    {path: draw(path[-1], shapes[path]) for path in sorted(shapes)}
  )


def shallow_catalog() -> Mapping[str, Architecture]:
  """The catalog, in which `resnet20` has one block a stage: a third to compile, the same parts."""
  own = catalog.ARCHITECTURES['resnet20']
  shallow = dataclasses.replace(own, network=own.network.clone(depth=8))
  return MappingProxyType({**catalog.ARCHITECTURES, own.name: shallow})
