"""Names for types with a structure that is only known at run time."""

from collections.abc import Mapping
from typing import Any

PyTree = Any
"""Nested containers of arrays, as JAX maps over them."""
Variables = dict[str, PyTree]
"""Weights: collections such as `params` and `batch_stats`, each nested dicts of arrays."""
PlainValue = Any
"""A value that JSON can hold: a text, number, bool or None, or a list or object of these."""
Facts = Mapping[str, PlainValue]
"""{name: plain value} about data, weights or settings."""
