"""Heat map ÷ loops over frequencies, in float32: in JAX, and in PyTorch as it is used and at best.

python -m benchmarks.heatmap_against_loops --weights FILE --data IMAGES.npz
python -m benchmarks.heatmap_against_loops --networks small_cnn resnet20 resnet56

All get the same weights, images, waves, clipping and signs and must give the same predictions. Ours
computes the distinct frequencies (514 of 32 × 32) and the clean view. The time of a whole map is
the time for each frequency of a few × their number. The goal is 2.

`loop`: all H × W frequencies, each added to every batch on the host, which is copied to the device
for one jitted forward pass; the best of several batch sizes.

PyTorch, for ResNets for CIFAR and where it is installed, takes the half-plane of H × (W / 2 + 1)
bases, and for each a fresh DataLoader pass: add the cosine wave with a random sign for each image
and channel, clip to [0, 1], normalise, predict.

`package`: as the public package does it, image by image in the data set's transform, with the
better of its batch size (512) and 128, in this process (on two cores workers only cost); without
the files that it reads anew for every basis. `best`: noise and normalisation a batch at a time, the
best of several batch sizes and of two memory formats.

What bounds the ratio to `best` on a CPU: both spend nearly all their time in the same convolutions,
so it is (544 / 515) × (our forward rate ÷ PyTorch's), and PyTorch's channels-last convolutions of
this network (oneDNN) are the faster ones on some processors. Symmetry alone gives 1.06. What
`package` loses beyond that it loses to Python, for every image of every basis.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from benchmarks import subject, timing
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.evaluation.runner import Evaluator
from robustness.fourier.basis import basis_image, distinct_frequencies
from robustness.models import catalog, weights
from robustness.models.state_dict import read_arrays
from robustness.studies.fourier_heatmap import FourierHeatmap

try:
  import torch
  from torch.utils.data import DataLoader, TensorDataset

  from benchmarks.torch_networks import ResNet
except ImportError:
  torch = None  # type: ignore[assignment]

NETWORK, NETWORKS = 'resnet20', ('small_cnn', 'resnet20')
SIZES = (64, 128, 256, 500)
PACKAGE_SIZES = (128, 512)
TOLERATED = 0.002
"""Share of predictions that may differ: two ways of rounding turn a tie the other way."""


Predict = Callable[[Any, jax.Array], jax.Array]


def draw_signs(evaluator: Evaluator, rows: ArrayRows) -> np.ndarray:
  """Returns the signs r that the heat map draws, float32 [views, rows, channels]."""
  ids = np.arange(rows.num_examples)

  def draw(view_id: jax.Array, example_id: jax.Array) -> jax.Array:
    key = random_keys.for_example(evaluator.key, example_id, view_id)
    return jax.random.rademacher(key, (rows.image_shape[2],), np.float32)

  return np.asarray(
    jax.vmap(jax.vmap(draw, (None, 0)), (0, None))(
      jnp.asarray(evaluator.views.ids), jnp.asarray(ids)
    )
  )


def waves(runner: Evaluator, rows: ArrayRows) -> np.ndarray:
  """Returns v × U of all views but the clean one, [bases, H, W]."""
  parameters = runner.views.parameters
  frequencies = zip(*(parameters[name][1:] for name in ('norm', 'fy', 'fx')), strict=True)
  shape = rows.image_shape[:2]
  return np.stack([v * np.asarray(basis_image(y, x, *shape, 'cosine')) for v, y, x in frequencies])


def loop(
  runner: Evaluator, rows: ArrayRows, signs: np.ndarray, predict: Predict, batch_size: int
) -> np.ndarray:
  """Returns predictions [rows, bases], a batch and a frequency at a time."""
  variables, answers = jax.device_put(runner.classifier.variables), []
  parts = [slice(at, at + batch_size) for at in range(0, rows.num_examples, batch_size)]
  for noise, own in zip(waves(runner, rows)[..., None], signs[1:], strict=True):
    shown = (np.clip(rows.images[p] + noise * own[p][:, None, None, :], 0, 1) for p in parts)
    answers.append([np.asarray(predict(variables, jax.device_put(x))) for x in shown])
  return np.stack([np.concatenate(own) for own in answers], 1)


def heat_map(evaluator: Evaluator, rows: ArrayRows) -> np.ndarray:
  """Returns the heat map's predictions [rows, frequencies], the clean view left out."""
  layout = evaluator.layout(rows.num_examples)
  predictions = np.zeros((layout.num_rows, layout.num_views), np.int32)
  for _, _, shard in evaluator.shards(rows, layout):
    predictions[shard.rows, shard.views] = shard['prediction']
  return predictions[:, 1:]


def check(predicted: np.ndarray, expected: np.ndarray, labels: np.ndarray) -> float:
  """Returns the largest difference of an error; refuses predictions that are not the same.

  Raises:
    AssertionError: more than a share `TOLERATED` of the predictions differ.
  """
  share = float((predicted != expected).mean())
  if share > TOLERATED:
    raise AssertionError(f'{share:.2%} of the predictions differ')
  errors = [(predictions != labels[:, None]).mean(0) for predictions in (predicted, expected)]
  return float(np.abs(errors[0] - errors[1]).max())


def networks(file: str, name: str = NETWORK) -> tuple[Any, Any]:
  """Returns a network in PyTorch and in JAX with the weights of a file, or with random ones."""
  network = ResNet(int(name.removeprefix('resnet'))).eval()
  if not file:
    file = os.path.join(tempfile.mkdtemp(), 'random.pth')
    torch.save(network.state_dict(), file)
  variables = weights.load(file, catalog.get(name))  # refuses what does not fit
  tensors = {name: torch.from_numpy(np.array(value)) for name, value in read_arrays(file).items()}
  network.load_state_dict(tensors, strict=False)  # counters of batches may be missing
  return network, subject.classifier(name, variables=variables)


def torch_map(
  network: Any, runner: Evaluator, rows: ArrayRows, signs: np.ndarray
) -> Callable[..., np.ndarray]:
  """Returns the loop over bases in PyTorch, which gives predictions [rows, bases].

  Args:
    network: takes normalised images [B, C, H, W].
    runner, rows: of the heat map.
    signs: of its views and rows, see `draw_signs`.
  """
  architecture = catalog.get(runner.classifier.name)
  mean, std = (torch.tensor(x)[:, None, None] for x in (architecture.mean, architecture.std))
  images = torch.from_numpy(rows.images.transpose(0, 3, 1, 2).copy())
  labels, pictures = torch.from_numpy(rows.labels), np.round(rows.images * 255).astype(np.uint8)
  bases = torch.from_numpy(waves(runner, rows)), torch.from_numpy(signs[1:].copy())

  def predict(batch_size: int, channels_last: bool = False, by_image: bool = False) -> np.ndarray:
    """With `by_image` the work on an image is done in the data set, one image at a time."""
    layout, answers = torch.channels_last if channels_last else torch.contiguous_format, []
    formatted = network.to(memory_format=layout)

    def shown(wave: Any, own: Any) -> Iterator[Any]:
      if by_image:
        data = Transformed(pictures, labels, wave, own, mean, std)
        yield from (batch for batch, _ in DataLoader(data, batch_size))
        return
      for batch, _, sign in DataLoader(TensorDataset(images, labels, own), batch_size):
        noisy = (batch + wave * sign[:, :, None, None]).clamp(0, 1)
        yield ((noisy - mean) / std).contiguous(memory_format=layout)

    with torch.inference_mode():
      for pair in zip(*bases, strict=True):
        answers.append(np.concatenate([formatted(x).argmax(1).numpy() for x in shown(*pair)]))
    return np.stack(answers, 1)

  return predict


@dataclasses.dataclass(frozen=True)
class Transformed:
  """A data set of uint8 pictures [N, H, W, C] with the transforms: to a tensor, noise (a wave
  [H, W] times signs [N, C]), clip, normalise."""

  pictures: np.ndarray
  labels: Any
  wave: Any
  signs: Any
  mean: Any
  std: Any

  def __len__(self) -> int:
    return len(self.pictures)

  def __getitem__(self, index: int) -> tuple[Any, Any]:
    picture = Image.fromarray(self.pictures[index])
    image = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous().float().div(255)
    noise = self.wave[None].repeat(len(image), 1, 1)
    for channel, sign in enumerate(self.signs[index]):
      noise[channel] *= sign
    shown = torch.clamp(image + noise, 0.0, 1.0)
    return shown.sub(self.mean).div(self.std), self.labels[index]


def measure(name: str, given: argparse.Namespace) -> list[list[object]]:
  """Returns the rows of one network."""
  with_torch = torch is not None and name in subject.CIFAR_RESNETS
  if with_torch:
    torch_network, network = networks(given.weights, name)
  else:
    network = subject.classifier(name, given.weights)
  rows = subject.rows(network.input_shape, given.images, given.data)
  runner = subject.evaluator(network, FourierHeatmap(phase='cosine', clip=True), given.frequencies)
  signs, timed = draw_signs(runner, rows), len(runner.views) - 1
  predict = jax.jit(lambda variables, x: network.forward(variables, x, ())[0].argmax(-1))
  groups: list[dict[str, subject.Candidate]] = [
    {
      f'loop: {size}': (functools.partial(loop, runner, rows, signs, predict, size), timed)
      for size in given.sizes
    }
  ]
  if with_torch:
    theirs = torch_map(torch_network, runner, rows, signs)
    groups += [
      {
        f'package: {size}': (functools.partial(theirs, size, by_image=True), timed)
        for size in PACKAGE_SIZES
      },
      {
        f'best: {size}{", channels last" if last else ""}': (
          functools.partial(theirs, size, last),
          timed,
        )
        for size, last in itertools.product(given.sizes, (False, True))
      },
    ]
  ways = {name: group[name] for group in groups for name in [timing.fastest(group, 1)]}
  timings = timing.alternate(
    {**ways, 'ours': (subject.written(runner, rows)[0], timed + 1)}, given.rounds
  )
  height, width, _ = rows.image_shape
  views = len(distinct_frequencies(height, width)) + 1
  table: list[list[object]] = []
  ours = heat_map(runner, rows)
  for way, (predicted, _) in ways.items():
    bases = height * (width if way.startswith('loop') else width // 2 + 1)
    ratio = timings.ratio('ours', way)
    difference = check(ours, predicted(), rows.labels)
    table.append(
      [
        name,
        way,
        f'{bases / timings.rate(way):.0f}',
        f'{views / timings.rate("ours"):.0f}',
        timing.describe_ratio(timing.scaled(ratio, bases / views)),
        timing.describe_ratio(ratio),
        f'{difference:.4f}',
      ]
    )
  return table


def main(arguments: Sequence[str] | None = None) -> None:
  parser = subject.options(__doc__, networks=NETWORKS, images=1000, frequencies=4, rounds=5)
  parser.add_argument('--sizes', type=int, nargs='+', default=list(SIZES), help="loops' batches")
  given = parser.parse_args(arguments)
  timing.print_table(
    (
      'network',
      'loop: batch',
      'loop, s a map',
      'heat map, s a map',
      'ratio, whole map',
      'ratio, each frequency',
      'largest difference of an error',
    ),
    [row for name in given.networks for row in measure(name, given)],
  )


if __name__ == '__main__':
  subject.one_device_and_thread_a_core()
  main()
