"""main.py killed at any moment and run again: the same bits; another config is refused."""

import pathlib
import signal
from collections.abc import Callable

import pytest

from tests.end_to_end import runs
from tests.end_to_end.runs import DEFAULT, DEFAULT_CHANGES

pytestmark = pytest.mark.slow


def _checkpoint(workdir: pathlib.Path) -> bool:
  return any(
    path.name.isdigit() for path in (workdir / 'checkpoints/natural/checkpoints').glob('*')
  )


def _shards(label: str) -> Callable[[pathlib.Path], bool]:
  return lambda workdir: len(list((workdir / 'records' / label).glob('*.npz'))) >= 3


def _steps(workdir: pathlib.Path) -> int:
  log = workdir / 'log.jsonl'
  return log.read_text().count('train/loss') if log.exists() else 0


def _arrays(workdir: pathlib.Path) -> bool:
  return (workdir / 'results.npz').exists()


def _assert_same_files(workdir: pathlib.Path, finished: pathlib.Path) -> None:
  assert runs.document(workdir) == runs.document(finished)
  for name in ('results.npz', 'results.csv'):
    assert (workdir / name).read_bytes() == (finished / name).read_bytes()


MOMENTS = (_checkpoint, _shards('natural'), _shards('gaussian'), _arrays)


def test_killed_in_training_between_shards_and_while_publishing(
  start, finished, tmp_path, monkeypatch
):
  """A flag of JAX's for random numbers changes none of them either."""
  monkeypatch.setenv('JAX_THREEFRY_PARTITIONABLE', '0')
  before: dict[str, int] = {}
  for moment in MOMENTS:
    process = start(tmp_path, DEFAULT, DEFAULT_CHANGES)
    runs.wait_for(process, lambda moment=moment: moment(tmp_path))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    times = runs.shard_times(tmp_path)
    assert before.items() <= times.items(), 'a recorded shard was computed again'
    before = times
  runs.finish(start(tmp_path, DEFAULT, DEFAULT_CHANGES))
  assert before and before.items() <= runs.shard_times(tmp_path).items()
  _assert_same_files(tmp_path, finished)


def test_sigterm_and_ctrl_c_say_how_to_go_on(start, finished, tmp_path):
  terminated = (signal.SIGTERM, 75, 'stopped by SIGTERM after step')
  interrupted = (signal.SIGINT, 130, f'interrupted. What was computed is kept in {tmp_path}')
  recorded = _shards('natural')
  for in_training, (number, status, said) in (
    (True, terminated),
    (True, interrupted),
    (False, interrupted),
  ):
    before = _steps(tmp_path)
    process = start(tmp_path, DEFAULT, DEFAULT_CHANGES)
    begun = (lambda before=before: _steps(tmp_path) > before) if in_training else None
    runs.wait_for(process, begun or (lambda: recorded(tmp_path)))
    process.send_signal(number)
    output = runs.finish(process, status=status)
    assert said in output and 'the same command goes on' in output
  runs.finish(start(tmp_path, DEFAULT, DEFAULT_CHANGES))
  _assert_same_files(tmp_path, finished)
