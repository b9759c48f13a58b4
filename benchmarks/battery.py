r"""The battery of CIFAR-10 ÷ the same number of plain passes, and ÷ its tasks run one by one.

python -m benchmarks.battery
python -m benchmarks.battery --weights FILE --data IMAGES.npz --images 1000 --heat_map_images 1000
python -m benchmarks.battery --config.battery.tasks=clean,corruptions

The reference of a task is what its views take of the network alone: a forward pass for each image
and view, and for an attack a gradient by the image for each step, both by `lax.map` over batches of
ready images inside one jit, at the best of several batch sizes. `task` is its evaluation, records
written, with its program compiled; `battery` is the whole run in a new workdir, from the config to
the report. Its programs come from the compilation cache, which the tasks before have filled, so it
is timed from the first call on. The goal is 0.9 for both.

`one by one` is a run of each task alone, in this process: a command each would add its imports.
"""

import copy
import dataclasses
import pathlib
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import subject, timing
from robustness import measurement, parallel
from robustness.cli import command_line
from robustness.config import experiment as experiments
from robustness.config.experiment import Experiment
from robustness.core import compilation_cache
from robustness.core.rows import ArrayRows, Rows
from robustness.core.settings import merge_changes, without_inherited
from robustness.evaluation.study import Study
from robustness.launch import OpenedRows, builder_for
from robustness.launch import run as run_config
from robustness.models import weights as weight_files
from robustness.studies import attack_error

CONFIG = 'configs/battery.py:cifar10'
SIZES = (16, 32, 64, 128)
BATTERY, ONE_BY_ONE, FORWARD, GRADIENT = 'battery', 'one by one', 'forward', 'gradient'


Work = Counter[str]
"""The number of forward passes (`FORWARD`) and of gradients of a loss (`GRADIENT`), of one image
each, that an evaluation needs.
"""


def ratio_to_plain(work: Work, timings: timing.Timings, name: str) -> timing.Ratio:
  """Returns the seconds of plain passes ÷ the seconds of a candidate, within each round."""
  plain_seconds = sum(count / timings.rates(kind) for kind, count in work.items() if count)
  return timing.spread(plain_seconds / np.asarray(timings.seconds[name]))


def work_of(study: Study, rows: Rows) -> Work:
  """Returns the forward passes and gradients of single images that a study of these rows needs."""
  views = len(study.views(rows.image_shape))
  # the settings of each attack; other studies have none
  runs = study.runs.values() if isinstance(study, attack_error.AttackError) else ()
  # an attack takes one gradient per step, for each restart and radius
  steps = sum(vars(run)['steps'] * study.restarts * len(study.radii) for run in runs)
  return Work({FORWARD: rows.num_examples * views, GRADIENT: rows.num_examples * steps})


def config_of(folder: pathlib.Path, args: Any, changes: Sequence[str]) -> dict[str, Any]:
  """Returns the battery's config as plain values.

  Images and weights are from --data and --weights, random ones are saved in `folder` otherwise.
  `changes` are further command-line arguments, such as '--config.battery.tasks=clean'.
  """
  [network] = args.networks
  images = subject.rows((32, 32, 3), args.images, args.data)
  data = folder / 'images.npz'
  stored = np.rint(images.images * 255).astype(np.uint8)
  np.savez(data, images=stored, labels=images.labels, class_names=np.array(subject.CLASSES))
  weights = args.weights
  if not weights:
    weights = str(folder / 'weights.safetensors')
    weight_files.save_variables(weights, subject.classifier(network).variables, {})
  config, _ = command_line.read(
    [
      'benchmark',
      f'--config={CONFIG}',
      '--config.data.source=npz',
      f'--config.data.npz.path={data}',
      '--config.data.num_images=0',
      f'--config.battery.heat_map.data.num_images={args.heat_map_images}',
      f'--config.classifier.name={network}',
      f'--config.classifier.weights={weights}',
      *changes,
    ]
  )
  assert config is not None
  return without_inherited(config.to_dict())


def alone(config: dict[str, Any], name: str) -> dict[str, Any]:
  """Returns the config that runs the task `name` of a battery's config as a single study."""
  single = copy.deepcopy(config)
  task = single.pop('battery')[name]
  data = merge_changes(single['data'], task.get('data', {}))
  return {**single, 'study': task['study'], 'data': data}


def recordings(experiment: Experiment, rows: OpenedRows) -> dict[str, tuple[Study, Rows]]:
  """Returns {task: (study, rows)} of the tasks that evaluate views.

  Of tasks that are computed from the same records only the first is listed.
  """
  recorded: dict[str, tuple[str, Study, Rows]] = {}
  for name, task in experiment.measurements.items():
    recording = measurement.recording_name(task.study, rows[task.data])
    recorded.setdefault(recording, (name, task.study, rows[task.data]))
  return {name: (study, task_rows) for name, study, task_rows in recorded.values()}


def run(configs: Sequence[dict[str, Any]], passes: int) -> subject.Candidate:
  """Returns (function that runs the experiments of `configs` in new workdirs, `passes`)."""

  def call() -> None:
    for config in configs:
      with tempfile.TemporaryDirectory() as folder:
        run_config(config, pathlib.Path(folder) / 'run')

  return call, passes


def candidates(
  config: dict[str, Any], sizes: Sequence[int], folder: pathlib.Path
) -> tuple[dict[str, subject.Candidate], dict[str, Work]]:
  """Returns what is timed, by label, and {task or 'battery': the network's computations it needs}.

  A label has (function, its number of passes). Timed are plain forward passes and gradients, each
  task that makes records, the battery, and its tasks one by one.
  """
  experiment = experiments.from_config(config)
  rows = OpenedRows(experiment)
  classifier = builder_for(experiment, rows, folder).build()[0]
  recorded = recordings(experiment, rows)
  works = {name: work_of(*recording) for name, recording in recorded.items()}
  total = sum(works.values(), Work())
  devices = parallel.create(experiment.execution.parallel)
  evaluators = {
    name: measurement.evaluator_for(experiment.execution, study, classifier, task_rows, devices)
    for name, (study, task_rows) in recorded.items()
  }
  images = rows[experiment.data].in_memory(2**31)
  assert isinstance(images, ArrayRows)
  images = dataclasses.replace(images, images=images.images.astype(np.float32) / 255)
  runner = next(iter(evaluators.values()))  # any: only its network and devices are used
  passes = max(1, min(4096, total[FORWARD]))
  by_size = {str(size): subject.forward(runner, images, size, passes) for size in sizes}
  best = int(timing.fastest(by_size))
  plain = {FORWARD: by_size[str(best)]}
  if total[GRADIENT]:
    plain[GRADIENT] = subject.gradient(runner, images, best, max(1, min(1024, total[GRADIENT])))
  evaluated = {
    name: subject.written(evaluators[name], task_rows) for name, (_, task_rows) in recorded.items()
  }
  tasks = [alone(config, name) for name in config['battery']['tasks']]
  runs = {BATTERY: run([config], total[FORWARD]), ONE_BY_ONE: run(tasks, total[FORWARD])}
  return {**plain, **evaluated, **runs}, {**works, BATTERY: total}


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints a row for each task, one for the battery, and how it compares with its tasks."""
  parser = subject.options(__doc__, networks=('resnet20',), images=200, rounds=3, clock=True)
  parser.add_argument('--sizes', type=int, nargs='+', default=list(SIZES), help='images a device')
  parser.add_argument('--heat_map_images', type=int, default=20)
  args, changes = parser.parse_known_args(arguments)
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder)
    timed, works = candidates(config_of(path, args, changes), args.sizes, path)
    runs = (BATTERY, ONE_BY_ONE)  # long ones, which are timed without a call before
    timings = timing.alternate(timed, args.rounds, timing.CLOCKS[args.clock], cold=runs)
  timing.print_table(
    {
      'task': name,
      'forward passes': work[FORWARD],
      'gradients': work[GRADIENT],
      'seconds': f'{np.median(timings.seconds[name]):.1f}',
      'ratio to plain passes': timing.describe_ratio(ratio_to_plain(work, timings, name)),
    }
    for name, work in works.items()
  )
  print(f'one by one: {np.median(timings.seconds[ONE_BY_ONE]):.1f} s')
  print(f'battery ÷ one by one: {timing.describe_ratio(timings.ratio(BATTERY, ONE_BY_ONE))}')


if __name__ == '__main__':
  subject.one_device_a_core()
  compilation_cache.use(None)
  main()
