"""32-bit arithmetic in studies and trainings, whatever JAX's default is."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def in_32_bits() -> Iterator[None]:
  """A context manager or decorator that turns off JAX's 64-bit types.

  With `JAX_ENABLE_X64=1`, random numbers would differ, and untyped float64 constants would fail in
  loops over float32 images. Users' functions called inside, such as classifiers, compute in 32 bits
  too.
  """
  with jax.enable_x64(False):
    yield
