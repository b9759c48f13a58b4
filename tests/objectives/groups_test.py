"""Tests CORAL, group DRO and IRM against their definitions, on one device and on several."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from robustness.models import catalog
from robustness.models.layers import sown_features
from robustness.objectives.cross_entropy import cross_entropy
from robustness.objectives.groups import IRM, Coral, GroupDRO, half_of
from tests.cases import cases
from tests.refusals import refused

RANDOM = np.random.default_rng(0)
FEATURES = jnp.asarray(RANDOM.normal(size=(16, 5)).astype(np.float32))
LOGITS = jnp.asarray(RANDOM.normal(size=(16, 3)).astype(np.float32))
ENVIRONMENT = np.array([0] * 6 + [1] * 6 + [2] * 4)
GROUP = np.array([1, 1, 1, 2, 2, 0] + [1] * 6 + [2] * 4)
BATCH = {
  'target': jax.nn.one_hot(jnp.arange(16) % 3, 3),
  'environment': jnp.asarray(ENVIRONMENT),
  'class_group': jnp.asarray(GROUP),
  'label': jnp.arange(16) % 3,
  'example_id': jnp.arange(16),
}
"""Sixteen rows of three environments with 6, 6 and 4 rows."""
LOSSES = np.asarray(cross_entropy(LOGITS, BATCH['target']))
MEANS = np.array([LOSSES[k == ENVIRONMENT].mean() for k in range(3)])
"""The mean cross-entropy of each environment."""
IRM3 = IRM(environments=3, penalty=7.0, anneal_steps=0)
DRO3 = GroupDRO(column='environment', groups=3, step_size=0.5)


call = jax.jit(lambda objective, *arguments: objective(*arguments), static_argnums=(0, 4))


def same(value):
  """Returns a value, which is its sum over a single device."""
  return value


def run(objective, batch=BATCH, logits=LOGITS, features=FEATURES, state=None, total=same):
  """Returns the loss that a step minimises, then losses, weights, state and metrics."""
  state = objective.initial_state(3) if state is None else state
  outputs = {'logits': logits, 'features': features}
  losses, weights, *results = call(objective, outputs, batch, state, total)
  return (losses * weights).sum() / weights.sum(), losses, weights, *results


@cases(
  'column, objective',
  ('label', GroupDRO(groups=2)),
  ('environment', Coral(environments=2)),
  ('environment', IRM(environments=2)),
)
def test_groups_may_be_booleans(column, objective):
  is_first = BATCH[column] == 1
  losses = [
    run(objective, {**BATCH, column: is_first.astype(kind)})[0] for kind in (bool, np.int32)
  ]
  assert losses[0] == losses[1] and np.isfinite(losses[0])


def distance(a: np.ndarray, b: np.ndarray) -> float:
  """Returns CORAL's distance of two sets of features, [N, D] and [M, D]."""
  means = np.mean((a.mean(0) - b.mean(0)) ** 2)
  return means + np.mean((np.cov(a, rowvar=False) - np.cov(b, rowvar=False)) ** 2)


def feature_distance(objective, **arguments) -> jax.Array:
  """Returns the distance among an objective's metrics."""
  return run(objective, **arguments)[-1]['feature_distance']


def test_coral_adds_the_mean_distance_of_pairs_to_the_mean_loss_of_environments():
  # means (1, 0) and (0, 1), and a variance of 2 in one feature: (1 + 1) / 2 + (2² + 2²) / 4 = 3
  features = jnp.array([[0.0, 0], [2, 0], [0, 0], [0, 2]])
  batch = {'target': jnp.eye(3)[jnp.array([0, 1, 2, 0])], 'environment': jnp.array([0, 0, 1, 1])}
  _, losses, *_, metrics = run(Coral(penalty=2.0), batch, jnp.zeros((4, 3)), features)
  np.testing.assert_allclose(metrics['feature_distance'], 3.0)
  np.testing.assert_allclose(losses, np.log(3) + 2 * 3.0, rtol=1e-6)
  sets = [np.asarray(FEATURES)[k == ENVIRONMENT] for k in range(3)]
  expected = np.mean([distance(a, b) for a, b in itertools.combinations(sets, 2)])
  loss, *_, metrics = run(Coral(environments=3, penalty=4.0))
  np.testing.assert_allclose(metrics['feature_distance'], expected, rtol=1e-5)
  np.testing.assert_allclose(loss, MEANS.mean() + 4 * expected, rtol=1e-5)


def test_coral_may_compare_rows_of_the_same_classes():
  x, clean = np.asarray(FEATURES), ENVIRONMENT == 0
  expected = np.mean([distance(x[k == ENVIRONMENT], x[clean & (k == GROUP)]) for k in (1, 2)])
  objective = Coral(environments=3, pairs='same_classes')
  np.testing.assert_allclose(feature_distance(objective), expected, rtol=1e-5)
  assert objective.columns == ('environment', 'class_group')
  assert Coral().columns == DRO3.columns == ('environment',) and GroupDRO().columns == ('label',)


def test_environments_of_a_single_row_have_no_distance():
  single = {**BATCH, 'environment': (jnp.arange(16) == 3).astype(int)}
  assert feature_distance(Coral(), batch=single) == 0
  views = jnp.stack([FEATURES, 2 * FEATURES, FEATURES[::-1]], 1)
  assert feature_distance(Coral(), batch=single, features=views) == 0, 'three images of one row'


@cases(
  'objective',
  Coral(environments=3),
  IRM3,
  IRM(environments=3, penalty=7.0, anneal_steps=0, estimate='unbiased'),
)
def test_several_images_of_a_row_are_rows_of_its_environment(objective):
  images, features = (jnp.stack([x, x[::-1]], 1) for x in (LOGITS, FEATURES))
  repeated = {name: jnp.repeat(value, 2, 0) for name, value in BATCH.items()}
  expected = run(objective, repeated, images.reshape(32, 3), features.reshape(32, 5))[0]
  np.testing.assert_allclose(run(objective, BATCH, images, features)[0], expected, rtol=1e-5)


@cases('objective', Coral(environments=3, penalty=2.0), IRM3, DRO3)
def test_label_smoothing_equals_smoothed_targets(objective):
  smoothed = {**BATCH, 'target': 0.8 * BATCH['target'] + 0.2 / 3}
  loss = run(dataclasses.replace(objective, label_smoothing=0.2))[0]
  np.testing.assert_allclose(loss, run(objective, smoothed)[0], rtol=1e-6)
  assert abs(loss - run(objective)[0]) > 1e-3


@pytest.mark.slow
@cases('objective', Coral(environments=3, penalty=2.0), IRM3, DRO3)
def test_devices_of_a_pmap_give_the_gradient_of_the_whole_batch(objective):
  def local(scale, logits, features, batch):
    def mean(scale):
      outputs, state = {'logits': scale * logits, 'features': features}, objective.initial_state(3)
      losses, weights, *_ = objective(outputs, batch, state, lambda x: jax.lax.psum(x, 'data'))
      return (losses * weights).mean(), weights.mean()

    gradient, weight = jax.grad(mean, has_aux=True)(scale)
    gradient, weight = jax.lax.pmean((gradient, weight), 'data')
    return gradient / weight

  parts = jax.tree.map(lambda x: x.reshape(4, 4, *x.shape[1:]), (LOGITS, FEATURES, BATCH))
  mapped = jax.pmap(local, 'data', in_axes=(None, 0, 0, 0), devices=jax.devices()[:4])
  gradients = mapped(1.3, *parts)
  expected = jax.grad(lambda scale: run(objective, logits=scale * LOGITS)[0])(1.3)
  np.testing.assert_allclose(gradients, np.full(4, expected), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['small_cnn', 'resnet20', 'vgg16', 'squeezenet1_1', 'vit_s32'])
def test_features_are_the_input_of_the_last_linear_map(name):
  architecture = catalog.get(name)
  model = architecture.build(4)
  images = jax.ShapeDtypeStruct((2, *architecture.input_shape), jnp.float32)

  def outputs_and_kernel(images):
    variables = model.init(jax.random.key(0), images)
    assert 'intermediates' not in variables
    logits, state = model.apply(variables, images, mutable=['intermediates'])
    dense = variables['params']['head']['dense']
    return logits, sown_features(state['intermediates']), dense

  logits, features, dense = jax.eval_shape(outputs_and_kernel, images)
  assert features.shape == (2, dense['kernel'].shape[0])
  if name == 'small_cnn':
    noise = jax.random.uniform(jax.random.key(1), images.shape)
    logits, features, dense = jax.device_get(jax.jit(outputs_and_kernel)(noise))
    np.testing.assert_allclose(features @ dense['kernel'] + dense['bias'], logits, atol=1e-5)


def test_group_dro_moves_shares_to_groups_of_large_loss():
  share, state = np.full(3, 1 / 3), DRO3.initial_state(10)
  for _ in range(20):
    loss, _, _, state, metrics = run(DRO3, state=state)
    share = share * np.exp(0.5 * MEANS)
    share /= share.sum()
    np.testing.assert_allclose(state['share'], share, rtol=1e-5)
    assert float(loss) == pytest.approx(float(share @ MEANS), rel=1e-5)
    assert float(metrics['worst_group_loss']) == pytest.approx(MEANS.max(), rel=1e-5)
  assert np.argmax(state['share']) == MEANS.argmax() and float(metrics['largest_share']) > 0.5
  assert GroupDRO().initial_state(7)['share'].shape == (7,), 'classes are groups by default'


def test_a_group_without_rows_has_no_weight_and_keeps_its_share():
  objective = GroupDRO(column='environment', groups=5, step_size=0.1)
  _, _, weights, state, _ = run(objective)
  assert np.isfinite(np.asarray(weights)).all()
  np.testing.assert_allclose(state['share'][3:], state['share'][3], rtol=1e-6)
  outside = {**BATCH, 'environment': BATCH['environment'].at[0].set(9)}
  assert float(run(objective, outside)[2][0]) == 0
  wider = IRM(environments=5, penalty=7.0, anneal_steps=0)
  np.testing.assert_allclose(run(wider)[0], run(IRM3)[0], rtol=1e-6)


def risk(logits, rows):
  """Returns the mean cross-entropy of some rows as a function of a factor of their logits."""
  return lambda w: optax.softmax_cross_entropy(w * logits[rows], BATCH['target'][rows]).mean()


def test_the_penalty_of_irm_is_the_squared_derivative_of_each_risk():
  def by_definition(logits):
    risks = [risk(logits, np.flatnonzero(k == ENVIRONMENT)) for k in range(3)]
    means = jnp.mean(jnp.stack([f(1.0) for f in risks]))
    return means + 7.0 * jnp.mean(jnp.stack([jax.grad(f)(1.0) ** 2 for f in risks]))

  loss, gradient = jax.jit(jax.value_and_grad(lambda z: run(IRM3, logits=z)[0]))(LOGITS)
  expected, expected_gradient = jax.jit(jax.value_and_grad(by_definition))(LOGITS)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  np.testing.assert_allclose(gradient, expected_gradient, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize('step', [1, 2])
def test_the_unbiased_penalty_multiplies_two_halves(step):
  """Ids in steps of 2, which are all even, are divided into two halves too."""
  objective = IRM(environments=3, penalty=7.0, anneal_steps=0, estimate='unbiased')
  ids, penalties = step * jnp.arange(16), []
  for k in range(3):
    masks = [(k == ENVIRONMENT) & (np.asarray(half_of(ids)) == part) for part in (0, 1)]
    halves = [np.flatnonzero(rows) for rows in masks]
    assert min(map(len, halves)) > 0
    first, second = (jax.grad(risk(LOGITS, rows))(1.0) for rows in halves)
    penalties.append(first * second)
  loss = run(objective, {**BATCH, 'example_id': ids})[0]
  np.testing.assert_allclose(loss, MEANS.mean() + 7 * np.mean(penalties), rtol=1e-5)


def test_the_penalty_counts_fully_after_the_annealing_and_may_scale_the_loss():
  def loss(step=0, **settings):
    irm = IRM(**{'environments': 3, 'penalty': 7.0, 'anneal_steps': 0} | settings)
    return run(irm, state={'step': jnp.int32(step)})[0]

  np.testing.assert_allclose(loss(9, anneal_steps=10), loss(penalty=1.0), rtol=1e-6)
  np.testing.assert_allclose(loss(10, anneal_steps=10), loss(), rtol=1e-6)
  np.testing.assert_allclose(loss(rescale=True), loss() / 7, rtol=1e-6)


@cases(
  'objective, setting, value',
  *((Coral, 'environments', 1), (Coral, 'penalty', -1.0), (Coral, 'pairs', 'some')),
  *((Coral, 'column', ''), (GroupDRO, 'column', ''), (GroupDRO, 'groups', -1)),
  *((GroupDRO, 'step_size', 0.0), (GroupDRO, 'step_size', np.inf), (IRM, 'environments', 0)),
  *((IRM, 'penalty', np.inf), (IRM, 'penalty', -1.0), (IRM, 'estimate', 'exact')),
  (IRM, 'column', ''),
)
def test_bad_settings_are_named(objective, setting, value):
  refused(rf'objective\.{objective.name}\.{setting}', objective, **{setting: value})
