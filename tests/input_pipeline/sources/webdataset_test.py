"""Tests reading WebDataset shards: samples, labels, columns of JSON and patterns of names."""

import io
import json
import tarfile

import numpy as np
import pytest

from tests.cases import cases
from tests.input_pipeline.domains import PIXELS, assert_reads_pixels, full_batch, png, read
from tests.refusals import bad_setting, refused


def write(file, members):
  """Writes (name, bytes) of every member to a tar file and returns its path."""
  with tarfile.open(file, 'w') as archive:
    for name, data in members:
      entry = tarfile.TarInfo(name)
      entry.size = len(data)
      archive.addfile(entry, io.BytesIO(data))
  return file


def sample(i):
  """Returns the members of sample i: image, label, JSON, and one that is not read."""
  metadata = json.dumps({'pose': 'xy'[i % 2], 'class_name': f'class {i % 3}', 'box': [1]})
  parts = {'png': png(PIXELS[i]), 'cls': b'%d\n' % (i % 3), 'JSON': metadata.encode(), 'pkl': b'.'}
  return [(f'a.b/{i:03}.{field}', data) for field, data in parts.items()]


@pytest.fixture
def folder(tmp_path):
  """Returns a folder of three shards with ten samples each."""
  for shard in range(3):
    members = [part for i in range(10 * shard, 10 * shard + 10) for part in sample(i)]
    write(tmp_path / f'x-{shard:06}.tar', members)
  return tmp_path


@pytest.mark.parametrize('path', ['', 'x-{000000..000002}.tar'])
def test_samples_of_all_shards_are_read(folder, path):
  rows = read('webdataset', folder / path)
  assert rows.class_names == ('0', '1', '2') and 'box' not in next(rows.batches(1))
  assert_reads_pixels(rows)


def test_labels_may_come_from_json_and_class_names_from_a_file(folder):
  rows = read('webdataset', folder, label_column='class_name')
  assert rows.class_names == ('class 0', 'class 1', 'class 2')
  assert next(rows.batches(4))['label'].tolist() == [0, 1, 2, 0]
  (folder / 'classnames.txt').write_text('\ufeffant\nbee\ncat\n\n', encoding='utf-8')
  assert read('webdataset', folder).class_names == ('ant', 'bee', 'cat')
  for names, message in (('a\n\nc', "a name in .* is ''"), ('a\nb\na', "0 and 2 all 'a'")):
    (folder / 'classnames.txt').write_text(names)
    refused(message, read, 'webdataset', folder)


@pytest.mark.parametrize('path', ['', 'x-000000.tar', 'x-{000000..000002}.tar'])
def test_shards_whose_names_state_no_split_are_refused_for_training(folder, path):
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
def test_incomplete_and_ambiguous_samples_are_refused(tmp_path, members, message):
  refused(message, read, 'webdataset', write(tmp_path / 'a.tar', members))


def test_a_sample_in_two_shards_is_refused(folder):
  write(folder / 'x-000003.tar', sample(7))
  message = r"x-000003\.tar: the sample 'a\.b/007' is in .*x-000000\.tar already; each counts once"
  refused(message, read, 'webdataset', folder)


def test_a_truncated_shard_and_one_that_is_missing_are_refused(folder):
  shard = folder / 'x-000001.tar'
  shard.write_bytes(shard.read_bytes()[: -(10240 + 700)])  # more than the padding at the end
  refused('x-000001.tar is truncated or no plain tar file', read, 'webdataset', folder)
  missing = folder / 'x-{000000..000004}.tar'
  refused('2 of 5 shards are not there, first .*x-000003.tar', read, 'webdataset', missing)


@cases('damage', 'header', 'joined')
def test_samples_behind_a_damaged_header_or_in_a_second_archive_are_not_left_out(folder, damage):
  shard = folder / 'x-000001.tar'
  content = bytearray(shard.read_bytes())
  if damage == 'header':
    start = content.index(b'a.b/015.png')
    content[start : start + 4] = b'####'  # the checksum of the header does not fit any more
  else:
    content += (folder / 'x-000002.tar').read_bytes()
  shard.write_bytes(content)
  refused(r'x-000001.tar is truncated or no .* byte \d+ is no header', read, 'webdataset', shard)


def test_names_of_samples_may_have_dots(tmp_path):
  members = []
  for i in range(6):
    key = f'photo.{i // 2}.v{i % 2}'
    members += [(f'{key}.png', png(PIXELS[i])), (f'{key}.cls', b'%d' % (i % 3))]
  rows = read('webdataset', write(tmp_path / 'a.tar', members))
  batch = full_batch(rows)
  assert batch['label'].tolist() == [0, 1, 2, 0, 1, 2]
  np.testing.assert_array_equal(np.rint(batch['image'] * 255), PIXELS[:6])


def test_members_that_are_not_read_are_counted_by_reason(tmp_path):
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
  """Returns the members of a sample with this JSON."""
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
def test_contradictory_labels_odd_numbers_and_deep_json_are_refused(tmp_path, members, message):
  (tmp_path / 'classnames.txt').write_text('ant\nbee\n')
  refused(message, read, 'webdataset', write(tmp_path / 'a.tar', members))


def test_equal_labels_and_captions_are_no_contradiction(tmp_path):
  (tmp_path / 'classnames.txt').write_text('ant\nbee\n')
  for text in (b'{"label": 0}', b'{"label": "ant"}', b'{"label": "0"}', b'{"label": "an insect"}'):
    rows = read('webdataset', write(tmp_path / 'a.tar', with_json(text)))
    assert full_batch(rows)['label'].tolist() == [0]


def test_patterns_and_names_of_a_billion_shards_are_refused_at_once(tmp_path):
  pattern = tmp_path / 'x-{000000..999999999}.tar'
  refused('it must be of at most 1,048,576 shards', read, 'webdataset', pattern)
  write(tmp_path / 'x-000000-of-999999999.tar', sample(0))
  message = '999999998 of 999999999 shards are missing, first number 1 of '
  refused(message, read, 'webdataset', tmp_path)
  (tmp_path / 'x-000000-of-999999999.tar').rename(tmp_path / 'x-3.tar')
  write(tmp_path / 'x-999999999999.tar', sample(1))
  refused('shards are missing, first number 4 of', read, 'webdataset', tmp_path)


def test_an_endless_chain_of_headers_is_a_damaged_shard(tmp_path):
  """Each header holds a long name of the next member, which is again such a header."""
  name = tarfile.TarInfo('long')
  name.type, name.size = tarfile.GNUTYPE_LONGNAME, 5
  block = name.tobuf() + b'name\0'.ljust(tarfile.BLOCKSIZE, b'\0')
  (tmp_path / 'a.tar').write_bytes(block * 5000)
  refused('a.tar is truncated or no plain tar file', read, 'webdataset', tmp_path / 'a.tar')
