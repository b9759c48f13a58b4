"""Writers of a training: TensorBoard reads the events, and they are optional."""

from __future__ import annotations

import builtins
import json
import pathlib
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from robustness.training.event_file import EventFileWriter
from robustness.training.writers import training_writer


def test_tensorboard_reads_the_events_of_a_run_and_of_its_continuation(
  tmp_path: pathlib.Path,
) -> None:
  for steps in ((0, 10), (20,)):
    writer = EventFileWriter(tmp_path)
    for step in steps:
      writer.write_scalars(step, {'loss': np.float32(1 / (1 + step)), 'nan': float('nan')})
  events = EventAccumulator(str(tmp_path))
  events.Reload()
  losses = events.Scalars('loss')
  assert [event.step for event in losses] == [0, 10, 20]
  np.testing.assert_array_equal(
    np.float32([event.value for event in losses]), np.float32([1, 1 / 11, 1 / 21])
  )
  assert np.isnan(events.Scalars('nan')[0].value)


def test_a_training_writes_lines_and_events(tmp_path: pathlib.Path) -> None:
  writer = training_writer(tmp_path, 'natural')
  writer.write_scalars(3, {'train/loss': 0.5})
  writer.flush()
  (line,) = (tmp_path / 'log.jsonl').read_text().splitlines()
  assert json.loads(line)['classifier'] == 'natural' and json.loads(line)['train/loss'] == 0.5
  assert len(list((tmp_path / 'tensorboard/natural').iterdir())) == 1


def test_without_tensorboard_there_are_lines_alone(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  actual = builtins.__import__

  def blocked(name: str, *rest: Any) -> Any:
    if name.split('.')[0] == 'tensorboard':
      raise ModuleNotFoundError(f'No module named {name!r}', name=name)
    return actual(name, *rest)

  monkeypatch.setattr(builtins, '__import__', blocked)
  writer = training_writer(tmp_path, 'natural')
  writer.write_scalars(3, {'train/loss': 0.5})
  assert len((tmp_path / 'log.jsonl').read_text().splitlines()) == 1
  assert not (tmp_path / 'tensorboard').exists()
