"""TFDS names: exact reading in memory and streamed, and what is refused."""

from __future__ import annotations

import itertools
import pathlib
import time
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds

from input_pipeline import DataSettings, load
from input_pipeline.rows import TfRows
from input_pipeline.sources import tfds as tfds_source
from robustness.core.errors import InputError


def open_tfds(folder: pathlib.Path, name: str = 'tiny_set', **settings: Any) -> TfRows:
  return load(DataSettings(source='tfds', name=name, data_dir=str(folder), **settings))


@pytest.fixture(params=['in memory', 'streamed'])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
  if request.param == 'streamed':
    monkeypatch.setattr(tfds_source, 'MAX_EXAMPLES_IN_MEMORY', 0)
  return request.param


def test_every_example_once_in_the_files_order(tiny_tfds: pathlib.Path, storage: str) -> None:
  rows = open_tfds(tiny_tfds)
  assert rows.image_shape == (5, 7, 3) and rows.class_names == ('no', 'yes')
  batches = list(rows.batches(8))
  order = np.concatenate([b['example_id'][b['mask']] for b in batches])
  assert order.tolist() == list(range(30))
  for batch in batches:
    ids = batch['example_id'][batch['mask']]
    np.testing.assert_array_equal(
      batch['image'][batch['mask'], 0, 0, 0], ids.astype(np.float32) / np.float32(255)
    )
    np.testing.assert_array_equal(batch['label'][batch['mask']], ids % 2)


def test_subset_and_blocks(tiny_tfds: pathlib.Path, storage: str) -> None:
  rows = open_tfds(tiny_tfds, num_images=11)
  batches = list(rows.batches(4, [0, 2]))
  assert [b['block'] for b in batches] == [0, 2]
  assert batches[0]['example_id'].tolist() == rows.indices[:4].tolist()
  assert batches[1]['example_id'][:3].tolist() == rows.indices[8:].tolist()


def test_training_epochs_resume_and_processes(tiny_tfds: pathlib.Path, storage: str) -> None:
  rows = open_tfds(tiny_tfds)
  run = [b['example_id'] for b in itertools.islice(rows.training_batches(8, seed=0), 15)]
  epochs = np.concatenate(run)[:120].reshape(4, 30)
  for epoch in epochs:
    assert sorted(epoch) == list(range(30))
  assert len({tuple(epoch) for epoch in epochs}) == 4
  for step in (3, 4, 9):
    resumed = itertools.islice(rows.training_batches(8, 0, start_step=step), 3)
    np.testing.assert_array_equal([b['example_id'] for b in resumed], run[step : step + 3])
  halves = [itertools.islice(rows.training_batches(8, 0, 2, p, 2), 3) for p in range(2)]
  parts = [np.stack([b['example_id'] for b in half]) for half in halves]
  np.testing.assert_array_equal(np.concatenate(parts, axis=1), run[2:5])
  other = next(rows.training_batches(8, seed=1))['example_id']
  assert (other != run[0]).any()


def test_a_slice_of_a_split(tiny_tfds: pathlib.Path) -> None:
  rows = open_tfds(tiny_tfds, split='test[10:20]')
  batch = next(rows.batches(10))
  np.testing.assert_array_equal(np.rint(batch['image'][:, 0, 0, 0] * 255), np.arange(10, 20))
  assert batch['example_id'].tolist() == list(range(10))
  assert rows.description['split'] == 'test[10:20]'
  assert rows.description['name'] == 'tiny_set/1.0.0'


def test_mixed_sizes_are_refused_naming_the_index(tiny_tfds: pathlib.Path, storage: str) -> None:
  rows = open_tfds(tiny_tfds, 'uneven_set')
  with pytest.raises(InputError, match=r"split 'test', example 2 comes out as 6x9 .*crop=224"):
    list(rows.batches(3))
  with pytest.raises(InputError, match='example 2 comes out as 6x9'):
    list(itertools.islice(rows.training_batches(2, seed=0), 3))
  assert next(open_tfds(tiny_tfds, 'uneven_set', resize=6, crop=5).batches(3))['mask'].all()


def test_a_split_without_labels_is_refused(tiny_tfds: pathlib.Path) -> None:
  with pytest.raises(InputError, match='example 0 has label -1: the split carries no labels'):
    list(open_tfds(tiny_tfds, 'unlabelled_set').batches(3))


@pytest.mark.parametrize(
  ('settings', 'message'),
  [
    ({'name': ''}, "config.data.name is ''"),
    ({'name': 'cifar1O'}, "'cifar1O', which TFDS does not know; did you mean 'cifar10'"),
    ({'name': 'zzzzqqq'}, "'zzzzqqq', which TFDS does not know; nothing is called alike"),
    ({'name': 'cifar10:9.9.9'}, "'cifar10:9.9.9', which TFDS cannot open"),
    ({'split': 'tset'}, "split is 'tset'.* did you mean 'test'.* valid: 'test', 'train'"),
    ({'split': 'test[:abc]'}, r"config.data.split is 'test\[:abc\]'"),
    ({'split': 'test[:0]'}, r"split 'test\[:0\]' .* is empty; its splits: test \(30\)"),
    ({'name': 'squad'}, "lacks the feature 'image' or 'label'; it has: "),
  ],
)
def test_bad_names_and_splits(tiny_tfds: pathlib.Path, settings: dict, message: str) -> None:
  with pytest.raises(InputError, match=message):
    open_tfds(tiny_tfds, **settings)


def test_a_download_that_fails_says_how_to_mend_it(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  def offline(builder: tfds.core.DatasetBuilder) -> None:
    raise ConnectionError('no route to host')

  monkeypatch.setattr(tfds.core.DatasetBuilder, 'download_and_prepare', offline)
  with pytest.raises(InputError, match='could not be downloaded .*no route to host.*data_dir=DIR'):
    open_tfds(tmp_path, 'cifar10')


def test_cifar10(cifar10_dir: pathlib.Path) -> None:
  rows = open_tfds(cifar10_dir, 'cifar10')
  start = time.monotonic()
  batches = list(rows.batches(512))
  assert time.monotonic() - start < 20
  order = np.concatenate([b['example_id'][b['mask']] for b in batches])
  labels = np.concatenate([b['label'][b['mask']] for b in batches])
  assert order.tolist() == list(range(10_000))
  assert np.bincount(labels).tolist() == [1000] * 10
  assert rows.class_names[:3] == ('airplane', 'automobile', 'bird')
  means = np.mean([b['image'][b['mask']].mean(axis=(0, 1, 2)) for b in batches[:-1]], axis=0)
  np.testing.assert_allclose(means, [0.494, 0.485, 0.450], atol=0.004)  # the test set's known means
