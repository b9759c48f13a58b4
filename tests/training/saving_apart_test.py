"""Processes of one run that save their own networks at the same time do not disturb each other."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.end_to_end.runs import free_port
from tests.training import saving_apart

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_saves_of_two_processes_do_not_meet(tmp_path: pathlib.Path) -> None:
  address = f'127.0.0.1:{free_port()}'
  processes = [
    subprocess.Popen(
      [sys.executable, '-m', saving_apart.__name__, address, str(index), str(tmp_path)],
      cwd=ROOT,
      env={**os.environ, 'JAX_PLATFORMS': 'cpu'},
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    for index in range(2)
  ]
  try:
    outputs = [process.communicate(timeout=90)[0] for process in processes]
  finally:
    for process in processes:
      process.kill()
  assert [process.returncode for process in processes] == [0, 0], '\n'.join(outputs)
  last = str(saving_apart.SAVES)
  assert all((tmp_path / str(index) / 'checkpoints' / last).is_dir() for index in range(2))
