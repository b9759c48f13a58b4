"""Tests reading the images that a table lists, in CSV, JSON, JSON Lines and Parquet files."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cases import cases
from tests.input_pipeline.domains import (
  CLASSES,
  NUMBER,
  PIXELS,
  assert_reads_pixels,
  full_batch,
  png,
  read,
)
from tests.refusals import bad_setting, refused

NAMES = [f'{i:02}.png' for i in range(NUMBER)]
TABLE = pd.DataFrame(
  {
    'file_name': [f'images/{name}' for name in NAMES],
    'label': [CLASSES[i % 3] for i in range(NUMBER)],
    'pose': ['x', 'y'] * (NUMBER // 2),
    'angle': [i / 2 for i in range(NUMBER)],
    'seen': [True, None, False] * (NUMBER // 3),
    'site': pd.Categorical(['a', None, 'b'] * (NUMBER // 3)),
  }
)
WRITERS = {
  'csv': lambda table, file: table.to_csv(file, index=False),
  'json': lambda table, file: table.to_json(file, orient='records'),
  'jsonl': lambda table, file: table.to_json(file, orient='records', lines=True),
  'parquet': lambda table, file: table.to_parquet(file),
}


@pytest.fixture
def folder(tmp_path):
  """Returns a folder with the images of `TABLE`, without the table."""
  for name, pixels in zip(NAMES, PIXELS, strict=True):
    file = tmp_path / 'images' / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(png(pixels))
  return tmp_path


@pytest.mark.parametrize('kind', WRITERS)
def test_every_kind_of_table_gives_the_same_rows(folder, kind):
  file = folder / f'metadata.{kind}'
  WRITERS[kind](TABLE, file)
  byte_order_mark = b'\xef\xbb\xbf' if kind != 'parquet' else b''
  file.write_bytes(byte_order_mark + file.read_bytes())
  rows = read('file_list', folder)
  assert rows.class_names == CLASSES
  batch = next(rows.batches(3))
  assert batch['angle'].tolist() == [0, 0.5, 1] and batch['site'].tolist() == ['a', '', 'b']
  assert batch['seen'].tolist() == ['True', '', 'False']
  assert_reads_pixels(rows)


def test_names_without_a_folder_are_searched_for_and_folders_are_the_default_labels(folder):
  listing = folder / 'list.csv'
  table = TABLE.assign(file_name=NAMES, split=['train', 'test', 'test'] * 10)
  table.drop(columns='label').to_csv(listing, index=False)
  rows = read('file_list', folder, table=str(listing))
  assert rows.num_examples == 20 and rows.class_names == ('images',)
  by_pose = read('file_list', folder, table=str(listing), label_column='pose', split='train')
  assert by_pose.class_names == ('x', 'y') and by_pose.num_examples == 10
  assert by_pose.description['label_column'] == 'pose', 'other labels are other data'


def test_rows_of_no_split_are_not_read_and_spaces_around_a_split_do_not_count(folder):
  listing = folder / 'with_splits.csv'
  TABLE.assign(split=['train', ' test', ''] * 10).to_csv(listing, index=False)
  assert read('file_list', folder, table=str(listing)).num_examples == 10
  refused("'test', 'train'", read, 'file_list', folder, table=str(listing), split='val')


@cases(
  'change, message',
  (lambda t: t.drop(columns='file_name'), 'has no column of files .*only label, pose, angle, '),
  (lambda t: t.rename(columns={'label': ' label'}), "has a column ' label': call it 'label'"),
  (lambda t: t.assign(Split='test'), "has a column 'Split': call it 'split'"),
  (lambda t: t.assign(label=-1), r'label has -1 .example 0.; labels start at 0'),
  (lambda t: t.assign(label=0.5), r'label is of float64; labels are integers'),
  (lambda t: t.assign(label=[None, *t.label[1:]]), 'row 0 has no label'),
  (lambda t: t.assign(file_name='images/77.png'), r"row 0 names 'images/77.png'.*is no such file"),
  (lambda t: t.assign(file_name='other/00.png'), r"row 0 names 'other/00.png'.*is no such file"),
  (lambda t: t.assign(split='train'), "config.data.split is 'test': .*'train'"),
  (lambda t: t.assign(file_name='images/00.png'), "row 1 names 'images/00.png' again"),
  (lambda t: t.replace('images/01.png', 'images/../images/00.png'), r"'images/\.\./.*again"),
  (lambda t: t[:0], 'has no row'),
)
def test_a_table_of_faulty_rows_is_refused(folder, change, message):
  change(TABLE).to_csv(folder / 'metadata.csv', index=False)
  refused(message, read, 'file_list', folder)


def test_a_column_of_empty_fields_is_left_out(folder):
  lines = [f'images/{name},{label},' for name, label in zip(NAMES, TABLE.label, strict=True)]
  (folder / 'metadata.csv').write_text('\n'.join(['file_name,label', *lines]))
  assert_reads_pixels(read('file_list', folder), poses=False)


def test_errors_count_the_rows_of_a_filtered_table_from_0(folder):
  listing = folder / 'metadata.parquet'
  TABLE[20:].to_parquet(listing)  # its index begins at 20
  assert read('file_list', folder).num_examples == NUMBER - 20
  TABLE.assign(file_name=[*TABLE.file_name[:-1], 'gone.png'])[20:].to_parquet(listing)
  refused("row 9 names 'gone.png'", read, 'file_list', folder)
  TABLE.replace('images/29.png', 'images/21.png')[20:].to_parquet(listing)
  refused("row 9 names 'images/21.png' again", read, 'file_list', folder)


def test_files_of_rows_outside_the_subset_may_be_missing(folder):
  names = [*TABLE.file_name[:2], *(f'gone/{name}' for name in NAMES[2:])]
  TABLE.assign(file_name=names).to_csv(folder / 'metadata.csv', index=False)
  refused("row 2 names 'gone/02.png'", read, 'file_list', folder)
  rows = read('file_list', folder, num_images=2, subset='first')
  np.testing.assert_array_equal(next(rows.batches(2, stored=True))['image'], PIXELS[:2])
  TABLE.assign(file_name=[*names[:-1], names[0]]).to_csv(folder / 'metadata.csv', index=False)
  message = "row 29 names 'images/00.png' again"
  refused(message, read, 'file_list', folder, num_images=2, subset='first')


def test_a_table_without_splits_has_no_rows_to_train_on(folder):
  TABLE.to_csv(folder / 'metadata.csv', index=False)
  assert read('file_list', folder, split='').num_examples == NUMBER
  message = "split is 'train'; it must be '' or 'test': the table has no column split"
  refused(message, read, 'file_list', folder, split='train')


def test_labels_may_be_numbers_of_a_label_space_and_lines_end_at_line_feeds(folder):
  # U+2028 is a separator of lines in Unicode, and no end of a line in JSON Lines.
  line = '{{"file_name": "images/{:02}.png", "class": {}, "pose": "a\u2028b"}}\n\n'
  lines = ''.join(line.format(i, 400 + i) for i in range(NUMBER))
  (folder / 'metadata.jsonl').write_text(lines, encoding='utf-8')
  rows = read('file_list', folder, label_space='imagenet')
  assert rows.class_names[404] == 'airliner' and next(rows.batches(5))['label'][4] == 404
  space = {'label_space': 'imagenet', 'label_column': 'pose'}
  refused(
    bad_setting('config.data.file_list.label_space', 'imagenet'), read, 'file_list', folder, **space
  )


def test_a_missing_second_or_unreadable_table_is_refused(folder):
  refused('holds none of metadata.csv', read, 'file_list', folder)
  refused('is no table: give a file ending in', read, 'file_list', table=str(folder / 'a.txt'))
  refused('cannot be read as a table', read, 'file_list', table=str(folder / 'gone.csv'))
  names = ('metadata.jsonl', 'metadata.parquet')
  for name in names:
    (folder / name).write_bytes(b'{"a": ')
  refused('holds metadata.jsonl and metadata.parquet: name', read, 'file_list', folder)
  for name in names:
    refused('cannot be read as a table', read, 'file_list', table=str(folder / name))
  TABLE.to_csv(folder / 'third.csv', index=False)
  unknown = "config.data.file_list.label_column is 'colour'; give one of file_name, label"
  refused(
    unknown, read, 'file_list', folder, table=str(folder / 'third.csv'), label_column='colour'
  )


# Words in the columns file_name to version, numbers in the others; `part` has gaps.
LOOKS_LIKE_NUMBERS = pd.DataFrame(
  {
    'file_name': [f'{i:03}' for i in range(NUMBER)],
    'label': [f'{i % 3:02}' for i in range(NUMBER)],
    'site': [f'{i % 12 + 1:03}' for i in range(NUMBER)],
    'seen': ['True', 'False'] * (NUMBER // 2),
    'version': ['12e3', '7'] * (NUMBER // 2),
    'angle': [i - 7 for i in range(NUMBER)],
    'width': [i / 8 for i in range(NUMBER)],
    'part': ['1.50', None] * (NUMBER // 2),
  }
)


@pytest.mark.parametrize('label', ['label', 'site', 'seen'])
def test_words_that_look_like_numbers_stay_words_in_csv_as_in_json(tmp_path, label):
  for i, pixels in enumerate(PIXELS):
    (tmp_path / f'{i:03}').write_bytes(png(pixels))
  for kind in ('csv', 'jsonl'):
    table = LOOKS_LIKE_NUMBERS.assign(part=LOOKS_LIKE_NUMBERS.part.astype(float))
    WRITERS[kind](LOOKS_LIKE_NUMBERS if kind == 'csv' else table, tmp_path / f'metadata.{kind}')
  csv, jsonl = (
    read('file_list', tmp_path, table=str(tmp_path / f'metadata.{kind}'), label_column=label)
    for kind in ('csv', 'jsonl')
  )
  assert csv.class_names == jsonl.class_names == tuple(sorted({*LOOKS_LIKE_NUMBERS[label]}))
  from_csv, from_jsonl = full_batch(csv), full_batch(jsonl)
  assert from_csv.keys() == from_jsonl.keys()
  for name, values in from_csv.items():
    assert np.asarray(values).dtype.kind == np.asarray(from_jsonl[name]).dtype.kind, name
    np.testing.assert_array_equal(values, from_jsonl[name], err_msg=name)
  assert from_csv['part'].dtype.kind == from_csv['width'].dtype.kind == 'f'
  assert from_csv['angle'].dtype.kind == 'i' and from_csv['version'].dtype.kind == 'U'


@cases(
  'name, text, message',
  ('a.csv', 'file_name,label\n0.png,a,1\n1.png,b,2\n', 'a.csv has lines of more fields'),
  ('a.json', '[{"file_name": "0.png"}, 5]', 'a.json cannot be read as a table'),
  ('a.jsonl', '{"file_name": "0.png"}\nnull\n', 'a.jsonl cannot be read as a table'),
  ('a.csv', 'file_name,label,label\n0.png,a,b\n', "a.csv .*: it has 2 columns 'label': rename"),
  ('a.csv', 'file_name,label\n0.png, cat\n1.png,cat\n', "row 0 has label ' cat', and others"),
  ('a.csv', 'file_name,label\n0.png,cat\n1.png,cat\t\n', r"row 1 has label 'cat\\t', and"),
  ('a.csv', f'file_name,label\n{"x" * 300}.png,cat\n', "row 0 names 'xxx.*there is no such file"),
  ('a.csv', 'file_name,label\n"0\0.png",cat\n', 'row 0 names .*there is no such file'),
  ('a.json', f'[{{"label": {"[" * 5000}{"]" * 5000}}}]', 'a.json .*nested too deeply'),
  ('a.jsonl', '{"label": 1, "label": 2}', "line 1 .*holds the key 'label' 2 times"),
)
def test_ambiguous_malformed_or_hostile_text_is_refused_in_one_line(tmp_path, name, text, message):
  (tmp_path / name).write_text(text)
  for number in range(2):
    (tmp_path / f'{number}.png').write_bytes(png(PIXELS[number]))
  assert '\n' not in refused(message, read, 'file_list', tmp_path, table=str(tmp_path / name))


def test_a_parquet_file_with_two_columns_of_one_name_is_refused(tmp_path):
  columns = [pa.array(['0.png']), pa.array(['a']), pa.array(['b'])]
  pq.write_table(pa.table(columns, ['file_name', 'label', 'label']), tmp_path / 'a.parquet')
  message = "a.parquet cannot be read as a table: it has 2 columns 'label': rename one"
  refused(message, read, 'file_list', tmp_path, table=str(tmp_path / 'a.parquet'))


@pytest.mark.parametrize('kind', WRITERS)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, kind):
  os.mkfifo(tmp_path / f'pipe.{kind}')
  message = 'cannot be read as a table: .*is a device, a pipe or a socket'
  refused(message, read, 'file_list', tmp_path, table=str(tmp_path / f'pipe.{kind}'))


def test_names_match_files_in_composed_and_decomposed_unicode(tmp_path):
  (tmp_path / 'cafe\u0301').mkdir()
  (tmp_path / 'cafe\u0301/e\u0301.png').write_bytes(png(PIXELS[0]))
  (tmp_path / 'metadata.csv').write_text('file_name,label\ncaf\u00e9/\u00e9.png,a\n', 'utf-8')
  assert read('file_list', tmp_path).num_examples == 1


def test_columns_that_are_not_read_are_counted(folder):
  table = TABLE.assign(boxes=[[i] for i in range(NUMBER)], mask='x', block=1)
  WRITERS['jsonl'](table, folder / 'metadata.jsonl')
  assert read('file_list', folder).description['left_out'] == {
    'columns of names that rows use': 2,
    'columns of neither numbers nor words': 1,
  }
