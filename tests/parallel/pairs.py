"""Two processes of one run, started by a test."""

import sys
from collections.abc import Callable

import jax

from robustness.parallel.processes import Processes
from tests import commands
from tests.end_to_end.runs import free_port


def run_two(
  *program: object, arguments: tuple[object, ...] = (), status: int = 0, seconds: int = 240
) -> list[str]:
  """Runs a program as two processes to their ends and returns the output of each.

  Args:
    *program: the arguments of Python that name the program. The program gets the address of the
      coordinator, the number of its process and then `arguments`, and chooses its devices.
    arguments: of the program, equal for both processes.
    status: the exit status of both processes.
    seconds: the longest time of each process.
  """
  command = [sys.executable, *map(str, program), f'127.0.0.1:{free_port()}']
  pair = [commands.start(*command, str(index), *map(str, arguments)) for index in range(2)]
  try:
    outputs = [process.communicate(timeout=seconds)[0] for process in pair]
  finally:
    for process in pair:
      process.kill()
  assert [process.returncode for process in pair] == [status] * 2, '\n'.join(outputs)
  return outputs


def take_part(work: Callable[..., int]) -> None:
  """Runs `work` with the program's arguments in this process, one of two with a device each."""
  coordinator, index, *arguments = sys.argv[1:]
  jax.config.update('jax_platforms', 'cpu')
  jax.config.update('jax_num_cpu_devices', 1)
  processes = Processes(coordinator, 2, int(index))
  processes.join()
  sys.exit(processes.end_together(lambda: work(*arguments)))
