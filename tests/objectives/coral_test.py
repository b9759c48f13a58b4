"""CORAL against its formula in NumPy, by hand, its options, and its use of devices and features."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models import catalog
from robustness.models.layers import sown_features
from robustness.objectives.coral import Coral
from robustness.objectives.cross_entropy import cross_entropy

RANDOM = np.random.default_rng(0)
FEATURES = jnp.asarray(RANDOM.normal(size=(16, 5)).astype(np.float32))
LOGITS = jnp.asarray(RANDOM.normal(size=(16, 3)).astype(np.float32))
ENVIRONMENT = np.array([0] * 6 + [1] * 6 + [2] * 4)
GROUP = np.array([1, 1, 1, 2, 2, 0] + [1] * 6 + [2] * 4)
BATCH = {
  'target': jax.nn.one_hot(jnp.arange(16) % 3, 3),
  'environment': jnp.asarray(ENVIRONMENT),
  'class_group': jnp.asarray(GROUP),
}


objective = jax.jit(lambda own, *given: own(*given), static_argnums=(0, 4))


def alone(value):
  """The sum over a single device."""
  return value


def parts(settings, features=FEATURES, batch=BATCH, total=alone):
  outputs = {'logits': LOGITS, 'features': features}
  losses, weights, _, metrics = objective(settings, outputs, batch, {}, total)
  return (losses * weights).sum() / weights.sum(), metrics['feature_distance']


def distance(a: np.ndarray, b: np.ndarray) -> float:
  means = np.mean((a.mean(0) - b.mean(0)) ** 2)
  return means + np.mean((np.cov(a, rowvar=False) - np.cov(b, rowvar=False)) ** 2)


def test_two_sets_by_hand() -> None:
  features = jnp.array([[0.0, 0], [2, 0], [0, 0], [0, 2]])
  batch = {'target': jnp.eye(3)[jnp.array([0, 1, 2, 0])], 'environment': jnp.array([0, 0, 1, 1])}
  for name, expected in (('domain_bed', 3.0), ('deep_coral', 0.5)):
    outputs = {'logits': jnp.zeros((4, 3)), 'features': features}
    settings = Coral(distance=name, penalty=2.0)
    losses, *_, metrics = objective(settings, outputs, batch, {}, alone)
    np.testing.assert_allclose(metrics['feature_distance'], expected)
    np.testing.assert_allclose(losses, np.log(3) + 2 * expected, rtol=1e-6)


def test_it_is_the_mean_loss_of_environments_and_the_mean_distance_of_pairs() -> None:
  sets = [np.asarray(FEATURES)[k == ENVIRONMENT] for k in range(3)]
  expected = np.mean([distance(a, b) for a, b in itertools.combinations(sets, 2)])
  losses = np.asarray(cross_entropy(LOGITS, BATCH['target']))
  plain = np.mean([losses[k == ENVIRONMENT].mean() for k in range(3)])
  loss, measured = parts(Coral(environments=3, penalty=4.0))
  np.testing.assert_allclose(measured, expected, rtol=1e-5)
  np.testing.assert_allclose(loss, plain + 4 * expected, rtol=1e-5)


def test_deep_coral_is_the_frobenius_norm_of_the_paper() -> None:
  batch = {**BATCH, 'environment': jnp.minimum(BATCH['environment'], 1)}
  first, second = np.asarray(FEATURES)[:6], np.asarray(FEATURES)[6:]
  change = np.cov(first, rowvar=False) - np.cov(second, rowvar=False)
  expected = np.linalg.norm(change) ** 2 / (4 * 5**2)
  settings = Coral(distance='deep_coral')
  np.testing.assert_allclose(parts(settings, batch=batch)[1], expected, rtol=1e-5)


def test_same_classes_are_compared_where_that_is_asked_for() -> None:
  x, clean = np.asarray(FEATURES), ENVIRONMENT == 0
  expected = np.mean([distance(x[k == ENVIRONMENT], x[clean & (k == GROUP)]) for k in (1, 2)])
  settings = Coral(environments=3, pairs='same_classes')
  np.testing.assert_allclose(parts(settings)[1], expected, rtol=1e-5)
  assert settings.columns == ('environment', 'class_group')
  assert Coral().columns == ('environment',)


def test_equal_sets_and_sets_of_a_single_row_add_nothing() -> None:
  settings = Coral(environments=2)
  twice = jnp.concatenate([FEATURES[:8], FEATURES[:8][::-1]])
  halves = {**BATCH, 'environment': jnp.arange(16) // 8}
  np.testing.assert_allclose(parts(settings, twice, halves)[1], 0, atol=1e-6)
  single = {**BATCH, 'environment': (jnp.arange(16) == 3).astype(int)}
  assert parts(settings, batch=single)[1] == 0


def test_several_images_of_a_row_are_rows_of_its_environment() -> None:
  pairs = jnp.stack([FEATURES, 2 * FEATURES], 1)
  long = {name: jnp.repeat(value, 2, 0) for name, value in BATCH.items()}
  settings = Coral(environments=3)
  outputs = {'logits': jnp.repeat(LOGITS, 2, 0), 'features': pairs.reshape(32, 5)}
  *_, metrics = objective(settings, outputs, long, {}, alone)
  assert parts(settings, pairs)[1] == metrics['feature_distance']


def test_devices_of_a_pmap_give_the_gradient_of_the_whole_batch() -> None:
  settings = Coral(environments=3, penalty=2.0)

  def local(scale, features, logits, target, environment):
    def mean(scale):
      outputs = {'logits': scale * logits, 'features': scale * features}
      batch = {'target': target, 'environment': environment}
      losses, weights, *_ = settings(outputs, batch, {}, lambda x: jax.lax.psum(x, 'data'))
      return (losses * weights).mean(), weights.mean()

    gradient, weight = jax.grad(mean, has_aux=True)(scale)
    gradient, weight = jax.lax.pmean((gradient, weight), 'data')
    return gradient / weight

  def whole(scale):
    outputs = {'logits': scale * LOGITS, 'features': scale * FEATURES}
    losses, weights, *_ = settings(outputs, BATCH, {}, alone)
    return (losses * weights).sum() / weights.sum()

  given = (FEATURES, LOGITS, BATCH['target'], BATCH['environment'])
  cut = [x.reshape(4, 4, *x.shape[1:]) for x in given]
  each = jax.pmap(local, 'data', in_axes=(None, 0, 0, 0, 0), devices=jax.devices()[:4])(1.3, *cut)
  np.testing.assert_allclose(each, np.full(4, jax.jit(jax.grad(whole))(1.3)), rtol=1e-5)


@pytest.mark.parametrize('name', ['small_cnn', 'resnet20', 'vgg16', 'squeezenet1_1', 'vit_s32'])
def test_features_are_what_the_last_linear_map_is_given(name: str) -> None:
  architecture = catalog.get(name)
  model = architecture.build(4)
  images = jax.ShapeDtypeStruct((2, *architecture.input_shape), jnp.float32)

  def both(images):
    variables = model.init(jax.random.key(0), images)
    assert 'intermediates' not in variables
    logits, state = model.apply(variables, images, mutable=['intermediates'])
    dense = variables['params']['head']['dense']
    return logits, sown_features(state['intermediates']), dense

  logits, features, dense = jax.eval_shape(both, images)
  assert features.shape == (2, dense['kernel'].shape[0])
  if name == 'small_cnn':
    noise = jax.random.uniform(jax.random.key(1), images.shape)
    logits, features, dense = jax.device_get(jax.jit(both)(noise))
    np.testing.assert_allclose(features @ dense['kernel'] + dense['bias'], logits, atol=1e-5)


def test_a_network_that_tells_no_features_is_refused() -> None:
  with pytest.raises(InputError, match=r'self\.sow'):
    sown_features({'stage1': {'__call__': (jnp.zeros(1),)}})


@pytest.mark.parametrize(
  'bad',
  [{'environments': 1}, {'penalty': -1.0}, {'distance': 'mmd'}, {'pairs': 'some'}, {'column': ''}],
)
def test_bad_settings_are_named(bad) -> None:
  with pytest.raises(InputError, match=next(iter(bad))):
    Coral(**bad)
