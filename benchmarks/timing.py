"""The timing loop: candidates take turns, after a warm-up; medians and ratios within a round.

The clock is the wall's, or the processor's: seconds of all threads of this process, which other
work on the machine lengthens little. The command lines of the benchmarks begin with `options`.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
Ratio = tuple[float, float, float]
Clock = Callable[[], float]
CLOCKS: Mapping[str, Clock] = {'wall': time.perf_counter, 'processor': time.process_time}


def options(doc: str, rounds: int = 0, clock: bool = False) -> argparse.ArgumentParser:
  """Returns a parser that prints a benchmark's docstring as its help.

  Args:
    doc: the docstring.
    rounds: default of `--rounds`; 0 leaves the option out.
    clock: whether `--clock`, a name in `CLOCKS`, is an option.
  """
  parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
  if rounds:
    parser.add_argument('--rounds', type=int, default=rounds)
  if clock:
    parser.add_argument('--clock', choices=list(CLOCKS), default='wall')
  return parser


@dataclasses.dataclass(frozen=True)
class Timings:
  """Times of all candidates in all rounds.

  Attributes:
    seconds: for each candidate, the time of every round.
    work: for each candidate, the units (forward passes, say) that one call does.
  """

  seconds: Mapping[str, Sequence[float]]
  work: Mapping[str, float]

  def rates(self, name: str) -> np.ndarray:
    """Units a second in every round."""
    return self.work[name] / np.asarray(self.seconds[name])

  def rate(self, name: str) -> float:
    """Median of units a second."""
    return float(np.median(self.rates(name)))

  def ratio(self, name: str, reference: str) -> Ratio:
    """Rate of one candidate ÷ rate of another in the same round: median, lowest, highest."""
    return spread(self.rates(name) / self.rates(reference))


def seconds(call: Callable[[], object], clock: Clock = time.perf_counter) -> float:
  """Returns the time of one call."""
  start = clock()
  call()
  return clock() - start


def alternate(
  candidates: Mapping[str, tuple[Callable[[], object], float]],
  rounds: int,
  clock: Clock = time.perf_counter,
  cold: Collection[str] = (),
) -> Timings:
  """Times candidates one after another in rounds, so that a slow spell of the machine hits all.

  Args:
    candidates: {name: (function that returns when its work is done, units of work of a call)}.
    rounds: number of timed calls of each candidate, after a call that is not timed.
    clock: function that returns the time in seconds.
    cold: names of candidates, such as long ones, without the call that is not timed.
  """
  for name, (call, _) in candidates.items():
    if name not in cold:
      call()
  taken: dict[str, list[float]] = {name: [] for name in candidates}
  for index in range(rounds):
    order = list(candidates)
    for name in order if index % 2 == 0 else reversed(order):
      taken[name].append(seconds(candidates[name][0], clock))
  return Timings(taken, {name: work for name, (_, work) in candidates.items()})


def fastest(
  candidates: Mapping[str, tuple[Callable[[], object], float]],
  rounds: int = 2,
  clock: Clock = time.perf_counter,
) -> str:
  """Returns the name of the candidate with the highest rate, in units of work per second."""
  timings = alternate(candidates, rounds, clock)
  return max(candidates, key=timings.rate)


def spread(ratios: np.ndarray) -> Ratio:
  """Returns median, lowest and highest of the ratios of all rounds."""
  return float(np.median(ratios)), float(ratios.min()), float(ratios.max())


def describe_ratio(ratio: Ratio) -> str:
  """Writes a ratio as `0.95 (0.93 to 0.97)`: median and range over the rounds."""
  return f'{ratio[0]:.3g} ({ratio[1]:.3g} to {ratio[2]:.3g})'


def in_fresh_process(module: str, *arguments: str) -> Any:
  """Runs the benchmark `module` in a new interpreter; returns its last line, read as JSON."""
  command = [sys.executable, '-m', f'benchmarks.{module}', *arguments]
  process = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
  return json.loads(process.stdout.splitlines()[-1])


def print_table(rows: Iterable[Mapping[str, object]]) -> None:
  """Prints rows {head of the column: cell}, all with the same heads, as a table in Markdown."""
  rows = list(rows)
  heads_and_cells = (*rows[:1], *(row.values() for row in rows))
  lines = [[str(cell) for cell in line] for line in heads_and_cells]
  widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
  lines.insert(1, ['-' * width for width in widths])
  for line in lines:
    cells = (f'{cell:{width}}' for cell, width in zip(line, widths, strict=True))
    print(f'| {" | ".join(cells)} |', flush=True)
