"""Records of two small networks; the first is right on most of the clean rows."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Evaluation, Study
from robustness.models.classifier import Classifier, from_linen
from robustness.parallel.mesh import MeshParallel
from tests.networks import CLASSES, SHAPE, tiny_rows

COUNT = 40
Evaluate = Callable[..., list[Evaluation]]


class Pixels(nn.Module):
  """A layer on the pixels themselves: every frequency moves its logits, some more than others."""

  @nn.compact
  def __call__(self, images: jax.Array, train: bool = False) -> jax.Array:
    hidden = nn.tanh(nn.Dense(16, name='stage1')(images.reshape(len(images), -1)))
    return nn.Dense(len(CLASSES), name='head')(hidden)


def classifier(label: str, seed: int) -> Classifier:
  module = Pixels()
  variables = module.init(jax.random.key(seed), jnp.zeros((1, *SHAPE)))
  return from_linen(
    module,
    variables,
    name=label,
    input_shape=SHAPE,
    class_names=CLASSES,
    mean=(0.5,),
    std=(0.25,),
    stages=('stage1',),
    provenance={'seed': seed},
  )


def rows() -> ArrayRows:
  """Rows whose labels the first network gives, except every sixth, which the second gives."""
  images = tiny_rows(COUNT).images
  first, second = (np.argmax(classifier('', seed).predict(images), 1) for seed in (0, 1))
  return ArrayRows(images, np.where(np.arange(COUNT) % 6 == 0, second, first), CLASSES)


@pytest.fixture
def evaluate(tmp_path: pathlib.Path) -> Evaluate:
  """Returns a function from a study to evaluations of 'first' and 'second' (or only the first)."""

  def run(
    study: Study, labels: tuple[str, ...] = ('first', 'second'), name: str = 'records'
  ) -> list[Evaluation]:
    done = []
    for seed, label in enumerate(labels):
      network = classifier(label, seed)
      evaluator = Evaluator(
        network,
        study.views(SHAPE),
        random_keys.stream(0, study.name),
        MeshParallel(jax.devices()[:2]),
        network.select_layers(study.layers),
      )
      records = Records(tmp_path / name / label, evaluator.layout(COUNT, 16, 7), {'seed': seed})
      evaluator.evaluate(rows(), records)
      done.append(Evaluation(label, records))
    return done

  return run


def table(evaluation: Evaluation, field: str) -> np.ndarray:
  """A field of raw records as one array [rows, views]."""
  records = evaluation.records
  return np.stack([records.column(field, view) for view in range(records.layout.num_views)], 1)
