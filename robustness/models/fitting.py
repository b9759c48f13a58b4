"""Whether named arrays are the variables of a network: names, shapes, kinds and values."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping

import flax.traverse_util
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from robustness.core.errors import InputError
from robustness.models.architecture import Architecture
from robustness.models.naming import Path, Shape

_LISTED = 5
_FLOATS = tuple(np.dtype(d) for d in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16))
_log = logging.getLogger(__name__)


class MisfitError(InputError):
  """Arrays whose names or shapes are not those of a network's variables."""


def linen_shapes(
  architecture: Architecture, num_classes: int, input_shape: Shape | None = None
) -> dict[Path, Shape]:
  """Returns the shape of every variable of a network by its path, without computing any.

  Args:
    architecture: the network.
    num_classes: number of logits.
    input_shape: height, width and channels of the images; None takes the architecture's.
  """
  return _linen_shapes(architecture, num_classes, input_shape or architecture.input_shape)


@functools.lru_cache(maxsize=64)
def _linen_shapes(
  architecture: Architecture, num_classes: int, input_shape: Shape
) -> dict[Path, Shape]:
  image = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
  module = architecture.build(num_classes)
  tree = jax.eval_shape(module.init, jax.random.key(0), image)
  return {path: leaf.shape for path, leaf in flax.traverse_util.flatten_dict(tree).items()}


def difference(expected: Mapping[str, Shape], given: Mapping[str, Shape]) -> str:
  """Returns which names are missing, unexpected or of another shape; '' if none is."""
  missing = [name for name in expected if name not in given]
  unexpected = [name for name in given if name not in expected]
  wrong = [
    f'{name} is {given[name]}, not {shape}'
    for name, shape in expected.items()
    if name in given and given[name] != shape
  ]
  parts = (('missing', missing), ('unexpected', unexpected), ('of another shape', wrong))
  return '; '.join(f'{len(n)} {what}: {first(n)}' for what, n in parts if n)


def first(names: Iterable[str]) -> str:
  """Returns the first few names, and '...' if there are more."""
  listed = list(names)
  return ', '.join(listed[:_LISTED]) + (', ...' if len(listed) > _LISTED else '')


def check_classes(architecture: Architecture, stored: int | None, requested: int | None) -> None:
  """Compares the number of classes of the weights with what is asked for; None is any.

  Raises:
    InputError: they differ.
  """
  if None in (stored, requested) or stored == requested:
    return
  raise InputError(
    f'the weights of {architecture.name} tell {stored} classes apart, and {requested} were asked'
    f' for: set num_classes to {stored}, or give weights trained on {requested} classes'
  )


def as_float32(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns the arrays as float32; half and double precision are converted, which is logged.

  Raises:
    InputError: an array is of another kind than float, or holds NaN or infinity.
  """
  other = {name: value.dtype for name, value in given.items() if value.dtype not in _FLOATS}
  if other:
    raise InputError(
      f'weights are floats; {len(other)} tensors are not: '
      f'{first(f"{name} is {dtype}" for name, dtype in other.items())}'
    )
  converted = sorted({str(v.dtype) for v in given.values() if v.dtype != np.float32})
  if converted:
    _log.warning('weights stored as %s were converted to float32', ', '.join(converted))
  with np.errstate(over='ignore', invalid='ignore'):
    arrays = {name: value.astype(np.float32, copy=False) for name, value in given.items()}
  broken = [name for name, value in arrays.items() if not np.isfinite(value).all()]
  if broken:
    raise InputError(f'{len(broken)} tensors hold NaN or infinity: {first(broken)}')
  return arrays
