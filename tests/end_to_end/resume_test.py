"""main.py killed at any moment and run again: the same bits; another config is refused."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Callable

import pytest

from tests.end_to_end import runs
from tests.end_to_end.conftest import Start
from tests.end_to_end.runs import DEFAULT, DEFAULT_CHANGES


def _checkpoint(workdir: pathlib.Path) -> bool:
  return any(
    path.name.isdigit() for path in (workdir / 'checkpoints/natural/checkpoints').glob('*')
  )


def _shards(label: str) -> Callable[[pathlib.Path], bool]:
  return lambda workdir: len(list((workdir / 'records' / label).glob('*.npz'))) >= 3


def _arrays(workdir: pathlib.Path) -> bool:
  return (workdir / 'results.npz').exists()


MOMENTS = (_checkpoint, _shards('natural'), _shards('gaussian'), _arrays)


@pytest.mark.slow
def test_killed_in_training_between_shards_and_while_publishing(
  start: Start, finished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
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
  assert before.items() <= runs.shard_times(tmp_path).items()
  assert runs.document(tmp_path) == runs.document(finished)
  for name in ('results.npz', 'results.csv'):
    assert (tmp_path / name).read_bytes() == (finished / name).read_bytes()


@pytest.mark.slow
def test_sigterm_in_training_says_how_to_go_on(
  start: Start, finished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  process = start(tmp_path, DEFAULT, DEFAULT_CHANGES)
  log = tmp_path / 'log.jsonl'
  runs.wait_for(process, lambda: log.exists() and 'train/loss' in log.read_text())
  process.send_signal(signal.SIGTERM)
  output = runs.finish(process, status=75)
  assert 'stopped by SIGTERM after step' in output
  assert 'the same command goes on' in output
  runs.finish(start(tmp_path, DEFAULT, DEFAULT_CHANGES))
  assert runs.document(tmp_path) == runs.document(finished)
  for name in ('results.npz', 'results.csv'):
    assert (tmp_path / name).read_bytes() == (finished / name).read_bytes()


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(
  start: Start, finished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  for moment in (_checkpoint, _shards('natural')):
    process = start(tmp_path, DEFAULT, DEFAULT_CHANGES)
    runs.wait_for(process, lambda moment=moment: moment(tmp_path))
    process.send_signal(signal.SIGINT)
    output = runs.finish(process, status=130)
    assert (
      f'interrupted. What was computed is kept in {tmp_path}: the same command goes on' in output
    )
  runs.finish(start(tmp_path, DEFAULT, DEFAULT_CHANGES))
  assert runs.document(tmp_path) == runs.document(finished)


@pytest.mark.slow
def test_workdir_of_another_config_is_refused(start: Start, finished: pathlib.Path) -> None:
  content = (finished / 'config.json').read_bytes()
  sigma = 'classifiers.gaussian.augment.gaussian.sigma'
  changes = {**DEFAULT_CHANGES, 'study.norm': 3.0, sigma: 0.2}
  output = runs.finish(start(finished, DEFAULT, changes), status=2)
  for shown in ('config.study.norm: 8.0 → 3.0', f'config.{sigma}: 0.4 → 0.2'):
    assert shown in output
  assert 'Use another --workdir' in output
  assert (finished / 'config.json').read_bytes() == content


@pytest.mark.slow
def test_a_flag_of_jax_changes_no_number(
  start: Start, finished: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setenv('JAX_THREEFRY_PARTITIONABLE', '0')
  runs.finish(start(tmp_path, DEFAULT, DEFAULT_CHANGES))
  assert runs.document(tmp_path) == runs.document(finished)
  for name in ('results.npz', 'results.csv'):
    assert (tmp_path / name).read_bytes() == (finished / name).read_bytes()
