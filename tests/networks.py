"""A tiny classifier and tiny rows that many tests share."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from robustness.core.rows import ArrayRows
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
