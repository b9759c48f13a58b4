"""jit over a one-axis mesh: the batch is split over the devices, other arrays are replicated.

The mesh may span several processes. Each then provides its rows of a batch and has its own copy of
replicated arrays.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from robustness.core.random_keys import without_global_draws
from robustness.core.typing import PyTree

T = TypeVar('T')
Step = Callable[..., PyTree]
BATCH, REPLICATED = 'batch', 'replicated'
"""How an array of a step is laid out: split along its leading axis, or a copy on each device."""
CPU_OPTIONS = {'xla_cpu_scheduler_type': 'CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED'}
"""Compiler options for CPUs. XLA's default schedule runs operations as soon as they are ready: a
network that standardises its kernels would compute all of them before it uses the first one, which
needs memory for a second copy of its weights."""

MAX_OUTSTANDING = 8
"""Largest number of unfinished calls on several CPU devices, over all functions of a `Parallel`.

XLA lets 32 programs wait on a device. On a CPU it starts and runs programs with one thread per
device. The start of a 33rd program waits and occupies a thread that the earlier programs need: a
deadlock.
"""


class Compiled(Protocol):
  """The interface of a compiled function of pytrees."""

  def __call__(self, *arguments: PyTree) -> PyTree:
    """Runs the function."""

  def lower(self, *arguments: PyTree) -> jax.stages.Lowered:
    """Returns the program for the shapes and types of `arguments`, before compilation."""


class MeshParallel:
  """Compiles step functions for several devices by jit over a mesh, and moves arrays to them.

  Attributes:
    axis_name: name of the axis for sums over devices. None here, because a step under jit sees the
      full batch.
    devices: the devices that share a batch, ordered by process.
    num_devices: the number of devices of all processes.
    num_processes: the number n of processes that share a batch.
    share: (k, n) if this process provides the k-th of n parts of a batch, with k from 0.
  """

  axis_name: str | None = None

  def __init__(self, devices: Sequence[jax.Device] | None = None):
    """Makes a mesh.

    Args:
      devices: the devices, ordered by process, with equally many of each process; None for the
        devices of this process.
    """
    self.devices = list(jax.local_devices() if devices is None else devices)
    self.num_devices = len(self.devices)
    processes = sorted({device.process_index for device in self.devices})
    index = jax.process_index()
    self.num_processes = len(processes)
    # 0 for a process without devices in the mesh, which provides no part of a batch
    part = processes.index(index) if index in processes else 0
    self.share = part, self.num_processes
    self._local_devices = [device for device in self.devices if device.process_index == index]
    # outputs of the calls that may be unfinished, the oldest call first
    self._unfinished: collections.deque[list[jax.Array]] = collections.deque()
    self._mesh = Mesh(np.array(self.devices), ('data',), axis_types=(AxisType.Auto,))
    self._shardings = {
      BATCH: NamedSharding(self._mesh, PartitionSpec('data')),
      REPLICATED: NamedSharding(self._mesh, PartitionSpec()),
    }

  def compile(
    self, step: Step, inputs: Sequence[str], outputs: PyTree, donate: Sequence[int] = ()
  ) -> Compiled:
    """Compiles a step for the devices.

    Args:
      step: A pure function of pytrees. Arrays of a batch have the images as leading axis.
      inputs: 'batch' or 'replicated' for each argument.
      outputs: 'batch' or 'replicated' for each output (a pytree prefix of the outputs).
      donate: indices of arguments. The outputs may reuse their memory.

    Returns:
      The compiled function, for arguments from `put_batch` and `replicate`. On several CPU devices,
      at most `MAX_OUTSTANDING` calls are unfinished at a time.
    """
    compiled = jax.jit(
      without_global_draws(step),
      in_shardings=tuple(self._shardings[kind] for kind in inputs),
      out_shardings=jax.tree.map(self._shardings.__getitem__, outputs),
      donate_argnums=tuple(donate),
      compiler_options=CPU_OPTIONS if self.devices[0].platform == 'cpu' else None,
    )
    return self._with_call_limit(compiled)

  def by_device(self, function: Callable[..., T], rows: Mapping[str, PyTree], *shared: PyTree) -> T:
    """Computes `function(rows, *shared)` on each device for its own images (`shard_map`).

    Call this inside a compiled step for operations such as a Fourier transform. XLA would otherwise
    gather all images on every device, where devices wait for each other.

    Args:
      function: function of (rows, *shared) for any number of images. It must not use other traced
        values.
      rows: arrays that are split over the devices along their leading axis.
      *shared: arrays that every device gets whole.
    """
    by_row = PartitionSpec('data')
    in_specs = (by_row, *[PartitionSpec()] * len(shared))
    sharded = jax.shard_map(
      function, mesh=self._mesh, in_specs=in_specs, out_specs=by_row, check_vma=False
    )
    return sharded(dict(rows), *shared)

  def put_batch(self, tree: PyTree) -> PyTree:
    """Puts this process's images of a batch on its devices, split along the leading axis."""
    return self._on_devices(tree, self._shardings[BATCH])

  def replicate(self, tree: PyTree) -> PyTree:
    """Copies every array to each device; all processes must pass the same values."""
    return self._on_devices(tree, self._shardings[REPLICATED])

  def gather(self, tree: PyTree) -> PyTree:
    """Returns outputs of a step as NumPy arrays [B, ...]; only for runs with a single process."""
    return jax.tree.map(np.asarray, tree)

  def unreplicate(self, tree: T) -> T:
    """Removes the device axis of replicated outputs. Here there is none, and nothing changes.

    `PmapParallel` overrides this method.
    """
    return tree

  def _on_devices(self, tree: PyTree, sharding: NamedSharding) -> PyTree:
    """Puts this process's arrays on the devices, laid out by `sharding`."""
    if self.num_processes == 1:
      return jax.device_put(tree, sharding)
    make = jax.make_array_from_process_local_data
    return jax.tree.map(lambda x: make(sharding, np.asarray(x)), tree)

  def _with_call_limit(self, compiled: Compiled) -> Compiled:
    """Limits the number of unfinished calls of a function to `MAX_OUTSTANDING`.

    The limit is for several CPU devices. Otherwise `compiled` itself is returned.
    """
    if len(self._local_devices) > 1 and self._local_devices[0].platform == 'cpu':
      return _Bounded(compiled, self._unfinished)
    return compiled


class _Bounded:
  """Wraps a compiled function to have at most `MAX_OUTSTANDING` unfinished calls.

  The argument `unfinished` has the outputs of each unfinished call, the oldest first. All functions
  of a `Parallel` share this queue, and the limit.
  """

  def __init__(self, function: Compiled, unfinished: collections.deque[list[jax.Array]]):
    self._function, self._unfinished = function, unfinished
    self.lower = function.lower

  def __call__(self, *arguments: PyTree) -> PyTree:
    """Starts a compiled call, and waits for the oldest calls while too many are unfinished.

    JAX returns before a computation ends. Without the limit `MAX_OUTSTANDING`, any number of calls
    could be queued on several CPU devices.
    """
    outputs = self._function(*arguments)
    self._unfinished.append(jax.tree.leaves(outputs))
    while len(self._unfinished) > MAX_OUTSTANDING:
      for array in self._unfinished.popleft():
        try:
          array.block_until_ready()
        except jax.errors.JaxRuntimeError as error:
          # a later call has taken the array's memory; `is_deleted` does not detect all such arrays
          if 'deleted or donated' not in str(error):
            raise
    return outputs


def own_copy(tree: PyTree) -> PyTree:
  """Returns this process's copy of replicated arrays, on its first device.

  The copy can be read without other processes. Leaves that are not JAX arrays are unchanged.
  """
  return jax.tree.map(lambda x: x.addressable_data(0) if isinstance(x, jax.Array) else x, tree)
