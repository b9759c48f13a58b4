"""Tests the evaluation of attacks in several compiled steps: its records and its progress."""

import contextlib
import dataclasses

import jax
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.evaluation import staged
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.staged import StagedEvaluator
from robustness.parallel import MeshParallel, PmapParallel
from robustness.studies.attack_error import AttackError
from tests.networks import SHAPE, tiny_classifier, tiny_rows

STUDY = AttackError(
  attacks=('auto_attack',),
  attack={'auto_attack': {'iterations': 2, 'queries': 3}},
  epsilon=0.02,
  epsilons=(0.4,),
)


def recorded(kind, parallel, folder):
  """Returns the arrays of each shard that an evaluator of this class writes."""
  key, table = random_keys.stream(0, STUDY.name), STUDY.view_table(SHAPE)
  runner = kind(tiny_classifier(), STUDY.views(SHAPE), key, parallel, pictured=table)
  records = Records(folder, runner.layout(tiny_rows().num_examples, 8, 3), {})
  runner.evaluate(tiny_rows(), records)
  return [
    records.read(b, c).arrays
    for b, c in np.ndindex(records.layout.num_blocks, records.layout.num_chunks)
  ]


@pytest.fixture
def step_names(monkeypatch):
  """Returns the list of the names that progress shows."""
  names = []
  monkeypatch.setattr(staged, 'part_of_step', lambda n: names.append(n) or contextlib.nullcontext())
  return names


@pytest.mark.slow
@pytest.mark.parametrize('create', [lambda: MeshParallel(jax.devices()[:3]), PmapParallel])
def test_steps_give_the_records_of_one_program(create, step_names, tmp_path):
  in_one = recorded(Evaluator, MeshParallel(jax.devices()[:1]), tmp_path / 'one')
  in_steps = recorded(StagedEvaluator, create(), tmp_path / 'steps')
  for first, second in zip(in_one, in_steps, strict=True):
    assert first.keys() == second.keys()
    # The last digit of a float may differ, and a total by its resolution.
    for name, values in first.items():
      np.testing.assert_allclose(values, second[name], rtol=1e-6, atol=2**-20, err_msg=name)
      assert values.dtype.kind == 'f' or (values == second[name]).all(), name
  assert {name.split(',')[1].strip() for name in step_names} == {
    'apgd_ce',
    'apgd_t',
    'fab_t',
    'square',
  }


def test_blocks_of_a_long_attack_are_small_so_that_a_killed_run_loses_little():
  views = STUDY.views(SHAPE)
  runner = StagedEvaluator(tiny_classifier(), views, random_keys.stream(0, ''), MeshParallel())
  assert runner.layout(1000).block_rows <= 128 and runner.layout(1000, 500).block_rows == 500
  one_step = dataclasses.replace(runner, views=dataclasses.replace(views, stages=None))
  assert one_step.layout(1000).block_rows == 500


@pytest.mark.slow
def test_steps_end_when_no_image_is_right(step_names, tmp_path):
  study = dataclasses.replace(STUDY, epsilon=1.0, epsilons=())
  runner = StagedEvaluator(
    tiny_classifier(), study.views(SHAPE), random_keys.stream(0, ''), MeshParallel()
  )
  rows = tiny_rows()
  records = Records(tmp_path, runner.layout(rows.num_examples), {})
  runner.evaluate(rows, records)
  num_right = [int(name.split(',')[-1].split()[0]) for name in step_names]
  assert num_right == sorted(num_right, reverse=True) and min(num_right) > 0
  stage = records.table('measure/stage')[:, 1]
  assert len(step_names) < 12 and (stage <= 4).all()
  shards = runner.shards(rows, runner.layout(rows.num_examples, 11))
  next(shards)
  num_steps = len(step_names)
  next(shards)
  assert len(step_names) > num_steps, 'a shard is written before the next one begins'
