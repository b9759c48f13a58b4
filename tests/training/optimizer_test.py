"""The optimizer against steps computed by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import traverse_util

from robustness.models import catalog
from robustness.training import TrainingSettings
from robustness.training.optimizer import create, decayed, in_body, rate_factor

PARAMS = {
  'conv': {'kernel': jnp.array([[1.0, -2.0]]), 'bias': jnp.array([0.5])},
  'bn': {'scale': jnp.array([1.5]), 'bias': jnp.array([0.25])},
}


def _steps(settings, rates, gradients, start):
  optimizer = create(settings, lambda step: jnp.asarray(rates)[step])
  params = {'layer': {'kernel': jnp.asarray(start)}}
  state = optimizer.init(params)
  for gradient in gradients:
    updates, state = optimizer.update({'layer': {'kernel': jnp.asarray(gradient)}}, state, params)
    params = optax.apply_updates(params, updates)
  return float(params['layer']['kernel'])


@pytest.mark.parametrize('nesterov', [True, False])
def test_two_steps_equal_the_hand_computed_ones(nesterov):
  rates, gradients, theta, velocity, momentum, decay = (0.1, 0.05), (2.0, -1.0), 3.0, 0.0, 0.9, 0.01
  result = _steps(
    TrainingSettings(momentum=momentum, weight_decay=decay, nesterov=nesterov),
    rates,
    gradients,
    theta,
  )
  for rate, gradient in zip(rates, gradients, strict=True):
    gradient += decay * theta
    velocity = momentum * velocity + gradient
    theta -= rate * (gradient + momentum * velocity if nesterov else velocity)
  assert result == pytest.approx(theta, rel=1e-6)


def test_it_agrees_with_pytorch():
  torch = pytest.importorskip('torch', reason='PyTorch is not installed')
  gradients = np.random.default_rng(0).normal(size=8)
  parameter = torch.nn.Parameter(torch.tensor(0.7))
  optimizer = torch.optim.SGD([parameter], lr=0.3, momentum=0.9, weight_decay=0.02, nesterov=True)
  for gradient in gradients:
    parameter.grad = torch.tensor(gradient, dtype=torch.float32)
    optimizer.step()
  ours = _steps(TrainingSettings(weight_decay=0.02), [0.3] * 8, gradients, 0.7)
  assert ours == pytest.approx(float(parameter.detach()), rel=1e-5)


@pytest.mark.parametrize(
  ('which', 'touched'),
  [('kernels', {'conv/kernel'}), ('all', {'conv/kernel', 'conv/bias', 'bn/scale', 'bn/bias'})],
)
def test_decay_touches_only_what_it_says(which, touched):
  settings = TrainingSettings(momentum=0.0, nesterov=False, weight_decay=0.5, decay=which)
  optimizer = create(settings, lambda step: 0.1)
  zeros = {
    layer: {name: jnp.zeros_like(x) for name, x in leaves.items()}
    for layer, leaves in PARAMS.items()
  }
  updates, _ = optimizer.update(zeros, optimizer.init(PARAMS), PARAMS)
  flags = decayed(PARAMS, which)
  for layer, leaves in PARAMS.items():
    for name, value in leaves.items():
      expected = -0.1 * 0.5 * value if f'{layer}/{name}' in touched else 0 * value
      np.testing.assert_allclose(updates[layer][name], expected, rtol=1e-6)
      assert flags[layer][name] == (f'{layer}/{name}' in touched)


def _factors(settings, losses, epoch_steps):
  """The factor after each step of a training with these losses."""
  optimizer = create(settings, lambda step: 0.1, epoch_steps)
  state, factors = optimizer.init(PARAMS), []
  for loss in losses:
    _, state = optimizer.update(PARAMS, state, PARAMS, value=jnp.float32(loss))
    factors.append(float(rate_factor(state)))
  return factors


def test_a_plateau_of_the_mean_loss_of_an_epoch_lowers_the_rate():
  settings = TrainingSettings(schedule='plateau', plateau_patience=2, plateau_factor=0.5)
  epochs = [(3.0, 1.0), (2.5, 0.5), (0.0, 3.1), (2.0, 1.2), (1.0, 1.0), (5.0, 5.0), (4.0, 4.0)]
  losses = [loss for epoch in epochs for loss in epoch]  # means 2, 1.5, 1.55, 1.6, 1, 5, 4
  expected = [1.0] * 7 + [0.5] * 6 + [0.25]
  assert _factors(settings, losses, 2) == pytest.approx(expected)


def test_a_plateau_acts_when_pytorch_acts():
  torch = pytest.importorskip('torch', reason='PyTorch is not installed')
  losses = np.random.default_rng(1).uniform(1, 2, 40) + np.linspace(1, 0, 40)
  optimizer = torch.optim.SGD([torch.nn.Parameter(torch.tensor(0.7))], lr=1.0)
  scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=2)
  theirs = []
  for loss in losses:
    scheduler.step(loss)
    theirs.append(optimizer.param_groups[0]['lr'])
  settings = TrainingSettings(schedule='plateau', plateau_patience=3)  # PyTorch waits one more
  assert _factors(settings, losses, 1) == pytest.approx([max(x, 1e-30) for x in theirs], rel=1e-4)
  assert theirs[-1] < 1e-2


def test_the_lowered_rate_is_the_one_that_steps():
  settings = TrainingSettings(schedule='plateau', momentum=0.0, nesterov=False, weight_decay=0.0)
  optimizer = create(settings, lambda step: 0.2)
  state = optimizer.init(PARAMS)
  for loss, factor in ((1.0, 1.0), (1.0, 0.1), (0.5, 0.1)):
    updates, state = optimizer.update(PARAMS, state, PARAMS, value=jnp.float32(loss))
    np.testing.assert_allclose(
      updates['conv']['kernel'], -0.2 * factor * PARAMS['conv']['kernel'], rtol=1e-6
    )
  assert float(rate_factor(create(TrainingSettings(), lambda step: 0.2).init(PARAMS))) == 1.0


def _updates(settings, gradients, params=PARAMS):
  optimizer = create(settings, lambda step: jnp.float32(0.1))
  state = optimizer.init(params)
  for gradient in gradients:
    updates, state = optimizer.update(gradient, state, params)
    params = optax.apply_updates(params, updates)
  return params


GRADIENT = jax.tree.map(lambda x: jnp.full_like(x, 2.0), PARAMS)


def test_adamw_against_steps_written_out():
  settings = TrainingSettings(optimizer='adamw', beta1=0.8, beta2=0.9, weight_decay=0.05)
  params = _updates(settings, [GRADIENT, jax.tree.map(jnp.negative, GRADIENT)])
  for layer, name, decay in (('conv', 'kernel', 0.05), ('bn', 'scale', 0.0)):
    theta, mean, square = np.asarray(PARAMS[layer][name], np.float64), 0.0, 0.0
    for step, g in enumerate((2.0, -2.0), 1):
      mean, square = 0.8 * mean + 0.2 * g, 0.9 * square + 0.1 * g * g
      ratio = mean / (1 - 0.8**step) / (np.sqrt(square / (1 - 0.9**step)) + 1e-8)
      theta = theta - 0.1 * (ratio + decay * theta)
    np.testing.assert_allclose(params[layer][name], theta, rtol=1e-5)


def test_lamb_scales_an_array_by_its_trust_ratio():
  settings = TrainingSettings(optimizer='lamb', weight_decay=0.0)
  params = _updates(settings, [GRADIENT])
  kernel = np.asarray(PARAMS['conv']['kernel'], np.float64)
  update = np.ones_like(kernel)  # Adam's first step is the gradient's sign
  ratio = np.linalg.norm(kernel) / np.linalg.norm(update)
  np.testing.assert_allclose(params['conv']['kernel'], kernel - 0.1 * ratio * update, rtol=1e-5)


def test_clipping_is_by_the_global_norm():
  settings = TrainingSettings(clip_norm=0.5, momentum=0.0, nesterov=False, weight_decay=0.0)
  params = _updates(settings, [GRADIENT])
  change = jax.tree.map(lambda a, b: (a - b) / 0.1, PARAMS, params)
  assert float(optax.tree.norm(change)) == pytest.approx(0.5, rel=1e-5)
  loose = TrainingSettings(clip_norm=50.0, momentum=0.0, nesterov=False, weight_decay=0.0)
  np.testing.assert_allclose(_updates(loose, [GRADIENT])['conv']['bias'], 0.5 - 0.2, rtol=1e-6)


@pytest.mark.parametrize('rate', [0.0, 0.1])
def test_the_body_learns_at_its_own_rate(rate):
  params = {**PARAMS, 'head': {'dense': {'kernel': jnp.array([[1.0]])}}}
  gradient = jax.tree.map(lambda x: jnp.full_like(x, 2.0), params)
  settings = TrainingSettings(body_rate=rate, momentum=0.0, nesterov=False, weight_decay=0.0)
  after = _updates(settings, [gradient], params)
  np.testing.assert_allclose(after['head']['dense']['kernel'], [[1 - 0.2]], rtol=1e-6)
  np.testing.assert_allclose(after['bn']['scale'], [1.5 - 0.2 * rate], rtol=1e-6)


@pytest.mark.parametrize('name', ['small_cnn', 'vgg16', 'squeezenet1_1', 'vit_s32'])
def test_the_body_is_all_but_the_map_to_logits(name):
  """Of VGG the two hidden dense layers are of the body, though the module `head` holds them."""
  architecture = catalog.get(name)
  images = jax.ShapeDtypeStruct((1, *architecture.input_shape), jnp.float32)
  variables = jax.eval_shape(architecture.build(4).init, jax.random.key(0), images)
  flags = traverse_util.flatten_dict(in_body(variables['params']), sep='/')
  last = {path for path, body in flags.items() if not body}
  assert last == {'head/dense/kernel', 'head/dense/bias'}


def test_nothing_decays_where_none_is_asked_for():
  flags = jax.tree.leaves(decayed(PARAMS, 'none'))
  assert not any(flags) and len(flags) == 4
