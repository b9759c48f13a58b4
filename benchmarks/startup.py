"""The time of each part of the default experiment, in a first and in a second run.

python -m benchmarks.startup

Each run is a new process with a new workdir. The first begins with an empty compilation cache,
the second with the programs of the first. `compiling` includes tracing and lowering and is taken
out of the parts in which it happens. `processor` counts the seconds of all threads, which other
work on the machine lengthens little. Ratios are second run ÷ first. `--config.KEY=VALUE` changes
the experiment.
"""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import timing

CONFIG = 'configs/fourier_heatmap.py'
COMPILING = '/jax/core/compile/'
PARTS = ('imports', 'compiling', 'training', 'evaluation', 'report')
ROWS = (*PARTS, 'first training step', 'whole run', 'processor')


class Stopwatch:
  """Seconds of parts that do not overlap; compiling is taken out of the part it happens in."""

  def __init__(self) -> None:
    self.seconds = dict.fromkeys(ROWS, 0.0)

  def compiled(self, event: str, duration: float, **unused: Any) -> None:
    """Adds the seconds of a compilation; `jax.monitoring` calls this for every kind of event."""
    if event.startswith(COMPILING):
      self.seconds['compiling'] += duration

  def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `function`; its calls add their seconds, less compiling, to `self.seconds[part]`."""

    def call(*arguments: Any, **keywords: Any) -> Any:
      start, compiling = time.time(), self.seconds['compiling']
      try:
        return function(*arguments, **keywords)
      finally:
        inside = self.seconds['compiling'] - compiling
        self.seconds[part] += time.time() - start - inside

    return call


def watched(start: float, workdir: str, cache: str, changes: Sequence[str]) -> dict[str, float]:
  """Returns the seconds of each part of the default experiment, which is run in this process.

  The parts' functions are replaced by others that also take the time.

  Args:
    start: `time.time()` at which the process was started.
    workdir: new folder for the results.
    cache: folder of the compilation cache.
    changes: further arguments of the command, such as '--config.KEY=VALUE'.
  """
  import jax
  from absl import logging

  from robustness import launch, measurement
  from robustness.building.builder import ClassifierBuilder
  from robustness.cli import command_line, running
  from robustness.training.loop import Meter

  logging.use_absl_handler()  # the run filters its lines, as in main.py
  watch = Stopwatch()
  watch.seconds['imports'] = time.time() - start
  jax.monitoring.register_event_duration_secs_listener(watch.compiled)
  add = Meter.add

  # the meter of training is called after each step: the first call ends the first step
  def first_step(*arguments: Any, **keywords: Any) -> None:
    if not watch.seconds['first training step']:
      watch.seconds['first training step'] = time.time() - start
    add(*arguments, **keywords)

  Meter.add = first_step  # type: ignore[method-assign]
  build = watch.timed('training', ClassifierBuilder.build)
  ClassifierBuilder.build = build  # type: ignore[method-assign]
  measurement._record_answers = watch.timed('evaluation', measurement._record_answers)
  launch.write_results = watch.timed('report', launch.write_results)
  config, _ = command_line.read(['', f'--config={CONFIG}', *changes])
  assert running.run_command(config, workdir, 'benchmark', compiled=cache) == 0
  watch.seconds['whole run'] = time.time() - start
  watch.seconds['processor'] = time.process_time()
  return watch.seconds


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the seconds of each part in a first and in a second run, each in a new process."""
  parser = timing.options(__doc__)
  parser.add_argument('--only', nargs=3, help='one run in this process; prints JSON')
  args, changes = parser.parse_known_args(arguments)
  if args.only:
    start, workdir, cache = args.only
    print(json.dumps(watched(float(start), workdir, cache, changes)))
    return
  with tempfile.TemporaryDirectory() as folder:
    first, second = (
      timing.in_fresh_process(
        *('startup', '--only', str(time.time()), f'{folder}/{name}', f'{folder}/compiled'), *changes
      )
      for name in ('first', 'second')
    )
  timing.print_table(
    {
      'seconds of': name,
      'first run': f'{first[name]:.1f}',
      'second run': f'{second[name]:.1f}',
      'ratio': f'{second[name] / first[name]:.2f}',
    }
    for name in ROWS
  )


if __name__ == '__main__':
  main()
