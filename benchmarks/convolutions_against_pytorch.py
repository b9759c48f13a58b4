"""Rate of each convolution of a VGG by XLA and by PyTorch, beside the core's rate of products.

taskset -c 0 python -m benchmarks.convolutions_against_pytorch --clock processor

Where the forward pass is slower than PyTorch's, this says whether its convolutions are: XLA's CPU
compiler calls Eigen's, PyTorch with channels last those of oneDNN. Rates are Gflop a second (a
multiply-add is two operations). The last line is the time of all convolutions of VGG-16 together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import subject, timing

LAYERS = (
  (224, 3, 64, 1),
  (224, 64, 64, 1),
  (112, 64, 128, 1),
  (112, 128, 128, 1),
  (56, 128, 256, 1),
  (56, 256, 256, 2),
  (28, 256, 512, 1),
  (28, 512, 512, 2),
  (14, 512, 512, 3),
)
"""Of VGG-16: side, channels in and out, and how often; all of 3 × 3."""


def ours(images: np.ndarray, kernel: np.ndarray) -> Callable[[], object]:
  """Returns a call of XLA's convolution."""
  convolve = jax.jit(
    lambda x, k: jax.lax.conv_general_dilated(
      x, k, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
    )
  )
  arguments = jnp.asarray(images), jnp.asarray(kernel)
  return lambda: jax.block_until_ready(convolve(*arguments))


def theirs(images: np.ndarray, kernel: np.ndarray) -> Callable[[], object]:
  """Returns a call of PyTorch's, with channels last."""
  import torch

  def tensor(array: np.ndarray, order: tuple[int, ...]) -> Any:
    stored = torch.from_numpy(array.transpose(order).copy())
    return stored.contiguous(memory_format=torch.channels_last)

  x, weights = tensor(images, (0, 3, 1, 2)), tensor(kernel, (3, 2, 0, 1))

  def call() -> object:
    with torch.inference_mode():
      return torch.nn.functional.conv2d(x, weights, padding=1)

  return call


def product_rate(side: int, clock: timing.Clock) -> float:
  """Returns the rate of XLA's products of square matrices, operations a second."""
  matrix = jax.random.normal(jax.random.key(0), (side, side))
  multiply = jax.jit(lambda x: x @ x)
  candidates = {'': (lambda: jax.block_until_ready(multiply(matrix)), 2 * side**3)}
  return timing.alternate(candidates, 5, clock).rate('')


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table."""
  parser = timing.options(__doc__, rounds=5, clock=True)
  parser.add_argument('--images', type=int, default=2)
  parser.add_argument('--layers', type=int, default=len(LAYERS), help='the last ones')
  parser.add_argument('--matrix', type=int, default=2048, help='side of the matrices')
  given = parser.parse_args(arguments)
  clock, generator = timing.CLOCKS[given.clock], np.random.default_rng(0)
  peak, table, seconds = product_rate(given.matrix, clock), [], np.zeros(2)
  for side, inputs, outputs, times in LAYERS[-given.layers :]:
    images = generator.normal(size=(given.images, side, side, inputs)).astype(np.float32)
    kernel = generator.normal(size=(3, 3, inputs, outputs)).astype(np.float32)
    flop = 2.0 * 9 * images[..., 0].size * inputs * outputs
    candidates = {'ours': (ours(images, kernel), flop), 'theirs': (theirs(images, kernel), flop)}
    timings = timing.alternate(candidates, given.rounds, clock)
    rates = [timings.rate(name) for name in candidates]
    seconds += times * flop / np.array(rates)
    table.append(
      [
        f'{side} × {side}, {inputs} → {outputs}',
        times,
        *(f'{rate / 1e9:.0f}' for rate in rates),
        f'{rates[0] / peak:.2f}',
        timing.describe_ratio(timings.ratio(*candidates)),
      ]
    )
  milliseconds = [f'{1e3 * taken / given.images:.3g} ms' for taken in seconds]
  table.append(['all, an image', '', *milliseconds, '', f'{seconds[1] / seconds[0]:.3g}'])
  print(f'products of {given.matrix} × {given.matrix}: {peak / 1e9:.0f} Gflop/s')
  header = ('convolution', 'times', 'XLA, Gflop/s', 'PyTorch, Gflop/s', "XLA's share of products")
  timing.print_table((*header, 'ratio'), table)


if __name__ == '__main__':
  subject.one_device_a_core()
  import torch

  torch.set_num_threads(1)
  main()
