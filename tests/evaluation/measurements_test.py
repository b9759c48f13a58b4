"""Tests measures by row and exact totals, for any shards, devices and kind of classifier."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.evaluation import measurements
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import Views
from robustness.models.classifier import Classifier
from robustness.parallel import MeshParallel, PmapParallel
from tests.cases import cases
from tests.evaluation.runner_test import PARALLELS
from tests.networks import CLASSES, SHAPE, tiny_classifier, tiny_rows
from tests.refusals import refused

ROWS = 21


def norms(row, image, view):
  """Measures how a view changes its row: the norm, the mean by channel, and the view's factor."""
  difference = image - row['image']
  norm, channels = jnp.sqrt((difference**2).sum()), jnp.abs(difference).mean((0, 1))
  return {'norm': norm, 'channels': channels, 'factor': view['factor']}


VIEWS = Views(
  lambda key, row, view: row['image'] * view['factor'] + 0 * jax.random.uniform(key),
  np.arange(5, dtype=np.int32),
  {'factor': np.linspace(1, 0, 5, dtype=np.float32)},
  image_shape=SHAPE,
  measure=norms,
  total=lambda row, image, view: {'change': jnp.abs(image - row['image']) * 3},
)
"""Five views that darken images, by 0 to 100 %."""


def recorded(directory, parallel, batch_size, chunk, classifier=None, views=VIEWS):
  """Writes records of tiny rows, by default of images alone, without a classifier."""
  runner = Evaluator(classifier, views, random_keys.stream(0, 'any'), parallel)
  records = Records(directory, runner.layout(ROWS, batch_size, chunk), {})
  runner.evaluate(tiny_rows(ROWS), records)
  return records


@cases(
  'create, batch_size, chunk',
  *((create, 8, 2) for create in PARALLELS),
  (PARALLELS[0], 24, 5),
  (PARALLELS[-1], 0, 0),
)
def test_totals_and_measures_without_a_classifier(create, batch_size, chunk, tmp_path):
  records = recorded(tmp_path, create(), batch_size, chunk)
  images = tiny_rows(ROWS).images
  for view, factor in enumerate(VIEWS.parameters['factor']):
    difference = images * factor - images
    norm = np.sqrt((difference**2).sum((1, 2, 3)))
    for name, expected in (('norm', norm), ('channels', np.abs(difference).mean((1, 2)))):
      measured = records.column(f'measure/{name}', view)
      np.testing.assert_allclose(measured, expected, rtol=1e-5)
    np.testing.assert_array_equal(records.column('measure/factor', view), factor)
    change = np.abs(difference).astype(np.float32) * np.float32(3)
    steps = np.round(change / measurements.RESOLUTION).sum(0, dtype=np.float64)
    np.testing.assert_array_equal(records.total('change')[view], steps * measurements.RESOLUTION)
  assert 'rank' not in records.read(0, 0).arrays
  np.testing.assert_array_equal(records.column('label'), tiny_rows(ROWS).labels)


@pytest.mark.slow
@pytest.mark.parametrize('create', [MeshParallel, PmapParallel])
def test_totals_and_measures_with_a_classifier_of_either_kind(create, tmp_path):
  native = tiny_classifier()
  wrapped = Classifier.from_callable(
    native.predict, SHAPE, CLASSES, outputs='logits', name='callable'
  )
  images_only = recorded(tmp_path / 'images', create(), 8, 2)
  for name, classifier in (('native', native), ('callable', wrapped)):
    records = recorded(tmp_path / name, create(), 8, 2, classifier)
    np.testing.assert_array_equal(records.total('change'), images_only.total('change'))
    for field in ('measure/norm', 'measure/channels'):
      np.testing.assert_array_equal(records.column(field, 3), images_only.column(field, 3))
    assert records.column('rank', 3).shape == (ROWS,)


def test_spectra_need_no_exchange_between_devices():
  def power(row, image, view):
    return {'power': jnp.abs(jnp.fft.rfft2(image, axes=(0, 1))).sum()}

  views = dataclasses.replace(VIEWS, measure=power)
  runner = Evaluator(None, views, random_keys.stream(0, 'any'), MeshParallel())
  block = next(runner.blocks_on_devices(tiny_rows(ROWS), runner.layout(ROWS, 8, 5)))
  chunk = runner.parallel.replicate((views.ids, dict(views.parameters)))
  program = runner.compiled.lower(None, block.step_batches[0], chunk).compile().as_text()
  assert 'fft' in program
  assert not any(f' {word}(' in program for word in ('all-gather', 'all-reduce', 'all-to-all'))


def test_sums_of_the_largest_values_do_not_overflow():
  largest = np.float32(measurements.LARGEST - 2**-12)
  values = jnp.full((measurements.MAX_ROWS_PER_DEVICE, 2), largest)
  sums = jax.jit(measurements.split_sum)(values, jnp.ones(len(values), bool))
  total, outside = measurements.combine(np.asarray(sums)[:, None])
  np.testing.assert_array_equal(total, [[float(largest) * measurements.MAX_ROWS_PER_DEVICE] * 2])
  assert not outside.any()
  too_many = jnp.zeros(2**16), jnp.ones(2**16, bool)
  refused('65536 rows a device are more than 32768', measurements.split_sum, *too_many)


def test_rows_of_padding_do_not_count_in_sums():
  values, mask = jnp.asarray([[1.0, 5.0], [2.0, np.nan]]), jnp.asarray([[True, False]] * 2)
  sums = jax.vmap(measurements.split_sum)(values, mask)[:, 0]
  total, outside = measurements.combine(np.asarray(sums)[:, None])
  assert sums.shape == (2, 3)
  assert total == 1 + 2 and not outside.any()


@pytest.mark.parametrize('bad', [-1.0, measurements.LARGEST, np.nan, np.inf])
def test_values_that_cannot_be_summed_are_refused(bad, tmp_path):
  def total(row, image, view):
    return {'change': jnp.where(view['factor'] == 0, bad, image)}

  views = dataclasses.replace(VIEWS, total=total)
  message = r'total/change .*outside \[0, 2048\).* view 4 \(factor=0'
  refused(message, recorded, tmp_path, MeshParallel(), 8, 2, views=views)
