"""AutoAugment on the device ÷ torchvision's, image by image with Pillow on one core.

  python -m benchmarks.auto_augment_against_torchvision
  taskset -c 0 python -m benchmarks.auto_augment_against_torchvision --clock processor

Both apply the same list with the same magnitudes to the same images; draws are each side's own.
On a CPU the device is all cores that the process may use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from benchmarks import subject, timing
from robustness import parallel
from robustness.augment.policy import Policy
from robustness.parallel.mesh import BATCH

LISTS = {'cifar10': 'CIFAR10', 'imagenet': 'IMAGENET'}


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table."""
  parser = timing.options(__doc__, rounds=7, clock=True)
  parser.add_argument('--sides', type=int, nargs='+', default=[32, 224])
  parser.add_argument('--images', type=int, default=512, help='fewer of large ones')
  given = parser.parse_args(arguments)
  rows = []
  for side in given.sides:
    count = max(8, given.images * 32 // max(32, side) // 8 * 8)
    images = pictures(side, count)
    for name in LISTS:
      candidates = {'device': device(name, images), 'torchvision': per_image(name, images)}
      timings = timing.alternate(candidates, given.rounds, timing.CLOCKS[given.clock])
      rows.append(
        (
          name,
          side,
          *(f'{1e6 / timings.rate(way):.4g}' for way in candidates),
          timing.describe_ratio(timings.ratio('device', 'torchvision')),
        )
      )
  timing.print_table(('list', 'side', 'device, µs', 'torchvision, µs', 'ratio (range)'), rows)


def pictures(side: int, count: int) -> np.ndarray:
  """Returns smooth noise in 8-bit levels, uint8 [count, side, side, 3]."""
  coarse = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
  return np.stack([np.asarray(Image.fromarray(c).resize((side, side))) for c in coarse])


def device(name: str, images: np.ndarray) -> subject.Candidate:
  """Returns the augmentation of a placed batch by a compiled function."""
  ways = parallel.create('jit', len(images))
  policy = Policy.of(auto_augment={'policy': name})
  apply: Callable[..., Any] = ways.compile(
    lambda rows, step: policy(rows, 0, step[0], ways)['image'], (BATCH, BATCH), BATCH
  )
  rows = ways.put_batch(
    {'image': images.astype(np.float32) / 255, 'example_id': np.arange(len(images))}
  )
  steps = iter(range(10**6))

  def call() -> None:
    step = ways.put_batch(jnp.full((len(images),), next(steps), jnp.int32))
    jax.block_until_ready(apply(rows, step))

  return call, len(images)


def per_image(name: str, images: np.ndarray) -> subject.Candidate:
  """Returns torchvision's augmentation of one Pillow image after another."""
  from tests.models.peers import peer

  peer('torchvision')
  import torch
  from torchvision.transforms import autoaugment

  torch.set_num_threads(1)
  transform = autoaugment.AutoAugment(autoaugment.AutoAugmentPolicy[LISTS[name]])
  opened = [Image.fromarray(image) for image in images]

  def call() -> None:
    for image in opened:
      transform(image)

  return call, len(images)


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
