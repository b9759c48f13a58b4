"""How a step function runs on several devices: jit over a mesh (default) or pmap."""

from __future__ import annotations

import jax

from robustness.core.settings import choice
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel

Parallel = MeshParallel | PmapParallel
KINDS: dict[str, type[Parallel]] = {'jit': MeshParallel, 'pmap': PmapParallel}


def create(kind: str, divides: int = 0) -> Parallel:
  """Returns the named way of running on this process's devices.

  Args:
    kind: 'jit' (over a mesh, the default) or 'pmap'.
    divides: takes as many devices as there are and as divide this number; 0 takes all.

  Raises:
    InputError: another name.
  """
  choice('config.parallel', kind, KINDS)
  devices = jax.local_devices()
  counts = [n for n in range(1, len(devices) + 1) if divides % n == 0]
  return KINDS[kind](devices[: max(counts)])
