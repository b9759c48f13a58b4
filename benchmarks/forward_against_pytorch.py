"""Forward throughput of each architecture ÷ PyTorch's, in float32, random weights.

python -m benchmarks.forward_against_pytorch
python -m benchmarks.forward_against_pytorch --networks vit_b16 bit_r101x3 --images 2

Ours is one jit over all devices (one a core on a CPU); PyTorch gets all cores and the better of its
two memory formats. Both get the same batch, of `--images` pictures of the architecture's size, and
take turns. The second table gives import time and peak memory, each in a process of its own, the
memory from a file with PyTorch's weights of the largest network to its prediction of one picture;
`--largest ''` leaves it out.
On a machine with other work,
`taskset -c 0 python -m benchmarks.forward_against_pytorch --clock processor` compares the seconds
that one core computes.

Peers are those of `tests.models.peer_networks`: timm's networks, torchvision's SqueezeNets and
VGGs, open_clip's image towers with a linear head (extra `parity`), and CIFAR ResNets written in
PyTorch for the tests; `small_cnn` has no peer and is left out.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import subject, timing
from robustness import parallel
from robustness.models import catalog
from robustness.parallel.mesh import BATCH, REPLICATED

NETWORKS = tuple(catalog.ARCHITECTURES)
LARGEST = 'bit_r101x3'


def peer(name: str) -> Any | None:
  """Returns the PyTorch network of an architecture in evaluation mode, or None without one."""
  from tests.models.peer_networks import PEERS

  if name not in PEERS:
    return None
  height = catalog.get(name).input_shape[0]
  return PEERS[name].build(len(subject.CLASSES), height).eval()


def ours(name: str, images: np.ndarray, file: str = '') -> Callable[[], object]:
  """Returns a forward pass of our network on all devices, with the weights of a file or random."""
  network = subject.classifier(name, file)
  devices = parallel.create('jit', len(images))
  predict = devices.compile(
    lambda variables, batch: network.forward(variables, batch, ())[0], (REPLICATED, BATCH), BATCH
  )
  variables, batch = devices.replicate(network.variables), devices.put_batch(images)
  return lambda: jax.block_until_ready(predict(variables, batch))


def theirs(network: Any, images: np.ndarray, channels_last: bool) -> Callable[[], object]:
  """Returns a forward pass of PyTorch's network in a memory format."""
  import torch

  layout = torch.channels_last if channels_last else torch.contiguous_format
  batch = torch.from_numpy(images.transpose(0, 3, 1, 2).copy()).contiguous(memory_format=layout)

  def call() -> object:
    with torch.inference_mode():
      return network.to(memory_format=layout)(batch)

  return call


def measure(
  name: str, count: int, rounds: int, clock: timing.Clock = timing.CLOCKS['wall']
) -> list[object] | None:
  """Returns the row of an architecture, or None if it has no peer."""
  network = peer(name)
  if network is None:
    return None
  shape = catalog.get(name).input_shape
  images = np.random.default_rng(0).random((count, *shape), np.float32)
  ways = {
    label: (theirs(network, images, last), count)
    for label, last in (('contiguous', False), ('channels last', True))
  }
  best = timing.fastest(ways, 1, clock)
  timings = timing.alternate({'ours': (ours(name, images), count), best: ways[best]}, rounds, clock)
  return [
    name,
    f'{timings.rate("ours"):.3g}',
    f'{timings.rate(best):.3g}',
    best,
    timing.describe_ratio(timings.ratio('ours', best)),
  ]


def in_process(code: str) -> tuple[float, float]:
  """Returns what code in a new process prints last: seconds of its own and peak MB."""
  begin = 'import time; start = time.perf_counter()\n'
  end = (
    '\nstatus = open("/proc/self/status").read()\n'  # a new program's own peak, unlike rusage
    'print(time.perf_counter() - start, int(status.split("VmHWM:")[1].split()[0]) / 1024)'
  )
  answer = subprocess.run(
    [sys.executable, '-c', begin + code + end], capture_output=True, text=True, check=True
  )
  taken, peak = answer.stdout.split()[-2:]
  return float(taken), float(peak)


def footprint(largest: str) -> list[list[object]]:
  """Returns the rows of the second table: ours, PyTorch's and their ratio."""
  here = 'from benchmarks import forward_against_pytorch as b; import numpy as np\n'
  images = f'images = np.zeros((1, *b.catalog.get({largest!r}).input_shape), np.float32)\n'
  rows: list[list[object]] = []
  with tempfile.TemporaryDirectory() as folder:
    file = f'{folder}/weights.pt'
    network = f'import torch; network = b.peer({largest!r})\n'
    in_process(here + network + f'torch.save(network.state_dict(), {file!r})')
    read = f'network.load_state_dict(torch.load({file!r}, weights_only=True))\n'
    codes = {
      'import, s': (
        'from robustness.models import catalog, classifier, weights',
        "from tests.models.peers import peer; peer('timm')",
      ),
      f'peak memory of {largest}, MB': (
        here + images + f'b.ours({largest!r}, images, {file!r})()',
        here + images + network + read + 'b.theirs(network, images, False)()',
      ),
    }
    for what, pair in codes.items():
      own, other = (in_process(code)[0 if what.startswith('import') else 1] for code in pair)
      rows.append([what, f'{own:.4g}', f'{other:.4g}', f'{own / other:.3g}'])
  return rows


def main(arguments: Sequence[str] | None = None) -> None:
  parser = subject.options(__doc__, networks=NETWORKS, images=8, rounds=5, clock=True)
  parser.add_argument('--largest', default=LARGEST, help='whose peak memory is measured')
  given = parser.parse_args(arguments)
  row = functools.partial(
    measure, count=given.images, rounds=given.rounds, clock=timing.CLOCKS[given.clock]
  )
  timing.print_table(
    ('architecture', 'ours, images/s', 'PyTorch, images/s', "PyTorch's format", 'ratio'),
    filter(None, map(row, given.networks)),
  )
  if given.largest:
    print()
    timing.print_table(('', 'ours', 'PyTorch', 'ratio'), footprint(given.largest))


if __name__ == '__main__':
  subject.one_device_and_thread_a_core()
  main()
