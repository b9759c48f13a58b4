"""Images a second that each source delivers, ÷ torchvision's on the same files, and ÷ a step's.

  python -m benchmarks.input_throughput
  taskset -c 0 python -m benchmarks.input_throughput --clock processor
  python -m benchmarks.input_throughput --data DIR --network resnet50

The files are photographs of 500 × 375 pixels, made if no folder of class folders is given. A source
delivers 224 × 224 pixels in the blocks of a run: `folder` decodes, resizes to 256 and crops, by
TensorFlow in float32 or by Pillow in 8 bits (`config.data.resized_by`); `npz` and `npy` hold the
pictures at 224 × 224, uint8, in memory and mapped from disk; `parquet`, `webdataset` and
`array_record` hold the files themselves, and their `ratio to torchvision` is that to pyarrow's,
tarfile's and Grain's reading of the same shard, with torchvision's preparation. torchvision opens
the same files with Pillow and prepares them likewise, one after another; without torchvision the
column stays empty. Grain, where it is installed, reads the files by this project's functions for
Pillow, in threads.

`ratio to forward` is that to the plain forward rate of a network on the same cores: above 1 a
device of its own that is as quick as these cores would never wait. `evaluation ÷ slower` divides
the rate of an evaluation of the network on that source by the slower of the two. Its goal is .9
where the device is not the CPU: on a CPU both share the cores, and it cannot be above
max(f, s) / (f + s).
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import io
import pathlib
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

import input_pipeline
from benchmarks import subject, timing
from input_pipeline import DataSettings
from input_pipeline.geometry import resized_by_pillow
from input_pipeline.image_files import read_image
from robustness import parallel
from robustness.core import random_keys
from robustness.core.host import usable_cores
from robustness.core.pictures import opened
from robustness.core.rows import ArrayRows, Rows
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import identity

SIDE, RESIZE = 224, 256
PEER, GRAIN = 'torchvision', 'grain'
SHARDS = {'parquet': 'train.parquet', 'webdataset': 'train.tar', 'array_record': 'all/1.0.0'}
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
  files = {'source': 'folder', 'path': str(folder), 'num_images': count}
  prepared = {'resize': RESIZE, 'crop': SIDE}
  folders = {
    f'folder, {by}': input_pipeline.load(DataSettings(**files, **prepared, resized_by=by))
    for by in ('tensorflow', 'pillow')
  }
  [batch] = folders['folder, pillow'].batches(count, stored=True)
  names = np.array(folders['folder, pillow'].class_names)
  write_shards(folder, stored, count)
  np.savez(stored / 'all.npz', image=batch['image'], label=batch['label'], class_names=names)
  np.save(stored / 'images.npy', batch['image'])
  np.save(stored / 'labels.npy', batch['label'])
  np.save(stored / 'class_names.npy', names)
  return {
    **folders,
    'npz': input_pipeline.load(DataSettings(source='npz', path=str(stored / 'all.npz'))),
    'npy': input_pipeline.load(DataSettings(source='npy', path=str(stored))),
    **{
      source: input_pipeline.load(
        DataSettings(
          source=source, path=str(stored / name), split='train', **prepared, resized_by='pillow'
        )
      )
      for source, name in SHARDS.items()
    },
  }


def files_of(folder: pathlib.Path, count: int) -> list[pathlib.Path]:
  """Returns the first files."""
  return sorted(path for path in folder.rglob('*') if path.is_file())[:count]


def write_shards(folder: pathlib.Path, stored: pathlib.Path, count: int) -> None:
  """Writes the files into a shard of each format of `SHARDS`, all of one class."""
  import pyarrow as pa
  import pyarrow.parquet as pq
  import tensorflow_datasets as tfds

  files = files_of(folder, count)
  images = [{'bytes': file.read_bytes(), 'path': file.name} for file in files]
  table = pa.table({'image': images, 'label': [0] * len(files)})
  pq.write_table(table, stored / SHARDS['parquet'])
  with tarfile.open(stored / SHARDS['webdataset'], 'w') as archive:
    for index, image in enumerate(images):
      for field, content in (('jpg', image['bytes']), ('cls', b'0')):
        member = tarfile.TarInfo(f'{index:06d}.{field}')
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
  name, _, version = SHARDS['array_record'].partition('/')
  features = {'image': tfds.features.Image(), 'label': tfds.features.ClassLabel(num_classes=1)}
  tfds.dataset_builders.store_as_tfds_dataset(
    name,
    version,
    tfds.features.FeaturesDict(features),
    {'train': [(index, {'image': str(file), 'label': 0}) for index, file in enumerate(files)]},
    data_dir=stored,
    file_format='array_record',
    disable_shuffling=True,
  )


def by_pyarrow(shard: pathlib.Path) -> Iterator[bytes]:
  """Yields the encoded images of a Parquet file."""
  import pyarrow.parquet as pq

  for batch in pq.ParquetFile(shard).iter_batches(columns=['image']):
    yield from (image['bytes'] for image in batch.column('image').to_pylist())


def by_tarfile(shard: pathlib.Path) -> Iterator[bytes]:
  """Yields the encoded images of a tar file."""
  with tarfile.open(shard) as archive:
    for member in archive:
      file = archive.extractfile(member)
      if file and member.name.endswith('.jpg'):
        yield file.read()


def by_grain_source(shard: pathlib.Path) -> Iterator[bytes]:
  """Yields the encoded images of a TFDS data set in ArrayRecord files."""
  import grain
  import tensorflow_datasets as tfds

  features = tfds.builder_from_directory(shard).info.features
  skip = {'image': tfds.decode.SkipDecoding()}
  records = grain.sources.ArrayRecordDataSource(
    [str(file) for file in shard.glob('*array_record*')]
  )
  rows = grain.MapDataset.source(records).map(
    lambda record: features.deserialize_example_np(record, decoders=skip)['image']
  )
  yield from rows.to_iter_dataset(grain.ReadOptions(num_threads=2 * usable_cores()))


READERS = {'parquet': by_pyarrow, 'webdataset': by_tarfile, 'array_record': by_grain_source}


def per_image(files: Callable[[], Iterable[Any]], count: int) -> subject.Candidate:
  """Returns torchvision's preparation of one file after another, and their number."""
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
    for file in files():
      with opened(file) as picture:
        prepare(picture.convert('RGB'))

  return call, count


def by_grain(folder: pathlib.Path, count: int, block: int) -> subject.Candidate:
  """Returns Grain's reading of the same files by the same functions, and their number."""
  import grain

  settings = DataSettings(resize=RESIZE, crop=SIDE, resized_by='pillow')
  paths = [str(path) for path in files_of(folder, count)]
  rows = grain.MapDataset.source(paths).map(
    lambda path: resized_by_pillow(read_image(path, 3), settings)
  )
  threads = grain.ReadOptions(num_threads=2 * usable_cores())

  def call() -> None:
    for batch in rows.to_iter_dataset(threads).batch(block):
      batch.sum()

  return call, len(paths)


def measure(given: argparse.Namespace, folder: pathlib.Path, stored: pathlib.Path) -> None:
  """Prints a line for each source."""
  clock, rows = timing.CLOCKS[given.clock], sources(folder, stored, given.images)
  names = rows['npz'].class_names
  network = subject.classifier(given.network, classes=[*map(str, range(max(2, len(names))))])
  evaluator = Evaluator(
    network, identity(), random_keys.stream(0, 'accuracy'), parallel.create('jit')
  )
  block = evaluator.layout(given.images).block_rows
  [batch] = rows['npz'].batches(given.images)
  ready = ArrayRows(batch['image'], np.zeros(given.images, np.int32), names)
  forwards = subject.forwards(evaluator, ready, given.sizes, given.images)
  best = timing.fastest(forwards, clock=clock)
  candidates = {'forward': forwards[best]}
  if importlib.util.find_spec('torchvision'):
    files = files_of(folder, given.images)
    candidates[PEER] = per_image(lambda: files, len(files))
    for name, read in READERS.items():
      if name == 'array_record' and not importlib.util.find_spec('grain'):
        continue
      shard = stored / SHARDS[name]
      candidates[f'{PEER} of {name}'] = per_image(functools.partial(read, shard), len(files))
  if importlib.util.find_spec('grain'):
    candidates[GRAIN] = by_grain(folder, given.images, block)
  for name, source in rows.items():
    candidates[name] = subject.delivered(source, block)
    candidates[f'evaluation of {name}'] = subject.discarded(evaluator, source, block)
  timings = timing.alternate(candidates, given.rounds, clock)
  print(f'{given.network}, forward: {timings.rate("forward"):.4g} images/s ({best})')
  table = [[PEER, f'{timings.rate(PEER):.4g}', '1', '', '']] if PEER in candidates else []
  for name in (*rows, *({GRAIN} & {*candidates})):
    slower = min(('forward', name), key=timings.rate)
    peer = f'{PEER} of {name}' if name in READERS else PEER
    ratios = [(name, peer), (name, 'forward'), (f'evaluation of {name}', slower)]
    ratios = ratios[: 3 if name in rows else 2]
    described = [
      timing.describe_ratio(timings.ratio(*pair)) if pair[1] in candidates else ''
      for pair in ratios
    ]
    table.append([name, f'{timings.rate(name):.4g}', *described, *[''] * (3 - len(ratios))])
  header = ('source', 'images/s', 'ratio to torchvision', 'ratio to forward', 'evaluation ÷ slower')
  timing.print_table(header, table)


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table."""
  parser = timing.options(__doc__, rounds=5, clock=True)
  parser.add_argument('--data', default='', help='folder of class folders; made by default')
  parser.add_argument('--network', default='efficientnet_lite0', help='of 224 × 224 pixels')
  parser.add_argument('--images', type=int, default=128)
  parser.add_argument('--sizes', type=int, nargs='+', default=[8, 32], help='images a device')
  given = parser.parse_args(arguments)
  with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as stored:
    if not given.data:
      make_photographs(pathlib.Path(made), given.images)
    measure(given, pathlib.Path(given.data or made), pathlib.Path(stored))


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
