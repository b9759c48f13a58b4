"""Throughput of studies and trainings on an accelerator: where its time goes, by table.

  python -m benchmarks.gpu_throughput --json gpu.jsonl
  python -m benchmarks.gpu_throughput --studies corruptions scenes --networks resnet50 --trace DIR

Needs JAX, Flax, Optax and what the project requires; no TensorFlow. Three tables for every study,
network and precision, and a line of JSON with all their numbers:

  rates: the study as a run does it ÷ plain forward passes at their best batch (for `pgd`: ÷ as
    many plain gradients and one forward pass), and at the best of the steps that the second table
    tries; both as shares of the rate of large matrix products in the same precision.
  steps: images/s by rows a device, views a step, and views at once (`vmap`; the others of a step
    follow one another in `lax.map`).
  parts: microseconds a pass of each part alone: the perturbation (an attack with its gradients),
    the network, the ranking of classes, rows to the device and records back; and of all together.

`training` takes compiled steps at several batches, three forward passes counted an image. float32
is without TF32 (`jax_default_matmul_precision`), tf32 with it, which JAX takes on its own; bfloat16
is `config.precision`. Every size, step and batch is a separate program, for which XLA tries
convolutions for 5 to 30 seconds on a GPU: with fewer of them, or fewer networks, the command ends
sooner. --trace
writes a profile of one evaluation, or of one round of steps, for each, to be opened in Perfetto or
XProf. On a CPU, small: --studies heat_map --networks small_cnn --images 16 --views 3 --sizes 2
--rows 4 --matrices 32 --rounds 1.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import step_parts, subject, timing
from benchmarks.matrix_rate import PRECISIONS, computing_in, devices, operations, product
from input_pipeline.sources import drawn_objects
from robustness.core.rows import ArrayRows
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Study
from robustness.models import catalog
from robustness.models.classifier import Classifier
from robustness.studies import attack_error, corruption_error, fourier_heatmap, si_score

NETWORKS = ('resnet20', 'wide_resnet_28_10', 'resnet50', 'vit_b16')
TRAINING = 'training'
Line = dict[str, Any]


def scene_rows(shape: tuple[int, int, int], count: int) -> ArrayRows:
  """Returns `count` pairs of a drawn object and ground, as of `config.data.source='drawn_scenes'`.

  Rows have the ground as their image, and columns with the object (RGBA, padded) and its size.
  """
  cutouts = [drawn_objects.draw(name) for name in list(drawn_objects.DRAWINGS)[:count]]
  grounds = [drawn_objects.ground(i, shape[0]) for i in range(drawn_objects.NUM_GROUNDS)]
  row = np.arange(count)
  stored = np.zeros((len(cutouts), *[drawn_objects.SIDE] * 2, 4), np.uint8)
  for square, cutout in zip(stored, cutouts, strict=True):
    square[: cutout.shape[0], : cutout.shape[1]] = cutout
  sizes = np.array([cutout.shape[:2] for cutout in cutouts], np.int32)
  columns = {'foreground': stored, 'foreground_size': sizes}
  return ArrayRows(
    np.stack(grounds)[row % len(grounds)],
    (row % len(subject.CLASSES)).astype(np.int32),
    subject.CLASSES,
    columns={name: values[row % len(cutouts)] for name, values in columns.items()},
  )


@dataclasses.dataclass(frozen=True)
class Measured:
  """A study and how to measure its speed.

  Attributes:
    study: function that makes the study from the options of the command.
    goal: the ratio of images per second to plain passes that the study should reach.
    rows: function (image shape, number of rows) -> rows.
    attacks: whether its views take gradients; only the first attacked view is then evaluated.
  """

  study: Callable[[argparse.Namespace], Study]
  goal: float
  rows: Callable[[tuple[int, int, int], int], ArrayRows] = subject.stored_rows
  attacks: bool = False

  def evaluator(self, network: Classifier, args: argparse.Namespace) -> Evaluator:
    """Returns the evaluator of the clean view and `args.views` others, or of one attacked view."""
    evaluator = subject.evaluator(network, self.study(args), args.views)
    return evaluator.with_views(np.array([1])) if self.attacks else evaluator

  def plain(self, args: argparse.Namespace) -> dict[str, int]:
    """Returns what a view of a row takes at least: how many passes of each kind of `PLAIN`."""
    return {'forward': 1, **({'gradient': args.attack_steps} if self.attacks else {})}


PLAIN = {'forward': (subject.forward, 1), 'gradient': (subject.gradient, 2)}
"""Plain passes, and how many times the operations of a forward pass they take."""

PLACES = tuple(np.linspace(0, 1, 21).tolist())
STUDIES: Mapping[str, Measured] = {
  'heat_map': Measured(lambda _: fourier_heatmap.FourierHeatmap(), 0.9),
  'corruptions': Measured(lambda _: corruption_error.CorruptionError(severities=(3,)), 0.8),
  'scenes': Measured(
    lambda _: si_score.SiScore(factor='cross', xs=PLACES, ys=PLACES), 0.9, scene_rows
  ),
  'pgd': Measured(
    lambda args: attack_error.AttackError(attack={'pgd': {'steps': args.attack_steps}}),
    0.9,
    attacks=True,
  ),
}


def evaluation(
  evaluator: Evaluator, rows: ArrayRows, step: tuple[int, int, int] = (0, 0, 1)
) -> subject.Candidate:
  """Returns (function that evaluates a study, keeping no records; its number of forward passes).

  Args:
    evaluator: the evaluator of the study.
    rows: the images.
    step: (rows a device, views, views computed at once) of a step; 0 takes the number of a run.
  """
  rows_at_once, views, at_once = step
  evaluator = dataclasses.replace(evaluator, rows_at_once=rows_at_once, views_at_once=at_once)
  block = min(rows.num_examples, rows_at_once * evaluator.parallel.num_devices)
  layout = evaluator.layout(rows.num_examples, block, views)

  def call() -> None:
    for _ in evaluator.shards(rows, layout):
      pass

  return call, layout.num_rows * layout.num_views


def steps(evaluator: Evaluator, args: argparse.Namespace) -> dict[str, tuple[int, int, int]]:
  """Returns {label in the table: (rows a device, views, views at once)} of the steps to try."""
  return {
    f'{rows} × {views} views, {at_once} at once': (rows, views, at_once)
    for rows in args.rows
    for views in sorted({min(views, len(evaluator.views)) for views in args.chunks})
    for at_once in sorted({min(at_once, views) for at_once in args.at_once})
  }


def quickest(candidates: Mapping[str, subject.Candidate]) -> subject.Candidate:
  """Returns the candidate with the highest rate."""
  return candidates[timing.fastest(candidates)]


def matrices(dtype: str, args: argparse.Namespace) -> subject.Candidate:
  """Returns the matrix products with the highest rate on one device, and their operations."""
  return quickest({str(size): product(size, dtype) for size in args.matrices})


def measure(study_name: str, network: str, precision: str, args: argparse.Namespace) -> Line:
  """Returns the rates of a study, and their ratios to plain passes, in one network and precision.

  They are measured in this order: plain passes at their best batch size, all steps of the study,
  then plain passes, study and best step in alternation.
  """
  measured = STUDIES[study_name]
  with computing_in(precision) as dtype:
    classifier = subject.classifier(network, args.weights, precision=dtype)
    rows = measured.rows(classifier.input_shape, args.images)
    evaluator = measured.evaluator(classifier, args)
    as_run, passes = evaluation(evaluator, rows)
    # 'forward' and, for attacks, 'gradient'; an entry of PLAIN has the function that makes such
    # passes, and how many times the operations of a forward pass one takes
    plain = {
      kind: quickest(
        {str(n): PLAIN[kind][0](evaluator, rows, n, min(passes, args.passes)) for n in args.sizes}
      )
      for kind in measured.plain(args)
    }
    # candidates and timings by the label of a step
    tries = {step: evaluation(evaluator, rows, n) for step, n in steps(evaluator, args).items()}
    tried = timing.alternate(tries, 2)
    best = max(tries, key=tried.rate)
    candidates = {
      **plain,
      'study': (as_run, passes),
      'written': subject.written(evaluator, rows),
      'best': tries[best],
      'matrices': matrices(dtype, args),
    }
    timings = timing.alternate(candidates, args.rounds)
    with traced(args, f'{study_name}-{network}-{precision}'):
      as_run()
    parts = step_parts.microseconds(evaluator, rows, args.rounds)
    flop = operations(classifier)
  # the least seconds and operations that a view of a row needs
  needed = measured.plain(args)
  least_time = sum(needed[kind] / timings.rates(kind) for kind in plain)
  flop_a_view = flop * sum(needed[kind] * PLAIN[kind][1] for kind in plain)
  peak = timings.rate('matrices') * devices()  # operations per second of matrix products
  return {
    'study': study_name,
    'network': network,
    'precision': precision,
    'images_per_second': {name: timings.rate(name) for name in (*plain, 'study', 'best')},
    'ratio': {
      name: timing.spread(timings.rates(name) * least_time) for name in ('study', 'written', 'best')
    },
    'goal': measured.goal,
    'best_step': best,
    'steps': {step: tried.rate(step) for step in tries},
    'parts_microseconds': parts,
    'flop_a_pass': flop,
    'matrix_flop_per_second': peak,
    'share_of_matrix_rate': {
      'forward': timings.rate('forward') * flop / peak,
      'study': timings.rate('study') * flop_a_view / peak,
    },
  }


def measure_training(network: str, precision: str, batch: int, args: argparse.Namespace) -> Line:
  """Returns the rate of the compiled training step at one batch size, and its share of the peak."""
  with computing_in(precision) as dtype:
    rows = subject.stored_rows(catalog.get(network).input_shape, batch)
    task = subject.training(network, rows, batch, args.training_steps, dtype)
    step = subject.bare_steps(task, args.training_steps)
    candidates = {'step': step, 'matrices': matrices(dtype, args)}
    timings = timing.alternate(candidates, args.rounds)
    with traced(args, f'{TRAINING}-{network}-{precision}-{batch}'):
      step[0]()
    # a training step takes the operations of three forward passes: one, and two for the gradients
    flop = 3 * operations(subject.classifier(network, precision=dtype))
  shares = timings.rates('step') * flop / (timings.rates('matrices') * devices())
  return {
    'study': TRAINING,
    'network': network,
    'precision': precision,
    'batch': batch,
    'images_per_second': timings.rate('step'),
    'flop_an_image': flop,
    'matrix_flop_per_second': timings.rate('matrices') * devices(),
    'share_of_matrix_rate': timing.spread(shares),
  }


@contextlib.contextmanager
def traced(args: argparse.Namespace, name: str) -> Iterator[None]:
  """Writes a profile of what happens inside to a folder of `--trace`, if that is given."""
  if not args.trace:
    yield
    return
  with jax.profiler.trace(str(pathlib.Path(args.trace) / name)):
    yield


def print_studies(lines: Sequence[Line]) -> None:
  """Prints what `measure` returned as three tables: rates, rates by step, and times by part."""
  about = [{key: line[key] for key in ('study', 'network', 'precision')} for line in lines]
  timing.print_table(
    {
      **setting,
      'forward, images/s': f'{line["images_per_second"]["forward"]:.0f}',
      'study, images/s': f'{line["images_per_second"]["study"]:.0f}',
      'ratio': timing.describe_ratio(line['ratio']['study']),
      'ratio, records written': timing.describe_ratio(line['ratio']['written']),
      'ratio at the best step': (
        f'{timing.describe_ratio(line["ratio"]["best"])} at {line["best_step"]}'
      ),
      'goal': line['goal'],
      'Mflop a pass': f'{line["flop_a_pass"] / 1e6:.1f}',
      'matrix rate, Tflop/s': f'{line["matrix_flop_per_second"] / 1e12:.3g}',
      "forward's share of it": f'{line["share_of_matrix_rate"]["forward"]:.3f}',
      "study's share of it": f'{line["share_of_matrix_rate"]["study"]:.3f}',
    }
    for setting, line in zip(about, lines, strict=True)
  )
  for title, key, unit in (
    ('step', 'steps', 'images/s'),
    ('part', 'parts_microseconds', 'µs a pass'),
  ):
    print()
    timing.print_table(
      {**setting, title: part, unit: f'{value:.4g}'}
      for setting, line in zip(about, lines, strict=True)
      for part, value in line[key].items()
    )


def print_trainings(lines: Sequence[Line]) -> None:
  """Prints the table of training steps."""
  timing.print_table(
    {
      'network': line['network'],
      'precision': line['precision'],
      'batch': line['batch'],
      'images/s': f'{line["images_per_second"]:.0f}',
      'matrix rate, Tflop/s': f'{line["matrix_flop_per_second"] / 1e12:.3g}',
      'ratio to it': timing.describe_ratio(line['share_of_matrix_rate']),
    }
    for line in lines
  )


def options() -> argparse.ArgumentParser:
  """Returns the command's options."""
  parser = timing.options(__doc__, rounds=3)
  names = [*STUDIES, TRAINING]
  parser.add_argument('--studies', nargs='+', default=names, choices=names)
  parser.add_argument('--networks', nargs='+', default=list(NETWORKS), help='names of the catalog')
  precisions = list(PRECISIONS)
  parser.add_argument('--precisions', nargs='+', default=precisions, choices=precisions)
  parser.add_argument('--weights', default='', help='file with weights; random ones by default')
  parser.add_argument('--images', type=int, default=1024)
  parser.add_argument('--views', type=int, default=31, help='beside the clean one; 0: all')
  parser.add_argument('--attack_steps', type=int, default=10)
  parser.add_argument('--passes', type=int, default=8192, help='plain passes that are timed')
  numbers = {
    'sizes': ((256, 1024), 'images a device of plain passes'),
    'rows': ((128, 512), 'rows a device of a step'),
    'chunks': ((32,), 'views of a step'),
    'at_once': ((1, 4), 'views that are shown at once'),
    'batches': ((128, 512), 'images of a training step'),
    'matrices': ((8192,), 'sides of the products'),
  }
  for name, (default, text) in numbers.items():
    parser.add_argument(f'--{name}', type=int, nargs='+', default=list(default), help=text)
  parser.add_argument('--training_steps', type=int, default=20)
  parser.add_argument('--json', default='', help='file to which a line is added for each row')
  parser.add_argument('--trace', default='', help='folder for profiles')
  return parser


def main(arguments: Sequence[str] | None = None) -> None:
  """Measures, writes lines of JSON as they come, and prints the tables."""
  args = options().parse_args(arguments)
  device = ', '.join(sorted({device.device_kind for device in jax.devices()}))
  print(f'{device}, {jax.device_count()} devices, JAX {jax.__version__}', flush=True)
  lines: list[Line] = []
  for study in args.studies:
    for network in args.networks:
      for precision in args.precisions:
        print(f'{study}, {network}, {precision} …', flush=True)
        if study == TRAINING:
          measured = [measure_training(network, precision, batch, args) for batch in args.batches]
        else:
          measured = [measure(study, network, precision, args)]
        lines += measured
        if args.json:
          facts = {'device': device, 'devices': jax.device_count(), 'jax': jax.__version__}
          with open(args.json, 'a') as file:
            file.writelines(f'{json.dumps({**facts, **line})}\n' for line in measured)
  trainings = [line for line in lines if line['study'] == TRAINING]
  if studies := [line for line in lines if line['study'] != TRAINING]:
    print_studies(studies)
  if trainings:
    print_trainings(trainings)


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
