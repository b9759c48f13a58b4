"""Ways to write the same operation on an accelerator, side by side.

  python -m benchmarks.gpu_alternatives --json gpu.jsonl

Each pair is what the project does and what it could do:

  depthwise: the sum of shifts that was chosen for CPUs ÷ XLA's grouped convolution, on layers of
    EfficientNet-Lite0;
  layout: a convolution with channels last, as all networks here, ÷ with channels first;
  bits: normal draws from a Threefry key for each row, as every perturbation's, ÷ from XLA's own
    generator, which would tie numbers to the device;
  transfer: a block of rows to the device as uint8 ÷ as float32.

float32 is without TF32, tf32 with it. On a CPU, small: --batch 2 --rounds 1 --precisions float32.
"""

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import subject, timing
from benchmarks.matrix_rate import PRECISIONS, computing_in
from robustness.models.layers import DepthwiseConv

DEPTHWISE = ((112, 32, 3), (56, 144, 5), (28, 240, 3), (14, 672, 5), (7, 1152, 3))
LAYERS = ((32, 16, 3), (32, 160, 3), (56, 64, 3), (56, 64, 1), (14, 1024, 1))
SHAPES = ((32, 32, 3), (224, 224, 3))
Pair = tuple[Callable[[], object], Callable[[], object]]


def drawn(*shape: int, dtype: Any = jnp.float32) -> jax.Array:
  """Returns normal values."""
  return jax.random.normal(jax.random.key(0), shape).astype(dtype)


def call(function: Callable[..., Any], *arguments: Any) -> Callable[[], object]:
  """Returns a function that computes `function(*arguments)`, compiled, and waits for the result."""
  compiled = jax.jit(function)
  return lambda: jax.block_until_ready(compiled(*arguments))


def convolution(x: jax.Array, kernel: jax.Array, layout: str, groups: int = 1) -> jax.Array:
  """Returns a convolution that keeps the size; `layout` is NHWC or NCHW."""
  return jax.lax.conv_general_dilated(
    x,
    kernel,
    (1, 1),
    'SAME',
    dimension_numbers=(layout, 'HWIO', layout),
    feature_group_count=groups,
  )


def depthwise(size: tuple[int, int, int], dtype: Any, batch: int) -> Pair:
  """Returns two functions that compute a depthwise convolution of `batch` images.

  The first sums shifted images (`DepthwiseConv`), the second is XLA's grouped convolution. `size`
  is (side of the images, channels, side of the kernel).
  """
  side, channels, kernel = size
  x, weights = drawn(batch, side, side, channels, dtype=dtype), drawn(kernel, kernel, 1, channels)
  shifts = DepthwiseConv(kernel, 1, dtype)
  grouped = functools.partial(convolution, layout='NHWC', groups=channels)
  return (
    call(lambda x, w: shifts.apply({'params': {'kernel': w}}, x), x, weights),
    call(grouped, x, weights.astype(dtype)),
  )


def layout(size: tuple[int, int, int], dtype: Any, batch: int) -> Pair:
  """Returns two functions that compute a convolution with channels last and with channels first.

  `size` is (side of the `batch` images, channels, side of the kernel).
  """
  side, channels, kernel = size
  x = drawn(batch, side, side, channels, dtype=dtype)
  weights = drawn(kernel, kernel, channels, channels, dtype=dtype)
  first = jnp.moveaxis(x, -1, 1)
  return (
    call(functools.partial(convolution, layout='NHWC'), x, weights),
    call(functools.partial(convolution, layout='NCHW'), first, weights),
  )


def bits(shape: tuple[int, int, int], dtype: Any, batch: int) -> Pair:
  """Returns functions that draw a normal array for each row, by Threefry and by XLA's generator."""

  def draws(key: jax.Array) -> jax.Array:
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(jnp.arange(batch))
    return jax.vmap(lambda key: jax.random.normal(key, shape))(keys)

  kinds = ('threefry2x32', 'rbg')
  threefry, rbg = (call(draws, jax.random.key(0, impl=kind)) for kind in kinds)
  return threefry, rbg


def transfer(shape: tuple[int, int, int], dtype: Any, batch: int) -> Pair:
  """Returns functions that copy `batch` images to the device as uint8, and as float32."""
  levels = np.random.default_rng(0).integers(0, 256, (batch, *shape), np.uint8)
  floats = levels.astype(np.float32) / 255

  def put(images: np.ndarray) -> Callable[[], object]:
    return lambda: jax.block_until_ready(jax.device_put(images))

  return put(levels), put(floats)


KINDS = {
  'depthwise': (depthwise, DEPTHWISE, 'sum of shifts', 'grouped convolution'),
  'layout': (layout, LAYERS, 'channels last', 'channels first'),
  'bits': (bits, SHAPES, 'Threefry', 'rbg'),
  'transfer': (transfer, SHAPES, 'uint8', 'float32'),
}
"""The kinds, each with its pair, the sizes, and the names of the first and the second function."""
ONE_PRECISION = ('bits', 'transfer')


def measure(kind: str, size: tuple[int, ...], precision: str, args: Any) -> dict[str, Any]:
  """Returns the microseconds a row of two ways to compute the same, and the ratio of their rates.

  Args:
    kind: a key of `KINDS`; its entry has the function that makes the two, and their names.
    size: one of the kind's sizes, such as (side, channels, kernel).
    precision: a key of `PRECISIONS`.
    args: options of the command: `batch`, the number of rows, and `rounds`.
  """
  pair, _, *names = KINDS[kind]
  with computing_in(precision) as dtype:
    calls = dict(zip(names, pair(size, jnp.dtype(dtype), args.batch), strict=True))
    timings = timing.alternate(
      {name: (call, args.batch) for name, call in calls.items()}, args.rounds
    )
  return {
    'kind': kind,
    'size': list(size),
    'precision': precision,
    'microseconds': {name: 1e6 / timings.rate(name) for name in names},
    'ratio': timings.ratio(*names),
  }


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the time of our way and of another way to compute the same, for each kind and size."""
  parser = timing.options(__doc__, rounds=10)
  precisions = list(PRECISIONS)
  parser.add_argument('--precisions', nargs='+', default=precisions, choices=precisions)
  parser.add_argument('--batch', type=int, default=128)
  parser.add_argument('--json', default='', help='file to which a line is added for each row')
  args = parser.parse_args(arguments)
  device = {'device': jax.devices()[0].device_kind, 'jax': jax.__version__}
  print(f'{device["device"]}, JAX {device["jax"]}', flush=True)
  table = []
  for kind in KINDS:
    _, sizes, *_ = KINDS[kind]
    for size in sizes:
      # kinds that do not depend on the precision are measured once
      for precision in args.precisions[:1] if kind in ONE_PRECISION else args.precisions:
        line = measure(kind, size, precision, args)
        ours, other = (f'{name}: {value:.4g}' for name, value in line['microseconds'].items())
        setting = {'kind': kind, 'size': ' × '.join(map(str, size)), 'precision': precision}
        times = {'ours, µs a row': ours, 'other, µs a row': other}
        table.append({**setting, **times, 'ratio': timing.describe_ratio(line['ratio'])})
        print(*table[-1].values(), flush=True)
        if args.json:
          with open(args.json, 'a') as file:
            file.write(f'{json.dumps({**device, **line})}\n')
  timing.print_table(table)


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
