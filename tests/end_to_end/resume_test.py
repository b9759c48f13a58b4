"""main.py that is stopped at any moment and run again has the same bits."""

import pathlib
import signal
from collections.abc import Callable

import pytest

from tests.end_to_end import runs
from tests.end_to_end.runs import DEFAULT, DEFAULT_CHANGES

pytestmark = pytest.mark.slow

Reached = Callable[[], bool]
"""Whether a run has reached a moment."""


def _checkpoint(workdir: pathlib.Path) -> Reached:
  folder = workdir / 'checkpoints/natural/checkpoints'
  return lambda: any(path.name.isdigit() for path in folder.glob('*'))


def _next_step(workdir: pathlib.Path) -> Reached:
  log = workdir / 'log.jsonl'

  def steps() -> int:
    return log.read_text().count('train/loss') if log.exists() else 0

  before = steps()
  return lambda: steps() > before


def _shards(label: str) -> Callable[[pathlib.Path], Reached]:
  return lambda workdir: lambda: len(list((workdir / 'records' / label).glob('*.npz'))) >= 3


def _arrays(workdir: pathlib.Path) -> Reached:
  return (workdir / 'results.npz').exists


KILLED = signal.SIGKILL, -signal.SIGKILL, ''
TERMINATED = signal.SIGTERM, 75, 'stopped by SIGTERM after step'
INTERRUPTED = signal.SIGINT, 130, 'interrupted. Finished work is saved in {workdir}'
STOPS = (
  (_checkpoint, *KILLED),
  (_next_step, *TERMINATED),
  (_next_step, *INTERRUPTED),
  (_shards('natural'), *KILLED),
  (_shards('gaussian'), *INTERRUPTED),
  (_arrays, *KILLED),
)
"""When a run is stopped, the signal, and the status and line that it ends with."""


def test_stopped_in_training_between_shards_and_while_publishing(
  start, finished, tmp_path, monkeypatch
):
  """The environment asks JAX for other random numbers, which must change nothing."""
  monkeypatch.setenv('JAX_THREEFRY_PARTITIONABLE', '0')
  before: dict[str, int] = {}
  for moment, number, status, line in STOPS:
    reached = moment(tmp_path)
    process = start(tmp_path, DEFAULT, DEFAULT_CHANGES)
    runs.wait_for(process, reached)
    process.send_signal(number)
    output = runs.finish(process, status=status)
    assert line.format(workdir=tmp_path) in output and (
      'Run the same command to resume' in output
    ) == bool(line)
    times = runs.shard_times(tmp_path)
    assert before.items() <= times.items(), 'a recorded shard was computed again'
    before = times
  runs.finish(start(tmp_path, DEFAULT, DEFAULT_CHANGES))
  assert before and before.items() <= runs.shard_times(tmp_path).items()
  assert runs.document(tmp_path) == runs.document(finished)
  for name in ('results.npz', 'results.csv'):
    assert (tmp_path / name).read_bytes() == (finished / name).read_bytes()
