"""WebDataset shards: samples, columns of JSON, patterns, and what is refused."""

import io
import json
import tarfile

import numpy as np
import pytest

from tests.cases import cases
from tests.input_pipeline.domains import NUMBER, PIXELS, assert_reads_pixels, png, read, whole
from tests.refusals import bad_setting, refused


def write(file, members):
  with tarfile.open(file, 'w') as archive:
    for name, data in members:
      entry = tarfile.TarInfo(name)
      entry.size = len(data)
      archive.addfile(entry, io.BytesIO(data))
  return file


def sample(i, key='{:03}'):
  metadata = json.dumps({'pose': 'xy'[i % 2], 'class_name': f'class {i % 3}', 'box': [1]})
  parts = {'png': png(PIXELS[i]), 'cls': b'%d\n' % (i % 3), 'JSON': metadata.encode(), 'pkl': b'.'}
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
  rows = read('webdataset', folder, label_column='class_name')
  assert rows.class_names == ('class 0', 'class 1', 'class 2')
  assert next(rows.batches(4))['label'].tolist() == [0, 1, 2, 0]
  (folder / 'classnames.txt').write_text('\ufeffant\nbee\ncat\n\n', encoding='utf-8')
  assert read('webdataset', folder).class_names == ('ant', 'bee', 'cat')
  for names, message in (('a\n\nc', "a name in .* is ''"), ('a\nb\na', "0 and 2 all 'a'")):
    (folder / 'classnames.txt').write_text(names)
    refused(message, read, 'webdataset', folder)


@pytest.mark.parametrize('path', ['', 'x-000000.tar', 'x-{000000..000002}.tar'])
def test_shards_that_say_no_split_are_none_to_train_on(folder, path):
  expected = bad_setting('config.data.split', 'train', "(?i)its files say no split: set it to ''")
  refused(expected, read, 'webdataset', folder / path, split='train')


@cases(
  'members, message',
  ([('a.txt', b'0')], 'hold no sample with an image'),
  ([('a.png', b'1'), ('b.v2.png', b'1'), ('b.cls', b'0')], "'b' has the fields cls, v2.png and no"),
  ([('a.png', b'1'), ('b.png', b'1'), ('a.cls', b'0')], "sample 'a' is in .*a.tar already"),
  ([('a.png', png(PIXELS[0]))], 'no column is called label or class'),
  ([('a.png', png(PIXELS[0])), ('a.cls', b'cat')], "a.cls is b'cat', which is no number"),
  ([('a.png', png(PIXELS[0])), ('a.json', b'{')], 'a.json is truncated or no JSON'),
  ([('a.png', b'1'), ('a.jpg', b'1'), ('a.cls', b'0')], "'a' has several images"),
  ([('a.png', b'1'), ('a.PNG', b'1')], "'a' has two members 'png'"),
  ([('a.png', b'nothing'), ('a.cls', b'0')], "1 of 1 pictures .*, sample 'a': its content is no"),
)
def test_bad_samples_are_refused(tmp_path, members, message):
  refused(message, read, 'webdataset', write(tmp_path / 'a.tar', members))


def test_a_sample_in_two_shards_is_refused(folder):
  write(folder / 'x-000003.tar', sample(7))
  message = r"x-000003\.tar: the sample 'a\.b/007' is in .*x-000000\.tar already; each counts once"
  refused(message, read, 'webdataset', folder)


def test_a_truncated_shard_and_one_that_is_missing_are_refused(folder):
  shard = folder / 'x-000001.tar'
  shard.write_bytes(shard.read_bytes()[: -(10240 + 700)])
  refused('x-000001.tar is truncated or no plain tar file', read, 'webdataset', folder)
  missing = folder / 'x-{000000..000004}.tar'
  refused('2 of 5 shards are not there, first .*x-000003.tar', read, 'webdataset', missing)
  assert NUMBER == 30


def test_samples_with_dots_in_their_names_are_samples(tmp_path):
  members = []
  for i in range(6):
    key = f'photo.{i // 2}.v{i % 2}'
    members += [(f'{key}.png', png(PIXELS[i])), (f'{key}.cls', b'%d' % (i % 3))]
  rows = read('webdataset', write(tmp_path / 'a.tar', members))
  batch = whole(rows)
  assert batch['label'].tolist() == [0, 1, 2, 0, 1, 2]
  np.testing.assert_array_equal(np.rint(batch['image'] * 255), PIXELS[:6])


def test_what_is_not_read_of_a_shard_is_counted(tmp_path):
  members = [*sample(0), ('b.txt', b'?'), ('b.pth', b'.'), *sample(1), ('c/.x', b'.')]
  members += [('d.png', png(PIXELS[0])), ('d.cls', b'0'), ('d.v2.png', b'?')]
  write(tmp_path / 'a.tar', members)
  (tmp_path / 'a.tar.gz').write_bytes(b'?')
  rows = read('webdataset', tmp_path)
  assert rows.num_examples == 3
  assert rows.description['left_out'] == {
    'columns of neither numbers nor words': 1,
    'files .gz': 1,
    'members .pkl': 2,
    'members of longer names .png': 1,
    'members that are no plain files, or hidden': 1,
    'samples without an image': 1,
  }


def with_json(text, label=b'0'):
  return [('a.png', png(PIXELS[0])), ('a.cls', label), ('a.json', text)]


@cases(
  'members, message',
  (with_json(b'{"x": 1, "x": 2}'), "a.json is truncated or no JSON .it holds the key 'x' 2 times"),
  (with_json(b'{"label": 1}'), 'a.cls is 0, and a.json has the label 1: an image has one label'),
  (with_json(b'{"label": "1"}'), "a.cls is 0, and a.json has the label '1'"),
  (with_json(b'{"label": "bee"}'), "a.cls is 0, and a.json has the label 'bee'"),
  (with_json(b'{"label": "bee"}', b'7'), "a.cls is 7, and a.json has the label 'bee'"),
  (with_json(b'{"x": ' + b'[' * 50_000 + b']' * 50_000 + b'}'), 'a.json .*nested too deeply'),
  ([('a.png', png(PIXELS[0])), ('a.cls', b'1_0')], "a.cls is b'1_0', which is no number"),
  ([('a.png', png(PIXELS[0])), ('a.cls', '٣'.encode())], 'a.cls is .*, which is no number'),
  ([('a.png', png(PIXELS[0])), ('a.cls', b'0' * 99)], 'a member of 99 bytes; at most 32 are read'),
)
def test_labels_that_can_be_read_two_ways_and_deep_json_are_refused(tmp_path, members, message):
  (tmp_path / 'classnames.txt').write_text('ant\nbee\n')
  refused(message, read, 'webdataset', write(tmp_path / 'a.tar', members))


def test_a_caption_and_an_equal_label_are_no_contradiction(tmp_path):
  (tmp_path / 'classnames.txt').write_text('ant\nbee\n')
  for text in (b'{"label": 0}', b'{"label": "ant"}', b'{"label": "0"}', b'{"label": "an insect"}'):
    rows = read('webdataset', write(tmp_path / 'a.tar', with_json(text)))
    assert whole(rows)['label'].tolist() == [0]


def test_a_pattern_and_names_of_a_billion_shards_are_refused_at_once(tmp_path):
  pattern = tmp_path / 'x-{000000..999999999}.tar'
  refused('it must be of at most 1,048,576 shards', read, 'webdataset', pattern)
  write(tmp_path / 'x-000000-of-999999999.tar', sample(0))
  message = '999999998 of 999999999 shards are missing, first number 1 of '
  refused(message, read, 'webdataset', tmp_path)
  (tmp_path / 'x-000000-of-999999999.tar').rename(tmp_path / 'x-3.tar')
  write(tmp_path / 'x-999999999999.tar', sample(1))
  refused('shards are missing, first number 4 of', read, 'webdataset', tmp_path)


def test_headers_that_follow_one_another_without_end_are_a_damaged_shard(tmp_path):
  """Each long name is said to belong to a member that is itself a long name."""
  name = tarfile.TarInfo('long')
  name.type, name.size = tarfile.GNUTYPE_LONGNAME, 5
  block = name.tobuf() + b'name\0'.ljust(tarfile.BLOCKSIZE, b'\0')
  (tmp_path / 'a.tar').write_bytes(block * 5000)
  refused('a.tar is truncated or no plain tar file', read, 'webdataset', tmp_path / 'a.tar')
