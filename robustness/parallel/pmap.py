"""The same step functions under pmap: `MeshParallel`'s interface, a device axis inside."""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from robustness.core.typing import PyTree
from robustness.parallel.mesh import REPLICATED, Compiled, MeshParallel, Step, T


class PmapParallel(MeshParallel):
  """Runs one step function on every device by `jax.pmap`.

  A training step sees its device's part of the batch and sums over `axis_name`.
  """

  axis_name: str | None = 'data'

  def __init__(self, devices: Sequence[jax.Device] | None = None):
    super().__init__(devices)
    own = [device for device in self.devices if device.process_index == jax.process_index()]
    self._own = len(own)
    self._stacked = NamedSharding(Mesh(np.array(own), ('data',)), PartitionSpec('data'))

  def compile(
    self, step: Step, inputs: Sequence[str], outputs: PyTree, donate: Sequence[int] = ()
  ) -> Compiled:
    """See `MeshParallel.compile`; `inputs` and `outputs` all carry the device axis here."""
    del inputs, outputs
    compiled = jax.pmap(
      step, axis_name=self.axis_name, devices=self.devices, donate_argnums=tuple(donate)
    )
    return self._bounded(compiled)

  def by_device(self, function: Callable[..., T], rows: Mapping[str, PyTree], *shared: PyTree) -> T:
    """See `MeshParallel.by_device`."""
    return function(dict(rows), *shared)

  def put_batch(self, tree: PyTree) -> PyTree:
    """Splits the leading axis of every array into [own devices, rows a device]."""
    return jax.tree.map(lambda x: np.reshape(x, (self._own, -1, *np.shape(x)[1:])), tree)

  def replicate(self, tree: PyTree) -> PyTree:
    """Stacks a copy of every array for each device of this process, on that device.

    pmap would refuse a stack on one device, where `unreplicate` leaves what it returns.
    """

    def stack(x: PyTree) -> jax.Array:
      return jax.device_put(jnp.broadcast_to(x, (self._own, *jnp.shape(x))), self._stacked)

    return jax.tree.map(stack, tree)

  def gather(self, tree: PyTree) -> PyTree:
    """Returns batched outputs as numpy arrays with the batch as leading axis."""
    return jax.tree.map(lambda x: np.asarray(x).reshape((-1, *np.shape(x)[2:])), tree)

  def unreplicate(self, tree: T) -> T:
    """Returns a copy of replicated outputs, without communication between devices.

    One process gets the first device's; those of several are arrays over all their devices, see
    `own_copy`. To index the device axis would be an all-reduce for each array, of which XLA's CPU
    backend starts many at once: on few cores they can wait for one another forever.
    """

    def single(x: jax.Array) -> jax.Array:
      shape, shards = x.shape[1:], x.addressable_shards
      if self.share[1] == 1:
        return shards[0].data[0]
      copies = [shard.data.reshape(shape) for shard in shards]
      everywhere = self._shardings[REPLICATED]
      return jax.make_array_from_single_device_arrays(shape, everywhere, copies)

    return jax.tree.map(single, tree)
