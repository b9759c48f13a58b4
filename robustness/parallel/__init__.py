"""How a step function runs on several devices: jit over a mesh (default) or pmap."""

from __future__ import annotations

from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel
from robustness.settings import choice

Parallel = MeshParallel | PmapParallel
KINDS: dict[str, type[Parallel]] = {'jit': MeshParallel, 'pmap': PmapParallel}


def create(kind: str) -> Parallel:
  """Returns the named way of running on this process's devices.

  Args:
    kind: 'jit' (over a mesh, the default) or 'pmap'.

  Raises:
    InputError: another name.
  """
  choice('config.parallel', kind, KINDS)
  return KINDS[kind]()
