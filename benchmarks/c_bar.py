"""Milliseconds an image for each corruption of C-bar: ours ÷ the definition in NumPy, on one core.

python -m benchmarks.c_bar
python -m benchmarks.c_bar --corruptions lines ripple --images 4 --rounds 3

Ours is one compiled function; the other side is `c_bar_transcription`, image by image, with loops
over pixels where the released generator has them. The generator itself is not part of this project;
26 processor seconds a picture have been reported for its ten at 224 pixels, which the transcription
can be held against. Corruptions of ImageNet-C-bar are at 224 pixels, the other five at 32. Times
are the processor's, which other work on the machine lengthens little. The last lines are the sums
at each size and the geometric mean of the ratios.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import timing
from benchmarks.corruptions_against_packages import ours, pin

SEVERITY = 3


def draw_functions() -> dict[str, Callable]:
  """Returns what draws the random numbers of each corruption, `(key, side) -> {name: array}`."""
  from robustness.corruptions.catalog import CORRUPTIONS
  from robustness.corruptions.names import C_BAR

  def draws(name: str, key: Any, side: int) -> dict:
    own = CORRUPTIONS[name]
    constants = own.constants.get(side) or next(iter(own.constants.values()))
    return own.draw(key, (side, side, 3), constants) if own.draw else {}

  return {name: functools.partial(draws, name) for name in C_BAR}


def plain(draws: dict) -> dict[str, np.ndarray]:
  """Returns draws as NumPy arrays, numbers in float64."""
  arrays = {name: np.asarray(value) for name, value in draws.items()}
  return {
    name: value.astype(float) if value.dtype.kind == 'f' else value
    for name, value in arrays.items()
  }


def theirs(name: str, images: np.ndarray, magnitude: float) -> Callable[[], object]:
  """Returns a call that corrupts the images one by one by the transcription."""
  import jax

  from benchmarks.c_bar_transcription import FUNCTIONS

  draw = draw_functions()[name]
  drawn = [plain(draw(jax.random.key(n), images.shape[1])) for n in range(len(images))]
  return lambda: [
    FUNCTIONS[name](image, magnitude, own) for image, own in zip(images, drawn, strict=True)
  ]


def measure(name: str, count: int, rounds: int) -> tuple[int, float, float]:
  """Returns the side, and milliseconds an image of ours and of the transcription."""
  from robustness.corruptions.catalog import CORRUPTIONS

  by_side = CORRUPTIONS[name].constants
  side = 224 if 224 in by_side else 32
  images = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8)
  candidates = {
    'ours': (ours(name, images, SEVERITY), count),
    'theirs': (theirs(name, images[:1], by_side[side]['magnitude'][SEVERITY - 1]), 1),
  }
  timings = timing.alternate(candidates, rounds, timing.CLOCKS['processor'])
  return side, *(1000 / timings.rate(label) for label in candidates)


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table."""
  from robustness.corruptions.names import C_BAR

  parser = timing.options(__doc__, rounds=2)
  parser.add_argument('--images', type=int, default=8)
  parser.add_argument('--corruptions', nargs='*', default=C_BAR, choices=C_BAR)
  given = parser.parse_args(arguments)
  table = np.array([measure(name, given.images, given.rounds) for name in given.corruptions])
  sums = [(side, *table[table[:, 0] == side, 1:].sum(0)) for side in np.unique(table[:, 0])]
  names = [*given.corruptions, *('sum' for _ in sums)]
  lines = [
    [name, f'{side:.0f}', f'{own:.3g}', f'{other:.4g}', f'{other / own:.3g}']
    for name, (side, own, other) in zip(names, [*table, *sums], strict=True)
  ]
  mean = np.exp(np.log(table[:, 2] / table[:, 1]).mean())
  lines.append([f'geometric mean of {len(table)}', '', '', '', f'{mean:.3g}'])
  timing.print_table(('corruption', 'side', 'ours, ms', 'definition, ms', 'ratio'), lines)


if __name__ == '__main__':
  pin(1)
  main()
