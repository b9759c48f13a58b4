"""Records of two small networks; the first is right on most of the clean rows."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from flax import linen as nn

import robustness
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.estimates.table import assemble
from robustness.evaluation import one_view
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Evaluation, Study
from robustness.models.classifier import Classifier, from_linen
from robustness.parallel.mesh import MeshParallel
from robustness.results import SINGLE
from tests.networks import CLASSES, SHAPE, tiny_rows

COUNT = 40


class Pixels(nn.Module):
  """A layer on the pixels themselves: every frequency moves its logits, some more than others."""

  @nn.compact
  def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
    hidden = nn.tanh(nn.Dense(16, name='stage1')(images.reshape(len(images), -1)))
    return nn.Dense(len(CLASSES), name='head')(hidden)


@functools.cache
def classifier(label: str, seed: int) -> Classifier:
  """Returns a network with the random weights of a seed."""
  module = Pixels()
  variables = module.init(jax.random.key(seed), jnp.zeros((1, *SHAPE)))
  facts = {'class_names': CLASSES, 'stages': ('stage1',), 'provenance': {'seed': seed}}
  scaling = {'mean': (0.5,), 'std': (0.25,)}
  return from_linen(module, variables, name=label, input_shape=SHAPE, **scaling, **facts)


@functools.cache
def rows() -> ArrayRows:
  """Returns rows labelled as the first network answers; every sixth, as the second does."""
  images = tiny_rows(COUNT).images
  first, second = (np.argmax(classifier('', seed).predict(images), 1) for seed in (0, 1))
  return ArrayRows(images, np.where(np.arange(COUNT) % 6 == 0, second, first), CLASSES)


def measured(
  study: Study, labels: Sequence[str] = ('first', 'second'), array_rows: ArrayRows | None = None
) -> tuple[Any, ...]:
  """Returns the results of a study of the networks, and the evaluation of each network.

  The records of the evaluations are deleted with the results.
  """
  networks = {label: classifier(label, seed) for seed, label in enumerate(labels)}
  results = robustness.measure(study, networks, array_rows or rows())
  return results, *results.studies()[SINGLE].evaluations


def recorded(folder, study, network, rows, parallel=None, layout=(16, 7), identity=None) -> Records:
  """Writes records of a study, in shards of `layout` rows and views."""
  outputs = network.select_outputs(study.outputs) if network else ()
  views, stream = study.views(rows.image_shape), random_keys.stream(0, study.stream)
  layers = network.select_layers(study.layers) if network else ()
  parallel = parallel or MeshParallel(jax.devices()[:2])
  evaluator = Evaluator(network, views, stream, parallel, layers, outputs)
  records = Records(folder, evaluator.layout(rows.num_examples, *layout), identity or {})
  evaluator.evaluate(rows, records)
  return records


def table_of(study: Study, evaluations: Sequence[Evaluation], shape=SHAPE) -> pd.DataFrame:
  """Returns the table of results of evaluations of images of a shape."""
  return assemble(study.reduce(evaluations, shape).estimates)


def show_image(study: Study, image: np.ndarray, view: int, example: int = 3) -> np.ndarray:
  """Returns an image as a view shows it, with the draws of an example."""
  row = {'image': image, 'example_id': np.int32(example)}
  return one_view.show(study, row, view, random_keys.stream(0, study.stream))
