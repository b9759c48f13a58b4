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

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.corruptions_against_packages import ours, pin


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


def measure(name: str, arguments: argparse.Namespace) -> tuple[int, float, float]:
  """Returns the side, and milliseconds an image of ours and of the transcription."""
  from benchmarks import timing
  from robustness.corruptions.catalog import CORRUPTIONS

  by_side = CORRUPTIONS[name].constants
  side = 224 if 224 in by_side else 32
  shape = (arguments.images, side, side, 3)
  images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
  few = images[: arguments.peer_images]
  candidates = {
    'ours': (ours(name, images, arguments.severity), len(images)),
    'theirs': (theirs(name, few, by_side[side]['magnitude'][arguments.severity - 1]), len(few)),
  }
  timings = timing.alternate(candidates, arguments.rounds, timing.CLOCKS['processor'])
  return side, *(1000 / timings.rate(label) for label in candidates)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
  """Reads the command line."""
  from robustness.corruptions.names import C_BAR

  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--images', type=int, default=8)
  parser.add_argument('--peer_images', type=int, default=1)
  parser.add_argument('--severity', type=int, default=3)
  parser.add_argument('--rounds', type=int, default=2)
  parser.add_argument('--corruptions', nargs='*', default=C_BAR, choices=C_BAR)
  return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
  """Prints the table."""
  arguments = parse(words)
  print('| corruption | side | ours, ms | definition, ms | ratio |\n|---|---|---|---|---|')
  rows = []
  for name in arguments.corruptions:
    side, own, other = measure(name, arguments)
    rows.append((side, own, other))
    print(f'| {name} | {side} | {own:.3g} | {other:.4g} | {other / own:.3g} |', flush=True)
  table = np.array(rows)
  for side in np.unique(table[:, 0]):
    own, other = table[table[:, 0] == side, 1:].sum(0)
    print(f'| sum | {side:.0f} | {own:.3g} | {other:.4g} | {other / own:.3g} |')
  mean = np.exp(np.log(table[:, 2] / table[:, 1]).mean())
  print(f'| geometric mean of {len(table)} | | | | {mean:.3g} |')


if __name__ == '__main__':
  pin(1)
  main()
