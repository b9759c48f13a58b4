"""Tests reading Parquet files of encoded images, as the Hugging Face Hub stores them."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from input_pipeline.sources import parquet
from robustness.models.imagenet_names import NAMES, WNIDS
from tests.cases import cases
from tests.input_pipeline.domains import CLASSES, NUMBER, PIXELS, assert_reads_pixels, png, read
from tests.refusals import bad_setting, refused

IMAGE_TYPE = pa.struct([('bytes', pa.binary()), ('path', pa.string())])
FEATURES = json.dumps({'info': {'features': {'label': {'names': CLASSES, '_type': 'Class'}}}})
"""Metadata `huggingface` of a file, which name the classes."""


def table(features=FEATURES, **changes):
  """Returns a table of the images `PIXELS` with changed columns; None removes a column."""
  images = [{'bytes': png(pixels), 'path': None} for pixels in PIXELS]
  columns = {
    'image': pa.array(images, IMAGE_TYPE),
    'label': pa.array([i % 3 for i in range(NUMBER)]),
    'pose': pa.array(['x', 'y'] * (NUMBER // 2)),
    'boxes': pa.array([[1, 2]] * NUMBER),
    **changes,
  }
  return pa.table({k: v for k, v in columns.items() if v is not None}).replace_schema_metadata(
    {'huggingface': features}
  )


@pytest.fixture
def hub(tmp_path):
  """Returns a folder with `table` in two shards of 17 and 13 rows, in groups of four rows."""
  (tmp_path / 'data').mkdir()
  for number, rows in enumerate((slice(0, 17), slice(17, NUMBER))):
    part = table().slice(rows.start, rows.stop - rows.start)
    pq.write_table(part, tmp_path / f'data/test-0000{number}-of-00002.parquet', row_group_size=4)
  return tmp_path


@pytest.mark.parametrize('max_bytes', [parquet.MAX_BYTES_IN_MEMORY, 0])
def test_shards_are_read_in_order_both_in_memory_and_streamed(hub, monkeypatch, max_bytes):
  monkeypatch.setattr(parquet, 'MAX_BYTES_IN_MEMORY', max_bytes)
  rows = read('parquet', hub)
  assert rows.class_names == CLASSES and set(next(rows.batches(1))) >= {'pose'}
  assert 'boxes' not in next(rows.batches(1)), 'a list in each row'
  assert rows.at(np.array([2, 19])).without_images()['label'].tolist() == [2 % 3, 19 % 3]
  assert_reads_pixels(rows)


def test_a_resumed_training_reads_few_row_groups(hub, monkeypatch):
  monkeypatch.setattr(parquet, 'MAX_BYTES_IN_MEMORY', 0)
  read_groups = []
  read_group = parquet.ParquetStore.read_group

  def noted(self, group):
    read_groups.append(group)
    return read_group(self, group)

  rows = read('parquet', hub)
  monkeypatch.setattr(parquet.ParquetStore, 'read_group', noted)
  next(iter(rows._images.store.shuffled(rows.indices, 0, 28).as_numpy_iterator()))
  assert len(set(read_groups)) <= parquet.WINDOW


def test_images_may_be_bytes_and_splits_folders(tmp_path):
  for split in ('train', 'validation'):
    (tmp_path / split).mkdir()
    images = pa.array([png(pixels) for pixels in PIXELS])
    pq.write_table(table(image=None, img=images), tmp_path / split / '0000.parquet')
  assert_reads_pixels(read('parquet', tmp_path, split='validation'))
  refused(bad_setting('config.data.split', 'test'), read, 'parquet', tmp_path)


@pytest.fixture
def second_config(hub):
  """Returns a folder in `hub` with `table` in one shard, test/0000.parquet."""
  (hub / 'default/test').mkdir(parents=True)
  pq.write_table(table(), hub / 'default/test/0000.parquet')
  return hub / 'default'


def test_several_configs_and_missing_shards_are_refused(hub, second_config):
  refused("shards in the folders 'data', 'default', of several", read, 'parquet', hub)
  assert read('parquet', second_config).num_examples == NUMBER
  (hub / 'data/test-00000-of-00002.parquet').unlink()
  refused('1 of 2 shards are missing, first number 0 of', read, 'parquet', hub / 'data')
  assert read('parquet', hub / 'data', allow_missing=True).num_examples == 13


@cases(
  'name', 'test-00001-of-00002 (1)', 'test-00000-of-00003', 'test-00000-of-00002-1fc3a0bc49b8c3f2'
)
def test_a_copy_or_another_version_of_a_shard_is_refused(hub, name):
  shutil.copy(hub / 'data/test-00000-of-00002.parquet', hub / f'data/{name}.parquet')
  refused('have one number: remove the copy', read, 'parquet', hub / 'data')
  refused('have one number', read, 'parquet', hub / 'data', allow_missing=True)


def test_the_last_number_before_the_total_counts(hub):
  for file in (hub / 'data').glob('test-*'):
    file.rename(file.with_name(f'fold-1-of-5-{file.name}'))
  assert read('parquet', hub / 'data').num_examples == NUMBER


def test_shards_with_a_hash_in_their_name_are_counted(hub):
  (first, second) = sorted((hub / 'data').glob('test-*'))
  first.rename(first.with_stem(f'{first.stem}-1fc3a0bc49b8c3f2'))
  second.rename(second.with_stem(f'{second.stem}-f2a0bc49b8c31fc3'))
  assert read('parquet', hub / 'data').num_examples == NUMBER
  next((hub / 'data').glob('test-00001*')).unlink()
  refused('1 of 2 shards are missing, first number 1', read, 'parquet', hub / 'data')


def test_a_label_space_names_the_classes_of_a_file_without_names(second_config):
  message = "label_space is 'imagenet'; it must be a label space of 3 classes"
  refused(message, read, 'parquet', second_config, label_space='imagenet')
  pq.write_table(table('{}'), second_config / 'test/0000.parquet')
  rows = read('parquet', second_config, label_space='imagenet')
  assert rows.class_names[:2] == ('tench', 'goldfish') and len(rows.class_names) == 1000


@cases(
  'stored',
  WNIDS,
  NAMES,
  [f'{name}, or another name' for name in reversed(NAMES)],
  [name.replace('tank suit', 'maillot') for name in NAMES],  # as 'maillot, tank suit' cut short
)
def test_a_label_space_replaces_names_in_its_order_alone(stored):
  source = parquet.Parquet(label_space='imagenet')
  assert source.names_of_space(stored, 'it') == NAMES
  moved = [stored[0], WNIDS[2], WNIDS[1], *stored[3:]]
  message = bad_setting('config.data.parquet.label_space', 'imagenet', words='n01484850')
  refused(message, source.names_of_space, moved, 'it')
  twice = [*NAMES[:999], 'tench']
  message = bad_setting('config.data.parquet.label_space', '', words="several are called 'tench'")
  refused(message, parquet.Parquet().names_of_space, twice, 'it')


def test_class_names_belong_to_a_column_and_images_are_rgb_unless_all_are_grey(tmp_path):
  features = FEATURES.replace('"label"', '"fine_label"')
  grey = [png(pixels[..., 0]) for pixels in PIXELS]
  for images, channels in ((grey, 1), (grey[:2] + [png(PIXELS[2])] + grey[3:], 3)):
    renamed = table(features, image=pa.array(images), fine_label=table()['label'])
    pq.write_table(renamed, tmp_path / 'a.parquet')
    rows = read('parquet', tmp_path)
    assert rows.class_names == ('0', '1', '2') and rows.image_shape == (6, 5, channels)
    assert next(rows.batches(3))['image'].shape[-1] == channels
  assert read('parquet', tmp_path, label_column='fine_label').class_names == CLASSES


@pytest.mark.parametrize('name', ['train-00000-of-00001.parquet', 'imagenet_train_0.parquet'])
def test_a_file_belongs_to_the_split_in_its_name(tmp_path, name):
  pq.write_table(table(), tmp_path / name)
  for path in (tmp_path, tmp_path / name):
    for split in ('', 'train'):
      assert read('parquet', path, split=split).num_examples == NUMBER
    refused(bad_setting('config.data.split', 'test'), read, 'parquet', path)


def test_unusable_files_are_refused_by_name(tmp_path):
  refused('holds no .parquet file', read, 'parquet', tmp_path)
  file = tmp_path / 'a.parquet'
  file.write_bytes(b'PAR1 and nothing')
  refused('a.parquet is truncated or no Parquet file', read, 'parquet', file)
  for change, message in (
    ({'image': None}, 'one column of encoded images .* has label'),
    ({'label': pa.array([7] * NUMBER)}, 'label has 7 .example 0.; there are 3 classes'),
    (
      {'image': pa.array([{'bytes': None, 'path': 'x.png'}] * NUMBER, IMAGE_TYPE)},
      'row 0 .* no bytes',
    ),
    (
      {'image': pa.array([b'nothing'] * NUMBER)},
      '30 of 30 pictures .* example 0: its content is no',
    ),
    ({'label': None, 'labels': pa.array([2**20] * NUMBER)}, 'labels is 1048576; it must be below'),
    ({'features': 'xx'}, "the metadata 'huggingface' of .*a.parquet is truncated or no JSON"),
    ({'features': '{"info": null}'}, 'info is None; expected an object'),
    ({'features': FEATURES.replace('bee', 'cat')}, "the classes 1 and 2 all 'cat'"),
  ):
    pq.write_table(table(**change), file)
    refused(message, read, 'parquet', file)


def test_files_without_rows_or_of_different_columns_or_classes_are_refused(tmp_path):
  file = tmp_path / 'a.parquet'
  pq.write_table(table().slice(0, 0), file)
  refused('has no row', read, 'parquet', file)
  pq.write_table(table(), file)
  pq.write_table(table(pose=None), tmp_path / 'b.parquet')
  refused('b.parquet has other columns than', read, 'parquet', tmp_path)
  pq.write_table(table(FEATURES.replace('bee', 'elk')), tmp_path / 'b.parquet')
  message = 'b.parquet has other names of classes than .*a.parquet: give the folder of one config'
  refused(message, read, 'parquet', tmp_path)


@pytest.mark.slow
def test_files_that_would_fill_the_memory_and_equal_columns_are_refused(tmp_path, monkeypatch):
  file = tmp_path / 'a.parquet'
  two_labels = table().append_column('label', pa.array([0] * NUMBER))
  pq.write_table(two_labels, file)
  refused("a.parquet has 2 columns 'label': rename one", read, 'parquet', file)
  picture = png(PIXELS[0]) + bytes(2**18)  # stored once, in the dictionary of the column
  repeated = pa.table({'image': pa.array([picture] * 600), 'label': pa.array([0] * 600)})
  pq.write_table(repeated, file)
  assert file.stat().st_size < 2**20
  monkeypatch.setattr('input_pipeline.sources.parquet.MAX_BYTES_PER_ARRAY', 2**26)
  refused('the images of row group 0 are above the limit of', read, 'parquet', file)
  monkeypatch.setattr('input_pipeline.shards.MAX_ROWS', 599)
  refused('the number of rows of .* is 600; it must be at most 599', read, 'parquet', file)


def test_damage_in_a_column_is_refused(tmp_path):
  file = tmp_path / 'a.parquet'
  pq.write_table(table(), file, compression='none')
  content = bytearray(file.read_bytes())
  content[4:200] = bytes(196)
  file.write_bytes(content)
  refused('a.parquet is truncated or no Parquet file', read, 'parquet', file)
