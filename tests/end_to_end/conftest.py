"""Processes that end with the test that started them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.end_to_end import runs

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
  """`runs.start`, with every process ended when the test is over."""
  processes: list[subprocess.Popen[str]] = []

  def begin(*arguments: Any, **more: Any) -> subprocess.Popen[str]:
    processes.append(runs.start(*arguments, **more))
    return processes[-1]

  yield begin
  for process in processes:
    if process.poll() is None:
      process.kill()
      process.wait()
    if process.stdout is not None:
      process.stdout.close()
