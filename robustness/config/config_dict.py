"""The ConfigDict of `ml_collections`, or where that is not installed `plain_config`'s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
  from ml_collections import ConfigDict
  from ml_collections.config_dict import placeholder
except ModuleNotFoundError:
  from robustness.config.plain_config import ConfigDict, placeholder  # type: ignore[assignment]

__all__ = ['ConfigDict', 'nested', 'placeholder']


def nested(values: Mapping[str, Any]) -> ConfigDict:
  """Returns a ConfigDict that keeps the order of its keys at every depth: the first classifier is
  the baseline, and `ml_collections` sorts by default."""
  sections = {k: nested(v) if isinstance(v, Mapping) else v for k, v in values.items()}
  return ConfigDict(sections, sort_keys=False, convert_dict=False)
