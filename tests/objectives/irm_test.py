"""IRM against automatic differentiation of its definition, its options, and its use of devices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from robustness.core.errors import InputError
from robustness.objectives.irm import IRM

LOGITS = jnp.asarray(np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32))
LABELS = jnp.arange(16) % 3
ENVIRONMENTS = jnp.asarray([0] * 9 + [1] * 7)
BATCH = {
  'target': jax.nn.one_hot(LABELS, 3),
  'environment': ENVIRONMENTS,
  'example_id': jnp.arange(16),
}
SETTINGS = IRM(environments=2, penalty=7.0, anneal_steps=0)


def loss(logits, settings=SETTINGS, batch=BATCH, step=0, total=lambda x: x):
  state = {'step': jnp.int32(step)}
  losses, weights, *_ = settings({'logits': logits}, batch, state, total)
  return (losses * weights).sum() / weights.sum()


def risk(logits, rows):
  return lambda w: optax.softmax_cross_entropy(w * logits[rows], BATCH['target'][rows]).mean()


def parts(rows_of, logits=LOGITS):
  return [risk(logits, np.flatnonzero(rows_of == k)) for k in range(2)]


def test_the_penalty_is_the_squared_derivative_of_each_risk() -> None:
  def by_definition(logits):
    risks = parts(np.asarray(ENVIRONMENTS), logits)
    means = jnp.mean(jnp.stack([f(1.0) for f in risks]))
    return means + 7.0 * jnp.mean(jnp.stack([jax.grad(f)(1.0) ** 2 for f in risks]))

  found, gradient = jax.jit(jax.value_and_grad(loss))(LOGITS)
  wanted, wanted_gradient = jax.jit(jax.value_and_grad(by_definition))(LOGITS)
  np.testing.assert_allclose(found, wanted, rtol=1e-5)
  np.testing.assert_allclose(gradient, wanted_gradient, atol=1e-6)


def test_the_unbiased_penalty_multiplies_two_halves() -> None:
  settings = IRM(environments=2, penalty=7.0, anneal_steps=0, estimate='unbiased')
  penalties = []
  for environment in range(2):
    own = np.asarray(ENVIRONMENTS) == environment
    halves = [np.flatnonzero(own & (np.arange(16) % 2 == k)) for k in (0, 1)]
    first, second = (jax.grad(risk(LOGITS, rows))(1.0) for rows in halves)
    penalties.append(first * second)
  plain = np.mean([f(1.0) for f in parts(np.asarray(ENVIRONMENTS))])
  np.testing.assert_allclose(loss(LOGITS, settings), plain + 7 * np.mean(penalties), rtol=1e-5)


def test_without_penalty_and_with_equal_environments_it_is_the_mean_loss() -> None:
  batch = {**BATCH, 'environment': jnp.arange(16) % 2}
  settings = IRM(environments=2, penalty=0.0, anneal_steps=0)
  mean = optax.softmax_cross_entropy(LOGITS, BATCH['target']).mean()
  np.testing.assert_allclose(loss(LOGITS, settings, batch), mean, rtol=1e-6)


def test_the_penalty_counts_fully_after_the_annealing_and_may_scale_the_loss() -> None:
  annealed = IRM(environments=2, penalty=7.0, anneal_steps=10)
  one = IRM(environments=2, penalty=1.0, anneal_steps=0)
  np.testing.assert_allclose(loss(LOGITS, annealed, step=9), loss(LOGITS, one), rtol=1e-6)
  np.testing.assert_allclose(loss(LOGITS, annealed, step=10), loss(LOGITS), rtol=1e-6)
  rescaled = IRM(environments=2, penalty=7.0, anneal_steps=0, rescale=True)
  np.testing.assert_allclose(loss(LOGITS, rescaled), loss(LOGITS) / 7, rtol=1e-6)


@pytest.mark.parametrize('estimate', ['squared', 'unbiased'])
def test_several_images_of_a_row_count_like_rows(estimate: str) -> None:
  settings = IRM(environments=2, penalty=7.0, anneal_steps=0, estimate=estimate)
  pairs = jnp.stack([LOGITS, LOGITS[::-1]], 1)
  long = {name: jnp.repeat(value, 2, 0) for name, value in BATCH.items()}
  expected = loss(pairs.reshape(32, 3), settings, long)
  np.testing.assert_allclose(loss(pairs, settings), expected, rtol=1e-5)


def test_an_environment_that_is_not_there_does_not_count() -> None:
  wider = IRM(environments=5, penalty=7.0, anneal_steps=0)
  np.testing.assert_allclose(loss(LOGITS, wider), loss(LOGITS), rtol=1e-6)


def test_devices_of_a_pmap_give_the_gradient_of_the_whole_batch() -> None:
  def local(scale, logits, target, environment, example_id):
    batch = {'target': target, 'environment': environment, 'example_id': example_id}

    def mean(scale):
      state = {'step': jnp.int32(0)}
      losses, weights, *_ = SETTINGS(
        {'logits': scale * logits}, batch, state, lambda x: jax.lax.psum(x, 'data')
      )
      return (losses * weights).mean(), weights.mean()

    gradient, weight = jax.grad(mean, has_aux=True)(scale)
    gradient, weight = jax.lax.pmean((gradient, weight), 'data')
    return gradient / weight

  cut = [x.reshape(4, 4, *x.shape[1:]) for x in (LOGITS, *BATCH.values())]
  each = jax.pmap(local, 'data', in_axes=(None, 0, 0, 0, 0), devices=jax.devices()[:4])(1.3, *cut)
  whole = jax.grad(lambda scale: loss(scale * LOGITS))(1.3)
  np.testing.assert_allclose(each, np.full(4, whole), rtol=1e-5)


@pytest.mark.parametrize(
  'bad', [{'environments': 0}, {'penalty': -1.0}, {'estimate': 'exact'}, {'column': ''}]
)
def test_bad_settings_are_named(bad) -> None:
  with pytest.raises(InputError, match=next(iter(bad))):
    IRM(**bad)
