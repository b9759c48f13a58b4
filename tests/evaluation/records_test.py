"""Records: atomic shards, resume, sums, refusals."""

import errno
import json
import pathlib

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.evaluation.records import Layout, Records
from tests.made_records import made

LAYOUT = Layout(num_rows=7, num_views=5, block_rows=3, chunk_views=2)


def full(tmp_path: pathlib.Path) -> tuple[Records, np.ndarray]:
  rank = np.random.default_rng(0).integers(0, 3, (7, 5)).astype(np.int32)
  arrays = {'rank': rank, 'label': np.arange(7), 'output/weight': (rank / 7).astype(np.float32)}
  return made(tmp_path, arrays, LAYOUT.block_rows, LAYOUT.chunk_views, seed=0).records, rank


def test_shards_cover_the_table_once() -> None:
  covered = np.zeros((7, 5), int)
  for block in range(LAYOUT.num_blocks):
    for chunk in range(LAYOUT.num_chunks):
      covered[LAYOUT.rows(block), LAYOUT.views(chunk)] += 1
  assert (covered == 1).all()


def test_round_trip_sums_and_columns(tmp_path: pathlib.Path) -> None:
  _, rank = full(tmp_path)
  records = Records.open(tmp_path)
  assert records.identity == {'seed': 0}
  assert not records.missing()
  wrong = records.sum_over_rows(lambda shard: shard['rank'] > 0)
  assert wrong.dtype == np.int64
  np.testing.assert_array_equal(wrong, (rank > 0).sum(0))
  np.testing.assert_allclose(
    records.sum_over_rows(lambda shard: shard['output/weight']), (rank / 7).sum(0), rtol=1e-6
  )
  np.testing.assert_array_equal(records.column('rank', view=3), rank[:, 3])
  np.testing.assert_array_equal(records.column('label'), np.arange(7))


def test_missing_counts_what_is_not_there(tmp_path: pathlib.Path) -> None:
  records, _ = full(tmp_path)
  records.path(1, 2).unlink()
  records.path(2, 0).unlink()
  assert records.missing() == {1: [2], 2: [0]}
  with pytest.raises(InputError, match='not finished'):
    list(records.shards())


def test_damaged_shard_is_named_with_the_fix(tmp_path: pathlib.Path) -> None:
  records, _ = full(tmp_path)
  content = records.path(1, 1).read_bytes()
  records.path(1, 1).write_bytes(content[: len(content) // 2])
  with pytest.raises(InputError, match=r'rows000001-views000001\.npz cannot be read.*Delete it'):
    list(records.shards())


def test_records_of_something_else_are_refused_by_key(tmp_path: pathlib.Path) -> None:
  full(tmp_path)
  with pytest.raises(InputError, match='identity.seed: 0 → 1'):
    Records(tmp_path, LAYOUT, {'seed': 1})


def test_a_header_without_shards_gives_way_to_another(tmp_path: pathlib.Path) -> None:
  Records(tmp_path, LAYOUT, {'seed': 1})
  assert Records.open(tmp_path).identity == {'seed': 1}
  full(tmp_path)
  assert Records.open(tmp_path).identity == {'seed': 0}


def test_no_records_or_a_damaged_header(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match='no records'):
    Records.open(tmp_path)
  (tmp_path / 'header.json').write_text('{')
  with pytest.raises(InputError, match='damaged'):
    Records.open(tmp_path)


def of_format_1(directory: pathlib.Path) -> None:
  """Makes finished records such as were written before headers had a format."""
  records, _ = full(directory)
  header = json.loads((directory / 'header.json').read_text())
  assert header.pop('format') == 2
  (directory / 'header.json').write_text(json.dumps(header))
  old = Records(directory, LAYOUT, {'seed': 0})
  for block in range(LAYOUT.num_blocks):
    for chunk in range(LAYOUT.num_chunks):
      with np.load(records.path(block, chunk)) as file:
        arrays = {name: file[name] for name in file.files if name != '_seal'}
      old.write(block, chunk, {**arrays, 'probability': arrays['output/weight']})


def test_records_of_format_1_are_read_and_resumed_but_have_no_confidence(
  tmp_path: pathlib.Path,
) -> None:
  of_format_1(tmp_path)
  records = Records.open(tmp_path)
  assert records.table('rank').shape == (7, 5)
  with pytest.raises(InputError, match='before the probability of the predicted class was kept'):
    records.table('confidence')
  arrays = dict(records.read(2, 2).arrays)
  records.path(2, 2).unlink()
  resumed = Records(tmp_path, LAYOUT, {'seed': 0})
  assert resumed.missing() == {2: [2]}
  resumed.write(2, 2, {**arrays, 'confidence': np.ones((1, 1), np.float32)})
  assert resumed.table('rank').shape == (7, 5)
  with pytest.raises(InputError, match='delete'):
    resumed.table('confidence')


def test_records_of_a_later_format_are_refused(tmp_path: pathlib.Path) -> None:
  full(tmp_path)
  header = json.loads((tmp_path / 'header.json').read_text())
  (tmp_path / 'header.json').write_text(json.dumps({**header, 'format': 3}))
  with pytest.raises(InputError, match=r'is of format 3, and this version reads formats 1 to 2'):
    Records.open(tmp_path)


def test_full_disk_keeps_what_was_written(tmp_path: pathlib.Path, monkeypatch) -> None:
  records, _ = full(tmp_path)
  records.path(0, 0).unlink()

  def no_space(*unused):
    raise OSError(errno.ENOSPC, 'No space left on device')

  monkeypatch.setattr('os.fsync', no_space)
  with pytest.raises(InputError, match='no space left.*are kept'):
    records.write(0, 0, {'rank': np.zeros((3, 2))})
  assert records.missing() == {0: [0]}
  assert not list(tmp_path.glob('.*tmp'))


def rewritten(path: pathlib.Path, change) -> None:
  """Reads a shard's file, lets `change` alter its arrays and writes it as NumPy does."""
  with np.load(path) as file:
    arrays = {name: file[name] for name in file.files}
  change(arrays)
  np.savez(path, **arrays)


def test_a_shard_in_the_place_of_another_is_refused(tmp_path: pathlib.Path) -> None:
  records, _ = full(tmp_path)
  records.path(1, 0).write_bytes(records.path(0, 1).read_bytes())
  message = (
    r'rows000001-views000000\.npz.*copy of the shard of row block 0, view chunk 1.*Delete it'
  )
  with pytest.raises(InputError, match=message):
    records.table('rank')


def test_a_shard_of_another_run_is_refused(tmp_path: pathlib.Path) -> None:
  records, _ = full(tmp_path / 'mine')
  other = Records(tmp_path / 'other', LAYOUT, {'seed': 1})
  with np.load(records.path(0, 0)) as file:
    other.write(0, 0, {name: file[name] for name in ('rank', 'label', 'output/weight')})
  records.path(0, 0).write_bytes(other.path(0, 0).read_bytes())
  with pytest.raises(InputError, match='belongs to other records'):
    records.read(0, 0)


@pytest.mark.parametrize(
  'change',
  [
    lambda arrays: arrays['rank'].__setitem__((0, 0), 9),
    lambda arrays: arrays.__setitem__('label', arrays['label'][::-1].copy()),
    lambda arrays: arrays.pop('output/weight'),
    lambda arrays: arrays.__setitem__('rank', arrays['rank'].astype(np.int64)),
    lambda arrays: arrays.__setitem__('more', arrays['rank']),
  ],
)
def test_altered_values_and_missing_fields_are_refused(tmp_path: pathlib.Path, change) -> None:
  records, _ = full(tmp_path)
  rewritten(records.path(0, 0), change)
  with pytest.raises(InputError, match=r'rows000000-views000000\.npz.*altered.*Delete it'):
    records.column('rank')


def test_a_shard_without_a_seal_is_refused(tmp_path: pathlib.Path) -> None:
  records, _ = full(tmp_path)
  rewritten(records.path(0, 0), lambda arrays: arrays.pop('_seal'))
  with pytest.raises(InputError, match='has no seal.*Delete it'):
    records.read(0, 0)


def test_a_shard_that_is_only_rewritten_is_taken(tmp_path: pathlib.Path) -> None:
  records, rank = full(tmp_path)
  rewritten(records.path(0, 0), lambda arrays: None)
  np.testing.assert_array_equal(Records.open(tmp_path).table('rank'), rank)


def test_a_field_that_is_not_recorded_is_named(tmp_path: pathlib.Path) -> None:
  records, _ = full(tmp_path)
  message = "no field 'probability'; valid: 'label', 'output/weight', 'rank'"
  with pytest.raises(InputError, match=message):
    records.sum_over_rows(lambda shard: shard['probability'])


@pytest.mark.parametrize('content', [b'\xff{}', b'[]', b'{}', b'{"layout": {"rows": 3}}'])
def test_a_file_that_is_no_header_is_named(tmp_path: pathlib.Path, content: bytes) -> None:
  (tmp_path / 'header.json').write_bytes(content)
  with pytest.raises(InputError, match=r'header\.json( is truncated or no JSON|.*; expected)'):
    Records.open(tmp_path)
