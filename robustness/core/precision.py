"""32 bits in everything that a study or a training computes, whatever JAX's default is."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def in_32_bits() -> Iterator[None]:
  """Turns 64-bit types of JAX off inside of it; also a decorator, `@in_32_bits()`.

  With `JAX_ENABLE_X64=1` random draws have other values, and constants without a type are float64
  beside float32 images: loops over both fail. A function of a user, such as a classifier, computes
  in 32 bits too.
  """
  with jax.enable_x64(False):
    yield
