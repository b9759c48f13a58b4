"""Two processes joined by jax.distributed, and pmap: the numbers of one process under jit."""

from __future__ import annotations

import pathlib
import signal

import numpy as np
import pytest

from tests.end_to_end import runs
from tests.end_to_end.conftest import DEFAULT, DEFAULT_CHANGES, Start


def _weights(finished: pathlib.Path) -> dict[str, str]:
  return {
    f'classifiers.{label}.weights': str(finished / 'checkpoints' / label)
    for label in ('natural', 'gaussian')
  }


def _two(start: Start, workdir: pathlib.Path, changes: dict) -> list[str]:
  flags = (f'--coordinator=127.0.0.1:{runs.free_port()}', '--num_processes=2')
  both = [start(workdir, DEFAULT, changes, (*flags, f'--process_id={k}')) for k in (1, 0)]
  return [runs.finish(process) for process in both]


def _assert_same_records(first: pathlib.Path, second: pathlib.Path) -> None:
  """Equal answers; probabilities to rounding."""
  names = [path.relative_to(first) for path in sorted(first.glob('records/*/*.npz'))]
  assert names == [path.relative_to(second) for path in sorted(second.glob('records/*/*.npz'))]
  for name in names:
    with np.load(first / name) as one, np.load(second / name) as other:
      for field in ('example_id', 'label', 'prediction', 'rank'):
        np.testing.assert_array_equal(one[field], other[field])
      np.testing.assert_allclose(one['probability'], other['probability'], rtol=2e-5)


def test_two_processes_share_the_records(
  start: Start, finished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  _two(start, tmp_path, {**DEFAULT_CHANGES, **_weights(finished)})
  runs.assert_same_findings(tmp_path, finished)
  _assert_same_records(tmp_path, finished)


def test_two_processes_train_to_the_weights_of_one(
  start: Start, finished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  second, first = _two(start, tmp_path, DEFAULT_CHANGES)
  assert 'training small_cnn' in first
  assert 'training small_cnn' not in second
  assert runs.document(tmp_path) == runs.document(finished), "the weights' digests included"
  runs.assert_same_findings(tmp_path, finished)


def test_a_killed_run_goes_on_with_pmap_two_processes_and_eight_devices(
  start: Start, finished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  changes = {**DEFAULT_CHANGES, **_weights(finished)}

  def shards() -> int:
    return len(runs.shard_times(tmp_path))

  for number, parallel in ((2, 'jit'), (5, 'pmap')):
    process = start(tmp_path, DEFAULT, {**changes, 'parallel': parallel})
    runs.wait_for(process, lambda number=number: shards() >= number)
    process.send_signal(signal.SIGKILL)
    process.communicate()
  assert shards() < len(runs.shard_times(finished))
  _two(start, tmp_path, changes)
  _assert_same_records(tmp_path, finished)
  for path in sorted(tmp_path.glob('records/*/*.npz'))[::2]:
    path.unlink()
  name, variant = 'fourier_heatmap', ''
  runs.run(runs.shrunk(name, variant, changes), tmp_path)  # on this process's eight devices
  _assert_same_records(tmp_path, finished)


def test_pmap_gives_the_numbers_of_jit(
  start: Start, finished: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  changes = {**DEFAULT_CHANGES, **_weights(finished), 'parallel': 'pmap'}
  runs.finish(start(tmp_path, DEFAULT, changes))
  runs.assert_same_findings(tmp_path, finished)
  _assert_same_records(tmp_path, finished)


@pytest.mark.parametrize(
  'flags',
  [('--num_processes=2',), ('--num_processes=2', '--coordinator=127.0.0.1:1', '--process_id=2')],
)
def test_bad_process_flags_are_refused(start: Start, tmp_path: pathlib.Path, flags: tuple) -> None:
  output = runs.finish(start(tmp_path, DEFAULT, DEFAULT_CHANGES, flags), status=2)
  assert '--num_processes=2 needs --coordinator=HOST:PORT and --process_id in 0..1' in output
