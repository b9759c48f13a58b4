"""Heat map ÷ loops over frequencies, in float32, in JAX and in PyTorch.

python -m benchmarks.heatmap_against_loops --weights FILE --data IMAGES.npz
python -m benchmarks.heatmap_against_loops --networks small_cnn resnet20 resnet56

All use the same weights, images, waves, clipping and signs and must make the same predictions. Ours
computes the distinct frequencies (514 of 32 × 32) and the clean view. The time of a whole map is
the time for each frequency of a few × their number. The goal is 2.

`loop`: all H × W frequencies, each added to every batch on the host, which is copied to the device
for one jitted forward pass; the best of several batch sizes.

PyTorch, for ResNets for CIFAR and where it is installed, takes the half-plane of H × (W / 2 + 1)
bases, and for each a fresh DataLoader pass: add the cosine wave with a random sign for each image
and channel, clip to [0, 1], normalise, predict.

`torch`: noise and normalisation a batch at a time, the best of several batch sizes and of two
memory formats.

On a CPU both spend nearly all their time in the same convolutions, so the ratio to `torch` is
(544 / 515) × (our forward rate ÷ PyTorch's), and PyTorch's channels-last convolutions of this
network (oneDNN) are the faster ones on some processors. Symmetry alone is a factor of 1.06.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
TOLERATED = 0.002
"""Share of predictions that may differ, because rounding decides ties."""


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
  for noise, sign in zip(waves(runner, rows)[..., None], signs[1:], strict=True):
    noisy = (np.clip(rows.images[p] + noise * sign[p][:, None, None, :], 0, 1) for p in parts)
    answers.append([np.asarray(predict(variables, jax.device_put(x))) for x in noisy])
  return np.stack([np.concatenate(batches) for batches in answers], 1)


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
  """Returns the loop over bases in PyTorch, which returns predictions [rows, bases].

  Args:
    network: takes normalised images [B, C, H, W].
    runner, rows: of the heat map.
    signs: of its views and rows, see `draw_signs`.
  """
  architecture = catalog.get(runner.classifier.name)
  mean, std = (torch.tensor(x)[:, None, None] for x in (architecture.mean, architecture.std))
  images = torch.from_numpy(rows.images.transpose(0, 3, 1, 2).copy())
  bases = torch.from_numpy(waves(runner, rows)), torch.from_numpy(signs[1:].copy())

  def predict(batch_size: int, channels_last: bool) -> np.ndarray:
    layout, answers = torch.channels_last if channels_last else torch.contiguous_format, []
    formatted = network.to(memory_format=layout)

    def noisy_batches(wave: Any, signs: Any) -> Iterator[Any]:
      for batch, sign in DataLoader(TensorDataset(images, signs), batch_size):
        noisy = (batch + wave * sign[:, :, None, None]).clamp(0, 1)
        yield ((noisy - mean) / std).contiguous(memory_format=layout)

    with torch.inference_mode():
      for pair in zip(*bases, strict=True):
        batches = noisy_batches(*pair)
        answers.append(np.concatenate([formatted(x).argmax(1).numpy() for x in batches]))
    return np.stack(answers, 1)

  return predict


def measure(name: str, args: argparse.Namespace) -> list[list[object]]:
  """Returns the rows of one network."""
  with_torch = torch is not None and name in subject.CIFAR_RESNETS
  if with_torch:
    torch_network, network = networks(args.weights, name)
  else:
    network = subject.classifier(name, args.weights)
  rows = subject.rows(network.input_shape, args.images, args.data)
  runner = subject.evaluator(network, FourierHeatmap(phase='cosine', clip=True), args.frequencies)
  signs, timed = draw_signs(runner, rows), len(runner.views) - 1
  predict = jax.jit(lambda variables, x: network.forward(variables, x, ())[0].argmax(-1))
  groups: list[dict[str, subject.Candidate]] = [
    {
      f'loop: {size}': (functools.partial(loop, runner, rows, signs, predict, size), timed)
      for size in args.sizes
    }
  ]
  if with_torch:
    theirs = torch_map(torch_network, runner, rows, signs)
    groups += [
      {
        f'torch: {size}{", channels last" if last else ""}': (
          functools.partial(theirs, size, last),
          timed,
        )
        for size, last in itertools.product(args.sizes, (False, True))
      }
    ]
  peers = {name: group[name] for group in groups for name in [timing.fastest(group, 1)]}
  timings = timing.alternate(
    {**peers, 'ours': (subject.written(runner, rows)[0], timed + 1)}, args.rounds
  )
  height, width, _ = rows.image_shape
  views = len(distinct_frequencies(height, width)) + 1
  table: list[list[object]] = []
  ours = heat_map(runner, rows)
  for peer, (predicted, _) in peers.items():
    bases = height * (width if peer.startswith('loop') else width // 2 + 1)
    ratio = timings.ratio('ours', peer)
    difference = check(ours, predicted(), rows.labels)
    table.append(
      [
        name,
        peer,
        f'{bases / timings.rate(peer):.0f}',
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
  args = parser.parse_args(arguments)
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
    [row for name in args.networks for row in measure(name, args)],
  )


if __name__ == '__main__':
  subject.one_device_and_thread_a_core()
  main()
