"""Computes the differences of a network and its peer of another library, with the same weights.

    python -m tests.models.catalog_parity            # all architectures: the table of the docs
    python -m tests.models.catalog_parity resnet18   # these architectures

A difference is the largest absolute one of any value, divided by the largest absolute value.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator, Sequence

import flax.traverse_util
import jax
import numpy as np
import torch
from jax.typing import DTypeLike

from robustness.core.typing import Variables
from robustness.models import catalog
from robustness.models.architecture import Architecture
from robustness.models.naming import Scheme
from tests.models import parity
from tests.models.peer_networks import PEERS, PeerNetwork
from tests.networks import imported

CLASSES = 10
IMAGES = 4
DAMPING = 0.25
STATISTICS = 'batch_stats'
AMPLIFYING = 'efficientnetv2'
"""Prefix of the networks that amplify a rounding by more than 1e5 in evaluation too: they have 40
residual branches, with gates that depend on the whole image."""


@dataclasses.dataclass(frozen=True)
class Pair:
  """An architecture and its peer with the same weights; `scheme` is how the peer names them."""

  architecture: Architecture
  peer: PeerNetwork
  network: torch.nn.Module
  scheme: Scheme
  variables: Variables
  images: np.ndarray

  @classmethod
  def make(cls, name: str, count: int = IMAGES, damped: bool = False) -> Pair:
    """Returns a pair with random values in every array.

    With `damped`, and if `AMPLIFYING`, residual branches end with a quarter of their scales. Deep
    networks with undamped random branches amplify a rounding in training mode by more than a
    thousand.
    """
    architecture, peer = catalog.get(name), PEERS[name]
    damped = damped or name.startswith(AMPLIFYING)
    network = parity.randomise(peer.build(CLASSES, peer.size[0]))
    arrays, images = parity.arrays(network), parity.images(count, *peer.size, 3)
    if damped:
      ends = [key for key in arrays if peer.branch_ends and re.fullmatch(peer.branch_ends, key)]
      arrays.update({key: arrays[key] * np.float32(DAMPING) for key in ends})
      network.load_state_dict({key: torch.from_numpy(value) for key, value in arrays.items()})
    variables = imported(architecture, arrays, CLASSES, images.shape[1:])
    shapes = architecture.shapes(CLASSES, images.shape[1:])
    scheme = next(s for s in architecture.schemes if s.shapes(shapes).keys() <= arrays.keys())
    return cls(architecture, peer, network, scheme, variables, images)

  def theirs(self, dtype: torch.dtype) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns the peer's logits and statistics after a pass in training mode.

    The statistics are by our names of them, and the variances are divided by n, as ours.
    """
    network = self.network.to(dtype).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    counts: dict[str, int] = {}  # batch × height × width of each batch norm
    for name, module in network.named_modules():
      if isinstance(module, torch.nn.BatchNorm2d):
        module.register_forward_hook(
          lambda m, x, y, name=name: counts.update({name: x[0].numel() // x[0].shape[1]})
        )
    with torch.no_grad():
      logits = network(parity.torch_images(self.images).to(dtype)).numpy()
    after = parity.arrays(network)
    network.load_state_dict(before)
    statistics = {}
    for path in flax.traverse_util.flatten_dict(self.variables.get(STATISTICS, {})):
      (name,) = self.scheme.locate((STATISTICS, *path)).names
      value, keep = after[name], 1 - self.peer.momentum
      if path[-1] == 'var':  # PyTorch divides by n - 1, ours by n
        n, old = counts[name.rpartition('.')[0]], keep * before[name].numpy()
        value = old + (value - old) * ((n - 1) / n)
      statistics['/'.join(path)] = value
    return logits, statistics

  def ours(self, dtype: DTypeLike) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns our logits and our statistics after a pass in training mode."""
    module = self.architecture.build(CLASSES, dtype)
    variables = jax.tree.map(lambda value: value.astype(dtype), dict(self.variables))
    step = jax.jit(lambda v, x: module.apply(v, x, train=True, mutable=[STATISTICS]))
    logits, updated = step(variables, self.images.astype(dtype))
    flat = flax.traverse_util.flatten_dict(updated.get(STATISTICS, {}), sep='/')
    return np.asarray(logits), {name: np.asarray(value) for name, value in flat.items()}


def evaluation(pair: Pair) -> dict[str, float]:
  """Returns the differences of logits and of the layers that both have, in evaluation mode."""
  ours = pair.architecture, pair.variables
  return parity.differences(*ours, pair.network, pair.images, pair.peer.layers)


def training(pair: Pair, double: bool) -> dict[str, float]:
  """Returns the differences of logits and running statistics after one forward pass in training
  mode, in float64 or in float32."""
  theirs, their_statistics = pair.theirs(torch.float64 if double else torch.float32)
  with jax.enable_x64(double):
    ours, statistics = pair.ours(np.float64 if double else np.float32)
  assert ours.dtype == theirs.dtype
  assert statistics.keys() == their_statistics.keys()
  pairs = {'logits': (ours, theirs)}
  pairs |= {name: (value, their_statistics[name]) for name, value in statistics.items()}
  return {name: parity.difference(*pair) for name, pair in pairs.items()}


def has_statistics(name: str) -> bool:
  """Whether an architecture has batch norm."""
  return any(path[0] == STATISTICS for path in catalog.get(name).shapes(CLASSES))


def rows(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
  """Yields a line of the table for each architecture."""
  for name in names:
    if name not in PEERS:
      yield (name, 'none', *['–'] * 4)
      continue
    pair = Pair.make(name)
    differences = evaluation(pair)
    layers = [value for key, value in differences.items() if key != 'logits']
    trained = ['–', '–']
    if has_statistics(name):
      damped = Pair.make(name, 2 * IMAGES, damped=True)
      settings = (pair, True), (damped, False)  # a pair, and whether to compute in float64
      trained = [f'{max(training(*arguments).values()):.1e}' for arguments in settings]
    of_layers = f'{max(layers):.1e} ({len(layers)})' if layers else '–'
    yield (name, PEERS[name].library, f'{differences["logits"]:.1e}', of_layers, *trained)


if __name__ == '__main__':
  print(
    '| architecture | peer | logits | layers (how many) | training, float64 | training, '
    'float32 |\n|---|---|---|---|---|---|'
  )
  for row in rows(sys.argv[1:] or list(catalog.ARCHITECTURES)):
    print(f'| {" | ".join(row)} |', flush=True)
