"""Training batches have the same order and checks if rows are on the devices or are streamed."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from robustness.augment.policy import Policy
from robustness.core.rows import ArrayRows
from robustness.core.sampler import Balanced
from robustness.parallel import MeshParallel, PmapParallel
from robustness.training.loop import AHEAD, batches, read_ahead, resident_rows
from robustness.training.training import Pipeline, check_batch
from tests.cases import cases
from tests.refusals import refused
from tests.training.conftest import TinyNet, assert_same


@pytest.fixture
def eight_bit():
  """96 random images of 8 bits in three classes."""
  generator = np.random.default_rng(0)
  images = generator.integers(0, 256, (96, 6, 6, 3), np.uint8)
  return ArrayRows(images, np.arange(96) % 3, ('red', 'green', 'blue'))


@pytest.fixture
def make(make_task, eight_bit):
  """Returns a function from settings to a task with batches that span epochs of 96 rows."""

  def make(rows=eight_bit, model=None, **settings):
    pipeline = Pipeline(Policy.of(flip={}, crop={'padding': 1}, mixup={}))
    task = {'rows': rows, 'pipeline': pipeline}
    return make_task(model, task, **{'batch_size': 36, 'resident_bytes': 2**30, **settings})

  return make


def _batches(task, begin=0):
  return batches(task, MeshParallel(jax.devices()[:2]), begin)


def _is_resident(task, parallel=None, begin=0):
  return resident_rows(task, parallel or MeshParallel(jax.devices()[:2]), begin) is not None


@pytest.mark.slow
@pytest.mark.parametrize('kind', [MeshParallel, PmapParallel])
def test_weights_are_equal_for_resident_and_streamed_rows(make, run, eight_bit, kind, tmp_path):
  parallel = kind(jax.devices()[:2])
  model, images = TinyNet(parallel.axis_name), eight_bit.images.astype(np.float32) / np.float32(255)
  resident, read = make(model=model), make(model=model, resident_bytes=0)
  floats = make(dataclasses.replace(eight_bit, images=images), model, resident_bytes=0)
  assert _is_resident(resident, parallel) and not _is_resident(read, parallel)
  weights = run(resident, tmp_path / 'resident', parallel)
  assert_same(run(read, tmp_path / 'read', parallel), weights)
  assert_same(run(floats, tmp_path / 'floats', parallel), weights)


def test_resident_rows_are_checked_once_and_by_name(make, eight_bit):
  wrong = make(dataclasses.replace(eight_bit, labels=np.where(np.arange(96) == 70, 3, 0)))
  refused('example 70 has label 3; the classifier has classes 0 to 2', _batches, wrong)


@pytest.mark.parametrize(('settings', 'begin'), [({'resident_bytes': 2 * 96 * 108}, 0), ({}, 4)])
def test_many_rows_and_less_than_an_epoch_are_streamed(make, settings, begin):
  """Each of two devices would hold 96 images of 108 bytes and their labels, above the limit."""
  assert not _is_resident(make(**settings), begin=begin)


@pytest.mark.parametrize('settings', [{}, {'resident_bytes': 0}])
def test_a_feed_ends_with_the_training_and_begins_anywhere(make, eight_bit, settings):
  rows = [batch['example_id'] for batch in _batches(make(**settings), 2)]
  expected = itertools.islice(eight_bit.training_batches(36, 0, 2), 4)
  np.testing.assert_array_equal(rows, [batch['example_id'] for batch in expected])


def test_columns_of_the_sampler_are_in_every_feed(make, eight_bit):
  order = Balanced([np.arange(96), np.array([5, 7])], 0, 'group')
  for resident_bytes in (2**30, 0):
    task = dataclasses.replace(make(resident_bytes=resident_bytes), sampler=order)
    assert _is_resident(task) == bool(resident_bytes)
    for step, gathered in enumerate(_batches(task)):
      span = 36 * step, 36 * (step + 1)
      np.testing.assert_array_equal(gathered['example_id'], order.positions(*span))
      np.testing.assert_array_equal(gathered['group'], order.columns(*span)['group'])


def test_two_elements_are_read_ahead():
  read = []

  def source():
    for number in range(4):
      read.append(number)
      yield number

  feed = read_ahead(source())
  assert (AHEAD, read) == (2, [])
  assert (next(feed), list(read)) == (0, [0, 1])
  assert (next(feed), list(read)) == (1, [0, 1, 2])
  assert list(feed) == [2, 3]


@cases(
  'change, message',
  ({'image': np.zeros((2, 6, 6, 1), np.float32)}, r'\(6, 6, 3\); got float32 .*\(6, 6, 1\)'),
  ({'image': np.zeros((2, 6, 6, 3), np.uint16)}, 'got uint16'),
  ({'label': np.array([0, 3])}, 'example 12 has label 3; the classifier has classes 0 to 2'),
  ({'label': np.array([-1, 0])}, 'example 11 has label -1'),
  ({'label': np.array([[0, 3], [1, -1]])}, r'example 11 has label \[0 3\]'),
  ({'label': np.array([[0, 1], [-1, -1]])}, 'example 12 has label'),
)
def test_bad_batches_are_refused_by_name(change, message):
  images, ids = np.zeros((2, 6, 6, 3), np.float32), np.array([11, 12])
  batch = {'image': images, 'label': np.array([0, 1]), 'example_id': ids, 'block': 0}
  assert set(check_batch(batch, (6, 6, 3), 3)) == {'image', 'label', 'example_id'}
  refused(message, check_batch, {**batch, **change}, (6, 6, 3), 3)
