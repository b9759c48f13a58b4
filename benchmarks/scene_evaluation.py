"""A map of places end to end: scenes composed in the step, against files generated, then evaluated.

python -m benchmarks.scene_evaluation
python -m benchmarks.scene_evaluation --places 21

Both predict with the same network and write records. The first is the study `si_score`; the second
makes each scene in Pillow on one core, writes it as JPEG, and reads the files again, as the
released generator and its users do. The bytes are those that the files take, and would take for all
541,548 scenes of the published design; the study writes none.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from collections.abc import Sequence

import numpy as np
from PIL import Image

import input_pipeline
from benchmarks import scenes, subject, timing
from input_pipeline import DataSettings
from robustness import parallel
from robustness.core import random_keys
from robustness.core.rows import Batch
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import identity
from robustness.models import catalog
from robustness.scenes.designs import Design
from robustness.studies.si_score import SiScore

PUBLISHED_SCENES = 1228 * 21 * 21
HEADER = (
  'network',
  'scenes',
  'composed, scenes/s',
  'through files, scenes/s',
  'ratio',
  'bytes of files',
  'GB for all',
)


def generate(
  folder: pathlib.Path, batch: Batch, design: Design, stored: Sequence[Image.Image]
) -> int:
  """Writes every scene of the rows as JPEG, a folder a row; returns the bytes."""
  total = 0
  for row, ground in enumerate(stored):
    height, width = batch['foreground_size'][row]
    cutout = Image.fromarray(batch['foreground'][row][:height, :width])
    (folder / str(row)).mkdir(parents=True)
    for level in range(len(design)):
      sized = scenes.square(ground, batch['image'].shape[1])
      factors = (float(getattr(design, key)[level]) for key in ('area', 'angle', 'x', 'y'))
      path = folder / str(row) / f'{level}.jpg'
      scenes.paste(cutout, sized, *factors).save(path)
      total += path.stat().st_size
  return total


def measure(given: argparse.Namespace) -> tuple[timing.Timings, int, int]:
  """Returns the timings of both ways, the scenes of a pass, and the bytes of their files."""
  side = catalog.get(given.network).input_shape[0]
  along = tuple(np.linspace(0, 1, given.places).tolist())
  grid = SiScore(factor='cross', areas=(0.2,), xs=along, ys=along)
  rows = scenes.drawn(given.rows, side)
  batch, stored = next(rows.batches(given.rows)), scenes.originals(given.rows)
  network = subject.classifier(given.network, classes=rows.class_names)
  key, devices = random_keys.stream(0, grid.name), parallel.create('jit')
  composed = Evaluator(network, grid.views(rows.image_shape), key, devices)
  read = Evaluator(network, identity(), key, devices)
  sizes: list[int] = []

  def through_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
      sizes.append(generate(pathlib.Path(folder), batch, grid.design, stored))
      subject.written(read, input_pipeline.load(DataSettings(source='folder', path=folder)))[0]()

  work = given.rows * len(grid.design)
  timings = timing.alternate(
    {'composed': (subject.written(composed, rows)[0], work), 'files': (through_files, work)},
    given.rounds,
  )
  return timings, work, sizes[-1]


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table."""
  parser = timing.options(__doc__, rounds=1)
  parser.add_argument('--network', default='squeezenet1_1')
  parser.add_argument('--places', type=int, default=11, help='places along each side')
  parser.add_argument('--rows', type=int, default=2)
  given = parser.parse_args(arguments)
  timings, num_scenes, size = measure(given)
  row = [
    given.network,
    num_scenes,
    f'{timings.rate("composed"):.1f}',
    f'{timings.rate("files"):.1f}',
    timing.describe_ratio(timings.ratio('composed', 'files')),
    f'{size}',
    f'{size / num_scenes * PUBLISHED_SCENES / 1e9:.1f}',
  ]
  timing.print_table(HEADER, [row])


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
