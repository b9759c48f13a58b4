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
  """Writes `{"step", "time", name: value, ...}`, one step a line, each flushed as it is written.

  It has the methods of `clu.metric_writers.MetricWriter` and fits into a `MultiWriter`; it is no
  subclass because importing anything of `clu.metric_writers` imports TensorFlow. JSON lines hold
  numbers and words; arrays (images, histograms, ...) belong in TensorBoard and are passed over.
  """

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

  def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
    """Writes texts."""
    self._write(step, dict(texts))

  def write_hparams(self, hparams: Mapping[str, Any]) -> None:
    """Writes settings, as step 0."""
    self._write(0, {name: _plain(value) for name, value in hparams.items()})

  def write_summaries(
    self, step: int, values: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
  ) -> None:
    """Passes arrays over."""

  def write_images(self, step: int, images: Mapping[str, Any]) -> None:
    """Passes arrays over."""

  def write_videos(self, step: int, videos: Mapping[str, Any]) -> None:
    """Passes arrays over."""

  def write_audios(self, step: int, audios: Mapping[str, Any], *, sample_rate: int) -> None:
    """Passes arrays over."""

  def write_histograms(
    self, step: int, arrays: Mapping[str, Any], num_buckets: Mapping[str, int] | None = None
  ) -> None:
    """Passes arrays over."""

  def flush(self) -> None:
    """Every line is flushed when it is written."""

  def close(self) -> None:
    """The file is open only while a line is written."""

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
