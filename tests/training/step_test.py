"""The training step equals explicit formulas, on one or eight devices, under jit and pmap."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from robustness.attacks import Attack
from robustness.augment.policy import Policy
from robustness.models import catalog
from robustness.objectives import Objective
from robustness.objectives.cross_entropy import CrossEntropy, cross_entropy
from robustness.objectives.groups import Coral
from robustness.parallel import MeshParallel, PmapParallel
from robustness.training.step import TrainStep
from robustness.training.training import Pipeline
from tests.cases import cases
from tests.refusals import refused
from tests.training.conftest import TinyNet, assert_close, assert_same, compiled_step, normalised

AUGMENTATIONS = {'flip': {}, 'crop': {'padding': 1}, 'gaussian': {'sigma': 0.1}, 'mixup': {}}
AUGMENT = Pipeline(Policy.of(**AUGMENTATIONS, repeat={'copies': 2}))
LAYOUTS = {
  f'{name} {count}': (kind, count)
  for name, kind in (('jit', MeshParallel), ('pmap', PmapParallel))
  for count in (1, 8)
}


def _train(task, parallel, state, steps=4, order=slice(None), step=None):
  """Returns the state after some steps, and the metrics of each; `order` permutes each batch."""
  step, state, metrics = step or compiled_step(task, parallel), parallel.replicate(state), []
  for batch in itertools.islice(task.rows.training_batches(task.settings.batch_size, 0, 0), steps):
    batch = {name: value[order] for name, value in batch.items()}
    state, outputs = step(state, parallel.put_batch(batch))
    metrics.append({name: float(x) for name, x in parallel.unreplicate(outputs).items()})
  return parallel.unreplicate(state), metrics


def _assert_close(state, other):
  assert_close(state.variables, other.variables, rtol=2e-5, atol=2e-6)


def _assert_layouts_agree(make_task, start, names, **arguments):
  """Checks that trainings in some layouts end with equal weights and metrics up to rounding.

  Sums of up to 32·36 float32 terms in another order differ by about √1152·6e-8 = 2e-6 of their
  size; four steps with batch normalisation amplify that by less than 10.
  """
  results = {}
  for name in names:
    parallel = LAYOUTS[name][0](jax.devices()[: LAYOUTS[name][1]])
    task = make_task(TinyNet(parallel.axis_name), **arguments)
    results[name] = _train(task, parallel, start(task))
  reference, metrics = results.pop(names[0])
  for state, other in results.values():
    _assert_close(state, reference)
    for mine, theirs in zip(other, metrics, strict=True):
      assert mine == pytest.approx(theirs, rel=2e-5)


@pytest.mark.slow
def test_devices_jit_and_pmap_agree_on_augmented_batches(make_task, start):
  _assert_layouts_agree(make_task, start, ('jit 1', 'pmap 8'), task={'pipeline': AUGMENT})


OF_FEATURES = Pipeline(objective=Coral(column='label', environments=3))


@pytest.mark.slow
@pytest.mark.parametrize('arguments', [{'accumulate': 2}, {'task': {'pipeline': OF_FEATURES}}])
def test_devices_jit_and_pmap_agree_in_micro_batches_and_on_features(make_task, start, arguments):
  _assert_layouts_agree(make_task, start, ('jit 1', 'jit 8', 'pmap 8'), **arguments)


@pytest.mark.slow
def test_the_order_of_rows_in_a_batch_does_not_matter(make_task, start):
  task, parallel = make_task(task={'pipeline': AUGMENT}), MeshParallel(jax.devices()[:1])
  step = compiled_step(task, parallel)
  state, _ = _train(task, parallel, start(task), step=step)
  other, _ = _train(task, parallel, start(task), order=slice(None, None, -1), step=step)
  _assert_close(state, other)


class Power(Objective):
  """Cross-entropy, with moments of the images' mean squares as metrics."""

  def __call__(self, outputs, batch, state, total):
    losses = cross_entropy(outputs['logits'], batch['target'])
    power = (batch['image'] ** 2).mean((1, 2, 3))
    moments = {'power': power.mean(), 'square': (power**2).mean()}
    return losses, jnp.ones_like(losses), state, moments


class Brighter(Attack):
  """Adds a random brightness to each image."""

  resembles = ()

  def __call__(self, keys, logits, images, labels, scale=1.0):
    return images + 0.1 * jax.vmap(lambda key: jax.random.uniform(key, (1, 1, 1)))(keys)


@pytest.mark.slow
@pytest.mark.parametrize('parts', [(Policy.of(gaussian={}), None), (Policy(), Brighter())])
def test_repeated_rows_of_a_batch_draw_independently_in_any_layout(make_task, start, parts):
  pipeline, results = Pipeline(*parts, Power()), []
  for kind, devices, micro in ((MeshParallel, 1, 1), (MeshParallel, 8, 2), (PmapParallel, 8, 2)):
    parallel = kind(jax.devices()[:devices])
    task = make_task(TinyNet(parallel.axis_name), {'pipeline': pipeline}, accumulate=micro)
    copies = np.zeros(32, int)
    _, (metrics,) = _train(task, parallel, start(task), steps=1, order=copies)
    results.append([metrics['power'], metrics['square']])
  np.testing.assert_allclose(results[1:], results[:1] * 2, rtol=1e-5)
  power, square = results[0]
  assert square > 1.0001 * power**2, 'copies of a row have different noise'


def test_micro_batches_give_the_gradient_of_the_whole_batch(make_task, start):
  tasks = [make_task(TinyNet(norm=False), accumulate=parts) for parts in (1, 4)]
  (state, metrics), (other, expected) = (_train(t, MeshParallel(), start(t)) for t in tasks)
  _assert_close(state, other)
  assert metrics[-1] == pytest.approx(expected[-1], rel=2e-5)


def test_batch_normalisation_averages_each_micro_batch_sequentially(make_task, start):
  task = make_task(learning_rate=1e-9, accumulate=2)
  state, _ = _train(task, MeshParallel(jax.devices()[:1]), start(task), steps=1)
  images = normalised(task, next(task.rows.training_batches(32, 0, 0))['image'])
  params, expected = start(task).params['conv'], 0.0
  for part in (images[::2], images[1::2]):
    outputs = nn.Conv(6, (3, 3)).apply({'params': params}, part)
    expected = 0.9 * expected + 0.1 * np.asarray(outputs).mean((0, 1, 2))
  np.testing.assert_allclose(state.batch_stats['bn']['mean'], expected, rtol=1e-4, atol=1e-6)


class Counting(nn.Module):
  """A layer in bfloat16 among the parameters, and a count of steps among the statistics."""

  @nn.compact
  def __call__(self, x, train=False):
    count = self.variable('batch_stats', 'count', lambda: jnp.int32(5))
    if train:
      count.value += 1
    return nn.Dense(3, param_dtype=jnp.bfloat16)(x.mean((1, 2)))


@cases('settings', {}, {'ema_decay': 0.9}, {'lookahead': 1})
def test_a_step_keeps_the_types_of_a_users_arrays(make_task, settings):
  """A checkpoint with other types than those of the first state could not be restored."""
  task = make_task(Counting(), **settings)
  batch = next(task.rows.training_batches(32, 0, 0))
  state, _ = jax.jit(TrainStep(task))(task.initial_state(), batch)
  types = lambda tree: jax.tree.map(lambda x: str(x.dtype), tree)  # noqa: E731
  assert types(state) == types(task.state_shapes()), 'checkpoints are compared with these'
  assert state.variables['batch_stats']['count'] == 6
  averaged = state.ema.get('params', {'Dense_0': {'kernel': jnp.float32(0)}})
  assert averaged['Dense_0']['kernel'].dtype == jnp.float32


def test_frozen_statistics_are_used_and_kept(make_task, start):
  task = make_task(freeze_statistics=True, learning_rate=0.1)
  before = jax.tree.map(jnp.asarray, start(task))
  batch = next(task.rows.training_batches(32, 0, 0))
  state, metrics = jax.jit(TrainStep(task))(before, batch)
  jax.tree.map(np.testing.assert_array_equal, state.batch_stats, before.batch_stats)
  logits = task.model.apply(before.variables, normalised(task, batch['image']), train=False)
  loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch['label']).mean()
  assert float(metrics['loss']) == pytest.approx(float(loss), rel=1e-5)


def test_the_target_of_several_labels_is_shared_among_them(make_task, start):
  task = make_task(TinyNet(norm=False))
  batch, step = next(task.rows.training_batches(32, 0, 0)), jax.jit(TrainStep(task))
  first, other = batch['label'], (batch['label'] + 1) % 3
  losses = [
    float(step(start(task), {**batch, 'label': np.stack(labels, -1)})[1]['loss'])
    for labels in ((first, other), (other, first), (first, -np.ones_like(first)), (other,))
  ]
  shared, swapped, *single = losses
  assert shared == pytest.approx(swapped, rel=1e-6) == pytest.approx(np.mean(single), rel=1e-5)
  assert single[0] == pytest.approx(float(step(start(task), batch)[1]['loss']), rel=1e-6)


def test_a_training_starts_with_the_initial_weights(make_task, start):
  random_state = start(make_task())
  kernel = np.full_like(random_state.params['conv']['kernel'], 0.25)
  state = make_task(task={'initial': {'params': {'conv': {'kernel': kernel}}}}).initial_state()
  np.testing.assert_array_equal(state.params['conv']['kernel'], kernel)
  for layer, name in (('conv', 'bias'), ('head', 'kernel'), ('bn', 'scale')):
    np.testing.assert_array_equal(state.params[layer][name], random_state.params[layer][name])
  for bad in ({'conv': {'kernel': kernel[:1]}}, {'conv7': {'kernel': kernel}}):
    task = make_task(task={'initial': {'params': bad}})
    refused('1 arrays to begin with do not fit.*params/conv', task.initial_state)


def test_the_last_layer_is_scaled_unless_it_is_given(make_task, start):
  random_state, head = start(make_task()).params, {'kernel': np.ones((6, 3), np.float32)}
  for initial, expected in (
    ({}, 0.001 * random_state['head']['kernel']),
    ({'params': {'head': head}}, head['kernel']),
  ):
    state = make_task(task={'initial': initial}, head_scale=0.001).initial_state()
    np.testing.assert_allclose(state.params['head']['kernel'], expected, rtol=1e-6)
    assert_same(state.params['conv'], random_state['conv'])


def test_a_step_equals_its_explicit_computation(make_task, start):
  pipeline = Pipeline(objective=CrossEntropy(0.1))
  model, settings = TinyNet(norm=False), {'learning_rate': 0.3, 'weight_decay': 0.01}
  task = make_task(model, {'pipeline': pipeline}, **settings)
  batch = next(task.rows.training_batches(32, 0, 0))
  before = jax.tree.map(jnp.asarray, start(task))
  state, metrics = jax.jit(TrainStep(task))(before, batch)

  def loss_of(params):
    logits = task.model.apply({'params': params}, normalised(task, batch['image']))
    log_p = jax.nn.log_softmax(logits)
    target = np.where(np.arange(3)[None] == batch['label'][:, None], 0.9 + 0.1 / 3, 0.1 / 3)
    return -jnp.mean(jnp.sum(target.astype(np.float32) * log_p, -1))

  loss, gradient = jax.value_and_grad(loss_of)(before.params)
  kernel = before.params['conv']['kernel']
  g = gradient['conv']['kernel'] + 0.01 * kernel
  expected = kernel - 0.3 * 1.9 * g  # the first step of Nesterov's momentum 0.9 is 1 + 0.9
  np.testing.assert_allclose(state.params['conv']['kernel'], expected, rtol=1e-4, atol=1e-6)
  assert float(metrics['loss']) == pytest.approx(float(loss), rel=1e-6)
  norm = float(optax.tree.norm(gradient))
  assert float(metrics['gradient_norm']) == pytest.approx(norm, rel=1e-5)
  assert float(metrics['learning_rate']) == pytest.approx(0.3)
  assert int(state.step) == 1


@pytest.mark.slow
def test_augmentation_changes_with_the_step_and_the_seed(make_task, start):
  losses, batch = [], next(make_task().rows.training_batches(32, 0, 0))
  for seed, numbers in ((0, (0, 1, 0)), (1, (0,))):
    task = make_task(task={'pipeline': AUGMENT, 'seed': seed})
    step = jax.jit(TrainStep(task))
    states = [start(task).replace(step=np.array(number, np.int32)) for number in numbers]
    losses += [float(step(state, batch)[1]['loss']) for state in states]
  assert losses[0] == losses[2]
  assert len(set(losses)) == 3


@pytest.mark.slow
@pytest.mark.parametrize('name', ['small_cnn', 'resnet20'])
def test_a_bfloat16_network_keeps_float32_weights_statistics_and_loss(make_task, name):
  model = catalog.get(name).build(3, jnp.bfloat16)
  task = make_task(model, accumulate=2)
  if name == 'resnet20':
    assert jax.tree.leaves(task.state_shapes().batch_stats), 'it has statistics'
  batch = next(task.rows.training_batches(32, 0, 0))
  state, metrics = jax.eval_shape(TrainStep(task), task.state_shapes(), batch)
  leaves = jax.tree.leaves((state.params, state.batch_stats, metrics))
  assert {leaf.dtype for leaf in leaves} == {jnp.dtype('float32')}
