"""How far our network and its peer of the catalogue lie apart, from the same random weights.

    python -m tests.models.catalog_parity            # all architectures: the table of the docs
    python -m tests.models.catalog_parity resnet18   # some

A difference is the largest of any value, divided by the largest value.
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
"""How names begin of networks whose undamped random branches, 40 of them with gates that depend on
the whole image, amplify a rounding by more than 1e5 in evaluation too."""


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
    given, images = parity.arrays(network), parity.images(count, *peer.size, 3)
    if damped:
      ends = [key for key in given if peer.branch_ends and re.fullmatch(peer.branch_ends, key)]
      given.update({key: given[key] * np.float32(DAMPING) for key in ends})
      network.load_state_dict({key: torch.from_numpy(value) for key, value in given.items()})
    variables = imported(architecture, given, CLASSES, images.shape[1:])
    shapes = architecture.shapes(CLASSES, images.shape[1:])
    scheme = next(s for s in architecture.schemes if s.shapes(shapes).keys() <= given.keys())
    return cls(architecture, peer, network, scheme, variables, images)

  def theirs(self, dtype: torch.dtype) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns the peer's logits, and our names of its arrays after a pass in training mode, var as
    ours is."""
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
  own, peer = (pair.architecture, pair.variables), (pair.network, pair.images, pair.peer.layers)
  return parity.differences(*own, *peer)


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
      trained = [f'{max(training(*how).values()):.1e}' for how in ((pair, True), (damped, False))]
    of_layers = f'{max(layers):.1e} ({len(layers)})' if layers else '–'
    yield (name, PEERS[name].library, f'{differences["logits"]:.1e}', of_layers, *trained)


if __name__ == '__main__':
  print(
    '| architecture | peer | logits | layers (how many) | training, float64 | training, '
    'float32 |\n|---|---|---|---|---|---|'
  )
  for row in rows(sys.argv[1:] or list(catalog.ARCHITECTURES)):
    print(f'| {" | ".join(row)} |', flush=True)
