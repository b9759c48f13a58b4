"""The writer of JSON lines."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np

from robustness.training.json_lines import JsonLinesWriter


def _strict(line: str) -> dict:
  def refuse(word: str) -> None:
    raise ValueError(word)

  return json.loads(line, parse_constant=refuse)


def test_one_strict_object_a_line_with_plain_numbers(tmp_path):
  writer = JsonLinesWriter(tmp_path / 'log.jsonl')
  writer.write_scalars(0, {'rate': 0.1, 'name': 'small_cnn', 'seed': None})
  writer.write_scalars(7, {'loss': np.float32(0.5), 'count': jnp.int32(3), 'bad': float('nan')})
  lines = [_strict(line) for line in (tmp_path / 'log.jsonl').read_text().splitlines()]
  times = [line.pop('time') for line in lines]
  assert lines == [
    {'step': 0, 'rate': 0.1, 'name': 'small_cnn', 'seed': None},
    {'step': 7, 'loss': 0.5, 'count': 3, 'bad': None},
  ]
  assert times == sorted(times)


def test_a_line_cut_short_by_a_kill_is_removed_and_the_rest_kept(tmp_path):
  path = tmp_path / 'log.jsonl'
  path.write_text('{"step": 1}\n{"step": 2, "los')
  JsonLinesWriter(path).write_scalars(2, {'loss': 1.0})
  assert [_strict(line)['step'] for line in path.read_text().splitlines()] == [1, 2]
