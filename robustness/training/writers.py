"""Where the numbers of a training are written: `log.jsonl` and TensorBoard events."""

import contextlib
import json
import math
import os
import pathlib
import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from absl import logging

Scalars = Mapping[str, object]


class ScalarWriter(Protocol):
  """What the training loop needs of a writer; the metric writers of `clu` have it."""

  def write_scalars(self, step: int, scalars: Scalars) -> None:
    """Writes named numbers of a step."""

  def flush(self) -> None:
    """Makes sure that they are on disk."""


class JsonLinesWriter:
  """Writes `{"step", "time", name: value, ...}`, one step a line, each flushed as it is written.

  Every line repeats the `facts`, for example which classifier is trained. A last line that a kill
  cut short is removed.
  """

  def __init__(self, path: str | os.PathLike[str], facts: Scalars | None = None):
    self._path = pathlib.Path(path)
    self._facts = dict(facts or {})
    if self._path.exists():
      content = self._path.read_bytes()
      whole = content.rfind(b'\n') + 1
      if whole < len(content):
        os.truncate(self._path, whole)

  def write_scalars(self, step: int, scalars: Scalars) -> None:
    """Writes numbers; one that is not finite becomes null, as JSON has no word for it."""
    values = {name: _plain(value) for name, value in scalars.items()}
    line = {'step': int(step), 'time': round(time.time(), 3), **self._facts, **values}
    with open(self._path, 'a', encoding='utf-8') as file:
      file.write(json.dumps(line, allow_nan=False) + '\n')

  def flush(self) -> None:
    """Every line is flushed when it is written."""


def training_writer(workdir: pathlib.Path, label: str) -> ScalarWriter:
  """Returns what writes `log.jsonl` and, by `clu.metric_writers`, events in `tensorboard/<label>`
  of the workdir.

  Without clu, or TensorFlow, which it takes seconds to import, there are no events, which one line
  of the log says.
  """
  lines = JsonLinesWriter(workdir / 'log.jsonl', {'classifier': label})
  try:
    from clu import metric_writers  # first: without it TensorFlow is imported in vain
    from tensorflow import config as tensorflow_config
  except ModuleNotFoundError as error:
    logging.info('%s: no TensorBoard events (%s is not installed)', label, error.name)
    return lines
  with contextlib.suppress(RuntimeError):  # the rows are read by TensorFlow, which has begun
    tensorflow_config.set_visible_devices([], 'GPU')  # JAX's
  events = metric_writers.SummaryWriter(os.fspath(workdir / 'tensorboard' / label))
  writer: ScalarWriter = metric_writers.MultiWriter([lines, events])
  return writer


NO_WRITER = JsonLinesWriter(os.devnull)
"""Writes nothing: for all but one of several processes that train together."""


def _plain(value: object) -> object:
  """Turns numpy and JAX scalars into Python's, and what is not finite into None."""
  if isinstance(value, (str, bool, int)) or value is None:
    return value
  number = np.asarray(value).item()
  return None if isinstance(number, float) and not math.isfinite(number) else number
