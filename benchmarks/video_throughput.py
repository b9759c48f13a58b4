"""Images a second of `video_pm_k` on frames, from file to record ÷ plain forward of its network.

python -m benchmarks.video_throughput
python -m benchmarks.video_throughput --anchors 20
NPROC=1 python -m benchmarks.video_throughput --devices 1 --resized_by pillow

The study reads, decodes, resizes and crops the frames, predicts, and writes its records, as a run
does; forward is `lax.map` over batches of ready images inside one jit, at the best of several batch
sizes. Both run on all devices. Decoding alone has its own column: on a CPU it takes its share of
the same cores, and the ratio cannot be above 1 / (1 + forward rate ÷ decoding rate) there.
The last command leaves one core to the network and the others to decoding, as an accelerator does.
`--clock processor` counts the seconds of all threads, which other work on the machine lengthens
little. The frames are made, JPEG files of 640 × 360 pixels. The goal is 0.9.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Sequence

import jax
import numpy as np
from PIL import Image

import input_pipeline
from benchmarks import subject, timing
from input_pipeline import DataSettings
from robustness import parallel
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.evaluation.runner import Evaluator
from robustness.models import catalog
from robustness.studies.video_pm_k import VideoPmK
from robustness.video import metadata

SIZES = (4, 8, 16, 32)
WIDTH, HEIGHT, K = 640, 360, 10


def make_frames(folder: pathlib.Path, anchors: int) -> None:
  """Writes clips of 21 frames, a cloudy picture that moves, and their neighbor sets."""
  generator = np.random.default_rng(0)
  sets, labels = {}, {}
  for clip in range(anchors):
    coarse = generator.integers(0, 256, (HEIGHT // 12, WIDTH // 12, 3), np.uint8)
    picture = Image.fromarray(coarse).resize((WIDTH + 4 * K, HEIGHT), Image.Resampling.BICUBIC)
    (folder / f'clip{clip}').mkdir()
    names = [f'clip{clip}/{number:06d}.jpg' for number in range(2 * K + 1)]
    for number, name in enumerate(names):
      picture.crop((2 * number, 0, 2 * number + WIDTH, HEIGHT)).save(folder / name, quality=90)
    sets[names[K]] = names[:K] + names[K + 1 :]
    labels.update(dict.fromkeys(names, [clip % len(subject.CLASSES)]))
  metadata.write(metadata.from_mappings(sets, labels, subject.CLASSES), folder / 'sets')


def measure(
  name: str,
  settings: DataSettings,
  batch_size: int,
  rounds: int,
  sizes: Sequence[int],
  clock: timing.Clock,
) -> list[object]:
  """Returns the row of one network."""
  rows = input_pipeline.load(settings)
  network = subject.classifier(name, classes=rows.class_names)
  study = VideoPmK()
  evaluator = Evaluator(
    network,
    study.views(rows.image_shape),
    random_keys.stream(0, study.name),
    parallel.create('jit'),
    (),
    network.select_outputs(study.outputs),
  )
  block = evaluator.layout(rows.num_examples, batch_size).block_rows
  shown = next(rows.batches(min(block, rows.num_examples), [0]))
  ready = ArrayRows(shown['image'], np.zeros(len(shown['image']), np.int32), rows.class_names)
  forwards = subject.forwards(evaluator, ready, sizes, min(rows.num_examples, 256))
  best = int(timing.fastest(forwards, clock=clock).split()[1])
  timings = timing.alternate(
    {
      'forward': subject.forward(evaluator, ready, best, rows.num_examples),
      'study': subject.written(evaluator, rows, batch_size),
      'decoding': subject.delivered(rows, block),
    },
    rounds,
    clock,
  )
  return [
    name,
    rows.num_examples,
    *(f'{timings.rate(part):.1f}' for part in ('forward', 'study', 'decoding')),
    timing.describe_ratio(timings.ratio('study', 'forward')),
    ' '.join(f'{load:.0f}' for load in os.getloadavg()),
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints a line for each network."""
  parser = timing.options(__doc__, rounds=3, clock=True)
  parser.add_argument('--networks', nargs='+', default=['efficientnet_lite0'])
  parser.add_argument('--anchors', type=int, default=24, help='sets of 21 frames')
  parser.add_argument('--batch_size', type=int, default=0, help='frames a step; 0: as a run does')
  parser.add_argument('--devices', type=int, default=0, help='of a CPU; 0: one a core')
  parser.add_argument('--resized_by', default='tensorflow', help='or pillow, in 8 bits')
  parser.add_argument('--sizes', type=int, nargs='+', default=list(SIZES), help='images a device')
  given = parser.parse_args(arguments)
  if given.devices:
    jax.config.update('jax_num_cpu_devices', given.devices)
  with tempfile.TemporaryDirectory() as made:
    make_frames(pathlib.Path(made), given.anchors)
    table = []
    for name in given.networks:
      side = catalog.get(name).input_shape[0]
      settings = DataSettings(
        source='video_neighbors',
        path=made,
        metadata=f'{made}/sets',
        resize=round(side * 8 / 7),
        crop=side,
        resized_by=given.resized_by,
      )
      table.append(
        measure(
          name, settings, given.batch_size, given.rounds, given.sizes, timing.CLOCKS[given.clock]
        )
      )
  print(f'{jax.local_device_count()} devices')
  timing.print_table(
    (
      'network',
      'frames',
      'forward, images/s',
      'study, images/s',
      'decoding alone, images/s',
      'ratio',
      'load of 1, 5, 15 minutes',
    ),
    table,
  )


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
