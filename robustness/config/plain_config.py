"""What configs need of `ml_collections.ConfigDict`, for machines that do not have it.

`tests/config/plain_config_test.py` holds that every config of `configs/` gives the same values
either way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Placeholder:
  """A value that is not set yet, of a type."""

  kind: type


def placeholder(kind: type) -> Any:
  """Returns a value that is None until it is set, and then of a type."""
  return Placeholder(kind)


class ConfigDict(MutableMapping[str, Any]):
  """Nested values, as attributes or items, in the order given; a value keeps the type it has.

  An int may be set where a float is, and a list where a tuple is, which converts them; None sets
  any value back.
  """

  def __init__(self, values: Mapping[str, Any], sort_keys: bool = False, convert_dict: bool = True):
    """Args: values: mappings become sections; the others are `ml_collections`'s, and ignored."""
    object.__setattr__(self, '_values', {})
    object.__setattr__(self, '_types', {})
    for key, value in values.items():
      self[key] = value

  def __setitem__(self, key: str, value: Any) -> None:
    if isinstance(value, Placeholder):
      self._types[key], value = value.kind, None
    elif isinstance(value, Mapping) and not isinstance(value, ConfigDict):
      value = ConfigDict(value)
    kind = self._types.setdefault(key, type(value))
    if value is not None and kind is not type(None):
      value = _converted(value, kind, key)
    self._values[key] = value

  def __getitem__(self, key: str) -> Any:
    return self._values[key]

  def __delitem__(self, key: str) -> None:
    del self._values[key], self._types[key]

  def __getattr__(self, key: str) -> Any:
    if key not in self._values:
      raise AttributeError(f'the config has no key {key!r} here; it has: {", ".join(self)}')
    return self._values[key]

  def __setattr__(self, key: str, value: Any) -> None:
    self[key] = value

  def __delattr__(self, key: str) -> None:
    del self[key]

  def __iter__(self) -> Iterator[str]:
    return iter(self._values)

  def __len__(self) -> int:
    return len(self._values)

  def get_type(self, key: str) -> type:
    """Returns the type of a value, set or not."""
    return self._types[key]

  def to_dict(self) -> dict[str, Any]:
    """Returns the values as nested dicts."""
    return {k: v.to_dict() if isinstance(v, ConfigDict) else v for k, v in self.items()}


def _converted(value: Any, kind: type, key: str) -> Any:
  """Returns a value as the type that the key has; TypeError if it cannot be."""
  if isinstance(value, kind) and (kind is bool or not isinstance(value, bool) or kind is not int):
    return value
  safe = {(int, float), (list, tuple), (tuple, list)}
  if (type(value), kind) not in safe:
    raise TypeError(f'{key} is {kind.__name__}; {value!r} is {type(value).__name__}')
  return kind(value)
