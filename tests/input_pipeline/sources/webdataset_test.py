"""WebDataset shards: samples, columns of JSON, patterns, and what is refused."""

import io
import json
import tarfile

import pytest

from tests.cases import cases
from tests.input_pipeline.domains import NUMBER, PIXELS, assert_reads_pixels, png, read
from tests.refusals import refused


def write(file, members):
  with tarfile.open(file, 'w') as archive:
    for name, data in members:
      entry = tarfile.TarInfo(name)
      entry.size = len(data)
      archive.addfile(entry, io.BytesIO(data))
  return file


def sample(i, key='{:03}'):
  known = json.dumps({'pose': 'xy'[i % 2], 'class_name': f'class {i % 3}', 'box': [1]})
  parts = {'png': png(PIXELS[i]), 'cls': b'%d\n' % (i % 3), 'JSON': known.encode(), 'pkl': b'.'}
  return [(f'a.b/{key.format(i)}.{field}', data) for field, data in parts.items()]


@pytest.fixture
def folder(tmp_path):
  for shard in range(3):
    members = [part for i in range(10 * shard, 10 * shard + 10) for part in sample(i)]
    write(tmp_path / f'x-{shard:06}.tar', members)
  return tmp_path


@pytest.mark.parametrize('path', ['', 'x-{000000..000002}.tar'])
def test_samples_are_read_over_all_shards(folder, path):
  rows = read('webdataset', folder / path)
  assert rows.class_names == ('0', '1', '2') and 'box' not in next(rows.batches(1))
  assert_reads_pixels(rows)


def test_labels_of_json_and_names_of_numbered_classes(folder):
  rows = read('webdataset', folder, name='class_name')
  assert rows.class_names == ('class 0', 'class 1', 'class 2')
  assert next(rows.batches(4))['label'].tolist() == [0, 1, 2, 0]
  (folder / 'classnames.txt').write_text('\ufeffant\nbee\ncat\n\n', encoding='utf-8')
  assert read('webdataset', folder).class_names == ('ant', 'bee', 'cat')
  for names, message in (('a\n\nc', "a name in .* is ''"), ('a\nb\na', "0 and 2 all 'a'")):
    (folder / 'classnames.txt').write_text(names)
    refused(message, read, 'webdataset', folder)


@pytest.mark.parametrize('path', ['', 'x-000000.tar', 'x-{000000..000002}.tar'])
def test_shards_that_say_no_split_are_none_to_train_on(folder, path):
  message = "split is 'train', of which .* has no file; its files say no split: set it to ''"
  refused(message, read, 'webdataset', folder / path, split='train')


@cases(
  'members, message',
  ([('a.txt', b'0')], 'hold no sample with an image'),
  ([('a.png', b'1'), ('b.v2.png', b'1'), ('b.cls', b'0')], "'b' has the fields cls, v2.png and no"),
  ([('a.png', b'1'), ('b.png', b'1'), ('a.cls', b'0')], "sample 'a' comes again"),
  ([('a.png', png(PIXELS[0]))], 'no column is called label or class'),
  ([('a.png', png(PIXELS[0])), ('a.cls', b'cat')], "a.cls is b'cat', which is no number"),
  ([('a.png', png(PIXELS[0])), ('a.json', b'{')], "a.json is b'{', which is no JSON"),
  ([('a.png', b'1'), ('a.jpg', b'1'), ('a.cls', b'0')], "'a' has several images"),
  ([('a.png', b'1'), ('a.PNG', b'1')], "'a' has two members 'png'"),
  ([('a.png', b'nothing'), ('a.cls', b'0')], '7 bytes are no readable image'),
)
def test_bad_samples_are_refused(tmp_path, members, message):
  refused(message, read, 'webdataset', write(tmp_path / 'a.tar', members))


def test_a_truncated_shard_and_one_that_is_missing_are_refused(folder):
  shard = folder / 'x-000001.tar'
  shard.write_bytes(shard.read_bytes()[: -(10240 + 700)])
  refused('x-000001.tar is truncated or no plain tar file', read, 'webdataset', folder)
  missing = folder / 'x-{000000..000004}.tar'
  refused('2 of 5 shards are not there, first .*x-000003.tar', read, 'webdataset', missing)
  assert NUMBER == 30
