"""Records of two small networks; the first is right on most of the clean rows."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from flax import linen as nn

from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.estimates.table import assemble
from robustness.evaluation import one_view
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Evaluation, Study
from robustness.models.classifier import Classifier, from_linen
from robustness.parallel.mesh import MeshParallel
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


@pytest.fixture
def evaluate(tmp_path):
  def run(study: Study, labels=('first', 'second'), name='records') -> list[Evaluation]:
    return [
      Evaluation(label, recorded(tmp_path / name / label, study, classifier(label, seed), rows()))
      for seed, label in enumerate(labels)
    ]

  return run


def recorded(folder, study, network, rows, parallel=None, layout=(16, 7), identity=None) -> Records:
  outputs = network.select_outputs(study.outputs) if network else ()
  views, stream = study.views(rows.image_shape), random_keys.stream(0, study.stream)
  layers = network.select_layers(study.layers) if network else ()
  parallel = parallel or MeshParallel(jax.devices()[:2])
  evaluator = Evaluator(network, views, stream, parallel, layers, outputs)
  records = Records(folder, evaluator.layout(rows.num_examples, *layout), identity or {})
  evaluator.evaluate(rows, records)
  return records


def table_of(study: Study, evaluations: Sequence[Evaluation], shape=SHAPE) -> pd.DataFrame:
  return assemble(study.reduce(evaluations, shape).estimates)


def table_of_networks(folder, study: Study, array_rows: ArrayRows) -> pd.DataFrame:
  """Returns the table of a study of the networks 'first' and 'second' on rows."""
  study.check(array_rows, {})
  labels = enumerate(('first', 'second'))
  return table_of(
    study,
    [
      Evaluation(label, recorded(folder / label, study, classifier(label, seed), array_rows))
      for seed, label in labels
    ],
  )


def show_image(study: Study, image: np.ndarray, view: int, example: int = 3) -> np.ndarray:
  """Returns an image as a view shows it, with the draws of an example."""
  row = {'image': image, 'example_id': np.int32(example)}
  return one_view.show(study, row, view, random_keys.stream(0, study.stream))
