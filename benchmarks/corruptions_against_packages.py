"""Milliseconds an image for each corruption: ours ÷ the packages', at one severity.

python -m benchmarks.corruptions_against_packages --side 224 --cores 1
python -m benchmarks.corruptions_against_packages --side 32 --cores 2 --packages imagecorruptions

Ours is one compiled function on one device a core; the packages get one process a core, each fed
image by image as they work. An asterisk marks what is another corruption under the same name (see
`corruption_peers.UNFAITHFUL`); the last column leaves those out. The last line is the sum of the
official 15 over what both sides have.

imagenet_c holds the released ImageNet-C functions; its motion blur and snow need the Python package
Wand and ImageMagick. It knows 224 pixels only.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import timing

PACKAGES = ('imagecorruptions', 'imagenet_c', 'torch_uncertainty')
State = dict[str, Any]
_worker: State = {}


def ours(name: str, images: np.ndarray, severity: int) -> Callable[[], object]:
  """Returns a call that corrupts the images with the compiled function, on all devices."""
  import jax

  from robustness import parallel
  from robustness.core.sequential import map_entries
  from robustness.corruptions import apply
  from robustness.parallel.mesh import BATCH, REPLICATED

  devices = parallel.create('pmap', len(images))
  apply_once = lambda key, image, level: apply(key, image, 0, level, names=(name,))  # noqa: E731

  def step(level: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(0), batch['number'])
    return map_entries(lambda key, image: apply_once(key, image, level), keys, batch['image'])

  compiled = devices.compile(step, (REPLICATED, BATCH), BATCH)
  batch = devices.put_batch(
    {'image': images.astype(np.float32) / 255, 'number': np.arange(len(images))}
  )
  level = devices.replicate(np.int32(severity))
  return lambda: jax.block_until_ready(compiled(level, batch))


def prepare(packages: Sequence[str], severity: int) -> None:
  """Loads packages in this process, which gets one thread."""
  import cv2

  from benchmarks import corruption_peers

  cv2.setNumThreads(0)
  for package in packages:
    loaded = corruption_peers.load(package)
    if package == 'torch_uncertainty':
      import torch

      torch.set_num_threads(1)
    _worker[package] = corruption_peers.corruptions(package, loaded, severity)


def make_pool(arguments: argparse.Namespace) -> Any:
  """Returns a pool of one process a core that have loaded the packages; None for one core."""
  if arguments.cores == 1:
    prepare(arguments.packages, arguments.severity)
    return None
  context = multiprocessing.get_context('spawn')
  return context.Pool(arguments.cores, prepare, (arguments.packages, arguments.severity))


def run(task: tuple[str, str, np.ndarray]) -> str:
  """Corrupts some images in this process; returns why it cannot, or ''."""
  package, name, images = task
  if name not in _worker[package]:
    return 'not there'
  try:
    for image in images:
      _worker[package][name](image)
  except Exception as error:  # a package may fail in any way; the table says that it did
    return f'{type(error).__name__}: {error}'
  return ''


def pin(cores: int) -> None:
  """Keeps this process and its children to some cores, one device and one thread a core.

  Where the system cannot bind a process to cores (macOS), only devices and threads are limited.
  """
  if hasattr(os, 'sched_setaffinity'):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
  import jax

  jax.config.update('jax_num_cpu_devices', cores)


def theirs(
  pool: Any, package: str, name: str, images: np.ndarray, cores: int
) -> tuple[Callable[[], object] | None, str]:
  """Returns a call that corrupts the images by a package, or None and why there is none."""
  parts = [(package, name, part) for part in np.array_split(images, cores)]
  reason = run((package, name, images[:1])) if pool is None else pool.map(run, parts[:1])[0]
  if reason:
    return None, reason
  return (lambda: run(parts[0])) if pool is None else (lambda: pool.map(run, parts, 1)), ''


def measure(
  name: str, images: np.ndarray, packages: Sequence[str], pool: Any, arguments: argparse.Namespace
) -> dict[str, float]:
  """Returns milliseconds an image of ours and of every package that has the corruption."""
  candidates: dict[str, tuple[Callable[[], object], float]] = {
    'ours': (ours(name, images, arguments.severity), len(images))
  }
  for package in packages:
    few = images[: max(arguments.cores, len(images) // 4)]
    call, reason = theirs(pool, package, name, few, arguments.cores)
    if call is None:
      print(f'{package} has no {name}: {reason}', flush=True)
    else:
      candidates[package] = (call, len(few))
  timings = timing.alternate(candidates, arguments.rounds)
  return {label: 1000 / timings.rate(label) for label in candidates}


def faithful(package: str, name: str) -> bool:
  """Whether a package's function is the released corruption of this name."""
  from benchmarks.corruption_peers import UNFAITHFUL

  return name not in UNFAITHFUL.get(package, ())


def cells(name: str, seconds: dict[str, float], packages: Sequence[str]) -> list[str]:
  """Returns a line of the table; the last entry is the fastest faithful package ÷ ours."""
  written = [
    f'{seconds[p]:.3g}{"" if faithful(p, name) else " *"}' if p in seconds else '' for p in packages
  ]
  best = min((seconds[p] for p in packages if p in seconds and faithful(p, name)), default=np.nan)
  return [name, f'{seconds["ours"]:.3g}', *written, f'{best / seconds["ours"]:.3g}']


def total(tables: dict[str, dict[str, float]], packages: Sequence[str]) -> list[str]:
  """Returns the sums over the official 15, ÷ ours over the same corruptions."""
  from robustness.corruptions import SETS

  line = [
    f'official {len(SETS["official"])}, ratio of sums',
    f'{sum(tables[n]["ours"] for n in SETS["official"] if n in tables):.3g} ms',
  ]
  for package in packages:
    shared = [n for n in SETS['official'] if package in tables.get(n, {})]
    own, other = (sum(tables[n][side] for n in shared) for side in ('ours', package))
    line.append(f'{other / own:.3g} ({len(shared)})' if shared else '')
  return [*line, '']


def parse(words: Sequence[str] | None) -> argparse.Namespace:
  """Reads the command line."""
  parser = timing.options(__doc__, rounds=3)
  parser.add_argument('--side', type=int, default=224)
  parser.add_argument('--cores', type=int, default=1)
  parser.add_argument('--images', type=int, default=16)
  parser.add_argument('--severity', type=int, default=3)
  parser.add_argument('--corruptions', nargs='*', help='default: all 19')
  parser.add_argument('--packages', nargs='*', default=PACKAGES)
  parser.add_argument('--data', help='.npz file with `image` uint8 [N, H, W, 3]; default: noise')
  return parser.parse_args(words)


def pictures(arguments: argparse.Namespace) -> np.ndarray:
  """Returns uint8 [images, side, side, 3]."""
  shape = (arguments.images, arguments.side, arguments.side, 3)
  if not arguments.data:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
  images = np.load(arguments.data)['image']
  return np.resize(images, shape) if images.shape[1:] == shape[1:] else images[:0]


def main(words: Sequence[str] | None = None) -> None:
  """Prints the table."""
  arguments = parse(words)
  pool = make_pool(arguments)

  from robustness.corruptions import NAMES

  images = pictures(arguments)
  tables = {
    name: measure(name, images, arguments.packages, pool, arguments)
    for name in arguments.corruptions or NAMES
  }
  timing.print_table(
    ['milliseconds an image', 'ours', *arguments.packages, 'fastest: ratio'],
    [
      *(cells(name, seconds, arguments.packages) for name, seconds in tables.items()),
      total(tables, arguments.packages),
    ],
  )


if __name__ == '__main__':
  pin(parse(None).cores)
  main()
