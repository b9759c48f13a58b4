"""jit over a mesh and pmap have one interface and agree for any number of devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness import parallel
from robustness.parallel.mesh import BATCH, MAX_OUTSTANDING, REPLICATED, MeshParallel
from robustness.parallel.pmap import PmapParallel
from tests import commands
from tests.refusals import bad_setting, refused

KINDS = pytest.mark.parametrize('kind', [MeshParallel, PmapParallel])
MANY_CALLS = """
import jax, numpy as np
jax.config.update('jax_num_cpu_devices', 8)
from robustness.parallel import create
from robustness.parallel.mesh import BATCH, REPLICATED

def step(rows, axis):
  total = jax.numpy.tanh(rows @ rows.T).sum()
  return total if axis is None else jax.lax.psum(total, axis)

for kind in ('jit', 'pmap'):
  way = create(kind)
  compiled = way.compile(lambda rows: step(rows, way.axis_name), (BATCH,), REPLICATED)
  rows = way.put_batch(np.ones((800, 50), np.float32))
  for _ in range(400):
    total = compiled(rows)
  print(float(way.unreplicate(total)))
"""


@KINDS
@pytest.mark.parametrize('count', [1, 2, 8])
def test_a_batched_step_gives_every_row_in_order(kind, count):
  devices = kind(jax.devices()[:count])
  assert devices.num_devices == count
  step = devices.compile(lambda scale, rows: {'y': rows['x'] * scale}, (REPLICATED, BATCH), BATCH)
  rows = np.arange(16, dtype=np.float32).reshape(8, 2)
  gathered = devices.gather(step(devices.replicate(np.float32(3)), devices.put_batch({'x': rows})))
  assert isinstance(gathered['y'], np.ndarray)
  np.testing.assert_array_equal(gathered['y'], 3 * rows)


@KINDS
def test_a_sum_over_the_batch_is_the_same_for_any_number_of_devices(kind):
  values = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
  for count in (1, 3, 8):
    devices = kind(jax.devices()[:count])

    def mean(rows, axis=devices.axis_name):
      local = rows.mean(0)
      return local if axis is None else jax.lax.pmean(local, axis)

    step = devices.compile(mean, (BATCH,), REPLICATED)
    gathered = np.asarray(devices.unreplicate(step(devices.put_batch(values))))
    np.testing.assert_allclose(gathered, values.mean(0), rtol=1e-5, atol=1e-6)


@KINDS
def test_a_replicated_tree_comes_back_and_is_replicated_for_another_step(kind):
  devices = kind(jax.devices()[:4])
  tree = {'a': jnp.arange(3.0), 'b': (jnp.ones((2, 2)), np.int32(7))}
  gathered = jax.tree.map(np.asarray, devices.unreplicate(devices.replicate(tree)))
  jax.tree.map(np.testing.assert_array_equal, gathered, jax.tree.map(np.asarray, tree))
  step = devices.compile(lambda x: x + 1, (REPLICATED,), REPLICATED)
  weights = devices.unreplicate(step(devices.replicate(jnp.arange(3.0))))
  if kind is PmapParallel:  # an indexed device axis would be on all of them
    assert weights.devices() == {jax.devices()[0]}
  np.testing.assert_array_equal(np.asarray(weights), [1, 2, 3])
  again = devices.unreplicate(step(devices.replicate(weights)))
  np.testing.assert_array_equal(np.asarray(again), [2, 3, 4])


def test_the_mesh_splits_the_batch_over_its_devices():
  devices = MeshParallel(jax.devices()[:4])
  placed = devices.put_batch(np.zeros((8, 2), np.float32))
  assert {shard.device for shard in placed.addressable_shards} == set(jax.devices()[:4])
  assert all(shard.data.shape == (2, 2) for shard in placed.addressable_shards)


@pytest.mark.parametrize(('divides', 'count'), [(0, 8), (128, 8), (12, 6), (7, 7), (9, 3), (1, 1)])
def test_the_largest_number_of_devices_that_divides_the_batch_is_used(divides, count):
  for kind, cls in parallel.KINDS.items():
    devices = parallel.create(kind, divides)
    assert type(devices) is cls
    assert devices.num_devices == count
  refused(
    bad_setting('config.parallel', 'jitt', words="did you mean 'jit'"), parallel.create, 'jitt'
  )


@pytest.mark.slow
def test_the_host_waits_for_steps_that_it_dispatched_long_ago():
  # The program runs in a separate process because XLA aborts it without the bound.
  # tanh(50) is 1, so the sum of 800 × 800 products is 640,000; pmap has 8 blocks of 100 × 100.
  assert commands.python('-c', MANY_CALLS, timeout=150).split() == ['640000.0', '80000.0']


@KINDS
def test_donated_results_are_not_waited_for(kind):
  devices = kind(jax.devices()[:2])
  step = devices.compile(lambda x: x + 1, (REPLICATED,), REPLICATED, donate=(0,))
  value = devices.replicate(jnp.zeros(3))
  for _ in range(3 * MAX_OUTSTANDING):
    value = step(value)
  np.testing.assert_array_equal(np.asarray(devices.unreplicate(value)), 3 * MAX_OUTSTANDING)


def test_only_steps_on_several_devices_of_a_cpu_are_bounded_and_they_can_be_lowered():
  single, double = (
    MeshParallel(jax.devices()[:n]).compile(jnp.tanh, (BATCH,), BATCH) for n in (1, 2)
  )
  assert type(single) is type(jax.jit(jnp.tanh)) is not type(double)
  assert 'tanh' in double.lower(jnp.ones(4)).as_text()
