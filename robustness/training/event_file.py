"""A metric writer for TensorBoard that needs the package tensorboard and no TensorFlow."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any


class EventFileWriter:
  """Appends scalars to an event file of its own, `events.out.tfevents.<time>.<process>`.

  A file is a sequence of records: length, checksum of it, an `Event` protocol buffer, checksum of
  that (tensorflow/core/lib/io/record_writer.h). A run that goes on begins another file in the same
  folder, which TensorBoard reads after the first.
  """

  def __init__(self, folder: str | os.PathLike[str]):
    """Begins a file in a folder, which is made if it is not there.

    Raises:
      ModuleNotFoundError: tensorboard is not installed.
    """
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    self._event, self._summary = event_pb2.Event, summary_pb2.Summary
    self._record_writer = RecordWriter
    name = f'events.out.tfevents.{time.time_ns()}.{os.getpid()}'
    self._path = pathlib.Path(folder) / name
    self._path.parent.mkdir(parents=True, exist_ok=True)
    self._write(file_version='brain.Event:2')

  def write_scalars(self, step: int, scalars: Mapping[str, Any]) -> None:
    """Writes named numbers of a step."""
    values = [
      self._summary.Value(tag=name, simple_value=float(value)) for name, value in scalars.items()
    ]
    self._write(step=int(step), summary=self._summary(value=values))

  def flush(self) -> None:
    """Every event is flushed when it is written."""

  def _write(self, **fields: Any) -> None:
    event = self._event(wall_time=time.time(), **fields)
    with self._path.open('ab') as file:
      self._record_writer(file).write(event.SerializeToString())
