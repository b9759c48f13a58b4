"""Records: atomic shards, resume, sums, refusals."""

import errno
import pathlib

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.evaluation.records import Layout, Records

LAYOUT = Layout(num_rows=7, num_views=5, block_rows=3, chunk_views=2)


def full(tmp_path: pathlib.Path) -> tuple[Records, np.ndarray]:
  records = Records(tmp_path, LAYOUT, {'seed': 0})
  rank = np.random.default_rng(0).integers(0, 3, (7, 5)).astype(np.int32)
  for block in range(LAYOUT.num_blocks):
    for chunk in range(LAYOUT.num_chunks):
      rows, views = LAYOUT.rows(block), LAYOUT.views(chunk)
      records.write(
        block,
        chunk,
        {
          'rank': rank[rows, views],
          'label': np.arange(7)[rows],
          'weight': (rank[rows, views] / 7).astype(np.float32),
        },
      )
  return records, rank


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
    records.sum_over_rows(lambda shard: shard['weight']), (rank / 7).sum(0), rtol=1e-6
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


def test_damaged_shard_is_named_with_the_mend(tmp_path: pathlib.Path) -> None:
  records, _ = full(tmp_path)
  content = records.path(1, 1).read_bytes()
  records.path(1, 1).write_bytes(content[: len(content) // 2])
  with pytest.raises(InputError, match=r'rows000001-views000001\.npz cannot be read.*Delete it'):
    list(records.shards())


def test_records_of_something_else_are_refused_by_key(tmp_path: pathlib.Path) -> None:
  full(tmp_path)
  with pytest.raises(InputError, match='identity.seed: 0 → 1'):
    Records(tmp_path, LAYOUT, {'seed': 1})


def test_no_records_or_a_damaged_header(tmp_path: pathlib.Path) -> None:
  with pytest.raises(InputError, match='no records'):
    Records.open(tmp_path)
  (tmp_path / 'header.json').write_text('{')
  with pytest.raises(InputError, match='damaged'):
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
