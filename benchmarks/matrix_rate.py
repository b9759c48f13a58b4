"""Precisions of an accelerator, its rate of matrix products in each, and a network's operations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from benchmarks import subject
from robustness.models.classifier import Classifier

CHAIN = 8


class Precision(NamedTuple):
  """A precision of a network's computation.

  Attributes:
    dtype: type of the arithmetic, 'float32' or 'bfloat16', as in `config.precision`.
    products: rounding of products of float32 matrices, a value of `jax_default_matmul_precision`.
  """

  dtype: str
  products: str


PRECISIONS: Mapping[str, Precision] = {
  'float32': Precision('float32', 'highest'),
  'tf32': Precision('float32', 'tensorfloat32'),
  'bfloat16': Precision('bfloat16', 'default'),
}
"""float32 excludes TF32; tf32 is what JAX uses for float32 on a GPU with TF32."""


@contextlib.contextmanager
def computing_in(precision: str) -> Iterator[str]:
  """Yields the dtype of `precision`, a key of `PRECISIONS`.

  Matrix products of functions that are traced inside the context are rounded as the precision says.
  """
  settings = PRECISIONS[precision]
  with jax.default_matmul_precision(settings.products):
    yield settings.dtype


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
