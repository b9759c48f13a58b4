"""32-bit arithmetic in studies and trainings, whatever JAX's default is."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def in_32_bits() -> Iterator[None]:
  """A context, or a decorator `@in_32_bits()`, that turns 64-bit types of JAX off.

  Without it, under `JAX_ENABLE_X64=1`, random draws have other values, and untyped constants are
  float64, which fails in loops over float32 images. Users' functions that are called inside, such
  as classifiers, also compute in 32 bits.
  """
  with jax.enable_x64(False):
    yield
