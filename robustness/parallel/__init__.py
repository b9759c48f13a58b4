"""How a step function runs on several devices: jit over a mesh (default) or pmap."""

from __future__ import annotations

import collections

import jax
import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.parallel.meeting import meet
from robustness.parallel.mesh import BATCH, REPLICATED, MeshParallel
from robustness.parallel.pmap import PmapParallel

Parallel = MeshParallel | PmapParallel
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
  processes = jax.process_count() if all_processes else 1
  own = jax.local_devices()
  most = len(own) if processes == 1 else min(collections.Counter(_owners()).values())
  counts = [n for n in range(1, most + 1) if divides % (n * processes) == 0]
  if not counts:
    raise InputError(
      f'{divides} rows do not divide over {processes} processes; each must have equally many.'
    )
  if processes == 1:
    return KINDS[kind](own[: max(counts)])
  return KINDS[kind]([d for k in range(processes) for d in _of(k)[: max(counts)]])


def introduce(way: Parallel) -> None:
  """Connects the devices of several processes, while all of these are here.

  The connection is made at the first collective, where a process waits half a minute for the
  others; one that is still compiling its step, or reading its rows, may take longer. Later
  collectives wait for as long as it takes.
  """
  if way.share[1] == 1:
    return
  meet('its devices')

  def total(ones: jax.Array) -> jax.Array:
    return ones.sum() if way.axis_name is None else jax.lax.psum(ones.sum(), way.axis_name)

  ones = np.ones(way.num_devices // way.share[1], np.float32)
  jax.block_until_ready(way.compile(total, (BATCH,), REPLICATED)(way.put_batch(ones)))


def _owners() -> list[int]:
  return [device.process_index for device in jax.devices()]


def _of(process: int) -> list[jax.Device]:
  devices = [device for device in jax.devices() if device.process_index == process]
  return sorted(devices, key=lambda device: device.id)
