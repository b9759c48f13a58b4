"""Two processes of one run, started by a test."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from tests.end_to_end.runs import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_two(
  *program: object, more: tuple[object, ...] = (), status: int = 0, seconds: int = 240
) -> list[str]:
  """Runs a program as two processes to their ends; returns what each printed.

  Args:
    *program: what Python is told to run. It gets the coordinator's address, its own number and
      then `more`, and chooses its devices itself.
    more: further arguments.
    status: that both must end with.
    seconds: that each may take.
  """
  arguments = [sys.executable, *map(str, program), f'127.0.0.1:{free_port()}']
  environment = {k: v for k, v in os.environ.items() if k != 'JAX_NUM_CPU_DEVICES'}
  both = [
    subprocess.Popen(
      [*arguments, str(index), *map(str, more)],
      cwd=ROOT,
      env=environment,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    for index in range(2)
  ]
  try:
    outputs = [process.communicate(timeout=seconds)[0] for process in both]
  finally:
    for process in both:
      process.kill()
  assert [process.returncode for process in both] == [status] * 2, '\n'.join(outputs)
  return outputs
