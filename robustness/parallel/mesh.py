"""jit over a one-axis mesh: the batch is split over the devices, all else is on each of them.

The mesh may span several processes. Each then brings its own rows of a batch, and has its own copy
of what is replicated.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from robustness.core.typing import PyTree

T = TypeVar('T')
Step = Callable[..., PyTree]
BATCH, REPLICATED = 'batch', 'replicated'
CPU_OPTIONS = {'xla_cpu_scheduler_type': 'CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED'}
"""XLA's own order runs what is ready first, to keep several threads busy: all kernels of a network
that standardises them would be made before the first is used, a second copy of its weights."""

MOST = 8
"""Calls whose results may be outstanding on several CPU devices, of all functions of a `Parallel`.

XLA lets 32 programs wait on a device. On a CPU it starts and runs those of all devices by one
thread a device; where a start has to wait for its place among the 32, it holds a thread that
the programs before it need, and none ever ends.
"""


class Compiled(Protocol):
  """A compiled function of pytrees."""

  def __call__(self, *arguments: PyTree) -> PyTree:
    """Runs it."""

  def lower(self, *arguments: PyTree) -> jax.stages.Lowered:
    """Returns the program for arguments like these, not yet compiled."""


class MeshParallel:
  """Runs one step function on a mesh of devices.

  Attributes:
    axis_name: None; a step under jit sees the whole batch, so no collective is written by hand.
    devices: share a batch; those of several processes follow each other by process.
    num_devices: how many, of all processes.
    share: (k, n), where a batch is shared by n processes and this one brings the k-th part.
  """

  axis_name: str | None = None

  def __init__(self, devices: Sequence[jax.Device] | None = None):
    """Makes the mesh of this process's devices by default; those of several processes follow each
    other by process, equally many of each."""
    self.devices = list(jax.local_devices() if devices is None else devices)
    self.num_devices = len(self.devices)
    owners, here = sorted({device.process_index for device in self.devices}), jax.process_index()
    self.share = (owners.index(here) if here in owners else 0, len(owners))
    self._outstanding: collections.deque[list[jax.Array]] = collections.deque()
    self._mesh = Mesh(np.array(self.devices), ('data',), axis_types=(AxisType.Auto,))
    self._shardings = {
      BATCH: NamedSharding(self._mesh, PartitionSpec('data')),
      REPLICATED: NamedSharding(self._mesh, PartitionSpec()),
    }

  def compile(
    self, step: Step, inputs: Sequence[str], outputs: PyTree, donate: Sequence[int] = ()
  ) -> Compiled:
    """Compiles a step.

    Args:
      step: a pure function of positional pytrees; batched ones have the batch as leading axis.
      inputs: 'batch' or 'replicated' for each argument.
      outputs: 'batch' or 'replicated', one for each output (a pytree prefix of them).
      donate: positions of arguments whose memory the outputs may reuse.

    Returns:
      The compiled function; its arguments come from `put_batch` and `replicate`. On several CPU
      devices it waits for the call `MOST` before.
    """
    compiled = jax.jit(
      step,
      in_shardings=tuple(self._shardings[kind] for kind in inputs),
      out_shardings=jax.tree.map(self._shardings.__getitem__, outputs),
      donate_argnums=tuple(donate),
      compiler_options=CPU_OPTIONS if self.devices[0].platform == 'cpu' else None,
    )
    return self._bounded(compiled)

  def by_device(self, function: Callable[..., T], rows: Mapping[str, PyTree], *shared: PyTree) -> T:
    """Returns `function(rows, *shared)`, inside a step, each device with its own rows alone.

    XLA gathers on every device what some operations take, such as a Fourier transform; the devices
    then wait for each other, on a CPU for a minute at most.

    Nothing that is traced may reach the function but by its arguments.
    """
    each = jax.shard_map(
      function,
      mesh=self._mesh,
      in_specs=(PartitionSpec('data'), *[PartitionSpec()] * len(shared)),
      out_specs=PartitionSpec('data'),
      check_vma=False,
    )
    return each(dict(rows), *shared)

  def put_batch(self, tree: PyTree) -> PyTree:
    """Splits the leading axis of every array of this process's rows over its devices."""
    return self._placed(self._shardings[BATCH], tree)

  def replicate(self, tree: PyTree) -> PyTree:
    """Copies every array to each device; several processes must give the same values."""
    return self._placed(self._shardings[REPLICATED], tree)

  def gather(self, tree: PyTree) -> PyTree:
    """Returns batched outputs as numpy arrays with the batch as leading axis; of one process."""
    return jax.tree.map(np.asarray, tree)

  def unreplicate(self, tree: T) -> T:
    """Returns replicated outputs as single arrays, without a copy to the host.

    Those of several processes are still arrays over all their devices; see `own_copy`.
    """
    return tree

  def _placed(self, sharding: NamedSharding, tree: PyTree) -> PyTree:
    if self.share[1] == 1:
      return jax.device_put(tree, sharding)
    return jax.tree.map(
      lambda x: jax.make_array_from_process_local_data(sharding, np.asarray(x)), tree
    )

  def _bounded(self, compiled: Compiled) -> Compiled:
    """Returns the function, bounded where this process has several CPU devices among these."""
    own = [device for device in self.devices if device.process_index == jax.process_index()]
    if len(own) > 1 and own[0].platform == 'cpu':
      return _Bounded(compiled, self._outstanding)
    return compiled


class _Bounded:
  """A compiled function whose caller waits for the call `MOST` before."""

  def __init__(self, function: Compiled, outstanding: collections.deque[list[jax.Array]]):
    self._function, self._outstanding = function, outstanding
    self.lower = function.lower

  def __call__(self, *arguments: PyTree) -> PyTree:
    outputs = self._function(*arguments)
    self._outstanding.append(jax.tree.leaves(outputs))
    while len(self._outstanding) > MOST:
      for array in self._outstanding.popleft():
        try:
          array.block_until_ready()
        except jax.errors.JaxRuntimeError as error:  # `is_deleted` does not know all of these
          if 'deleted or donated' not in str(error):
            raise
    return outputs


def own_copy(tree: PyTree) -> PyTree:
  """Returns replicated arrays as arrays of this process alone, for what the others do not do."""
  return jax.tree.map(lambda x: x.addressable_data(0) if isinstance(x, jax.Array) else x, tree)
