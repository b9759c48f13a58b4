"""Tests records: shards that are written and read, resumed runs, and refused files."""

import json
import shutil
from unittest import mock

import numpy as np
import pytest

from robustness.evaluation.layout import Layout
from robustness.evaluation.records import Records
from tests.cases import cases
from tests.made_records import made
from tests.refusals import refused

LAYOUT = Layout(num_rows=7, num_views=5, block_rows=3, chunk_views=2)


def full(tmp_path):
  """Writes all shards of random ranks [7, 5]; returns the records and the ranks."""
  rank = np.random.default_rng(0).integers(0, 3, (7, 5)).astype(np.int32)
  arrays = {'rank': rank, 'label': np.arange(7), 'output/weight': (rank / 7).astype(np.float32)}
  return made(tmp_path, arrays, LAYOUT.block_rows, LAYOUT.chunk_views, seed=0).records, rank


def arrays_of(path):
  with np.load(path) as file:
    return {name: file[name] for name in file.files}


PLACES = [(b, c) for b in range(LAYOUT.num_blocks) for c in range(LAYOUT.num_chunks)]


def test_shards_cover_the_table_once_and_are_read_as_written(tmp_path):
  covered = np.zeros((7, 5), int)
  for block, chunk in PLACES:
    covered[LAYOUT.rows(block), LAYOUT.views(chunk)] += 1
  assert (covered == 1).all()
  _, rank = full(tmp_path)
  records = Records.open(tmp_path)
  assert records.identity == {'seed': 0}
  assert not records.missing()
  np.testing.assert_array_equal(records.values(lambda shard: shard['rank'] > 0), rank > 0)
  np.testing.assert_allclose(records.table('output/weight'), rank / 7, rtol=1e-6)
  np.testing.assert_array_equal(records.column('rank', view=3), rank[:, 3])
  np.testing.assert_array_equal(records.column('label'), np.arange(7))
  message = "no field 'probability'; valid: 'label', 'output/weight', 'rank'"
  refused(message, records.table, 'probability')


def test_missing_lists_the_shards_without_a_file(tmp_path):
  records, _ = full(tmp_path)
  records.path(1, 2).unlink()
  records.path(2, 0).unlink()
  assert records.missing() == {1: [2], 2: [0]}
  refused('not finished', list, records.shards())


def test_shards_of_another_identity_are_refused_and_an_empty_folder_is_reused(tmp_path):
  Records(tmp_path, LAYOUT, {'seed': 1})
  assert Records.open(tmp_path).identity == {'seed': 1}
  full(tmp_path)
  assert Records.open(tmp_path).identity == {'seed': 0}
  refused('identity.seed: 0 → 1', Records, tmp_path, LAYOUT, {'seed': 1})


def test_no_records_and_another_format_are_refused(tmp_path):
  refused('header.json is no file', Records.open, tmp_path)
  full(tmp_path / 'later')
  header = json.loads((tmp_path / 'later/header.json').read_text())
  (tmp_path / 'later/header.json').write_text(json.dumps({**header, 'format': 3}))
  message = r'is of format 3, and this version reads format 2'
  refused(message, Records.open, tmp_path / 'later')


def test_a_shard_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
  records, _ = full(tmp_path)
  records.path(0, 0).unlink()
  monkeypatch.setattr('os.fsync', mock.Mock(side_effect=OSError('No space left on device')))
  with pytest.raises(OSError):
    records.write(0, 0, {'rank': np.zeros((3, 2))})
  assert records.missing() == {0: [0]}
  assert not list(tmp_path.glob('.*tmp'))


def rewrite(records, change):
  """Writes the arrays of the first shard again, after a change of them."""
  arrays = arrays_of(records.path(0, 0))
  change(arrays)
  np.savez(records.path(0, 0), **arrays)


def replace_by_shard_of_another_run(records):
  other_records = Records(records.directory / 'other', LAYOUT, {'seed': 1})
  other_records.write(0, 0, Records.open(records.directory).read(0, 0).arrays)
  shutil.copy(other_records.path(0, 0), records.path(0, 0))


def truncate(records):
  content = records.path(0, 0).read_bytes()
  records.path(0, 0).write_bytes(content[: len(content) // 2])


CHANGES = [
  lambda arrays: arrays['rank'].__setitem__((0, 0), 9),
  lambda arrays: arrays.__setitem__('label', arrays['label'][::-1].copy()),
  lambda arrays: arrays.pop('output/weight'),
  lambda arrays: arrays.__setitem__('rank', arrays['rank'].astype(np.int64)),
  lambda arrays: arrays.__setitem__('more', arrays['rank']),
]
"""Changes of the arrays of a shard that its seal reveals."""


def test_small_shards_are_read_once_until_one_is_written(tmp_path, monkeypatch):
  records, rank = full(tmp_path)
  first = records.read(0, 0)
  assert records.read(0, 0) is first
  records.write(0, 0, {**first.arrays, 'rank': first['rank'] + 1})
  np.testing.assert_array_equal(records.read(0, 0)['rank'], first['rank'] + 1)
  monkeypatch.setattr('robustness.evaluation.records.MAX_BYTES_KEPT', 0)
  small_memory = Records.open(tmp_path)
  assert small_memory.read(0, 0) is not small_memory.read(0, 0)
  np.testing.assert_array_equal(small_memory.table('rank')[:, -1], rank[:, -1])


@cases(
  'change, message',
  (truncate, ''),
  (
    lambda records: shutil.copy(records.path(0, 1), records.path(0, 0)),
    'copy of the shard of row block 0, view chunk 1',
  ),
  (replace_by_shard_of_another_run, 'belongs to other records'),
  (lambda records: rewrite(records, lambda arrays: arrays.pop('_seal')), 'has no seal'),
  *[(lambda records, change=change: rewrite(records, change), 'altered') for change in CHANGES],
)
def test_a_damaged_or_replaced_shard_is_named_with_the_fix(tmp_path, change, message):
  records, _ = full(tmp_path)
  change(records)
  expected = rf'rows000000-views000000\.npz cannot be read.*{message}.*Delete it'
  for read in (lambda: list(records.shards()), lambda: records.column('rank')):
    assert refused(expected, read).count('.npz') == 1


def test_a_shard_that_is_saved_again_without_change_is_read(tmp_path):
  records, rank = full(tmp_path)
  rewrite(records, lambda arrays: None)
  np.testing.assert_array_equal(Records.open(tmp_path).table('rank'), rank)


@cases(
  'layout, message',
  ({'num_rows': 10**12}, r'layout.num_rows is 1000000000000; it must be in \[1, '),
  ({'num_views': 0}, 'layout.num_views is 0'),
  ({'block_rows': -1}, 'layout.block_rows is -1'),
  ({'num_rows': 2**30, 'block_rows': 1}, 'states 3,221,225,472 shards; records have at most'),
)
def test_a_header_with_an_impossible_layout_is_refused(tmp_path, layout, message):
  full(tmp_path)
  header = json.loads((tmp_path / 'header.json').read_text())
  header['layout'].update(layout)
  (tmp_path / 'header.json').write_text(json.dumps(header))
  refused(message, Records.open, tmp_path)


def test_a_shard_of_another_shape_than_its_header_states_is_refused(tmp_path):
  records = Records(tmp_path, Layout(7, 1, 7, 1), {'seed': 0})
  records.write(0, 0, {'rank': np.zeros((7, 2), np.int32), 'label': np.arange(7)})
  refused(r'rank has the shape \(7, 2\); it must begin with \(7, 1\)', records.read, 0, 0)
