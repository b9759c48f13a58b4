"""Heat map ÷ PyTorch doing what the public PyTorch package does, ResNet-20 in float32.

python -m benchmarks.heatmap_against_pytorch --weights FILE --data IMAGES.npz

PyTorch takes the half-plane of H × (W / 2 + 1) bases (544 for 32 × 32), and for each a fresh
DataLoader pass: add the cosine wave with a random sign for each image and channel, clip to [0, 1],
normalise, predict. It gets all cores, the best of several batch sizes and of two memory formats,
and adds the noise to a batch at a time (the package does it image by image). Ours computes the 514
distinct frequencies and the clean view. Both get the same weights, images, waves, clipping and
signs and must give the same predictions. The time of a whole map is the time for each frequency of
a few × their number.

What bounds the ratio on a CPU: both spend nearly all their time in the same convolutions, so it is
(544 / 515) × (our forward rate ÷ PyTorch's). Symmetry alone gives 1.06; the rest must come from the
layout of devices and batches (one device a core), batch norm folded into the convolutions, and what
the DataLoader costs.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import subject, timing
from benchmarks.heatmap_against_loop import check, draw_signs, heat_map
from robustness.fourier.basis import basis_image, distinct_frequencies
from robustness.models import catalog, weights
from robustness.models.state_dict import read_state_dict
from robustness.rows import ArrayRows
from robustness.runner import Evaluator
from robustness.studies.fourier_heatmap import Study

try:
  import torch
  from torch.utils.data import DataLoader, TensorDataset

  from benchmarks.torch_resnet import ResNet
except ImportError:
  torch = None  # type: ignore[assignment]

NETWORK = 'resnet20'
SIZES = (64, 128, 256, 500)


def networks(file: str) -> tuple[Any, Any]:
  """Returns the network in PyTorch and in JAX with the weights of a file, or with random ones."""
  network = ResNet().eval()
  own = {name: value.numpy() for name, value in network.state_dict().items()}
  state = read_state_dict(file) if file else own
  variables = weights.import_variables(catalog.get(NETWORK), state)  # refuses what does not fit
  tensors = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
  network.load_state_dict(tensors, strict=False)  # counters of batches may be missing
  return network, subject.classifier(NETWORK, variables=variables)


class TorchHeatMap:
  """The loop over bases in PyTorch.

  Attributes:
    network: takes normalised images [B, C, H, W].
    images, labels: the data.
    noise: v × U × r is made of waves [bases, H, W] (times v) and signs [bases, N, C].
  """

  def __init__(self, network: Any, one: Evaluator, rows: ArrayRows, signs: np.ndarray) -> None:
    """Makes tensors of the data and of the waves of all views but the clean one."""
    architecture, parameters = catalog.get(NETWORK), one.views.parameters
    self.network = network
    self.images = torch.from_numpy(rows.images.transpose(0, 3, 1, 2).copy())
    self.labels = torch.from_numpy(rows.labels)
    self.mean, self.std = (torch.tensor(value)[None, :, None, None]
                           for value in (architecture.mean, architecture.std))
    waves = [parameters['norm'][v] * np.asarray(basis_image(
        parameters['fy'][v], parameters['fx'][v], *rows.image_shape[:2], 'cosine'))
        for v in range(1, len(one.views))]
    self.waves, self.signs = torch.from_numpy(np.stack(waves)), torch.from_numpy(signs[1:].copy())

  def run(self, batch_size: int, channels_last: bool) -> np.ndarray:
    """Returns predictions [rows, bases]."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    network = self.network.to(memory_format=layout)
    with torch.inference_mode():
      return np.stack([self._one_basis(network, wave, signs, batch_size, layout)
                       for wave, signs in zip(self.waves, self.signs, strict=True)], 1)

  def _one_basis(self, network: Any, wave: Any, signs: Any, batch_size: int, layout: Any
                 ) -> np.ndarray:
    answers = []
    for images, _, sign in DataLoader(TensorDataset(self.images, self.labels, signs), batch_size):
      shown = (images + wave * sign[:, :, None, None]).clamp(0, 1)
      normalised = ((shown - self.mean) / self.std).contiguous(memory_format=layout)
      answers.append(network(normalised).argmax(1).numpy())
    return np.concatenate(answers)


def measure(file: str, data: str, images: int, frequencies: int, rounds: int, sizes: Sequence[int]
            ) -> list[object]:
  """Returns the only row of the table."""
  torch_network, network = networks(file)
  rows = subject.rows(network.input_shape, images, data)
  one = subject.evaluator(network, Study(phase='cosine', clip=True), frequencies)
  theirs = TorchHeatMap(torch_network, one, rows, draw_signs(one, rows))
  timed = len(one.views) - 1
  ways = {f'{size}{", channels last" if last else ""}': (
      functools.partial(theirs.run, size, last), timed)
      for size, last in itertools.product(sizes, (False, True))}
  best = timing.fastest(ways, 1)
  expected = theirs.run(int(best.split(',')[0]), 'last' in best)
  difference = check(heat_map(one, rows), expected, rows.labels)
  timings = timing.alternate(
      {'torch': ways[best], 'ours': (subject.written(one, rows)[0], timed + 1)}, rounds)
  height, width, _ = rows.image_shape
  bases, views = height * (width // 2 + 1), len(distinct_frequencies(height, width)) + 1
  ratio = timings.ratio('ours', 'torch')
  return [best, f'{bases / timings.rate("torch"):.0f}', f'{views / timings.rate("ours"):.0f}',
          timing.describe_ratio(timing.scaled(ratio, bases / views)),
          timing.describe_ratio(ratio), f'{difference:.4f}']


def main(arguments: Sequence[str] | None = None) -> None:
  parser = subject.options(__doc__, networks=(NETWORK,), images=1000, frequencies=4, rounds=5)
  parser.add_argument('--sizes', type=int, nargs='+', default=list(SIZES), help="PyTorch's batches")
  given = parser.parse_args(arguments)
  if torch is None:
    print("skipped: needs PyTorch (pip install '.[torch]')")
    return
  timing.print_table(
      ("PyTorch's best batch", 'PyTorch, s a map', 'heat map, s a map', 'ratio, whole map',
       'ratio, each frequency', 'largest difference of an error'),
      [measure(given.weights, given.data, given.images, given.frequencies, given.rounds,
               given.sizes)])


if __name__ == '__main__':
  subject.one_device_a_core()
  if torch is not None:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
  main()
