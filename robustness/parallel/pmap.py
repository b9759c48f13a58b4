"""The same step functions under pmap: `MeshParallel`'s interface, a device axis inside."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from robustness.core.sequential import map_rows
from robustness.parallel import in_flight
from robustness.parallel.mesh import share_of


class PmapParallel:
  """Runs one step function on every device by `jax.pmap`.

  Attributes:
    axis_name: 'data'; a training step sees its device's part of the batch and sums over this axis.
    num_devices: devices that share a batch, of all processes.
    share: see `MeshParallel`.
    parts: 1; a step sees its own device's share of a batch.
  """

  axis_name: str | None = 'data'
  parts = 1

  def __init__(self, devices: Sequence[jax.Device] | None = None):
    """Args: devices: see `MeshParallel`."""
    self._devices = list(jax.local_devices() if devices is None else devices)
    self.num_devices, self.share = len(self._devices), share_of(self._devices)
    self._own = self.num_devices // self.share[1]
    mesh = Mesh(np.array(self._devices), (self.axis_name,))
    self._outstanding: in_flight.Outstanding = collections.deque()
    self._everywhere = NamedSharding(mesh, PartitionSpec())
    own = [device for device in self._devices if device.process_index == jax.process_index()]
    self._stacked = NamedSharding(
      Mesh(np.array(own), (self.axis_name,)), PartitionSpec(self.axis_name)
    )

  def compile(
    self, step: Callable, inputs: Sequence[str], outputs: Any, donate: Sequence[int] = ()
  ) -> Callable:
    """See `MeshParallel.compile`; `inputs` and `outputs` all carry the device axis here."""
    del inputs, outputs
    compiled = jax.pmap(
      step, axis_name=self.axis_name, devices=self._devices, donate_argnums=tuple(donate)
    )
    return in_flight.bounded(compiled, self._devices, self._outstanding)

  def sequential(self, function: Callable, rows: Mapping[str, jax.Array], view: Any) -> Any:
    """See `MeshParallel.sequential`."""
    return self.by_device(functools.partial(map_rows, function), rows, view)

  def by_device(self, function: Callable, rows: Mapping[str, jax.Array], *shared: Any) -> Any:
    """See `MeshParallel.by_device`."""
    return function(dict(rows), *shared)

  def put_batch(self, tree: Any) -> Any:
    """Splits the leading axis of every array into [own devices, rows a device]."""

    def split(x: Any) -> Any:
      return np.reshape(x, (self._own, -1) + np.shape(x)[1:])

    return jax.tree.map(split, tree)

  def replicate(self, tree: Any) -> Any:
    """Stacks a copy of every array for each device of this process, on that device.

    pmap would refuse a stack on one device, where `unreplicate` leaves what it returns.
    """

    def stack(x: Any) -> jax.Array:
      return jax.device_put(jnp.broadcast_to(x, (self._own, *jnp.shape(x))), self._stacked)

    return jax.tree.map(stack, tree)

  def gather(self, tree: Any) -> Any:
    """Returns batched outputs as numpy arrays with the batch as leading axis."""

    def join(x: Any) -> np.ndarray:
      return np.asarray(x).reshape((-1,) + np.shape(x)[2:])

    return jax.tree.map(join, tree)

  def unreplicate(self, tree: Any) -> Any:
    """Returns a copy of replicated outputs, without a word between devices.

    One process gets the first device's; those of several are arrays over all their devices, see
    `own_copy`. To index the device axis would be an all-reduce for each array, of which XLA's CPU
    backend starts many at once: on few cores they can wait for one another forever.
    """
    return jax.tree.map(self._single, tree)

  def _single(self, x: jax.Array) -> jax.Array:
    shape = x.shape[1:]
    if self.share[1] == 1:
      return x.addressable_shards[0].data[0]
    copies = [shard.data.reshape(shape) for shard in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(shape, self._everywhere, copies)
