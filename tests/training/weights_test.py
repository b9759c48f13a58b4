"""Averaged, slow and best weights follow their definitions and are saved in checkpoints."""

import dataclasses
import itertools
from unittest import mock

import jax
import numpy as np
import pytest

from robustness.parallel import KINDS
from robustness.training.checkpoint import load_variables, progress
from tests.refusals import refused
from tests.training.conftest import TinyNet, assert_close, assert_same, compiled_step

BEST = {'keep': 'best', 'validation': 0.1, 'steps': 12}


def scored(scores):
  """Returns an evaluation that gives these scores in order, and the list of weights it gets."""
  evaluated = []

  def evaluate(variables):
    evaluated.append(jax.tree.map(np.array, variables))
    return {'accuracy': scores[len(evaluated) - 1]}

  return evaluate, evaluated


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_averaged_weights_follow_their_recurrence(make_task, run, tmp_path, kind):
  devices = KINDS[kind](jax.devices()[:2])
  plain = make_task(TinyNet(devices.axis_name), steps=5, schedule='constant')
  step = compiled_step(plain, devices)
  mean = jax.tree.map(np.asarray, plain.initial_state().raw_variables)
  state = devices.replicate(plain.initial_state())
  for number, batch in enumerate(itertools.islice(plain.rows.training_batches(32, 0, 0), 5), 1):
    state, _ = step(state, devices.put_batch(batch))
    raw = devices.unreplicate(state).raw_variables
    decay = min(0.6, (1 + number) / (10 + number))
    mean = jax.tree.map(lambda a, b, d=decay: d * a + (1 - d) * b, mean, raw)
  task = make_task(TinyNet(devices.axis_name), steps=5, schedule='constant', ema_decay=0.6)
  averaged = run(task, tmp_path / 'ema', devices)
  assert_close(averaged, mean)
  saved, facts = load_variables(tmp_path / 'ema')
  assert_same(saved, averaged)
  assert facts['training']['ema_decay'] == 0.6


def test_averages_of_weights_that_do_not_change_are_these_weights(make_task):
  state = make_task(ema_decay=0.999).initial_state()
  averaged = jax.jit(lambda state: state.averaged(0.999))
  for step in range(1, 20):
    state = averaged(state.replace(step=np.int32(step)))
  assert_same(state.ema, state.raw_variables)


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_slow_weights_follow_their_recurrence(make_task, kind):
  devices, total, every = KINDS[kind](jax.devices()[:2]), 8, 3
  model = TinyNet(devices.axis_name)
  settings = {'steps': total, 'schedule': 'constant', 'momentum': 0.0, 'nesterov': False}
  plain, with_slow = (make_task(model, **settings, lookahead=number) for number in (0, every))
  compiled = [compiled_step(task, devices) for task in (plain, with_slow)]
  state = devices.replicate(with_slow.initial_state())
  slow = with_slow.initial_state().raw_variables
  for step, batch in zip(range(1, total + 1), plain.rows.training_batches(32, 0, 0), strict=False):
    batch = devices.put_batch(batch)
    raw = devices.replicate(dataclasses.replace(devices.unreplicate(state), ema={}))
    fast = devices.unreplicate(compiled[0](raw, batch)[0]).raw_variables
    state, _ = compiled[1](state, batch)
    if step % every == 0:
      decay = 0.95**every * (step / total) ** 3
      slow = fast = jax.tree.map(lambda s, w, d=decay: d * s + (1 - d) * w, slow, fast)
    after = devices.unreplicate(state)
    assert_close(after.ema, slow)
    assert_close(after.raw_variables, fast)


@pytest.mark.slow
def test_raw_and_averaged_weights_are_both_evaluated(make_task, run, recorder, tmp_path):
  evaluate, evaluated = scored([0.5] * 2)
  run(make_task(ema_decay=0.9, evaluate_every_epochs=100.0), tmp_path, evaluate=evaluate)
  assert len(evaluated) == 2 and recorder.series('evaluation/raw_accuracy') == {6: 0.5}
  kernels = [variables['params']['head']['kernel'] for variables in evaluated]
  assert not np.array_equal(*kernels)
  evaluate, evaluated = scored([0.5])
  run(make_task(lookahead=2, evaluate_every_epochs=100.0), tmp_path / 'slow', evaluate=evaluate)
  assert len(evaluated) == 1, 'fast weights are the slow ones there'


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_the_best_weights_are_kept_and_survive_a_stop(make_task, run, tmp_path, kind):
  (evaluate, evaluated), devices = scored([0.5, 0.9, 0.9, 0.7]), KINDS[kind](jax.devices()[:2])
  task = make_task(TinyNet(devices.axis_name), **BEST, evaluate_every_epochs=1.0)
  best = run(task, tmp_path, devices, evaluate=evaluate)
  assert len(evaluated) == 4
  assert_same(best, evaluated[1])  # the first of equal ones
  assert_same(load_variables(tmp_path)[0], best)
  again = mock.Mock(side_effect=AssertionError('a finished training is not evaluated again'))
  assert_same(run(task, tmp_path, devices, evaluate=again), best)


@pytest.mark.slow
def test_initial_weights_are_not_best_weights(make_task, run, tmp_path):
  task = make_task(**BEST, evaluate_every_epochs=2.0)
  refused("keep is 'best', and nothing evaluates the weights", run, task, tmp_path)
  assert not list(tmp_path.iterdir())
  with pytest.raises(KeyboardInterrupt):  # at step 6, with the checkpoint of step 4
    run(task, tmp_path, evaluate=mock.Mock(side_effect=KeyboardInterrupt))
  refused('at step 4 none were evaluated yet', load_variables, tmp_path)
  run(task, tmp_path, evaluate=lambda variables: {'accuracy': 0.0})
  facts = load_variables(tmp_path)[1]
  assert progress(facts) == {'step': 12, 'total_steps': 12, 'kept_step': 6}


def test_another_recipe_is_refused_with_the_keys_that_differ(make_task, run, rows, tmp_path):
  run(make_task(steps=2), tmp_path)
  message = r'holds another training.*training\.ema_decay: 0\.0 → '
  refused(message, run, make_task(steps=2, ema_decay=0.5), tmp_path)
  other = make_task(task={'rows': dataclasses.replace(rows, source='npz')}, steps=2)
  refused(r"data\.source: 'arrays' → 'npz'", run, other, tmp_path)
