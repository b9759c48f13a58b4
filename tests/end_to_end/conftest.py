"""Processes that end with the test that started them."""

import subprocess
from collections.abc import Callable

import pytest

from tests.end_to_end import runs

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start():
  """Returns `runs.start`, but ends every process when the test is over."""
  processes: list[subprocess.Popen[str]] = []

  def begin(*arguments, **options):
    processes.append(runs.start(*arguments, **options))
    return processes[-1]

  yield begin
  for process in processes:
    if process.poll() is None:
      process.kill()
      process.wait()
    if process.stdout is not None:
      process.stdout.close()
