"""Calls that nobody waits for end, on any number of CPU devices."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.parallel import in_flight
from robustness.parallel.mesh import BATCH, REPLICATED, MeshParallel
from robustness.parallel.pmap import PmapParallel

KINDS = [MeshParallel, PmapParallel]
ROOT = pathlib.Path(__file__).resolve().parents[2]
MANY_CALLS = """
import jax, numpy as np
jax.config.update('jax_num_cpu_devices', 8)
from robustness.parallel import create
from robustness.parallel.mesh import BATCH, REPLICATED

def step(rows, axis):
  found = jax.numpy.tanh(rows @ rows.T).sum()
  return found if axis is None else jax.lax.psum(found, axis)

for kind in ('jit', 'pmap'):
  way = create(kind)
  compiled = way.compile(lambda rows: step(rows, way.axis_name), (BATCH,), REPLICATED)
  rows = way.put_batch(np.ones((800, 50), np.float32))
  for _ in range(400):
    total = compiled(rows)
  print(float(way.unreplicate(total)))
"""


def test_the_host_cannot_run_so_far_ahead_that_nothing_ends() -> None:
  # a process of its own, for without the bound XLA aborts it
  done = subprocess.run(
    [sys.executable, '-c', MANY_CALLS],
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=150,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  assert done.stdout.split() == ['640000.0', '80000.0']


@pytest.mark.parametrize('kind', KINDS)
def test_donated_results_are_not_waited_for(kind) -> None:
  way = kind(jax.devices()[:2])
  step = way.compile(lambda x: x + 1, (REPLICATED,), REPLICATED, donate=(0,))
  value = way.replicate(jnp.zeros(3))
  for _ in range(3 * in_flight.MOST):
    value = step(value)
  np.testing.assert_array_equal(np.asarray(way.unreplicate(value)), 3 * in_flight.MOST)


def test_one_device_is_not_bounded() -> None:
  compiled = jax.jit(jnp.tanh)
  assert in_flight.bounded(compiled, jax.devices()[:1], in_flight.Outstanding()) is compiled


def test_a_bounded_function_answers_as_the_compiled_one() -> None:
  step = MeshParallel(jax.devices()[:2]).compile(jnp.tanh, (BATCH,), BATCH)
  assert isinstance(step, in_flight.Bounded)
  assert 'tanh' in step.lower(jnp.ones(4)).as_text()
