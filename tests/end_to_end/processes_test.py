"""Two processes of a run have the results of one, resume after a kill and name a missing peer."""

import os
import pathlib
import re
import signal
import subprocess
import time

import jax
import numpy as np
import pytest

from robustness.training.checkpoint import load_variables
from tests.end_to_end import runs
from tests.end_to_end.conftest import Start
from tests.end_to_end.runs import DEFAULT, DEFAULT_CHANGES

pytestmark = pytest.mark.slow


def _begin(start: Start, *settings: tuple[pathlib.Path, dict]) -> list[subprocess.Popen[str]]:
  """Starts two processes, each with its workdir and changes of the config."""
  flags = (f'--coordinator=127.0.0.1:{runs.free_port()}', '--num_processes=2')
  return [
    start(workdir, DEFAULT, changes, (*flags, f'--process_id={k}'))
    for k, (workdir, changes) in enumerate(settings)
  ]


def _steps(workdir: pathlib.Path, label: str = 'natural') -> list[int]:
  """Returns the steps of saved checkpoints."""
  folder = workdir / 'checkpoints' / label / 'checkpoints'
  return [int(path.name) for path in folder.glob('*') if path.name.isdecimal()]


def _assert_same_weights(first: pathlib.Path, second: pathlib.Path) -> None:
  """Compares weights up to rounding, as devices sum in different orders."""
  for label in ('natural', 'gaussian'):
    trees = (load_variables(path / 'checkpoints' / label)[0] for path in (first, second))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), *trees)


def _assert_same_records(first: pathlib.Path, second: pathlib.Path) -> None:
  """Compares answers exactly and probabilities up to rounding."""
  names = [path.relative_to(first) for path in sorted(first.glob('records/*/*.npz'))]
  assert names == [path.relative_to(second) for path in sorted(second.glob('records/*/*.npz'))]
  for name in names:
    with np.load(first / name) as shard, np.load(second / name) as other:
      for field in ('example_id', 'label', 'prediction', 'rank'):
        np.testing.assert_array_equal(shard[field], other[field])
      np.testing.assert_allclose(shard['probability'], other['probability'], rtol=2e-5)


def test_two_processes_that_slurm_started_share_the_records(start, finished, tmp_path, monkeypatch):
  job = {'JOB_ID': str(os.getpid()), 'STEP_NODELIST': 'localhost', 'NTASKS': '2'}
  processes = []
  for task in ('0', '1'):
    for name, value in {**job, 'PROCID': task, 'LOCALID': task}.items():
      monkeypatch.setenv(f'SLURM_{name}', value)
    changes = {**DEFAULT_CHANGES, **runs.trained(finished)}
    processes.append(start(tmp_path, DEFAULT, changes, ('--distributed',)))
  for process in processes:
    runs.finish(process)
  runs.assert_same_findings(tmp_path, finished)
  _assert_same_records(tmp_path, finished)


def test_two_processes_train_together_and_resume_after_a_kill_and_a_signal(
  start, finished, tmp_path
):
  same_run = [(tmp_path, DEFAULT_CHANGES)] * 2
  killed, other = _begin(start, *same_run)
  runs.wait_for(killed, lambda: any(step >= 4 for step in _steps(tmp_path)))
  start_time = time.monotonic()
  killed.kill()
  output, _ = other.communicate(timeout=60)
  assert other.returncode in (75, -signal.SIGABRT), output
  ours, from_jax = 'another process of this run ended, so process 1 ends too', 'another task died'
  assert (ours if other.returncode == 75 else from_jax) in output
  assert time.monotonic() - start_time < 60
  again = _begin(start, *same_run)
  runs.wait_for(again[0], lambda: any(step >= 12 for step in _steps(tmp_path)))
  again[1].send_signal(signal.SIGTERM)
  stops = {
    re.search(r'stopped by SIGTERM after (step \d+ of 40)', runs.finish(process, status=75))[1]
    for process in again
  }
  assert len(stops) == 1 and _steps(tmp_path, 'gaussian') == []
  assert f'step {max(_steps(tmp_path))} of' in stops.pop()
  config = runs.shrunk('fourier_heatmap', '', DEFAULT_CHANGES)  # on this process's devices
  runs.run(config, tmp_path, drawn=False, devices=8)
  _assert_same_weights(tmp_path, finished)


def test_a_coordinator_that_does_not_answer_is_named(start, tmp_path):
  flags = ('--num_processes=2', '--coordinator=127.0.0.1:1', '--process_id=1', '--join_timeout=3')
  output = runs.finish(start(tmp_path, DEFAULT, DEFAULT_CHANGES, flags), status=2)
  assert 'error: the coordinator 127.0.0.1:1 did not answer within 3 s' in output
