"""Where the numbers of a training are written: `log.jsonl` and TensorBoard events."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, Protocol

from absl import logging

from robustness.training.event_file import EventFileWriter
from robustness.training.json_lines import JsonLinesWriter


class ScalarWriter(Protocol):
  """What the training loop needs of a writer; metric writers of `clu` fit too."""

  def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
    """Writes named numbers of a step."""

  def flush(self) -> None:
    """Makes sure that they are on disk."""


class SeveralWriters:
  """Writes everything to each of several writers."""

  def __init__(self, *writers: ScalarWriter):
    """Args: writers: in the order in which they are written to."""
    self._writers = writers

  def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
    """Writes named numbers of a step."""
    for writer in self._writers:
      writer.write_scalars(step, scalars)

  def flush(self) -> None:
    """Flushes each."""
    for writer in self._writers:
      writer.flush()


def training_writer(workdir: pathlib.Path, label: str, writes: bool = True) -> ScalarWriter:
  """Returns the writer of a training: `log.jsonl` and `tensorboard/<label>`.

  Without the package tensorboard there are no events, which one line of the log says.

  Args:
    workdir: holds the files.
    label: of the classifier that is trained.
    writes: False for all but one of several processes that train together; these write nothing.
  """
  if not writes:
    return SeveralWriters()
  writers: list[ScalarWriter] = [JsonLinesWriter(workdir / 'log.jsonl', {'classifier': label})]
  try:
    writers.append(EventFileWriter(workdir / 'tensorboard' / label))
  except ModuleNotFoundError as error:
    logging.info('%s: no TensorBoard events (%s is not installed)', label, error.name)
  return SeveralWriters(*writers)
