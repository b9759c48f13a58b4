"""Which architecture some arrays are the weights of, for the message that they do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from robustness.models import catalog, fitting
from robustness.models.architecture import Architecture
from robustness.models.naming import HEAD_BIAS, Scheme


def phrase(arrays: Mapping[str, np.ndarray]) -> str:
  """Returns a sentence that names the architecture the arrays fit best; '' if none is near.

  Only architectures are built whose head the arrays have, as building takes a second each.

  Args:
    arrays: what a weights file holds.
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
    num_classes = _num_classes(arrays, scheme)
    if num_classes:
      expected = scheme.shapes(fitting.linen_shapes(architecture, num_classes)).items()
      given = {name: array.shape for name, array in scheme.wanted(arrays).items()}.items()
      yield len(expected & given) / len(expected | given)


def _num_classes(arrays: Mapping[str, np.ndarray], scheme: Scheme) -> int:
  """Returns the length of the head's bias; 0 if the arrays have none that they should have."""
  if scheme.headless:
    return int(any(name.startswith(scheme.headless) for name in arrays))
  bias = arrays.get(scheme.locate(HEAD_BIAS).names[0])
  return bias.size if bias is not None and bias.ndim == 1 else 0
