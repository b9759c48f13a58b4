"""Order and checks of training batches; rows on the devices and rows that are read are the same."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import numpy as np
import pytest

from robustness.augment.policy import Policy
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.core.sampler import Balanced
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel
from robustness.training import Pipeline, train
from robustness.training.feed import ahead, open_feed
from robustness.training.training import check_batch


@pytest.fixture
def eight_bit() -> ArrayRows:
  generator = np.random.default_rng(0)
  images = generator.integers(0, 256, (96, 6, 6, 3), np.uint8)
  return ArrayRows(images, np.arange(96) % 3, ('red', 'green', 'blue'))


def _task(make_task, model, rows, **settings):
  task = {
    'batches': rows.training_batches,
    'arrays': rows.in_memory,
    'pipeline': Pipeline(Policy.of(flip={}, crop={'padding': 1}, mixup={})),
  }
  return make_task(model, task, batch_size=36, **settings)  # batches span epochs of 96 rows


@pytest.mark.slow
@pytest.mark.parametrize('kind', [MeshParallel, PmapParallel])
def test_the_weights_are_the_same_by_every_way(
  make_task, tiny_net, eight_bit, recorder, kind, tmp_path
):
  parallel = kind(jax.devices()[:2])
  model = tiny_net(parallel.axis_name)
  floats = dataclasses.replace(
    eight_bit, images=eight_bit.images.astype(np.float32) / np.float32(255)
  )
  tasks = {
    'resident': _task(make_task, model, eight_bit),
    'read': _task(make_task, model, eight_bit, resident_bytes=0),
    'read as floats': _task(make_task, model, floats, resident_bytes=0),
  }
  assert open_feed(tasks['resident'], parallel, 0).resident
  assert not open_feed(tasks['read'], parallel, 0).resident
  weights = {
    name: train(task, directory=tmp_path / name, parallel=parallel, writer=recorder)
    for name, task in tasks.items()
  }
  for name in ('read', 'read as floats'):
    jax.tree.map(np.testing.assert_array_equal, weights[name], weights['resident'])


def test_resident_rows_are_checked_once_and_by_name(make_task, tiny_net, eight_bit):
  wrong = dataclasses.replace(eight_bit, labels=np.where(np.arange(96) == 70, 3, 0))
  with pytest.raises(InputError, match='example 70 has label 3; the classifier has classes 0 to 2'):
    open_feed(_task(make_task, tiny_net(), wrong), MeshParallel(jax.devices()[:2]), 0)


@pytest.mark.parametrize(('settings', 'begin'), [({'resident_bytes': 2 * 96 * 108}, 0), ({}, 4)])
def test_rows_are_read_where_they_are_too_many_or_less_than_an_epoch_is_left(
  make_task, tiny_net, eight_bit, settings, begin
):
  """Two host devices hold a copy each of 96 · 108 bytes of images, and of the labels."""
  task = _task(make_task, tiny_net(), eight_bit, **settings)
  assert not open_feed(task, MeshParallel(jax.devices()[:2]), begin).resident


def test_a_feed_ends_with_the_training_and_begins_anywhere(make_task, tiny_net, eight_bit):
  parallel = MeshParallel(jax.devices()[:2])
  for settings in ({}, {'resident_bytes': 0}):
    feed = open_feed(_task(make_task, tiny_net(), eight_bit, **settings), parallel, 0)
    rows = [feed.rows(feed.resident, batch)['example_id'] for batch in feed.steps(2)]
    expected = [
      batch['example_id'] for batch in itertools.islice(eight_bit.training_batches(36, 0, 2), 4)
    ]
    np.testing.assert_array_equal(rows, expected)


def test_what_a_sampler_says_of_its_rows_comes_with_them_by_every_way(
  make_task, tiny_net, eight_bit
):
  order = Balanced([np.arange(96), np.array([5, 7])], 0, 'group')
  way = MeshParallel(jax.devices()[:2])
  for resident_bytes in (2**30, 0):
    task = _task(make_task, tiny_net(), eight_bit, resident_bytes=resident_bytes)
    read = functools.partial(eight_bit.training_batches, sampler=order)
    feed = open_feed(dataclasses.replace(task, batches=read, sampler=order), way, 0)
    assert bool(feed.resident) == bool(resident_bytes)
    for step, batch in enumerate(feed.steps(0)):
      shown = feed.rows(feed.resident, batch)
      np.testing.assert_array_equal(shown['example_id'], order.batch(step, 36))
      np.testing.assert_array_equal(shown['group'], order.batch_columns(step, 36)['group'])


def test_elements_are_taken_ahead_and_none_beyond_the_last():
  taken = []

  def source():
    for number in range(4):
      taken.append(number)
      yield number

  feed = ahead(source(), 2)
  assert taken == []
  assert (next(feed), list(taken)) == (0, [0, 1])
  assert (next(feed), list(taken)) == (1, [0, 1, 2])
  assert list(feed) == [2, 3]


def _ids(rows, size, seed, start, count):
  batches = itertools.islice(rows.training_batches(size, seed, start), count)
  return np.concatenate([batch['example_id'] for batch in batches])


def test_every_epoch_holds_every_row_once_in_another_order(rows):
  epochs = _ids(rows, 36, 3, 0, 8).reshape(3, 96)  # 36 does not divide 96: batches span epochs
  np.testing.assert_array_equal(np.sort(epochs), np.tile(np.arange(96), (3, 1)))
  assert (epochs[0] != epochs[1]).any() and (epochs[1] != epochs[2]).any()


def test_a_later_start_is_a_later_place_in_the_same_order(rows):
  np.testing.assert_array_equal(_ids(rows, 36, 3, 5, 4), _ids(rows, 36, 3, 0, 9)[5 * 36 :])
  assert (_ids(rows, 36, 4, 0, 1) != _ids(rows, 36, 3, 0, 1)).any()


def test_a_batch_larger_than_the_rows_spans_epochs(rows):
  counts = np.bincount(_ids(rows, 200, 0, 0, 1))
  assert set(counts) == {2, 3}


def test_images_and_labels_belong_together(rows):
  batch = next(rows.training_batches(10, 0, 7))
  np.testing.assert_array_equal(batch['image'], rows.images[batch['example_id']])
  np.testing.assert_array_equal(batch['label'], rows.labels[batch['example_id']])


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'image': np.zeros((2, 6, 6, 1), np.float32)}, r'\(6, 6, 3\); got float32 .*\(6, 6, 1\)'),
    ({'image': np.zeros((2, 6, 6, 3), np.uint16)}, 'got uint16'),
    ({'label': np.array([0, 3])}, 'example 12 has label 3; the classifier has classes 0 to 2'),
    ({'label': np.array([-1, 0])}, 'example 11 has label -1'),
    ({'label': np.array([[0, 1], [1, -1]])}, r'one label an image.*\(2, 2\)'),
  ],
)
def test_bad_batches_are_refused_by_name(change, message):
  batch = {
    'image': np.zeros((2, 6, 6, 3), np.float32),
    'label': np.array([0, 1]),
    'example_id': np.array([11, 12]),
    'block': 0,
  }
  assert set(check_batch(batch, (6, 6, 3), 3)) == {'image', 'label', 'example_id'}
  with pytest.raises(InputError, match=message):
    check_batch({**batch, **change}, (6, 6, 3), 3)
