"""Forward throughput of each architecture ÷ PyTorch's, in float32, random weights.

python -m benchmarks.forward_against_pytorch
python -m benchmarks.forward_against_pytorch --networks vit_b16 bit_r101x3 --images 2

Ours is one jit over all devices (one a core on a CPU); PyTorch gets all cores and the better of its
two memory formats. Both get the same batch, of `--images` pictures of the architecture's size, and
take turns. On a machine with other work,
`taskset -c 0 python -m benchmarks.forward_against_pytorch --clock processor` compares the seconds
that one core computes.

The peers are in `tests.models.peer_networks`: timm's networks, torchvision's SqueezeNets and
VGGs, open_clip's image towers with a linear head (extra `parity`), and CIFAR ResNets written in
PyTorch for the tests; `small_cnn` has no peer and is left out.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import subject, timing
from robustness import parallel
from robustness.models import catalog
from robustness.parallel.mesh import BATCH, REPLICATED

NETWORKS = tuple(catalog.ARCHITECTURES)


def peer(name: str) -> Any | None:
  """Returns PyTorch's network for architecture `name`, in evaluation mode, or None without one."""
  from tests.models.peer_networks import PEERS

  if name not in PEERS:
    return None
  height = catalog.get(name).input_shape[0]
  return PEERS[name].build(len(subject.CLASSES), height).eval()


def ours(name: str, images: np.ndarray) -> Callable[[], object]:
  """Returns a function that applies our network `name` to `images`, on all devices.

  Weights are random.
  """
  network = subject.classifier(name)
  devices = parallel.create('jit', len(images))
  predict = devices.compile(
    lambda variables, batch: network.forward(variables, batch, ())[0], (REPLICATED, BATCH), BATCH
  )
  variables, batch = devices.replicate(network.variables), devices.put_batch(images)
  return lambda: jax.block_until_ready(predict(variables, batch))


def theirs(network: Any, images: np.ndarray, channels_last: bool) -> Callable[[], object]:
  """Returns a function that applies a PyTorch network to `images`, in a memory format."""
  import torch

  layout = torch.channels_last if channels_last else torch.contiguous_format
  batch = torch.from_numpy(images.transpose(0, 3, 1, 2).copy()).contiguous(memory_format=layout)

  def call() -> object:
    with torch.inference_mode():
      return network.to(memory_format=layout)(batch)

  return call


def measure(
  name: str, count: int, rounds: int, clock: timing.Clock = timing.CLOCKS['wall']
) -> dict[str, str] | None:
  """Returns an architecture's row of the table, or None if PyTorch's peer networks lack it.

  The row has the name, the rates of JAX and PyTorch in images per second, PyTorch's faster memory
  format and the ratio of the rates.
  """
  network = peer(name)
  if network is None:
    return None
  shape = catalog.get(name).input_shape
  images = np.random.default_rng(0).random((count, *shape), np.float32)
  formats = {
    label: (theirs(network, images, channels_last), count)
    for label, channels_last in (('contiguous', False), ('channels last', True))
  }
  best = timing.fastest(formats, 1, clock)
  timings = timing.alternate(
    {'ours': (ours(name, images), count), best: formats[best]}, rounds, clock
  )
  return {
    'architecture': name,
    'ours, images/s': f'{timings.rate("ours"):.3g}',
    'PyTorch, images/s': f'{timings.rate(best):.3g}',
    "PyTorch's format": best,
    'ratio': timing.describe_ratio(timings.ratio('ours', best)),
  }


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the rates of forward passes here and in PyTorch, for architectures that PyTorch has."""
  parser = subject.options(__doc__, networks=NETWORKS, images=8, rounds=5, clock=True)
  args = parser.parse_args(arguments)
  row = functools.partial(
    measure, count=args.images, rounds=args.rounds, clock=timing.CLOCKS[args.clock]
  )
  timing.print_table(filter(None, map(row, args.networks)))  # those that PyTorch has


if __name__ == '__main__':
  subject.one_device_and_thread_a_core()
  main()
