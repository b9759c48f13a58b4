"""Step functions under pmap, with the interface of `MeshParallel` and an internal device axis."""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from robustness.core.random_keys import without_global_draws
from robustness.core.typing import PyTree
from robustness.parallel.mesh import REPLICATED, Compiled, MeshParallel, Step, T


class PmapParallel(MeshParallel):
  """Compiles step functions by `jax.pmap`, with the interface of `MeshParallel`.

  A step sees only one device's part of the batch. A training step combines the parts by sums over
  the axis `axis_name`.
  """

  axis_name: str | None = 'data'

  def __init__(self, devices: Sequence[jax.Device] | None = None):
    """Takes the devices, ordered by process; None takes the devices of this process."""
    super().__init__(devices)
    self._num_local = len(self._local_devices)
    # this sharding places entry i of the leading axis on local device i, as pmap needs it
    local_mesh = Mesh(np.array(self._local_devices), ('data',))
    self._stacked = NamedSharding(local_mesh, PartitionSpec('data'))

  def compile(
    self, step: Step, inputs: Sequence[str], outputs: PyTree, donate: Sequence[int] = ()
  ) -> Compiled:
    """Compiles a step by `jax.pmap`, with a leading device axis of all inputs and outputs.

    On several CPU devices, at most `MAX_OUTSTANDING` calls are unfinished at a time.

    Args:
      step: A pure function of pytrees.
      inputs: ignored, because pmap splits every array.
      outputs: ignored.
      donate: indices of arguments. The outputs may reuse their memory.
    """
    pure_step = without_global_draws(step)
    compiled = jax.pmap(
      pure_step, axis_name=self.axis_name, devices=self.devices, donate_argnums=tuple(donate)
    )
    return self._with_call_limit(compiled)

  def by_device(self, function: Callable[..., T], rows: Mapping[str, PyTree], *shared: PyTree) -> T:
    """Returns `function(rows, *shared)`, since under pmap a device has only its own images."""
    return function(dict(rows), *shared)

  def put_batch(self, tree: PyTree) -> PyTree:
    """Splits the leading axis of every array into [local devices, rows per device], on the host."""
    return jax.tree.map(lambda x: np.reshape(x, (self._num_local, -1, *np.shape(x)[1:])), tree)

  def replicate(self, tree: PyTree) -> PyTree:
    """Copies every array to each local device, with a leading device axis."""

    # `x` may be on a single device, and pmap refuses a stack of all copies on one device
    def stack(x: PyTree) -> jax.Array:
      """Returns an array [local devices, ...] of equal copies, one on each device."""
      return jax.device_put(jnp.broadcast_to(x, (self._num_local, *jnp.shape(x))), self._stacked)

    return jax.tree.map(stack, tree)

  def gather(self, tree: PyTree) -> PyTree:
    """Returns outputs of a step, [devices, rows per device, ...], as NumPy arrays [B, ...]."""
    return jax.tree.map(lambda x: np.asarray(x).reshape((-1, *np.shape(x)[2:])), tree)

  def unreplicate(self, tree: T) -> T:
    """Removes the device axis of replicated outputs.

    With one process, the copy on the first device is taken. With several processes, the arrays span
    all devices, see `own_copy`.
    """

    def single(x: jax.Array) -> jax.Array:
      """Returns one copy of an array that is replicated along its first axis, one copy per device.

      With several processes the result is again an array on all devices, without that axis.
      """
      shape, shards = x.shape[1:], x.addressable_shards
      if self.num_processes == 1:
        return shards[0].data[0]  # the data of a shard are [1, ...]
      # Indexing the device axis would be an all-reduce for each array. XLA's CPU backend starts
      # many of these at once, and on few cores they can wait for each other forever.
      copies = [shard.data.reshape(shape) for shard in shards]
      return jax.make_array_from_single_device_arrays(shape, self._shardings[REPLICATED], copies)

    return jax.tree.map(single, tree)
