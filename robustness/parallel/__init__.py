"""Ways to run a step function on several devices: jit over a mesh (default) or pmap."""

import jax
import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.parallel.mesh import BATCH, REPLICATED, MeshParallel
from robustness.parallel.pmap import PmapParallel
from robustness.parallel.processes import barrier

Parallel = MeshParallel
"""The interface, which `PmapParallel` shares."""
KINDS: dict[str, type[Parallel]] = {'jit': MeshParallel, 'pmap': PmapParallel}


def create(kind: str, num_rows: int = 0, all_processes: bool = False) -> Parallel:
  """Returns an object that compiles steps for several devices.

  Args:
    kind: 'jit' (over a mesh, the default) or 'pmap'.
    num_rows: number of images in a step. The largest number of devices that divides it is used,
      with equally many of each process. 0 sets no condition.
    all_processes: whether to use the devices of all processes, each with its share of the batch.
      All processes must then call `create`. Otherwise only devices of this process are used.

  Raises:
    InputError: `kind` is unknown, or the images do not divide over the processes.
  """
  choice('config.parallel', kind, KINDS)
  processes = range(jax.process_count()) if all_processes else [jax.process_index()]
  devices = [jax.local_devices(process_index=process) for process in processes]
  max_per_process = min(map(len, devices))
  # numbers of devices of each process that divide the rows; every number divides 0
  counts = [n for n in range(1, max_per_process + 1) if num_rows % (n * len(processes)) == 0]
  if not counts:
    raise InputError(
      f'{num_rows} rows do not divide over {len(processes)} processes; each must have equally many.'
    )
  num_per_process = max(counts)
  return KINDS[kind]([device for local in devices for device in local[:num_per_process]])


def connect(parallel: Parallel) -> None:
  """Connects the devices of several processes, by a first sum over them.

  It waits for all processes before the sum. Without this wait, XLA would give up after half a
  minute if a process still compiles or reads data. A single process returns at once.
  """
  if parallel.num_processes == 1:
    return
  barrier('its devices')

  def total(ones: jax.Array) -> jax.Array:
    """Returns the sum of an array over all devices, which waits for all processes."""
    local = ones.sum()
    return local if parallel.axis_name is None else jax.lax.psum(local, parallel.axis_name)

  ones = np.ones(parallel.num_devices // parallel.num_processes, np.float32)  # one per local device
  jax.block_until_ready(parallel.compile(total, (BATCH,), REPLICATED)(parallel.put_batch(ones)))
