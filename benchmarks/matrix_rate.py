"""Precisions of an accelerator, its rate of matrix products in each, and a network's operations."""

import contextlib
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp

from benchmarks import subject
from robustness.models.classifier import Classifier

CHAIN = 8


PRECISIONS: Mapping[str, tuple[str, str]] = {
  'float32': ('float32', 'highest'),
  'tf32': ('float32', 'tensorfloat32'),
  'bfloat16': ('bfloat16', 'default'),
}
"""{name: (type of the arithmetic, as in `config.precision`; rounding of products of float32
matrices, as in `jax_default_matmul_precision`)}. float32 excludes TF32; tf32 is what JAX uses for
float32 on a GPU with TF32.
"""


@contextlib.contextmanager
def computing_in(precision: str) -> Iterator[str]:
  """Yields the dtype of `precision`, a key of `PRECISIONS`.

  Matrix products of functions that are traced inside the context are rounded as the precision says.
  """
  dtype, products = PRECISIONS[precision]
  with jax.default_matmul_precision(products):
    yield dtype


def product(size: int, dtype: str) -> subject.Candidate:
  """Returns (function that computes a chain of products of square matrices, number of operations).

  It runs on one device. Matrices are [size, size].
  """
  matrix = jax.random.normal(jax.random.key(0), (size, size)).astype(dtype)

  @jax.jit
  def chain(x: jax.Array) -> jax.Array:
    # the division keeps the values' deviation at 1
    step = lambda i, y: (x @ y) / size**0.5  # noqa: E731
    return jax.lax.fori_loop(0, CHAIN, step, x)

  return lambda: jax.block_until_ready(chain(matrix)), CHAIN * 2 * size**3


def devices() -> int:
  """Returns the factor from the rate of one `product` to the rate of all devices."""
  return jax.device_count() if jax.default_backend() != 'cpu' else 1


def operations(network: Classifier) -> float:
  """Returns floating-point operations of one forward pass of one image (a multiply-add is two).

  XLA counts them in the program for a CPU. For a GPU, JAX has a count only after compilation, and
  the count leaves out the convolutions that cuDNN runs.
  """
  shape = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)  # noqa: E731
  variables = jax.tree.map(shape, network.variables)
  image = jax.ShapeDtypeStruct((1, *network.input_shape), jnp.float32)
  with jax.default_device(jax.local_devices(backend='cpu')[0]):
    lowered = jax.jit(lambda w, x: network.forward(w, x, ())[0]).lower(variables, image)
    cost = lowered.cost_analysis()
  assert cost is not None, 'XLA counts no operations of this network'
  return float(cost['flops'])
