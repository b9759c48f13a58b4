"""Two processes of one run, started by a test."""

import sys
from collections.abc import Callable

import jax

from robustness.parallel.processes import Processes
from tests import commands
from tests.end_to_end.runs import free_port


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
  both = [commands.start(*arguments, str(index), *map(str, more)) for index in range(2)]
  try:
    outputs = [process.communicate(timeout=seconds)[0] for process in both]
  finally:
    for process in both:
      process.kill()
  assert [process.returncode for process in both] == [status] * 2, '\n'.join(outputs)
  return outputs


def take_part(work: Callable[..., int]) -> None:
  """Ends this process, one of two with a device each, as `work` with what follows its number."""
  coordinator, index, *more = sys.argv[1:]
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_num_cpu_devices', 1)
  processes = Processes(coordinator, 2, int(index))
  processes.join()
  sys.exit(processes.end_together(lambda: work(*more)))
