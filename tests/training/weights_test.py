"""Averaged and best weights: their definitions, and that a checkpoint keeps them."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from robustness import parallel
from robustness.core.errors import InputError
from robustness.parallel.mesh import BATCH, REPLICATED
from robustness.training import load_variables, train
from robustness.training.checkpoint import progress


def assert_same(first, second) -> None:
  jax.tree.map(np.testing.assert_array_equal, first, second)


def run(task, tmp_path, recorder, evaluate=None, kind='jit'):
  return train(
    task,
    directory=tmp_path,
    parallel=parallel.create(kind),
    writer=recorder,
    evaluate=evaluate,
    facts={'architecture': 'tiny'},
  )


@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_averaged_weights_are_those_of_the_recurrence(
  make_task, tiny_net, recorder, tmp_path, kind
) -> None:
  ways = parallel.create(kind)
  plain = make_task(tiny_net(ways.axis_name), steps=5, schedule='constant')
  step = ways.compile(plain.step(ways), (REPLICATED, BATCH), (REPLICATED, REPLICATED))
  mean = jax.tree.map(np.asarray, plain.initial_state().raw_variables)
  state = ways.replicate(plain.initial_state())
  for number, batch in enumerate(itertools.islice(plain.batches(32, 0, 0), 5), 1):
    state, _ = step(state, ways.put_batch(batch))
    raw = ways.unreplicate(state).raw_variables
    decay = min(0.6, (1 + number) / (10 + number))
    mean = jax.tree.map(lambda a, b, d=decay: d * a + (1 - d) * b, mean, raw)
  task = make_task(tiny_net(ways.axis_name), steps=5, schedule='constant', ema_decay=0.6)
  averaged = run(task, tmp_path / 'ema', recorder, kind=kind)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), averaged, mean)
  saved, facts = load_variables(tmp_path / 'ema')
  assert_same(saved, averaged)
  assert facts['training']['ema_decay'] == 0.6


def test_raw_and_averaged_weights_are_both_evaluated(make_task, recorder, tmp_path) -> None:
  seen = []

  def evaluate(variables):
    seen.append(jax.tree.map(np.array, variables))
    return {'accuracy': 0.5}

  run(make_task(ema_decay=0.9, evaluate_every_epochs=100.0), tmp_path, recorder, evaluate)
  assert len(seen) == 2 and recorder.series('evaluation/raw_accuracy') == {6: 0.5}
  kernels = [variables['params']['head']['kernel'] for variables in seen]
  assert not np.array_equal(*kernels)


@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_the_best_weights_are_kept_and_survive_a_stop(
  make_task, tiny_net, recorder, tmp_path, kind
) -> None:
  scores = iter([0.5, 0.9, 0.9, 0.7])
  seen = []

  def evaluate(variables):
    seen.append(jax.tree.map(np.array, variables))
    return {'accuracy': next(scores)}

  ways = parallel.create(kind)
  settings = {'keep': 'best', 'validation': 0.1, 'evaluate_every_epochs': 1.0, 'steps': 12}
  task = make_task(tiny_net(ways.axis_name), **settings)
  best = run(task, tmp_path, recorder, evaluate, kind)
  assert len(seen) == 4
  assert_same(best, seen[1])  # the first of equal ones
  assert_same(load_variables(tmp_path)[0], best)

  def refuse(variables):
    raise AssertionError('a finished training is not evaluated again')

  assert_same(run(task, tmp_path, recorder, refuse, kind), best)


def test_the_best_weights_are_not_those_that_a_training_began_with(
  make_task, recorder, tmp_path
) -> None:
  settings = {'keep': 'best', 'validation': 0.1, 'steps': 12, 'evaluate_every_epochs': 2.0}
  task = make_task(**settings)
  with pytest.raises(InputError, match="keep is 'best', and nothing evaluates the weights"):
    run(task, tmp_path, recorder)
  assert not list(tmp_path.iterdir())

  def interrupt(variables):
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):  # at step 6, with the checkpoint of step 4
    run(task, tmp_path, recorder, interrupt)
  with pytest.raises(InputError, match='at step 4 none were evaluated yet'):
    load_variables(tmp_path)
  run(task, tmp_path, recorder, lambda variables: {'accuracy': 0.0})
  facts = load_variables(tmp_path)[1]
  assert progress(facts) == {'step': 12, 'total_steps': 12, 'kept_step': 6}


def test_another_recipe_is_refused_with_the_keys_that_differ(make_task, recorder, tmp_path) -> None:
  run(make_task(steps=2), tmp_path, recorder)
  with pytest.raises(InputError, match=r'holds another training.*training\.ema_decay: 0\.0 there'):
    run(make_task(steps=2, ema_decay=0.5), tmp_path, recorder)
  with pytest.raises(InputError, match=r'data\.source: absent there, npz here'):
    run(make_task(task={'data': {'source': 'npz'}}, steps=2), tmp_path, recorder)
