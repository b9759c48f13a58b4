"""Writers of the numbers of a training: `log.jsonl` and TensorBoard events."""

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
  """Interface of a writer of training metrics, compatible with the writers of `clu`."""

  def write_scalars(self, step: int, scalars: Scalars) -> None:
    """Writes {name: number} of a step."""

  def flush(self) -> None:
    """Returns when all numbers are on disk."""


class JsonLinesWriter:
  """Writes metrics to a JSON Lines file: `{"step", "time", name: value, ...}` per line.

  Every line also has `facts`, such as the name of the classifier. The constructor removes an
  incomplete last line of an earlier run.
  """

  def __init__(self, path: str | os.PathLike[str], facts: Scalars | None = None):
    """Prepares a file for appending; a new file is created with the first line.

    Args:
      path: the file.
      facts: values to add to every line, such as {'label': 'resnet20'}.
    """
    self._path = pathlib.Path(path)
    self._facts = dict(facts or {})
    if self._path.exists():
      content = self._path.read_bytes()
      complete_bytes = content.rfind(b'\n') + 1  # up to the end of the last complete line
      if complete_bytes < len(content):
        os.truncate(self._path, complete_bytes)

  def write_scalars(self, step: int, scalars: Scalars) -> None:
    """Appends a line with the metrics of a step; NaN and infinity become null.

    Args:
      step: number of steps taken.
      scalars: {name: number}.
    """
    values = {name: _as_json(value) for name, value in scalars.items()}
    line = {'step': int(step), 'time': round(time.time(), 3), **self._facts, **values}
    with open(self._path, 'a', encoding='utf-8') as file:
      file.write(json.dumps(line, allow_nan=False) + '\n')

  def flush(self) -> None:
    """Does nothing, since every line is flushed when it is written."""


def training_writer(workdir: pathlib.Path, label: str) -> ScalarWriter:
  """Returns a writer of `log.jsonl` and of TensorBoard events.

  Events need `clu` and TensorFlow. Without these only `log.jsonl` is written.

  Args:
    workdir: folder of the run. Events are in `tensorboard/<label>`.
    label: name of the classifier.
  """
  lines = JsonLinesWriter(workdir / 'log.jsonl', {'classifier': label})
  try:
    # `clu` first: if it is missing, TensorFlow, which takes seconds to import, is not imported
    from clu import metric_writers
    from tensorflow import config as tensorflow_config
  except ModuleNotFoundError as error:
    logging.info('%s: no TensorBoard events (%s is not installed)', label, error.name)
    return lines
  with contextlib.suppress(RuntimeError):  # if TensorFlow already uses its devices, to read rows
    tensorflow_config.set_visible_devices([], 'GPU')  # the GPUs are JAX's
  events = metric_writers.SummaryWriter(os.fspath(workdir / 'tensorboard' / label))
  return metric_writers.MultiWriter([lines, events])


NO_WRITER = JsonLinesWriter(os.devnull)
"""A writer that discards everything; only one of several processes that train together writes."""


def _as_json(value: object) -> object:
  """Converts a value for JSON: NumPy and JAX scalars to Python, NaN and infinity to None."""
  number = np.asarray(value).item()
  return None if isinstance(number, float) and not math.isfinite(number) else number
