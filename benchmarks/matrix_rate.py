"""Precisions of an accelerator, its rate of matrix products in each, and a network's operations."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from benchmarks import subject
from robustness.models.classifier import Classifier

CHAIN = 8


class Precision(NamedTuple):
  """What a network is computed in.

  Attributes:
    dtype: `config.precision`, that of its arithmetic.
    products: `jax_default_matmul_precision`, how products of float32 matrices are rounded.
  """

  dtype: str
  products: str


PRECISIONS: Mapping[str, Precision] = {
  'float32': Precision('float32', 'highest'),
  'tf32': Precision('float32', 'tensorfloat32'),
  'bfloat16': Precision('bfloat16', 'default'),
}
"""float32 is without TF32, and tf32 with it, which JAX takes for float32 where a GPU has it."""


@contextlib.contextmanager
def computing_in(precision: str) -> Iterator[str]:
  """Has everything that is traced inside computed in one of `PRECISIONS`; gives its dtype."""
  chosen = PRECISIONS[precision]
  with jax.default_matmul_precision(chosen.products):
    yield chosen.dtype


def product(size: int, dtype: str) -> subject.Candidate:
  """Returns a chain of products of square matrices on one device, and its operations."""
  matrix = jax.random.normal(jax.random.key(0), (size, size)).astype(dtype)

  @jax.jit
  def chain(x: jax.Array) -> jax.Array:
    step = lambda i, y: (x @ y) / size**0.5  # noqa: E731
    return jax.lax.fori_loop(0, CHAIN, step, x)

  return functools.partial(_wait, chain, matrix), CHAIN * 2 * size**3


def _wait(call: jax.stages.Wrapped, *arguments: jax.Array) -> None:
  jax.block_until_ready(call(*arguments))


def devices() -> int:
  """Returns by how many the rate of one `product` is multiplied for that of all devices."""
  return jax.device_count() if jax.default_backend() != 'cpu' else 1


def operations(network: Classifier) -> float:
  """Returns floating-point operations of one forward pass of one image (a multiply-add is two).

  XLA counts them of the program for a CPU; of one for a GPU JAX gives no count before it is
  compiled, and then without the convolutions that cuDNN runs.
  """
  shape = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)  # noqa: E731
  variables = jax.tree.map(shape, network.variables)
  image = jax.ShapeDtypeStruct((1, *network.input_shape), jnp.float32)
  with jax.default_device(jax.local_devices(backend='cpu')[0]):
    lowered = jax.jit(lambda w, x: network.forward(w, x, ())[0]).lower(variables, image)
    cost = lowered.cost_analysis()
  assert cost is not None, 'XLA counts no operations of this network'
  return float(cost['flops'])
