"""A metric writer that appends one JSON object a line."""

from __future__ import annotations

import json
import math
import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any


class JsonLinesWriter:
  """Writes `{"step", "time", name: value, ...}`, one step a line, each flushed as it is written."""

  def __init__(self, path: str | os.PathLike[str], facts: Mapping[str, Any] | None = None):
    """Opens a file to append to; a last line that a kill cut short is removed.

    Args:
      path: the file, made if it is not there.
      facts: plain values that every line repeats, for example which classifier is trained.
    """
    self._path = pathlib.Path(path)
    self._facts = dict(facts or {})
    if self._path.exists():
      content = self._path.read_bytes()
      whole = content.rfind(b'\n') + 1
      if whole < len(content):
        os.truncate(self._path, whole)

  def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
    """Writes numbers; one that is not finite becomes null, as JSON has no word for it."""
    self._write(step, {name: _plain(value) for name, value in scalars.items()})

  def flush(self) -> None:
    """Every line is flushed when it is written."""

  def _write(self, step: int, values: Mapping[str, Any]) -> None:
    line = {'step': int(step), 'time': round(time.time(), 3), **self._facts, **values}
    with open(self._path, 'a', encoding='utf-8') as file:
      file.write(json.dumps(line, allow_nan=False) + '\n')


def _plain(value: Any) -> Any:
  """Turns numpy and JAX scalars into Python's, and what is not finite into None."""
  if isinstance(value, (str, bool, int)) or value is None:
    return value
  number = value.item() if hasattr(value, 'item') else value
  return None if isinstance(number, float) and not math.isfinite(number) else number
