"""A training writes strict JSON lines and, if clu is installed, events for TensorBoard."""

import builtins
import json
import time
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pytest

from robustness.training.writers import JsonLinesWriter, training_writer


def _lines(path):
  """Returns the objects of a file's lines, and fails at a NaN."""
  refuse = mock.Mock(side_effect=ValueError)
  return [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]


def test_every_line_is_one_strict_json_object(tmp_path):
  writer = JsonLinesWriter(tmp_path / 'log.jsonl')
  writer.write_scalars(0, {'rate': 0.1, 'name': 'small_cnn', 'seed': None})
  writer.write_scalars(7, {'loss': np.float32(0.5), 'count': jnp.int32(3), 'bad': float('nan')})
  lines = _lines(tmp_path / 'log.jsonl')
  times = [line.pop('time') for line in lines]
  assert lines == [
    {'step': 0, 'rate': 0.1, 'name': 'small_cnn', 'seed': None},
    {'step': 7, 'loss': 0.5, 'count': 3, 'bad': None},
  ]
  assert times == sorted(times)


def test_a_line_truncated_by_a_kill_is_removed(tmp_path):
  path = tmp_path / 'log.jsonl'
  path.write_text('{"step": 1}\n{"step": 2, "los')
  JsonLinesWriter(path).write_scalars(2, {'loss': 1.0})
  assert [line['step'] for line in _lines(path)] == [1, 2]


@pytest.mark.slow
def test_tensorboard_reads_the_events_of_a_run_and_of_its_continuation(tmp_path):
  pytest.importorskip('clu')
  from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
  from tensorboard.util import tensor_util

  for steps in ((0, 10), (20,)):
    writer = training_writer(tmp_path, 'natural')
    for step in steps:
      writer.write_scalars(step, {'loss': np.float32(1 / (1 + step)), 'nan': float('nan')})
    writer.flush()
    time.sleep(1 - time.time() % 1)  # TensorBoard orders files by the second in their names
  events = EventAccumulator(str(tmp_path / 'tensorboard/natural'))
  events.Reload()
  losses = events.Tensors('loss')
  assert [event.step for event in losses] == [0, 10, 20]
  values = [tensor_util.make_ndarray(event.tensor_proto) for event in losses]
  np.testing.assert_array_equal(np.float32(values), np.float32([1, 1 / 11, 1 / 21]))
  assert np.isnan(tensor_util.make_ndarray(events.Tensors('nan')[0].tensor_proto))
  logged = [(line['step'], line['classifier']) for line in _lines(tmp_path / 'log.jsonl')]
  assert logged == [(step, 'natural') for step in (0, 10, 20)]


@pytest.mark.parametrize('absent', ['clu', 'tensorflow'])
def test_without_clu_or_tensorflow_only_lines_are_written(tmp_path, monkeypatch, caplog, absent):
  actual = builtins.__import__

  def blocked(name, *arguments):
    if name.split('.')[0] == absent:
      raise ModuleNotFoundError(f'No module named {name!r}', name=name)
    return actual(name, *arguments)

  monkeypatch.setattr(builtins, '__import__', blocked)
  with caplog.at_level('INFO', 'absl'):
    writer = training_writer(tmp_path, 'natural')
  writer.write_scalars(3, {'train/loss': 0.5})
  assert f'no TensorBoard events ({absent} is not installed)' in caplog.text
  assert len(_lines(tmp_path / 'log.jsonl')) == 1
  assert not (tmp_path / 'tensorboard').exists()
