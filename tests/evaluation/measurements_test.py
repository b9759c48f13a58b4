"""Measures by row and exact totals: the same for any cut, device layout, and kind of classifier."""

from __future__ import annotations

import dataclasses
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.evaluation import measurements
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import Views
from robustness.models.classifier import Classifier
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel
from tests.evaluation.runner_test import PARALLELS
from tests.networks import CLASSES, SHAPE, tiny_classifier, tiny_rows

ROWS = 21


def darken(key, row, view):
  return row['image'] * view['factor'] + 0 * jax.random.uniform(key)


def norms(row, shown, view):
  difference = shown - row['image']
  return {
    'norm': jnp.sqrt((difference**2).sum()),
    'channels': jnp.abs(difference).mean((0, 1)),
    'factor': view['factor'],
  }


def change(row, shown, view):
  return {'change': jnp.abs(shown - row['image']) * 3}


VIEWS = Views(
  darken,
  np.arange(5, dtype=np.int32),
  {'factor': np.linspace(1, 0, 5, dtype=np.float32)},
  image_shape=SHAPE,
  measure=norms,
  total=change,
)


def recorded(
  directory: pathlib.Path,
  parallel,
  batch_size: int,
  chunk: int,
  classifier: Classifier | None = None,
  views: Views = VIEWS,
) -> Records:
  runner = Evaluator(classifier, views, random_keys.stream(0, 'any'), parallel)
  records = Records(directory, runner.layout(ROWS, batch_size, chunk), {})
  runner.evaluate(tiny_rows(ROWS), records)
  return records


@pytest.mark.parametrize('create', PARALLELS)
@pytest.mark.parametrize(('batch_size', 'chunk'), [(8, 2), (24, 5), (0, 0)])
def test_totals_and_measures_without_a_classifier(create, batch_size, chunk, tmp_path) -> None:
  records = recorded(tmp_path, create(), batch_size, chunk)
  images = tiny_rows(ROWS).images
  for view, factor in enumerate(VIEWS.parameters['factor']):
    difference = images * factor - images
    np.testing.assert_allclose(
      records.column('measure/norm', view), np.sqrt((difference**2).sum((1, 2, 3))), rtol=1e-5
    )
    np.testing.assert_allclose(
      records.column('measure/channels', view), np.abs(difference).mean((1, 2)), rtol=1e-5
    )
    np.testing.assert_array_equal(records.column('measure/factor', view), factor)
    steps = np.round(
      np.abs(difference).astype(np.float32) * np.float32(3) / measurements.RESOLUTION
    )
    np.testing.assert_array_equal(
      records.total('change')[view], steps.sum(0, dtype=np.float64) * measurements.RESOLUTION
    )
  assert 'rank' not in records.read(0, 0).arrays
  np.testing.assert_array_equal(records.column('label'), tiny_rows(ROWS).labels)


@pytest.mark.parametrize('create', [MeshParallel, PmapParallel])
def test_beside_a_classifier_of_either_kind(create, tmp_path) -> None:
  native = tiny_classifier()
  own = Classifier.from_callable(
    lambda x: np.asarray(native.predict(x)), SHAPE, CLASSES, outputs='logits', name='own'
  )
  alone = recorded(tmp_path / 'alone', create(), 8, 2)
  for name, classifier in (('native', native), ('own', own)):
    records = recorded(tmp_path / name, create(), 8, 2, classifier)
    np.testing.assert_array_equal(records.total('change'), alone.total('change'))
    for field in ('measure/norm', 'measure/channels'):
      np.testing.assert_array_equal(records.column(field, 3), alone.column(field, 3))
    assert records.column('rank', 3).shape == (ROWS,)


def test_sums_of_the_largest_values_do_not_overflow() -> None:
  largest = np.float32(measurements.LARGEST - 2**-12)
  values = jnp.full((measurements.MOST_ROWS, 2), largest)
  sums = jax.jit(measurements.split_sum, static_argnums=2)(values, jnp.ones(len(values), bool), 1)
  total, outside = measurements.joined(np.asarray(sums)[:, None])
  np.testing.assert_array_equal(total, [[float(largest) * measurements.MOST_ROWS] * 2])
  assert not outside.any()
  with pytest.raises(InputError, match='65536 rows a device are more than 32768'):
    measurements.split_sum(jnp.zeros(2**16), jnp.ones(2**16, bool), 1)


@pytest.mark.parametrize('bad', [-1.0, measurements.LARGEST, np.nan, np.inf])
def test_values_that_cannot_be_summed_are_refused(bad: float, tmp_path) -> None:
  views = dataclasses.replace(
    VIEWS, total=lambda row, shown, view: {'change': jnp.where(view['factor'] == 0, bad, shown)}
  )
  with pytest.raises(InputError, match=r'total/change .*outside \[0, 2048\).* view 4 \(factor=0'):
    recorded(tmp_path, MeshParallel(), 8, 2, views=views)


def test_rows_of_padding_do_not_count() -> None:
  values = jnp.asarray([1.0, -5.0, 2.0, np.nan])
  sums = measurements.split_sum(values, jnp.asarray([True, False, True, False]), 2)
  total, outside = measurements.joined(np.asarray(sums)[:, None])
  assert sums.shape == (2, 3)
  assert total == 3 and not outside.any()
