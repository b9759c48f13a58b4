"""Where the time of the default experiment goes, in its first run and in one in a new workdir.

python -m benchmarks.startup

Each run is a process of its own; the first begins with an empty compilation cache, the second with
what the first left there. `compiling` holds tracing and lowering too and is taken out of the parts
in which it happens. `processor` counts the seconds of all threads, which other work on the machine
lengthens little. Ratios are second run ÷ first. `--config.KEY=VALUE` changes the experiment.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import timing

CONFIG = 'configs/fourier_heatmap.py'
COMPILING = '/jax/core/compile/'
ROWS = (
  'imports',
  'compiling',
  'training',
  'evaluation',
  'report',
  'first training step',
  'whole run',
  'processor',
)


class Stopwatch:
  """Seconds of parts that do not overlap; compiling is taken out of the part it happens in."""

  def __init__(self) -> None:
    self.seconds = dict.fromkeys(ROWS, 0.0)

  def compiled(self, event: str, duration: float, **unused: Any) -> None:
    """Adds an event of `jax.monitoring`."""
    if event.startswith(COMPILING):
      self.seconds['compiling'] += duration

  def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function, its time without compiling added to a part."""

    def call(*arguments: Any, **more: Any) -> Any:
      begun, compiling = time.time(), self.seconds['compiling']
      try:
        return function(*arguments, **more)
      finally:
        inside = self.seconds['compiling'] - compiling
        self.seconds[part] += time.time() - begun - inside

    return call


def watched(begun: float, workdir: str, cache: str, changes: Sequence[str]) -> dict[str, float]:
  """Runs the default experiment in this process, which was started at `begun`."""
  import jax
  from absl import logging

  from robustness import measure
  from robustness import run as launch
  from robustness.building.builder import ClassifierBuilder
  from robustness.cli import command_line, running
  from robustness.training.loop import Meter

  logging.use_absl_handler()  # the run filters its lines, as in main.py
  watch = Stopwatch()
  watch.seconds['imports'] = time.time() - begun
  jax.monitoring.register_event_duration_secs_listener(watch.compiled)
  add = Meter.add

  def first_step(*arguments: Any, **more: Any) -> None:
    watch.seconds['first training step'] = watch.seconds['first training step'] or (
      time.time() - begun
    )
    add(*arguments, **more)

  Meter.add = first_step  # type: ignore[method-assign]
  build = watch.timed('training', ClassifierBuilder.build)
  ClassifierBuilder.build = build  # type: ignore[method-assign]
  measure._recorded = watch.timed('evaluation', measure._recorded)
  launch.write_results = watch.timed('report', launch.write_results)
  config, _ = command_line.read(['', f'--config={CONFIG}', *changes])
  assert running.run_command(config, workdir, 'benchmark', compiled=cache) == 0
  watch.seconds['whole run'] = time.time() - begun
  watch.seconds['processor'] = time.process_time()
  return watch.seconds


def main(arguments: Sequence[str] | None = None) -> None:
  parser = timing.options(__doc__)
  parser.add_argument('--only', nargs=3, help='one run in this process; prints JSON')
  given, changes = parser.parse_known_args(arguments)
  if given.only:
    begun, workdir, cache = given.only
    print(json.dumps(watched(float(begun), workdir, cache, changes)))
    return
  with tempfile.TemporaryDirectory() as folder:
    first, second = (
      timing.in_fresh_process(
        *('startup', '--only', str(time.time()), f'{folder}/{name}', f'{folder}/compiled'), *changes
      )
      for name in ('first', 'second')
    )
  timing.print_table(
    ['seconds of', 'first run', 'second run', 'ratio'],
    [
      [name, f'{first[name]:.1f}', f'{second[name]:.1f}', f'{second[name] / first[name]:.2f}']
      for name in ROWS
    ],
  )


if __name__ == '__main__':
  main()
