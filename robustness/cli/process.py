"""Devices, exit statuses and advice about resources for the process of a run."""

import os
import sys

import jax

from robustness.core import host
from robustness.core.errors import KEYS, causes
from robustness.parallel import processes as peers

BAD_INPUT, PREEMPTED, INTERRUPTED = 2, peers.RESUMABLE, 130
"""Exit statuses: bad input or a full disk; stopped by SIGTERM or the end of another process;
Ctrl-C.
"""


def set_devices(processes: peers.Processes) -> None:
  """Prepares JAX's devices for a run.

  Sets one CPU device per core, which JAX uses if it finds no accelerator, and joins the other
  processes of the run. The number of CPU devices is left unchanged if `JAX_NUM_CPU_DEVICES` or
  `XLA_FLAGS` sets it.

  Args:
    processes: the processes that share the run.
  """
  host.keep_freed_memory()
  is_set_in_xla = 'xla_force_host_platform_device_count' in os.environ.get('XLA_FLAGS', '')
  if not is_set_in_xla and 'JAX_NUM_CPU_DEVICES' not in os.environ:
    jax.config.update('jax_num_cpu_devices', host.usable_cores())
  processes.join()
  jax.local_devices()  # an absent platform fails here, before JAX removes frames from tracebacks


def memory_advice(error: BaseException) -> str | None:
  """Returns advice if an error means that memory was too small, else None.

  The error may be from NumPy, or from JAX about a device.
  """
  if isinstance(error, MemoryError):  # raised by NumPy, which states the size
    return f'not enough memory ({error}): give smaller numbers or fewer images.'
  for cause in causes(error):
    if isinstance(cause, jax.errors.JaxRuntimeError) and 'RESOURCE_EXHAUSTED' in str(cause):
      return (
        'not enough memory on the device: give a smaller --config.batch_size or '
        f'--config.views_per_step=1 for an evaluation, a smaller --{KEYS.training.batch_size} or a '
        f'larger --{KEYS.training.accumulate} for a training.'
      )
  return None


def exit_with(status: int, message: str) -> int:
  """Prints a message on stderr and returns the exit status."""
  print(f'error: {message}' if status == BAD_INPUT else message, file=sys.stderr, flush=True)
  return status
