"""Forward and heat-map throughput on an accelerator, against the chip's measured matrix rate.

python -m benchmarks.gpu_throughput

Random images, no TensorFlow. The matrix rate is that of the best of several square products in the
same precision, timed in the same run; a network's operations a forward pass are XLA's count of its
unoptimised program. On a CPU it runs too: --images 64 --frequencies 8 --networks resnet20
--sizes 32 --matrices 512.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from benchmarks import subject, timing
from robustness.models.classifier import Classifier
from robustness.studies.fourier_heatmap import Study

NETWORKS = ('resnet20', 'wide_resnet_28_10')
PRECISIONS = ('float32', 'bfloat16')
SIZES = (256, 512, 1024, 2048)
MATRICES = (4096, 8192)
CHAIN = 8


def operations(network: Classifier) -> float:
  """Returns floating-point operations of one forward pass of one image (a multiply-add is two)."""
  image = jax.ShapeDtypeStruct((1, *network.input_shape), jnp.float32)
  lowered = jax.jit(lambda w, x: network.forward(w, x, ())[0]).lower(network.variables, image)
  cost = lowered.cost_analysis()
  assert cost is not None, 'XLA counts no operations for this device'
  return float(cost['flops'])


def product(size: int, precision: str) -> subject.Candidate:
  """Returns a chain of products of square matrices on one device, and its operations."""
  matrix = jax.random.normal(jax.random.key(0), (size, size)).astype(precision)

  @jax.jit
  def chain(x: jax.Array) -> jax.Array:
    step = lambda i, y: (x @ y) / size**0.5  # noqa: E731
    return jax.lax.fori_loop(0, CHAIN, step, x)

  return functools.partial(_wait, chain, matrix), CHAIN * 2 * size**3


def _wait(call: jax.stages.Wrapped, *arguments: jax.Array) -> None:
  jax.block_until_ready(call(*arguments))


def measure(
  name: str,
  precision: str,
  weights: str,
  data: str,
  images: int,
  frequencies: int,
  rounds: int,
  sizes: Sequence[int],
  matrices: Sequence[int],
) -> list[object]:
  """Returns the row of one network in one precision; the matrix rate is that of all devices."""
  network = subject.classifier(name, weights, precision=precision)
  rows = subject.rows(network.input_shape, images, data)
  evaluator = subject.evaluator(network, Study(), frequencies)
  passes = images * (frequencies + 1)
  heat_maps = {
    str(size): subject.discarded(evaluator, rows, size * evaluator.parallel.num_devices)
    for size in sizes
  }
  heat_maps['default'] = subject.discarded(evaluator, rows)
  forwards = subject.forwards(evaluator, rows, sizes, passes)
  products = {str(size): product(size, precision) for size in matrices}
  candidates = {
    'forward': forwards[(best := timing.fastest(forwards))],
    'heat map': heat_maps['default'],
    'best': heat_maps[(batch := timing.fastest(heat_maps))],
    'matrices': products[timing.fastest(products)],
  }
  timings = timing.alternate(candidates, rounds)
  devices = evaluator.parallel.num_devices if jax.default_backend() != 'cpu' else 1
  peak, each = timings.rate('matrices') * devices, operations(network)
  return [
    name,
    precision,
    best.split()[1],
    f'{timings.rate("forward"):.0f}',
    f'{timings.rate("heat map"):.0f}',
    timing.describe_ratio(timings.ratio('heat map', 'forward')),
    f'{timing.describe_ratio(timings.ratio("best", "forward"))} at {batch}',
    f'{each / 1e6:.1f}',
    f'{peak / 1e12:.3g}',
    f'{timings.rate("forward") * each / peak:.3f}',
    f'{timings.rate("heat map") * each / peak:.3f}',
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  parser = subject.options(__doc__, networks=NETWORKS, images=2048, frequencies=31, rounds=3)
  parser.add_argument('--sizes', type=int, nargs='+', default=list(SIZES), help='images a device')
  parser.add_argument('--precisions', nargs='+', default=list(PRECISIONS))
  parser.add_argument('--matrices', type=int, nargs='+', default=list(MATRICES), help='sides')
  given = parser.parse_args(arguments)
  print(', '.join(sorted({device.device_kind for device in jax.devices()})))
  timing.print_table(
    (
      'network',
      'precision',
      'best batch a device',
      'forward, images/s',
      'heat map, images/s',
      'ratio',
      'ratio at the best batch',
      'Mflop a pass',
      'matrix rate, Tflop/s',
      "forward's share of it",
      "heat map's share of it",
    ),
    [
      measure(
        name,
        precision,
        given.weights,
        given.data,
        given.images,
        given.frequencies,
        given.rounds,
        given.sizes,
        given.matrices,
      )
      for name in given.networks
      for precision in given.precisions
    ],
  )


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
