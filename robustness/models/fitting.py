"""Whether named arrays are the variables of a network: names, shapes, kinds and values."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

import flax.traverse_util
import ml_dtypes
import numpy as np

from robustness.core.errors import InputError
from robustness.models import catalog
from robustness.models.architecture import Architecture
from robustness.models.naming import HEAD_BIAS, Path, Scheme, Shape, Variables

_LISTED = 5
_FLOATS = tuple(np.dtype(d) for d in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16))
_log = logging.getLogger(__name__)


def restore(
  owner: str, expected: Mapping[Path, Shape], scheme: Scheme, arrays: Mapping[str, np.ndarray]
) -> Variables:
  """Returns variables of the expected shapes out of a file's arrays, float32.

  Args:
    owner: what has these variables, for messages.
    expected: the shape of every variable by its path.
    scheme: how the file names and lays them out.
    arrays: what the file holds.

  Raises:
    InputError: a name is missing or left over, a shape differs (the nearest architecture is named),
      or an array is not of a float type or not finite.
  """
  given = scheme.wanted(arrays)
  misfit = _difference(scheme.shapes(expected), {k: v.shape for k, v in given.items()})
  if misfit:
    raise InputError(
      f'the weights do not fit {owner}: {misfit} (names of {scheme.name}){_nearest(given)}'
    )
  converted = _as_float32(given)
  flat = {path: scheme.locate(path).restore(converted, shape) for path, shape in expected.items()}
  return flax.traverse_util.unflatten_dict(flat)


def first(names: Iterable[str]) -> str:
  """Returns the first few names, and '...' if there are more."""
  listed = list(names)
  return ', '.join(listed[:_LISTED]) + (', ...' if len(listed) > _LISTED else '')


def stored_classes(scheme: Scheme, arrays: Mapping[str, np.ndarray]) -> int | None:
  """Returns how many classes the arrays tell apart, by the head's bias; None if there is none."""
  bias = arrays.get(scheme.locate(HEAD_BIAS).names[0])
  return None if bias is None or bias.ndim != 1 else bias.size


def _difference(expected: Mapping[str, Shape], given: Mapping[str, Shape]) -> str:
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


def _as_float32(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns the arrays as float32; half and double precision are converted, which is logged."""
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


def _nearest(arrays: Mapping[str, np.ndarray]) -> str:
  """Returns a sentence that names the architecture the arrays fit best; '' if none is near.

  Only architectures are built whose head the arrays have, as building takes a second each.
  """
  shares = {
    name: max(_shares(arrays, architecture), default=0.0)
    for name, architecture in catalog.ARCHITECTURES.items()
  }
  best = max(shares, key=lambda name: shares[name])
  if shares[best] == 1:
    return f'. The names and shapes are those of {best!r}'
  if shares[best] > 0.5:
    return f'. The nearest architecture is {best!r}, with {int(100 * shares[best])}% in common'
  return ''


def _shares(arrays: Mapping[str, np.ndarray], architecture: Architecture) -> Iterator[float]:
  """Yields for every scheme |common| ÷ |all| of the arrays and the architecture's variables."""
  for scheme in architecture.schemes:
    if scheme.headless:
      classes = int(any(name.startswith(scheme.headless) for name in arrays))
    else:
      classes = stored_classes(scheme, arrays) or 0
    if classes:
      expected = scheme.shapes(architecture.shapes(classes)).items()
      given = {name: array.shape for name, array in scheme.wanted(arrays).items()}.items()
      yield len(expected & given) / len(expected | given)
