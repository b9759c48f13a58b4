"""Rows on the devices and rows that are read give the same bits."""

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
from robustness.training.feed import ResidentFeed, StreamedFeed, ahead, open_feed


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
  assert isinstance(open_feed(tasks['resident'], parallel, 0), ResidentFeed)
  assert isinstance(open_feed(tasks['read'], parallel, 0), StreamedFeed)
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
  assert isinstance(open_feed(task, MeshParallel(jax.devices()[:2]), begin), StreamedFeed)


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
  for resident_bytes, kind in ((2**30, ResidentFeed), (0, StreamedFeed)):
    task = _task(make_task, tiny_net(), eight_bit, resident_bytes=resident_bytes)
    read = functools.partial(eight_bit.training_batches, sampler=order)
    feed = open_feed(dataclasses.replace(task, batches=read, sampler=order), way, 0)
    assert isinstance(feed, kind)
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
