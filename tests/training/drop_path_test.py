"""Stochastic depth drops branches at the right rates, keeps the mean and agrees on all devices."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from robustness.augment.policy import Policy
from robustness.models.convnext import ConvNext
from robustness.models.efficientnet import EfficientNet, StageSize
from robustness.models.layers import DROP_PATH
from robustness.models.swin import Swin
from robustness.models.vit import VisionTransformer
from robustness.parallel import MeshParallel, PmapParallel
from robustness.training.depth import drop_factors
from robustness.training.training import Pipeline
from tests.cases import marked
from tests.training.conftest import assert_close, compiled_step

SIZES = (StageSize(2, 3, 1, 1, 8, 'plain'), StageSize(2, 3, 2, 2, 8, 'squeezed'))
NETWORKS = {
  'convnext': ConvNext(num_classes=3, width=8, depths=(1, 2)),
  'swin': Swin(num_classes=3, width=6, depths=(2, 2), num_heads=1, window=2),
  'deit3': VisionTransformer(
    num_classes=3, patch=4, width=8, depth=3, num_heads=2, layer_scale=True, positions='patches'
  ),
  'efficientnet': EfficientNet(num_classes=3, sizes=SIZES, stem_features=8, top_features=8),
}
SHALLOW = NETWORKS['deit3'].clone(patch=3, depth=2)  # quick to trace
IMAGES = jax.random.normal(jax.random.key(1), (4, 16, 16, 3))
ENDS = 'fc2/', 'out/', 'project/bn/', 'conv/bn/'  # the last linear maps of branches


@functools.cache
def _variables(name):
  """Returns the network's variables, with parameters that are far from their initial values."""
  variables = jax.jit(NETWORKS[name].init)(jax.random.key(0), IMAGES)
  return jax.tree.map(lambda x: x + 0.1 * jnp.cos(jnp.arange(x.size).reshape(x.shape)), variables)


def _factors(tree):
  """Returns the factors of branches, by the path of their block."""
  return traverse_util.flatten_dict(tree[DROP_PATH], sep='/')


def test_rates_rise_linearly_and_survivors_are_divided_by_the_probability_of_keeping():
  params = _variables('convnext')['params'] | {'auxiliary_norms': {'stage1': {'block0': {}}}}
  keys = jax.random.split(jax.random.key(2), 20_000).reshape(10_000, 2)
  factors = _factors(drop_factors(params, 0.4, keys))
  blocks = 'stage1/block0', 'stage2/block0', 'stage2/block1'
  assert [*factors] == [f'{block}/factors' for block in blocks]
  for values, rate in zip(factors.values(), (0, 0.2, 0.4), strict=True):
    assert values.shape == (10_000, 2, 2)
    np.testing.assert_allclose(np.unique(values), [*[0.0] * (rate > 0), 1 / (1 - rate)], rtol=1e-6)
    deviation = np.sqrt(rate * (1 - rate) / 20_000)  # of a share of 20,000 draws
    np.testing.assert_allclose((values == 0).mean((0, 1)), rate, atol=4 * deviation)
  dropped = (np.asarray(factors['stage2/block1/factors']) == 0).all(-1).mean()
  pair = 0.4**2  # the two branches of a block are dropped independently
  assert dropped == pytest.approx(pair, abs=4 * np.sqrt(pair * (1 - pair) / 20_000))


def test_the_rate_may_be_the_same_in_all_blocks():
  keys = jax.random.split(jax.random.key(2), 20_000)
  factors = _factors(drop_factors(_variables('convnext')['params'], 0.4, keys, rises=False))
  deviation = np.sqrt(0.4 * 0.6 / 40_000)  # of the share of zeros in 20,000 draws of two branches
  for values in factors.values():
    np.testing.assert_allclose(np.unique(values), [0, 1 / 0.6], rtol=1e-6)
    assert (values == 0).mean() == pytest.approx(0.4, abs=4 * deviation)


@pytest.mark.parametrize('name', marked(NETWORKS, {'deit3'}))
def test_factors_of_one_give_the_bits_of_a_call_without_them(name):
  network, variables = NETWORKS[name], _variables(name)
  ones = drop_factors(variables['params'], 0.0, jax.random.split(jax.random.key(0), 4))
  assert all((x == 1).all() for x in jax.tree.leaves(ones))
  call = jax.jit(lambda v: network.apply(v, IMAGES))
  np.testing.assert_array_equal(call(variables | ones), call(variables))


@pytest.mark.parametrize('name', marked(NETWORKS, {'deit3'}))
def test_a_sample_without_branches_has_the_logits_of_the_network_without_them(name):
  """The other samples have the logits without stochastic depth."""
  network, variables = NETWORKS[name], _variables(name)
  params = traverse_util.flatten_dict(variables['params'], sep='/')
  without = {
    path: jnp.zeros_like(x) if 'block' in path and any(end in path for end in ENDS) else x
    for path, x in params.items()
  }
  if name == 'efficientnet':  # this block has no residual connection
    without |= {path: x for path, x in params.items() if path.startswith('stage2/block0')}
  factors = drop_factors(variables['params'], 0.0, jax.random.split(jax.random.key(0), 4))
  factors = jax.tree.map(lambda x: x.at[1].set(0), factors)
  call = jax.jit(lambda v: network.apply(v, IMAGES))
  logits, undropped = call(variables | factors), call(variables)
  bare = call(variables | {'params': traverse_util.unflatten_dict(without, sep='/')})
  assert np.abs(undropped[1] - bare[1]).max() > 1e-3
  assert_close(logits, undropped.at[1].set(bare[1]))


@pytest.mark.parametrize('name', ['convnext', pytest.param('efficientnet', marks=pytest.mark.slow)])
def test_the_mean_over_draws_is_the_block_without_drops(name):
  """Only the last block has random factors, because its output is linear in them."""
  network, variables = NETWORKS[name], _variables(name)
  outputs = jax.jit(
    lambda v, images: network.apply(
      v, images, capture_intermediates=lambda m, _: m.name == 'stage2', mutable='intermediates'
    )[1]['intermediates']['stage2']['__call__'][0]
  )
  images = jnp.broadcast_to(IMAGES[:1], (4000, *IMAGES.shape[1:]))
  drawn = drop_factors(variables['params'], 0.5, jax.random.split(jax.random.key(3), 4000))
  drawn = traverse_util.flatten_dict(drawn, sep='/')
  last = [*drawn][-1]
  drawn = {path: x if path == last else jnp.ones_like(x) for path, x in drawn.items()}
  values = outputs(variables | traverse_util.unflatten_dict(drawn, sep='/'), images)
  expected = outputs(variables, IMAGES[:1])[0]
  deviation = values.std(0) / np.sqrt(4000)
  assert (jnp.abs(values.mean(0) - expected) <= 4 * deviation + 1e-5).all()
  assert len(np.unique(np.asarray(values[:, 0, 0, 0]).round(4))) == 2


@pytest.mark.slow
@pytest.mark.parametrize('copies', [1, 2])
def test_a_step_is_the_same_on_devices_and_in_micro_batches(make_task, copies):
  pipeline = Pipeline(Policy.of(repeat={'copies': 2}) if copies == 2 else Policy())

  def step(parallel, **settings):
    task = make_task(SHALLOW, batch_size=16, task={'pipeline': pipeline}, **settings)
    state = parallel.replicate(task.initial_state())
    batch = parallel.put_batch(next(iter(task.rows.training_batches(16, 0, 0))))
    return parallel.unreplicate(compiled_step(task, parallel)(state, batch)[0]).params

  single, eight = (MeshParallel(jax.devices()[:count]) for count in (1, 8))
  alone = step(single, drop_path=0.5)
  assert_close(alone, step(eight, drop_path=0.5), 2e-5, 2e-6)
  assert_close(alone, step(single, drop_path=0.5, accumulate=2), 2e-5, 2e-6)
  if copies == 1:
    assert_close(alone, step(PmapParallel(jax.devices()[:8]), drop_path=0.5), 2e-5, 2e-6)
    pairs = zip(jax.tree.leaves(alone), jax.tree.leaves(step(single)), strict=True)
    assert not all(np.array_equal(dropped, undropped) for dropped, undropped in pairs)


@pytest.mark.slow
def test_each_set_of_norms_takes_the_factors_of_its_images(make_task):
  """The changes of two equal sets of layer norms add up to the change of a single set."""
  pipeline = Pipeline(Policy.of(repeat={'copies': 3}))
  single, params = MeshParallel(jax.devices()[:1]), {}
  for count in (0, 1):
    task = make_task(
      SHALLOW, {'pipeline': pipeline}, batch_size=16, auxiliary_norms=count, drop_path=0.8
    )
    state, batch = task.initial_state(), next(iter(task.rows.training_batches(16, 0, 0)))
    after = compiled_step(task, single)(single.replicate(state), single.put_batch(batch))[0]
    params[count] = jax.tree.map(lambda a, b: a - b, after.params, state.params)
  second = traverse_util.flatten_dict(params[1].pop('auxiliary_norms'))
  changes = traverse_util.flatten_dict(params[1])
  assert all(np.abs(x).max() > 0 for x in second.values())
  summed = {path: x + second.get(path, 0) for path, x in changes.items()}
  assert_close(summed, traverse_util.flatten_dict(params[0]), 2e-4, 1e-6)
