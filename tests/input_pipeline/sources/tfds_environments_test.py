"""TFDS configs as environments: DomainNet's builder on made files, duplicates, absent classes."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.image_classification.domainnet import domainnet

from input_pipeline import DataSettings, load, tfds_sets
from input_pipeline.rows import TfRows
from robustness.core.errors import InputError
from tests.input_pipeline.domains import write_domain

CLASSES = ('airplane', 'ant', 'zebra')  # of DomainNet's 345
TRAIN, TEST = 6, 3  # images of each class


def plain(base: int) -> dict[str, list[tuple[str, int]]]:
  """Pictures of levels base + 20 · class + k, in the test from k = 10 on."""
  return {
    split: [(name, base + 20 * c + first + k) for k in range(n) for c, name in enumerate(CLASSES)]
    for split, first, n in (('train', 0, TRAIN), ('test', 10, TEST))
  }


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """DomainNet's files of three configs. Two pictures of `real` are stored twice in its training
  split, one of them in the test of `sketch` too; `painting` has no zebra in its test."""
  path = tmp_path_factory.mktemp('domains')
  labels = domainnet._CLASS_NAMES
  real, painting, sketch = plain(0), plain(60), plain(120)
  real['train'] += real['train'][:2]
  sketch['test'] = [*sketch['test'], real['train'][0]]
  painting['test'] = [(name, level) for name, level in painting['test'] if name != 'zebra']
  for config, own in (('real', real), ('painting', painting), ('sketch', sketch)):
    write_domain(path, 'domainnet', config, own, labels)
  return path


def open_rows(
  folder: pathlib.Path, path: str = 'tfds:domainnet/real,painting,sketch', **changes: Any
) -> TfRows:
  settings: dict[str, Any] = {
    'name': 'real',
    'class_groups': (('airplane',), ('ant',)),
    'allow_missing': True,
    **changes,
  }
  return load(DataSettings(source='environments', path=path, data_dir=str(folder), **settings))


def levels(batch: Mapping[str, Any]) -> list[int]:
  return np.rint(batch['image'][batch['mask'], 0, 0, 0] * 255).astype(int).tolist()


def test_the_test_has_every_picture_once_and_none_of_training(folder: pathlib.Path) -> None:
  rows = open_rows(folder)
  (batch,) = rows.batches(100)
  expected = [*plain(0)['test'], *plain(60)['test'], *plain(120)['test']]
  expected = [
    (name, level) for name, level in expected if not (name == 'zebra' and 60 <= level < 120)
  ]
  assert levels(batch) == [level for _, level in expected]
  shown = batch['label'][batch['mask']]
  assert [rows.class_names[label] for label in shown] == [name for name, _ in expected]
  assert batch['environment'][batch['mask']].tolist() == [0] * 9 + [1] * 6 + [2] * 9
  assert batch['example_id'][batch['mask']].tolist() == list(range(24))
  description = rows.description
  assert description['duplicates_left_out'] == [0, 0, 1]
  assert description['images_by_environment'] == [9, 6, 9]
  missing = description['missing_cells']
  assert 'painting/zebra' in missing and 'sketch/zebra' not in missing
  assert len(missing) == 3 * 342 + 1
  assert description['data_sets'][1] == 'domainnet/painting/1.0.0'


def test_training_has_the_permitted_cells_mixed_and_resumes(
  folder: pathlib.Path, monkeypatch
) -> None:
  monkeypatch.setattr(tfds_sets, 'SHUFFLE_BUFFER', 4)
  rows = open_rows(folder, split='train')
  (batch,) = rows.batches(100)
  permitted = {
    *(level for _, level in plain(0)['train']),
    *(level for name, level in plain(60)['train'] if name == 'airplane'),
    *(level for name, level in plain(120)['train'] if name == 'ant'),
  }
  assert sorted(levels(batch)) == sorted(permitted) and rows.num_examples == 30
  assert rows.description['duplicates_left_out'] == [2, 0, 0]
  run = list(itertools.islice(rows.training_batches(10, seed=0), 9))
  ids = np.concatenate([b['example_id'] for b in run]).reshape(3, 30)
  for epoch in ids:
    assert sorted(epoch) == list(range(30))
  assert len({tuple(epoch) for epoch in ids}) == 3
  for b in run:
    assert np.rint(b['image'][:, 0, 0, 0] * 1).astype(int).tolist() == [
      levels(batch)[i] for i in b['example_id']
    ]
  assert sum(len(set(b['environment'].tolist())) > 1 for b in run) == 9
  resumed = itertools.islice(rows.training_batches(10, seed=0, start_step=4), 2)
  np.testing.assert_array_equal(
    [b['example_id'] for b in resumed], [b['example_id'] for b in run[4:6]]
  )
  assert set(open_rows(folder, split='clean').description['images_by_environment'][1:]) == {0}


def test_a_subset_across_configs(folder: pathlib.Path) -> None:
  rows = open_rows(folder, num_images=7)
  (whole,) = open_rows(folder).batches(100)
  read = list(rows.batches(3))
  np.testing.assert_array_equal(
    np.concatenate([levels(b) for b in read]), np.array(levels(whole))[rows.indices]
  )


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'allow_missing': False}, r'1027 of 1035 cells have no images: real/aircraft_carrier'),
    ({'path': 'tfds:domainnet/real,scetch'}, "names the config 'scetch'; did you mean 'sketch'"),
    ({'path': 'tfds:domainnet/real'}, 'two different configs'),
    ({'path': 'tfds:mnist'}, "'mnist' has: none"),
    ({'path': 'tfds:domain_net'}, 'which TFDS does not know'),
    ({'name': 'photo'}, "config.data.name is 'photo'"),
    ({'class_groups': (('zebra',),)}, "no class of group 1 has images of 'painting'"),
    ({'split': 'validation'}, 'config.data.split'),
  ],
)
def test_what_is_wrong_is_named(folder: pathlib.Path, changes: dict, message: str) -> None:
  with pytest.raises(InputError, match=message):
    open_rows(folder, **changes)


def test_configs_with_other_classes_are_refused(tmp_path: pathlib.Path) -> None:
  for config, labels in (('a', ['cat', 'dog']), ('b', ['cat', 'cow'])):
    write_domain(
      tmp_path, 'made_domains', config, {'train': [('cat', 1)], 'test': [('cat', 2)]}, labels
    )
  with pytest.raises(InputError, match='have different classes'):
    open_rows(tmp_path, 'tfds:made_domains', name='a', class_groups=(('cat',),))


def test_without_training_images_a_download_is_tried_by_name(
  folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  def offline(builder: tfds.core.DatasetBuilder) -> None:
    raise ConnectionError(builder.info.full_name)

  monkeypatch.setattr(tfds.core.DatasetBuilder, 'download_and_prepare', offline)
  with pytest.raises(InputError, match=r'domainnet/clipart/1\.0\.0.*could not be downloaded'):
    open_rows(folder, 'tfds:domainnet')
