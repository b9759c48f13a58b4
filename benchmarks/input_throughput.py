"""Images a second that each source delivers, ÷ torchvision's on the same files, and ÷ a step's.

  python -m benchmarks.input_throughput
  taskset -c 0 python -m benchmarks.input_throughput --clock processor
  python -m benchmarks.input_throughput --data DIR --network resnet50

The files are photographs of 500 × 375 pixels, made if no folder of class folders is given. A source
delivers 224 × 224 pixels in the blocks of a run: `folder` decodes, resizes to 256 and crops, by
TensorFlow in float32 or by Pillow in 8 bits (`config.data.resized_by`); `npz` and `npy` hold the
pictures at 224 × 224, uint8, in memory and mapped from disk. torchvision opens the same files with
Pillow and prepares them in the same way, one after another; without torchvision the column is
empty.

`ratio to forward` divides by the plain forward rate of a network on the same cores. A separate
device that is as fast as these cores never waits for a source with a ratio above 1. `evaluation ÷
slower` divides the rate of an evaluation of the network on this source by the lower rate of source
and network. Its goal is .9 where the device is not the CPU. On a CPU both share the cores, and the
ratio is at most max(f, s) / (f + s).
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import tempfile
from collections.abc import Sequence

import numpy as np
from PIL import Image

import input_pipeline
from benchmarks import subject, timing
from input_pipeline import DataSettings
from input_pipeline.sources.folder import Folder
from input_pipeline.sources.npz import Npy, Npz
from robustness import parallel
from robustness.core import random_keys
from robustness.core.pictures import opened
from robustness.core.rows import ArrayRows, Rows
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import identity

SIDE, RESIZE = 224, 256
PEER = 'torchvision'
WIDTH, HEIGHT = 500, 375


def make_photographs(folder: pathlib.Path, count: int) -> None:
  """Writes cloudy JPEG files in two class folders."""
  generator = np.random.default_rng(0)
  for index in range(count):
    coarse = generator.integers(0, 256, (HEIGHT // 12, WIDTH // 12, 3), np.uint8)
    picture = Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    path = folder / str(index % 2) / f'{index:05d}.jpg'
    path.parent.mkdir(exist_ok=True)
    picture.save(path, quality=90)


def sources(folder: pathlib.Path, stored: pathlib.Path, count: int) -> dict[str, Rows]:
  """Returns the rows of every source, by what the table calls it."""
  source = Folder(str(folder))
  folders = {
    f'folder, {by}': input_pipeline.load(
      DataSettings(source, num_images=count, resize=RESIZE, crop=SIDE, resized_by=by)
    )
    for by in ('tensorflow', 'pillow')
  }
  [batch] = folders['folder, pillow'].batches(count, stored=True)
  names = np.array(folders['folder, pillow'].class_names)
  np.savez(stored / 'all.npz', image=batch['image'], label=batch['label'], class_names=names)
  np.save(stored / 'images.npy', batch['image'])
  np.save(stored / 'labels.npy', batch['label'])
  np.save(stored / 'class_names.npy', names)
  return {
    **folders,
    'npz': input_pipeline.load(DataSettings(Npz(str(stored / 'all.npz')))),
    'npy': input_pipeline.load(DataSettings(Npy(str(stored)))),
  }


def prepared_by_torchvision(files: Sequence[pathlib.Path]) -> subject.Candidate:
  """Returns torchvision's preparation of one file after another, and the number of files."""
  from tests.models.peers import peer

  peer('torchvision')
  import torch
  from torchvision import transforms

  torch.set_num_threads(1)
  prepare = transforms.Compose(
    [
      transforms.Resize(RESIZE, transforms.InterpolationMode.BICUBIC),
      transforms.CenterCrop(SIDE),
      transforms.ToTensor(),
    ]
  )

  def call() -> None:
    for file in files:
      with opened(file) as picture:
        prepare(picture.convert('RGB'))

  return call, len(files)


def measure(args: argparse.Namespace, folder: pathlib.Path, stored: pathlib.Path) -> None:
  """Prints a line for each source."""
  clock, rows = timing.CLOCKS[args.clock], sources(folder, stored, args.images)
  names = rows['npz'].class_names
  network = subject.classifier(args.network, classes=[*map(str, range(max(2, len(names))))])
  evaluator = Evaluator(
    network, identity(), random_keys.stream(0, 'accuracy'), parallel.create('jit')
  )
  block = evaluator.layout(args.images).block_rows
  [batch] = rows['npz'].batches(args.images)
  ready = ArrayRows(batch['image'], np.zeros(args.images, np.int32), names)
  forwards = subject.forwards(evaluator, ready, args.sizes, args.images)
  best = timing.fastest(forwards, clock=clock)
  candidates = {'forward': forwards[best]}
  if importlib.util.find_spec('torchvision'):
    files = sorted(path for path in folder.rglob('*') if path.is_file())[: args.images]
    candidates[PEER] = prepared_by_torchvision(files)
  for name, source in rows.items():
    candidates[name] = subject.delivered(source, block)
    candidates[f'evaluation of {name}'] = subject.discarded(evaluator, source, block)
  timings = timing.alternate(candidates, args.rounds, clock)
  print(f'{args.network}, forward: {timings.rate("forward"):.4g} images/s ({best})')
  table = [[PEER, f'{timings.rate(PEER):.4g}', '1', '', '']] if PEER in candidates else []
  for name in rows:
    slower = min(('forward', name), key=timings.rate)
    ratios = [
      timing.describe_ratio(timings.ratio(*pair)) if pair[1] in candidates else ''
      for pair in ((name, PEER), (name, 'forward'), (f'evaluation of {name}', slower))
    ]
    table.append([name, f'{timings.rate(name):.4g}', *ratios])
  header = ('source', 'images/s', 'ratio to torchvision', 'ratio to forward', 'evaluation ÷ slower')
  timing.print_table(header, table)


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table."""
  parser = timing.options(__doc__, rounds=5, clock=True)
  parser.add_argument('--data', default='', help='folder of class folders; made by default')
  parser.add_argument('--network', default='efficientnet_lite0', help='of 224 × 224 pixels')
  parser.add_argument('--images', type=int, default=128)
  parser.add_argument('--sizes', type=int, nargs='+', default=[8, 32], help='images a device')
  args = parser.parse_args(arguments)
  with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as stored:
    if not args.data:
      make_photographs(pathlib.Path(made), args.images)
    measure(args, pathlib.Path(args.data or made), pathlib.Path(stored))


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
