"""How a step function runs on several devices: jit over a mesh (default) or pmap."""

import jax
import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.parallel.mesh import BATCH, REPLICATED, MeshParallel
from robustness.parallel.pmap import PmapParallel
from robustness.parallel.processes import barrier

Parallel = MeshParallel
"""The interface; `PmapParallel` has the same."""
KINDS: dict[str, type[Parallel]] = {'jit': MeshParallel, 'pmap': PmapParallel}


def create(kind: str, divides: int = 0, all_processes: bool = False) -> Parallel:
  """Returns the named way of running on this process's devices, or on those of all processes.

  Args:
    kind: 'jit' (over a mesh, the default) or 'pmap'.
    divides: takes as many devices as there are and as divide this number; 0 takes all. With several
      processes it takes equally many of each.
    all_processes: whether a step runs on the devices of all processes of the run, each of which
      brings its own share of the batch; all of them must then call it.

  Raises:
    InputError: another name, or a number that does not divide over the processes.
  """
  choice('config.parallel', kind, KINDS)
  indices = range(jax.process_count()) if all_processes else [jax.process_index()]
  devices = [jax.local_devices(process_index=index) for index in indices]
  most = min(map(len, devices))
  counts = [n for n in range(1, most + 1) if divides % (n * len(devices)) == 0]
  if not counts:
    raise InputError(
      f'{divides} rows do not divide over {len(devices)} processes; each must have equally many.'
    )
  return KINDS[kind]([device for own in devices for device in own[: max(counts)]])


def connect(way: Parallel) -> None:
  """Connects the devices of several processes while all of these are here: the first collective
  waits half a minute for the others, and a process may take longer to compile its step or read
  its rows."""
  if way.share[1] == 1:
    return
  barrier('its devices')

  def total(ones: jax.Array) -> jax.Array:
    return ones.sum() if way.axis_name is None else jax.lax.psum(ones.sum(), way.axis_name)

  ones = np.ones(way.num_devices // way.share[1], np.float32)
  jax.block_until_ready(way.compile(total, (BATCH,), REPLICATED)(way.put_batch(ones)))
