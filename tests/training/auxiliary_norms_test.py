"""A second set of normalisation layers is trained as in a network with both, then removed."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from robustness.augment.policy import Policy
from robustness.parallel import KINDS
from robustness.training.checkpoint import load_variables
from robustness.training.step import check
from robustness.training.training import Pipeline
from tests.refusals import refused
from tests.training.conftest import TinyNet, assert_close, assert_same, compiled_step

PIPELINE = Pipeline(Policy.of(gaussian={'sigma': 0.3}, repeat={'copies': 3}))


class TwoSets(nn.Module):
  """`TinyNet` with a separate normalisation for the last of three images of a row."""

  axis_name: str | None = None

  @nn.compact
  def __call__(self, x, train=False):
    x = nn.Conv(6, (3, 3), name='conv')(x)
    x = jnp.tile(x, (3, 1, 1, 1)) if self.is_initializing() else x
    x = x.reshape(-1, 3, *x.shape[1:])
    norm = [
      nn.BatchNorm(not train, momentum=0.9, axis_name=self.axis_name, name=name)
      for name in ('bn', 'second')
    ]
    x = jnp.concatenate([norm[0](x[:, :2]), norm[1](x[:, 2:])], 1)
    return nn.Dense(3, name='head')(nn.relu(x.reshape(-1, *x.shape[2:])).mean((1, 2)))


def trained(task, devices, state):
  step, state = compiled_step(task, devices), devices.replicate(state)
  for batch in itertools.islice(task.rows.training_batches(32, 0, 0), 3):
    state, _ = step(state, devices.put_batch(batch))
  return jax.tree.map(np.asarray, devices.unreplicate(state))


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['jit', 'pmap'])
def test_the_second_set_equals_a_network_with_two_layers(make_task, kind):
  devices = KINDS[kind](jax.devices()[:2])
  settings = {'task': {'pipeline': PIPELINE}, 'bias_rate': 3.0}
  task = make_task(TinyNet(devices.axis_name), auxiliary_norms=1, **settings)
  reference = make_task(TwoSets(devices.axis_name), **settings)
  begin = reference.initial_state()
  state = task.initial_state()
  params = {**state.params, **{k: begin.params[k] for k in ('conv', 'head')}}
  result = trained(task, devices, state.replace(params=params))
  expected = trained(reference, devices, begin)
  for name in ('params', 'batch_stats'):
    values, other = vars(result)[name], vars(expected)[name]
    second = other.pop('second')
    assert_close(values.pop('auxiliary_norms'), {'bn': second})
    assert_close(values, other)
  difference = result.batch_stats['bn']['mean'] - expected.batch_stats['bn']['mean']
  assert np.abs(difference).max() < 1e-5 < np.abs(second['mean']).max()


@pytest.mark.slow
@pytest.mark.parametrize(
  'extra', [{'ema_decay': 0.5}, {'lookahead': 2, 'keep': 'best', 'validation': 0.1}]
)
def test_the_second_set_is_removed_at_the_end_and_resumed_after_a_stop(
  make_task, run, tmp_path, extra
):
  settings = {'auxiliary_norms': 1, 'evaluate_every_epochs': 1.0, **extra}
  structures = []

  def evaluate(variables):
    structures.append(jax.tree.structure(jax.tree.map(np.array, variables)))
    return {'accuracy': 0.5}

  task = make_task(task={'pipeline': PIPELINE}, **settings)
  plain = jax.tree.structure(make_task().initial_state().raw_variables)
  complete = run(task, tmp_path / 'whole', evaluate=evaluate)
  assert set(structures) == {plain} and jax.tree.structure(complete) == plain

  def interrupted(variables):
    raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    run(task, tmp_path / 'stopped', evaluate=interrupted)
  assert_same(run(task, tmp_path / 'stopped', evaluate=evaluate), complete)
  assert_same(load_variables(tmp_path / 'whole')[0], complete)


def test_invalid_numbers_of_auxiliary_images_are_refused(make_task):
  row = next(make_task().rows.training_batches(1, 0, 0))
  for copies, images in ((1, '1 image per row'), (2, '2 images per row')):
    policy = Policy.of(repeat={'copies': copies}) if copies > 1 else Policy()
    task = make_task(task={'pipeline': Pipeline(policy)}, auxiliary_norms=2)
    refused(f'auxiliary_norms is 2, and the policy makes {images}', check, task, row)
  task = make_task(TinyNet(norm=False), {'pipeline': PIPELINE}, auxiliary_norms=1)
  refused('this network has no normalisation layers', task.initial_state)
