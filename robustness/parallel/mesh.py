"""jit over a one-axis mesh: the batch is split over the devices, all else is on each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from robustness.core.sequential import map_rows

BATCH, REPLICATED = 'batch', 'replicated'


class MeshParallel:
  """Runs one step function on a mesh of devices.

  Attributes:
    axis_name: None; a step under jit sees the whole batch, so no collective is written by hand.
    num_devices: devices that share a batch.
    parts: how many devices' shares of a batch one call of a step sees; here all of them.
  """

  axis_name: str | None = None

  def __init__(self, devices: Sequence[jax.Device] | None = None):
    """Args: devices: this process's devices by default."""
    devices = jax.local_devices() if devices is None else devices
    self.num_devices = self.parts = len(devices)
    self._mesh = jax.make_mesh(
      (len(devices),), ('data',), devices=devices, axis_types=(AxisType.Auto,)
    )
    self._shardings = {
      BATCH: NamedSharding(self._mesh, PartitionSpec('data')),
      REPLICATED: NamedSharding(self._mesh, PartitionSpec()),
    }

  def compile(
    self, step: Callable, inputs: Sequence[str], outputs: Any, donate: Sequence[int] = ()
  ) -> Callable:
    """Compiles a step.

    Args:
      step: a pure function of positional pytrees; batched ones have the batch as leading axis.
      inputs: 'batch' or 'replicated' for each argument.
      outputs: 'batch' or 'replicated', one for each output (a pytree prefix of them).
      donate: positions of arguments whose memory the outputs may reuse.

    Returns:
      The compiled function; its arguments come from `put_batch` and `replicate`.
    """
    return jax.jit(
      step,
      in_shardings=tuple(self._shardings[kind] for kind in inputs),
      out_shardings=jax.tree.map(self._shardings.__getitem__, outputs),
      donate_argnums=tuple(donate),
    )

  def sequential(self, function: Callable, rows: Mapping[str, jax.Array], view: Any) -> Any:
    """Returns `function(row, view)` of row after row, inside a step; each device has its own rows.

    See `map_rows`. Nothing that is traced may reach the function but by its arguments. Choices
    that a row makes are then choices, where vmap would compute all branches.
    """
    each = jax.shard_map(
      functools.partial(map_rows, function),
      mesh=self._mesh,
      in_specs=(PartitionSpec('data'), PartitionSpec()),
      out_specs=PartitionSpec('data'),
      check_vma=False,
    )
    return each(dict(rows), view)

  def put_batch(self, tree: Any) -> Any:
    """Splits the leading axis of every array (a multiple of `num_devices`) over the devices."""
    return jax.device_put(tree, self._shardings[BATCH])

  def replicate(self, tree: Any) -> Any:
    """Copies every array to each device."""
    return jax.device_put(tree, self._shardings[REPLICATED])

  def gather(self, tree: Any) -> Any:
    """Returns batched outputs as numpy arrays with the batch as leading axis."""
    return jax.tree.map(np.asarray, tree)

  def unreplicate(self, tree: Any) -> Any:
    """Returns replicated outputs as single arrays, without a copy to the host."""
    return tree
